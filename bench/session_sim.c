/* session_sim.c - a session fetching over simnet. */
#include "bench/session_sim.h"

#include "bench/simnet.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_US = 15,          /* to take a block in */
    SEND_US = 4,            /* from a request to its message */
    REPLY_NEW = 16 << 10,   /* where peers split their answers, default mode */
    REPLY_2018 = 512 << 10, /* and in 2018 */
    ENTRY_SIZE = 40,        /* bytes of a request on the wire */
    CHURN_PER_SECOND = 20,
    CHURN_US = 20000000, /* then the network calms down */
    DOWN_US = 200000,    /* how long a peer that died stays away */
    SLOW_FACTOR = 20
};

/* Words of a message: what, then which block. */
enum word {
    WORD_ASK,
    WORD_ASK_QUIET,
    WORD_ASK_HAVE,
    WORD_CANCEL,
    WORD_BLOCK,
    WORD_BAD,
    WORD_HAVE,
    WORD_MISSING
};

enum timer { TIMER_WAKE, TIMER_POLL, TIMER_ORDER, TIMER_BLOCK, TIMER_DISCONNECT, TIMER_RETURN };

struct sim {
    const struct sim_run *run;
    const struct sim_row *row;
    simnet *net;
    session_machine *session;
    bool of_2018;

    uint8_t (*ids)[SESSION_ID_SIZE];
    uint64_t *held; /* bits: peer * words + block */
    size_t words;
    session_peer *slots; /* of each node */
    uint32_t *nodes;     /* of each slot */
    uint8_t *delivered;  /* times, of each block */
    uint32_t *order;     /* blocks in the order of asking */
    uint32_t asked, done;
    uint32_t banned;

    bool poll_set;
    int64_t wake_us;
    uint64_t wakes;
    struct sim_result result;
};

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void must_be(bool right)
{
    if (!right)
        abort();
}

/* ---- Who has what ------------------------------------------------------- */

static bool holds(const struct sim *sim, uint32_t node, uint32_t block)
{
    return (sim->held[(node - 1) * sim->words + block / 64] >> (block % 64) & 1) != 0;
}

static void give(struct sim *sim, uint32_t node, uint32_t block)
{
    sim->held[(node - 1) * sim->words + block / 64] |= 1ull << (block % 64);
}

static bool placed(struct sim *sim, uint32_t node, uint32_t block, uint32_t chosen)
{
    uint32_t count = sim->row->blocks;

    switch (sim->row->placement) {
    case PLACE_ALL:
        break;
    case PLACE_OVERLAP1:
        return node == 1 ? block < count * 3 / 4 : block >= count / 4;
    case PLACE_OVERLAP3:
        return block % 3 == 0 || (node == 1) == (block % 2 == 1);
    case PLACE_ONE_PEER:
        return node == chosen;
    case PLACE_LAST_PEER:
        return node == sim->row->peers ? block + 1 == count : block + 1 < count;
    case PLACE_RANDOM:
        return node == chosen || simnet_chance(sim->net) < 0.5;
    }
    return false;
}

static void place(struct sim *sim)
{
    if (sim->row->placement == PLACE_ALL)
        memset(sim->held, 0xff, sim->row->peers * sim->words * sizeof *sim->held);
    for (uint32_t block = 0; block < sim->row->blocks; block++) {
        uint32_t chosen = 1 + (uint32_t)(simnet_random(sim->net) % sim->row->peers);

        for (size_t i = 0; i < SESSION_ID_SIZE / 8; i++) {
            uint64_t word = simnet_random(sim->net);

            memcpy(&sim->ids[block][8 * i], &word, sizeof word);
        }
        for (uint32_t node = 1; node <= sim->row->peers; node++)
            if (sim->row->placement != PLACE_ALL && placed(sim, node, block, chosen))
                give(sim, node, block);
    }
}

/* ---- Asking in the row's order ------------------------------------------ */

static void request(struct sim *sim, uint32_t count)
{
    session_request requests[256];
    int64_t now_us = simnet_now_us(sim->net);

    while (count > 0) {
        uint32_t some = count < 256 ? count : 256;

        for (uint32_t i = 0; i < some; i++) {
            uint32_t block = sim->order[sim->asked + i];

            requests[i] = (session_request){ .id = sim->ids[block], .tag = block };
        }
        must_be(session_want(sim->session, now_us, requests, some, NULL) == KV_OK);
        sim->asked += some;
        count -= some;
    }
}

