/* lend.c - pages of a view, lent to those who move a state. */
#include "vmap/digest.h"
#include "vmap/state_private.h"

#include <string.h>

enum { FOLD_LIKE_MAX = 1024 }; /* leaves; longer pages are rare, and folded anew */

kv_code state_view_top(state_view *view, const char *name, unsigned *level, vmap_node *node,
                       unsigned *page_bits, kv_status *status)
{
    const struct meta_map *map;
    kv_code code = state_view_find(view, name, &map, status);
    if (code != KV_OK)
        return code;
    *level = map->top.level;
    *node = map->top.node;
    *page_bits = map->top.page_bits;
    return KV_OK;
}

static void lend(struct vtree_page *page, vmap_page *out)
{
    *out = (vmap_page){ page->level, page->count, page };
}

void vmap_page_clear(vmap_page *page)
{
    if (page == NULL)
        return;
    vtree_page_release(page->held);
    *page = (vmap_page){ 0, 0, NULL };
}

kv_code state_view_page(state_view *view, const char *name, unsigned level, kv_slice first,
                        vmap_page *out, kv_status *status)
{
    const struct meta_map *map;
    struct vtree_reader *reader;
    struct vtree_page *page = NULL;
    *out = (vmap_page){ 0, 0, NULL };
    kv_code code = state_view_find(view, name, &map, status);
    if (code != KV_OK)
        return code;
    if (map->top.node.size == 0 || level > map->top.level)
        return KV_NOT_FOUND;
    code = state_view_reader_take(view, &reader, status);
    if (code != KV_OK)
        return code;
    code = vtree_reader_descend(reader, &map->top, level, first, &page, status);
    state_view_reader_give(view, reader);
    if (code != KV_OK)
        return code;
    if (kv_compare(vtree_page_key(page, 0), first) != 0) {
        vtree_page_release(page);
        return KV_NOT_FOUND;
    }
    lend(page, out);
    return KV_OK;
}

kv_code state_view_page_below(state_view *view, const char *name, const vmap_page *above,
                              size_t index, vmap_page *out, kv_status *status)
{
    const struct meta_map *map;
    struct vtree_reader *reader;
    struct vtree_page *page = NULL;
    *out = (vmap_page){ 0, 0, NULL };
    kv_code code = state_view_find(view, name, &map, status);
    if (code == KV_OK)
        code = state_view_reader_take(view, &reader, status);
    if (code != KV_OK)
        return code;
    vmap_node node = vmap_page_node(above, index);
    code = vtree_reader_page(reader, &map->top, above->level - 1, vmap_page_key(above, index),
                             &node, &page, status);
    state_view_reader_give(view, reader);
    if (code == KV_OK)
        lend(page, out);
    return code;
}

/* ---- What is in them ---------------------------------------------------- */

kv_slice vmap_page_key(const vmap_page *page, size_t index)
{
    return vtree_page_key(page->held, index);
}

vmap_node vmap_page_node(const vmap_page *page, size_t index)
{
    return vtree_page_entry(page->held, index);
}

const vmap_digest *vmap_page_digest(const vmap_page *page, size_t index)
{
    const struct vtree_page *held = page->held;
    return &held->digests[vtree_page_base(held) + index];
}

size_t vmap_page_find(const vmap_page *page, kv_slice key, bool *exact)
{
    return vtree_page_find(page->held, key, exact);
}

/* One round of a fold: `same` tells which of the nodes the page has in the same place. */
static size_t fold_round(const struct vtree_page *page, unsigned round, size_t width,
                         vmap_node *nodes, bool *same, size_t count)
{
    struct vmap_inner_queue queue;
    size_t half = 0;
    queue.count = 0;
    for (size_t i = 0; i + 1 < count; i += 2, half++) {
        bool both = same[i] && same[i + 1];
        vmap_node *left = &nodes[i], *out = &nodes[half];
        same[half] = both;
        if (both) {
            size_t unused;
            *out = vtree_page_slot(page, round + 1, half, &unused);
            continue;
        }
        uint64_t size = left->size + nodes[i + 1].size;
        uint32_t height =
            1 + (left->height > nodes[i + 1].height ? left->height : nodes[i + 1].height);
        vmap_inner_queue_add(&queue, height, size, &left->digest, &nodes[i + 1].digest,
                             &out->digest);
        out->size = size;
        out->height = height;
    }
    vmap_inner_queue_flush(&queue);
    if (count % 2 != 0) {
        same[half] = same[count - 1] && count == width;
        nodes[half++] = nodes[count - 1];
    }
    return half;
}

vmap_node vmap_page_fold(const vmap_page *like, vmap_node *nodes, size_t count)
{
    const struct vtree_page *page = like->held;
    bool same[FOLD_LIKE_MAX];
    if (count > FOLD_LIKE_MAX || page == NULL || page->level != 0)
        return vmap_fold(nodes, count);
    for (size_t i = 0; i < count; i++)
        same[i] = i < page->count && memcmp(&nodes[i].digest, vmap_page_digest(like, i),
                                            sizeof(nodes[i].digest)) == 0;
    size_t width = page->count;
    for (unsigned round = 0; count > 1; round++) {
        count = fold_round(page, round, width, nodes, same, count);
        width = (width + 1) / 2;
    }
    return nodes[0];
}
