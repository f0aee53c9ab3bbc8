/*
 * sync.c - the scenarios that the field's own tests have for a reconnect: after
 * each, both states hold the same pairs, every key ever used is looked up on both
 * sides, all digests are recomputed, and a second reconnect moves nothing.
 */
#include "bench/reconnect_data.h"
#include "kv/driver.h"
#include "pair.h"
#include "reconnect/align.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

static const reconnect_traversal traversals[] = { RECONNECT_DIFF, RECONNECT_PULL,
                                                  RECONNECT_LEVEL, RECONNECT_LEVEL_POLL,
                                                  RECONNECT_PUSH };
enum { TRAVERSALS = 5 };

/* Two states, made by `make`, brought together by every traversal; `diff` asks
 * otherwise when it is told the app hash, and does both. */
static void both_ways(const char *driver,
                      void (*make)(struct side *learner, struct side *teacher, const void *row),
                      const void *row)
{
    for (int turn = 0; turn <= TRAVERSALS; turn++) {
        int i = turn % TRAVERSALS;
        struct side learner, teacher;
        kv_status status = KV_STATUS_INIT;
        side_open(&learner, driver, NULL);
        side_open(&teacher, driver, NULL);
        make(&learner, &teacher, row);
        side_commit(&learner);
        side_commit(&teacher);
        side_commit(&teacher); /* it is ahead */
        struct wire wire = WIRE(&learner, &teacher);
        wire.goal.traversal = traversals[i];
        if (turn == TRAVERSALS)
            wire_tell(&wire);
        cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s: %s",
                     reconnect_traversal_name(traversals[i]), status.message);
        cr_assert(wire.switched);
        sides_equal(&learner, &teacher);
        side_nothing_staged(&learner);
        sides_at_rest(&learner, &teacher, traversals[i]);
        side_close(&learner);
        side_close(&teacher);
    }
}

/* Keys [teacher_first, teacher_limit) against [learner_first, learner_limit). */
struct ranges {
    uint64_t teacher_first, teacher_limit, learner_first, learner_limit, salt;
};

static void make_ranges(struct side *learner, struct side *teacher, const void *context)
{
    const struct ranges *row = context;
    side_fill(teacher, "map", row->teacher_first, row->teacher_limit, row->salt);
    side_fill(learner, "map", row->learner_first, row->learner_limit, 0);
}

/* Groups 1 to 14 of the field's tests. */
static const struct ranges small_rows[] = {
    { 0, 0, 0, 0, 0 },          /* both empty */
    { 0, 0, 0, 7, 0 },          /* empty teacher */
    { 0, 7, 0, 0, 0 },          /* empty learner */
    { 0, 1, 0, 0, 0 },          /* one leaf, none */
    { 0, 0, 0, 1, 0 },          /* none, one leaf */
    { 0, 2, 0, 0, 0 },          /* two leaves, none */
    { 0, 0, 0, 2, 0 },          /* none, two leaves */
    { 0, 100, 0, 100, 9 },      /* same keys, all values differ */
    { 0, 100, 0, 100, 0 },      /* identical */
    { 0, 1, 0, 100, 0 },        /* one leaf, many: the same leaf */
    { 0, 1, 0, 100, 9 },        /* the same, another value */
    { 0, 100, 0, 1, 0 },        /* many, one: the same leaf */
    { 0, 100, 0, 1, 9 },        /* the same, another value */
    { 0, 1000, 1000, 2000, 0 }, /* side by side */
    { 0, 1000, 500, 1500, 0 },  /* overlapping */
    { 0, 10, 1000, 2000, 0 },   /* far apart, few */
    { 1000, 2000, 0, 10, 0 },   /* far apart, many */
    { 0, 10, 5, 1005, 0 },      /* */
    { 5, 1005, 0, 10, 0 },      /* */
    { 50, 250, 0, 100, 0 },     /* around a page's end */
    { 50, 249, 0, 100, 0 },     /* */
    { 50, 251, 0, 100, 0 },     /* */
};
enum { SMALL_ROWS = sizeof(small_rows) / sizeof(small_rows[0]) };

