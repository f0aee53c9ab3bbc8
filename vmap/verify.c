/*
 * verify.c - recompute every digest of a version from its pairs.
 *
 * The records of level-1 pages cut a map's keys into runs. Workers read the
 * runs' pairs and fold them, each page against its record; the levels above are
 * folded as the results come in (verify_levels.c). A record too many is found like
 * one that is wrong. The cache has no part in it.
 */
#include "vmap/verify.h"
#include "vmap/digest.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUNS_AT_ONCE = 256,
    GROUP = 32,             /* pairs digested at a time, */
    GROUP_SIZE = 256 * 1024 /* or fewer, when they are long */
};

/* ---- Runs --------------------------------------------------------------- */

/* Fold what was gathered of a level-0 page into an entry of its level-1 page. */
static bool close_leaves(struct vtree_entries *leaves, struct vtree_entries *pages,
                         struct vtree_arena *arena)
{
    if (leaves->count == 0)
        return true;
    kv_slice first = vtree_arena_copy(arena, leaves->keys[0]);
    vmap_node node = vmap_fold(leaves->nodes, leaves->count);
    leaves->count = 0;
    return first.data != NULL && vtree_entries_add(pages, first, &node);
}

/* Pairs read and not digested yet. */
struct pair_group {
    kv_slice keys[GROUP], values[GROUP];
    size_t count;
};

/* A run as it is read. */
struct reading {
    struct verification *check;
    struct verify_run *run;
    struct vtree_arena arena;       /* firsts of pages */
    struct vtree_arena pairs_arena; /* of the group */
    struct pair_group group;
    struct vtree_entries leaves; /* of the page being gathered; only its first key lasts */
    struct vtree_entries pages;
    bool begun;
};

static void reading_clear(struct reading *reading)
{
    vtree_entries_clear(&reading->leaves);
    vtree_entries_clear(&reading->pages);
    vtree_arena_clear(&reading->pairs_arena);
    vtree_arena_clear(&reading->arena);
}

/* Add one leaf; a page ends before it where its rank says so. */
static kv_code add_leaf(struct reading *reading, kv_slice key, unsigned rank,
                        const vmap_node *leaf)
{
    const struct vtree_top *top = &reading->check->map->top;
    kv_status *status = &reading->run->status;
    if (!reading->begun)
        rank = 0;
    reading->begun = true;
    if (rank > 1 || (rank > 0 && top->level == 0))
        return verify_wrong(reading->check->map, 1, key, "a page begins that has no record",
                            status);
    if (rank > 0 && !close_leaves(&reading->leaves, &reading->pages, &reading->arena))
        return state_no_memory(status);
    kv_slice first = reading->leaves.count == 0 ? vtree_arena_copy(&reading->arena, key)
                                                : reading->leaves.keys[0];
    return first.data != NULL && vtree_entries_add(&reading->leaves, first, leaf)
               ? KV_OK
               : state_no_memory(status);
}

static kv_code finish_group(struct reading *reading)
{
    struct pair_group *group = &reading->group;
    vmap_node leaves[GROUP];
    unsigned ranks[GROUP];
    kv_code code = KV_OK;
    vmap_leaves(group->keys, group->values, leaves, group->count);
    vmap_ranks(group->keys, reading->check->map->top.page_bits, ranks, group->count);
    for (size_t i = 0; code == KV_OK && i < group->count; i++)
        code = add_leaf(reading, group->keys[i], ranks[i], &leaves[i]);
    group->count = 0;
    vtree_arena_reset(&reading->pairs_arena);
    return code;
}

