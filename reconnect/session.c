/* session.c - making a session, wants and answers, and what to send. */
#include "reconnect/session_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making one --------------------------------------------------------- */

static kv_code config_check(session_config *config, kv_status *status)
{
    static const session_config fallback = { .wants_max = 1u << 20,
                                             .peers_max = 1024,
                                             .window_max = 256,
                                             .window_bytes_max = 4u << 20,
                                             .patience_us = 1000000,
                                             .timeout_min_us = 50000,
                                             .timeout_max_us = 30000000,
                                             .starved_min_us = 1000000,
                                             .starved_max_us = 60000000 };

#define FILL(member)                          \
    do {                                      \
        if (config->member == 0)              \
            config->member = fallback.member; \
    } while (0)
    FILL(wants_max);
    FILL(peers_max);
    FILL(window_max);
    FILL(window_bytes_max);
    FILL(patience_us);
    FILL(timeout_min_us);
    FILL(timeout_max_us);
    FILL(starved_min_us);
    FILL(starved_max_us);
#undef FILL
    if (config->mode > SESSION_BROADCAST || config->wants_max > SESSION_WANTS_MAX ||
        config->peers_max > SESSION_PEERS_MAX || config->window_max > UINT16_MAX)
        return kv_fail(status, KV_INVALID,
                       "session: mode %u, wants_max %u, peers_max %u or window_max %u is above "
                       "its limit of %u, %u, %u, %u",
                       (unsigned)config->mode, config->wants_max, config->peers_max,
                       config->window_max, (unsigned)SESSION_BROADCAST, SESSION_WANTS_MAX,
                       SESSION_PEERS_MAX, UINT16_MAX);
    if (config->patience_us < 0 || config->timeout_min_us < 0 || config->starved_min_us < 0 ||
        config->timeout_max_us < config->timeout_min_us ||
        config->starved_max_us < config->starved_min_us)
        return kv_fail(status, KV_INVALID,
                       "session: a time is negative, or a longest time is below its least");
    return KV_OK;
}

kv_code session_new(const session_config *config, session_machine **out, kv_status *status)
{
    static const struct session_rules *const rules[] = {
        [SESSION_DEFAULT] = &session_default_rules,
        [SESSION_ROUND1] = &session_round1_rules,
        [SESSION_BROADCAST] = &session_broadcast_rules,
    };
    session_config filled = config != NULL ? *config : (session_config){ 0 };
    kv_code code = config_check(&filled, status);

    *out = NULL;
    if (code != KV_OK)
        return code;

    session_machine *made = calloc(1, sizeof *made);

    if (made == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a session");

    made->config = filled;
    made->rules = rules[filled.mode];
    made->free_want = made->free_node = made->free_note = NONE;
    made->queued = made->starved = (struct list){ NONE, NONE, 0 };
    made->outbox_first = made->outbox_last = SESSION_NO_PEER;
    made->need_peers_us = made->retry_us = made->end_game_us = NEVER;
    made->service_ns = SERVICE_FIRST_NS;
    made->entries_max = SESSION_ENTRIES_MAX;
    made->random = filled.seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
    made->pieces = calloc(filled.wants_max / PIECE_WANTS + 1, sizeof(void *));
    made->peers = calloc(filled.peers_max, sizeof *made->peers);
    made->candidates = calloc(filled.peers_max, sizeof *made->candidates);
    if (made->pieces == NULL || made->peers == NULL || made->candidates == NULL)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for %u peers and %u wants",
                       filled.peers_max, filled.wants_max);
    if (code == KV_OK && made->rules->init != NULL)
        code = made->rules->init(made, status);
    if (code != KV_OK) {
        session_free(made);
        return code;
    }
    *out = made;
    return KV_OK;
}

void session_free(session_machine *session)
{
    if (session == NULL)
        return;
    if (session->rules->clear != NULL)
        session->rules->clear(session);
    for (uint32_t i = 0; i < session->piece_count; i++)
        free(session->pieces[i]);
    for (uint32_t i = 0; session->peers != NULL && i < session->peer_count; i++)
        free(session->peers[i].filter);
    free(session->pieces);
    free(session->table);
    free(session->nodes);
    free(session->notes);
    free(session->peers);
    free(session->candidates);
    free(session);
}

/* ---- Wants -------------------------------------------------------------- */

