/*
 * staged.c - a working set that is too big for memory.
 *
 * Its changes, but for those of new maps (spill.c), go to state.staged while it grows. A commit
 * first writes, in one batch, the new version's record as it begins and a head that says that
 * it is pending. From there on the commit is decided. Parts follow, each one batch that applies
 * a run of staged changes, removes them, and brings the version's record on: a tree is a
 * function of its pairs, so the trees between two parts are as good as any. The last batch
 * makes the version the newest. A crash between leaves the rest of the changes staged, and the
 * next open goes on.
 */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- Staging ------------------------------------------------------------ */

static kv_code stage_map(struct state *self, vmap *map, kv_batch *batch, kv_status *status)
{
    for (size_t i = 0; i < map->changes.slot_count; i++) {
        const struct vtree_change *change = map->changes.slots[i];
        if (change == NULL)
            continue;
        uint8_t mark = change->present ? RECORD_PRESENT : RECORD_ABSENT;
        struct record_key key;
        self->scratch.size = 0;
        if (!vtree_buffer_add(&self->scratch, &mark, 1) ||
            (change->present &&
             !vtree_buffer_add(&self->scratch, change->value.data, change->value.size)) ||
            !record_key_value(&key, map->top.map, change->key))
            return state_no_memory(status);
        kv_batch_put(batch, self->store.staged, record_slice(&key),
                     vtree_buffer_slice(&self->scratch));
        record_key_clear(&key);
    }
    return KV_OK;
}

kv_code state_stage(struct state *self, kv_status *status)
{
    kv_batch *batch;
    kv_code code = kv_batch_new(self->store.db, &batch, status);
    for (size_t i = 0; code == KV_OK && i < self->map_count; i++)
        code = (state_map_is_new(self->maps[i]) ? state_spill : stage_map)(self, self->maps[i],
                                                                           batch, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, status);
    kv_batch_free(batch);
    if (code != KV_OK)
        return code;
    for (size_t i = 0; i < self->map_count; i++) {
        vmap *map = self->maps[i];
        if (state_map_is_new(map))
            state_spill_done(self, map);
        else
            map->staged = map->staged || map->changes.count > 0;
        self->staged = self->staged || map->staged;
        vtree_changes_clear(&map->changes);
    }
    return KV_OK;
}

kv_code state_clear_staged(struct state *self, kv_status *status)
{
    kv_batch *batch = NULL;
    kv_iter *iter = NULL;
    size_t found = STATE_STEP_RECORDS;
    kv_code code = kv_batch_new(self->store.db, &batch, status);
    while (code == KV_OK && found == STATE_STEP_RECORDS) {
        found = 0;
        code = kv_iter_open(self->store.staged, NULL, NULL, &iter, status);
        if (code != KV_OK)
            break;
        for (bool on = kv_iter_first(iter); on && found < STATE_STEP_RECORDS;
             on = kv_iter_next(iter)) {
            kv_batch_delete(batch, self->store.staged, kv_iter_key(iter));
            found++;
        }
        code = kv_iter_status(iter, status);
        kv_iter_close(iter);
        if (code == KV_OK && found > 0)
            code = kv_batch_commit(batch, 0, status);
    }
    kv_batch_free(batch);
    if (code == KV_OK)
        self->staged = false;
    return code;
}

/* ---- Applying ----------------------------------------------------------- */

/* A run of staged changes of one map. */
struct part {
    uint32_t map;
    struct vtree_arena arena;
    const struct vtree_change **changes;
    size_t count, capacity;
};

static void part_clear(struct part *part)
{
    vtree_arena_clear(&part->arena);
    free(part->changes);
    memset(part, 0, sizeof(*part));
}

static kv_code part_add(struct part *part, kv_slice key, kv_slice record, kv_status *status)
{
    const uint8_t *mark;
    if (!record_take_bytes(&record, 1, &mark) || *mark > RECORD_PRESENT)
        return kv_fail(status, KV_CORRUPT, "a staged change of map number %u is damaged",
                       part->map);
    struct vtree_change *change = vtree_arena_take(&part->arena, sizeof(*change));
    void *grown = part->changes;
    if (change == NULL ||
        !vtree_grow(&grown, &part->capacity, part->count + 1, sizeof(*part->changes)))
        return state_no_memory(status);
    part->changes = grown;
    *change = (struct vtree_change){ vtree_arena_copy(&part->arena, key),
                                     vtree_arena_copy(&part->arena, record),
                                     *mark == RECORD_PRESENT, 0 };
    if (change->key.data == NULL || change->value.data == NULL)
        return state_no_memory(status);
    part->changes[part->count++] = change;
    return KV_OK;
}

