/* session_wants.c - the table of wants, their lists, and who lacks them. */
#include "reconnect/session_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table ---------------------------------------------------------- */

/* Ids are digests, but of content that an adversary may choose: the seed keeps
 * it from aiming at one chain of the table. */
static uint32_t hash_id(const session_machine *session, const uint8_t *id)
{
    uint64_t word;

    memcpy(&word, id, sizeof word);
    word = (word ^ session->config.seed) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(word >> 32);
}

static uint32_t table_slot(const session_machine *session, const uint8_t *id)
{
    uint32_t slot = hash_id(session, id) & session->table_mask;

    while (session->table[slot] != 0) {
        const struct want *want = want_at(session, session->table[slot] - 1);

        if (memcmp(want->id, id, SESSION_ID_SIZE) == 0)
            break;
        slot = (slot + 1) & session->table_mask;
    }
    return slot;
}

uint32_t session_want_find(const session_machine *session, const uint8_t *id)
{
    if (session->table == NULL)
        return NONE;
    return session->table[table_slot(session, id)] - 1; /* 0 - 1 is NONE */
}

/* Close the gap that removing leaves, so that no tombstones are needed. */
static void table_remove(session_machine *session, const uint8_t *id)
{
    uint32_t mask = session->table_mask;
    uint32_t gap = table_slot(session, id);

    for (uint32_t slot = (gap + 1) & mask; session->table[slot] != 0;
         slot = (slot + 1) & mask) {
        uint32_t home = hash_id(session, want_at(session, session->table[slot] - 1)->id) & mask;

        if (((slot - home) & mask) >= ((slot - gap) & mask)) {
            session->table[gap] = session->table[slot];
            gap = slot;
        }
    }
    session->table[gap] = 0;
}

static kv_code table_grow(session_machine *session, uint32_t wants, kv_status *status)
{
    uint32_t size = session->table == NULL ? 64 : session->table_mask + 1;
    uint32_t *old = session->table;
    uint32_t old_size = old == NULL ? 0 : size;

    while (wants > size / 4 * 3)
        size *= 2;
    if (size == old_size)
        return KV_OK;

    uint32_t *table = calloc(size, sizeof *table);

    if (table == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a table of %u wants", wants);

    session->table = table;
    session->table_mask = size - 1;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i] != 0)
            table[table_slot(session, want_at(session, old[i] - 1)->id)] = old[i];
    free(old);
    return KV_OK;
}

