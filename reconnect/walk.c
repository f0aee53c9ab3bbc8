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
    wire_out_clear(&walk->leaf_limit);
    vmap_iter_close(walk->iter);
    memset(walk, 0, sizeof(*walk));
}

/* The page of `level` that starts at `first`, from the cache if it is there. */
static kv_code load(struct walk *walk, unsigned level, kv_slice first, const vmap_page **out,
                    kv_status *status)
{
    struct walk_page *slot = &walk->pages[level];
    *out = &slot->page;
    if (slot->loaded && kv_compare(key_of(&slot->first), first) == 0)
        return KV_OK;

    slot->loaded = false;
    if (!set_key(&slot->first, first))
        return kv_fail(status, KV_NO_MEMORY, "no memory to walk map %s", walk->map);
    vmap_page_clear(&slot->page);
    kv_code code = state_view_page(walk->view, walk->map, level, key_of(&slot->first),
                                   &slot->page, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_CORRUPT, "map %s: page of level %u is missing", walk->map,
                       level);
    slot->loaded = code == KV_OK;
    return code;
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

/* Visit the pages below the page (level, first), which ends before `limit`. */
static kv_code descend(const struct descent *descent, unsigned level, kv_slice first,
                       kv_slice limit)
{
    const vmap_page *page;
    kv_code code = load(descent->walk, level, first, &page, descent->status);
    if (code != KV_OK)
        return code;

    /* The last entry that starts at or before the range's first key. */
    size_t low = 0, high = page->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (kv_compare(page->entries[middle].first, descent->first) <= 0)
            low = middle;
        else
            high = middle;
    }
    for (size_t i = low; i < page->count && code == KV_OK; i++) {
        const vmap_page_entry *entry = &page->entries[i];
        if (descent->limit.size > 0 && kv_compare(entry->first, descent->limit) >= 0)
            break;
        if (level - 1 == descent->level) {
            if (kv_compare(entry->first, descent->first) >= 0)
                code = descent->visit(descent->context, entry->first, &entry->node);
            continue;
        }
        code = descend(descent, level - 1, entry->first,
                       i + 1 < page->count ? page->entries[i + 1].first : limit);
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
    return descend(&descent, walk->top, start, kv_bytes(NULL, 0));
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
    for (unsigned here = walk->top; here > level; here--) {
        const vmap_page *page;
        kv_code code = load(walk, here, at, &page, status);
        if (code != KV_OK)
            return code;
        size_t low = 0, high = page->count;
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (kv_compare(page->entries[middle].first, first) <= 0)
                low = middle;
            else
                high = middle;
        }
        at = page->entries[low].first;
        *node = page->entries[low].node;
        if (low + 1 < page->count)
            limit = page->entries[low + 1].first;
    }
    *range = (kv_range){ at, limit };
    return kv_compare(at, first) == 0 ? KV_OK : KV_NOT_FOUND;
}

/* ---- Leaves by their pages ---------------------------------------------- */

/* The first entry of `page` whose key is at or after `key`. */
static size_t lower_bound(const vmap_page *page, kv_slice key)
{
    size_t low = 0, high = page->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kv_compare(page->entries[middle].first, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

kv_code walk_leaf_seek(struct walk *walk, kv_slice key, kv_status *status)
{
    vmap_node node;
    kv_range range;
    const vmap_page *page;
    walk->leaf_on = false;
    kv_code code = walk_find(walk, 0, key, &node, &range, status);
    if (walk->node.size == 0)
        return KV_OK;
    if (code == KV_OK || code == KV_NOT_FOUND) {
        if (!set_key(&walk->leaf_limit, range.limit))
            return kv_fail(status, KV_NO_MEMORY, "no memory to walk map %s", walk->map);
        code = load(walk, 0, range.first, &page, status);
    }
    if (code != KV_OK)
        return code;
    walk->leaf_at = lower_bound(page, key);
    walk->leaf_on = true;
    return walk->leaf_at < page->count ? KV_OK : walk_leaf_next(walk, status);
}

kv_code walk_leaf_next(struct walk *walk, kv_status *status)
{
    if (walk->leaf_on && walk->leaf_at + 1 < walk->pages[0].page.count) {
        walk->leaf_at++;
        return KV_OK;
    }
    if (!walk->leaf_on || walk->leaf_limit.size == 0) {
        walk->leaf_on = false;
        return KV_OK;
    }
    /* The next page starts at that key, and is not empty. */
    struct wire_out next = walk->leaf_limit;
    walk->leaf_limit = (struct wire_out){ 0 };
    kv_code code = next.failed ? KV_NO_MEMORY : walk_leaf_seek(walk, key_of(&next), status);
    wire_out_clear(&next);
    return code;
}

kv_slice walk_leaf_key(const struct walk *walk)
{
    return walk->leaf_on ? walk->pages[0].page.entries[walk->leaf_at].first : kv_bytes(NULL, 0);
}

vmap_node walk_leaf_node(const struct walk *walk)
{
    return walk->pages[0].page.entries[walk->leaf_at].node;
}

bool walk_leaf_below(const struct walk *walk, kv_slice limit)
{
    return walk->leaf_on && (limit.size == 0 || kv_compare(walk_leaf_key(walk), limit) < 0);
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