Test(sync, small_states)
{
    for (int i = 0; i < SMALL_ROWS; i++) {
        cr_log_info("row %d", i);
        both_ways("memory", make_ranges, &small_rows[i]);
    }
}

Test(sync, every_shape_of_small_trees)
{
    /* n x n: all sizes up to 12 against each other, by the two main traversals. */
    for (uint64_t n = 0; n <= 12; n++) {
        for (uint64_t m = 0; m <= 12; m++) {
            struct side learner, teacher;
            kv_status status = KV_STATUS_INIT;
            side_open(&learner, "memory", "3");
            side_open(&teacher, "memory", "3");
            side_fill(&teacher, "map", 0, 3 * n, 0);
            side_fill(&learner, "map", 2, 2 + 3 * m, m % 2);
            side_commit(&learner);
            side_commit(&teacher);
            side_commit(&teacher);
            struct wire wire = WIRE(&learner, &teacher);
            wire.goal.traversal = (n + m) % 2 == 0 ? RECONNECT_DIFF : RECONNECT_LEVEL;
            if (m % 2 == 0)
                wire_tell(&wire);
            cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
            sides_equal(&learner, &teacher);
            side_close(&learner);
            side_close(&teacher);
        }
    }
}

/* The first question, asked before the offer: about maps that the teacher has otherwise,
 * deeper, shallower, empty, just the same, or not at all. */
static void make_many_maps(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    static const struct {
        const char *name;
        uint64_t learner, teacher, salt;
    } maps[] = { { "changed", 3000, 3000, 1 }, { "deeper", 300, 5000, 0 },
                 { "dropped", 2000, 0, 0 },    { "new", 0, 2000, 0 },
                 { "same", 3000, 3000, 0 },    { "shallower", 5000, 20, 0 },
                 { "tiny", 3, 4, 0 },          { "zzz-changed", 2000, 2500, 2 } };
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (maps[i].learner > 0)
            side_fill(learner, maps[i].name, 0, maps[i].learner, 0);
        if (maps[i].teacher > 0)
            side_fill(teacher, maps[i].name, 0, maps[i].teacher, maps[i].salt);
    }
    /* In the teacher's list other maps stand between. */
    side_fill(teacher, "another", 0, 100, 0);
    side_map(teacher, "empty");
}

Test(sync, many_maps_asked_for_ahead)
{
    both_ways("memory", make_many_maps, NULL);
}

/* ---- Histories ---------------------------------------------------------- */

static void make_shared(struct side *learner, struct side *teacher, uint64_t count)
{
    side_fill(learner, "map", 0, count, 0);
    side_fill(teacher, "map", 0, count, 0);
    side_commit(learner);
    side_commit(teacher);
}

static void make_deleted_again(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 20);
    side_delete(teacher, "map", 3);
    side_commit(teacher);
    side_put(teacher, "map", 1000, 1);
    side_commit(teacher);
    side_delete(teacher, "map", 3);
}

static void make_removed_then_added(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 8);
    side_delete(teacher, "map", 2);
    side_commit(teacher);
    side_put(teacher, "map", 2, 2);
    side_commit(teacher);
    side_put(teacher, "map", 500, 1);
}

static void make_added_then_removed(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 8);
    side_put(teacher, "map", 600, 2);
    side_commit(teacher);
    side_delete(teacher, "map", 600);
    side_delete(teacher, "map", 1);
}

static void make_all_deleted(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 200);
    for (uint64_t key = 0; key < 200; key++)
        side_delete(teacher, "map", key);
    side_put(teacher, "other", 1, 1);
}

static void make_first_deleted(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 2000);
    for (uint64_t key = 0; key < 300; key++)
        side_delete(teacher, "map", key);
}

static void make_last_deleted(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 2000);
    for (uint64_t key = 1700; key < 2000; key++)
        side_delete(teacher, "map", key);
}

static void make_middle_deleted(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    make_shared(learner, teacher, 2900);
    for (uint64_t key = 100; key < 2800; key++)
        side_delete(teacher, "map", key);
}

