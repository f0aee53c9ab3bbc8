/* write.c - from what an update found to the records of a batch. */
#include "vmap/state_private.h"

kv_code state_write_value(struct state *self, kv_batch *batch, uint32_t map, kv_slice key,
                          const kv_slice *value, kv_status *status)
{
    struct record_key stored;
    if (!record_key_value(&stored, map, key))
        return state_no_memory(status);
    if (value != NULL)
        kv_batch_put(batch, self->store.values, record_slice(&stored), *value);
    else
        kv_batch_delete(batch, self->store.values, record_slice(&stored));
    record_key_clear(&stored);
    return KV_OK;
}

/* Keep `old` (NULL: there was nothing) as what stood at `name` until now. */
static kv_code write_history(struct state *self, kv_batch *batch, uint32_t map, unsigned level,
                             kv_slice name, const kv_slice *old, struct state_keep *keep,
                             kv_status *status)
{
    struct record_key key;
    kv_code code = KV_NOT_FOUND;
    if (!record_key_history(&key, map, level, name, keep->until))
        return state_no_memory(status);
    if (keep->check && level > 0) {
        kv_value kept = KV_VALUE_INIT;
        code = kv_get(self->store.history, NULL, record_slice(&key), &kept, status);
        kv_value_release(&kept);
    }
    if (code == KV_NOT_FOUND) {
        uint8_t mark = old != NULL ? RECORD_PRESENT : RECORD_ABSENT;
        self->scratch.size = 0;
        code = KV_OK;
        if (!vtree_buffer_add(&self->scratch, &mark, 1) ||
            (old != NULL && !vtree_buffer_add(&self->scratch, old->data, old->size)))
            code = state_no_memory(status);
        else
            kv_batch_put(batch, self->store.history, record_slice(&key),
                         vtree_buffer_slice(&self->scratch));
        keep->records++;
    }
    record_key_clear(&key);
    return code;
}

static kv_code write_node(struct state *self, kv_batch *batch, uint32_t map,
                          const struct vtree_node_edit *node, struct state_keep *keep,
                          kv_status *status)
{
    const struct vtree_edit *edit = &node->edit;
    struct record_key key;
    struct vtree_buffer bytes = { NULL, 0, 0 };
    kv_code code = KV_OK;
    if (!record_key_page(&key, map, node->level, edit->key))
        return state_no_memory(status);
    if (edit->present && !record_node_add(&bytes, &edit->node))
        code = state_no_memory(status);
    else if (edit->present)
        kv_batch_put(batch, self->store.pages, record_slice(&key), vtree_buffer_slice(&bytes));
    else
        kv_batch_delete(batch, self->store.pages, record_slice(&key));
    if (code == KV_OK && keep->history) {
        bytes.size = 0;
        if (edit->existed && !record_node_add(&bytes, &edit->old)) {
            code = state_no_memory(status);
        } else {
            kv_slice old = vtree_buffer_slice(&bytes);
            code = write_history(self, batch, map, node->level, edit->key,
                                 edit->existed ? &old : NULL, keep, status);
        }
    }
    vtree_buffer_clear(&bytes);
    record_key_clear(&key);
    return code;
}

struct writing {
    struct state *self;
    kv_batch *batch;
    struct state_keep *keep;
};

static kv_code write_leaves(void *context, const struct vtree_update *update, size_t begin,
                            size_t end, kv_status *status)
{
    const struct writing *to = context;
    uint32_t map = update->top.map;
    kv_code code = KV_OK;
    for (size_t i = begin; code == KV_OK && i < end; i++) {
        const struct vtree_edit *edit = &update->leaves[i];
        if (vtree_edit_is_idle(edit))
            continue;
        code = state_write_value(to->self, to->batch, map, edit->key,
                                 edit->present ? &edit->change->value : NULL, status);
        if (code == KV_OK && to->keep->history)
            code =
                write_history(to->self, to->batch, map, RECORD_LEVEL_VALUES, edit->key,
                              edit->existed ? &edit->old_value.bytes : NULL, to->keep, status);
    }
    return code;
}

