/*
 * build.c - a map made beforehand: its pairs are written under its number, where they
 * stay; its pages are made from the list of the lowest ones, from left to right, one
 * open page for each level.
 */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

/* The page of a level that is being gathered. */
struct build_level {
    struct vtree_entries open;
    struct vtree_arena keys;
    unsigned rank; /* of its first key */
};

struct state_build {
    struct state *self;
    struct vtree_top top;
    struct vtree_buffer last; /* the first key of the page that was listed last */
    unsigned height;          /* levels in use */
    struct build_level levels[VMAP_LEVELS_MAX];
};

/* ---- The number --------------------------------------------------------- */

/* Take a number that no other map gets, whatever becomes of this machine. */
static kv_code take_number(struct state *self, uint32_t *number, kv_status *status)
{
    kv_batch *batch;
    if (self->map_next == UINT32_MAX)
        return kv_fail(status, KV_TOO_BIG, "the state has used up its numbers for maps");
    pthread_mutex_lock(&self->lock);
    struct meta_head head = self->head;
    pthread_mutex_unlock(&self->lock);
    head.map_next = self->map_next + 1;
    uint8_t key[META_KEY_SIZE];
    kv_code code = kv_batch_new(self->store.db, &batch, status);
    if (code == KV_OK)
        kv_batch_put(batch, self->store.meta, meta_key_building(key, self->map_next),
                     kv_bytes(NULL, 0));
    if (code == KV_OK)
        code = state_write_meta(self, batch, &head, NULL, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, KV_SYNC, status);
    kv_batch_free(batch);
    if (code != KV_OK)
        return code;
    *number = self->map_next++;
    pthread_mutex_lock(&self->lock);
    self->head.map_next = head.map_next;
    pthread_mutex_unlock(&self->lock);
    return KV_OK;
}

/* KV_NOT_FOUND: `number` was not given to be built, or is a version's by now, or dropped. */
static kv_code find_building(struct state *self, uint32_t number, kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    kv_value record = KV_VALUE_INIT;
    bool dropped = false;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < self->dropped_count; i++)
        dropped = dropped || self->dropped[i].map == number;
    pthread_mutex_unlock(&self->lock);
    if (dropped)
        return KV_NOT_FOUND;
    kv_code code =
        kv_get(self->store.meta, NULL, meta_key_building(key, number), &record, status);
    kv_value_release(&record);
    return code;
}

/* Whoever made its pages before did not end it, and may have meant other ones. */
static kv_code forget_pages(struct state *self, uint32_t number, kv_status *status)
{
    struct record_key first, limit;
    if (!record_key_value(&first, number, kv_bytes(NULL, 0)) ||
        !record_key_value(&limit, number + 1, kv_bytes(NULL, 0)))
        return state_no_memory(status); /* it takes none: they are short */
    kv_range range = { record_slice(&first), record_slice(&limit) };
    return kv_delete_range(self->store.pages, &range, 0, status);
}

kv_code state_build_open(struct state *self, unsigned page_bits, uint32_t *number,
                         state_build **out, kv_status *status)
{
    *out = NULL;
    kv_code code = state_usable(self, status);
    if (code == KV_OK && (page_bits < VMAP_PAGE_BITS_MIN || page_bits > VMAP_PAGE_BITS_MAX))
        code = kv_fail(status, KV_INVALID, "page_bits is %u, not %u to %u", page_bits,
                       VMAP_PAGE_BITS_MIN, VMAP_PAGE_BITS_MAX);
    if (code == KV_OK && *number != 0)
        code = find_building(self, *number, status);
    if (code == KV_NOT_FOUND)
        code = kv_fail(status, KV_CONFLICT, "map number %u is not one that is being built",
                       *number);
    if (code == KV_OK)
        code = *number == 0 ? take_number(self, number, status)
                            : forget_pages(self, *number, status);
    if (code != KV_OK)
        return code;
    state_build *build = calloc(1, sizeof(*build));
    if (build == NULL)
        return state_no_memory(status);
    build->self = self;
    build->top = (struct vtree_top){ .map = *number, .page_bits = page_bits };
    *out = build;
    return KV_OK;
}

static void levels_clear(state_build *build)
{
    for (unsigned level = 0; level <= build->height; level++) {
        vtree_entries_clear(&build->levels[level].open);
        vtree_arena_clear(&build->levels[level].keys);
    }
    build->height = 0;
}

