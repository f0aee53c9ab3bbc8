/*
 * update.c - bring one map's tree from one set of pairs to the next.
 *
 * From the top page down to level 1 the pages that changes touch are listed in
 * one thread: they are few. Level-1 pages are then dealt to the workers in
 * chunks, with everything below them; a chunk ends only where its right
 * neighbour does not join it. Levels above 1 are swept in one thread again.
 */
#include "vmap/update.h"

#include "vmap/sweep.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_EDITS_MIN = 64,
    CHUNK_PAGES_MAX = 64, /* level-1 pages; bounds what a worker holds */
    CHUNKS_PER_THREAD = 8
};

/* The part of an update that one worker does at a time. */
struct vtree_chunk {
    struct vtree_update *update;
    struct sweep_item *items; /* level-1 pages, or the one page of level 0 */
    size_t item_count;
    size_t begin, end; /* its leaves */
    atomic_bool ended;
    struct vtree_arena arena;
    struct sweep_edits out; /* of the level above the items */
    struct sweep_edits low; /* level-1 items: edits of their entries */
    kv_slice *dropped;
    size_t dropped_count, dropped_capacity;
    int64_t pages[2]; /* made less consumed, per level */
    uint64_t longest;
    kv_status status;
    kv_code code;
};

bool vtree_edit_is_idle(const struct vtree_edit *edit)
{
    if (edit->present != edit->existed)
        return false;
    return !edit->present ||
           (edit->node.size == edit->old.size &&
            memcmp(edit->node.digest.bytes, edit->old.digest.bytes, VMAP_DIGEST_SIZE) == 0);
}

static kv_code no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a commit");
}

static bool push_slice(kv_slice **list, size_t *count, size_t *capacity, kv_slice slice)
{
    void *grown = *list;
    if (!vtree_grow(&grown, capacity, *count + 1, sizeof(**list)))
        return false;
    *list = grown;
    (*list)[(*count)++] = slice;
    return true;
}

static void count_digests(struct vtree_store *store, const struct sweep *sweep)
{
    atomic_fetch_add_explicit(&store->rank_digests, sweep->rank_digests, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->inner_digests, sweep->inner_digests,
                              memory_order_relaxed);
}

/* ---- A chunk ------------------------------------------------------------ */

/* Sweep one level of a chunk. */
static kv_code chunk_sweep(struct vtree_chunk *chunk, struct vtree_reader *reader,
                           unsigned level, struct sweep_item *items, size_t item_count,
                           struct vtree_edit *edits, size_t edit_count, struct sweep_edits *out)
{
    struct sweep sweep;
    memset(&sweep, 0, sizeof(sweep));
    sweep.reader = reader;
    sweep.top = &chunk->update->top;
    sweep.arena = &chunk->arena;
    sweep.level = level;
    sweep.want_old_values = chunk->update->want_old_values;
    sweep.exclusive = chunk->update->exclusive;
    kv_code code = sweep_run(&sweep, items, item_count, edits, edit_count, &chunk->status);
    *out = sweep.out;
    chunk->pages[level] += (int64_t)sweep.made_count - (int64_t)sweep.consumed_count;
    if (sweep.longest > chunk->longest)
        chunk->longest = sweep.longest;
    for (size_t i = 0; code == KV_OK && i < sweep.dropped.count; i++) {
        if (!push_slice(&chunk->dropped, &chunk->dropped_count, &chunk->dropped_capacity,
                        sweep.dropped.keys[i]))
            code = no_memory(&chunk->status);
    }
    count_digests(chunk->update->store, &sweep);
    sweep_clear(&sweep);
    return code;
}

/* Give each item its range of `edits`, which stand in the same order. */
static void deal_edits(struct sweep_item *items, size_t item_count,
                       const struct vtree_edit *edits, size_t edit_count)
{
    size_t edit = 0;
    for (size_t i = 0; i < item_count; i++) {
        items[i].begin = edit;
        while (edit < edit_count &&
               (i + 1 == item_count || kv_compare(edits[edit].key, items[i + 1].first) < 0))
            edit++;
        items[i].end = edit;
    }
}