kv_code state_write_update(struct state *self, kv_batch *batch, struct vtree_update *update,
                           struct state_keep *keep, kv_status *status)
{
    uint32_t map = update->top.map;
    struct writing to = { self, batch, keep };
    update->leaves_done = write_leaves;
    update->context = &to;
    kv_code code = vtree_update_run(update, status);
    for (size_t i = 0; code == KV_OK && i < update->node_count; i++) {
        if (!vtree_edit_is_idle(&update->nodes[i].edit))
            code = write_node(self, batch, map, &update->nodes[i], keep, status);
    }
    for (size_t i = 0; code == KV_OK && i < update->dropped_count; i++) {
        struct record_key key;
        if (!record_key_page(&key, map, RECORD_LEVEL_ENTRIES, update->dropped[i]))
            return state_no_memory(status);
        kv_batch_delete(batch, self->store.pages, record_slice(&key));
        record_key_clear(&key);
    }
    return code;
}

kv_code state_write_meta(struct state *self, kv_batch *batch, const struct meta_head *head,
                         const struct meta_version *version, kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    if (version != NULL) {
        if (!meta_version_encode(version, &self->scratch))
            return state_no_memory(status);
        kv_batch_put(batch, self->store.meta, meta_key_version(key, version->version),
                     vtree_buffer_slice(&self->scratch));
    }
    if (!meta_head_encode(head, &self->scratch))
        return state_no_memory(status);
    kv_batch_put(batch, self->store.meta, meta_key_head(), vtree_buffer_slice(&self->scratch));
    return KV_OK;
}

kv_code state_write_back(struct state *self, kv_batch *batch, bool all, size_t *written,
                         kv_status *status)
{
    *written = 0;
    while (*written < STATE_WRITEBACK_PAGES) {
        struct vtree_page *page = vtree_cache_take_dirty(self->store.cache, all);
        if (page == NULL)
            return KV_OK;
        (*written)++;
        /* A page of a map that is gone must not leave a record behind. */
        struct record_key key;
        bool made = true;
        if (meta_version_find_id(self->newest->info, page->map) != NULL) {
            made =
                record_key_page(&key, page->map, RECORD_LEVEL_ENTRIES, vtree_page_key(page, 0));
            if (made && vtree_page_encode(page, &self->scratch))
                kv_batch_put(batch, self->store.pages, record_slice(&key),
                             vtree_buffer_slice(&self->scratch));
            if (made)
                record_key_clear(&key);
        }
        vtree_page_release(page);
        if (!made)
            return state_no_memory(status);
    }
    return KV_OK;
}

/* Note the maps of the newest version that `info` lacks. */
static void write_dropped(struct state *self, kv_batch *batch, const struct meta_version *info)
{
    const struct meta_version *before = self->newest->info;
    for (size_t i = 0; i < before->count; i++) {
        uint8_t key[META_KEY_SIZE], last[10];
        uint32_t map = before->maps[i].top.map;
        if (meta_version_find_id(info, map) != NULL)
            continue;
        struct vtree_buffer value = { last, 0, sizeof(last) };
        if (vtree_buffer_add_varint(&value, before->version))
            kv_batch_put(batch, self->store.meta, meta_key_dropped(key, map),
                         vtree_buffer_slice(&value));
    }
}

/* Maps that the newest version lacks are not being built from here on. */
static void write_built(struct state *self, kv_batch *batch, const struct meta_version *info)
{
    for (size_t i = 0; i < info->count; i++) {
        uint8_t key[META_KEY_SIZE];
        uint32_t map = info->maps[i].top.map;
        if (meta_version_find_id(self->newest->info, map) == NULL)
            kv_batch_delete(batch, self->store.meta, meta_key_building(key, map));
    }
}

kv_code state_write_end(struct state *self, kv_batch *batch, struct meta_head *head,
                        const struct meta_version *info, kv_status *status)
{
    size_t written;
    head->pending = META_PENDING_NONE;
    head->newest = info->version;
    head->versions++;
    if (head->oldest == 0)
        head->oldest = info->version;
    head->map_next = self->map_next;
    head->history_records += info->history_records;
    kv_code code = state_head_prune(self, head, self->options.keep_recent, info, batch, status);
    if (code != KV_OK)
        return code;
    write_dropped(self, batch, info);
    write_built(self, batch, info);
    code = state_write_back(self, batch, false, &written, status);
    return code == KV_OK ? state_write_meta(self, batch, head, info, status) : code;
}