void state_build_close(state_build *build)
{
    if (build == NULL)
        return;
    levels_clear(build);
    vtree_buffer_clear(&build->last);
    free(build);
}

kv_code state_build_drop(struct state *self, uint32_t number, kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    kv_code code = find_building(self, number, status);
    if (code == KV_OK)
        code = kv_put(self->store.meta, meta_key_dropped(key, number), kv_bytes("\0", 1), 0,
                      status);
    if (code != KV_OK)
        return code == KV_NOT_FOUND ? KV_OK : code;
    pthread_mutex_lock(&self->lock);
    bool pushed = state_push_dropped(self, number, 0);
    pthread_mutex_unlock(&self->lock);
    state_upkeep_wake(self);
    return pushed ? KV_OK : state_no_memory(status);
}

/* ---- Pairs -------------------------------------------------------------- */

kv_code state_build_put(state_build *build, kv_batch *batch, kv_slice key, kv_slice value,
                        kv_status *status)
{
    if (key.size == 0 || key.size > VMAP_KEY_SIZE_MAX || value.size == 0)
        return kv_fail(status, KV_INVALID, "a key of %zu and a value of %zu bytes in a map",
                       key.size, value.size);
    return state_write_value(build->self, batch, build->top.map, key, &value, status);
}

kv_code state_build_delete(state_build *build, kv_batch *batch, kv_slice key, kv_status *status)
{
    return state_write_value(build->self, batch, build->top.map, key, NULL, status);
}

/* The records of the pairs in `range`. Clear both keys. */
static kv_code records_of(const state_build *build, const kv_range *range,
                          struct record_key *first, struct record_key *limit, kv_range *records,
                          kv_status *status)
{
    bool last = range->limit.size == 0;
    if (!record_key_value(first, build->top.map, range->first))
        return state_no_memory(status);
    if (!record_key_value(limit, build->top.map + (last ? 1 : 0), range->limit)) {
        record_key_clear(first);
        return state_no_memory(status);
    }
    *records = (kv_range){ record_slice(first), record_slice(limit) };
    return KV_OK;
}

kv_code state_build_delete_range(state_build *build, kv_batch *batch, const kv_range *range,
                                 kv_status *status)
{
    struct record_key first, limit;
    kv_range records;
    kv_code code = records_of(build, range, &first, &limit, &records, status);
    if (code != KV_OK)
        return code;
    kv_batch_delete_range(batch, build->self->store.values, &records);
    record_key_clear(&first);
    record_key_clear(&limit);
    return KV_OK;
}

kv_code state_build_iter_open(state_build *build, const kv_range *range, kv_iter **out,
                              kv_status *status)
{
    struct record_key first, limit;
    kv_range records;
    *out = NULL;
    kv_code code = records_of(build, range, &first, &limit, &records, status);
    if (code != KV_OK)
        return code;
    code = kv_iter_open(build->self->store.values, NULL, &records, out, status);
    record_key_clear(&first);
    record_key_clear(&limit);
    return code;
}

/* ---- Pages -------------------------------------------------------------- */

static kv_code write_page(state_build *build, kv_batch *batch, struct vtree_page *page,
                          kv_status *status)
{
    struct state *self = build->self;
    kv_slice first = vtree_page_key(page, 0);
    vmap_node node = vtree_page_node(page);
    struct record_key key;
    self->scratch.size = 0;
    if (!record_node_add(&self->scratch, &node) ||
        !record_key_page(&key, build->top.map, page->level, first))
        return state_no_memory(status);
    kv_batch_put(batch, self->store.pages, record_slice(&key),
                 vtree_buffer_slice(&self->scratch));
    record_key_clear(&key);
    if (page->level > 1)
        return KV_OK;
    if (!vtree_page_encode(page, &self->scratch) ||
        !record_key_page(&key, build->top.map, RECORD_LEVEL_ENTRIES, first))
        return state_no_memory(status);
    kv_batch_put(batch, self->store.pages, record_slice(&key),
                 vtree_buffer_slice(&self->scratch));
    record_key_clear(&key);
    return KV_OK;
}

static kv_code add_entry(state_build *build, kv_batch *batch, unsigned level, kv_slice first,
                         const vmap_node *node, unsigned rank, kv_status *status);

