/*
 * verify.c - recompute every digest of a version from its pairs.
 *
 * The records of level-1 pages cut a map's keys into runs. Workers read the
 * runs' pairs and fold them, each page against its record; the levels above are
 * folded as the results come in. Pages of each level are counted too, so a
 * record too many is found like one that is wrong. The cache has no part in it.
 */
#include "vmap/digest.h"
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUNS_AT_ONCE = 256,
    GROUP = 32,             /* pairs digested at a time, */
    GROUP_SIZE = 256 * 1024 /* or fewer, when they are long */
};

/* The pairs of one level-1 page, or of a whole map of one page. */
struct run {
    struct vtree_buffer first, limit; /* an empty limit: to the end */
    vmap_node expected, found;
    uint64_t page_count; /* of level 0 */
    kv_code code;
    kv_status status;
};

struct verification {
    state_view *view;
    const struct meta_map *map;
    struct run *runs;
    size_t run_count;
    uint64_t page_counts[VMAP_LEVELS_MAX];
    struct vtree_entries open[VMAP_LEVELS_MAX]; /* pages being gathered, level >= 2 */
    struct vtree_arena arena;
    struct vtree_reader *reader; /* for the records of levels >= 2 */
};

static kv_code differs(const struct meta_map *map, unsigned level, kv_slice first,
                       kv_status *status)
{
    char name[READER_NAME_SIZE];
    vtree_page_name(map->top.map, level, first, name);
    return kv_fail(status, KV_CORRUPT, "map '%s': %s differs from its pairs", map->name, name);
}

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
    struct run *run;
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
        return differs(reading->check->map, top->level, key, status);
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
    struct run *run = reading->run;
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

/* Where a level-1 page differs, its entries may still tell which of its pages. */
static kv_code run_locate(struct verification *check, struct run *run,
                          const struct vtree_entries *pages, struct vtree_reader *reader)
{
    kv_slice first = vtree_buffer_slice(&run->first);
    struct vtree_page *stored = NULL;
    kv_code code =
        vtree_reader_entries(reader, &check->map->top, first, &run->expected, &stored, NULL);
    for (size_t i = 0; code == KV_OK && i < pages->count && i < stored->count; i++) {
        vmap_node node = vtree_page_entry(stored, i);
        if (kv_compare(vtree_page_key(stored, i), pages->keys[i]) == 0 &&
            memcmp(node.digest.bytes, pages->nodes[i].digest.bytes, VMAP_DIGEST_SIZE) == 0)
            continue;
        code = differs(check->map, 0, vtree_page_key(stored, i), &run->status);
    }
    vtree_page_release(stored);
    return code == KV_CORRUPT ? code : differs(check->map, 1, first, &run->status);
}

/* Fold what was read and hold it against the record. */
static kv_code run_compare(struct reading *reading, struct vtree_reader *reader)
{
    struct run *run = reading->run;
    const struct vtree_entries *pages = &reading->pages;
    if (pages->count == 0)
        return differs(reading->check->map, reading->check->map->top.level > 0 ? 1 : 0,
                       vtree_buffer_slice(&run->first), &run->status);
    vmap_node *nodes = malloc(pages->count * sizeof(*nodes));
    if (nodes == NULL)
        return state_no_memory(&run->status);
    memcpy(nodes, pages->nodes, pages->count * sizeof(*nodes));
    run->found = vmap_fold(nodes, pages->count);
    free(nodes);
    bool same =
        memcmp(run->found.digest.bytes, run->expected.digest.bytes, VMAP_DIGEST_SIZE) == 0 &&
        run->found.size == run->expected.size;
    return same ? KV_OK : run_locate(reading->check, run, pages, reader);
}

