/* core.c - rules of the core over every driver built in: spaces, counting,
 * refusals, ranges in batches. The drivers' own promises are in test/contract. */
#include "kv/driver.h"
#include "test/kv/scratch.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

struct row {
    char driver[16];
};

static struct row rows[16];

/* By name and by value: a parameter's pointers are stale in the test. */
static struct criterion_test_params all_drivers(void)
{
    size_t count = 0;
    const kv_driver *driver;
    while ((driver = kv_driver_at(count)) != NULL)
        snprintf(rows[count++].driver, sizeof(rows[0].driver), "%s", driver->name);
    return cr_make_param_array(struct row, rows, count);
}

static bool is_durable(const char *driver)
{
    return (kv_driver_find(driver)->caps & KV_CAP_DURABLE) != 0;
}

TestSuite(core, .timeout = 60);

ParameterizedTestParameters(core, spaces)
{
    return all_drivers();
}

enum { NAMES_SIZE = 1024 };

static bool join_name(void *context, const char *name)
{
    char *list = context;
    size_t used = strlen(list);
    snprintf(list + used, NAMES_SIZE - used, "%s ", name);
    return true;
}

static void expect_spaces(kv_db *db, const char *expected)
{
    char list[NAMES_SIZE] = "";
    cr_assert_eq(kv_space_list(db, join_name, list, NULL), KV_OK);
    cr_assert_str_eq(list, expected);
}

/* Spaces do not see each other's keys, come back after closing, and a dropped
 * one is empty when made anew. */
ParameterizedTest(struct row *row, core, spaces)
{
    char dir[TEST_PATH_SIZE], got[TEST_PATH_SIZE];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, dir, KV_CREATE);
    kv_space *none;
    expect_spaces(db, "");
    cr_assert_eq(kv_space_open(db, "default", 0, &none, NULL), KV_NOT_FOUND);
    cr_assert_null(none);
    cr_assert_eq(kv_space_open(db, "", KV_CREATE, &none, NULL), KV_INVALID);

    kv_space *a = test_db_space(db, "default"), *b = test_db_space(db, "~b");
    cr_assert_eq(test_db_space(db, "default"), a);
    scratch_put(a, "k", "in a");
    scratch_put(b, "k", "in b");
    scratch_put(b, "l", "in b");
    cr_assert_str_eq(scratch_get(a, "k", got), "in a");
    cr_assert_str_eq(scratch_get(a, "l", got), "-");
    expect_spaces(db, "default ~b ");

    cr_assert_eq(kv_space_drop(a, NULL), KV_OK);
    expect_spaces(db, "~b ");
    a = test_db_space(db, "default");
    cr_assert_str_eq(scratch_get(a, "k", got), "-");
    cr_assert_str_eq(scratch_get(b, "k", got), "in b");
    test_db_close(db);

    if (is_durable(row->driver)) {
        db = test_db_open(row->driver, dir, 0);
        expect_spaces(db, "default ~b ");
        cr_assert_str_eq(scratch_get(test_db_space(db, "~b"), "l", got), "in b");
        test_db_close(db);
    }
    test_folder_remove(dir);
}

ParameterizedTestParameters(core, many_spaces)
{
    return all_drivers();
}

/* Past 127 spaces the emulated prefix takes two bytes. */
ParameterizedTest(struct row *row, core, many_spaces)
{
    char dir[TEST_PATH_SIZE], got[TEST_PATH_SIZE], name[32];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, dir, KV_CREATE);
    /* RocksDB writes the options of all column families down for each new one. */
    const int spaces = (kv_driver_find(row->driver)->caps & KV_CAP_SPACES) != 0 ? 20 : 140;
    for (int i = 0; i < spaces; i++) {
        snprintf(name, sizeof(name), "space %d", i);
        scratch_put(test_db_space(db, name), "\xff", name);
    }
    for (int i = 0; i < spaces; i++) {
        snprintf(name, sizeof(name), "space %d", i);
        kv_space *space = test_db_space(db, name);
        cr_assert_str_eq(scratch_get(space, "\xff", got), name);
        kv_iter *iter;
        cr_assert_eq(kv_iter_open(space, NULL, NULL, &iter, NULL), KV_OK);
        cr_assert(kv_iter_last(iter));
        cr_assert_eq(kv_iter_key(iter).size, 1);
        cr_assert(!kv_iter_next(iter));
        cr_assert_eq(kv_iter_status(iter, NULL), KV_OK);
        kv_iter_close(iter);
    }
    test_db_close(db);
    test_folder_remove(dir);
}

ParameterizedTestParameters(core, live_handles)
{
    return all_drivers();
}