kv_code session_want(session_machine *session, int64_t now_us, const session_request *requests,
                     size_t count, kv_status *status)
{
    kv_code code = session_want_reserve(session, count, status);

    if (code != KV_OK)
        return code;

    size_t added = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t index = session_want_add(session, &requests[i]);

        if (index == NONE)
            continue;
        session_want_place(session, index, PLACE_QUEUED, false);
        added++;
    }
    if (added != 0)
        session->rules->wanted(session, now_us, added);
    session->changed = true;
    return KV_OK;
}

/* Take all copies of a want back, with a cancel to each peer that was asked but
 * `answered` (may be NULL). */
static void copies_end(session_machine *session, uint32_t index, const struct peer *answered)
{
    struct want *want = want_at(session, index);

    for (uint32_t i = 0; i < SESSION_COPIES_MAX; i++) {
        if (want->copies[i].peer == SESSION_NO_PEER)
            continue;

        struct peer *peer = &session->peers[want->copies[i].peer];

        session_copy_stop(session, 2 * index + i);
        if (peer == answered)
            continue;
        peer->owed++;
        session_note(session, peer, SESSION_CANCEL, want);
    }
}

static void want_cancel(session_machine *session, int64_t now_us, uint32_t index)
{
    session->rules->cancelled(session, now_us, index);
    copies_end(session, index, NULL);
    session_want_release(session, index);
    session->changed = true;
}

kv_code session_cancel(session_machine *session, int64_t now_us, const uint8_t *id)
{
    uint32_t index = session_want_find(session, id);

    if (index == NONE)
        return KV_NOT_FOUND;
    want_cancel(session, now_us, index);
    return KV_OK;
}

void session_cancel_all(session_machine *session, int64_t now_us)
{
    for (uint32_t i = 0; i < session->want_high; i++)
        if (want_at(session, i)->place != PLACE_FREE)
            want_cancel(session, now_us, i);
}

bool session_wanted(const session_machine *session, const uint8_t *id, uint64_t *tag)
{
    uint32_t index = session_want_find(session, id);

    if (index != NONE && tag != NULL)
        *tag = want_at(session, index)->tag;
    return index != NONE;
}

/* ---- Answers ------------------------------------------------------------ */

/* Something came that is not wanted (any more). */
static session_verdict block_unwanted(session_machine *session, int64_t now_us,
                                      struct peer *peer, size_t size)
{
    if (peer->owed > 0) {
        peer->owed--;
        peer->figures.duplicate_blocks++;
        peer->figures.duplicate_bytes += size;
        session->figures.duplicate_blocks++;
        session->figures.duplicate_bytes += size;
        session->rules->duplicate(session, now_us, peer);
        return SESSION_DUPLICATE;
    }
    peer->figures.unasked_blocks++;
    session->figures.unasked_blocks++;
    session->figures.unasked_bytes += size;
    return SESSION_UNASKED;
}

/* How far apart blocks come while they come, over stretches of a fiftieth of a second and
 * more, for those of one message come all at once. A pause says nothing of the pace. */
static void pace_note(session_machine *session, int64_t now_us)
{
    int64_t pause_us = now_us - session->block_us;

    session->block_us = now_us;
    if (pause_us > PAUSE_US) {
        session->pace_us = now_us;
        session->pace_blocks = 0;
        return;
    }

    int64_t stretch_us = now_us - session->pace_us;

    session->pace_blocks++;
    if (stretch_us < PACE_STRETCH_US)
        return;

    int64_t gap_ns = stretch_us * 1000 / session->pace_blocks;

    session->gap_ns = session->gap_ns == 0 ? gap_ns : (session->gap_ns + gap_ns) / 2;
    session->pace_us = now_us;
    session->pace_blocks = 0;
}

session_verdict session_block(session_machine *session, int64_t now_us, session_peer slot,
                              const uint8_t *id, size_t size, uint64_t *tag)
{
    struct peer *peer = session_peer_at(session, slot);
    uint32_t index = session_want_find(session, id);

    if (index == NONE && peer == NULL) {
        session->figures.unasked_blocks++;
        session->figures.unasked_bytes += size;
        return SESSION_UNASKED;
    }
    if (index == NONE)
        return block_unwanted(session, now_us, peer, size);

    struct want *want = want_at(session, index);
    bool asked = false;

    for (uint32_t i = 0; i < SESSION_COPIES_MAX && peer != NULL; i++)
        if (want->copies[i].peer == slot) {
            asked = true;
            session_peer_learn(session, peer, &want->copies[i], now_us);
        }
    if (peer != NULL) {
        /* A late answer to a copy taken back is as good as any. */
        if (!asked && peer->owed > 0)
            peer->owed--;
        session_peer_remember(peer, true);
        peer->figures.blocks++;
        peer->figures.bytes += size;
        peer->last_us = now_us;
        peer->strikes = 0;
    }
    session->block_size +=
        ((int64_t)size - session->block_size) / (session->figures.blocks < 16 ? 2 : 16);
    pace_note(session, now_us);
    session->figures.blocks++;
    session->figures.bytes += size;
    if (tag != NULL)
        *tag = want->tag;
    session->rules->delivered(session, now_us, peer, index);
    copies_end(session, index, peer);
    session_want_release(session, index);
    session->changed = true;
    return SESSION_DELIVERED;
}