/* The open page of `level` has all its entries. */
static kv_code close_level(state_build *build, kv_batch *batch, unsigned level,
                           kv_status *status)
{
    struct build_level *here = &build->levels[level];
    uint64_t inner_count = 0;
    struct vtree_page *page = vtree_page_make(level, &here->open, NULL, &inner_count);
    if (page == NULL)
        return state_no_memory(status);
    atomic_fetch_add_explicit(&build->self->store.inner_digests, inner_count,
                              memory_order_relaxed);
    here->open.count = 0;
    vtree_arena_reset(&here->keys);
    build->top.page_counts[level]++;
    kv_code code = write_page(build, batch, page, status);
    vmap_node node = vtree_page_node(page);
    if (code == KV_OK)
        code = add_entry(build, batch, level + 1, vtree_page_key(page, 0), &node, here->rank,
                         status);
    page->map = build->top.map;
    vtree_cache_put(build->self->store.cache, page, false);
    vtree_page_release(page);
    return code;
}

/* Add a page to the open one above it; `rank` is its first key's. */
static kv_code add_entry(state_build *build, kv_batch *batch, unsigned level, kv_slice first,
                         const vmap_node *node, unsigned rank, kv_status *status)
{
    if (level >= VMAP_LEVELS_MAX)
        return kv_fail(status, KV_INTERNAL, "a tree has grown past its highest level");
    struct build_level *here = &build->levels[level];
    if (level > build->height)
        build->height = level;
    if (here->open.count > 0 && rank > level) {
        kv_code code = close_level(build, batch, level, status);
        if (code != KV_OK)
            return code;
    }
    if (here->open.count == 0)
        here->rank = rank;
    kv_slice copy = vtree_arena_copy(&here->keys, first);
    if (copy.data == NULL || !vtree_entries_add(&here->open, copy, node))
        return state_no_memory(status);
    return KV_OK;
}

kv_code state_build_page(state_build *build, kv_batch *batch, kv_slice first,
                         const vmap_node *node, kv_status *status)
{
    struct vtree_top *top = &build->top;
    if (top->page_counts[0] > 0 && kv_compare(vtree_buffer_slice(&build->last), first) >= 0)
        return kv_fail(status, KV_INVALID, "pages of map number %u are not listed in key order",
                       top->map);
    build->last.size = 0;
    if (!vtree_buffer_add(&build->last, first.data, first.size))
        return state_no_memory(status);
    unsigned rank = top->page_counts[0] > 0 ? vmap_rank(first, top->page_bits) : 0;
    top->page_counts[0]++;
    if (node->size > top->longest)
        top->longest = node->size;
    return add_entry(build, batch, 1, first, node, rank, status);
}

/* Close what is open up to the lowest level of one page, which is the top. */
static kv_code find_top(state_build *build, kv_batch *batch, kv_status *status)
{
    struct vtree_top *top = &build->top;
    unsigned level = 0;
    kv_code code = KV_OK;
    while (code == KV_OK && top->page_counts[level] > 1) {
        level++;
        code = close_level(build, batch, level, status);
    }
    if (code != KV_OK)
        return code;
    /* The page above holds that one page, and is not made. */
    if (build->levels[level + 1].open.count == 0)
        return kv_fail(status, KV_INVALID, "map number %u has no pages", top->map);
    top->level = level;
    top->node = build->levels[level + 1].open.nodes[0];
    return KV_OK;
}

kv_code state_build_top(state_build *build, kv_batch *batch, struct vtree_top *top,
                        kv_status *status)
{
    kv_code code = build->top.page_counts[0] > 0 ? find_top(build, batch, status) : KV_OK;
    if (code == KV_OK)
        *top = build->top;
    return code;
}

kv_code state_build_take(state_build *build, kv_batch *batch, const char *name,
                         const vmap_digest *root, kv_status *status)
{
    struct state *self = build->self;
    kv_code code = find_top(build, batch, status);
    if (code == KV_OK &&
        memcmp(root->bytes, build->top.node.digest.bytes, sizeof(root->bytes)) != 0)
        code = kv_fail(status, KV_UNPROVEN, "map %s: its pages do not make its root", name);
    if (code == KV_OK)
        code = state_map_drop(self, name, status);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;
    if (self->map_count >= STATE_MAPS_MAX)
        return kv_fail(status, KV_TOO_BIG, "a state holds at most %u maps", STATE_MAPS_MAX);
    vmap *map = state_map_new(self, name, build->top.map, build->top.page_bits);
    if (map == NULL)
        return state_no_memory(status);
    map->top = build->top;
    return state_map_insert(self, map, status);
}
