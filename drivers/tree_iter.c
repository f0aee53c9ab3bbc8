/* tree_iter.c - a cursor kept within the bounds of an iterator. */
#include "drivers/tree_iter.h"

#include <stdlib.h>
#include <string.h>

kv_code tree_iter_open(struct tree_iter *iter, struct tree *tree,
                       const struct tree_moment *moment, uint32_t space, const kv_range *range,
                       kv_status *status)
{
    unsigned char *bounds = NULL;
    size_t first_size = range->first.size;
    size_t limit_size = range->limit.size;
    if (first_size + limit_size > 0) {
        bounds = malloc(first_size + limit_size);
        if (bounds == NULL)
            return kv_fail(status, KV_NO_MEMORY, "out of memory for an iterator's bounds");
        if (first_size > 0)
            memcpy(bounds, range->first.data, first_size);
        if (limit_size > 0)
            memcpy(bounds + first_size, range->limit.data, limit_size);
        iter->first = kv_bytes(bounds, first_size);
        iter->limit = kv_bytes(bounds + first_size, limit_size);
    }
    iter->tree = tree;
    iter->moment = NULL;
    if (moment == NULL) {
        moment = iter->moment = tree_moment_take(tree);
        if (moment == NULL) {
            free(bounds);
            return kv_fail(status, KV_NO_MEMORY, "out of memory for an iterator");
        }
    }
    tree_cursor_init(&iter->cursor, moment, space);
    return KV_OK;
}

static struct tree_iter *self(kv_iter *base)
{
    return (struct tree_iter *)base;
}

void tree_iter_close(kv_iter *base)
{
    struct tree_iter *iter = self(base);
    if (iter->moment != NULL)
        tree_moment_release(iter->tree, iter->moment);
    union {
        const void *kept;
        void *own;
    } bounds = { iter->first.data };
    free(bounds.own);
}

/* Stand on `record` if there is one within the bounds. */
static bool stand(struct tree_iter *iter, const struct tree_record *record)
{
    if (record == NULL)
        return false;
    kv_slice key = tree_record_key(record);
    if ((iter->limit.size > 0 && kv_compare(key, iter->limit) >= 0) ||
        (iter->first.size > 0 && kv_compare(key, iter->first) < 0))
        return false;
    iter->base.key = key;
    iter->base.value = tree_record_value(record);
    return true;
}

bool tree_iter_first(kv_iter *base)
{
    struct tree_iter *iter = self(base);
    return stand(iter, iter->first.size > 0 ? tree_cursor_seek(&iter->cursor, iter->first)
                                            : tree_cursor_first(&iter->cursor));
}

bool tree_iter_last(kv_iter *base)
{
    struct tree_iter *iter = self(base);
    return stand(iter, iter->limit.size > 0 ? tree_cursor_below(&iter->cursor, iter->limit)
                                            : tree_cursor_last(&iter->cursor));
}

bool tree_iter_seek(kv_iter *base, kv_slice key)
{
    struct tree_iter *iter = self(base);
    if (key.size == 0 || kv_compare(key, iter->first) <= 0)
        return tree_iter_first(base);
    return stand(iter, tree_cursor_seek(&iter->cursor, key));
}

bool tree_iter_seek_for_prev(kv_iter *base, kv_slice key)
{
    struct tree_iter *iter = self(base);
    if (iter->limit.size > 0 && kv_compare(key, iter->limit) >= 0)
        return tree_iter_last(base);
    const struct tree_record *record = tree_cursor_seek(&iter->cursor, key);
    if (record == NULL)
        record = tree_cursor_last(&iter->cursor);
    else if (kv_compare(tree_record_key(record), key) > 0)
        record = tree_cursor_prev(&iter->cursor);
    return stand(iter, record);
}

bool tree_iter_next(kv_iter *base)
{
    struct tree_iter *iter = self(base);
    return stand(iter, tree_cursor_next(&iter->cursor));
}

bool tree_iter_prev(kv_iter *base)
{
    struct tree_iter *iter = self(base);
    return stand(iter, tree_cursor_prev(&iter->cursor));
}

kv_code tree_size(struct tree *tree, uint32_t space, const kv_range *range, uint64_t *out,
                  kv_status *status)
{
    struct tree_iter iter = { .tree = tree };
    uint64_t size = 0;
    kv_code code = tree_iter_open(&iter, tree, NULL, space, range, status);
    if (code != KV_OK)
        return code;
    for (bool on = tree_iter_first(&iter.base); on; on = tree_iter_next(&iter.base))
        size += iter.base.key.size + iter.base.value.size;
    tree_iter_close(&iter.base);
    *out = size;
    return KV_OK;
}
