/*
 * session_default.c - who is asked for what, in the default mode.
 *
 * A round of planning has four steps, each bounded: what is overdue is queued
 * again, some of what nobody had is tried again, what is queued is assigned in
 * runs to the peers that will answer first, and once nothing is queued any more
 * the wants that slow peers would keep longest are moved to fast idle ones.
 */
#include "reconnect/session_state.h"

#include <string.h>

/* ---- What a peer can do ------------------------------------------------- */

static bool holds_surely(const struct peer *peer)
{
    return peer->holds_all || peer->filter != NULL;
}

static bool may_have(const session_machine *session, const struct peer *peer,
                     const struct want *want)
{
    session_peer slot = peer_slot(session, peer);

    for (uint32_t i = 0; i < SESSION_COPIES_MAX; i++)
        if (want->copies[i].peer == slot)
            return false;
    if (session_want_marked(session, want, peer))
        return false;
    return peer->filter == NULL ||
           session_filter_has(peer->filter, peer->filter_size, want->id);
}

/* Wants that `peer` should have in flight: its window, and no more than it
 * works off while an answer travels and a fifth of a second besides. */
static uint32_t room_at(const session_machine *session, const struct peer *peer)
{
    int64_t window = peer->strikes != 0 ? 1 : (int64_t)peer->window;

    if (peer->service_ns > 0) {
        int64_t useful = (peer->rtt_least_us + USEFUL_US) * 1000 / peer->service_ns + 2;

        if (useful < window)
            window = useful;
    }
    if (session->block_size > 0) {
        int64_t fit = (int64_t)session->config.window_bytes_max / session->block_size + 1;

        if (fit < window)
            window = fit;
    }
    return window > (int64_t)peer->copies.count ? (uint32_t)(window - peer->copies.count) : 0;
}

/* Whether `peer` lacked at least three in ten of what it was lately asked for. */
static bool often_lacks(const struct peer *peer)
{
    return peer->history_count >= 4 && recently_had(peer) * 10 < peer->history_count * 7;
}

/* How long until `peer` would answer one want more. */
static int64_t cost_us(const session_machine *session, const struct peer *peer)
{
    int64_t cost = peer->rtt_us + ((int64_t)peer->copies.count + 1) * peer->service_ns / 1000;

    if (!holds_surely(peer) && peer->history_count >= 4) {
        /* Asking in vain costs a round trip. */
        cost = cost * (peer->history_count + 1) / (recently_had(peer) + 1);
    }
    return cost + peer->strikes * session->config.patience_us;
}

/* The peer among `count` candidates that would bring `want` first, or NULL. */
static struct peer *best_peer(session_machine *session, const struct want *want, uint32_t count)
{
    struct peer *best = NULL;
    int64_t least = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct peer *peer = &session->peers[session->candidates[i]];
        int64_t cost = cost_us(session, peer);

        if (peer_slot(session, peer) == want->holder)
            cost /= 4;
        if ((best == NULL || cost < least) && may_have(session, peer, want)) {
            best = peer;
            least = cost;
        }
    }
    return best;
}

/* Peers with room for a run. One with less is left until it has answered more, for
 * else its wants would trickle out in messages of one or two. */
static uint32_t candidates_find(session_machine *session)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->peer_count; i++) {
        const struct peer *peer = &session->peers[i];

        if (!peer->connected)
            continue;

        uint32_t room = room_at(session, peer);

        if (room >= RUN_WANTS || (room > 0 && room >= peer->copies.count))
            session->candidates[count++] = i;
    }
    return count;
}

static uint32_t candidate_drop(session_machine *session, const struct peer *peer,
                               uint32_t count)
{
    uint32_t at = 0;

    while (session->candidates[at] != peer_slot(session, peer))
        at++;
    session->candidates[at] = session->candidates[count - 1];
    return count - 1;
}

static bool anyone_may_have(const session_machine *session, const struct want *want)
{
    for (uint32_t i = 0; i < session->peer_count; i++)
        if (session->peers[i].connected && may_have(session, &session->peers[i], want))
            return true;
    return false;
}

static bool in_flight(const struct want *want)
{
    return want->copies[0].peer != SESSION_NO_PEER || want->copies[1].peer != SESSION_NO_PEER;
}

/* ---- Assigning ---------------------------------------------------------- */

/* A time that is to come, and soon; what stands may be left from wants long gone. */
static int64_t sooner_us(int64_t at_us, int64_t now_us, int64_t soon_us)
{
    return at_us < now_us || at_us > soon_us ? soon_us : at_us;
}