static void run_check(void *context, size_t index)
{
    struct verification *check = context;
    struct run *run = &check->runs[index];
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

/* ---- Levels above ------------------------------------------------------- */

static kv_code close_branch(struct verification *check, unsigned level, kv_status *status);

/* Add a page of `level` - 1 to the page of `level` that is being gathered. */
static kv_code add_branch(struct verification *check, unsigned level, kv_slice first,
                          const vmap_node *node, kv_status *status)
{
    struct vtree_entries *open = &check->open[level];
    if (open->count > 0 && vmap_rank(first, check->map->top.page_bits) > level) {
        kv_code code = close_branch(check, level, status);
        if (code != KV_OK)
            return code;
    }
    kv_slice copy = vtree_arena_copy(&check->arena, first);
    return copy.data != NULL && vtree_entries_add(open, copy, node) ? KV_OK
                                                                    : state_no_memory(status);
}

/* Fold the gathered page of `level`, hold it against its record, pass it up. */
static kv_code close_branch(struct verification *check, unsigned level, kv_status *status)
{
    struct vtree_entries *open = &check->open[level];
    struct vtree_cursor *cursor;
    kv_slice first = open->keys[0];
    vmap_node node = vmap_fold(open->nodes, open->count), stored;
    open->count = 0;
    check->page_counts[level]++;
    kv_code code =
        vtree_reader_cursor(check->reader, check->map->top.map, level, &cursor, status);
    if (code != KV_OK)
        return code;
    bool on = vtree_cursor_seek(cursor, first);
    code = vtree_cursor_status(cursor, status);
    if (code != KV_OK)
        return code;
    kv_slice record = vtree_cursor_value(cursor);
    if (!on || kv_compare(vtree_cursor_key(cursor), first) != 0 ||
        !record_take_node(&record, &stored) ||
        memcmp(stored.digest.bytes, node.digest.bytes, VMAP_DIGEST_SIZE) != 0)
        return differs(check->map, level, first, status);
    return level < check->map->top.level ? add_branch(check, level + 1, first, &node, status)
                                         : KV_OK;
}

/* ---- A map -------------------------------------------------------------- */

static bool buffer_set(struct vtree_buffer *buffer, kv_slice bytes)
{
    buffer->size = 0;
    return vtree_buffer_add(buffer, bytes.data, bytes.size);
}

/* Fill runs from the records of level-1 pages under the cursor. */
static kv_code read_runs(struct verification *check, struct vtree_cursor *cursor, bool *on,
                         kv_status *status)
{
    check->run_count = 0;
    while (*on && check->run_count < RUNS_AT_ONCE) {
        struct run *run = &check->runs[check->run_count++];
        kv_slice record = vtree_cursor_value(cursor);
        run->status = (kv_status)KV_STATUS_INIT;
        if (!record_take_node(&record, &run->expected))
            return differs(check->map, 1, vtree_cursor_key(cursor), status);
        if (!buffer_set(&run->first, vtree_cursor_key(cursor)))
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
    if (vtree_cursor_first(cursor))
        return kv_compare(vtree_cursor_key(cursor), first) == 0
                   ? KV_OK
                   : differs(check->map, 1, vtree_cursor_key(cursor), status);
    code = vtree_cursor_status(cursor, status);
    return code != KV_OK ? code : differs(check->map, 1, first, status);
}

static kv_code check_runs(struct verification *check, kv_status *status)
{
    const struct vtree_top *top = &check->map->top;
    vtree_pool_run(check->view->self->pool, run_check, check, check->run_count);
    for (size_t i = 0; i < check->run_count; i++) {
        struct run *run = &check->runs[i];
        if (run->code != KV_OK)
            return kv_fail(status, run->code, "%s", run->status.message);
        check->page_counts[0] += run->page_count;
        if (top->level == 0)
            continue;
        check->page_counts[1]++;
        if (top->level > 1) {
            kv_code code =
                add_branch(check, 2, vtree_buffer_slice(&run->first), &run->found, status);
            if (code != KV_OK)
                return code;
        }
    }
    return KV_OK;
}

/* After the last run: close what is open, and compare the counts and the top. */
static kv_code check_end(struct verification *check, kv_status *status)
{
    const struct vtree_top *top = &check->map->top;
    for (unsigned level = 2; level <= top->level; level++) {
        kv_code code =
            check->open[level].count > 0 ? close_branch(check, level, status) : KV_OK;
        if (code != KV_OK)
            return code;
    }
    for (unsigned level = 0; level <= top->level; level++) {
        if (check->page_counts[level] != top->page_counts[level])
            return kv_fail(status, KV_CORRUPT,
                           "map '%s' has %llu pages of level %u, its record says %llu",
                           check->map->name, (unsigned long long)check->page_counts[level],
                           level, (unsigned long long)top->page_counts[level]);
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
        code = read_runs(check, cursor, &on, status);
        if (code == KV_OK && begin)
            code = check_begin(check, status);
        if (code == KV_OK)
            code = check_runs(check, status);
        for (size_t i = 0; code == KV_OK && i < check->run_count; i++)
            *done += check->runs[i].found.size;
        if (code == KV_OK && progress != NULL)
            progress(context, *done, total);
    }
    if (code == KV_OK)
        code = check_end(check, status);
    if (code == KV_OK && top->level == 1 &&
        memcmp(check->runs[0].found.digest.bytes, top->node.digest.bytes, VMAP_DIGEST_SIZE) !=
            0)
        code = differs(check->map, 1, vtree_buffer_slice(&check->runs[0].first), status);
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
        return differs(check->map, 0, vtree_cursor_key(cursor), status);
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
        memset(check.page_counts, 0, sizeof(check.page_counts));
        code = check.map->top.node.size == 0
                   ? verify_empty(&check, status)
                   : verify_map(&check, &done, total, progress, context, status);
        vtree_arena_clear(&check.arena);
    }
    if (check.reader != NULL)
        state_view_reader_give(view, check.reader);
    for (size_t i = 0; i < RUNS_AT_ONCE; i++) {
        vtree_buffer_clear(&check.runs[i].first);
        vtree_buffer_clear(&check.runs[i].limit);
    }
    for (unsigned level = 0; level < VMAP_LEVELS_MAX; level++)
        vtree_entries_clear(&check.open[level]);
    free(check.runs);
    return code;
}
