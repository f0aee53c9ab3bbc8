/*
 * spill.c - a new map that outgrows memory: its pairs go where they stay before any version
 * has it, the tree is that of a map that fits, and nothing is left of one that was given up.
 */
#include "records.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 20000, KEY_SIZE = 16 };

TestSuite(spill, .timeout = 110);

struct driver_name {
    char driver[16];
};

static struct driver_name drivers[] = { { "memory" }, { "leveldb" }, { "rocksdb" } };

ParameterizedTestParameters(spill, same_tree)
{
    return cr_make_param_array(struct driver_name, drivers, 3);
}

ParameterizedTestParameters(spill, given_up)
{
    return cr_make_param_array(struct driver_name, drivers, 3);
}

/* Numbers spread over the key space, so that they do not come in key order. */
static kv_slice key_of(uint64_t number, uint8_t key[KEY_SIZE])
{
    uint64_t spread = number * 0x9e3779b97f4a7c15u;
    memcpy(key, &spread, sizeof(spread));
    memcpy(key + sizeof(spread), &number, sizeof(number));
    return kv_bytes(key, KEY_SIZE);
}

static vmap *open_map(const struct scratch *scratch, const char *name)
{
    vmap *map;
    need(state_map_open(scratch->state, name, KV_CREATE, &map, NULL));
    return map;
}

static void put(vmap *map, uint64_t number, uint64_t value)
{
    uint8_t key[KEY_SIZE];
    need(vmap_put(map, key_of(number, key), kv_bytes(&value, sizeof(value)), NULL));
}

static void delete (vmap *map, uint64_t number)
{
    uint8_t key[KEY_SIZE];
    need(vmap_delete(map, key_of(number, key), NULL));
}

/* Every pair, some of them twice, and then without every third. */
static void fill(vmap *map)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        put(map, i, i + (i % 7 == 0));
        if (i % 7 == 0)
            put(map, i, i);
    }
    for (uint64_t i = 0; i < KEYS; i += 3)
        delete (map, i);
}

static void expect_working_set(vmap *map)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        uint8_t key[KEY_SIZE];
        kv_value value;
        kv_code code = vmap_get(map, key_of(i, key), &value, NULL);
        cr_assert_eq(code, i % 3 == 0 ? KV_NOT_FOUND : KV_OK, "pair %llu: %s",
                     (unsigned long long)i, kv_code_name(code));
        if (code == KV_OK)
            cr_assert_eq(memcmp(value.bytes.data, &i, sizeof(i)), 0);
        kv_value_release(&value);
    }
    vmap_iter *iter;
    need(vmap_iter_open(map, NULL, &iter, NULL));
    for (bool on = vmap_iter_first(iter); on; on = vmap_iter_next(iter))
        found++;
    need(vmap_iter_status(iter, NULL));
    vmap_iter_close(iter);
    cr_assert_eq(found, KEYS - (KEYS + 2) / 3);
}

static void open_small(struct scratch *scratch, const char *driver)
{
    scratch_open(scratch, driver);
    scratch_set(scratch, "vmap.batch_size", "8192");
    scratch_set(scratch, "vmap.keep_recent", "5");
    scratch_reopen(scratch);
}

/* The app hash of the same pairs, committed from memory. */
static vmap_digest expected_hash(void)
{
    struct scratch scratch;
    scratch_open(&scratch, "memory");
    put(open_map(&scratch, "first"), 1, 1);
    fill(open_map(&scratch, "new"));
    need(state_commit(scratch.state, 0, NULL, NULL));
    vmap_digest hash = state_app_hash(scratch.state);
    scratch_close(&scratch);
    return hash;
}

ParameterizedTest(struct driver_name *driver, spill, same_tree)
{
    struct scratch scratch;
    open_small(&scratch, driver->driver);
    put(open_map(&scratch, "first"), 1, 1);
    need(state_commit(scratch.state, 0, NULL, NULL));
    vmap *map = open_map(&scratch, "new");
    fill(map);
    expect_working_set(map);
    cr_assert_eq(records_count(scratch.db, "state.staged", RECORDS_ALL), 0);
    cr_assert_gt(records_count(scratch.db, "state.values", RECORDS_ALL), KEYS / 2);

    /* A refused commit changes nothing, and what comes after it still counts. */
    vmap_digest expected = expected_hash(), wrong = expected;
    wrong.bytes[0] ^= 1;
    put(map, 0, 17);
    cr_assert_eq(state_commit_as(scratch.state, 2, &expected, 0, NULL), KV_UNPROVEN);
    delete (map, 0);
    cr_assert_eq(state_commit_as(scratch.state, 2, &wrong, 0, NULL), KV_UNPROVEN);
    need(state_commit_as(scratch.state, 2, &expected, 0, NULL));
    expect_working_set(map);
    scratch_verify(&scratch);
    cr_assert_eq(records_figure(scratch.state, "history_records"), 0, "kept of a new map");

    scratch_reopen(&scratch);
    expect_working_set(open_map(&scratch, "new"));
    scratch_verify(&scratch);
    cr_assert(records_history_exact(scratch.db, scratch.state));
    scratch_close(&scratch);
}

