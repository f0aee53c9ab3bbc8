/* history.c - versions that go: pruned ones, and newer ones than a version that
 * is brought back. */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- Pruning ------------------------------------------------------------ */

/* The first stored version above `version`; KV_NOT_FOUND. */
static kv_code version_after(struct state *self, uint64_t version, uint64_t *after,
                             kv_status *status)
{
    uint8_t first[META_KEY_SIZE], limit[META_KEY_SIZE];
    kv_iter *iter;
    kv_range range = { meta_key_version(first, version + 1),
                       meta_key_version(limit, UINT64_MAX) };
    kv_code code = kv_iter_open(self->store.meta, NULL, &range, &iter, status);
    if (code != KV_OK)
        return code;
    bool on = kv_iter_first(iter);
    kv_slice key = kv_iter_key(iter);
    code = on ? KV_OK : kv_iter_status(iter, status);
    if (on && key.size == range.first.size) {
        memcpy(after, (const uint8_t *)key.data + key.size - sizeof(*after), sizeof(*after));
        *after = __builtin_bswap64(*after);
    } else if (code == KV_OK) {
        code = KV_NOT_FOUND;
    }
    kv_iter_close(iter);
    return code;
}

/* Drop head->oldest; what the next version's commit kept for it is garbage. */
static kv_code prune_one(struct state *self, struct meta_head *head,
                         const struct meta_version *incoming, kv_batch *batch,
                         kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    uint64_t next = 0, records = 0;
    kv_code code = version_after(self, head->oldest, &next, status);
    if (code == KV_OK) {
        struct meta_version *info;
        code = state_version_read(self, NULL, next, &info, status);
        if (code != KV_OK)
            return code;
        records = info->history_records;
        meta_version_free(info);
    } else if (code == KV_NOT_FOUND && incoming != NULL) {
        next = incoming->version;
        records = incoming->history_records;
    } else {
        return code == KV_NOT_FOUND
                   ? kv_fail(status, KV_CORRUPT, "the record after version %llu is missing",
                             (unsigned long long)head->oldest)
                   : code;
    }
    kv_batch_delete(batch, self->store.meta, meta_key_version(key, head->oldest));
    head->oldest = next;
    head->versions--;
    head->history_garbage += records;
    return KV_OK;
}