static void make_maps(struct side *learner, struct side *teacher, const void *row)
{
    (void)row;
    side_fill(learner, "dropped", 0, 300, 0);
    side_fill(learner, "same", 0, 300, 0);
    side_fill(teacher, "same", 0, 300, 0);
    side_fill(learner, "emptied", 0, 300, 0);
    side_map(teacher, "emptied");
    side_map(learner, "filled");
    side_fill(teacher, "filled", 0, 300, 0);
    side_fill(teacher, "new", 0, 300, 0);
    side_map(teacher, "new-and-empty");
}

Test(sync, histories)
{
    both_ways("memory", make_deleted_again, NULL);
    both_ways("memory", make_removed_then_added, NULL);
    both_ways("memory", make_added_then_removed, NULL);
    both_ways("memory", make_all_deleted, NULL);
    both_ways("memory", make_first_deleted, NULL);
    both_ways("memory", make_last_deleted, NULL);
    both_ways("memory", make_middle_deleted, NULL);
    both_ways("memory", make_maps, NULL);
}

/* c % of the leaves changed, the learner's spread over many commits. */
static void make_changed(struct side *learner, struct side *teacher, const void *row)
{
    unsigned percent = *(const unsigned *)row;
    uint64_t seed = percent;
    for (uint64_t key = 0; key < 3000; key++) {
        side_put(learner, "map", key, key);
        if (key % 300 == 299)
            side_commit(learner);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        side_put(teacher, "map", key, (seed >> 33) % 100 < percent ? key + 1 : key);
    }
    /* Versions are compared, so let the teacher be ahead. */
    for (int i = 0; i < 12; i++)
        side_commit(teacher);
}

Test(sync, shares_of_leaves_changed)
{
    const unsigned percents[] = { 1, 10, 60, 90 };
    for (int i = 0; i < 4; i++)
        both_ways("memory", make_changed, &percents[i]);
}

struct mix {
    uint64_t initial, max_key, operations, per_commit;
    unsigned create, update, remove;
    uint64_t seed;
};

static void make_random(struct side *learner, struct side *teacher, const void *context)
{
    const struct mix *mix = context;
    uint64_t seed = mix->seed;
    side_fill(learner, "map", 0, mix->initial, 0);
    side_fill(teacher, "map", 0, mix->initial, 0);
    side_commit(learner);
    side_commit(teacher);
    for (uint64_t i = 0; i < mix->operations; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = (seed >> 33) % mix->max_key;
        unsigned kind = (unsigned)((seed >> 20) % (mix->create + mix->update + mix->remove));
        if (kind < mix->create)
            side_put(teacher, "map", key + mix->max_key / 2, i);
        else if (kind < mix->create + mix->update)
            side_put(teacher, "map", key, i);
        else
            side_delete(teacher, "map", key);
        if (i % mix->per_commit == mix->per_commit - 1)
            side_commit(teacher);
    }
}