/* Level 0 under a chunk of level-1 pages, then those pages. */
static kv_code chunk_two_levels(struct vtree_chunk *chunk, struct vtree_reader *reader)
{
    struct vtree_update *update = chunk->update;
    struct sweep_items leaves = { NULL, 0, 0 };
    struct sweep_item *own = malloc((chunk->item_count + 1) * sizeof(*own));
    kv_code code = own == NULL ? no_memory(&chunk->status) : KV_OK;
    if (code == KV_OK)
        code = sweep_plan(reader, &update->top, update->leaves, chunk->items, chunk->item_count,
                          0, &leaves, &chunk->status);
    if (code == KV_OK)
        code = chunk_sweep(chunk, reader, 0, leaves.items, leaves.count, update->leaves, 0,
                           &chunk->low);
    if (code == KV_OK && chunk->low.count > 0) {
        memcpy(own, chunk->items, chunk->item_count * sizeof(*own));
        deal_edits(own, chunk->item_count, chunk->low.edits, chunk->low.count);
        code = chunk_sweep(chunk, reader, 1, own, chunk->item_count, chunk->low.edits,
                           chunk->low.count, &chunk->out);
    }
    sweep_items_clear(&leaves);
    free(own);
    return code;
}

/* Tell of the leaves of chunks that have ended, as far as all before them have. */
static void tell_leaves(struct vtree_update *update)
{
    while (update->done_code == KV_OK && update->chunks_done < update->chunk_count) {
        const struct vtree_chunk *chunk = &update->chunks[update->chunks_done];
        if (!atomic_load_explicit(&chunk->ended, memory_order_acquire) || chunk->code != KV_OK)
            return;
        update->done_code = update->leaves_done(update->context, update, chunk->begin,
                                                chunk->end, &update->done_status);
        update->chunks_done++;
    }
}

static void chunk_run(void *context, size_t index)
{
    struct vtree_update *update = context;
    struct vtree_chunk *chunk = &update->chunks[index];
    struct vtree_reader reader;
    uint64_t leaves = 0;
    sweep_leaves(update->leaves + chunk->begin, chunk->end - chunk->begin, &leaves);
    atomic_fetch_add_explicit(&update->store->leaf_digests, leaves, memory_order_relaxed);
    vtree_reader_init(&reader, update->store, NULL, 0);
    chunk->code =
        update->top.level > 0
            ? chunk_two_levels(chunk, &reader)
            : chunk_sweep(chunk, &reader, 0, chunk->items, chunk->item_count, update->leaves,
                          chunk->item_count > 0 ? 0 : update->change_count, &chunk->out);
    vtree_reader_clear(&reader);
    atomic_store_explicit(&chunk->ended, true, memory_order_release);
    if (pthread_equal(pthread_self(), update->caller) != 0)
        tell_leaves(update);
}

static void chunk_clear(struct vtree_chunk *chunk)
{
    vtree_arena_clear(&chunk->arena);
    free(chunk->out.edits);
    free(chunk->low.edits);
    free(chunk->dropped);
}

/* Deal level-1 items, or the only page of level 0, into chunks. */
static kv_code deal_chunks(struct vtree_update *update, const struct sweep_items *items,
                           kv_status *status)
{
    size_t target =
        update->change_count / ((size_t)vtree_pool_threads(update->pool) * CHUNKS_PER_THREAD);
    if (target < CHUNK_EDITS_MIN)
        target = CHUNK_EDITS_MIN;
    update->chunks = calloc(items->count + 1, sizeof(*update->chunks));
    if (update->chunks == NULL)
        return no_memory(status);
    size_t begin = 0, edits = 0;
    for (size_t i = 0; i < items->count; i++) {
        edits += items->items[i].end - items->items[i].begin;
        bool last = i + 1 == items->count;
        /* A joining page's left neighbour stands before it in the list. */
        bool may_end = last || !items->items[i + 1].join;
        if (last || (may_end && (edits >= target || i + 1 - begin >= CHUNK_PAGES_MAX))) {
            struct vtree_chunk *chunk = &update->chunks[update->chunk_count++];
            chunk->update = update;
            chunk->items = items->items + begin;
            chunk->item_count = i + 1 - begin;
            chunk->begin = items->items[begin].begin;
            chunk->end = items->items[i].end;
            begin = i + 1;
            edits = 0;
        }
    }
    if (items->count == 0) {
        update->chunk_count = 1;
        update->chunks[0].update = update;
        update->chunks[0].end = update->change_count;
    }
    return KV_OK;
}

