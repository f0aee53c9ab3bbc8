/*
 * ahead.c - the first question goes with HELLO. A learner that was told the app hash to
 * reach, and does not have it, knows that some root page differs: it need not wait for
 * the offer to tell what it has there.
 */
#include "reconnect/learner.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of fingerprints, of all maps: what is lost at most where a map is the same. */
enum { AHEAD_SIZE_MAX = 16 << 10 };

static bool is_sure(const reconnect_learner *learner)
{
    return learner->goal.traversal == RECONNECT_DIFF && learner->sole_peer &&
           !learner->goal_set && learner->goal.app_hash_known && !learner->stage.found &&
           learner->settings.secret[0] == '\0' &&
           memcmp(&learner->goal.app_hash, &learner->own_app_hash,
                  sizeof(learner->own_app_hash)) != 0;
}

static kv_code ask_map(reconnect_learner *learner, struct peer *peer, uint32_t number,
                       const char *name, size_t *left, kv_status *status)
{
    struct walk walk;
    kv_code code = walk_open(&walk, learner->view, name, status);
    if (code != KV_OK)
        return code;
    struct request *request = NULL;
    unsigned tier = stage_tier(walk.top, walk.page_bits, walk.node.size);
    peer->frame.size = 0;
    if (tier > 0) {
        request = calloc(1, sizeof(*request) + SESSION_ID_SIZE);
        if (request == NULL)
            code = kv_fail(status, KV_NO_MEMORY, "no memory for a request");
    }
    if (request != NULL) {
        *request = (struct request){ .tier = tier, .count = 1, .ahead_map = number };
        code = pages_put_own(learner, &walk, tier, DIFF_PAGE_BITS, &peer->frame,
                             &request->ahead_haves, status);
    }
    walk_close(&walk);
    if (code != KV_OK || request == NULL || request->ahead_haves == 0 ||
        peer->frame.size > *left) {
        free(request);
        peer->frame.size = 0;
        return code;
    }
    *left -= peer->frame.size;
    request->id = peer->request_id++;
    struct wire_ahead ahead = { request->id, kv_text(name), tier, DIFF_PAGE_BITS };
    size_t frame = wire_frame_begin(&peer->out, WIRE_AHEAD);
    wire_put_ahead(&peer->out, &ahead);
    wire_put_key(&peer->out, kv_bytes(NULL, 0), kv_bytes(NULL, 0));
    wire_put(&peer->out, peer->frame.data, peer->frame.size);
    wire_frame_end(&peer->out, frame);
    peer->frame.size = 0;
    peer->messages_out++;
    learner_count_out(learner);
    *peer->last = request;
    peer->last = &request->next;
    return KV_OK;
}

kv_code ahead_ask(reconnect_learner *learner, struct peer *peer, kv_status *status)
{
    size_t count, left = AHEAD_SIZE_MAX;
    kv_code code = KV_OK;
    if (!is_sure(learner))
        return KV_OK;
    const vmap_named_root *maps = state_view_maps(learner->view, &count);
    for (uint32_t i = 0; i < count && code == KV_OK; i++)
        code = ask_map(learner, peer, i, maps[i].name, &left, status);
    return code;
}

/* The want of a goal's root page as a list of the tier that was asked for. */
static struct want *find_want(const reconnect_learner *learner, const char *name, unsigned tier)
{
    for (struct want *want = learner->all; want != NULL; want = want->behind)
        if (strcmp(learner->maps[want->map].name, name) == 0 && want->first_size == 0 &&
            want->tier == tier && want->level == learner->maps[want->map].level)
            return want;
    return NULL;
}

void ahead_match(reconnect_learner *learner, struct peer *peer)
{
    size_t count;
    const vmap_named_root *maps = state_view_maps(learner->view, &count);
    for (struct request *request = peer->first; request != NULL; request = request->next) {
        struct want *want = find_want(learner, maps[request->ahead_map].name, request->tier);
        if (want == NULL)
            continue; /* its answer is passed over */
        want->ahead = true;
        want->have_count = request->ahead_haves;
        want->trip = 1;
        want_id(want, request->ids[0]);
    }
}

void ahead_forget(reconnect_learner *learner)
{
    for (struct want *want = learner->all; want != NULL; want = want->behind)
        want->ahead = false;
}