static kv_code run_read(struct reading *reading, struct vtree_reader *reader)
{
    struct verify_run *run = reading->run;
    struct pair_group *group = &reading->group;
    struct vtree_cursor *cursor;
    kv_slice limit = vtree_buffer_slice(&run->limit);
    kv_code code = vtree_reader_cursor(reader, reading->check->map->top.map,
                                       RECORD_LEVEL_VALUES, &cursor, &run->status);
    bool on = code == KV_OK && vtree_cursor_seek(cursor, vtree_buffer_slice(&run->first));
    for (; code == KV_OK && on; on = vtree_cursor_next(cursor)) {
        kv_slice key = vtree_cursor_key(cursor);
        if (limit.size > 0 && kv_compare(key, limit) >= 0)
            break;
        group->keys[group->count] = vtree_arena_copy(&reading->pairs_arena, key);
        group->values[group->count] =
            vtree_arena_copy(&reading->pairs_arena, vtree_cursor_value(cursor));
        if (group->keys[group->count].data == NULL || group->values[group->count].data == NULL)
            code = state_no_memory(&run->status);
        else if (++group->count == GROUP || reading->pairs_arena.size > GROUP_SIZE)
            code = finish_group(reading);
    }
    if (code == KV_OK)
        code = vtree_cursor_status(cursor, &run->status);
    if (code == KV_OK)
        code = finish_group(reading);
    if (code == KV_OK && !close_leaves(&reading->leaves, &reading->pages, &reading->arena))
        code = state_no_memory(&run->status);
    return code;
}

/* Of two lists of pages the first that differs, which one of them may lack. */
static kv_code name_page(const struct verification *check, struct verify_run *run,
                         const struct vtree_page *stored, const struct vtree_entries *pages)
{
    for (size_t i = 0; i < pages->count || i < stored->count; i++) {
        vmap_node expected;
        kv_slice key = i < stored->count ? vtree_page_key(stored, i) : pages->keys[i];
        int order = i >= stored->count  ? 1
                    : i >= pages->count ? -1
                                        : kv_compare(key, pages->keys[i]);
        if (i < stored->count)
            expected = vtree_page_entry(stored, i);
        if (order == 0 && verify_same(&expected, &pages->nodes[i]))
            continue;
        return verify_differs(check->map, 0, order > 0 ? pages->keys[i] : key,
                              order > 0 ? NULL : &expected, order < 0 ? NULL : &pages->nodes[i],
                              &run->status);
    }
    return KV_OK;
}

/* Where a level-1 page differs, its entries may still tell which of its pages. */
static kv_code run_locate(struct verification *check, struct verify_run *run,
                          const struct vtree_entries *pages, struct vtree_reader *reader)
{
    kv_slice first = vtree_buffer_slice(&run->first);
    struct vtree_page *stored = NULL;
    kv_code code = KV_NOT_FOUND;
    if (check->map->top.level > 0)
        code = vtree_reader_entries(reader, &check->map->top, first, &run->expected, &stored,
                                    &run->status);
    if (code == KV_OK)
        code = name_page(check, run, stored, pages);
    vtree_page_release(stored);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;
    return verify_differs(check->map, check->map->top.level > 0 ? 1 : 0,
                          first.size > 0 ? first : pages->keys[0], &run->expected, &run->found,
                          &run->status);
}

/* Fold what was read and hold it against the record. */
static kv_code run_compare(struct reading *reading, struct vtree_reader *reader)
{
    struct verify_run *run = reading->run;
    const struct vtree_entries *pages = &reading->pages;
    if (pages->count == 0)
        return verify_differs(reading->check->map, reading->check->map->top.level > 0 ? 1 : 0,
                              vtree_buffer_slice(&run->first), &run->expected, NULL,
                              &run->status);
    vmap_node *nodes = malloc(pages->count * sizeof(*nodes));
    if (nodes == NULL)
        return state_no_memory(&run->status);
    memcpy(nodes, pages->nodes, pages->count * sizeof(*nodes));
    run->found = vmap_fold(nodes, pages->count);
    free(nodes);
    return verify_same(&run->found, &run->expected)
               ? KV_OK
               : run_locate(reading->check, run, pages, reader);
}