kv_code session_want_reserve(session_machine *session, size_t count, kv_status *status)
{
    if (count > session->config.wants_max - session->want_count)
        return kv_fail(status, KV_TOO_BIG,
                       "%zu wants more than the %u held would pass wants_max = %u: wait for "
                       "blocks, or raise it",
                       count, session->want_count, session->config.wants_max);

    uint32_t wants = session->want_count + (uint32_t)count;

    while (session->piece_count * PIECE_WANTS < wants) {
        struct want *piece = malloc(PIECE_WANTS * sizeof *piece);

        if (piece == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for %u wants", wants);
        session->pieces[session->piece_count++] = piece;
    }
    return table_grow(session, wants, status);
}

uint32_t session_want_add(session_machine *session, const session_request *request)
{
    uint32_t slot = table_slot(session, request->id);

    if (session->table[slot] != 0)
        return NONE;

    uint32_t index = session->free_want;

    if (index != NONE)
        session->free_want = want_at(session, index)->next;
    else
        index = session->want_high++;

    struct want *want = want_at(session, index);

    *want = (struct want){ .tag = request->tag,
                           .next = NONE,
                           .prev = NONE,
                           .chain = NONE,
                           .holder = SESSION_NO_PEER,
                           .place = PLACE_FLYING };
    memcpy(want->id, request->id, SESSION_ID_SIZE);
    for (uint32_t i = 0; i < SESSION_COPIES_MAX; i++)
        want->copies[i].peer = SESSION_NO_PEER;
    session->table[slot] = index + 1;
    session->want_count++;
    return index;
}

void session_want_release(session_machine *session, uint32_t index)
{
    struct want *want = want_at(session, index);

    for (uint32_t i = 0; i < SESSION_COPIES_MAX; i++)
        assert(want->copies[i].peer == SESSION_NO_PEER);
    session_want_place(session, index, PLACE_FREE, false);
    session_want_unmark_all(session, want);
    table_remove(session, want->id);
    want->next = session->free_want;
    session->free_want = index;
    session->want_count--;
}

/* ---- Lists of wants ----------------------------------------------------- */

void session_list_append(session_machine *session, struct list *list, uint32_t index)
{
    struct want *want = want_at(session, index);

    want->prev = list->last;
    want->next = NONE;
    if (list->last != NONE)
        want_at(session, list->last)->next = index;
    else
        list->first = index;
    list->last = index;
    list->count++;
}

void session_list_prepend(session_machine *session, struct list *list, uint32_t index)
{
    struct want *want = want_at(session, index);

    want->next = list->first;
    want->prev = NONE;
    if (list->first != NONE)
        want_at(session, list->first)->prev = index;
    else
        list->last = index;
    list->first = index;
    list->count++;
}

void session_list_remove(session_machine *session, struct list *list, uint32_t index)
{
    struct want *want = want_at(session, index);

    if (want->prev != NONE)
        want_at(session, want->prev)->next = want->next;
    else
        list->first = want->next;
    if (want->next != NONE)
        want_at(session, want->next)->prev = want->prev;
    else
        list->last = want->prev;
    list->count--;
}

void session_want_place(session_machine *session, uint32_t index, enum want_place place,
                        bool first)
{
    struct want *want = want_at(session, index);

    if (want->place == PLACE_QUEUED)
        session_list_remove(session, &session->queued, index);
    else if (want->place == PLACE_STARVED)
        session_list_remove(session, &session->starved, index);

    want->place = (uint8_t)place;
    if (place == PLACE_QUEUED && first)
        session_list_prepend(session, &session->queued, index);
    else if (place == PLACE_QUEUED)
        session_list_append(session, &session->queued, index);
    else if (place == PLACE_STARVED)
        session_list_append(session, &session->starved, index);
}

/* ---- Who lacks a want --------------------------------------------------- */

static uint32_t mark_of(const session_machine *session, const struct peer *peer)
{
    return (uint32_t)peer_slot(session, peer) << 16 | peer->joining;
}

/* Where mark `i` of a want stands. */
static uint32_t *mark_at(const session_machine *session, struct want *want, uint32_t i)
{
    if (i < INLINE_MARKS)
        return &want->marks[i];

    uint32_t node = want->chain;

    for (i -= INLINE_MARKS; i >= NODE_MARKS; i -= NODE_MARKS)
        node = session->nodes[node].next;
    return &session->nodes[node].marks[i];
}

/* The place of `peer` among the marks, or their count. */
static uint32_t mark_find(const session_machine *session, const struct want *want,
                          const struct peer *peer)
{
    uint32_t mark = mark_of(session, peer);
    uint32_t count = want->mark_count;

    for (uint32_t i = 0; i < count && i < INLINE_MARKS; i++)
        if (want->marks[i] == mark)
            return i;

    uint32_t node = want->chain;

    for (uint32_t base = INLINE_MARKS; base < count; base += NODE_MARKS) {
        for (uint32_t i = 0; i < NODE_MARKS && base + i < count; i++)
            if (session->nodes[node].marks[i] == mark)
                return base + i;
        node = session->nodes[node].next;
    }
    return count;
}

bool session_want_marked(const session_machine *session, const struct want *want,
                         const struct peer *peer)
{
    return want->mark_count != 0 && mark_find(session, want, peer) != want->mark_count;
}

/* A node for marks, or NONE: there is one for every second want, at least 1,024. */
static uint32_t node_take(session_machine *session)
{
    if (session->free_node != NONE) {
        uint32_t node = session->free_node;

        session->free_node = session->nodes[node].next;
        return node;
    }
    if (session->node_high == session->node_count) {
        uint32_t limit = session->piece_count * (PIECE_WANTS / 2);
        uint32_t count = session->node_count == 0 ? 128 : session->node_count * 2;

        if (limit < 1024)
            limit = 1024;
        if (count > limit)
            count = limit;
        if (count <= session->node_count)
            return NONE;

        struct mark_node *nodes = realloc(session->nodes, count * sizeof *nodes);

        if (nodes == NULL)
            return NONE;
        session->nodes = nodes;
        session->node_count = count;
    }
    return session->node_high++;
}

void session_want_mark(session_machine *session, struct want *want, const struct peer *peer)
{
    if (session_want_marked(session, want, peer))
        return;

    uint32_t count = want->mark_count;

    if (count >= INLINE_MARKS && (count - INLINE_MARKS) % NODE_MARKS == 0) {
        uint32_t node = node_take(session);

        if (node == NONE) {
            /* Better to ask some peers again than to hold the want back. */
            session_want_unmark_all(session, want);
            count = 0;
        } else if (count == INLINE_MARKS) {
            session->nodes[node].next = NONE;
            want->chain = node;
        } else {
            uint32_t last = want->chain;

            while (session->nodes[last].next != NONE)
                last = session->nodes[last].next;
            session->nodes[node].next = NONE;
            session->nodes[last].next = node;
        }
    }
    want->mark_count++;
    *mark_at(session, want, count) = mark_of(session, peer);
}

void session_want_unmark(session_machine *session, struct want *want, const struct peer *peer)
{
    uint32_t at = mark_find(session, want, peer);

    if (at == want->mark_count)
        return;
    *mark_at(session, want, at) = *mark_at(session, want, want->mark_count - 1u);
    want->mark_count--;

    /* Give back the last node when it has emptied. */
    if (want->mark_count >= INLINE_MARKS &&
        (want->mark_count - INLINE_MARKS) % NODE_MARKS == 0) {
        uint32_t *link = &want->chain;

        while (session->nodes[*link].next != NONE)
            link = &session->nodes[*link].next;
        session->nodes[*link].next = session->free_node;
        session->free_node = *link;
        *link = NONE;
    }
}

void session_want_unmark_all(session_machine *session, struct want *want)
{
    while (want->chain != NONE) {
        uint32_t node = want->chain;

        want->chain = session->nodes[node].next;
        session->nodes[node].next = session->free_node;
        session->free_node = node;
    }
    want->mark_count = 0;
}
