/* faults.c - what a failed write, a damaged table or a reader's mode must do. */
#include "drivers/drivers.h"
#include "test/kv/scratch.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(faults, .timeout = 60);

/* ---- A driver whose writes fail on demand -------------------------------- */

static kv_code next_fault;
static kv_driver faulty_driver;

static kv_code faulty_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    if (next_fault != KV_OK)
        return kv_fail(status, next_fault, "the disk is tired");
    return memory_driver.batch_commit(batch, flags, status);
}

static kv_db *open_faulty(const char *dir)
{
    faulty_driver = memory_driver;
    faulty_driver.name = "faulty";
    faulty_driver.caps |= KV_CAP_DURABLE;
    faulty_driver.put = NULL;
    faulty_driver.del = NULL;
    faulty_driver.sync = NULL;
    faulty_driver.batch_commit = faulty_commit;
    if (kv_driver_find("faulty") == NULL)
        cr_assert_eq(kv_driver_register(&faulty_driver, NULL), KV_OK);
    next_fault = KV_OK;
    return test_db_open("faulty", dir, KV_CREATE);
}

static void expect_refuses(kv_db *db, kv_space *space)
{
    kv_status status = KV_STATUS_INIT;
    next_fault = KV_OK;
    cr_expect_eq(kv_put(space, kv_text("k"), kv_text("later"), 0, &status), KV_READ_ONLY);
    cr_expect_not_null(strstr(status.message, "the disk is tired"), "%s", status.message);
    cr_expect_eq(kv_delete(space, kv_text("k"), 0, NULL), KV_READ_ONLY);
    cr_expect_eq(kv_delete_range(space, NULL, 0, NULL), KV_READ_ONLY);
    cr_expect_eq(kv_sync(db, NULL), KV_READ_ONLY);
    cr_expect_eq(kv_space_drop(space, NULL), KV_READ_ONLY);
    kv_space *none;
    cr_expect_eq(kv_space_open(db, "new", KV_CREATE, &none, NULL), KV_READ_ONLY);
    char got[TEST_PATH_SIZE];
    cr_expect_str_eq(scratch_get(space, "k", got), "v");
}

Test(faults, names_of_drivers_are_few_plain_letters)
{
    static const char *const bad[] = { "",     "Rocks", "a b",
                                       "\xff", "a/b",   "a-name-longer-than-thirty-two-bytes" };
    kv_driver driver = memory_driver;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kv_status status = KV_STATUS_INIT;
        driver.name = bad[i];
        cr_expect_eq(kv_driver_register(&driver, &status), KV_INVALID, "%s", bad[i]);
        cr_expect_not_null(strstr(status.message, "name"), "%s", status.message);
    }
}

/* After a failed sync or a full disk nothing is written, with that reason,
 * until the database is opened anew. */
Test(faults, writes_stop)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    const kv_code codes[] = { KV_IO, KV_NO_SPACE };
    for (size_t i = 0; i < 2; i++) {
        kv_db *db = open_faulty(dir);
        kv_space *space = test_db_space(db, "s");
        scratch_put(space, "k", "v");
        next_fault = codes[i];
        kv_status status = KV_STATUS_INIT;
        cr_assert_eq(kv_sync(db, &status), codes[i]);
        cr_assert_str_eq(status.message, "the disk is tired");
        expect_refuses(db, space);
        test_db_close(db);

        db = open_faulty(dir);
        scratch_put(test_db_space(db, "s"), "k", "again");
        test_db_close(db);
    }
    test_folder_remove(dir);
}

/* Other refusals leave it writable, and a refused batch is unchanged. */
Test(faults, passing_faults)
{
    char dir[TEST_PATH_SIZE], got[TEST_PATH_SIZE];
    test_folder_make(dir);
    kv_db *db = open_faulty(dir);
    kv_space *space = test_db_space(db, "s");
    kv_batch *batch;
    cr_assert_eq(kv_batch_new(db, &batch, NULL), KV_OK);
    kv_batch_put(batch, space, kv_text("k"), kv_text("v"));
    next_fault = KV_NO_MEMORY;
    cr_assert_eq(kv_batch_commit(batch, KV_SYNC, NULL), KV_NO_MEMORY);
    cr_assert_eq(kv_batch_count(batch), 1);
    next_fault = KV_OK;
    cr_assert_eq(kv_batch_commit(batch, KV_SYNC, NULL), KV_OK);
    cr_assert_str_eq(scratch_get(space, "k", got), "v");
    kv_batch_free(batch);
    test_db_close(db);
    test_folder_remove(dir);
}

