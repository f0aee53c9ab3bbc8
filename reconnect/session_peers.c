/* session_peers.c - peers: joining and leaving, copies in flight, estimates, notes. */
#include "reconnect/session_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct peer *session_peer_at(session_machine *session, session_peer peer)
{
    if (peer >= session->peer_count || !session->peers[peer].connected)
        return NULL;
    return &session->peers[peer];
}

/* ---- Joining and leaving ------------------------------------------------ */

/* The record called `name`, a fresh one, or that of the peer gone longest. A
 * ban outlives its record's turn as long as any other gone peer can be dropped. */
static struct peer *peer_record(session_machine *session, uint64_t name)
{
    struct peer *oldest = NULL;

    for (uint32_t i = 0; i < session->peer_count; i++) {
        struct peer *peer = &session->peers[i];

        if (peer->name == name)
            return peer;
        if (!peer->connected &&
            (oldest == NULL || peer->banned < oldest->banned ||
             (peer->banned == oldest->banned && peer->left_us < oldest->left_us)))
            oldest = peer;
    }
    if (session->peer_count < session->config.peers_max)
        return &session->peers[session->peer_count++];
    return oldest;
}

kv_code session_join(session_machine *session, int64_t now_us, uint64_t name,
                     const session_hello *hello, session_peer *out, kv_status *status)
{
    *out = SESSION_NO_PEER;

    struct peer *peer = peer_record(session, name);

    if (peer == NULL)
        return kv_fail(status, KV_TOO_BIG,
                       "%u peers are connected, the most that peers_max allows",
                       session->config.peers_max);
    if (peer->used && peer->name == name && peer->banned)
        return kv_fail(status, KV_UNPROVEN, "peer %016llx has lied before and stays out",
                       (unsigned long long)name);
    if (peer->used && peer->name == name && peer->connected)
        return kv_fail(status, KV_BUSY, "peer %016llx is connected already",
                       (unsigned long long)name);

    uint16_t joining = (uint16_t)(peer->joining + 1u);

    if (!peer->used || peer->name != name) {
        free(peer->filter);
        *peer = (struct peer){ .name = name,
                               .used = true,
                               .window = WINDOW_UNKNOWN,
                               .rtt_us = session->config.patience_us,
                               .service_ns = session->service_ns,
                               .in_outbox = peer->in_outbox,
                               .outbox_next = peer->outbox_next };
        peer->figures.name = name;
    }
    peer->joining = joining;
    peer->connected = true;
    peer->strikes = 0;
    peer->owed = 0;
    peer->last_us = now_us;
    peer->copies = peer->notes = (struct list){ NONE, NONE, 0 };
    peer->unsent = NONE;
    peer->holds_all = hello != NULL && hello->holds_all;
    if (hello != NULL && hello->rtt_us > 0) {
        peer->rtt_us = peer->rtt_least_us = hello->rtt_us;
        peer->deviation_us = hello->rtt_us / 4;
        peer->rtt_known = true;
    }
    if (peer->rtt_known && peer->window < WINDOW_FIRST)
        peer->window = WINDOW_FIRST;
    uint32_t asked = hello == NULL ? 0 : hello->window;
    if (asked > session->config.window_max)
        asked = session->config.window_max;
    if (asked > peer->window)
        peer->window = (uint16_t)asked;
    /* Nor may a guess of its service time keep it from being asked for so many. */
    if (asked > 0 && !peer->measured && peer->service_ns > USEFUL_US * 1000 / asked)
        peer->service_ns = USEFUL_US * 1000 / asked;
    session->connected_count++;
    session->changed = true;
    *out = peer_slot(session, peer);
    session->rules->joined(session, now_us, peer);
    return KV_OK;
}

void session_leave(session_machine *session, int64_t now_us, session_peer slot)
{
    struct peer *peer = session_peer_at(session, slot);

    if (peer == NULL)
        return;
    session->rules->left(session, now_us, peer);
    assert(peer->copies.count == 0);
    session_notes_drop(session, peer);
    free(peer->filter);
    peer->filter = NULL;
    peer->filter_size = 0;
    peer->holds_all = false;
    peer->connected = false;
    peer->left_us = now_us;
    session->connected_count--;
    session->changed = true;
}