/* Rolled back, dropped, left behind by a close: what was spilled goes. */
ParameterizedTest(struct driver_name *driver, spill, given_up)
{
    struct scratch scratch;
    open_small(&scratch, driver->driver);
    put(open_map(&scratch, "first"), 1, 1);
    need(state_commit(scratch.state, 0, NULL, NULL));
    for (int way = 0; way < 3; way++) {
        fill(open_map(&scratch, "new"));
        cr_assert_gt(records_count(scratch.db, "state.values", RECORDS_ALL), KEYS / 2);
        if (way == 0) {
            state_rollback(scratch.state);
        } else if (way == 1) {
            need(state_map_drop(scratch.state, "new", NULL));
            need(state_commit(scratch.state, 0, NULL, NULL));
        } else {
            scratch_reopen(&scratch);
        }
        need(state_settle(scratch.state, NULL));
        cr_assert_eq(records_count(scratch.db, "state.values", RECORDS_ALL), 1, "way %d", way);
        cr_assert_eq(records_count(scratch.db, "state.pages", RECORDS_ALL), 0);
        scratch_verify(&scratch);
    }
    fill(open_map(&scratch, "new"));
    need(state_commit(scratch.state, 0, NULL, NULL));
    vmap_digest hash = state_app_hash(scratch.state), expected = expected_hash();
    cr_assert_arr_eq(hash.bytes, expected.bytes, sizeof(hash.bytes));
    scratch_close(&scratch);
}

/* A new map that would fit, beside one that is staged. */
Test(spill, beside_a_staged_map)
{
    struct scratch scratch;
    open_small(&scratch, "memory");
    put(open_map(&scratch, "first"), 1, 1);
    need(state_commit(scratch.state, 0, NULL, NULL));
    vmap *first = open_map(&scratch, "first");
    for (uint64_t i = 0; i < 1000; i++)
        put(first, i, i);
    cr_assert_gt(records_count(scratch.db, "state.staged", RECORDS_ALL), 0);
    put(open_map(&scratch, "new"), 5, 5);
    need(state_commit(scratch.state, 0, NULL, NULL));
    cr_assert_eq(records_figure(scratch.state, "new.keys"), 1);
    cr_assert_eq(records_figure(scratch.state, "first.keys"), 1000);
    scratch_verify(&scratch);
    scratch_close(&scratch);
}

/* A page that is longer than what is looked at together, and a map left empty. */
Test(spill, long_page_and_empty_map)
{
    struct scratch scratch;
    vmap_digest hashes[2];
    for (int small = 0; small < 2; small++) {
        scratch_open(&scratch, "memory");
        scratch_set(&scratch, "vmap.batch_size", small ? "8192" : "64MiB");
        scratch_reopen(&scratch);
        vmap *map = open_map(&scratch, "long"), *empty = open_map(&scratch, "empty");
        uint64_t number = 0;
        for (uint64_t i = 0; i < 10000; number++) {
            uint8_t key[KEY_SIZE];
            if (vmap_rank(key_of(number, key), 5) > 0)
                continue;
            put(map, number, i++);
        }
        for (uint64_t i = 0; i < 1000; i++)
            put(empty, i, i);
        for (uint64_t i = 0; i < 1000; i++)
            delete (empty, i);
        need(state_commit(scratch.state, 0, NULL, NULL));
        cr_assert_eq(records_figure(scratch.state, "long.page_longest"), 10000);
        cr_assert_eq(records_figure(scratch.state, "empty.keys"), 0);
        scratch_verify(&scratch);
        hashes[small] = state_app_hash(scratch.state);
        scratch_close(&scratch);
    }
    cr_assert_arr_eq(hashes[0].bytes, hashes[1].bytes, sizeof(hashes[0].bytes));
}