/* Nobody has the want. One that has waited before waits its turn; a new one is
 * tried again soon, however long the pauses have grown for others. */
static void starve(session_machine *session, int64_t now_us, uint32_t index)
{
    struct want *want = want_at(session, index);
    int64_t soon_us = now_us + session->config.starved_min_us;
    bool nobody = session->need_peers_us == NEVER && session->connected_count == 0;

    session_want_place(session, index, PLACE_STARVED, false);
    if (want->starved && session->need_peers_us != NEVER)
        return;
    want->starved = true;
    session->need_pause_us = 0;
    session->need_peers_us =
        nobody ? now_us : sooner_us(session->need_peers_us, now_us, soon_us);
    session->retry_pause_us = session->config.starved_min_us;
    session->retry_us = sooner_us(session->retry_us, now_us, soon_us);
}

/* Someone lacked `want`: ask a few others whether they have it, four times as
 * many each time, while `owner` is asked for the block itself. */
static void ask_around(session_machine *session, uint32_t index, const struct peer *owner)
{
    struct want *want = want_at(session, index);
    uint32_t left = (uint32_t)PROBE_FIRST << (2 * want->probes);

    if (want->holder != SESSION_NO_PEER || holds_surely(owner) ||
        (want->mark_count == 0 && !often_lacks(owner)))
        return;
    if (want->probes < 5)
        want->probes++;

    uint32_t start = (uint32_t)(session->random = session->random * 6364136223846793005u +
                                                  1442695040888963407u) %
                     session->peer_count;

    for (uint32_t i = 0; i < session->peer_count && left > 0; i++) {
        struct peer *peer = &session->peers[(start + i) % session->peer_count];

        if (!peer->connected || peer == owner || holds_surely(peer) ||
            !may_have(session, peer, want))
            continue;
        session_note(session, peer, SESSION_ASK_HAVE, want);
        session_want_mark(session, want, peer); /* until it says otherwise */
        left--;
    }
}

static void assign(session_machine *session, int64_t now_us, uint32_t index, struct peer *peer)
{
    struct want *want = want_at(session, index);
    uint32_t which = want->copies[0].peer == SESSION_NO_PEER ? 0 : 1;

    if (in_flight(want))
        session->figures.hedged++;
    session_want_place(session, index, PLACE_FLYING, false);
    session_copy_start(session, index, which, peer, now_us);
    if (peer_slot(session, peer) == want->holder)
        want->holder = SESSION_NO_PEER;
}

/* How many adjacent wants to give `peer` at one go. */
static uint32_t run_length(const session_machine *session, const struct peer *peer,
                           uint32_t candidates)
{
    uint32_t run = RUN_WANTS;
    uint32_t room = room_at(session, peer);

    if (session->block_size > RUN_BYTES / RUN_WANTS)
        run = (uint32_t)(RUN_BYTES / session->block_size) + 1;
    if (!peer->rtt_known) {
        uint32_t share = (session->queued.count + candidates - 1) / candidates;

        if (share < run)
            run = share;
    }
    return run < room ? run : room;
}

/* Give `peer` the first want and those behind it that it may have. */
static void assign_run(session_machine *session, int64_t now_us, struct peer *peer,
                       uint32_t candidates)
{
    uint32_t left = run_length(session, peer, candidates);
    uint32_t index = session->queued.first;

    for (uint32_t seen = 0; index != NONE && left > 0 && seen < 4 * RUN_WANTS; seen++) {
        struct want *want = want_at(session, index);
        uint32_t next = want->next;
        bool fits =
            (want->holder == SESSION_NO_PEER || want->holder == peer_slot(session, peer)) &&
            !(in_flight(want) && seen > 0) && may_have(session, peer, want);

        if (fits) {
            assign(session, now_us, index, peer);
            ask_around(session, index, peer);
            left--;
        }
        index = next;
    }
}