/* In one call, as the order says, once everything asked for has come. */
static void request_next(struct sim *sim)
{
    uint32_t left = sim->row->blocks - sim->asked;
    uint32_t count = left;

    if (left == 0 || sim->done != sim->asked)
        return;
    switch (sim->row->order) {
    case ORDER_ONE_AT_A_TIME:
        count = 1;
        break;
    case ORDER_BY_10:
        count = 10;
        break;
    case ORDER_UNIXFS:
        count = sim->asked == 0 ? 1 : sim->asked == 1 ? 10 : left;
        break;
    case ORDER_ALL:
    case ORDER_CONCURRENT:
        break;
    }
    request(sim, count < left ? count : left);
}

/* ---- The learner -------------------------------------------------------- */

static void send_action(struct sim *sim, const session_action *action)
{
    struct simnet_message *message = simnet_message_new(sim->net, 0, sim->nodes[action->peer]);

    for (size_t i = 0; i < action->count; i++) {
        const session_entry *entry = &action->entries[i];
        enum word word = entry->op == SESSION_CANCEL     ? WORD_CANCEL
                         : entry->op == SESSION_ASK_HAVE ? WORD_ASK_HAVE
                         : sim->of_2018                  ? WORD_ASK_QUIET
                                                         : WORD_ASK;

        message = simnet_message_add(sim->net, message, word);
        message = simnet_message_add(sim->net, message, (uint32_t)entry->tag);
    }
    message->size = action->count * ENTRY_SIZE;
    simnet_send(sim->net, message, 0);
}

static void poll(struct sim *sim)
{
    session_action action;
    int64_t now_us = simnet_now_us(sim->net);

    while (session_poll(sim->session, now_us, &action))
        if (action.kind == SESSION_SEND)
            send_action(sim, &action);

    int64_t wake_us = session_wake_us(sim->session);

    /* Only the timer set last counts. */
    if (wake_us != INT64_MAX && wake_us != sim->wake_us) {
        sim->wake_us = wake_us > now_us ? wake_us : now_us + 1;
        simnet_timer(sim->net, sim->wake_us, TIMER_WAKE | ++sim->wakes << 8);
    }
}

static void poll_soon(struct sim *sim)
{
    if (sim->poll_set)
        return;
    sim->poll_set = true;
    simnet_timer(sim->net, simnet_now_us(sim->net) + SEND_US, TIMER_POLL);
}

static void finish(struct sim *sim)
{
    session_figures figures;

    session_measure(sim->session, &figures);
    sim->result.finished = true;
    sim->result.dups = figures.duplicate_blocks + figures.unasked_blocks;
    sim->result.sent = simnet_sent(sim->net, 0);
    sim->result.recd = simnet_received(sim->net, 0);
    sim->result.time_us = simnet_now_us(sim->net);
}

static void take_block(struct sim *sim, uint32_t node, uint32_t block)
{
    session_peer slot = sim->slots[node];
    uint64_t tag = 0;

    if (session_block(sim->session, simnet_now_us(sim->net), slot, sim->ids[block],
                      sim->row->block_size, &tag) != SESSION_DELIVERED)
        return;
    must_be(tag == block);
    if (sim->delivered[block]++ != 0)
        sim->result.twice++;
    if (++sim->done == sim->row->blocks)
        finish(sim);
    else if (sim->of_2018)
        simnet_timer(sim->net, simnet_now_us(sim->net) + (int64_t)2 * SEND_US, TIMER_ORDER);
    else
        request_next(sim);
}

static void lose_peer(struct sim *sim, uint32_t node, bool lied)
{
    int64_t now_us = simnet_now_us(sim->net);

    if (sim->slots[node] == SESSION_NO_PEER)
        return;
    if (lied)
        session_lie(sim->session, now_us, sim->slots[node]);
    else
        session_leave(sim->session, now_us, sim->slots[node]);
    sim->slots[node] = SESSION_NO_PEER;
    simnet_cut(sim->net, node);
}

static int64_t learner_takes(struct sim *sim, const struct simnet_message *message)
{
    int64_t now_us = simnet_now_us(sim->net);
    int64_t busy_us = 0;

    for (uint32_t i = 0; i < message->count; i += 2) {
        uint32_t block = message->words[i + 1];
        session_peer slot = sim->slots[message->from];

        switch (message->words[i]) {
        case WORD_BLOCK:
            busy_us += BLOCK_US;
            if (sim->of_2018)
                simnet_timer(sim->net, now_us + busy_us,
                             TIMER_BLOCK | (uint64_t)message->from << 8 |
                                 (uint64_t)block << 32);
            else
                take_block(sim, message->from, block);
            break;
        case WORD_BAD:
            busy_us += BLOCK_US;
            if (session_wanted(sim->session, sim->ids[block], NULL))
                lose_peer(sim, message->from, true);
            break;
        case WORD_HAVE:
            session_have(sim->session, now_us, slot, sim->ids[block]);
            break;
        default:
            session_missing(sim->session, now_us, slot, sim->ids[block]);
            break;
        }
    }
    if (!sim->of_2018)
        simnet_timer(sim->net, now_us + busy_us + SEND_US, TIMER_POLL);
    return busy_us;
}

