/* simnet.c - a network of one hub and many peers in virtual time. */
#include "bench/simnet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AHEAD_US = 100000, MESSAGE_WORDS = 16, SIZE_CLASSES = 16 };

enum event_kind { EVENT_DELIVER, EVENT_CHECK, EVENT_TIMER };

struct event {
    int64_t at_us;
    uint64_t order;
    enum event_kind kind;
    uint32_t node;
    uint64_t what;
    struct simnet_message *message;
    int64_t due_us; /* in a node's queue */
    uint32_t cut;   /* the pair's number of cuts when it was sent */
};

struct heap {
    struct event *events;
    size_t count, capacity;
};

/* One direction between the hub and a peer. */
struct pair {
    int64_t latency_us; /* negative: not drawn yet */
    double rate, allowance;
    int64_t filled_us;
};

struct node {
    struct heap queue;
    bool working;
    uint64_t sent, received;
    uint32_t cuts;
    struct pair out, in; /* to and from the hub */
};

struct simnet {
    struct simnet_config config;
    struct heap events;
    struct node *nodes;
    int64_t now_us;
    uint64_t order;
    uint64_t random[2];
    bool stopped;
    struct simnet_message *spare[SIZE_CLASSES];
};

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

/* ---- Chance ------------------------------------------------------------- */

/* xorshift128+: good enough here, and the same everywhere. */
uint64_t simnet_random(simnet *net)
{
    uint64_t a = net->random[0], b = net->random[1];

    net->random[0] = b;
    a ^= a << 23;
    net->random[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
    return net->random[1] + b;
}

double simnet_chance(simnet *net)
{
    return (double)(simnet_random(net) >> 11) * 0x1p-53;
}

/* The sum of twelve uniforms is normal enough, and needs no library whose last bits
 * differ from one processor to the next. */
static double normal(simnet *net, double mean, double spread)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += simnet_chance(net);
    return mean + spread * sum;
}

/* ---- Heaps -------------------------------------------------------------- */

static bool event_before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void heap_push(struct heap *heap, struct event event)
{
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity == 0 ? 16 : heap->capacity * 2;
        heap->events = must(realloc(heap->events, heap->capacity * sizeof event));
    }

    size_t at = heap->count++;

    while (at > 0 && event_before(&event, &heap->events[(at - 1) / 2])) {
        heap->events[at] = heap->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->events[at] = event;
}

static struct event heap_pop(struct heap *heap)
{
    struct event top = heap->events[0];
    struct event last = heap->events[--heap->count];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count &&
            event_before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!event_before(&heap->events[child], &last))
            break;
        heap->events[at] = heap->events[child];
    }
    if (heap->count > 0)
        heap->events[at] = last;
    return top;
}

/* ---- Making one --------------------------------------------------------- */

simnet *simnet_new(const struct simnet_config *config)
{
    simnet *net = must(calloc(1, sizeof *net));

    net->config = *config;
    net->nodes = must(calloc(config->peers + 1u, sizeof *net->nodes));
    net->random[0] = config->seed * 0x9e3779b97f4a7c15u + 1;
    net->random[1] = 0xd1b54a32d192ed03u ^ config->seed;
    for (int i = 0; i < 16; i++)
        simnet_random(net);
    for (uint32_t i = 0; i <= config->peers; i++)
        net->nodes[i].out.latency_us = net->nodes[i].in.latency_us = -1;
    return net;
}

void simnet_free(simnet *net)
{
    if (net == NULL)
        return;
    for (size_t i = 0; i < net->events.count; i++)
        free(net->events.events[i].message);
    free(net->events.events);
    for (uint32_t n = 0; n <= net->config.peers; n++) {
        struct heap *queue = &net->nodes[n].queue;

        for (size_t i = 0; i < queue->count; i++)
            free(queue->events[i].message);
        free(queue->events);
    }
    for (size_t i = 0; i < SIZE_CLASSES; i++)
        while (net->spare[i] != NULL) {
            struct simnet_message *message = net->spare[i];

            net->spare[i] = message->next;
            free(message);
        }
    free(net->nodes);
    free(net);
}

