/* diff.c - the traversals that the learner decides, `diff` and `pull`. */
#include "reconnect/align.h"
#include "reconnect/learner.h"

#include <stdlib.h>
#include <string.h>

/* How many bits of each entry go up, by tier and attempt. Seven bits of a leaf
 * mistake one changed leaf in 128 for the same; its page is asked for again, which
 * costs less than longer fingerprints of all leaves. docs/reconnect.md counts. */
enum { LEAF_BITS = 7, LEAF_BITS_SURE = 24, PAGE_BITS_SURE = 32 };
/* Questions are made as they are sent: a peer answers the first while the next are
 * made. Its output is refilled when it is empty, by about this much. */
enum { PUMP_SIZE = 8 << 10 };
/* Pages in the first question; each may have twice as many as the one before, so that the
 * peer has something to do at once, and messages are few. */
enum { ASK_FIRST = 64 };
/* Bytes of digest sent where a teacher stands at another version than the goal. */
enum { CHECK_SIZE = 8 };

struct want *want_new(uint32_t map, unsigned level, unsigned tier, const vmap_node *node,
                      kv_slice first, const kv_range *range)
{
    struct want *want =
        malloc(sizeof(*want) + first.size + range->first.size + range->limit.size);
    if (want == NULL)
        return NULL;
    *want = (struct want){ .map = map,
                           .level = (uint8_t)level,
                           .tier = (uint8_t)tier,
                           .teller = LEARNER_NO_PEER,
                           .node = *node,
                           .first_size = first.size,
                           .start_size = range->first.size,
                           .limit_size = range->limit.size };
    uint8_t *at = want->keys;
    const kv_slice parts[] = { first, range->first, range->limit };
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].size > 0)
            memcpy(at, parts[i].data, parts[i].size);
        at += parts[i].size;
    }
    return want;
}

kv_slice want_first(const struct want *want)
{
    return kv_bytes(want->keys, want->first_size);
}

kv_range want_range(const struct want *want)
{
    const uint8_t *start = want->keys + want->first_size;
    return (kv_range){ kv_bytes(start, want->start_size),
                       kv_bytes(start + want->start_size, want->limit_size) };
}

/* A digest stands for one page of one map, so it names the want; what else tells
 * wants of that page apart is mixed in. */
void want_id(const struct want *want, uint8_t id[SESSION_ID_SIZE])
{
    memcpy(id, want->node.digest.bytes, SESSION_ID_SIZE);
    for (int i = 0; i < 4; i++)
        id[i] = (uint8_t)(id[i] ^ want->map >> (8 * i));
    id[4] ^= want->level;
    id[5] ^= want->tier;
    id[6] ^= want->attempt;
}

static void push_want(reconnect_learner *learner, struct want *want)
{
    unsigned level = want->level;
    if (learner->todo_last[level] == NULL)
        learner->todo_last[level] = &learner->todo[level];
    want->next = NULL;
    *learner->todo_last[level] = want;
    learner->todo_last[level] = &want->next;
    learner->todo_count++;
}

static struct want *pop_want(reconnect_learner *learner, unsigned level)
{
    struct want *want = learner->todo[level];
    learner->todo[level] = want->next;
    if (want->next == NULL)
        learner->todo_last[level] = &learner->todo[level];
    learner->todo_count--;
    return want;
}

static void free_want(reconnect_learner *learner, struct want *want)
{
    if (want->before == NULL)
        learner->all = want->behind;
    else
        want->before->behind = want->behind;
    if (want->behind != NULL)
        want->behind->before = want->before;
    learner->known--;
    guess_free(want->guess);
    free(want);
}