/* ---- The peers ---------------------------------------------------------- */

static void peer_takes(struct sim *sim, uint32_t node, const struct simnet_message *message)
{
    const struct sim_row *row = sim->row;
    bool lies = row->trouble == TROUBLE_LIAR && node == 1;
    uint64_t split = sim->of_2018 ? REPLY_2018 : REPLY_NEW;
    int64_t delay_us = row->trouble == TROUBLE_SLOW && node == row->peers
                           ? (SLOW_FACTOR - 1) * simnet_round_trip_us(sim->net, node)
                           : 0;
    struct simnet_message *reply = simnet_message_new(sim->net, node, 0);

    for (uint32_t i = 0; i < message->count; i += 2) {
        uint32_t block = message->words[i + 1];
        bool here = holds(sim, node, block);
        enum word word = message->words[i] == WORD_ASK_HAVE ? WORD_HAVE
                         : lies                             ? WORD_BAD
                                                            : WORD_BLOCK;
        uint64_t size = word == WORD_HAVE || !here ? ENTRY_SIZE : row->block_size + 8u;

        if (message->words[i] == WORD_CANCEL || (!here && message->words[i] == WORD_ASK_QUIET))
            continue;
        if (reply->count > 0 && reply->size + size > split) {
            simnet_send(sim->net, reply, delay_us);
            reply = simnet_message_new(sim->net, node, 0);
        }
        reply = simnet_message_add(sim->net, reply, here ? word : WORD_MISSING);
        reply = simnet_message_add(sim->net, reply, block);
        reply->size += size;
    }
    if (reply->count > 0)
        simnet_send(sim->net, reply, delay_us);
    else
        simnet_drop(sim->net, reply);
}

/* ---- Greeting and parting ----------------------------------------------- */

static void greet(struct sim *sim, uint32_t node)
{
    session_hello hello = { 0 };
    int64_t now_us = simnet_now_us(sim->net);
    session_peer slot;
    uint32_t count = 0;

    for (uint32_t block = 0; block < sim->row->blocks; block += 64) {
        uint32_t left = sim->row->blocks - block;
        uint64_t word = sim->held[(node - 1) * sim->words + block / 64];

        count += (uint32_t)__builtin_popcountll(left < 64 ? word & ((1ull << left) - 1) : word);
    }

    size_t size = session_filter_size(count);

    if (sim->run->greeting == GREETING_FULL) {
        hello.rtt_us = simnet_round_trip_us(sim->net, node);
        hello.holds_all = size == 0 && count == sim->row->blocks;
    }
    if (session_join(sim->session, now_us, node, &hello, &slot, NULL) != KV_OK)
        return; /* banned */
    sim->slots[node] = slot;
    sim->nodes[slot] = node;
    if (sim->run->greeting != GREETING_FULL || size == 0)
        return;

    uint8_t *filter = must(malloc(size));

    session_filter_init(filter, size, count);
    for (uint32_t block = 0; block < sim->row->blocks; block++)
        if (holds(sim, node, block))
            session_filter_add(filter, size, sim->ids[block]);
    must_be(session_inventory(sim->session, now_us, slot, kv_bytes(filter, size), NULL) ==
            KV_OK);
    free(filter);
}

static double disconnects(const struct sim *sim)
{
    return sim->row->trouble == TROUBLE_CHURN ? CHURN_PER_SECOND : sim->run->disconnects;
}

static void disconnect_later(struct sim *sim)
{
    int64_t wait_us = (int64_t)(simnet_chance(sim->net) * 2e6 / disconnects(sim));

    simnet_timer(sim->net, simnet_now_us(sim->net) + wait_us, TIMER_DISCONNECT);
}

/* ---- What happens ------------------------------------------------------- */

static int64_t on_deliver(void *context, uint32_t node, const struct simnet_message *message)
{
    struct sim *sim = context;

    if (node == 0)
        return learner_takes(sim, message);
    peer_takes(sim, node, message);
    return 0;
}