int64_t simnet_now_us(const simnet *net)
{
    return net->now_us;
}

uint64_t simnet_sent(const simnet *net, uint32_t node)
{
    return net->nodes[node].sent;
}

uint64_t simnet_received(const simnet *net, uint32_t node)
{
    return net->nodes[node].received;
}

/* ---- Messages ----------------------------------------------------------- */

static size_t size_class(uint32_t capacity)
{
    size_t class = 0;

    while ((uint32_t)MESSAGE_WORDS << class < capacity)
        class ++;
    return class;
}

static struct simnet_message *message_take(simnet *net, uint32_t capacity)
{
    size_t class = size_class(capacity);
    struct simnet_message *message = net->spare[class];

    assert(class < SIZE_CLASSES);
    capacity = (uint32_t)MESSAGE_WORDS << class;
    if (message != NULL)
        net->spare[class] = message->next;
    else
        message = must(malloc(sizeof *message + capacity * sizeof message->words[0]));
    message->capacity = capacity;
    message->count = 0;
    return message;
}

static void message_give(simnet *net, struct simnet_message *message)
{
    size_t class = size_class(message->capacity);

    message->next = net->spare[class];
    net->spare[class] = message;
}

struct simnet_message *simnet_message_new(simnet *net, uint32_t from, uint32_t to)
{
    struct simnet_message *message = message_take(net, MESSAGE_WORDS);

    assert((from == 0) != (to == 0));
    message->from = from;
    message->to = to;
    message->size = 0;
    return message;
}

struct simnet_message *simnet_message_add(simnet *net, struct simnet_message *message,
                                          uint32_t word)
{
    if (message->count == message->capacity) {
        struct simnet_message *larger = message_take(net, message->capacity * 2);
        uint32_t capacity = larger->capacity;

        memcpy(larger, message, sizeof *message + message->count * sizeof message->words[0]);
        larger->capacity = capacity;
        message_give(net, message);
        message = larger;
    }
    message->words[message->count++] = word;
    return message;
}

/* ---- Sending ------------------------------------------------------------ */

static struct pair *pair_ready(simnet *net, struct pair *pair)
{
    const struct simnet_config *config = &net->config;

    if (pair->latency_us >= 0)
        return pair;

    double latency = normal(net, config->base_us, config->spread_us);
    double kind = simnet_chance(net);

    if (kind < config->large_share)
        latency += config->large_us;
    else if (kind < config->large_share + config->medium_share)
        latency += config->medium_us;
    pair->latency_us = latency > 0 ? (int64_t)latency : 0;
    if (config->rate > 0) {
        pair->rate = normal(net, config->rate, config->rate_spread);
        if (pair->rate < config->rate / 100)
            pair->rate = config->rate / 100;
        pair->filled_us = net->now_us;
    }
    return pair;
}

int64_t simnet_round_trip_us(simnet *net, uint32_t peer)
{
    return pair_ready(net, &net->nodes[peer].out)->latency_us +
           pair_ready(net, &net->nodes[peer].in)->latency_us;
}

static int64_t bandwidth_delay_us(simnet *net, struct pair *pair, uint64_t size)
{
    if (pair->rate <= 0)
        return 0;
    pair->allowance += (double)(net->now_us - pair->filled_us) * pair->rate / 1e6;
    pair->filled_us = net->now_us;
    if (pair->allowance > pair->rate)
        pair->allowance = pair->rate;
    pair->allowance -= (double)size;
    return pair->allowance < 0 ? (int64_t)(-pair->allowance / pair->rate * 1e6) : 0;
}

