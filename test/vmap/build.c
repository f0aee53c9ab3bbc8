/* build.c - maps made beforehand are what the same pairs put one by one make. */
#include "../state/scratch.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

struct row {
    char driver[16];
    unsigned count, page_bits;
};

static struct row rows[] = {
    { "memory", 1, 5 },    { "memory", 20, 8 },   { "memory", 3000, 3 }, { "memory", 3000, 5 },
    { "leveldb", 900, 3 }, { "rocksdb", 900, 3 }, { "shadow", 60, 3 },
};

TestSuite(build, .timeout = 100);

static void put(state *to, const char *name, unsigned number, unsigned value)
{
    vmap *map;
    char key[32], text[32];
    snprintf(key, sizeof(key), "key %u", number * 2654435761u);
    snprintf(text, sizeof(text), "value %u", value);
    need(state_map_open(to, name, KV_CREATE, &map, NULL));
    need(vmap_put(map, kv_text(key), kv_text(text), NULL));
}

/* Both sides at version 1 with a map; the model goes on to have the map to build. */
static void open_sides(struct scratch *model, struct scratch *side, const struct row *row)
{
    scratch_open(model, row->driver);
    scratch_open(side, row->driver);
    char bits[8];
    snprintf(bits, sizeof(bits), "%u", row->page_bits);
    scratch_set(model, "vmap.page_bits", bits);
    for (unsigned i = 0; i < 2; i++) {
        struct scratch *each = i == 0 ? model : side;
        put(each->state, "other", 1, 1);
        need(state_commit(each->state, 0, NULL, NULL));
    }
    scratch_reopen(model);
    for (unsigned i = 0; i < row->count; i++)
        put(model->state, "map", i, i);
    need(state_commit(model->state, 0, NULL, NULL));
}

static void put_pairs(state_build *build, kv_batch *batch, state_view *from)
{
    vmap_iter *iter;
    need(state_view_iter_open(from, "map", NULL, &iter, NULL));
    for (bool on = vmap_iter_first(iter); on; on = vmap_iter_next(iter))
        need(state_build_put(build, batch, vmap_iter_key(iter), vmap_iter_value(iter), NULL));
    need(vmap_iter_status(iter, NULL));
    vmap_iter_close(iter);
}

/* List the pages of leaves under the page of `level` at `first`, or do as if. */
static void list_pages(state_build *build, kv_batch *batch, state_view *from, unsigned level,
                       kv_slice first, const vmap_node *node)
{
    if (level == 0) {
        need(state_build_page(build, batch, first, node, NULL));
        return;
    }
    vmap_page page;
    need(state_view_page(from, "map", level, first, &page, NULL));
    for (size_t i = 0; i < page.count; i++) {
        vmap_node below = vmap_page_node(&page, i);
        list_pages(build, batch, from, level - 1, vmap_page_key(&page, i), &below);
    }
    vmap_page_clear(&page);
}

static void list_all(state_build *build, kv_batch *batch, state_view *from)
{
    vmap_iter *iter;
    vmap_node node;
    unsigned level, page_bits;
    need(state_view_top(from, "map", &level, &node, &page_bits, NULL));
    need(state_view_iter_open(from, "map", NULL, &iter, NULL));
    cr_assert(vmap_iter_first(iter));
    list_pages(build, batch, from, level, vmap_iter_key(iter), &node);
    vmap_iter_close(iter);
}

static void same_states(const struct scratch *model, const struct scratch *side)
{
    vmap_digest theirs = state_app_hash(model->state), ours = state_app_hash(side->state);
    cr_assert_arr_eq(theirs.bytes, ours.bytes, sizeof(ours.bytes));
    scratch_verify(side);
}

static size_t count_records(const struct scratch *side, const char *name)
{
    kv_space *space;
    kv_iter *iter;
    size_t count = 0;
    need(kv_space_open(side->db, name, 0, &space, NULL));
    need(kv_iter_open(space, NULL, NULL, &iter, NULL));
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        count++;
    kv_iter_close(iter);
    return count;
}

ParameterizedTestParameters(build, is_the_map)
{
    return cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]));
}

/* Begun, left behind by a crash with pages of another goal, gone on with, committed,
 * changed, taken back. */