static void on_timer(void *context, uint64_t what)
{
    struct sim *sim = context;
    uint32_t node;

    switch ((enum timer)(what & 0xff)) {
    case TIMER_POLL:
        sim->poll_set = false;
        poll(sim);
        break;
    case TIMER_WAKE:
        if (what >> 8 != sim->wakes)
            break;
        sim->wake_us = INT64_MAX;
        poll(sim);
        break;
    case TIMER_ORDER:
        request_next(sim);
        poll_soon(sim);
        break;
    case TIMER_BLOCK:
        take_block(sim, (uint32_t)(what >> 8) & 0xffffff, (uint32_t)(what >> 32));
        poll_soon(sim);
        break;
    case TIMER_DISCONNECT:
        node = 1 + (uint32_t)(simnet_random(sim->net) % sim->row->peers);
        if (sim->slots[node] != SESSION_NO_PEER) {
            lose_peer(sim, node, false);
            simnet_timer(sim->net, simnet_now_us(sim->net) + DOWN_US,
                         TIMER_RETURN | (uint64_t)node << 8);
        }
        if (sim->done < sim->row->blocks && simnet_now_us(sim->net) < CHURN_US)
            disconnect_later(sim);
        poll_soon(sim);
        break;
    case TIMER_RETURN:
        greet(sim, (uint32_t)(what >> 8) & 0xffffff);
        poll_soon(sim);
        break;
    }
}

static void configure(const struct sim_run *run, struct simnet_config *config)
{
    static const double large[] = { 0, 0, 740000, 3940000 };
    static const double rate[] = { 0, 1250000, 500000, 100000 };
    static const double rate_spread[] = { 0, 300000, 80000, 16500 };
    enum sim_network network = run->row->network;
    bool varied = network == NETWORK_AVERAGE || network == NETWORK_SLOW;

    config->peers = run->row->peers;
    config->seed = run->seed;
    config->base_us = network == NETWORK_FIXED ? 10000 : 60000;
    config->spread_us = network == NETWORK_FIXED ? 0 : 20000;
    config->medium_us = 140000;
    config->large_us = large[network];
    config->medium_share = config->large_share = varied ? 0.3 : 0;
    if (run->row->bandwidth) {
        config->rate = rate[network];
        config->rate_spread = rate_spread[network];
    }
    config->jitter_us = run->jitter_us;
    config->loss_share = run->loss_share;
    config->duplicate_share = run->duplicate_share;
}

static void shuffle(struct sim *sim)
{
    for (uint32_t i = sim->row->blocks; i > 1; i--) {
        uint32_t j = (uint32_t)(simnet_random(sim->net) % i);
        uint32_t swap = sim->order[i - 1];

        sim->order[i - 1] = sim->order[j];
        sim->order[j] = swap;
    }
}

static void start(struct sim *sim)
{
    uint32_t blocks = sim->row->blocks;

    if (sim->row->order != ORDER_CONCURRENT) {
        request_next(sim);
        poll_soon(sim);
        return;
    }
    shuffle(sim);
    /* Threads make their calls one by one; in 2018 the sender wakes in between. */
    for (uint32_t i = 0; i < blocks; i++) {
        request(sim, 1);
        if (sim->of_2018 && i % 2 == 1)
            poll(sim);
    }
    poll_soon(sim);
}

struct sim_result sim_run(const struct sim_run *run)
{
    struct sim sim = { .run = run,
                       .row = run->row,
                       .of_2018 = run->mode != SESSION_DEFAULT,
                       .words = run->row->blocks / 64 + 1,
                       .wake_us = INT64_MAX };
    struct simnet_config config = { .deliver = on_deliver, .timer = on_timer, .context = &sim };
    session_config session = { .mode = run->mode, .seed = run->seed, .peers_max = 4096 };

    configure(run, &config);
    sim.net = simnet_new(&config);
    sim.ids = must(calloc(run->row->blocks, sizeof *sim.ids));
    sim.held = must(calloc(run->row->peers * sim.words, sizeof *sim.held));
    sim.slots = must(calloc(run->row->peers + 1u, sizeof *sim.slots));
    sim.nodes = must(calloc(SESSION_PEERS_MAX, sizeof *sim.nodes));
    sim.delivered = must(calloc(run->row->blocks, sizeof *sim.delivered));
    sim.order = must(calloc(run->row->blocks, sizeof *sim.order));
    for (uint32_t i = 0; i < run->row->blocks; i++)
        sim.order[i] = i;
    must_be(session_new(&session, &sim.session, NULL) == KV_OK);
    place(&sim);
    for (uint32_t node = 1; node <= run->row->peers; node++) {
        sim.slots[node] = SESSION_NO_PEER;
        greet(&sim, node);
    }
    start(&sim);
    if (disconnects(&sim) > 0)
        disconnect_later(&sim);

    simnet_run(sim.net, 24 * 3600ll * 1000000);

    session_measure(sim.session, &sim.result.figures);
    sim.result.dups_late =
        sim.result.figures.duplicate_blocks + sim.result.figures.unasked_blocks;
    sim.result.memory_peak = sim.result.figures.memory;
    session_free(sim.session);
    simnet_free(sim.net);
    free(sim.ids);
    free(sim.held);
    free(sim.slots);
    free(sim.nodes);
    free(sim.delivered);
    free(sim.order);
    return sim.result;
}