/* The receiver looks at its queue, unless it is at work or asleep. */
static void node_check(simnet *net, uint32_t number)
{
    struct node *node = &net->nodes[number];

    if (node->working || node->queue.count == 0)
        return;
    node->working = true;
    if (!net->config.prompt && node->queue.events[0].at_us - net->now_us >= LOOK_AHEAD_US) {
        heap_push(&net->events, (struct event){ .at_us = net->now_us + LOOK_AHEAD_US,
                                                .order = net->order++,
                                                .kind = EVENT_CHECK,
                                                .node = number });
        return;
    }

    struct event head = heap_pop(&node->queue);

    if (head.at_us < net->now_us)
        head.at_us = net->now_us;
    head.order = net->order++;
    heap_push(&net->events, head);
}

static void message_queue(simnet *net, struct simnet_message *message, int64_t due_us)
{
    uint32_t peer = message->from == 0 ? message->to : message->from;

    heap_push(&net->nodes[message->to].queue, (struct event){ .at_us = due_us,
                                                              .order = net->order++,
                                                              .kind = EVENT_DELIVER,
                                                              .node = message->to,
                                                              .message = message,
                                                              .cut = net->nodes[peer].cuts });
    node_check(net, message->to);
}

void simnet_send(simnet *net, struct simnet_message *message, int64_t delay_us)
{
    const struct simnet_config *config = &net->config;
    uint32_t peer = message->from == 0 ? message->to : message->from;
    struct pair *pair =
        pair_ready(net, message->from == 0 ? &net->nodes[peer].in : &net->nodes[peer].out);
    int64_t due_us = net->now_us + delay_us + pair->latency_us +
                     bandwidth_delay_us(net, pair, message->size);

    net->nodes[message->from].sent++;
    if (config->jitter_us > 0)
        due_us += (int64_t)(simnet_chance(net) * config->jitter_us);
    if (config->loss_share > 0 && simnet_chance(net) < config->loss_share) {
        message_give(net, message);
        return;
    }
    if (config->duplicate_share > 0 && simnet_chance(net) < config->duplicate_share) {
        struct simnet_message *copy = message_take(net, message->capacity);

        memcpy(copy, message, sizeof *message + message->count * sizeof message->words[0]);
        message_queue(net, copy, due_us + (int64_t)(simnet_chance(net) * config->jitter_us));
    }
    message_queue(net, message, due_us);
}

void simnet_drop(simnet *net, struct simnet_message *message)
{
    message_give(net, message);
}

void simnet_cut(simnet *net, uint32_t peer)
{
    net->nodes[peer].cuts++;
}

void simnet_timer(simnet *net, int64_t at_us, uint64_t what)
{
    heap_push(&net->events, (struct event){ .at_us = at_us < net->now_us ? net->now_us : at_us,
                                            .order = net->order++,
                                            .kind = EVENT_TIMER,
                                            .what = what });
}

/* ---- Running ------------------------------------------------------------ */

static void deliver(simnet *net, const struct event *event)
{
    struct node *node = &net->nodes[event->node];
    struct simnet_message *message = event->message;
    uint32_t peer = message->from == 0 ? message->to : message->from;
    int64_t busy_us = 0;

    if (event->cut == net->nodes[peer].cuts) {
        node->received++;
        busy_us = net->config.deliver(net->config.context, event->node, message);
    }
    message_give(net, message);
    if (busy_us > 0) {
        heap_push(&net->events, (struct event){ .at_us = net->now_us + busy_us,
                                                .order = net->order++,
                                                .kind = EVENT_CHECK,
                                                .node = event->node });
        return;
    }
    node->working = false;
    node_check(net, event->node);
}

bool simnet_run(simnet *net, int64_t until_us)
{
    net->stopped = false;
    while (net->events.count > 0 && !net->stopped && net->events.events[0].at_us <= until_us) {
        struct event event = heap_pop(&net->events);

        net->now_us = event.at_us;
        switch (event.kind) {
        case EVENT_DELIVER:
            deliver(net, &event);
            break;
        case EVENT_CHECK:
            net->nodes[event.node].working = false;
            node_check(net, event.node);
            break;
        case EVENT_TIMER:
            net->config.timer(net->config.context, event.what);
            break;
        }
    }
    return net->stopped;
}

void simnet_stop(simnet *net)
{
    net->stopped = true;
}