/* Read the first run of staged changes; none are left when count is 0. */
static kv_code part_read(struct state *self, struct part *part, kv_status *status)
{
    kv_iter *iter;
    kv_code code = kv_iter_open(self->store.staged, NULL, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); on && code == KV_OK; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        uint32_t map;
        if (key.size <= RECORD_MAP_SIZE) {
            code = kv_fail(status, KV_CORRUPT, "a staged change has no key");
            break;
        }
        memcpy(&map, key.data, sizeof(map));
        map = __builtin_bswap32(map);
        if (part->count > 0 &&
            (map != part->map || part->arena.size >= self->options.batch_size))
            break;
        part->map = map;
        code = part_add(
            part,
            kv_bytes((const uint8_t *)key.data + RECORD_MAP_SIZE, key.size - RECORD_MAP_SIZE),
            kv_iter_value(iter), status);
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

/* Apply a part in one batch; one of a map that was dropped is only removed. */
static kv_code part_apply(struct state *self, const struct part *part, struct meta_head *head,
                          struct meta_version *info, kv_batch *batch, kv_status *status)
{
    struct meta_map *map = NULL;
    for (size_t i = 0; i < info->count; i++) {
        if (info->maps[i].top.map == part->map)
            map = &info->maps[i];
    }
    kv_code code = KV_OK;
    if (map != NULL) {
        struct state_keep keep = {
            .history = head->newest > 0 && (self->options.keep_recent > 1 || head->expects),
            .check = true,
            .until = head->newest,
        };
        struct vtree_update update = {
            .store = &self->store,
            .pool = self->pool,
            .top = map->top,
            .changes = part->changes,
            .change_count = part->count,
            .want_old_values = keep.history,
            .exclusive = !keep.history && !state_has_views(self),
        };
        code = state_write_update(self, batch, &update, &keep, status);
        map->top = update.top;
        info->history_records += keep.records;
        vtree_update_clear(&update);
    }
    for (size_t i = 0; code == KV_OK && i < part->count; i++) {
        struct record_key key;
        if (!record_key_value(&key, part->map, part->changes[i]->key))
            return state_no_memory(status);
        kv_batch_delete(batch, self->store.staged, record_slice(&key));
        record_key_clear(&key);
    }
    if (code == KV_OK)
        code = state_write_meta(self, batch, head, info, status);
    return code == KV_OK ? kv_batch_commit(batch, 0, status) : code;
}

/* The expected app hash was not reached: the version before comes back. */
static kv_code go_back(struct state *self, struct meta_head *head,
                       const struct meta_version *info, kv_batch *batch, kv_status *status)
{
    kv_status quiet = KV_STATUS_INIT;
    head->pending = META_PENDING_LOAD;
    head->target = head->newest;
    head->history_records += info->history_records; /* the parts wrote it; LOAD removes it */
    kv_code code = state_write_meta(self, batch, head, NULL, &quiet);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, &quiet);
    if (code == KV_OK)
        code = state_finish_load(self, head, 0, &quiet);
    if (code != KV_OK)
        return kv_fail(status, code, "%s", quiet.message);
    return kv_fail(status, KV_UNPROVEN,
                   "version %llu would not have the expected app hash; the state is back at "
                   "version %llu and the changes are gone",
                   (unsigned long long)info->version, (unsigned long long)head->newest);
}

/* Apply what is staged, part by part, and end the commit. Takes `info` over. */
static kv_code finish_apply(struct state *self, struct meta_head *head,
                            struct meta_version *info, unsigned flags, kv_status *status)
{
    struct part part;
    kv_batch *batch = NULL;
    memset(&part, 0, sizeof(part));
    kv_code code = kv_batch_new(self->store.db, &batch, status);
    while (code == KV_OK) {
        part_clear(&part);
        code = part_read(self, &part, status);
        if (code != KV_OK || part.count == 0)
            break;
        code = part_apply(self, &part, head, info, batch, status);
    }
    part_clear(&part);
    if (code == KV_OK) {
        self->staged = false;
        meta_version_seal(info);
        if (head->expects && memcmp(head->expected.bytes, info->app_hash.bytes,
                                    sizeof(head->expected.bytes)) != 0) {
            code = go_back(self, head, info, batch, status);
            meta_version_free(info);
            kv_batch_free(batch);
            self->broken = code != KV_UNPROVEN;
            return code;
        }
    }
    if (code == KV_OK)
        code = state_write_end(self, batch, head, info, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, flags, status);
    kv_batch_free(batch);
    if (code != KV_OK) {
        meta_version_free(info);
        self->broken = true;
        return code;
    }
    return state_publish(self, head, info, status);
}

kv_code state_commit_staged(struct state *self, struct meta_version *info,
                            const vmap_digest *expected, unsigned flags, kv_status *status)
{
    kv_batch *batch = NULL;
    struct meta_head head = state_head_copy(self);
    head.pending = META_PENDING_APPLY;
    head.target = info->version;
    head.map_next = self->map_next;
    head.expects = expected != NULL;
    if (expected != NULL)
        head.expected = *expected;
    kv_code code = state_stage(self, status);
    if (code == KV_OK)
        code = state_pin_newest(self, status);
    if (code == KV_OK)
        code = kv_batch_new(self->store.db, &batch, status);
    if (code == KV_OK)
        code = state_write_meta(self, batch, &head, info, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, status);
    kv_batch_free(batch);
    if (code != KV_OK) {
        meta_version_free(info);
        return code;
    }
    return finish_apply(self, &head, info, flags, status);
}

kv_code state_finish_pending(struct state *self, kv_status *status)
{
    struct meta_head head = state_head_copy(self);
    if (head.pending == META_PENDING_LOAD)
        return state_finish_load(self, &head, 0, status);
    struct meta_version *info;
    kv_code code = state_version_read(self, NULL, head.target, &info, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_CORRUPT, "the record of the pending version %llu is missing",
                       (unsigned long long)head.target);
    if (code != KV_OK)
        return code;
    kv_status own = KV_STATUS_INIT;
    code = finish_apply(self, &head, info, 0, &own);
    /* To go back is a good end, too. */
    return code == KV_OK || code == KV_UNPROVEN ? KV_OK
                                                : kv_fail(status, code, "%s", own.message);
}
