/* walk.c - cursors over the pairs of a map, in the working set or in a view. */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

struct vmap_iter {
    struct vtree_reader reader;
    kv_iter *staged;
    struct vtree_cursor *cursor; /* the reader's, or own */
    struct vtree_cursor own;
    struct vtree_buffer first, limit;
    const vmap *map; /* of a working set's iterator */
    uint64_t generation;
    bool on;
};

static kv_code iter_new(const kv_range *range, vmap_iter **out, kv_status *status)
{
    vmap_iter *iter = calloc(1, sizeof(*iter));
    *out = NULL;
    if (iter == NULL)
        return state_no_memory(status);
    if (range != NULL &&
        (!vtree_buffer_add(&iter->first, range->first.data, range->first.size) ||
         !vtree_buffer_add(&iter->limit, range->limit.data, range->limit.size))) {
        vtree_buffer_clear(&iter->first);
        free(iter);
        return state_no_memory(status);
    }
    *out = iter;
    return KV_OK;
}

kv_code vmap_iter_open(vmap *map, const kv_range *range, vmap_iter **out, kv_status *status)
{
    struct state *self = map->self;
    *out = NULL;
    kv_code code = state_usable(self, status);
    if (code != KV_OK)
        return code;
    vmap_iter *iter;
    code = iter_new(range, &iter, status);
    if (code != KV_OK)
        return code;
    vtree_reader_init(&iter->reader, &self->store, NULL, 0);
    iter->map = map;
    iter->cursor = &iter->own;
    if (!vtree_changes_sort(&map->changes))
        code = state_no_memory(status);
    if (code == KV_OK && map->staged)
        code = kv_iter_open(self->store.staged, NULL, NULL, &iter->staged, status);
    if (code == KV_OK)
        code = kv_iter_open(self->store.values, NULL, NULL, &iter->reader.values, status);
    if (code != KV_OK) {
        vmap_iter_close(iter);
        return code;
    }
    if (map->changes.count > 0)
        vtree_cursor_add_changes(&iter->own, &map->changes);
    if (iter->staged != NULL)
        vtree_cursor_add(&iter->own, CURSOR_STAGED, iter->staged, map->top.map, -1, 0);
    vtree_cursor_add(&iter->own, CURSOR_PLAIN, iter->reader.values, map->top.map, -1, 0);
    iter->generation = map->changes.generation;
    *out = iter;
    return KV_OK;
}

kv_code state_view_iter_open(state_view *view, const char *name, const kv_range *range,
                             vmap_iter **out, kv_status *status)
{
    const struct meta_map *map;
    vmap_iter *iter;
    *out = NULL;
    kv_code code = state_view_find(view, name, &map, status);
    if (code != KV_OK)
        return code;
    code = iter_new(range, &iter, status);
    if (code != KV_OK)
        return code;
    state_view_reader_init(view, &iter->reader);
    code = vtree_reader_cursor(&iter->reader, map->top.map, RECORD_LEVEL_VALUES, &iter->cursor,
                               status);
    if (code != KV_OK) {
        vmap_iter_close(iter);
        return code;
    }
    *out = iter;
    return KV_OK;
}

void vmap_iter_close(vmap_iter *iter)
{
    if (iter == NULL)
        return;
    vtree_cursor_clear(&iter->own);
    kv_iter_close(iter->staged);
    vtree_reader_clear(&iter->reader);
    vtree_buffer_clear(&iter->first);
    vtree_buffer_clear(&iter->limit);
    free(iter);
}

/* Whether the working set is still what the iterator was opened on. */
static bool valid(vmap_iter *iter)
{
    iter->on = iter->map == NULL || iter->generation == iter->map->changes.generation;
    return iter->on;
}

/* Stay on only inside the range. */
static bool settle(vmap_iter *iter, bool on)
{
    kv_slice key = vtree_cursor_key(iter->cursor);
    iter->on =
        on &&
        (iter->first.size == 0 || kv_compare(key, vtree_buffer_slice(&iter->first)) >= 0) &&
        (iter->limit.size == 0 || kv_compare(key, vtree_buffer_slice(&iter->limit)) < 0);
    return iter->on;
}

bool vmap_iter_first(vmap_iter *iter)
{
    return valid(iter) &&
           settle(iter, vtree_cursor_seek(iter->cursor, vtree_buffer_slice(&iter->first)));
}

bool vmap_iter_last(vmap_iter *iter)
{
    if (!valid(iter))
        return false;
    if (iter->limit.size == 0)
        return settle(iter, vtree_cursor_last(iter->cursor));
    kv_slice limit = vtree_buffer_slice(&iter->limit);
    bool on = vtree_cursor_seek_back(iter->cursor, limit);
    if (on && kv_compare(vtree_cursor_key(iter->cursor), limit) == 0)
        on = vtree_cursor_prev(iter->cursor);
    return settle(iter, on);
}

bool vmap_iter_seek(vmap_iter *iter, kv_slice key)
{
    kv_slice first = vtree_buffer_slice(&iter->first);
    if (!valid(iter))
        return false;
    return settle(iter,
                  vtree_cursor_seek(iter->cursor, kv_compare(key, first) < 0 ? first : key));
}

bool vmap_iter_next(vmap_iter *iter)
{
    return iter->on && valid(iter) && settle(iter, vtree_cursor_next(iter->cursor));
}

bool vmap_iter_prev(vmap_iter *iter)
{
    return iter->on && valid(iter) && settle(iter, vtree_cursor_prev(iter->cursor));
}

kv_slice vmap_iter_key(const vmap_iter *iter)
{
    return iter->on ? vtree_cursor_key(iter->cursor) : kv_bytes(NULL, 0);
}

kv_slice vmap_iter_value(const vmap_iter *iter)
{
    return iter->on ? vtree_cursor_value(iter->cursor) : kv_bytes(NULL, 0);
}

kv_code vmap_iter_status(const vmap_iter *iter, kv_status *status)
{
    if (iter->map != NULL && iter->generation != iter->map->changes.generation)
        return kv_fail(status, KV_BAD_STATE, "map '%s' was changed under its iterator",
                       iter->map->name);
    return vtree_cursor_status(iter->cursor, status);
}