kv_code state_head_prune(struct state *self, struct meta_head *head, uint64_t keep,
                         const struct meta_version *incoming, kv_batch *batch,
                         kv_status *status)
{
    while (head->versions > keep) {
        kv_code code = prune_one(self, head, incoming, batch, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

kv_code state_prune(struct state *self, uint64_t keep, kv_status *status)
{
    kv_code code = state_usable(self, status);
    if (code != KV_OK)
        return code;
    if (keep == 0)
        return kv_fail(status, KV_INVALID, "at least 1 version stays");
    struct meta_head head = state_head_copy(self);
    kv_batch *batch;
    code = kv_batch_new(self->store.db, &batch, status);
    if (code != KV_OK)
        return code;
    code = state_head_prune(self, &head, keep, NULL, batch, status);
    if (code == KV_OK)
        code = state_write_meta(self, batch, &head, NULL, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, status);
    kv_batch_free(batch);
    if (code != KV_OK)
        return code;
    pthread_mutex_lock(&self->lock);
    self->head.oldest = head.oldest;
    self->head.versions = head.versions;
    self->head.history_garbage = head.history_garbage;
    pthread_mutex_unlock(&self->lock);
    state_upkeep_wake(self);
    return KV_OK;
}

/* ---- Bringing a version back -------------------------------------------- */

/* A walk over state.history, from one step to the next. */
struct undo {
    struct vtree_buffer from; /* where the next step begins */
    struct vtree_buffer name; /* a decoded key */
    kv_batch *batch;
};

/* Write back what stood there at the target: a value, or a page's node. */
static kv_code undo_record(struct state *self, struct undo *undo, kv_slice key, kv_slice value,
                           kv_status *status)
{
    uint32_t map;
    const uint8_t *mark, *bytes = key.data;
    unsigned level = bytes[RECORD_MAP_SIZE];
    kv_slice ordered = kv_bytes(bytes + RECORD_MAP_SIZE + 1,
                                key.size - RECORD_MAP_SIZE - 1 - sizeof(uint64_t));
    memcpy(&map, bytes, sizeof(map));
    map = __builtin_bswap32(map);
    if (record_ordered_read(ordered, &undo->name) != ordered.size ||
        !record_take_bytes(&value, 1, &mark) || *mark > RECORD_PRESENT)
        return kv_fail(status, KV_CORRUPT, "a history record of map number %u is damaged", map);
    kv_slice name = vtree_buffer_slice(&undo->name);
    kv_space *space = level == RECORD_LEVEL_VALUES ? self->store.values : self->store.pages;
    struct record_key stored;
    if (level == RECORD_LEVEL_VALUES ? !record_key_value(&stored, map, name)
                                     : !record_key_page(&stored, map, level, name))
        return state_no_memory(status);
    if (*mark == RECORD_PRESENT)
        kv_batch_put(undo->batch, space, record_slice(&stored), value);
    else
        kv_batch_delete(undo->batch, space, record_slice(&stored));
    if (level == 1) { /* the entries' record may be of a newer shape */
        stored.data[RECORD_MAP_SIZE] = RECORD_LEVEL_ENTRIES;
        kv_batch_delete(undo->batch, space, record_slice(&stored));
    }
    record_key_clear(&stored);
    return KV_OK;
}

/*
 * Some groups of history: of each key the earliest record until the target or
 * later is written back and all such records go, in one batch, so that a group
 * is never half done, with the head that no longer counts them. `end` tells that
 * the walk is over.
 */
static kv_code undo_step(struct state *self, struct undo *undo, struct meta_head *head,
                         bool *end, kv_status *status)
{
    kv_iter *iter;
    struct vtree_buffer group = { NULL, 0, 0 };
    size_t seen = 0, removed = 0;
    kv_code code = kv_iter_open(self->store.history, NULL, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    bool on = undo->from.size == 0 ? kv_iter_first(iter)
                                   : kv_iter_seek(iter, vtree_buffer_slice(&undo->from));
    for (; on && code == KV_OK; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        uint64_t until;
        if (key.size <= RECORD_MAP_SIZE + 1 + sizeof(until)) {
            code = kv_fail(status, KV_CORRUPT, "a history record has a damaged key");
            break;
        }
        size_t stem = key.size - sizeof(until);
        memcpy(&until, (const uint8_t *)key.data + stem, sizeof(until));
        until = __builtin_bswap64(until);
        bool same = group.size == stem && memcmp(group.data, key.data, stem) == 0;
        if (!same && seen >= STATE_STEP_RECORDS)
            break;
        seen++;
        if (until < head->target)
            continue;
        if (!same)
            code = undo_record(self, undo, key, kv_iter_value(iter), status);
        kv_batch_delete(undo->batch, self->store.history, key);
        removed++;
        group.size = 0;
        if (code == KV_OK && !vtree_buffer_add(&group, key.data, stem))
            code = state_no_memory(status);
    }
    *end = !on;
    undo->from.size = 0;
    if (on && code == KV_OK) {
        kv_slice key = kv_iter_key(iter);
        if (!vtree_buffer_add(&undo->from, key.data, key.size))
            code = state_no_memory(status);
    } else if (code == KV_OK) {
        code = kv_iter_status(iter, status);
    }
    kv_iter_close(iter);
    vtree_buffer_clear(&group);
    if (code != KV_OK || removed == 0)
        return code;
    head->history_records -= removed;
    code = state_write_meta(self, undo->batch, head, NULL, status);
    return code == KV_OK ? kv_batch_commit(undo->batch, 0, status) : code;
}

/* Note for removal the maps of `info` that `target` lacks, and no longer those
 * that it has. */
static kv_code mark_maps(struct state *self, kv_batch *batch, const struct meta_version *info,
                         const struct meta_version *target, kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    for (size_t i = 0; i < info->count; i++) {
        uint32_t map = info->maps[i].top.map;
        if (meta_version_find_id(target, map) != NULL)
            continue;
        kv_batch_put(batch, self->store.meta, meta_key_dropped(key, map), kv_bytes("\0", 1));
        pthread_mutex_lock(&self->lock);
        bool pushed = state_push_dropped(self, map, 0);
        pthread_mutex_unlock(&self->lock);
        if (!pushed)
            return state_no_memory(status);
    }
    return KV_OK;
}

static void unmark_maps(struct state *self, kv_batch *batch, const struct meta_version *target)
{
    uint8_t key[META_KEY_SIZE];
    pthread_mutex_lock(&self->lock);
    size_t kept = 0;
    for (size_t i = 0; i < self->dropped_count; i++) {
        struct dropped_map dropped = self->dropped[i];
        if (meta_version_find_id(target, dropped.map) == NULL)
            self->dropped[kept++] = dropped;
        else
            kv_batch_delete(batch, self->store.meta, meta_key_dropped(key, dropped.map));
    }
    self->dropped_count = kept;
    pthread_mutex_unlock(&self->lock);
}

/* Remove the versions above the target from the batch's view of the store. */
static kv_code remove_newer(struct state *self, struct meta_head *head, kv_batch *batch,
                            const struct meta_version *target, kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    uint64_t version = head->target;
    for (;;) {
        struct meta_version *info;
        kv_code code = version_after(self, version, &version, status);
        if (code != KV_OK)
            return code == KV_NOT_FOUND ? KV_OK : code;
        code = state_version_read(self, NULL, version, &info, status);
        if (code != KV_OK)
            return code;
        code = mark_maps(self, batch, info, target, status);
        meta_version_free(info);
        if (code != KV_OK)
            return code;
        kv_batch_delete(batch, self->store.meta, meta_key_version(key, version));
        if (version <= head->newest)
            head->versions--;
    }
}

static kv_code undo_all(struct state *self, struct undo *undo, struct meta_head *head,
                        kv_status *status)
{
    bool end = false;
    kv_code code = kv_batch_new(self->store.db, &undo->batch, status);
    while (code == KV_OK && !end)
        code = undo_step(self, undo, head, &end, status);
    return code;
}

kv_code state_finish_load(struct state *self, struct meta_head *head, unsigned flags,
                          kv_status *status)
{
    struct undo undo;
    struct meta_version *info = NULL;
    memset(&undo, 0, sizeof(undo));
    kv_code code = KV_OK;
    if (head->target > 0) {
        code = state_version_read(self, NULL, head->target, &info, status);
    } else {
        info = meta_version_new(0);
        if (info == NULL)
            code = state_no_memory(status);
        else
            meta_version_seal(info);
    }
    if (code == KV_OK)
        code = undo_all(self, &undo, head, status);
    if (code == KV_OK)
        code = remove_newer(self, head, undo.batch, info, status);
    if (code == KV_OK) {
        unmark_maps(self, undo.batch, info);
        head->pending = META_PENDING_NONE;
        head->newest = head->target;
        code = state_write_meta(self, undo.batch, head, NULL, status);
    }
    if (code == KV_OK)
        code = kv_batch_commit(undo.batch, flags, status);
    kv_batch_free(undo.batch);
    vtree_buffer_clear(&undo.from);
    vtree_buffer_clear(&undo.name);
    vtree_cache_forget_dirty(self->store.cache);
    if (code != KV_OK) {
        meta_version_free(info);
        self->broken = true;
        return code;
    }
    return state_publish(self, head, info, status);
}

kv_code state_load_version(struct state *self, uint64_t version, kv_status *status)
{
    kv_code code = state_usable(self, status);
    if (code != KV_OK)
        return code;
    struct meta_head head = state_head_copy(self);
    struct meta_version *info = NULL;
    code = state_check_kept(self, version, status);
    if (code == KV_OK)
        code = state_version_read(self, NULL, version, &info, status);
    if (code == KV_NOT_FOUND)
        code = kv_fail(status, KV_TOO_OLD, "there was no version %llu",
                       (unsigned long long)version);
    meta_version_free(info);
    if (code != KV_OK)
        return code;
    state_rollback(self);
    if (version == head.newest)
        return state_usable(self, status);

    kv_batch *batch;
    head.pending = META_PENDING_LOAD;
    head.target = version;
    code = state_pin_newest(self, status);
    if (code == KV_OK)
        code = kv_batch_new(self->store.db, &batch, status);
    if (code != KV_OK)
        return code;
    code = state_write_meta(self, batch, &head, NULL, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, status);
    kv_batch_free(batch);
    return code == KV_OK ? state_finish_load(self, &head, 0, status) : code;
}