static void assign_queued(session_machine *session, int64_t now_us)
{
    uint32_t misses = session->queued.count < MISSES_MAX ? session->queued.count : MISSES_MAX;
    uint32_t candidates = candidates_find(session);

    while (session->queued.first != NONE && misses > 0) {
        uint32_t index = session->queued.first;
        struct want *want = want_at(session, index);

        if (want->holder != SESSION_NO_PEER && !session->peers[want->holder].connected)
            want->holder = SESSION_NO_PEER;

        struct peer *peer = best_peer(session, want, candidates);

        if (peer == NULL && anyone_may_have(session, want)) {
            if (candidates == 0)
                break;
            misses--;
            session->passed_over++;
            session_want_place(session, index, PLACE_QUEUED, false); /* to the end */
            continue;
        }
        if (peer == NULL) {
            if (in_flight(want))
                session_want_place(session, index, PLACE_FLYING, false);
            else
                starve(session, now_us, index);
            continue;
        }
        if (want->holder != SESSION_NO_PEER && want->holder != peer_slot(session, peer))
            want->holder = SESSION_NO_PEER;
        assign_run(session, now_us, peer, candidates);
        if (room_at(session, peer) == 0)
            candidates = candidate_drop(session, peer, candidates);
    }
    session->work_left =
        misses == 0 && candidates > 0 && session->passed_over < session->queued.count;
}

/* ---- Overdue ------------------------------------------------------------ */

static uint32_t patience(int64_t wait_us)
{
    return wait_us < UINT32_MAX ? (uint32_t)wait_us : UINT32_MAX;
}

/* Look at it again at `until_us`, but not too soon. */
static void copy_wait(const session_machine *session, struct copy *copy, int64_t now_us,
                      int64_t until_us)
{
    int64_t soonest_us = now_us + session->config.timeout_min_us / 2;

    copy->due_us = until_us > soonest_us ? until_us : soonest_us;
}

/* A copy has not been answered in time. Ask another peer too; if this is the
 * second time, or there is no other peer, give the copy up. False: not late yet. */
static bool copy_overdue(session_machine *session, int64_t now_us, struct peer *peer,
                         uint32_t reference)
{
    uint32_t index = reference / 2;
    struct want *want = want_at(session, index);
    struct copy *copy = &want->copies[reference % 2];
    const struct copy *other = &want->copies[1 - reference % 2];
    int64_t wait = copy->wait_us;
    int64_t until_us = copy->sent_us + wait + session_backlog_us(session);

    /* A peer that answers others is working: count from its last answer, for a while. */
    if (peer->last_us > copy->sent_us && until_us < peer->last_us + wait)
        until_us = peer->last_us + wait < copy->sent_us + 4 * wait ? peer->last_us + wait
                                                                   : copy->sent_us + 4 * wait;
    if (now_us < until_us) {
        copy_wait(session, copy, now_us, until_us);
        return false;
    }
    peer->figures.overdue++;
    session->figures.overdue++;
    if (want->tries < UINT8_MAX)
        want->tries++;
    if (other->peer == SESSION_NO_PEER && want->place == PLACE_FLYING &&
        anyone_may_have(session, want)) {
        copy->wait_us = patience(now_us - copy->sent_us + 4 * wait);
        copy_wait(session, copy, now_us, copy->sent_us + copy->wait_us);
        session_want_place(session, index, PLACE_QUEUED, true);
        return true;
    }
    if (other->peer == SESSION_NO_PEER && want->place == PLACE_FLYING && want->tries < 3) {
        /* Nobody else to ask: it may just be slow. */
        copy->wait_us = patience(now_us - copy->sent_us + 2 * wait);
        copy_wait(session, copy, now_us, copy->sent_us + copy->wait_us);
        return true;
    }
    session_copy_stop(session, reference);
    peer->owed++;
    session_note(session, peer, SESSION_CANCEL, want);
    if (!in_flight(want) && want->place == PLACE_FLYING)
        session_want_place(session, index, PLACE_QUEUED, true);
    return true;
}

static void find_overdue(session_machine *session, int64_t now_us)
{
    for (uint32_t i = 0; i < session->peer_count; i++) {
        struct peer *peer = &session->peers[i];

        if (!peer->connected || peer->copies.count == 0 || now_us < peer->next_due_us)
            continue;

        bool late = false;

        for (uint32_t at = peer->copies.first, next; at != NONE; at = next) {
            const struct copy *copy = &want_at(session, at / 2)->copies[at % 2];

            next = copy->next;
            if (copy->due_us <= now_us && copy_overdue(session, now_us, peer, at))
                late = true;
        }
        peer->next_due_us = NEVER;
        for (uint32_t at = peer->copies.first; at != NONE;) {
            const struct copy *copy = &want_at(session, at / 2)->copies[at % 2];

            if (copy->due_us < peer->next_due_us)
                peer->next_due_us = copy->due_us;
            at = copy->next;
        }
        if (late) {
            peer->strikes++;
            peer->window = peer->window / 2 + 1;
        }
    }
}

/* ---- The end game ------------------------------------------------------- */

