/* walk.c - descend by keys, one cached page per level. */
#include "reconnect/walk.h"

#include <string.h>

static bool set_key(struct wire_out *to, kv_slice key)
{
    to->size = 0;
    wire_put(to, key.data, key.size);
    return !to->failed;
}

static kv_slice key_of(const struct wire_out *from)
{
    return kv_bytes(from->data, from->size);
}

kv_code walk_open(struct walk *walk, state_view *view, const char *map, kv_status *status)
{
    memset(walk, 0, sizeof(*walk));
    walk->view = view;
    walk->map = map;
    kv_code code = state_view_top(view, map, &walk->top, &walk->node, &walk->page_bits, NULL);
    if (code == KV_NOT_FOUND)
        return KV_OK;
    if (code != KV_OK)
        code = state_view_top(view, map, &walk->top, &walk->node, &walk->page_bits, status);
    if (code == KV_OK)
        code = state_view_iter_open(view, map, NULL, &walk->iter, status);
    if (code == KV_OK)
        code = walk_seek(walk, kv_bytes(NULL, 0), status);
    if (code == KV_OK && !set_key(&walk->start, walk_key(walk)))
        code = kv_fail(status, KV_NO_MEMORY, "no memory to walk map %s", map);
    if (code != KV_OK)
        walk_close(walk);
    return code;
}

void walk_close(struct walk *walk)
{
    for (unsigned i = 0; i < VMAP_LEVELS_MAX; i++) {
        vmap_page_clear(&walk->pages[i].page);
        wire_out_clear(&walk->pages[i].first);
    }
    wire_out_clear(&walk->start);
    wire_out_clear(&walk->leaf_next);
    wire_out_clear(&walk->leaf_limit);
    vmap_iter_close(walk->iter);
    memset(walk, 0, sizeof(*walk));
}

/* What a walk says when it cannot keep a key. */
static kv_code no_memory(const struct walk *walk, kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory to walk map %s", walk->map);
}

/* Have the root page in its slot. */
static kv_code load_top(struct walk *walk, kv_status *status)
{
    struct walk_page *slot = &walk->pages[walk->top];
    if (slot->loaded)
        return KV_OK;
    kv_code code = state_view_page(walk->view, walk->map, walk->top, key_of(&walk->start),
                                   &slot->page, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_CORRUPT, "map %s: its root page is missing", walk->map);
    if (code == KV_OK && !set_key(&slot->first, key_of(&walk->start)))
        return no_memory(walk, status);
    slot->loaded = code == KV_OK;
    return code;
}

/* Have the page under entry `index` of the page in the slot above in the slot of `level`. */
static kv_code load_below(struct walk *walk, unsigned level, size_t index, kv_status *status)
{
    struct walk_page *slot = &walk->pages[level];
    const vmap_page *above = &walk->pages[level + 1].page;
    kv_slice first = vmap_page_key(above, index);
    if (slot->loaded && kv_compare(key_of(&slot->first), first) == 0)
        return KV_OK;

    slot->loaded = false;
    vmap_page_clear(&slot->page);
    if (!set_key(&slot->first, first))
        return no_memory(walk, status);
    kv_code code =
        state_view_page_below(walk->view, walk->map, above, index, &slot->page, status);
    slot->loaded = code == KV_OK;
    return code;
}

/* The last entry that starts at or before `key`, or the first. */
static size_t entry_of(const vmap_page *page, kv_slice key)
{
    bool exact;
    if (key.size == 0)
        return 0;
    size_t index = vmap_page_find(page, key, &exact);
    return exact || index == 0 ? index : index - 1;
}

/* What a descent looks for and where it stands. */
struct descent {
    struct walk *walk;
    unsigned level; /* of the pages visited */
    kv_slice first, limit;
    walk_visit visit;
    void *context;
    kv_status *status;
};

/* Visit the pages below the page in the slot of `level`. */
static kv_code descend(const struct descent *descent, unsigned level)
{
    const vmap_page *page = &descent->walk->pages[level].page;
    kv_code code = KV_OK;
    for (size_t i = entry_of(page, descent->first); i < page->count && code == KV_OK; i++) {
        kv_slice first = vmap_page_key(page, i);
        if (descent->limit.size > 0 && kv_compare(first, descent->limit) >= 0)
            break;
        if (level - 1 == descent->level) {
            vmap_node node = vmap_page_node(page, i);
            if (kv_compare(first, descent->first) >= 0)
                code = descent->visit(descent->context, first, &node);
            continue;
        }
        code = load_below(descent->walk, level - 1, i, descent->status);
        if (code == KV_OK)
            code = descend(descent, level - 1);
    }
    return code;
}

kv_code walk_pages(struct walk *walk, unsigned level, const kv_range *range, walk_visit visit,
                   void *context, kv_status *status)
{
    kv_slice start = key_of(&walk->start);
    if (walk->node.size == 0 || level > walk->top)
        return KV_OK;
    if (level == walk->top) {
        bool inside = kv_compare(start, range->first) >= 0 &&
                      (range->limit.size == 0 || kv_compare(start, range->limit) < 0);
        return inside ? visit(context, start, &walk->node) : KV_OK;
    }
    struct descent descent = {
        walk, level, range->first, range->limit, visit, context, status
    };
    kv_code code = load_top(walk, status);
    return code == KV_OK ? descend(&descent, walk->top) : code;
}

