/*
 * session_2018.c - the two algorithms of 2018 that the default is held against.
 *
 * broadcast: up to 16 wants at once, each to every peer that has answered one so
 * far, or to all peers while none has. Each block makes room for one more.
 *
 * round1: 4 wants at once until a peer is known and 32 after. Peers are ranked by
 * recency of their last answer; a group of wants is split among groups of peers,
 * and the share of duplicates so far moves the number of groups up or down.
 *
 * Both broadcast everything in flight again when half a second and three mean
 * latencies go by without a block. They expect no word about what is missing and
 * never forget a peer. Their known faults are kept: that is the point of them.
 */
#include "reconnect/session_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIVE_BROADCAST = 16, /* wants in flight in `broadcast` */
    LIVE_UNKNOWN = 4,    /* in `round1` while no peer is known */
    LIVE_TARGETED = 32,  /* and after */
    RANKED_MAX = 30,     /* peers by recency */
    GROUPS_FIRST = 2,
    GROUPS_MAX = 16,
    RECEIVED_LEAST = 2, /* blocks seen before the share of duplicates counts */
    FIRST_TICK_US = 10000000,
    TICK_US = 500000
};

struct live {
    uint64_t *asked; /* one bit for each peer */
    uint32_t index;  /* of the want, or NONE */
    int64_t sent_us;
    bool everyone; /* was broadcast: new peers get it too */
};

struct state {
    bool round1;
    struct live live[LIVE_TARGETED];
    uint32_t live_count;
    session_peer *ranked; /* round1: most recent first; broadcast: in order of coming */
    uint32_t ranked_count;
    uint32_t groups;
    uint64_t received, duplicates;
    int64_t tick_us;
    int64_t latency_total_us;
    uint64_t fetched;
    uint64_t bits[]; /* backs live[].asked */
};

static kv_code state_init(session_machine *session, bool round1, kv_status *status)
{
    size_t words = session->config.peers_max / 64 + 1;
    struct state *state = calloc(1, sizeof *state + LIVE_TARGETED * words * sizeof(uint64_t));

    if (state != NULL)
        state->ranked = calloc(session->config.peers_max, sizeof *state->ranked);
    if (state == NULL || state->ranked == NULL) {
        free(state);
        return kv_fail(status, KV_NO_MEMORY, "no memory for %u peers",
                       session->config.peers_max);
    }
    state->round1 = round1;
    state->groups = GROUPS_FIRST;
    state->tick_us = NEVER;
    for (size_t i = 0; i < LIVE_TARGETED; i++) {
        state->live[i].asked = &state->bits[i * words];
        state->live[i].index = NONE;
    }
    session->rules_state = state;
    return KV_OK;
}

static kv_code round1_init(session_machine *session, kv_status *status)
{
    return state_init(session, true, status);
}

static kv_code broadcast_init(session_machine *session, kv_status *status)
{
    return state_init(session, false, status);
}

static void state_clear(session_machine *session)
{
    struct state *state = session->rules_state;

    if (state != NULL)
        free(state->ranked);
    free(state);
}

/* ---- Asking ------------------------------------------------------------- */

static void ask(session_machine *session, struct live *live, session_peer slot)
{
    uint64_t bit = 1ull << (slot % 64);

    if (!session->peers[slot].connected || (live->asked[slot / 64] & bit) != 0)
        return;
    live->asked[slot / 64] |= bit;
    session_note(session, &session->peers[slot], SESSION_ASK_BLOCK,
                 want_at(session, live->index));
}

static void ask_everyone(session_machine *session, struct live *live)
{
    live->everyone = true;
    for (uint32_t i = 0; i < session->peer_count; i++)
        ask(session, live, (session_peer)i);
}

/* Key group i goes to all peers of peer group i; both are dealt out in turn. */
static void ask_split(session_machine *session, struct state *state, struct live *const *keys,
                      uint32_t count)
{
    uint32_t groups = state->round1 ? state->groups : 1;

    if (groups > state->ranked_count)
        groups = state->ranked_count;

    if (groups == 0)
        return;

    uint32_t key_groups = groups < count ? groups : count;

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t p = i % key_groups; p < state->ranked_count; p += groups)
            ask(session, keys[i], state->ranked[p]);
}

/* Take up to `count` wants from the queue and ask for them as one group. */
static void ask_next(session_machine *session, int64_t now_us, uint32_t count)
{
    struct state *state = session->rules_state;
    struct live *keys[LIVE_TARGETED];
    uint32_t taken = 0;

    for (uint32_t i = 0; i < LIVE_TARGETED && taken < count; i++) {
        struct live *live = &state->live[i];

        if (session->queued.first == NONE)
            break;
        if (live->index != NONE)
            continue;
        live->index = session->queued.first;
        live->sent_us = now_us;
        live->everyone = false;
        memset(live->asked, 0, (session->config.peers_max / 64 + 1) * sizeof(uint64_t));
        want_at(session, live->index)->copies[0].next = i;
        session_want_place(session, live->index, PLACE_FLYING, false);
        keys[taken++] = live;
    }
    state->live_count += taken;
    if (taken == 0)
        return;
    if (state->ranked_count == 0)
        for (uint32_t i = 0; i < taken; i++)
            ask_everyone(session, keys[i]);
    else
        ask_split(session, state, keys, taken);
}

static uint32_t budget(const struct state *state)
{
    assert(state != NULL);

    uint32_t limit = !state->round1             ? LIVE_BROADCAST
                     : state->ranked_count == 0 ? LIVE_UNKNOWN
                                                : LIVE_TARGETED;

    return limit > state->live_count ? limit - state->live_count : 0;
}

