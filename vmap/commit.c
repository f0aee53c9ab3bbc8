/* commit.c - the working set becomes a version, in one batch. */
#include "vmap/state_private.h"

#include <string.h>

struct meta_head state_head_copy(struct state *self)
{
    pthread_mutex_lock(&self->lock);
    struct meta_head head = self->head;
    pthread_mutex_unlock(&self->lock);
    return head;
}

/* The version that the working set begins from: its maps, with their trees as
 * they were committed. */
static struct meta_version *next_version(const struct state *self, uint64_t version)
{
    struct meta_version *info = meta_version_new(self->map_count);
    if (info == NULL)
        return NULL;
    info->version = version;
    for (size_t i = 0; i < self->map_count; i++) {
        memcpy(info->maps[i].name, self->maps[i]->name, sizeof(info->maps[i].name));
        info->maps[i].top = self->maps[i]->top;
    }
    return info;
}

static kv_code check_expected(const struct meta_version *info, const vmap_digest *expected,
                              kv_status *status)
{
    char hex[2 * VMAP_DIGEST_SIZE + 1];
    static const char digits[] = "0123456789abcdef";
    if (expected == NULL ||
        memcmp(expected->bytes, info->app_hash.bytes, sizeof(expected->bytes)) == 0)
        return KV_OK;
    for (size_t i = 0; i < VMAP_DIGEST_SIZE; i++) {
        hex[2 * i] = digits[info->app_hash.bytes[i] >> 4];
        hex[2 * i + 1] = digits[info->app_hash.bytes[i] & 15];
    }
    hex[sizeof(hex) - 1] = 0;
    return kv_fail(status, KV_UNPROVEN,
                   "version %llu would have the app hash %s, not the expected",
                   (unsigned long long)info->version, hex);
}

/* Fold one map's changes and add what they change to the batch. No older version has a
 * map that was made since the last one, so there is nothing to keep of it. */
static kv_code commit_map(struct state *self, vmap *map, struct meta_map *out, kv_batch *batch,
                          struct state_keep *all, kv_status *status)
{
    struct state_keep none = { 0 }, *keep = map->made ? &none : all;
    if (map->changes.count == 0)
        return KV_OK;
    if (!vtree_changes_sort(&map->changes))
        return state_no_memory(status);
    const struct vtree_change *const *changes;
    void *sorted = map->changes.sorted;
    memcpy(&changes, &sorted, sizeof(changes));
    struct vtree_update update = {
        .store = &self->store,
        .pool = self->pool,
        .top = map->top,
        .changes = changes,
        .change_count = map->changes.count,
        .want_old_values = keep->history,
        .exclusive = !keep->history && !state_has_views(self),
    };
    kv_code code = state_write_update(self, batch, &update, keep, status);
    if (code == KV_OK)
        out->top = update.top;
    vtree_update_clear(&update);
    return code;
}

static kv_code commit_batch(struct state *self, struct meta_version *info,
                            const vmap_digest *expected, struct meta_head *head,
                            kv_batch *batch, unsigned flags, kv_status *status)
{
    struct state_keep keep = { .history = head->newest > 0 && self->options.keep_recent > 1,
                               .until = head->newest };
    kv_code code = KV_OK;
    for (size_t i = 0; code == KV_OK && i < self->map_count; i++)
        code = commit_map(self, self->maps[i], &info->maps[i], batch, &keep, status);
    if (code != KV_OK)
        return code;
    info->history_records = keep.records;
    meta_version_seal(info);
    code = check_expected(info, expected, status);
    if (code == KV_OK)
        code = state_write_end(self, batch, head, info, status);
    if (code == KV_OK)
        code = state_pin_newest(self, status);
    return code == KV_OK ? kv_batch_commit(batch, flags, status) : code;
}

static kv_code commit_as(struct state *self, uint64_t version, const vmap_digest *expected,
                         unsigned flags, kv_status *status)
{
    if (self->mark_count > 0)
        return kv_fail(status, KV_BAD_STATE, "%zu savepoints of the working set are open",
                       self->mark_count);
    kv_batch *batch = NULL;
    kv_code code = KV_OK;
    for (size_t i = 0; code == KV_OK && i < self->map_count; i++)
        code = state_spill_end(self, self->maps[i], status);
    if (code != KV_OK)
        return code;
    struct meta_head head = state_head_copy(self);
    struct meta_version *info = next_version(self, version);
    if (info == NULL)
        return state_no_memory(status);
    if (self->staged)
        return state_commit_staged(self, info, expected, flags, status);
    code = kv_batch_new(self->store.db, &batch, status);
    if (code == KV_OK)
        code = commit_batch(self, info, expected, &head, batch, flags, status);
    kv_batch_free(batch);
    if (code != KV_OK) {
        vtree_cache_forget_dirty(self->store.cache);
        meta_version_free(info);
        return code;
    }
    return state_publish(self, &head, info, status);
}

kv_code state_commit(struct state *self, unsigned flags, uint64_t *version, kv_status *status)
{
    if (version != NULL)
        *version = 0;
    kv_code code = state_usable(self, status);
    if (code != KV_OK)
        return code;
    uint64_t next = state_version(self) + 1;
    code = commit_as(self, next, NULL, flags, status);
    if (code == KV_OK && version != NULL)
        *version = next;
    return code;
}

kv_code state_commit_as(struct state *self, uint64_t version, const vmap_digest *expected,
                        unsigned flags, kv_status *status)
{
    kv_code code = state_usable(self, status);
    if (code != KV_OK)
        return code;
    uint64_t newest = state_version(self);
    if (version <= newest || version == UINT64_MAX)
        return kv_fail(status, KV_BAD_STATE,
                       "version %llu cannot be committed: the newest is %llu",
                       (unsigned long long)version, (unsigned long long)newest);
    return commit_as(self, version, expected, flags, status);
}