kv_code walk_find(struct walk *walk, unsigned level, kv_slice first, vmap_node *node,
                  kv_range *range, kv_status *status)
{
    kv_slice at = key_of(&walk->start), limit = kv_bytes(NULL, 0);
    if (walk->node.size == 0 || level > walk->top)
        return KV_NOT_FOUND;
    if (first.size == 0)
        first = at;
    *node = walk->node;
    kv_code code = level < walk->top ? load_top(walk, status) : KV_OK;
    for (unsigned here = walk->top; code == KV_OK && here > level; here--) {
        const vmap_page *page = &walk->pages[here].page;
        size_t index = entry_of(page, first);
        at = vmap_page_key(page, index);
        *node = vmap_page_node(page, index);
        if (index + 1 < page->count)
            limit = vmap_page_key(page, index + 1);
        if (here - 1 > level)
            code = load_below(walk, here - 1, index, status);
    }
    if (code != KV_OK)
        return code;
    *range = (kv_range){ at, limit };
    return kv_compare(at, first) == 0 ? KV_OK : KV_NOT_FOUND;
}

/* ---- Leaves by their pages ---------------------------------------------- */

/* Have the page of level 0 that `key` is in, and where it ends, in leaf_next. */
static kv_code load_leaves(struct walk *walk, kv_slice key, kv_status *status)
{
    kv_slice limit = kv_bytes(NULL, 0);
    kv_code code = load_top(walk, status);
    for (unsigned here = walk->top; code == KV_OK && here > 0; here--) {
        const vmap_page *page = &walk->pages[here].page;
        size_t index = entry_of(page, key);
        if (index + 1 < page->count)
            limit = vmap_page_key(page, index + 1);
        code = load_below(walk, here - 1, index, status);
    }
    /* Only now: `key` may be the one that is there. */
    return code != KV_OK || set_key(&walk->leaf_next, limit) ? code : no_memory(walk, status);
}

/* Whether the page of the leaf cursor is the last that has wanted leaves. */
static bool is_last(const struct walk *walk)
{
    kv_slice next = key_of(&walk->leaf_next), limit = key_of(&walk->leaf_limit);
    return next.size == 0 || (limit.size > 0 && kv_compare(next, limit) >= 0);
}

/* Stand on the first wanted leaf of the page that was loaded. */
static void begin_page(struct walk *walk)
{
    const vmap_page *page = &walk->pages[0].page;
    kv_slice limit = key_of(&walk->leaf_limit);
    bool exact;
    walk->leaf_end =
        is_last(walk) && limit.size > 0 ? vmap_page_find(page, limit, &exact) : page->count;
    walk->leaf_on = walk->leaf_at < walk->leaf_end;
}

/* To the page behind this one; it is not empty. */
static kv_code next_page(struct walk *walk, kv_status *status)
{
    walk->leaf_on = false;
    if (is_last(walk))
        return KV_OK;
    kv_code code = load_leaves(walk, key_of(&walk->leaf_next), status);
    walk->leaf_at = 0;
    if (code == KV_OK)
        begin_page(walk);
    return code;
}

kv_code walk_leaf_seek(struct walk *walk, kv_slice key, kv_slice limit, kv_status *status)
{
    walk->leaf_on = false;
    if (walk->node.size == 0)
        return KV_OK;
    if (!set_key(&walk->leaf_limit, limit))
        return no_memory(walk, status);
    kv_code code = load_leaves(walk, key, status);
    if (code != KV_OK)
        return code;
    bool exact;
    walk->leaf_at = key.size == 0 ? 0 : vmap_page_find(&walk->pages[0].page, key, &exact);
    begin_page(walk);
    return walk->leaf_on ? KV_OK : next_page(walk, status);
}

kv_code walk_leaf_pass(struct walk *walk, size_t count, kv_status *status)
{
    walk->leaf_at += count;
    return walk->leaf_at < walk->leaf_end ? KV_OK : next_page(walk, status);
}

kv_slice walk_leaf_key(const struct walk *walk)
{
    return walk->leaf_on ? vmap_page_key(&walk->pages[0].page, walk->leaf_at)
                         : kv_bytes(NULL, 0);
}

vmap_node walk_leaf_node(const struct walk *walk)
{
    return vmap_page_node(&walk->pages[0].page, walk->leaf_at);
}

/* ---- Leaves with their values ------------------------------------------- */

kv_code walk_seek(struct walk *walk, kv_slice key, kv_status *status)
{
    if (walk->iter == NULL) {
        walk->on = false;
        return KV_OK;
    }
    if (walk->on && key.size > 0 && kv_compare(vmap_iter_key(walk->iter), key) == 0)
        return KV_OK;
    walk->on = key.size == 0 ? vmap_iter_first(walk->iter) : vmap_iter_seek(walk->iter, key);
    return walk->on ? KV_OK : vmap_iter_status(walk->iter, status);
}

kv_code walk_next(struct walk *walk, kv_status *status)
{
    walk->on = walk->on && vmap_iter_next(walk->iter);
    return walk->on ? KV_OK : vmap_iter_status(walk->iter, status);
}

kv_slice walk_key(const struct walk *walk)
{
    return walk->on ? vmap_iter_key(walk->iter) : kv_bytes(NULL, 0);
}

kv_slice walk_value(const struct walk *walk)
{
    return walk->on ? vmap_iter_value(walk->iter) : kv_bytes(NULL, 0);
}

bool walk_below(const struct walk *walk, kv_slice limit)
{
    return walk->on && (limit.size == 0 || kv_compare(vmap_iter_key(walk->iter), limit) < 0);
}