void session_lie(session_machine *session, int64_t now_us, session_peer slot)
{
    struct peer *peer = session_peer_at(session, slot);

    if (peer == NULL)
        return;
    session->figures.lies++;
    peer->banned = true;
    session_leave(session, now_us, slot);
}

kv_code session_inventory(session_machine *session, int64_t now_us, session_peer slot,
                          kv_slice filter, kv_status *status)
{
    (void)now_us;
    struct peer *peer = session_peer_at(session, slot);

    if (peer == NULL)
        return KV_OK;

    const uint8_t *bytes = filter.data;
    size_t bits = filter.size - 4;

    if (filter.size < 4 + 8 || filter.size > SESSION_FILTER_SIZE_MAX ||
        (bits & (bits - 1)) != 0 || bytes[0] < 1 || bytes[0] > 32 ||
        (bytes[1] | bytes[2] | bytes[3]) != 0)
        return kv_fail(status, KV_INVALID, "%zu bytes are not an inventory filter",
                       filter.size);

    uint8_t *copy = realloc(peer->filter, filter.size);

    if (copy == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a filter of %zu bytes",
                       filter.size);
    memcpy(copy, bytes, filter.size);
    peer->filter = copy;
    peer->filter_size = filter.size;
    session->changed = true;
    return KV_OK;
}

void session_refresh(session_machine *session, int64_t now_us, session_peer slot)
{
    struct peer *peer = session_peer_at(session, slot);

    if (peer == NULL)
        return;
    free(peer->filter);
    peer->filter = NULL;
    peer->filter_size = 0;
    peer->joining++; /* its marks lapse */
    peer->history_count = 0;
    session->rules->joined(session, now_us, peer);
    session->changed = true;
}

/* ---- Copies in flight --------------------------------------------------- */

static struct copy *copy_at(const session_machine *session, uint32_t reference)
{
    return &want_at(session, reference / 2)->copies[reference % 2];
}

void session_outbox_add(session_machine *session, struct peer *peer)
{
    if (peer->in_outbox)
        return;
    peer->in_outbox = true;
    peer->outbox_next = SESSION_NO_PEER;
    if (session->outbox_last != SESSION_NO_PEER)
        session->peers[session->outbox_last].outbox_next = peer_slot(session, peer);
    else
        session->outbox_first = peer_slot(session, peer);
    session->outbox_last = peer_slot(session, peer);
}

/* How long everything in flight takes to come in at the present pace, two seconds at
 * most: where this side is the bottleneck, no peer is to blame for that. */
int64_t session_backlog_us(const session_machine *session)
{
    int64_t backlog_us = session->figures.in_flight * session->gap_ns / 1000;

    return backlog_us < 2000000 ? backlog_us : 2000000;
}

void session_copy_start(session_machine *session, uint32_t index, uint32_t which,
                        struct peer *peer, int64_t now_us)
{
    uint32_t reference = 2 * index + which;
    struct want *want = want_at(session, index);
    struct copy *copy = &want->copies[which];
    int64_t ahead = peer->copies.count;
    int64_t expected = peer->rtt_us + (ahead + 1) * peer->service_ns / 1000;
    int64_t slack = 4 * peer->deviation_us;

    if (slack < session->config.timeout_min_us)
        slack = session->config.timeout_min_us;
    if (!peer->measured && slack < session->config.patience_us / 4)
        slack = session->config.patience_us / 4;
    if (slack < expected / 2)
        slack = expected / 2;
    if (slack < session_backlog_us(session))
        slack = session_backlog_us(session);

    int64_t wait = (expected + slack) << (want->tries < 6 ? want->tries : 6);

    if (wait > session->config.timeout_max_us && expected < session->config.timeout_max_us)
        wait = session->config.timeout_max_us;

    *copy = (struct copy){ .sent_us = now_us,
                           .due_us = now_us + wait,
                           .expected_us = now_us + expected,
                           .wait_us = (uint32_t)(wait < UINT32_MAX ? wait : UINT32_MAX),
                           .next = NONE,
                           .prev = peer->copies.last,
                           .peer = peer_slot(session, peer),
                           .ahead = (uint16_t)(ahead < UINT16_MAX ? ahead : UINT16_MAX) };
    if (peer->copies.last != NONE)
        copy_at(session, peer->copies.last)->next = reference;
    else
        peer->copies.first = reference;
    if (peer->copies.count == 0 || copy->due_us < peer->next_due_us)
        peer->next_due_us = copy->due_us;
    peer->copies.last = reference;
    peer->copies.count++;
    session->figures.in_flight++;
    if (peer->unsent == NONE)
        peer->unsent = reference;
    session_outbox_add(session, peer);
}

