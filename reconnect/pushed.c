/* pushed.c - the learner's side of push and level-by-level. */
#include "reconnect/learner.h"

#include <stdlib.h>
#include <string.h>

/* A lesson that is to come: of a page or, of level LEAF, of a pair. */
struct lesson {
    struct lesson *next;
    bool leaf, have; /* have: and so we answered */
    struct want *page;
};

struct pushed {
    struct lesson *first, **last;
    struct peer *peer;
    uint32_t map;            /* the next one: they come one after the other */
    struct wire_out answers; /* bits about the entries of the page that came last, */
    uint64_t answer_count;   /* and how many */
};

static kv_code add_lesson(reconnect_learner *learner, uint32_t map, bool leaf, unsigned level,
                          const vmap_node *node, kv_slice first, const kv_range *range,
                          bool have, kv_status *status)
{
    struct pushed *pushed = learner->pushed;
    struct lesson *lesson = calloc(1, sizeof(*lesson));
    struct want *page = want_new(map, level, level, node, first, range);
    if (lesson == NULL || page == NULL) {
        free(lesson);
        free(page);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a lesson");
    }
    *lesson = (struct lesson){ .leaf = leaf, .have = have, .page = page };
    *pushed->last = lesson;
    pushed->last = &lesson->next;
    return KV_OK;
}

static void take_lesson(struct pushed *pushed)
{
    pushed->first = pushed->first->next;
    if (pushed->first == NULL)
        pushed->last = &pushed->first;
}

static bool is_pushed(const struct learner_map *map)
{
    return !map->same && map->node.size > 0;
}

/* Expect the root of the next map, if no other lesson is to come. */
static kv_code next_map(reconnect_learner *learner, kv_status *status)
{
    struct pushed *pushed = learner->pushed;
    kv_range all = { { NULL, 0 }, { NULL, 0 } };
    if (pushed->first != NULL)
        return KV_OK;
    while (pushed->map < learner->map_count && !is_pushed(&learner->maps[pushed->map]))
        pushed->map++;
    if (pushed->map == learner->map_count)
        return KV_OK;
    uint32_t map = pushed->map++;
    return add_lesson(learner, map, false, learner->maps[map].level, &learner->maps[map].node,
                      kv_bytes(NULL, 0), &all, false, status);
}