void session_missing(session_machine *session, int64_t now_us, session_peer slot,
                     const uint8_t *id)
{
    struct peer *peer = session_peer_at(session, slot);
    uint32_t index = session_want_find(session, id);

    if (peer == NULL)
        return;
    peer->figures.missing++;
    session->figures.missing++;
    peer->last_us = now_us;
    if (index == NONE) {
        if (peer->owed > 0)
            peer->owed--;
        return;
    }
    session->rules->missing(session, now_us, peer, index);
    session->changed = true;
}

void session_have(session_machine *session, int64_t now_us, session_peer slot,
                  const uint8_t *id)
{
    struct peer *peer = session_peer_at(session, slot);
    uint32_t index = session_want_find(session, id);

    if (peer == NULL || index == NONE)
        return;
    peer->last_us = now_us;
    session->rules->have(session, now_us, peer, index);
    session->changed = true;
}

/* ---- What to send ------------------------------------------------------- */

static void entry_fill(session_machine *session, size_t at, session_op op, const uint8_t *id,
                       uint64_t tag)
{
    /* Copied, for a want may be released while its message is being written. */
    memcpy(session->sent_ids[at], id, SESSION_ID_SIZE);
    session->entries[at] = (session_entry){ .op = op, .id = session->sent_ids[at], .tag = tag };
}

/* One message for `peer`: notes first, for a cancel saves more than a want. */
static size_t message_fill(session_machine *session, struct peer *peer)
{
    size_t count = 0;

    while (peer->notes.first != NONE && count < session->entries_max) {
        uint32_t index = peer->notes.first;
        struct note *note = &session->notes[index];

        entry_fill(session, count++, (session_op)note->op, note->id, note->tag);
        if (note->op == SESSION_CANCEL)
            session->figures.cancelled++;
        else if (note->op == SESSION_ASK_BLOCK)
            session->figures.asked++;
        peer->notes.first = note->next;
        if (note->next == NONE)
            peer->notes.last = NONE;
        peer->notes.count--;
        note->next = session->free_note;
        session->free_note = index;
    }
    while (peer->unsent != NONE && count < session->entries_max) {
        const struct want *want = want_at(session, peer->unsent / 2);

        entry_fill(session, count++, SESSION_ASK_BLOCK, want->id, want->tag);
        peer->unsent = want->copies[peer->unsent % 2].next;
        peer->figures.asked++;
        session->figures.asked++;
    }
    return count;
}

static bool need_peers(session_machine *session, int64_t now_us, session_action *out)
{
    if (session->starved.count == 0 || now_us < session->need_peers_us)
        return false;

    const struct want *want = want_at(session, session->starved.first);
    int64_t pause = session->need_pause_us;

    if (pause == 0)
        pause = session->config.starved_min_us;
    else if (pause < session->config.starved_max_us / 2)
        pause *= 2;
    else
        pause = session->config.starved_max_us;
    session->need_pause_us = pause;
    session->need_peers_us = now_us + pause;
    entry_fill(session, 0, SESSION_ASK_BLOCK, want->id, want->tag);
    *out = (session_action){ .kind = SESSION_NEED_PEERS,
                             .peer = SESSION_NO_PEER,
                             .entries = session->entries,
                             .count = 1 };
    return true;
}

void session_limit_entries(session_machine *session, size_t count)
{
    session->entries_max = count < 1                     ? 1
                           : count > SESSION_ENTRIES_MAX ? SESSION_ENTRIES_MAX
                                                         : count;
}