ParameterizedTest(struct row *row, core, live_handles)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, dir, KV_CREATE);
    kv_space *space = test_db_space(db, "s");
    kv_iter *iter;
    kv_snapshot *snapshot;
    kv_batch *batch;
    cr_assert_eq(kv_iter_open(space, NULL, NULL, &iter, NULL), KV_OK);
    cr_assert_eq(kv_snapshot_take(db, &snapshot, NULL), KV_OK);
    cr_assert_eq(kv_batch_new(db, &batch, NULL), KV_OK);

    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_close(db, &status), KV_BUSY);
    cr_assert_not_null(strstr(status.message, "1 iterators, 1 snapshots and 1 batches"), "%s",
                       status.message);
    cr_assert_eq(kv_space_drop(space, NULL), KV_BUSY);
    kv_iter_close(iter);
    cr_assert_eq(kv_close(db, NULL), KV_BUSY);
    kv_snapshot_release(snapshot);
    cr_assert_eq(kv_close(db, NULL), KV_BUSY);

    /* a batch does not outlive a drop */
    kv_batch_put(batch, space, kv_text("k"), kv_text("v"));
    cr_assert_eq(kv_space_drop(space, NULL), KV_OK);
    cr_assert_eq(kv_batch_commit(batch, 0, NULL), KV_BAD_STATE);
    kv_batch_free(batch);
    test_db_close(db);
    test_folder_remove(dir);
}

ParameterizedTestParameters(core, ranges_in_batches)
{
    return all_drivers();
}

/* Deletes of ranges take their place among the other operations. */
ParameterizedTest(struct row *row, core, ranges_in_batches)
{
    char dir[TEST_PATH_SIZE], got[TEST_PATH_SIZE];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, dir, KV_CREATE);
    kv_space *space = test_db_space(db, "s"), *other = test_db_space(db, "t");
    const kv_range range = { kv_text("b"), kv_text("d") }, rest = { kv_text("x"), { NULL, 0 } };
    for (const char *key = "a\0b\0c\0d\0x\0z\0"; *key != '\0'; key += 2) {
        scratch_put(space, key, "old");
        scratch_put(other, key, "old");
    }

    kv_batch *batch;
    cr_assert_eq(kv_batch_new(db, &batch, NULL), KV_OK);
    kv_batch_put(batch, space, kv_text("bb"), kv_text("before"));
    kv_batch_put(batch, other, kv_text("bb"), kv_text("before"));
    kv_batch_put(batch, space, kv_text("d"), kv_text("new"));
    kv_batch_delete_range(batch, space, &range);
    kv_batch_put(batch, space, kv_text("c"), kv_text("after"));
    kv_batch_delete_range(batch, space, &rest);
    cr_assert_eq(kv_batch_count(batch), 6);
    cr_assert_eq(kv_batch_commit(batch, 0, NULL), KV_OK);
    cr_assert_eq(kv_batch_count(batch), 0);
    kv_batch_free(batch);

    cr_assert_str_eq(scratch_get(space, "a", got), "old");
    cr_assert_str_eq(scratch_get(space, "b", got), "-");
    cr_assert_str_eq(scratch_get(space, "bb", got), "-");
    cr_assert_str_eq(scratch_get(space, "c", got), "after");
    cr_assert_str_eq(scratch_get(space, "d", got), "new");
    cr_assert_str_eq(scratch_get(space, "x", got), "-");
    cr_assert_str_eq(scratch_get(space, "z", got), "-");
    cr_assert_str_eq(scratch_get(other, "b", got), "old");
    cr_assert_str_eq(scratch_get(other, "bb", got), "before");
    cr_assert_eq(kv_delete_range(space, NULL, KV_SYNC, NULL), KV_OK);
    cr_assert_str_eq(scratch_get(space, "a", got), "-");
    cr_assert_str_eq(scratch_get(other, "z", got), "old");
    test_db_close(db);
    test_folder_remove(dir);
}

ParameterizedTestParameters(core, refusals)
{
    return all_drivers();
}