kv_code diff_want(reconnect_learner *learner, uint32_t map, unsigned level,
                  const vmap_node *node, kv_slice first, const kv_range *range, uint32_t trip,
                  uint32_t teller, kv_status *status)
{
    unsigned tier = learner->goal.traversal == RECONNECT_PULL
                        ? level
                        : stage_tier(level, learner->maps[map].page_bits, node->size);
    struct want *want = want_new(map, level, tier, node, first, range);
    if (want == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a want");
    if (learner->goal.traversal == RECONNECT_PULL)
        want->attempt = ATTEMPT_WHOLE;
    want->trip = trip;
    want->teller = teller;
    want->behind = learner->all;
    if (learner->all != NULL)
        learner->all->before = want;
    learner->all = want;
    learner->known++;
    push_want(learner, want);
    return KV_OK;
}

kv_code diff_begin(reconnect_learner *learner, kv_status *status)
{
    kv_range all = { { NULL, 0 }, { NULL, 0 } };
    kv_code code = KV_OK;
    for (uint32_t i = 0; i < learner->map_count && code == KV_OK; i++) {
        struct learner_map *map = &learner->maps[i];
        bool empty = map->node.size == 0;
        if (map->same || empty) {
            code = stage_forget(&learner->stage, map->stage, &all, status);
            learner->figures.leaves_done += map->node.size;
        }
        if (code == KV_OK)
            code = stage_empty_map(&learner->stage, map->stage, !map->same && empty, status);
        if (code == KV_OK && !map->same && !empty)
            code = diff_want(learner, i, map->level, &map->node, kv_bytes(NULL, 0), &all, 2,
                             LEARNER_NO_PEER, status);
    }
    if (code == KV_OK && learner->known == 0)
        learner_fetched(learner);
    return code;
}

void diff_clear(reconnect_learner *learner, int64_t now_us)
{
    for (unsigned level = 0; level < VMAP_LEVELS_MAX; level++) {
        learner->todo[level] = NULL;
        learner->todo_last[level] = NULL;
    }
    learner->todo_count = 0;
    while (learner->all != NULL)
        free_want(learner, learner->all);
    if (learner->session != NULL)
        session_cancel_all(learner->session, now_us);
}

kv_code diff_restart(reconnect_learner *learner, int64_t now_us, bool pages_too,
                     kv_status *status)
{
    diff_clear(learner, now_us);
    kv_code code = pages_too ? stage_forget_pages(&learner->stage, status) : KV_OK;
    if (code == KV_OK)
        code = stage_flush(&learner->stage, status);
    learner->stage.found = true;
    learner->figures.leaves_done = 0;
    return code == KV_OK ? diff_begin(learner, status) : code;
}

/* ---- Asking ------------------------------------------------------------- */

static unsigned have_bits(const struct want *want)
{
    if (want->attempt == ATTEMPT_WHOLE)
        return 0;
    if (want->tier == 0)
        return want->attempt == ATTEMPT_SHORT ? LEAF_BITS : LEAF_BITS_SURE;
    return want->attempt == ATTEMPT_SHORT ? DIFF_PAGE_BITS : PAGE_BITS_SURE;
}

/* Hand the next wants to the session; pages nearest the leaves first, so that
 * what is known stays little. */
static kv_code feed_session(reconnect_learner *learner, int64_t now_us, kv_status *status)
{
    for (unsigned level = 0; level < VMAP_LEVELS_MAX; level++) {
        while (learner->todo[level] != NULL &&
               learner->known - learner->todo_count < LEARNER_OPEN_MAX &&
               (level == 0 || learner->todo_count < LEARNER_KNOWN_MAX)) {
            struct want *want = pop_want(learner, level);
            kv_code code = pages_take_staged(learner, want, status);
            if (code == KV_OK) {
                free_want(learner, want);
                /* What it named may be nearer the leaves. */
                if (level > 0)
                    return feed_session(learner, now_us, status);
                continue;
            }
            uint8_t id[SESSION_ID_SIZE];
            session_request request = { id, (uint64_t)(uintptr_t)want };
            want_id(want, id);
            if (code == KV_NOT_FOUND)
                code = session_want(learner->session, now_us, &request, 1, status);
            if (code != KV_OK) {
                push_want(learner, want);
                return code;
            }
        }
    }
    return KV_OK;
}

/* A want frame being filled. */
struct asking {
    reconnect_learner *learner;
    struct peer *peer;
    struct wire_want want;
    struct request *request;
    struct wire_out before; /* the first key put last */
};

static void finish_frame(struct asking *asking)
{
    struct peer *peer = asking->peer;
    struct request *request = asking->request;
    if (request == NULL)
        return;
    asking->want.count = request->count;
    size_t frame = wire_frame_begin(&peer->out, WIRE_WANT);
    wire_put_want(&peer->out, &asking->want);
    wire_put(&peer->out, peer->frame.data, peer->frame.size);
    wire_frame_end(&peer->out, frame);
    peer->messages_out++;
    learner_count_out(asking->learner);
    if (peer->last == NULL)
        peer->last = &peer->first;
    *peer->last = request;
    peer->last = &request->next;
    asking->request = NULL;
    peer->frame.size = 0;
}

static kv_code begin_frame(struct asking *asking, const struct want *want, size_t room,
                           kv_status *status)
{
    struct peer *peer = asking->peer;
    asking->want = (struct wire_want){ .id = peer->request_id++,
                                       .map = peer->maps[want->map],
                                       .level = want->level,
                                       .tier = want->tier,
                                       .have_bits = have_bits(want),
                                       .check_size = peer->exact ? 0 : CHECK_SIZE };
    asking->before.size = 0;
    asking->request = malloc(sizeof(struct request) + room * SESSION_ID_SIZE);
    if (asking->request == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a request");
    *asking->request = (struct request){ .id = asking->want.id, .tier = want->tier };
    return KV_OK;
}

static bool fits_frame(const struct asking *asking, const struct want *want)
{
    return asking->request != NULL && asking->want.map == asking->peer->maps[want->map] &&
           asking->want.level == want->level && asking->want.tier == want->tier &&
           asking->want.have_bits == have_bits(want) &&
           asking->request->count < WIRE_PAGES_MAX && asking->peer->frame.size < (32u << 10) &&
           asking->learner->goal.traversal != RECONNECT_PULL;
}

static kv_code ask_page(struct asking *asking, struct want *want, size_t room,
                        kv_status *status)
{
    struct peer *peer = asking->peer;
    kv_code code = KV_OK;
    if (!fits_frame(asking, want)) {
        finish_frame(asking);
        code = begin_frame(asking, want, room, status);
        if (code != KV_OK)
            return code;
    }
    kv_slice first = want_first(want);
    wire_put_key(&peer->frame, kv_bytes(asking->before.data, asking->before.size), first);
    asking->before.size = 0;
    wire_put(&asking->before, first.data, first.size);
    wire_put(&peer->frame, want->node.digest.bytes, asking->want.check_size);
    code = pages_put_haves(asking->learner, want, asking->want.have_bits, &peer->frame, status);
    want_id(want, asking->request->ids[asking->request->count++]);
    if (code == KV_OK && (peer->frame.failed || asking->before.failed))
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a request");
    return code;
}

static struct peer *peer_of(reconnect_learner *learner, session_peer number)
{
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++)
        if (learner->peers[i].joined && learner->peers[i].session_peer == number)
            return &learner->peers[i];
    return NULL;
}

/* The peer's offer has no such map: as good as an answer that it is gone. */
static bool lacks_map(const struct peer *peer, const struct want *want)
{
    return peer->maps[want->map] == UINT16_MAX;
}

static kv_code send_action(reconnect_learner *learner, int64_t now_us,
                           const session_action *action, kv_status *status)
{
    struct asking asking = { .learner = learner, .peer = peer_of(learner, action->peer) };
    if (asking.peer == NULL || asking.peer->phase != PEER_SERVING)
        return KV_OK;
    kv_code code = KV_OK;
    size_t missing = 0;
    uint8_t ids[SESSION_ENTRIES_MAX][SESSION_ID_SIZE];
    for (size_t i = 0; i < action->count && code == KV_OK; i++) {
        struct want *want = (struct want *)(uintptr_t)action->entries[i].tag;
        if (action->entries[i].op == SESSION_CANCEL)
            continue; /* the answer counts as a duplicate */
        if (want->ahead)
            want->ahead = false; /* this is what was asked with HELLO */
        else if (lacks_map(asking.peer, want))
            memcpy(ids[missing++], action->entries[i].id, SESSION_ID_SIZE);
        else
            code = ask_page(&asking, want, action->count - i, status);
    }
    finish_frame(&asking);
    wire_out_clear(&asking.before);
    if (asking.peer->first != NULL && asking.peer->asked_us == 0)
        asking.peer->asked_us = now_us;
    for (size_t i = 0; i < missing; i++)
        session_missing(learner->session, now_us, action->peer, ids[i]);
    return code;
}

kv_code diff_pump(reconnect_learner *learner, int64_t now_us, kv_status *status)
{
    kv_code code = feed_session(learner, now_us, status);
    session_action action;
    if (learner->ask_entries == 0)
        learner->ask_entries = ASK_FIRST;
    session_limit_entries(learner->session, learner->ask_entries);
    while (code == KV_OK && learner->phase == RECONNECT_RUNNING &&
           session_poll(learner->session, now_us, &action)) {
        if (action.kind == SESSION_NEED_PEERS) {
            learner_starved(learner);
            continue;
        }
        code = send_action(learner, now_us, &action, status);
        if (action.count >= learner->ask_entries &&
            learner->ask_entries < SESSION_ENTRIES_MAX) {
            learner->ask_entries *= 2;
            break;
        }
        const struct peer *peer = peer_of(learner, action.peer);
        if (peer != NULL && peer->out.size >= PUMP_SIZE)
            break;
    }
    if (code == KV_OK && learner->known == 0 && learner->goal_set &&
        learner->phase == RECONNECT_RUNNING)
        learner_fetched(learner);
    return code;
}

/* ---- Answers ------------------------------------------------------------ */

static void drop_request(struct peer *peer)
{
    struct request *request = peer->first;
    peer->first = request->next;
    if (peer->first == NULL)
        peer->last = &peer->first;
    free(request);
}

/* One page of an answer was wanted and came. */
static kv_code take_page(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                         struct want *want, struct wire_in *in, kv_status *status)
{
    uint8_t id[SESSION_ID_SIZE];
    const uint8_t *begin = in->at;
    bool misled = learner->misled;
    want_id(want, id);
    kv_status why = KV_STATUS_INIT;
    kv_code code = pages_take(learner, want, in, peer_number(learner, peer), &why);
    bool here = learner->misled && !misled;
    bool chance = code == KV_UNPROVEN && !in->bad && !here && want->attempt < ATTEMPT_WHOLE &&
                  want->have_count > 0;
    if (here)
        learner->misled_by = want->teller;
    if (code != KV_OK && !chance && !here)
        return kv_fail(status, code, "%s", why.message);

    uint64_t tag;
    session_block(learner->session, now_us, peer->session_peer, id, (size_t)(in->at - begin),
                  &tag);
    peer->blocks++;
    if (learner->figures.round_trips < want->trip)
        learner->figures.round_trips = want->trip;
    if (code == KV_OK || here) {
        peer->told += want->tier > 0;
        free_want(learner, want);
        return KV_OK;
    }
    learner->figures.asked_again++;
    want->attempt++;
    want->trip++;
    push_want(learner, want);
    return pages_guess(learner, want, status);
}

/* A page that a peer says it has not. One that offered the goal must have it,
 * unless the list that named it was a lie. */
static kv_code take_gone(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                         const struct want *want, kv_status *status)
{
    uint8_t id[SESSION_ID_SIZE];
    want_id(want, id);
    if (peer->exact && (want->teller == peer_number(learner, peer) || want->first_size == 0))
        return kv_fail(status, KV_UNPROVEN, "map %s: says a page is gone that it named",
                       learner->maps[want->map].name);
    session_missing(learner->session, now_us, peer->session_peer, id);
    return KV_OK;
}

static kv_code take_answer(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                           struct request *request, struct wire_in *in, kv_status *status)
{
    const uint8_t *begin = in->at;
    const uint8_t *id = request->ids[request->done];
    unsigned kind = wire_get_byte(in);
    uint64_t tag;
    if (in->bad || kind > WIRE_GOT_GONE)
        return kv_fail(status, KV_UNPROVEN, "GOT frame that does not decode");
    if (session_wanted(learner->session, id, &tag)) {
        struct want *want = (struct want *)(uintptr_t)tag;
        return kind == WIRE_GOT_GONE ? take_gone(learner, now_us, peer, want, status)
                                     : take_page(learner, now_us, peer, want, in, status);
    }
    if (kind == WIRE_GOT_LIST)
        pages_skip(learner, request->tier, in);
    if (in->bad)
        return kv_fail(status, KV_UNPROVEN, "GOT frame that does not decode");
    size_t size = (size_t)(in->at - begin);
    session_block(learner->session, now_us, peer->session_peer, id, size, &tag);
    peer->duplicate_blocks++;
    peer->duplicate_bytes += size;
    learner->figures.duplicate_blocks++;
    learner->figures.duplicate_bytes += size;
    return KV_OK;
}

kv_code diff_got(reconnect_learner *learner, int64_t now_us, struct peer *peer, kv_slice body,
                 kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    uint64_t id = wire_get_number(&in, UINT64_MAX);
    uint64_t done = wire_get_number(&in, WIRE_PAGES_MAX);
    struct request *request = peer->first;
    if (in.bad || request == NULL || request->id != id || request->done != done ||
        in.at == in.end)
        return kv_fail(status, KV_UNPROVEN, "GOT frame that answers nothing asked");
    while (in.at < in.end) {
        if (request->done == request->count)
            return kv_fail(status, KV_UNPROVEN,
                           "GOT frame with more pages than were asked for");
        kv_code code = take_answer(learner, now_us, peer, request, &in, status);
        if (code != KV_OK)
            return code;
        request->done++;
    }
    if (request->done == request->count)
        drop_request(peer);
    return KV_OK;
}