static void run_check(void *context, size_t index)
{
    struct verification *check = context;
    struct verify_run *run = &check->runs[index];
    struct reading reading;
    struct vtree_reader *reader;
    run->code = state_view_reader_take(check->view, &reader, &run->status);
    if (run->code != KV_OK)
        return;
    memset(&reading, 0, sizeof(reading));
    reading.check = check;
    reading.run = run;
    run->code = run_read(&reading, reader);
    run->page_count = reading.pages.count;
    if (run->code == KV_OK)
        run->code = run_compare(&reading, reader);
    state_view_reader_give(check->view, reader);
    reading_clear(&reading);
}

/* ---- A map -------------------------------------------------------------- */

static bool buffer_set(struct vtree_buffer *buffer, kv_slice bytes)
{
    buffer->size = 0;
    return vtree_buffer_add(buffer, bytes.data, bytes.size);
}

/* Fill runs from the records of level-1 pages under the cursor; with `begin` the first of
 * them is the map's first. */
static kv_code read_runs(struct verification *check, struct vtree_cursor *cursor, bool begin,
                         bool *on, kv_status *status)
{
    unsigned page_bits = check->map->top.page_bits;
    check->run_count = 0;
    while (*on && check->run_count < RUNS_AT_ONCE) {
        struct verify_run *run = &check->runs[check->run_count++];
        kv_slice record = vtree_cursor_value(cursor), key = vtree_cursor_key(cursor);
        run->status = (kv_status)KV_STATUS_INIT;
        if ((!begin || check->run_count > 1) && vmap_rank(key, page_bits) < 2)
            return verify_wrong(check->map, 1, key, "a record where no page begins", status);
        if (!record_take_node(&record, &run->expected) || record.size != 0)
            return verify_wrong(check->map, 1, key, "a damaged record", status);
        if (!buffer_set(&run->first, key))
            return state_no_memory(status);
        *on = vtree_cursor_next(cursor);
        if (!buffer_set(&run->limit, vtree_cursor_key(cursor)))
            return state_no_memory(status);
    }
    return vtree_cursor_status(cursor, status);
}

/* The first run begins where the map begins: no pair may lie before it. */
static kv_code check_begin(struct verification *check, kv_status *status)
{
    struct vtree_cursor *cursor;
    kv_slice first = vtree_buffer_slice(&check->runs[0].first);
    kv_code code = vtree_reader_cursor(check->reader, check->map->top.map, RECORD_LEVEL_VALUES,
                                       &cursor, status);
    if (code != KV_OK)
        return code;
    if (vtree_cursor_first(cursor)) {
        kv_slice key = vtree_cursor_key(cursor);
        return kv_compare(key, first) >= 0
                   ? KV_OK
                   : verify_wrong(check->map, 1, key, "a pair before the first page", status);
    }
    code = vtree_cursor_status(cursor, status);
    return code != KV_OK
               ? code
               : verify_differs(check->map, 1, first, &check->runs[0].expected, NULL, status);
}

static kv_code check_runs(struct verification *check, kv_status *status)
{
    const struct vtree_top *top = &check->map->top;
    vtree_pool_run(check->view->self->pool, run_check, check, check->run_count);
    for (size_t i = 0; i < check->run_count; i++) {
        struct verify_run *run = &check->runs[i];
        if (run->code != KV_OK)
            return kv_fail(status, run->code, "%s", run->status.message);
        check->page_counts[0] += run->page_count;
        if (top->level == 0)
            continue;
        check->page_counts[1]++;
        if (top->level > 1) {
            kv_code code =
                verify_add(check, 2, vtree_buffer_slice(&run->first), &run->found, status);
            if (code != KV_OK)
                return code;
        }
    }
    return KV_OK;
}