/* ---- The levels above ---------------------------------------------------- */

static kv_code record_edits(struct vtree_update *update, unsigned level,
                            const struct sweep_edits *edits, kv_status *status)
{
    if (level == 0)
        return KV_OK;
    for (size_t i = 0; i < edits->count; i++) {
        void *grown = update->nodes;
        if (!vtree_grow(&grown, &update->node_capacity, update->node_count + 1,
                        sizeof(*update->nodes)))
            return no_memory(status);
        update->nodes = grown;
        update->nodes[update->node_count++] =
            (struct vtree_node_edit){ level, edits->edits[i] };
    }
    return KV_OK;
}

/* Take over what the chunks found; `edits` are about pages of `level`. */
static kv_code gather_chunks(struct vtree_update *update, unsigned level,
                             struct sweep_edits *edits, kv_status *status)
{
    for (size_t i = 0; i < update->chunk_count; i++) {
        struct vtree_chunk *chunk = &update->chunks[i];
        if (chunk->code != KV_OK)
            return kv_fail(status, chunk->code, "%s", chunk->status.message);
        for (unsigned below = 0; below < 2; below++)
            update->top.page_counts[below] += (uint64_t)chunk->pages[below];
        if (chunk->longest > update->top.longest)
            update->top.longest = chunk->longest;
        void *grown = edits->edits;
        if (!vtree_grow(&grown, &edits->capacity, edits->count + chunk->out.count,
                        sizeof(*edits->edits)))
            return no_memory(status);
        edits->edits = grown;
        if (chunk->out.count > 0)
            memcpy(edits->edits + edits->count, chunk->out.edits,
                   chunk->out.count * sizeof(*edits->edits));
        edits->count += chunk->out.count;
        for (size_t j = 0; j < chunk->dropped_count; j++) {
            if (!push_slice(&update->dropped, &update->dropped_count, &update->dropped_capacity,
                            chunk->dropped[j]))
                return no_memory(status);
        }
    }
    return record_edits(update, level, edits, status);
}

/* Replace `edits`, about pages of level - 1, by those about pages of `level`. */
static kv_code sweep_up(struct vtree_update *update, struct vtree_reader *reader,
                        unsigned level, struct sweep_items *items, struct sweep_edits *edits,
                        kv_status *status)
{
    struct sweep sweep;
    memset(&sweep, 0, sizeof(sweep));
    sweep.reader = reader;
    sweep.top = &update->top;
    sweep.arena = &update->arena;
    sweep.level = level;
    sweep.exclusive = update->exclusive;
    size_t item_count = items != NULL ? items->count : 0;
    if (item_count > 0)
        deal_edits(items->items, item_count, edits->edits, edits->count);
    kv_code code = sweep_run(&sweep, item_count > 0 ? items->items : NULL, item_count,
                             edits->edits, edits->count, status);
    update->top.page_counts[level] += sweep.made_count - sweep.consumed_count;
    for (size_t i = 0; code == KV_OK && i < sweep.dropped.count; i++) {
        if (!push_slice(&update->dropped, &update->dropped_count, &update->dropped_capacity,
                        sweep.dropped.keys[i]))
            code = no_memory(status);
    }
    count_digests(update->store, &sweep);
    free(edits->edits);
    *edits = sweep.out;
    sweep_clear(&sweep);
    return code == KV_OK ? record_edits(update, level, edits, status) : code;
}