/* ---- Damage -------------------------------------------------------------- */

enum { DAMAGE_KEYS = 20000, DAMAGE_SIZE = 128 };

static void fill_and_compact(const char *driver, const char *dir)
{
    kv_db *db = test_db_open(driver, dir, KV_CREATE);
    kv_space *space = test_db_space(db, "s");
    char key[16], value[41];
    for (int i = 0; i < DAMAGE_KEYS; i++) {
        snprintf(key, sizeof(key), "k%06d", i);
        snprintf(value, sizeof(value), "%040d", i * 7919);
        scratch_put(space, key, value);
    }
    cr_assert_eq(kv_compact(space, NULL, NULL), KV_OK);
    test_db_close(db);
}

/* Flip a run of bits in the largest table, at its start or in its middle. */
static void damage_table(const char *dir, bool middle, char largest[TEST_PATH_SIZE])
{
    char path[TEST_PATH_SIZE];
    off_t size = 0;
    DIR *stream = opendir(dir);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');
        struct stat info;
        if (dot == NULL || (strcmp(dot, ".ldb") != 0 && strcmp(dot, ".sst") != 0))
            continue;
        cr_assert_eq(stat(scratch_join(path, dir, entry->d_name), &info), 0);
        if (info.st_size > size) {
            size = info.st_size;
            memcpy(largest, path, TEST_PATH_SIZE);
        }
    }
    closedir(stream);
    cr_assert_gt(size, 100000);

    unsigned char bytes[DAMAGE_SIZE];
    off_t at = middle ? size / 2 : 100;
    int fd = open(largest, O_RDWR);
    cr_assert_eq(pread(fd, bytes, sizeof(bytes), at), DAMAGE_SIZE);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] ^= 0xff;
    cr_assert_eq(pwrite(fd, bytes, sizeof(bytes), at), DAMAGE_SIZE);
    close(fd);
}

/* Every message names the table. */
static void expect_damage_seen(kv_space *space, bool forward, const char *table)
{
    kv_iter *iter;
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_iter_open(space, NULL, NULL, &iter, NULL), KV_OK);
    int seen = 0;
    char expected[16];
    for (bool on = forward ? kv_iter_first(iter) : kv_iter_last(iter); on;
         on = forward ? kv_iter_next(iter) : kv_iter_prev(iter)) {
        snprintf(expected, sizeof(expected), "k%06d", forward ? seen : DAMAGE_KEYS - 1 - seen);
        cr_assert_eq(kv_compare(kv_iter_key(iter), kv_text(expected)), 0,
                     "an entry from behind the hole");
        seen++;
    }
    cr_expect_lt(seen, DAMAGE_KEYS);
    cr_expect_eq(kv_iter_status(iter, &status), KV_CORRUPT, "%d seen, %s", seen,
                 status.message);
    cr_expect_not_null(strstr(status.message, table), "%s", status.message);
    cr_expect(!kv_iter_first(iter), "a failed iterator goes on");
    kv_iter_close(iter);
}

static void expect_gets_say_so(kv_space *space, const char *table)
{
    char key[16];
    int corrupt = 0, absent = 0;
    kv_status status = KV_STATUS_INIT;
    for (int i = 0; i < DAMAGE_KEYS; i++) {
        kv_value value = KV_VALUE_INIT;
        snprintf(key, sizeof(key), "k%06d", i);
        kv_code code = kv_get(space, NULL, kv_text(key), &value, &status);
        corrupt += code == KV_CORRUPT;
        absent += code == KV_NOT_FOUND;
        kv_value_release(&value);
    }
    cr_expect_gt(corrupt, 0);
    cr_expect_eq(absent, 0);
    cr_expect_not_null(strstr(status.message, "key 6b3"), "%s", status.message);
    cr_expect_not_null(strstr(status.message, table), "%s", status.message);
}

/* A damaged block ends a walk with KV_CORRUPT, never as if the data had run
 * out, and a get of a key in it is no absence. */