ParameterizedTest(struct row *row, core, refusals)
{
    char dir[TEST_PATH_SIZE];
    static const unsigned char long_key[KV_KEY_SIZE_MAX + 1];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, dir, KV_CREATE);
    kv_space *space = test_db_space(db, "s");
    const kv_slice empty = kv_bytes("", 0), big = kv_bytes(long_key, sizeof(long_key));
    kv_value value = KV_VALUE_INIT;
    cr_assert_eq(kv_put(space, empty, empty, 0, NULL), KV_INVALID);
    cr_assert_eq(kv_get(space, NULL, empty, &value, NULL), KV_INVALID);
    cr_assert_eq(kv_delete(space, empty, 0, NULL), KV_INVALID);
    cr_assert_eq(kv_put(space, big, empty, 0, NULL), KV_TOO_BIG);

    /* the longest key is taken, by every way */
    const kv_slice longest = kv_bytes(long_key, KV_KEY_SIZE_MAX);
    cr_assert_eq(kv_put(space, longest, kv_text("v"), 0, NULL), KV_OK);
    cr_assert_eq(kv_get(space, NULL, longest, &value, NULL), KV_OK);
    kv_value_release(&value);
    const kv_range range = { longest, longest };
    cr_assert_eq(kv_delete_range(space, &range, 0, NULL), KV_OK);
    cr_assert_eq(kv_get(space, NULL, longest, &value, NULL), KV_OK);
    kv_value_release(&value);
    cr_assert_eq(kv_delete_range(space, NULL, 0, NULL), KV_OK);
    cr_assert_eq(kv_get(space, NULL, longest, &value, NULL), KV_NOT_FOUND);

    /* a batch keeps its first fault until cleared */
    kv_batch *batch;
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_batch_new(db, &batch, NULL), KV_OK);
    kv_batch_put(batch, space, kv_text("k"), kv_text("v"));
    kv_batch_put(batch, space, empty, empty);
    cr_assert_eq(kv_batch_commit(batch, 0, &status), KV_INVALID);
    cr_assert_eq(kv_batch_commit(batch, 0, NULL), KV_INVALID);
    kv_batch_clear(batch);
    cr_assert_eq(kv_batch_commit(batch, KV_SYNC, NULL), KV_OK);
    kv_batch_free(batch);
    test_db_close(db);
    test_folder_remove(dir);
}

struct figures {
    char names[NAMES_SIZE];
    uint64_t spaces, iterators;
};

static void note_figure(void *context, const kv_stat *stat)
{
    struct figures *figures = context;
    join_name(figures->names, stat->name);
    if (strcmp(stat->name, "spaces") == 0)
        figures->spaces = stat->number;
    if (strcmp(stat->name, "live_iterators") == 0)
        figures->iterators = stat->number;
}

ParameterizedTestParameters(core, stats)
{
    return all_drivers();
}

ParameterizedTest(struct row *row, core, stats)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, dir, KV_CREATE);
    kv_space *space = test_db_space(db, "s");
    scratch_put(space, "k", "v");
    kv_iter *iter;
    cr_assert_eq(kv_iter_open(space, NULL, NULL, &iter, NULL), KV_OK);
    struct figures figures = { .names = "" };
    cr_assert_eq(kv_stats(db, note_figure, &figures, NULL), KV_OK);
    const char *common = "keys_estimate size_disk_bytes size_memory_bytes live_iterators "
                         "live_snapshots live_batches spaces ";
    cr_assert_eq(strncmp(figures.names, common, strlen(common)), 0, "%s", figures.names);
    cr_assert_eq(figures.spaces, 1);
    cr_assert_eq(figures.iterators, 1);
    kv_iter_close(iter);
    test_db_close(db);
    test_folder_remove(dir);
}

ParameterizedTestParameters(core, checkpoint)
{
    return all_drivers();
}

/* A copy taken while in use holds what was there, and opens like the original. */
ParameterizedTest(struct row *row, core, checkpoint)
{
    char dir[TEST_PATH_SIZE], copy[TEST_PATH_SIZE], got[TEST_PATH_SIZE];
    test_folder_make(dir);
    kv_db *db = test_db_open(row->driver, scratch_join(got, dir, "db"), KV_CREATE);
    scratch_put(test_db_space(db, "s"), "k", "v");
    scratch_put(test_db_space(db, "empty"), "k", "v");
    cr_assert_eq(kv_delete(test_db_space(db, "empty"), kv_text("k"), 0, NULL), KV_OK);
    kv_status status = KV_STATUS_INIT;
    scratch_join(copy, dir, "copy");
    if (!is_durable(row->driver)) {
        cr_assert_eq(kv_checkpoint(db, copy, NULL), KV_UNSUPPORTED);
        test_db_close(db);
        test_folder_remove(dir);
        return;
    }
    cr_assert_eq(kv_checkpoint(db, copy, &status), KV_OK, "%s", status.message);
    cr_assert_eq(kv_checkpoint(db, copy, NULL), KV_INVALID);
    scratch_put(test_db_space(db, "s"), "k", "later");

    kv_db *other = test_db_open(row->driver, copy, 0);
    expect_spaces(other, "empty s ");
    cr_assert_str_eq(scratch_get(test_db_space(other, "s"), "k", got), "v");
    test_db_close(other);
    test_db_close(db);
    test_folder_remove(dir);
}