Test(sync, random_operations)
{
    const struct mix rows[] = {
        { 100, 200, 100, 10, 1, 1, 1, 1 },     { 1000, 2000, 1000, 100, 1, 1, 1, 2 },
        { 1000, 2000, 1000, 100, 2, 1, 1, 3 }, { 1000, 2000, 1000, 100, 1, 2, 1, 4 },
        { 2000, 2900, 2000, 500, 1, 1, 2, 5 }, { 2000, 2900, 2000, 500, 1, 1, 10, 6 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        both_ways("memory", make_random, &rows[i]);
}

/* ---- Drivers ------------------------------------------------------------ */

struct drivers {
    char learner[16], teacher[16];
};

ParameterizedTestParameters(sync, between_drivers)
{
    static struct drivers rows[] = {
        { "memory", "rocksdb" },
        { "rocksdb", "memory" },
        { "leveldb", "rocksdb" },
        { "rocksdb", "leveldb" },
    };
    return cr_make_param_array(struct drivers, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct drivers *row, sync, between_drivers)
{
    struct side learner, teacher;
    kv_status status = KV_STATUS_INIT;
    const struct mix mix = { 2000, 2900, 1000, 500, 1, 1, 1, 5 };
    if (kv_driver_find(row->learner) == NULL || kv_driver_find(row->teacher) == NULL)
        cr_skip_test("a driver is not built in");
    side_open(&learner, row->learner, NULL);
    side_open(&teacher, row->teacher, NULL);
    make_random(&learner, &teacher, &mix);
    side_commit(&teacher);
    struct wire wire = WIRE(&learner, &teacher);
    wire.chunk = 777;
    cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
    sides_equal(&learner, &teacher);
    if (strcmp(row->learner, "memory") != 0) {
        side_reopen(&learner);
        sides_equal(&learner, &teacher);
    }
    side_close(&learner);
    side_close(&teacher);
}

/* ---- Chance ------------------------------------------------------------- */

enum { CHANCE_LEAVES = 4 };

/* Fingerprints of the learner's leaves that are those of the teacher's by chance. */
struct chance {
    uint64_t salt, marks[CHANCE_LEAVES];
    unsigned questions, honest;
    struct side *teacher;
};

static void mark_leaves(struct chance *chance)
{
    state_view *view;
    vmap_iter *iter;
    kv_status status = KV_STATUS_INIT;
    size_t count = 0;
    cr_assert_eq(state_view_open(chance->teacher->state, 0, &view, &status), KV_OK);
    cr_assert_eq(state_view_iter_open(view, "map", NULL, &iter, &status), KV_OK);
    for (bool on = vmap_iter_first(iter); on; on = vmap_iter_next(iter)) {
        vmap_node leaf = vmap_leaf(vmap_iter_key(iter), vmap_iter_value(iter));
        cr_assert_lt(count, CHANCE_LEAVES);
        chance->marks[count++] = align_of_leaf(chance->salt, &leaf.digest);
    }
    vmap_iter_close(iter);
    state_view_close(view);
}

static void mistake(void *context, struct frame *frame)
{
    struct chance *chance = context;
    struct wire_in in = wire_in_of(kv_bytes(frame->body, frame->size));
    struct wire_want want;
    struct wire_want_page page;
    struct wire_hello hello;
    static struct wire_key key;
    kv_status status = KV_STATUS_INIT;
    if (!frame->to_learner && frame->type == WIRE_HELLO) {
        cr_assert_eq(wire_get_hello(kv_bytes(frame->body, frame->size), &hello, &status),
                     KV_OK);
        memcpy(&chance->salt, hello.nonce, sizeof(chance->salt));
        mark_leaves(chance);
    }
    if (frame->to_learner || frame->type != WIRE_WANT)
        return;
    key.size = 0;
    cr_assert(wire_get_want(&in, &want) && wire_get_want_page(&in, &want, &key, &page));
    chance->questions++;
    chance->honest += want.have_bits == 0;
    if (want.have_bits == 0)
        return;
    cr_assert_eq(page.have_count, CHANCE_LEAVES);
    struct wire_out marks = { 0 };
    wire_put_bits(&marks, chance->marks, CHANCE_LEAVES, want.have_bits);
    memcpy(frame->body + (page.haves.at - frame->body), marks.data, marks.size);
    wire_out_clear(&marks);
}

/* However unlucky the fingerprints, longer ones too, nobody is called a liar for it. */
Test(sync, chance_convicts_nobody)
{
    struct side learner, teacher;
    kv_status status = KV_STATUS_INIT;
    side_open(&learner, "memory", NULL);
    side_open(&teacher, "memory", NULL);
    side_fill(&learner, "map", 0, CHANCE_LEAVES, 0);
    side_fill(&teacher, "map", 0, CHANCE_LEAVES, 0);
    side_commit(&learner);
    side_commit(&teacher);
    side_put(&teacher, "map", 1, 77);
    side_commit(&teacher);
    struct chance chance = { .teacher = &teacher };
    struct wire wire = WIRE(&learner, &teacher);
    wire.filter = mistake;
    wire.context = &chance;
    cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
    cr_expect_eq(chance.questions, 3);
    cr_expect_eq(chance.honest, 1);
    sides_equal(&learner, &teacher);
    side_close(&learner);
    side_close(&teacher);
}