/* From the edits of the old top level's pages to the list of these pages. */
static kv_code list_roots(const struct vtree_update *update, kv_slice old_first,
                          const struct sweep_edits *edits, struct sweep_edits *roots,
                          kv_status *status)
{
    bool old_stands = update->top.node.size > 0;
    roots->edits = calloc(edits->count + 1, sizeof(*roots->edits));
    roots->capacity = edits->count + 1;
    if (roots->edits == NULL)
        return no_memory(status);
    for (size_t i = 0; i < edits->count; i++)
        old_stands = old_stands && !edits->edits[i].existed;
    for (size_t i = 0; i < edits->count; i++) {
        const struct vtree_edit *edit = &edits->edits[i];
        if (old_stands && kv_compare(old_first, edit->key) < 0) {
            roots->edits[roots->count++] = (struct vtree_edit){ .key = old_first,
                                                                .node = update->top.node,
                                                                .present = true };
            old_stands = false;
        }
        if (edit->present) {
            roots->edits[roots->count] = *edit;
            roots->edits[roots->count++].existed = false;
        }
    }
    if (old_stands)
        roots->edits[roots->count++] =
            (struct vtree_edit){ .key = old_first, .node = update->top.node, .present = true };
    return KV_OK;
}

/* Levels above the new top are one page each, and it may be an old one that no
 * edit touched: its record must go, too. */