bool session_poll(session_machine *session, int64_t now_us, session_action *out)
{
    if (session->outbox_first == SESSION_NO_PEER &&
        (session->changed || now_us >= session_wake_us(session))) {
        if (session->changed)
            session->passed_over = 0;
        session->changed = false;
        session->rules->plan(session, now_us);
    }
    while (session->outbox_first != SESSION_NO_PEER) {
        struct peer *peer = &session->peers[session->outbox_first];
        size_t count = peer->connected ? message_fill(session, peer) : 0;

        if (peer->notes.count == 0 && peer->unsent == NONE) {
            session->outbox_first = peer->outbox_next;
            if (session->outbox_first == SESSION_NO_PEER)
                session->outbox_last = SESSION_NO_PEER;
            peer->in_outbox = false;
        }
        if (count == 0)
            continue;
        session->figures.messages_out++;
        *out = (session_action){ .kind = SESSION_SEND,
                                 .peer = peer_slot(session, peer),
                                 .entries = session->entries,
                                 .count = count };
        return true;
    }
    return need_peers(session, now_us, out);
}

int64_t session_wake_us(const session_machine *session)
{
    int64_t wake = session->rules->wake_us(session);

    if (session->starved.count != 0 && session->need_peers_us < wake)
        wake = session->need_peers_us;
    return wake;
}

/* ---- Figures ------------------------------------------------------------ */

void session_measure(const session_machine *session, session_figures *out)
{
    *out = session->figures;
    out->wants = session->want_count;
    out->queued = session->queued.count;
    out->starved = session->starved.count;
    out->peers = session->connected_count;
    out->memory =
        sizeof *session + (size_t)session->piece_count * PIECE_WANTS * sizeof(struct want) +
        (session->config.wants_max / PIECE_WANTS + 1) * sizeof(void *) +
        (session->table == NULL ? 0 : session->table_mask + 1u) * sizeof(uint32_t) +
        session->node_count * sizeof *session->nodes +
        session->note_count * sizeof *session->notes +
        session->config.peers_max * (sizeof *session->peers + sizeof *session->candidates);
    for (uint32_t i = 0; i < session->peer_count; i++)
        out->memory += session->peers[i].filter_size;
}

bool session_measure_peer(const session_machine *session, size_t index,
                          session_peer_figures *out)
{
    if (index >= session->peer_count)
        return false;

    const struct peer *peer = &session->peers[index];

    *out = peer->figures;
    out->connected = peer->connected;
    out->banned = peer->banned;
    out->rtt_us = peer->rtt_known ? peer->rtt_us : 0;
    out->service_us = peer->service_ns / 1000;
    out->window = peer->window;
    out->in_flight = peer->connected ? peer->copies.count : 0;
    out->have_percent =
        peer->history_count == 0 ? 100 : recently_had(peer) * 100 / peer->history_count;
    return true;
}

struct text {
    char *at;
    size_t size, length;
};

static void KV_PRINTF(2, 3) text_add(struct text *text, const char *format, ...)
{
    size_t room = text->length < text->size ? text->size - text->length : 0;
    va_list arguments;

    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is just above */
    int length = vsnprintf(room != 0 ? text->at + text->length : NULL, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->length += (size_t)length;
}

size_t session_print(const session_machine *session, char *out, size_t size,
                     void (*label)(void *context, uint64_t name, char text[64]), void *context)
{
    struct text text = { out, size, 0 };
    session_figures figures;
    session_peer_figures peer;

    session_measure(session, &figures);
    text_add(&text, "session status\n");
    text_add(&text, "\tblocks received: %" PRIu64 "\n",
             figures.blocks + figures.duplicate_blocks + figures.unasked_blocks);
    text_add(&text, "\tblocks sent: 0\n");
    text_add(&text, "\tdata received: %" PRIu64 "\n",
             figures.bytes + figures.duplicate_bytes + figures.unasked_bytes);
    text_add(&text, "\tdata sent: 0\n");
    text_add(&text, "\tdup blocks received: %" PRIu64 "\n",
             figures.duplicate_blocks + figures.unasked_blocks);
    text_add(&text, "\tdup data received: %" PRIu64 " B\n",
             figures.duplicate_bytes + figures.unasked_bytes);
    text_add(&text, "\twantlist [%" PRIu32 " keys]\n", figures.wants);
    text_add(&text, "\tpartners [%" PRIu32 "]\n", figures.peers);
    for (size_t i = 0; session_measure_peer(session, i, &peer); i++) {
        char name[64];

        if (!peer.connected)
            continue;
        if (label != NULL)
            label(context, peer.name, name);
        else
            snprintf(name, sizeof name, "%016" PRIx64, peer.name);
        text_add(&text,
                 "\t\t%s blocks %" PRIu64 " bytes %" PRIu64 " dup %" PRIu64
                 " in flight %" PRIu32 " rtt %.1f ms\n",
                 name, peer.blocks, peer.bytes, peer.duplicate_blocks, peer.in_flight,
                 (double)peer.rtt_us / 1000);
    }
    return text.length;
}