static void expect_no_silent_damage(const char *driver, bool middle)
{
    char dir[TEST_PATH_SIZE], table[TEST_PATH_SIZE];
    test_folder_make(dir);
    fill_and_compact(driver, dir);
    damage_table(dir, middle, table);
    kv_db *db;
    kv_space *space = NULL;
    kv_status status = KV_STATUS_INIT;
    kv_code code = test_db_try(driver, dir, 0, &db, &status);
    if (code == KV_OK)
        code = kv_space_open(db, "s", 0, &space, &status);
    if (code == KV_OK) {
        expect_damage_seen(space, true, strrchr(table, '/'));
        expect_damage_seen(space, false, strrchr(table, '/'));
        expect_gets_say_so(space, strrchr(table, '/'));
    } else {
        cr_expect_eq(code, KV_CORRUPT, "%s", status.message);
        cr_expect_not_null(strstr(status.message, strrchr(table, '/')), "%s", status.message);
    }
    cr_expect(code == KV_OK || !middle, "%s: only the first block holds what opening needs",
              driver);
    test_db_close(db);
    test_folder_remove(dir);
}

Test(faults, damaged_tables)
{
    for (int middle = 0; middle < 2; middle++) {
        if (kv_driver_find("leveldb") != NULL)
            expect_no_silent_damage("leveldb", middle != 0);
        if (kv_driver_find("rocksdb") != NULL)
            expect_no_silent_damage("rocksdb", middle != 0);
    }
}

/* ---- Reading only -------------------------------------------------------- */

/* As a user without the right to write, twice at once, with the newest writes
 * still in the log. */
static int read_as_nobody(const char *driver, const char *dir)
{
    char got[TEST_PATH_SIZE];
    if (geteuid() == 0 && setuid(65534) != 0)
        return 2;
    kv_db *first = test_db_open(driver, dir, KV_OPEN_READ);
    kv_db *second = test_db_open(driver, dir, KV_OPEN_READ);
    kv_space *space;
    if (kv_space_open(second, "s", 0, &space, NULL) != KV_OK)
        return 3;
    if (strcmp(scratch_get(space, "k", got), "v") != 0)
        return 4;
    if (kv_put(space, kv_text("k"), kv_text("w"), 0, NULL) != KV_READ_ONLY)
        return 5;
    kv_space *none;
    if (kv_space_open(second, "t", KV_CREATE, &none, NULL) != KV_READ_ONLY)
        return 6;
    if (kv_close(first, NULL) != KV_OK || kv_close(second, NULL) != KV_OK)
        return 7;
    return 0;
}

Test(faults, reading_only)
{
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++) {
        if ((driver->caps & KV_CAP_DURABLE) == 0)
            continue;
        char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
        test_folder_make(dir);
        scratch_join(path, dir, "db");
        kv_db *db = test_db_open(driver->name, path, KV_CREATE);
        scratch_put(test_db_space(db, "s"), "k", "v");
        test_db_close(db);
        cr_assert_eq(chmod(dir, 0755), 0);
        cr_assert_eq(chmod(path, 0555), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(read_as_nobody(driver->name, path));
        int exit_status;
        cr_assert_eq(waitpid(child, &exit_status, 0), child);
        cr_expect(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0, "%s: %d",
                  driver->name, exit_status);
        test_folder_remove(dir);
    }
}

/* ---- Repair -------------------------------------------------------------- */

/* LevelDB without its CURRENT is damaged, not empty; repair brings all back. */
Test(faults, repair)
{
    if (kv_driver_find("leveldb") == NULL)
        cr_skip("built without leveldb");
    char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    test_folder_make(dir);
    fill_and_compact("leveldb", dir);
    cr_assert_eq(unlink(scratch_join(path, dir, "CURRENT")), 0);
    kv_db *db;
    cr_assert_eq(test_db_try("leveldb", dir, KV_CREATE, &db, NULL), KV_CORRUPT);

    kv_options *options;
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_options_new("leveldb", dir, NULL, &options, NULL), KV_OK);
    cr_assert_eq(kv_repair(options, &status), KV_OK, "%s", status.message);
    kv_options_free(options);
    db = test_db_open("leveldb", dir, 0);
    kv_iter *iter;
    cr_assert_eq(kv_iter_open(test_db_space(db, "s"), NULL, NULL, &iter, NULL), KV_OK);
    int seen = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        seen++;
    cr_assert_eq(kv_iter_status(iter, NULL), KV_OK);
    cr_assert_eq(seen, DAMAGE_KEYS);
    kv_iter_close(iter);
    test_db_close(db);

    cr_assert_eq(kv_options_new("memory", "", NULL, &options, NULL), KV_OK);
    cr_assert_eq(kv_repair(options, NULL), KV_UNSUPPORTED);
    kv_options_free(options);
    test_folder_remove(dir);
}