static void tick_reset(struct state *state, int64_t now_us)
{
    /* The original divides by zero before the first block; the wait is all it sets. */
    state->tick_us =
        state->fetched == 0
            ? now_us + FIRST_TICK_US
            : now_us + TICK_US + 3 * state->latency_total_us / (int64_t)state->fetched;
}

/* ---- The rules ---------------------------------------------------------- */

static void on_joined(session_machine *session, int64_t now_us, struct peer *peer)
{
    struct state *state = session->rules_state;
    (void)now_us;

    for (uint32_t i = 0; i < LIVE_TARGETED; i++) {
        struct live *live = &state->live[i];

        if (live->index == NONE)
            continue;
        live->asked[peer_slot(session, peer) / 64] &=
            ~(1ull << (peer_slot(session, peer) % 64));
        if (live->everyone)
            ask(session, live, peer_slot(session, peer));
    }
}

static void on_left(session_machine *session, int64_t now_us, struct peer *peer)
{
    (void)session;
    (void)now_us;
    (void)peer;
}

static void on_wanted(session_machine *session, int64_t now_us, size_t count)
{
    struct state *state = session->rules_state;
    uint32_t room = budget(state);

    ask_next(session, now_us, count < room ? (uint32_t)count : room);
    if (state->tick_us == NEVER)
        tick_reset(state, now_us);
}

static void rank_first(session_machine *session, struct state *state, const struct peer *from)
{
    session_peer slot = peer_slot(session, from);
    uint32_t at = 0;

    while (at < state->ranked_count && state->ranked[at] != slot)
        at++;
    if (!state->round1) {
        if (at == state->ranked_count)
            state->ranked[state->ranked_count++] = slot;
        return;
    }
    if (at == state->ranked_count) {
        if (state->ranked_count < RANKED_MAX)
            state->ranked_count++;
        else
            at--;
    }
    memmove(&state->ranked[1], &state->ranked[0], at * sizeof state->ranked[0]);
    state->ranked[0] = slot;
}

static struct live *live_of(const session_machine *session, uint32_t index)
{
    struct state *state = session->rules_state;
    const struct want *want = want_at(session, index);

    return want->place == PLACE_FLYING ? &state->live[want->copies[0].next] : NULL;
}

/* Cancel at everyone who was asked. */
static void live_end(session_machine *session, struct live *live, const struct peer *answered)
{
    struct state *state = session->rules_state;

    for (uint32_t i = 0; i < session->peer_count; i++) {
        if ((live->asked[i / 64] >> (i % 64) & 1) == 0 || !session->peers[i].connected)
            continue;
        if (&session->peers[i] != answered)
            session->peers[i].owed++;
        session_note(session, &session->peers[i], SESSION_CANCEL,
                     want_at(session, live->index));
    }
    live->index = NONE;
    state->live_count--;
}

static void on_delivered(session_machine *session, int64_t now_us, struct peer *from,
                         uint32_t index)
{
    struct state *state = session->rules_state;
    struct live *live = live_of(session, index);

    if (from != NULL)
        rank_first(session, state, from);
    state->received++;
    if (state->groups > 1 && state->duplicates * 5 < state->received)
        state->groups--;
    state->fetched++;
    if (live != NULL) {
        state->latency_total_us += now_us - live->sent_us;
        live_end(session, live, from);
    } else {
        session_want_place(session, index, PLACE_FLYING, false);
    }
    ask_next(session, now_us, state->round1 ? budget(state) : budget(state) > 0);
    tick_reset(state, now_us);
}

static void on_cancelled(session_machine *session, int64_t now_us, uint32_t index)
{
    struct live *live = live_of(session, index);

    if (live != NULL)
        live_end(session, live, NULL);
    ask_next(session, now_us, budget(session->rules_state));
}

static void on_word(session_machine *session, int64_t now_us, struct peer *from, uint32_t index)
{
    (void)session;
    (void)now_us;
    (void)from;
    (void)index;
}

static void on_duplicate(session_machine *session, int64_t now_us, struct peer *from)
{
    struct state *state = session->rules_state;
    (void)now_us;
    (void)from;

    state->received++;
    state->duplicates++;
    if (state->received > RECEIVED_LEAST && state->duplicates * 5 > state->received * 2 &&
        state->groups < GROUPS_MAX)
        state->groups++;
}

/* Nothing came for long: broadcast whatever is in flight. */
static void plan(session_machine *session, int64_t now_us)
{
    struct state *state = session->rules_state;

    if (state->live_count == 0 || now_us < state->tick_us)
        return;
    for (uint32_t i = 0; i < LIVE_TARGETED; i++) {
        if (state->live[i].index == NONE)
            continue;
        state->live[i].sent_us = now_us;
        ask_everyone(session, &state->live[i]);
    }
    tick_reset(state, now_us);
}

static int64_t wake_us(const session_machine *session)
{
    const struct state *state = session->rules_state;

    return state->live_count == 0 ? NEVER : state->tick_us;
}

#define RULES_2018                                                                             \
    .clear = state_clear, .joined = on_joined, .left = on_left, .wanted = on_wanted,           \
    .delivered = on_delivered, .cancelled = on_cancelled, .missing = on_word, .have = on_word, \
    .duplicate = on_duplicate, .plan = plan, .wake_us = wake_us

const struct session_rules session_round1_rules = { .init = round1_init, RULES_2018 };
const struct session_rules session_broadcast_rules = { .init = broadcast_init, RULES_2018 };