ParameterizedTest(struct row *row, build, is_the_map)
{
    struct scratch model, side;
    state_view *from;
    state_build *build;
    kv_batch *batch;
    uint32_t number = 0;
    open_sides(&model, &side, row);
    need(state_view_open(model.state, 0, &from, NULL));
    need(state_build_open(side.state, row->page_bits, &number, &build, NULL));
    need(kv_batch_new(side.db, &batch, NULL));
    put_pairs(build, batch, from);
    for (unsigned i = 0; i < 40; i++) {
        char first[8];
        vmap_node node = vmap_leaf(kv_text("a"), kv_text("b"));
        snprintf(first, sizeof(first), "%04u", i);
        need(state_build_page(build, batch, kv_text(first), &node, NULL));
    }
    vmap_digest root;
    need(state_view_root(from, "map", &root, NULL));
    cr_assert_eq(state_build_take(build, batch, "map", &root, NULL), KV_UNPROVEN);
    need(kv_batch_commit(batch, 0, NULL));
    state_build_close(build);
    kv_batch_free(batch);
    scratch_verify(&side); /* what is being built is no damage */
    scratch_reopen(&side);
    scratch_verify(&side);

    need(state_build_open(side.state, row->page_bits, &number, &build, NULL));
    need(kv_batch_new(side.db, &batch, NULL));
    list_all(build, batch, from);
    need(state_build_take(build, batch, "map", &root, NULL));
    need(kv_batch_commit(batch, 0, NULL));
    vmap_digest app_hash = state_app_hash(model.state);
    need(state_commit_as(side.state, 2, &app_hash, KV_SYNC, NULL));
    state_build_close(build);
    same_states(&model, &side);
    cr_assert_eq(state_build_open(side.state, 5, &number, &build, NULL), KV_CONFLICT);
    need(state_build_drop(side.state, number, NULL)); /* it is a version's: nothing happens */
    need(state_settle(side.state, NULL));

    kv_batch_free(batch);
    scratch_reopen(&side);
    same_states(&model, &side);
    for (unsigned i = 0; i < row->count; i += 7) {
        put(model.state, "map", i, 9);
        put(side.state, "map", i, 9);
        put(model.state, "map", row->count + i, i);
        put(side.state, "map", row->count + i, i);
    }
    need(state_commit(model.state, 0, NULL, NULL));
    need(state_commit(side.state, 0, NULL, NULL));
    same_states(&model, &side);

    state_view_close(from);
    need(state_load_version(model.state, 2, NULL));
    need(state_load_version(side.state, 2, NULL));
    same_states(&model, &side);
    need(state_load_version(model.state, 1, NULL));
    need(state_load_version(side.state, 1, NULL));
    same_states(&model, &side);
    need(state_settle(side.state, NULL));
    cr_assert_eq(count_records(&side, "state.values"), 1);
    cr_assert_eq(count_records(&side, "state.pages"), 0);
    scratch_close(&model);
    scratch_close(&side);
}

Test(build, one_that_is_dropped_leaves_nothing)
{
    struct scratch side;
    state_build *build;
    kv_batch *batch;
    uint32_t first = 0, second = 0;
    kv_range half = { kv_text("key 2"), kv_text("key 3") };
    scratch_open(&side, "memory");
    need(state_build_open(side.state, 5, &first, &build, NULL));
    need(kv_batch_new(side.db, &batch, NULL));
    for (unsigned i = 1; i < 6; i++) {
        char key[8];
        snprintf(key, sizeof(key), "key %u", i);
        need(state_build_put(build, batch, kv_text(key), kv_text("value"), NULL));
    }
    need(kv_batch_commit(batch, 0, NULL));
    need(state_build_delete_range(build, batch, &half, NULL));
    need(state_build_delete(build, batch, kv_text("key 5"), NULL));
    need(kv_batch_commit(batch, 0, NULL));
    cr_assert_eq(count_records(&side, "state.values"), 3);

    kv_iter *iter;
    kv_range tail = { kv_text("key 2"), kv_bytes(NULL, 0) };
    need(state_build_iter_open(build, &tail, &iter, NULL));
    cr_assert(kv_iter_first(iter));
    kv_slice key = kv_iter_key(iter);
    cr_assert_eq(key.size, STATE_BUILD_PREFIX + 5);
    cr_assert_arr_eq((const char *)key.data + STATE_BUILD_PREFIX, "key 3", 5);
    kv_iter_close(iter);
    state_build_close(build);

    vmap *map;
    need(state_map_open(side.state, "map", KV_CREATE, &map, NULL));
    need(vmap_put(map, kv_text("k"), kv_text("v"), NULL));
    need(state_commit(side.state, 0, NULL, NULL));
    need(state_build_open(side.state, 5, &second, &build, NULL));
    cr_assert_neq(first, second);
    state_build_close(build);
    need(state_build_drop(side.state, first, NULL));
    cr_assert_eq(state_build_open(side.state, 5, &first, &build, NULL), KV_CONFLICT);
    need(state_settle(side.state, NULL));
    cr_assert_eq(count_records(&side, "state.values"), 1);
    uint32_t never = second + 1000;
    cr_assert_eq(state_build_open(side.state, 5, &never, &build, NULL), KV_CONFLICT);
    kv_batch_free(batch);
    scratch_close(&side);
}

Test(build, pages_come_in_order_and_make_the_root)
{
    struct scratch side;
    state_build *build;
    kv_batch *batch;
    uint32_t number = 0;
    vmap_node node = vmap_leaf(kv_text("a"), kv_text("b"));
    vmap_digest empty = vmap_empty_root();
    scratch_open(&side, "memory");
    need(kv_batch_new(side.db, &batch, NULL));
    cr_assert_eq(state_build_open(side.state, 2, &number, &build, NULL), KV_INVALID);
    need(state_build_open(side.state, 5, &number, &build, NULL));
    cr_assert_eq(state_build_take(build, batch, "map", &empty, NULL), KV_INVALID);
    need(state_build_page(build, batch, kv_text("b"), &node, NULL));
    cr_assert_eq(state_build_page(build, batch, kv_text("b"), &node, NULL), KV_INVALID);
    cr_assert_eq(state_build_page(build, batch, kv_text("a"), &node, NULL), KV_INVALID);
    cr_assert_eq(state_build_put(build, batch, kv_bytes(NULL, 0), kv_text("value"), NULL),
                 KV_INVALID);
    cr_assert_eq(state_build_put(build, batch, kv_text("key"), kv_bytes(NULL, 0), NULL),
                 KV_INVALID);
    state_build_close(build);
    kv_batch_free(batch);
    scratch_close(&side);
}
