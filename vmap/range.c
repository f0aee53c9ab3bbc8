/*
 * range.c - range proofs: the tree in preorder, with all that lies to the left
 * and to the right of the run cut down to digests.
 */
#include "vmap/range.h"

#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

struct range_writer {
    struct vtree_reader *reader;
    const struct vtree_top *top;
    vmap_iter *values;   /* on the next leaf to show */
    uint64_t begin, end; /* places of the leaves to show */
    struct vtree_buffer out;
};

static kv_code no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a range proof");
}

static bool add_bytes(struct vtree_buffer *out, kv_slice bytes)
{
    return vtree_buffer_add_varint(out, bytes.size) &&
           vtree_buffer_add(out, bytes.data, bytes.size);
}

static bool add_mark(struct vtree_buffer *out, enum range_mark mark)
{
    uint8_t byte = (uint8_t)mark;
    return vtree_buffer_add(out, &byte, 1);
}

static kv_code write_leaf(struct range_writer *writer, kv_slice key, kv_status *status)
{
    if (kv_compare(vmap_iter_key(writer->values), key) != 0)
        return kv_fail(status, KV_CORRUPT, "a key of map number %u has lost its value",
                       writer->top->map);
    if (!add_mark(&writer->out, RANGE_LEAF) || !add_bytes(&writer->out, key) ||
        !add_bytes(&writer->out, vmap_iter_value(writer->values)))
        return no_memory(status);
    return vmap_iter_next(writer->values) ? KV_OK : vmap_iter_status(writer->values, status);
}

/* Write the node in place `index` after `round` rounds of `page`'s fold, whose
 * leaves begin at the place `start`. */
static kv_code write_node(struct range_writer *writer, const struct vtree_page *page,
                          unsigned round, size_t index, uint64_t start, kv_status *status)
{
    size_t width;
    vmap_node node = vtree_page_slot(page, round, index, &width);
    if (start >= writer->end || start + node.size <= writer->begin)
        return add_mark(&writer->out, RANGE_STUB) &&
                       vtree_buffer_add_varint(&writer->out, node.size) &&
                       vtree_buffer_add(&writer->out, node.digest.bytes, VMAP_DIGEST_SIZE)
                   ? KV_OK
                   : no_memory(status);
    if (round == 0 && page->level == 0)
        return write_leaf(writer, vtree_page_key(page, index), status);
    if (round == 0) {
        struct vtree_page *below;
        kv_code code = vtree_reader_page(writer->reader, writer->top, page->level - 1u,
                                         vtree_page_key(page, index), &node, &below, status);
        if (code != KV_OK)
            return code;
        code = write_node(writer, below, vtree_page_rounds(below), 0, start, status);
        vtree_page_release(below);
        return code;
    }
    vmap_node left = vtree_page_slot(page, round - 1, 2 * index, &width);
    bool promoted = 2 * index + 1 == width;
    if (!promoted && (!add_mark(&writer->out, RANGE_INNER) ||
                      !vtree_buffer_add_varint(&writer->out, node.height)))
        return no_memory(status);
    kv_code code = write_node(writer, page, round - 1, 2 * index, start, status);
    if (code == KV_OK && !promoted)
        code = write_node(writer, page, round - 1, 2 * index + 1, start + left.size, status);
    return code;
}

/* How many leaves stand before `key`. */
static kv_code place_of(struct range_writer *writer, kv_slice key, uint64_t *place,
                        kv_status *status)
{
    struct vtree_path path;
    *place = 0;
    kv_code code = vtree_path_find(writer->reader, writer->top, key, &path, status);
    if (code == KV_NOT_FOUND) {
        vtree_path_clear(&path);
        return KV_OK;
    }
    if (code != KV_OK)
        return code;
    for (unsigned level = 0; level <= path.level; level++) {
        for (size_t i = 0; i < path.index[level]; i++)
            *place += vtree_page_entry(path.pages[level], i).size;
    }
    if (kv_compare(vtree_path_key(&path), key) < 0)
        (*place)++;
    vtree_path_clear(&path);
    return KV_OK;
}