static kv_code drop_untouched(struct vtree_update *update, const struct vtree_edit *root,
                              unsigned old_level, kv_status *status)
{
    size_t edits = update->node_count;
    for (unsigned level = update->top.level + 1; level <= old_level; level++) {
        bool touched = false;
        for (size_t i = 0; i < edits && !touched; i++)
            touched = update->nodes[i].level == level &&
                      kv_compare(update->nodes[i].edit.key, root->key) == 0;
        struct vtree_edit edit = { .key = root->key, .old = root->node, .existed = true };
        struct sweep_edits one = { &edit, 1, 1 };
        kv_code code = touched ? KV_OK : record_edits(update, level, &one, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

/* A level-1 page that is above the top is no page: its entries must not be written. */
static void retire_entries(const struct vtree_update *update, const struct vtree_edit *edit)
{
    if (edit->existed)
        vtree_cache_retire(update->store->cache, 1, &edit->old.digest);
    if (edit->present)
        vtree_cache_retire(update->store->cache, 1, &edit->node.digest);
}

/* The lowest level of one page becomes the top; records above it go. */
static kv_code settle_top(struct vtree_update *update, const struct sweep_edits *roots,
                          unsigned level, kv_status *status)
{
    struct vtree_top *top = &update->top;
    unsigned old_level = top->level;
    if (roots->count == 0) {
        memset(&top->node, 0, sizeof(top->node));
        top->level = 0;
    } else {
        top->node = roots->edits[0].node;
        top->level = level;
        for (unsigned lower = 0; lower < level; lower++) {
            if (top->page_counts[lower] == 1) {
                top->level = lower;
                break;
            }
        }
    }
    for (unsigned above = top->level + 1; above < VMAP_LEVELS_MAX; above++)
        top->page_counts[above] = 0;
    if (roots->count > 0) {
        kv_code code = drop_untouched(update, &roots->edits[0], old_level, status);
        if (code != KV_OK)
            return code;
    }
    for (size_t i = 0; i < update->node_count; i++) {
        struct vtree_node_edit *node = &update->nodes[i];
        if (node->level <= top->level)
            continue;
        if (node->level == 1)
            retire_entries(update, &node->edit);
        node->edit.present = false;
        if (node->level == 1 && node->edit.existed &&
            !push_slice(&update->dropped, &update->dropped_count, &update->dropped_capacity,
                        node->edit.key))
            return no_memory(status);
    }
    return KV_OK;
}

/* From the edits of the old top level's pages to the new top. */
static kv_code build_roots(struct vtree_update *update, struct vtree_reader *reader,
                           kv_slice old_first, const struct sweep_edits *edits,
                           kv_status *status)
{
    struct sweep_edits roots = { NULL, 0, 0 };
    unsigned level = update->top.level;
    kv_code code = list_roots(update, old_first, edits, &roots, status);
    while (code == KV_OK && roots.count > 1) {
        level++;
        if (level >= VMAP_LEVELS_MAX)
            code = kv_fail(status, KV_INTERNAL, "a tree has grown past its highest level");
        else
            code = sweep_up(update, reader, level, NULL, &roots, status);
    }
    if (code == KV_OK)
        code = settle_top(update, &roots, level, status);
    free(roots.edits);
    return code;
}

/* Levels 2 and up of the old tree, then new levels until one page is left. */
static kv_code build_up(struct vtree_update *update, struct vtree_reader *reader,
                        struct sweep_items *levels, kv_slice old_first, kv_status *status)
{
    unsigned old_level = update->top.level;
    struct sweep_edits edits = { NULL, 0, 0 };
    kv_code code = gather_chunks(update, old_level > 0 ? 1 : 0, &edits, status);
    for (unsigned level = 2; code == KV_OK && level <= old_level; level++)
        code = sweep_up(update, reader, level, &levels[level], &edits, status);
    if (code == KV_OK && edits.count > 0)
        code = build_roots(update, reader, old_first, &edits, status);
    free(edits.edits);
    return code;
}

/* ---- The whole ---------------------------------------------------------- */

/* List the pages to touch from the top down to level 1, or the only page. */
static kv_code plan_levels(struct vtree_update *update, struct vtree_reader *reader,
                           struct sweep_items *levels, kv_status *status)
{
    const struct vtree_top *top = &update->top;
    struct sweep_items *highest = &levels[top->level];
    if (top->node.size == 0)
        return KV_OK;
    void *grown = NULL;
    if (!vtree_grow(&grown, &highest->capacity, 1, sizeof(*highest->items)))
        return no_memory(status);
    highest->items = grown;
    struct sweep_item *item = &highest->items[0];
    *item = (struct sweep_item){
        .node = top->node, .begin = 0, .end = update->change_count, .leftmost = true
    };
    kv_code code = vtree_reader_page(reader, top, top->level, kv_bytes(NULL, 0), &top->node,
                                     &item->page, status);
    if (code != KV_OK)
        return code;
    highest->count = 1;
    item->first = vtree_page_key(item->page, 0);
    for (unsigned level = top->level; code == KV_OK && level > 1; level--)
        code = sweep_plan(reader, top, update->leaves, levels[level].items, levels[level].count,
                          level - 1, &levels[level - 1], status);
    return code;
}

kv_code vtree_update_run(struct vtree_update *update, kv_status *status)
{
    struct vtree_reader reader;
    struct sweep_items levels[VMAP_LEVELS_MAX];
    unsigned lowest = update->top.level > 0 ? 1 : 0;
    kv_slice old_first = kv_bytes(NULL, 0);
    kv_code code = KV_OK;
    if (update->change_count == 0)
        return KV_OK;
    memset(levels, 0, sizeof(levels));
    vtree_reader_init(&reader, update->store, NULL, 0);
    update->leaves = calloc(update->change_count, sizeof(*update->leaves));
    if (update->leaves == NULL) {
        code = no_memory(status);
        goto out;
    }
    for (size_t i = 0; i < update->change_count; i++) {
        const struct vtree_change *change = update->changes[i];
        update->leaves[i] = (struct vtree_edit){ .key = change->key,
                                                 .present = change->present,
                                                 .change = change,
                                                 .old_value = KV_VALUE_INIT };
    }
    code = plan_levels(update, &reader, levels, status);
    if (code == KV_OK)
        code = deal_chunks(update, &levels[lowest], status);
    if (code != KV_OK)
        goto out;
    if (levels[update->top.level].count > 0)
        old_first = vtree_arena_copy(&update->arena, levels[update->top.level].items[0].first);
    update->caller = pthread_self();
    vtree_pool_run(update->pool, chunk_run, update, update->chunk_count);
    tell_leaves(update);
    if (update->done_code != KV_OK)
        code = kv_fail(status, update->done_code, "%s", update->done_status.message);
    if (code == KV_OK)
        code = build_up(update, &reader, levels, old_first, status);
out:
    for (unsigned level = 0; level < VMAP_LEVELS_MAX; level++)
        sweep_items_clear(&levels[level]);
    vtree_reader_clear(&reader);
    return code;
}

void vtree_update_clear(struct vtree_update *update)
{
    for (size_t i = 0; update->leaves != NULL && i < update->change_count; i++)
        kv_value_release(&update->leaves[i].old_value);
    free(update->leaves);
    free(update->nodes);
    free(update->dropped);
    for (size_t i = 0; i < update->chunk_count; i++)
        chunk_clear(&update->chunks[i]);
    free(update->chunks);
    vtree_arena_clear(&update->arena);
}