kv_code pushed_begin(reconnect_learner *learner, struct peer *peer, kv_status *status)
{
    kv_range all = { { NULL, 0 }, { NULL, 0 } };
    struct wire_out maps = { 0 };
    size_t count = 0;
    kv_code code = KV_OK;
    learner->pushed = calloc(1, sizeof(*learner->pushed));
    if (learner->pushed == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for lessons");
    learner->pushed->last = &learner->pushed->first;
    learner->pushed->peer = peer;
    for (uint32_t i = 0; i < learner->map_count && code == KV_OK; i++) {
        const struct learner_map *map = &learner->maps[i];
        bool empty = map->node.size == 0;
        if (map->same || empty)
            code = stage_forget(&learner->stage, map->stage, &all, status);
        if (code == KV_OK)
            code = stage_empty_map(&learner->stage, map->stage, !map->same && empty, status);
        if (!is_pushed(map))
            continue;
        wire_put_number(&maps, i);
        count++;
    }
    if (code == KV_OK)
        code = next_map(learner, status);
    size_t frame = wire_frame_begin(&peer->out, WIRE_BEGIN);
    wire_put_number(&peer->out, count);
    wire_put(&peer->out, maps.data, maps.size);
    wire_frame_end(&peer->out, frame);
    peer->messages_out++;
    learner_count_out(learner);
    if (maps.failed && code == KV_OK)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for lessons");
    wire_out_clear(&maps);
    return code;
}

void pushed_free(struct pushed *pushed)
{
    if (pushed == NULL)
        return;
    while (pushed->first != NULL) {
        struct lesson *lesson = pushed->first;
        pushed->first = lesson->next;
        free(lesson->page);
        free(lesson);
    }
    wire_out_clear(&pushed->answers);
    free(pushed);
}

/* One entry of a page that came: note the answer, and expect its lesson. */
static kv_code hear_entry(reconnect_learner *learner, const struct want *page, kv_slice first,
                          const kv_range *range, const vmap_node *node, bool have,
                          kv_status *status)
{
    struct pushed *pushed = learner->pushed;
    unsigned bit = (unsigned)(pushed->answer_count++ % 8);
    if (bit == 0)
        wire_put_byte(&pushed->answers, 0);
    if (pushed->answers.failed)
        return kv_fail(status, KV_NO_MEMORY, "no memory for answers");
    pushed->answers.data[pushed->answers.size - 1] |= (uint8_t)((have ? 1u : 0u) << bit);
    return add_lesson(learner, page->map, page->level == 0,
                      page->level == 0 ? 0 : page->level - 1u, node, first, range, have,
                      status);
}

/* A page came: answer about its entries, all in one. */
static kv_code hear_page(reconnect_learner *learner, const struct lesson *lesson, kv_slice body,
                         kv_status *status)
{
    struct pushed *pushed = learner->pushed;
    struct peer *peer = pushed->peer;
    pushed->answers.size = 0;
    pushed->answer_count = 0;
    learner->figures.pages++;
    learner->figures.pages_clean += lesson->have;
    kv_code code = pages_take_pushed(learner, lesson->page, body, hear_entry, status);
    if (code != KV_OK)
        return code;
    size_t frame = wire_frame_begin(&peer->out, WIRE_ANSWER);
    wire_put_number(&peer->out, pushed->answer_count);
    wire_put(&peer->out, pushed->answers.data, pushed->answers.size);
    wire_frame_end(&peer->out, frame);
    peer->messages_out++;
    learner_count_out(learner);
    return KV_OK;
}

/* The teacher knows that we have what the next lessons are about, as many as it says. */
static kv_code hear_keep(reconnect_learner *learner, kv_slice body, kv_status *status)
{
    struct pushed *pushed = learner->pushed;
    struct wire_in in = wire_in_of(body);
    uint64_t count = wire_get_number(&in, UINT32_MAX);
    if (in.bad || in.at != in.end || count == 0)
        return kv_fail(status, KV_UNPROVEN, "KEEP frame that does not decode");
    for (; count > 0; count--) {
        struct lesson *lesson = pushed->first;
        if (lesson == NULL || !lesson->have)
            return kv_fail(status, KV_UNPROVEN, "KEEP frame where another lesson was due");
        learner->figures.leaves_done += lesson->leaf;
        take_lesson(pushed);
        free(lesson->page);
        free(lesson);
    }
    return next_map(learner, status);
}

static kv_code hear_leaf(reconnect_learner *learner, const struct lesson *lesson,
                         kv_slice value, kv_status *status)
{
    const struct want *page = lesson->page;
    kv_slice key = want_first(page);
    if (value.size == 0)
        return kv_fail(status, KV_UNPROVEN, "LEAF frame without a value");
    vmap_node node = vmap_leaf(key, value);
    if (memcmp(node.digest.bytes, page->node.digest.bytes, sizeof(node.digest.bytes)) != 0)
        return kv_fail(status, KV_UNPROVEN, "map %s: a pair is not what its page says",
                       learner->maps[page->map].name);
    learner->figures.leaves++;
    learner->figures.leaf_bytes += key.size + value.size;
    if (lesson->have) {
        learner->figures.leaves_clean++;
        return KV_OK;
    }
    learner->figures.leaves_changed++;
    learner->figures.leaves_done++;
    return stage_put(&learner->stage, learner->maps[page->map].stage, key, value, status);
}

kv_code pushed_lesson(reconnect_learner *learner, struct peer *peer, unsigned type,
                      kv_slice body, kv_status *status)
{
    struct pushed *pushed = learner->pushed;
    struct lesson *lesson = pushed == NULL || pushed->peer != peer ? NULL : pushed->first;
    if (type == WIRE_END && lesson == NULL && body.size == 0) {
        learner_fetched(learner);
        return KV_OK;
    }
    if (type == WIRE_KEEP && lesson != NULL)
        return hear_keep(learner, body, status);
    if (lesson == NULL || type != (unsigned)(lesson->leaf ? WIRE_LEAF : WIRE_PAGE))
        return kv_fail(status, KV_UNPROVEN, "%s frame where another lesson was due",
                       wire_type_name(type));
    take_lesson(pushed);
    kv_code code = type == WIRE_LEAF ? hear_leaf(learner, lesson, body, status)
                                     : hear_page(learner, lesson, body, status);
    free(lesson->page);
    free(lesson);
    return code == KV_OK ? next_map(learner, status) : code;
}