static kv_code verify_map(struct verification *check, uint64_t *done, uint64_t total,
                          void (*progress)(void *, uint64_t, uint64_t), void *context,
                          kv_status *status)
{
    const struct vtree_top *top = &check->map->top;
    struct vtree_reader walker;
    struct vtree_cursor *cursor = NULL;
    state_view_reader_init(check->view, &walker);
    kv_code code = KV_OK;
    bool on = false;
    if (top->level > 0) {
        code = vtree_reader_cursor(&walker, top->map, 1, &cursor, status);
        on = code == KV_OK && vtree_cursor_first(cursor);
    } else {
        check->run_count = 1;
        check->runs[0].expected = top->node;
        check->runs[0].first.size = check->runs[0].limit.size = 0;
        code = check_runs(check, status);
    }
    if (code == KV_OK && cursor != NULL && !on)
        code = vtree_cursor_status(cursor, status);
    for (bool begin = true; code == KV_OK && on; begin = false) {
        code = read_runs(check, cursor, begin, &on, status);
        if (code == KV_OK && begin)
            code = check_begin(check, status);
        if (code == KV_OK)
            code = check_runs(check, status);
        for (size_t i = 0; code == KV_OK && i < check->run_count; i++)
            *done += check->runs[i].found.size;
        if (code == KV_OK && progress != NULL)
            progress(context, *done, total);
    }
    if (code == KV_OK && top->level == 1 && check->page_counts[1] == 1 &&
        !verify_same(&check->runs[0].found, &top->node))
        code = verify_differs(check->map, 1, vtree_buffer_slice(&check->runs[0].first),
                              &top->node, &check->runs[0].found, status);
    vtree_reader_clear(&walker);
    return code;
}

/* An empty map has no pairs at all. */
static kv_code verify_empty(struct verification *check, kv_status *status)
{
    struct vtree_cursor *cursor;
    kv_code code = vtree_reader_cursor(check->reader, check->map->top.map, RECORD_LEVEL_VALUES,
                                       &cursor, status);
    if (code != KV_OK)
        return code;
    if (vtree_cursor_first(cursor))
        return verify_wrong(check->map, 0, vtree_cursor_key(cursor), "a pair in an empty map",
                            status);
    return vtree_cursor_status(cursor, status);
}

kv_code state_view_verify(state_view *view,
                          void (*progress)(void *context, uint64_t done, uint64_t total),
                          void *context, kv_status *status)
{
    uint64_t done = 0, total = 0;
    kv_code code = KV_OK;
    struct verification check;
    for (size_t i = 0; i < view->info->count; i++)
        total += view->info->maps[i].top.node.size;
    vmap_digest app_hash = vmap_app_hash(view->info->roots, view->info->count);
    if (memcmp(app_hash.bytes, view->info->app_hash.bytes, sizeof(app_hash.bytes)) != 0)
        return kv_fail(status, KV_CORRUPT, "version %llu's app hash is not that of its maps",
                       (unsigned long long)view->info->version);
    memset(&check, 0, sizeof(check));
    check.view = view;
    check.runs = calloc(RUNS_AT_ONCE, sizeof(*check.runs));
    if (check.runs == NULL)
        return state_no_memory(status);
    code = state_view_reader_take(view, &check.reader, status);
    for (size_t i = 0; code == KV_OK && i < view->info->count; i++) {
        check.map = &view->info->maps[i];
        verify_levels_reset(&check);
        code = check.map->top.node.size == 0
                   ? verify_empty(&check, status)
                   : verify_map(&check, &done, total, progress, context, status);
        if (code == KV_OK)
            code = verify_end(&check, status);
    }
    if (code == KV_OK)
        code = verify_maps(view, status);
    if (check.reader != NULL)
        state_view_reader_give(view, check.reader);
    for (size_t i = 0; i < RUNS_AT_ONCE; i++) {
        vtree_buffer_clear(&check.runs[i].first);
        vtree_buffer_clear(&check.runs[i].limit);
    }
    verify_levels_clear(&check);
    free(check.runs);
    return code;
}