/* The only copy of a flying want that `peer` would answer last, or NONE. */
static uint32_t last_single_copy(const session_machine *session, const struct peer *peer)
{
    uint32_t at = peer->copies.last;

    for (uint32_t seen = 0; at != NONE && seen < 8; seen++) {
        const struct want *want = want_at(session, at / 2);

        if (want->place == PLACE_FLYING && want->copies[1 - at % 2].peer == SESSION_NO_PEER)
            return at;
        at = want->copies[at % 2].prev;
    }
    return NONE;
}

/* The mean latency of the peers that are known; 0 if none is. */
static int64_t usual_rtt_us(const session_machine *session)
{
    int64_t sum = 0, count = 0;

    for (uint32_t i = 0; i < session->peer_count; i++)
        if (session->peers[i].connected && session->peers[i].rtt_known) {
            sum += session->peers[i].rtt_us;
            count++;
        }
    return count == 0 ? 0 : sum / count;
}

/* When the copy should be here. A peer never heard from should have answered like
 * the others; once it is half as late again, all that is known is that it takes
 * longer than it has taken: then expect it never. */
static int64_t expected_us(const session_machine *session, uint32_t reference, int64_t now_us,
                           int64_t usual_us)
{
    const struct copy *copy = &want_at(session, reference / 2)->copies[reference % 2];
    const struct peer *peer = &session->peers[copy->peer];

    if (!peer->rtt_known)
        return now_us - copy->sent_us < usual_us * 3 / 2 ? copy->sent_us + usual_us : NEVER;
    if (!peer->measured)
        return copy->sent_us + peer->rtt_us; /* its service time is a guess: leave it out */
    return copy->expected_us;
}

/* The copy that will be last of all, or NONE. */
static uint32_t last_of_all(const session_machine *session, int64_t now_us, int64_t usual_us)
{
    uint32_t last = NONE;
    int64_t latest = INT64_MIN;

    for (uint32_t i = 0; i < session->peer_count; i++) {
        const struct peer *peer = &session->peers[i];

        if (!peer->connected || peer->copies.count == 0)
            continue;

        uint32_t reference = last_single_copy(session, peer);

        if (reference == NONE)
            continue;

        int64_t expected = expected_us(session, reference, now_us, usual_us);

        if (expected > latest) {
            latest = expected;
            last = reference;
        }
    }
    return last;
}

/* When the next peer never heard from will be half as late again as is usual. */
static int64_t unknown_hour_us(const session_machine *session, int64_t now_us, int64_t usual_us)
{
    int64_t hour_us = NEVER;

    for (uint32_t i = 0; i < session->peer_count; i++) {
        const struct peer *peer = &session->peers[i];

        if (!peer->connected || peer->rtt_known || peer->copies.count == 0)
            continue;

        uint32_t at = peer->copies.first;
        int64_t late_us = want_at(session, at / 2)->copies[at % 2].sent_us + usual_us * 3 / 2;

        if (late_us > now_us && late_us < hour_us)
            hour_us = late_us;
    }
    return hour_us;
}

/*
 * Nothing is queued: take from the peer that would be last and give to one that
 * would be done in half the time. A peer of known latency is told to stop; one
 * never heard from keeps its copy, for its answer is the only way to know it.
 */
static void end_game(session_machine *session, int64_t now_us)
{
    int64_t usual_us = usual_rtt_us(session);

    for (uint32_t moves = 0; moves < MOVES_MAX; moves++) {
        uint32_t reference = last_of_all(session, now_us, usual_us);

        if (reference == NONE)
            return;

        uint32_t index = reference / 2;
        struct want *want = want_at(session, index);
        struct peer *owner = &session->peers[want->copies[reference % 2].peer];
        struct peer *peer = best_peer(session, want, candidates_find(session));

        if (peer == NULL || !peer->rtt_known || peer->strikes != 0)
            return;

        int64_t cost = cost_us(session, peer);

        if (expected_us(session, reference, now_us, usual_us) - now_us <= 2 * cost + 2000) {
            session->end_game_us = unknown_hour_us(session, now_us, usual_us);
            return;
        }
        if (owner->rtt_known) {
            session_copy_stop(session, reference);
            owner->owed++;
            session_note(session, owner, SESSION_CANCEL, want);
            session->figures.moved++;
        }
        assign(session, now_us, index, peer);
    }
    session->work_left = true;
}

/* ---- The rules ---------------------------------------------------------- */

