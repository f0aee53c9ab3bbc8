/*
 * steady.c - what a session takes of the allocator, counted there: at most 200 bytes a
 * want, and in the steady state nothing, whatever happens. In each round there are blocks,
 * answers "missing", silence and so second copies, cancels, wants that nobody has, and a
 * peer that leaves and returns.
 */
#include "bench/counters.h"
#include "session_ids.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MANY = 200000,      /* wants of the first part, each lacked by LACKING peers */
    LACKING = 6,        /* so each has a chain of marks */
    BYTES_MAX = 200,    /* a want */
    HELD = 5000,        /* wants of the second */
    PEERS = 12,         /* of the second */
    ROUND_US = 5000,    /* from one round to the next */
    WARM_ROUNDS = 4000, /* until everything has been as large as it gets */
    ROUNDS = 4000
};

static void require(bool right, const char *what, uint64_t value)
{
    if (right)
        return;
    fprintf(stderr, "steady: %s: %llu\n", what, (unsigned long long)value);
    exit(1);
}

static uint64_t counted(enum bench_counter counter)
{
    struct bench_counts counts;

    bench_counters_read(&counts);
    return counts.values[counter];
}

static session_machine *make(void)
{
    session_machine *session;

    require(session_new(NULL, &session, NULL) == KV_OK, "no session", 0);
    return session;
}

static session_peer join(session_machine *session, int64_t now_us, uint64_t name)
{
    const session_hello hello = { .rtt_us = 4000 };
    session_peer peer;

    require(session_join(session, now_us, name, &hello, &peer, NULL) == KV_OK, "join", name);
    return peer;
}

static void want(session_machine *session, int64_t now_us, uint64_t number)
{
    struct id id = id_of(number);
    session_request request = { id.bytes, number };

    require(session_want(session, now_us, &request, 1, NULL) == KV_OK, "want", number);
}

static uint64_t memory(const session_machine *session)
{
    session_figures figures;

    session_measure(session, &figures);
    return figures.memory;
}

/* ---- A want's bytes ------------------------------------------------------ */

static void measure_wants(void)
{
    session_machine *session = make();
    session_request *requests = malloc(MANY * sizeof *requests);
    struct id *ids = malloc(MANY * sizeof *ids);
    session_peer peers[LACKING];

    require(requests != NULL && ids != NULL, "no memory", 0);
    for (uint64_t i = 0; i < LACKING; i++)
        peers[i] = join(session, 0, i);
    for (uint64_t i = 0; i < MANY; i++) {
        ids[i] = id_of(i);
        requests[i] = (session_request){ ids[i].bytes, i };
    }

    uint64_t empty = memory(session), before = counted(BENCH_ALLOCATED_BYTES);

    require(session_want(session, 0, requests, MANY, NULL) == KV_OK, "wants", MANY);

    uint64_t allocated = counted(BENCH_ALLOCATED_BYTES) - before;

    require(memory(session) - empty == allocated, "the session's own figure is not", allocated);
    for (uint64_t i = 0; i < MANY; i++)
        for (int peer = 0; peer < LACKING; peer++)
            session_missing(session, 1, peers[peer], ids[i].bytes);
    require(memory(session) - empty > allocated, "nothing was kept of who lacks what", 0);
    require(memory(session) - empty <= (uint64_t)BYTES_MAX * MANY, "bytes for all wants",
            memory(session) - empty);
    printf("%.1f bytes a want\n", (double)(memory(session) - empty) / MANY);
    session_free(session);
    free(requests);
    free(ids);
}

/* ---- The steady state ---------------------------------------------------- */

struct life {
    session_machine *session;
    session_peer peers[PEERS];
    uint64_t next; /* the next want's number */
    int64_t now_us;
    struct question {
        session_peer peer;
        session_op op;
        uint64_t number;
    } questions[PEERS * HELD];
    size_t count;
};

static struct life life;

static void poll_all(void)
{
    session_action action;

    life.count = 0;
    while (session_poll(life.session, life.now_us, &action))
        for (size_t i = 0; action.kind == SESSION_SEND && i < action.count; i++) {
            require(life.count < PEERS * HELD, "questions", life.count);
            life.questions[life.count++] =
                (struct question){ action.peer, action.entries[i].op, action.entries[i].tag };
        }
}

/* One in 20 is never answered, one in 10 is missing, one in 500 at every peer. */
static void answer(const struct question *question)
{
    struct id id = id_of(question->number);
    uint64_t chance = id_of(question->number * PEERS + question->peer).bytes[0];

    if (question->op == SESSION_CANCEL || chance < 256 / 20)
        return;
    if (chance < 256 / 20 + 256 / 10 || question->number % 500 == 0)
        session_missing(life.session, life.now_us, question->peer, id.bytes);
    else if (question->op == SESSION_ASK_HAVE)
        session_have(life.session, life.now_us, question->peer, id.bytes);
    else
        session_block(life.session, life.now_us, question->peer, id.bytes, 100, NULL);
}

static void round_run(uint64_t round)
{
    session_figures figures;

    poll_all();
    life.now_us += ROUND_US;
    for (size_t i = 0; i < life.count; i++)
        answer(&life.questions[i]);
    if (round % 16 == 0) {
        uint64_t name = round / 16 % PEERS;

        session_leave(life.session, life.now_us, life.peers[name]);
        life.peers[name] = join(life.session, life.now_us, name);
    }
    /* What nobody has is given up after a while. */
    if (life.next > 2ull * HELD && round % 8 == 0) {
        uint64_t number = (life.next - 2ull * HELD) / 500 * 500;

        for (int i = 0; i < 20 && number >= 500; i++, number -= 500) {
            struct id id = id_of(number);
            kv_code gone = session_cancel(life.session, life.now_us, id.bytes);

            require(gone == KV_OK || gone == KV_NOT_FOUND, "cancel", number);
        }
    }
    session_measure(life.session, &figures);
    for (uint32_t held = figures.wants; held < HELD; held++)
        want(life.session, life.now_us, life.next++);
}

static void live(void)
{
    session_figures figures;

    life.session = make();
    for (uint64_t i = 0; i < PEERS; i++)
        life.peers[i] = join(life.session, 0, i);
    for (uint64_t round = 0; round < WARM_ROUNDS; round++)
        round_run(round);

    uint64_t allocations = counted(BENCH_ALLOCATIONS), wanted = life.next;

    for (uint64_t round = WARM_ROUNDS; round < WARM_ROUNDS + ROUNDS; round++)
        round_run(round);
    allocations = counted(BENCH_ALLOCATIONS) - allocations;
    require(allocations == 0, "allocations in the steady state", allocations);

    session_measure(life.session, &figures);
    require(life.next - wanted > 10 * (uint64_t)HELD, "too few wants", life.next - wanted);
    require(figures.hedged > 1000, "too few second copies", figures.hedged);
    require(figures.missing > 1000, "too few missing", figures.missing);
    require(figures.requeued > 1000, "too few taken back", figures.requeued);
    printf("%llu wants came and went without an allocation\n",
           (unsigned long long)(life.next - wanted));
    session_free(life.session);
}

int main(void)
{
    bench_counters_init();
    measure_wants();
    live();
    return 0;
}
