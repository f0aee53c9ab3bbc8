/* stage.c - the staging space and the switch. */
#include "reconnect/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_SIZE = 1u << 20, /* bytes gathered before a write */
    GOAL_FORMAT = 1,
    KEY_PREFIX = 3
};

static const char space_name[] = "reconnect";

static kv_slice make_key(struct stage *stage, char kind, unsigned map, kv_slice rest)
{
    uint8_t prefix[KEY_PREFIX] = { (uint8_t)kind, (uint8_t)(map >> 8), (uint8_t)map };
    stage->key.size = 0;
    wire_put(&stage->key, prefix, sizeof(prefix));
    wire_put(&stage->key, rest.data, rest.size);
    return stage->key.failed ? kv_bytes(NULL, 0) : kv_bytes(stage->key.data, stage->key.size);
}

kv_code stage_flush_if_full(struct stage *stage, kv_status *status)
{
    size_t size = kv_batch_size(stage->batch) + fresh_unwritten(&stage->fresh);
    return size < BATCH_SIZE ? KV_OK : stage_flush(stage, status);
}

static kv_code add_map(struct stage *stage, kv_slice name, kv_status *status)
{
    struct stage_map *maps =
        realloc(stage->maps, (stage->map_count + 1) * sizeof(stage->maps[0]));
    if (maps == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a map's name");
    stage->maps = maps;
    struct stage_map *map = &maps[stage->map_count++];
    *map = (struct stage_map){ .number = 0 };
    memcpy(map->name, name.data, name.size);
    return KV_OK;
}

/* The number of a map that an earlier run began to build. */
static kv_code load_number(struct stage *stage, unsigned map, kv_status *status)
{
    kv_value record = KV_VALUE_INIT;
    kv_code code = kv_get(stage->space, NULL, make_key(stage, 'B', map, kv_bytes(NULL, 0)),
                          &record, status);
    struct wire_in in = wire_in_of(record.bytes);
    if (code == KV_OK)
        stage->maps[map].number = (uint32_t)wire_get_number(&in, UINT32_MAX);
    kv_value_release(&record);
    return code == KV_NOT_FOUND ? KV_OK : code;
}

static kv_code load_maps(struct stage *stage, kv_status *status)
{
    kv_slice none = kv_bytes(NULL, 0);
    kv_code code = KV_OK;
    for (unsigned map = 0; map < UINT16_MAX && code == KV_OK; map++) {
        kv_value name = KV_VALUE_INIT;
        code = kv_get(stage->space, NULL, make_key(stage, 'N', map, none), &name, status);
        if (code == KV_NOT_FOUND) {
            code = KV_OK;
            break;
        }
        if (code == KV_OK && name.bytes.size > STATE_MAP_NAME_SIZE_MAX)
            code = kv_fail(status, KV_CORRUPT, "space %s: map name of %zu bytes", space_name,
                           name.bytes.size);
        if (code == KV_OK)
            code = add_map(stage, name.bytes, status);
        kv_value_release(&name);
        if (code == KV_OK)
            code = load_number(stage, map, status);
    }
    stage->found = stage->used = stage->map_count > 0;
    return code;
}

kv_code stage_open(struct stage *stage, kv_db *db, state *to, kv_status *status)
{
    *stage = (struct stage){ .db = db, .state = to };
    kv_code code = kv_space_open(db, space_name, KV_CREATE, &stage->space, status);
    if (code == KV_OK)
        code = kv_batch_new(db, &stage->batch, status);
    if (code == KV_OK)
        code = load_maps(stage, status);
    if (code != KV_OK)
        stage_close(stage);
    return code;
}

void stage_close(struct stage *stage)
{
    for (size_t i = 0; i < stage->map_count; i++)
        state_build_close(stage->maps[i].build);
    kv_batch_free(stage->batch);
    fresh_clear(&stage->fresh);
    wire_out_clear(&stage->key);
    free(stage->maps);
    *stage = (struct stage){ 0 };
}

kv_code stage_goal(struct stage *stage, uint64_t version, const vmap_digest *app_hash,
                   kv_status *status)
{
    struct wire_out record = { 0 };
    wire_put_byte(&record, GOAL_FORMAT);
    wire_put_number(&record, version);
    wire_put(&record, app_hash->bytes, sizeof(app_hash->bytes));
    if (record.failed)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the goal");
    kv_batch_put(stage->batch, stage->space, kv_text("T"), kv_bytes(record.data, record.size));
    wire_out_clear(&record);
    return stage_flush_if_full(stage, status);
}

kv_code stage_map(struct stage *stage, kv_slice name, unsigned *out, kv_status *status)
{
    for (size_t i = 0; i < stage->map_count; i++) {
        if (kv_compare(kv_text(stage->maps[i].name), name) == 0) {
            *out = (unsigned)i;
            return KV_OK;
        }
    }
    if (name.size > STATE_MAP_NAME_SIZE_MAX || stage->map_count == UINT16_MAX)
        return kv_fail(status, KV_TOO_BIG, "too many maps were staged: %zu", stage->map_count);
    kv_code code = add_map(stage, name, status);
    if (code != KV_OK)
        return code;
    *out = (unsigned)stage->map_count - 1;
    kv_batch_put(stage->batch, stage->space, make_key(stage, 'N', *out, kv_bytes(NULL, 0)),
                 name);
    return KV_OK;
}

/* ---- Maps that are built ------------------------------------------------ */

static kv_code end_build(struct stage *stage, unsigned number, kv_status *status)
{
    struct stage_map *map = &stage->maps[number];
    state_build_close(map->build);
    map->build = NULL;
    if (map->number == 0)
        return KV_OK;
    kv_code code = stage_flush(stage, status);
    if (code == KV_OK)
        code = state_build_drop(stage->state, map->number, status);
    map->number = 0;
    kv_batch_delete(stage->batch, stage->space,
                    make_key(stage, 'B', number, kv_bytes(NULL, 0)));
    return code;
}

static kv_code begin_build(struct stage *stage, unsigned number, unsigned page_bits,
                           kv_status *status)
{
    struct stage_map *map = &stage->maps[number];
    kv_range all = { { NULL, 0 }, { NULL, 0 } };
    kv_code code = stage_forget(stage, number, &all, status);
    if (code == KV_OK && map->number != 0)
        code = state_build_open(stage->state, page_bits, &map->number, &map->build, NULL);
    if (code == KV_CONFLICT) /* it became a version's map after all */
        map->number = 0;
    if (map->build != NULL || (code != KV_OK && code != KV_CONFLICT))
        return code;
    code = state_build_open(stage->state, page_bits, &map->number, &map->build, status);
    struct wire_out record = { 0 };
    wire_put_number(&record, map->number);
    if (code == KV_OK && record.failed)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a map's number");
    if (code == KV_OK)
        kv_batch_put(stage->batch, stage->space,
                     make_key(stage, 'B', number, kv_bytes(NULL, 0)),
                     kv_bytes(record.data, record.size));
    wire_out_clear(&record);
    return code == KV_OK ? stage_flush(stage, status) : code;
}

kv_code stage_build(struct stage *stage, unsigned map, bool wanted, unsigned page_bits,
                    kv_status *status)
{
    struct stage_map *here = &stage->maps[map];
    if (!wanted)
        return end_build(stage, map, status);
    if (here->build != NULL && here->page_bits == page_bits)
        return KV_OK;
    state_build_close(here->build);
    here->build = NULL;
    here->page_bits = page_bits;
    return begin_build(stage, map, page_bits, status);
}

/* ---- Changes ------------------------------------------------------------ */

/* Put the changes that are in memory only into the batch. */
static void gather_fresh(struct stage *stage)
{
    struct stage_fresh *fresh = &stage->fresh;
    for (; fresh->written < fresh->count; fresh->written++) {
        const struct fresh_change *change = &fresh->list[fresh->written];
        kv_batch_put(stage->batch, stage->space,
                     make_key(stage, 'C', change->map, fresh_key(fresh, change)),
                     fresh_value(fresh, change));
    }
}

/* From here on, changes are staged as records only. */
static void lose_fresh(struct stage *stage)
{
    gather_fresh(stage);
    fresh_clear(&stage->fresh);
}

kv_code stage_put(struct stage *stage, unsigned map, kv_slice key, kv_slice value,
                  kv_status *status)
{
    state_build *build = stage->maps[map].build;
    kv_code code = KV_OK;
    if (build != NULL)
        code = state_build_put(build, stage->batch, key, value, status);
    else if (stage->found || !fresh_add(&stage->fresh, map, key, value)) {
        lose_fresh(stage);
        kv_batch_put(stage->batch, stage->space, make_key(stage, 'C', map, key), value);
    }
    return code == KV_OK ? stage_flush_if_full(stage, status) : code;
}

kv_code stage_remove(struct stage *stage, unsigned map, kv_slice key, kv_status *status)
{
    state_build *build = stage->maps[map].build;
    if (build == NULL)
        return stage_put(stage, map, key, kv_bytes(NULL, 0), status);
    kv_code code = state_build_delete(build, stage->batch, key, status);
    return code == KV_OK ? stage_flush_if_full(stage, status) : code;
}

/* Bounds of `range` among the records of `kind`; free both. */
struct bounds {
    struct wire_out first, limit;
    kv_range range;
};

static kv_code make_bounds(struct stage *stage, char kind, unsigned map, const kv_range *range,
                           struct bounds *out, kv_status *status)
{
    *out = (struct bounds){ 0 };
    kv_slice first = make_key(stage, kind, map, range->first);
    wire_put(&out->first, first.data, first.size);
    kv_slice limit = range->limit.size > 0 ? make_key(stage, kind, map, range->limit)
                                           : make_key(stage, kind, map + 1, range->limit);
    wire_put(&out->limit, limit.data, limit.size);
    if (out->first.failed || out->limit.failed || stage->key.failed) {
        wire_out_clear(&out->first);
        wire_out_clear(&out->limit);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a range of staged changes");
    }
    out->range = (kv_range){ kv_bytes(out->first.data, out->first.size),
                             kv_bytes(out->limit.data, out->limit.size) };
    return KV_OK;
}

static void clear_bounds(struct bounds *bounds)
{
    wire_out_clear(&bounds->first);
    wire_out_clear(&bounds->limit);
}

kv_code stage_forget(struct stage *stage, unsigned map, const kv_range *range,
                     kv_status *status)
{
    struct bounds bounds;
    kv_code code = KV_OK;
    if (stage->maps[map].build != NULL) {
        code = state_build_delete_range(stage->maps[map].build, stage->batch, range, status);
        return code == KV_OK ? stage_flush_if_full(stage, status) : code;
    }
    if (!stage->found && !stage->fresh.lost && stage->fresh.count == 0)
        return KV_OK; /* there are none */
    lose_fresh(stage);
    code = make_bounds(stage, 'C', map, range, &bounds, status);
    if (code != KV_OK)
        return code;
    kv_batch_delete_range(stage->batch, stage->space, &bounds.range);
    clear_bounds(&bounds);
    return stage_flush_if_full(stage, status);
}

kv_code stage_empty_map(struct stage *stage, unsigned map, bool empty, kv_status *status)
{
    kv_slice key = make_key(stage, 'X', map, kv_bytes(NULL, 0));
    stage->maps[map].empty = empty;
    if (empty)
        kv_batch_put(stage->batch, stage->space, key, kv_text("1"));
    else
        kv_batch_delete(stage->batch, stage->space, key);
    return stage_flush_if_full(stage, status);
}

unsigned stage_tier(unsigned level, unsigned page_bits, uint64_t size)
{
    unsigned tier = level == 0 ? 0 : 1;
    while (tier < level && size >> (page_bits * tier) > STAGE_LIST_MAX)
        tier++;
    return tier;
}

static kv_slice page_key(struct stage *stage, unsigned tier, const vmap_digest *digest)
{
    return make_key(stage, 'P', tier, kv_bytes(digest->bytes, sizeof(digest->bytes)));
}

kv_code stage_put_page(struct stage *stage, unsigned tier, const vmap_digest *digest,
                       kv_slice list, kv_status *status)
{
    kv_batch_put(stage->batch, stage->space, page_key(stage, tier, digest), list);
    return stage_flush_if_full(stage, status);
}

kv_code stage_get_page(struct stage *stage, unsigned tier, const vmap_digest *digest,
                       kv_value *out, kv_status *status)
{
    return kv_get(stage->space, NULL, page_key(stage, tier, digest), out, status);
}

kv_code stage_forget_pages(struct stage *stage, kv_status *status)
{
    kv_range range = { kv_text("P"), kv_text("Q") };
    kv_code code = stage_flush(stage, status);
    return code == KV_OK ? kv_delete_range(stage->space, &range, 0, status) : code;
}

kv_code stage_flush(struct stage *stage, kv_status *status)
{
    gather_fresh(stage);
    if (stage->key.failed)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a staged key");
    if (kv_batch_count(stage->batch) == 0)
        return KV_OK;
    stage->used = true;
    return kv_batch_commit(stage->batch, 0, status);
}

kv_code stage_changes(struct stage *stage, unsigned map, const kv_range *range, kv_iter **out,
                      size_t *prefix, kv_status *status)
{
    struct bounds bounds;
    *out = NULL;
    if (stage->maps[map].build != NULL) {
        *prefix = STATE_BUILD_PREFIX;
        return state_build_iter_open(stage->maps[map].build, range, out, status);
    }
    *prefix = KEY_PREFIX;
    kv_code code = make_bounds(stage, 'C', map, range, &bounds, status);
    if (code != KV_OK)
        return code;
    code = kv_iter_open(stage->space, NULL, &bounds.range, out, status);
    clear_bounds(&bounds);
    return code;
}

/* ---- The switch --------------------------------------------------------- */

/* Whether all changes are in memory. */
static bool in_memory(const struct stage *stage)
{
    return !stage->found && !stage->fresh.lost;
}

/* Whether the switch reads records: of changes, or the lists of a map that is built. */
static bool reads_records(const struct stage *stage)
{
    bool builds = false;
    for (size_t i = 0; i < stage->map_count; i++)
        builds = builds || stage->maps[i].build != NULL;
    return builds || !in_memory(stage);
}

static kv_code apply_map(struct stage *stage, unsigned number, vmap *map, kv_status *status)
{
    kv_range all = { { NULL, 0 }, { NULL, 0 } };
    kv_iter *iter;
    size_t prefix;
    kv_code code = stage_changes(stage, number, &all, &iter, &prefix, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); on && code == KV_OK; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter), value = kv_iter_value(iter);
        key = kv_bytes((const uint8_t *)key.data + prefix, key.size - prefix);
        code =
            value.size == 0 ? vmap_delete(map, key, status) : vmap_put(map, key, value, status);
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

/* Bring one map of the goal to where it must be. */
static kv_code make_map(struct stage *stage, state *to, const struct stage_goal *goal,
                        kv_status *status)
{
    unsigned number = 0;
    const char *name = goal->name;
    kv_code code = stage_map(stage, kv_text(name), &number, status);
    if (code != KV_OK)
        return code;
    if (stage->maps[number].build != NULL)
        return stage_tree(stage, number, goal, status);

    if (stage->maps[number].empty)
        code = state_map_drop(to, name, status);
    if (code == KV_NOT_FOUND)
        code = KV_OK;
    vmap *map = NULL;
    if (code == KV_OK)
        code = state_map_open(to, name, KV_CREATE, &map, status);
    if (code != KV_OK)
        return code;
    return in_memory(stage) ? fresh_apply(&stage->fresh, number, map, status)
                            : apply_map(stage, number, map, status);
}

struct surplus {
    const struct stage_goal *maps;
    size_t count;
    char name[STATE_MAP_NAME_SIZE_MAX + 1]; /* of a map that the goal has not */
};

static bool find_surplus(void *context, const char *name)
{
    struct surplus *surplus = context;
    for (size_t i = 0; i < surplus->count; i++)
        if (strcmp(surplus->maps[i].name, name) == 0)
            return true;
    snprintf(surplus->name, sizeof(surplus->name), "%s", name);
    return false;
}

static kv_code drop_surplus(state *to, const struct stage_goal *maps, size_t count,
                            kv_status *status)
{
    for (;;) {
        struct surplus surplus = { .maps = maps, .count = count };
        kv_code code = state_map_list(to, find_surplus, &surplus, status);
        if (code != KV_OK || surplus.name[0] == '\0')
            return code;
        code = state_map_drop(to, surplus.name, status);
        if (code != KV_OK)
            return code;
    }
}

kv_code stage_switch(struct stage *stage, state *to, uint64_t version,
                     const vmap_digest *app_hash, const struct stage_goal *maps,
                     size_t map_count, kv_status *status)
{
    bool reads = reads_records(stage);
    kv_code code = reads ? stage_flush(stage, status) : KV_OK;
    if (code != KV_OK)
        return code;
    state_rollback(to);
    code = drop_surplus(to, maps, map_count, status);
    for (size_t i = 0; i < map_count && code == KV_OK; i++)
        code = make_map(stage, to, &maps[i], status);
    if (code == KV_OK && reads)
        code = stage_flush(stage, status);
    if (code == KV_OK && stage->built)
        code = kv_sync(stage->db, status);
    if (code == KV_OK)
        code = state_commit_as(to, version, app_hash, KV_SYNC, status);
    if (code != KV_OK) {
        state_rollback(to);
        return code;
    }
    if (stage_drop(stage, NULL) != KV_OK) {
        /* The switch is done; leftovers are checked before they are used. */
    }
    return KV_OK;
}

kv_code stage_drop(struct stage *stage, kv_status *status)
{
    kv_code code = KV_OK;
    kv_batch_clear(stage->batch);
    fresh_clear(&stage->fresh);
    for (unsigned i = 0; i < stage->map_count && code == KV_OK; i++)
        code = end_build(stage, i, status);
    kv_batch_clear(stage->batch);
    if (code == KV_OK && stage->used)
        code = kv_delete_range(stage->space, NULL, 0, status);
    if (code != KV_OK)
        return code;
    stage->used = false;
    stage->map_count = 0;
    stage->found = false;
    return KV_OK;
}