static void requeue_starved(session_machine *session, uint32_t count)
{
    while (session->starved.first != NONE && count-- > 0)
        session_want_place(session, session->starved.first, PLACE_QUEUED, false);
}

static void on_joined(session_machine *session, int64_t now_us, struct peer *peer)
{
    (void)now_us;
    (void)peer;
    session->need_peers_us = NEVER;
    requeue_starved(session, UINT32_MAX);
}

static void on_left(session_machine *session, int64_t now_us, struct peer *peer)
{
    (void)now_us;
    /* From the last to the first, so that they queue in their old order. */
    while (peer->copies.last != NONE) {
        uint32_t index = peer->copies.last / 2;

        session_copy_stop(session, peer->copies.last);
        session->figures.requeued++;
        if (!in_flight(want_at(session, index)) &&
            want_at(session, index)->place == PLACE_FLYING)
            session_want_place(session, index, PLACE_QUEUED, true);
    }
}

static void on_wanted(session_machine *session, int64_t now_us, size_t count)
{
    (void)session;
    (void)now_us;
    (void)count;
}

static void on_delivered(session_machine *session, int64_t now_us, struct peer *from,
                         uint32_t index)
{
    (void)now_us;
    (void)from;
    (void)index;
    session->retry_pause_us = session->config.starved_min_us;
}

static void on_cancelled(session_machine *session, int64_t now_us, uint32_t index)
{
    (void)session;
    (void)now_us;
    (void)index;
}

static void on_missing(session_machine *session, int64_t now_us, struct peer *from,
                       uint32_t index)
{
    struct want *want = want_at(session, index);
    session_peer slot = peer_slot(session, from);

    session_want_mark(session, want, from);
    if (want->holder == slot)
        want->holder = SESSION_NO_PEER;
    for (uint32_t i = 0; i < SESSION_COPIES_MAX; i++) {
        if (want->copies[i].peer != slot)
            continue;
        session_peer_learn(session, from, &want->copies[i], now_us);
        session_peer_remember(from, false);
        session_copy_stop(session, 2 * index + i);
        if (!in_flight(want) && want->place == PLACE_FLYING)
            session_want_place(session, index, PLACE_QUEUED, true);
    }
}

static void on_have(session_machine *session, int64_t now_us, struct peer *from, uint32_t index)
{
    (void)now_us;
    struct want *want = want_at(session, index);

    session_want_unmark(session, want, from);
    want->holder = peer_slot(session, from);
    if (want->place == PLACE_STARVED)
        session_want_place(session, index, PLACE_QUEUED, true);
}

static void on_duplicate(session_machine *session, int64_t now_us, struct peer *from)
{
    (void)session;
    (void)now_us;
    (void)from;
}

/* Try a few of the wants that nobody had once more, at all peers. */
static void retry_starved(session_machine *session, int64_t now_us)
{
    for (uint32_t i = 0; i < RETRIES_PER_TICK && session->starved.first != NONE; i++) {
        session_want_unmark_all(session, want_at(session, session->starved.first));
        want_at(session, session->starved.first)->probes = 0;
        requeue_starved(session, 1);
    }
    if (session->retry_pause_us < session->config.starved_max_us / 2)
        session->retry_pause_us *= 2;
    else
        session->retry_pause_us = session->config.starved_max_us;
    session->retry_us = now_us + session->retry_pause_us;
}

static void plan(session_machine *session, int64_t now_us)
{
    session->work_left = false;
    find_overdue(session, now_us);
    if (session->starved.count != 0 && now_us >= session->retry_us)
        retry_starved(session, now_us);
    assign_queued(session, now_us);
    session->end_game_us = NEVER;
    if (session->queued.first == NONE)
        end_game(session, now_us);
    session->planned_us = now_us;
}

static int64_t wake_us(const session_machine *session)
{
    int64_t wake = session->work_left ? session->planned_us + 1000 : session->end_game_us;

    for (uint32_t i = 0; i < session->peer_count; i++) {
        const struct peer *peer = &session->peers[i];

        if (peer->connected && peer->copies.count != 0 && peer->next_due_us < wake)
            wake = peer->next_due_us;
    }
    if (session->starved.count != 0 && session->retry_us < wake)
        wake = session->retry_us;
    return wake;
}

const struct session_rules session_default_rules = {
    .joined = on_joined,
    .left = on_left,
    .wanted = on_wanted,
    .delivered = on_delivered,
    .cancelled = on_cancelled,
    .missing = on_missing,
    .have = on_have,
    .duplicate = on_duplicate,
    .plan = plan,
    .wake_us = wake_us,
};