void session_copy_stop(session_machine *session, uint32_t reference)
{
    struct copy *copy = copy_at(session, reference);
    struct peer *peer = &session->peers[copy->peer];

    if (peer->unsent == reference)
        peer->unsent = copy->next;
    if (copy->prev != NONE)
        copy_at(session, copy->prev)->next = copy->next;
    else
        peer->copies.first = copy->next;
    if (copy->next != NONE)
        copy_at(session, copy->next)->prev = copy->prev;
    else
        peer->copies.last = copy->prev;
    peer->copies.count--;
    session->figures.in_flight--;
    copy->peer = SESSION_NO_PEER;
}

/* ---- Estimates ---------------------------------------------------------- */

/*
 * One answer tells of two things, the way there and back and the work on the
 * wants ahead of it. The error of the forecast is put down to the first when
 * little was ahead, else to the second.
 */
void session_peer_learn(session_machine *session, struct peer *peer, const struct copy *copy,
                        int64_t now_us)
{
    int64_t elapsed = now_us - copy->sent_us;
    int64_t queue = (int64_t)(copy->ahead + 1) * peer->service_ns / 1000;

    peer->strikes = 0;
    peer->measured = true;
    if (!peer->rtt_known) {
        queue -= peer->service_ns / 1000; /* its own is part of the way there and back */
        peer->rtt_us = elapsed > 2 * queue ? elapsed - queue : elapsed / 2;
        peer->rtt_least_us = peer->rtt_us;
        peer->deviation_us = elapsed / 8;
        peer->rtt_known = true;
        if (peer->window < WINDOW_FIRST)
            peer->window = WINDOW_FIRST;
    } else {
        int64_t error = elapsed - peer->rtt_us - queue;

        if (copy->ahead == 0 || error < -queue)
            peer->rtt_us += error / 8;
        else
            peer->service_ns += error * 1000 / (copy->ahead + 1) / 8;
        if (peer->rtt_us < 1)
            peer->rtt_us = 1;
        if (peer->rtt_us < peer->rtt_least_us)
            peer->rtt_least_us = peer->rtt_us;
        if (peer->service_ns < 0)
            peer->service_ns = 0;
        peer->deviation_us += ((error < 0 ? -error : error) - peer->deviation_us) / 4;
    }
    session->service_ns += (peer->service_ns - session->service_ns) / 16;

    /* A window that was in use may grow: it doubles in one round trip. */
    if (peer->copies.count * 2 >= peer->window && peer->window < session->config.window_max)
        peer->window++;
    peer->last_us = now_us;
}

void session_peer_remember(struct peer *peer, bool had_it)
{
    peer->history = peer->history << 1 | (had_it ? 1u : 0u);
    if (peer->history_count < HISTORY)
        peer->history_count++;
}

/* ---- Notes -------------------------------------------------------------- */

void session_note(session_machine *session, struct peer *peer, session_op op,
                  const struct want *want)
{
    uint32_t index = session->free_note;

    if (index != NONE) {
        session->free_note = session->notes[index].next;
    } else {
        if (session->note_high == session->note_count) {
            uint32_t count = session->note_count == 0 ? 64 : session->note_count * 2;
            struct note *notes =
                count > NOTES_MAX ? NULL : realloc(session->notes, count * sizeof *notes);

            if (notes == NULL)
                return;
            session->notes = notes;
            session->note_count = count;
        }
        index = session->note_high++;
    }

    struct note *note = &session->notes[index];

    memcpy(note->id, want->id, SESSION_ID_SIZE);
    note->tag = want->tag;
    note->op = op;
    note->next = NONE;
    if (peer->notes.last != NONE)
        session->notes[peer->notes.last].next = index;
    else
        peer->notes.first = index;
    peer->notes.last = index;
    peer->notes.count++;
    session_outbox_add(session, peer);
}

void session_notes_drop(session_machine *session, struct peer *peer)
{
    if (peer->notes.first != NONE) {
        session->notes[peer->notes.last].next = session->free_note;
        session->free_note = peer->notes.first;
    }
    peer->notes = (struct list){ NONE, NONE, 0 };
}
