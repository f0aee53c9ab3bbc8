/*
 * spill.c - a new map that is too big for memory.
 *
 * No version has the map yet, so nobody sees its pairs, and they go at once to where they
 * stay: to state.values, under the map's number. A commit makes the pages above them in one
 * walk. Until then the record building/ of that number says that they are a working set's;
 * whoever opens the state and finds it removes them.
 */
#include "vmap/digest.h"
#include "vmap/state_private.h"

#include <string.h>

enum { SPILL_LEAVES = 4096 }; /* pairs that are looked at together */

static const uint8_t building_mark = META_BUILDING_SPILLED;

bool state_map_is_new(const vmap *map)
{
    return map->made && map->top.node.size == 0;
}

/* ---- Pairs -------------------------------------------------------------- */

/* The number is the map's for good from the batch on that has its first pairs. */
static kv_code claim_number(struct state *self, const vmap *map, kv_batch *batch,
                            kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    struct meta_head head = state_head_copy(self);
    head.map_next = self->map_next;
    kv_batch_put(batch, self->store.meta, meta_key_building(key, map->top.map),
                 kv_bytes(&building_mark, sizeof(building_mark)));
    return state_write_meta(self, batch, &head, NULL, status);
}

kv_code state_spill(struct state *self, vmap *map, kv_batch *batch, kv_status *status)
{
    kv_code code = KV_OK;
    if (map->changes.count == 0)
        return KV_OK;
    if (!vtree_changes_sort(&map->changes))
        return state_no_memory(status);
    if (!map->spilled)
        code = claim_number(self, map, batch, status);
    for (size_t i = 0; code == KV_OK && i < map->changes.sorted_count; i++) {
        const struct vtree_change *change = map->changes.sorted[i];
        code = state_write_value(self, batch, map->top.map, change->key,
                                 change->present ? &change->value : NULL, status);
    }
    return code;
}

void state_spill_done(struct state *self, vmap *map)
{
    if (map->changes.count == 0)
        return;
    map->spilled = true;
    pthread_mutex_lock(&self->lock);
    self->head.map_next = self->map_next;
    pthread_mutex_unlock(&self->lock);
}

/* ---- The tree ----------------------------------------------------------- */

/* List the pages that are whole. */
static kv_code list_whole(state_build *build, kv_batch *batch,
                          const struct vtree_entries *pages, size_t whole, kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; code == KV_OK && i < whole; i++)
        code = state_build_page(build, batch, pages->keys[i], &pages->nodes[i], status);
    if (code == KV_OK && kv_batch_count(batch) >= STATE_STEP_RECORDS) {
        code = kv_batch_commit(batch, 0, status);
        kv_batch_clear(batch);
    }
    return code;
}

static kv_code list_pages(state_build *build, struct vtree_reader *reader,
                          const struct vtree_top *top, kv_batch *batch, kv_status *status)
{
    struct vtree_entries pages = { 0 };
    struct vtree_buffer first = { NULL, 0, 0 };
    size_t wanted = SPILL_LEAVES;
    bool end = false;
    kv_code code = KV_OK;
    while (code == KV_OK && !end) {
        code = vtree_reader_cut(reader, top, vtree_buffer_slice(&first), wanted, &pages, &end,
                                status);
        if (code != KV_OK)
            break;
        size_t whole = end ? pages.count : pages.count - 1;
        code = list_whole(build, batch, &pages, whole, status);
        /* A page longer than what was looked at takes a longer look. */
        wanted = whole == 0 ? 2 * wanted : SPILL_LEAVES;
        first.size = 0;
        if (code == KV_OK && !end &&
            !vtree_buffer_add(&first, pages.keys[whole].data, pages.keys[whole].size))
            code = state_no_memory(status);
    }
    vtree_entries_clear(&pages);
    vtree_buffer_clear(&first);
    return code;
}

static kv_code make_tree(struct state *self, vmap *map, kv_batch *batch, kv_status *status)
{
    state_build *build;
    struct vtree_reader reader;
    uint32_t number = map->top.map;
    kv_code code = state_build_open(self, map->top.page_bits, &number, &build, status);
    if (code != KV_OK)
        return code;
    vtree_reader_init(&reader, &self->store, NULL, 0);
    code = list_pages(build, &reader, &map->top, batch, status);
    vtree_reader_clear(&reader);
    struct vtree_top top = map->top;
    if (code == KV_OK)
        code = state_build_top(build, batch, &top, status);
    state_build_close(build);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, status);
    if (code == KV_OK)
        map->top = top;
    return code;
}

kv_code state_spill_end(struct state *self, vmap *map, kv_status *status)
{
    kv_batch *batch;
    if (!state_map_is_new(map) || (!map->spilled && !self->staged))
        return KV_OK;
    kv_code code = kv_batch_new(self->store.db, &batch, status);
    if (code == KV_OK)
        code = state_spill(self, map, batch, status);
    if (code == KV_OK)
        code = kv_batch_commit(batch, 0, status);
    if (code == KV_OK) {
        state_spill_done(self, map);
        vtree_changes_clear(&map->changes);
        kv_batch_clear(batch);
        code = map->spilled ? make_tree(self, map, batch, status) : KV_OK;
    }
    kv_batch_free(batch);
    return code;
}

/* ---- What is not wanted any more ----------------------------------------- */

void state_map_discard(struct state *self, vmap *map)
{
    if (map->spilled && state_build_drop(self, map->top.map, NULL) != KV_OK) {
        /* The next open removes them. */
    }
    state_map_free(map);
}

kv_code state_spill_clear(struct state *self, kv_status *status)
{
    uint8_t limit[META_KEY_SIZE];
    kv_iter *iter;
    kv_range range = kv_range_of_prefix(kv_text("building/"), limit);
    kv_code code = kv_iter_open(self->store.meta, NULL, &range, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); code == KV_OK && on; on = kv_iter_next(iter)) {
        uint32_t map;
        if (kv_iter_value(iter).size == sizeof(building_mark) &&
            meta_key_map(kv_iter_key(iter), range.first.size, &map))
            code = state_build_drop(self, map, status);
        /* Others somebody means to go on with. */
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}