/* Choose the run: what the range and the limits allow, and a neighbour on each
 * side. The iterator ends on the run's first leaf. */
static kv_code choose_run(struct range_writer *writer, const kv_range *range, size_t count_max,
                          size_t size_max, kv_status *status)
{
    uint64_t total = writer->top->node.size, place = 0, shown = 0;
    size_t size = 0;
    kv_code code = KV_OK;
    if (range->first.size > 0)
        code = place_of(writer, range->first, &place, status);
    if (code != KV_OK)
        return code;
    bool on = range->first.size > 0 ? vmap_iter_seek(writer->values, range->first)
                                    : vmap_iter_first(writer->values);
    while (on && shown < count_max && (shown == 0 || size < size_max) &&
           (range->limit.size == 0 ||
            kv_compare(vmap_iter_key(writer->values), range->limit) < 0)) {
        size += vmap_iter_key(writer->values).size + vmap_iter_value(writer->values).size;
        shown++;
        on = vmap_iter_next(writer->values);
    }
    code = vmap_iter_status(writer->values, status);
    if (code != KV_OK)
        return code;
    writer->begin = place > 0 ? place - 1 : 0;
    writer->end = place + shown < total ? place + shown + 1 : total;
    on = range->first.size > 0 ? vmap_iter_seek(writer->values, range->first)
                               : vmap_iter_first(writer->values);
    if (place > 0)
        on = on ? vmap_iter_prev(writer->values) : vmap_iter_last(writer->values);
    return on ? KV_OK : vmap_iter_status(writer->values, status);
}

static void value_free(kv_value *value)
{
    free(value->owner);
}

static kv_code write_range(struct range_writer *writer, const kv_range *range, size_t count_max,
                           size_t size_max, kv_status *status)
{
    const struct vtree_top *top = writer->top;
    struct vtree_page *page;
    kv_code code = choose_run(writer, range, count_max, size_max, status);
    if (code != KV_OK)
        return code;
    code = vtree_reader_page(writer->reader, top, top->level, kv_bytes(NULL, 0), &top->node,
                             &page, status);
    if (code != KV_OK)
        return code;
    code = write_node(writer, page, vtree_page_rounds(page), 0, 0, status);
    vtree_page_release(page);
    return code;
}

kv_code state_view_prove_range(state_view *view, const char *name, const kv_range *range,
                               size_t count_max, size_t size_max, kv_value *out,
                               kv_status *status)
{
    static const kv_range all = { { NULL, 0 }, { NULL, 0 } };
    const struct meta_map *map;
    struct range_writer writer;
    memset(&writer, 0, sizeof(writer));
    *out = (kv_value)KV_VALUE_INIT;
    kv_code code = state_view_find(view, name, &map, status);
    if (code != KV_OK || map->top.node.size == 0)
        return code;
    if (count_max == 0)
        return kv_fail(status, KV_INVALID, "a range proof shows at least 1 pair");
    writer.top = &map->top;
    code = state_view_reader_take(view, &writer.reader, status);
    if (code != KV_OK)
        return code;
    code = state_view_iter_open(view, name, NULL, &writer.values, status);
    if (code == KV_OK)
        code = write_range(&writer, range != NULL ? range : &all, count_max, size_max, status);
    vmap_iter_close(writer.values);
    state_view_reader_give(view, writer.reader);
    if (code == KV_OK && writer.out.size > VMAP_RANGE_PROOF_SIZE_MAX)
        code = kv_fail(status, KV_TOO_BIG, "a range proof of %zu bytes: the limit is %u",
                       writer.out.size, VMAP_RANGE_PROOF_SIZE_MAX);
    if (code != KV_OK) {
        vtree_buffer_clear(&writer.out);
        return code;
    }
    *out = (kv_value){ vtree_buffer_slice(&writer.out), value_free, writer.out.data };
    return KV_OK;
}
