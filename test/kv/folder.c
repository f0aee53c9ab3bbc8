/* folder.c - who may open which folder, and what each refusal says. */
#include "kv/folder.h"
#include "kv/driver.h"
#include "test/kv/scratch.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(folder, .timeout = 60);

/* A durable driver that is built in; another one; NULL where there is none. */
static const char *durable(size_t index)
{
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        if ((driver->caps & KV_CAP_DURABLE) != 0 && index-- == 0)
            return driver->name;
    return NULL;
}

static void expect_refused(const char *driver, const char *dir, unsigned flags, kv_code code,
                           const char *message)
{
    kv_db *db;
    kv_status status = KV_STATUS_INIT;
    kv_code got = test_db_try(driver, dir, flags, &db, &status);
    cr_expect_eq(got, code, "%s: %s", kv_code_name(got), status.message);
    cr_expect_null(db);
    cr_expect_not_null(strstr(status.message, message), "\"%s\" lacks \"%s\"", status.message,
                       message);
    cr_expect_not_null(strstr(status.message, dir), "%s does not name %s", status.message, dir);
}

static int entries(const char *dir)
{
    DIR *stream = opendir(dir);
    cr_assert_not_null(stream);
    int count = 0;
    while (readdir(stream) != NULL)
        count++;
    closedir(stream);
    return count - 2;
}

Test(folder, missing)
{
    char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    const char *driver = durable(0);
    test_folder_make(dir);
    expect_refused(driver, scratch_join(path, dir, "none"), 0, KV_NOT_FOUND, "no such folder");
    expect_refused(driver, dir, 0, KV_NOT_FOUND, "no database in");
    expect_refused(driver, path, KV_OPEN_READ | KV_CREATE, KV_NOT_FOUND, "no such folder");
    cr_assert_eq(entries(dir), 0);

    scratch_write(scratch_join(path, dir, "file"), "x");
    expect_refused(driver, path, KV_CREATE, KV_INVALID, "is not a folder");
    char below[TEST_PATH_SIZE];
    expect_refused(driver, scratch_join(below, path, "db"), KV_CREATE, KV_INVALID,
                   "Not a directory");
    cr_assert_eq(entries(dir), 1);
    test_folder_remove(dir);
}

/* Parents are made; names may hold blanks and any UTF-8. */
Test(folder, made_with_parents)
{
    char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    test_folder_make(dir);
    for (size_t i = 0; durable(i) != NULL; i++) {
        char name[64];
        snprintf(name, sizeof(name), "a b/h\xc3\xa9llo \xe4\xb8\x96/%zu", i);
        scratch_join(path, dir, name);
        kv_db *db = test_db_open(durable(i), path, KV_CREATE);
        scratch_put(test_db_space(db, "s"), "k", "v");
        test_db_close(db);
        db = test_db_open(durable(i), path, 0);
        char got[TEST_PATH_SIZE];
        cr_assert_str_eq(scratch_get(test_db_space(db, "s"), "k", got), "v");
        test_db_close(db);
    }
    test_folder_remove(dir);
}

/* In this process under every spelling, and in another one; a failed attempt
 * does not free the holder's lock. */
Test(folder, in_use)
{
    char dir[TEST_PATH_SIZE], real[TEST_PATH_SIZE], other[TEST_PATH_SIZE];
    test_folder_make(dir);
    scratch_join(real, dir, "db");
    scratch_join(other, dir, "link");
    cr_assert_eq(symlink("db", other), 0);
    for (size_t i = 0; durable(i) != NULL; i++) {
        kv_db *db = test_db_open(durable(i), real, KV_CREATE), *second;
        kv_status status = KV_STATUS_INIT;
        cr_assert_eq(test_db_try(durable(i), real, 0, &second, &status), KV_BUSY);
        cr_assert_not_null(strstr(status.message, "open already"), "%s", status.message);
        cr_assert_eq(test_db_try(durable(i), other, 0, &second, NULL), KV_BUSY);
        char odd[TEST_PATH_SIZE];
        scratch_join(odd, dir, "./db/../db");
        cr_assert_eq(test_db_try(durable(i), odd, KV_CREATE, &second, NULL), KV_BUSY);
        cr_assert_eq(test_db_try(durable(i), odd, KV_OPEN_READ, &second, NULL), KV_BUSY);

        pid_t child = fork();
        if (child == 0)
            _exit(test_db_try(durable(i), real, 0, &second, NULL) == KV_BUSY ? 0 : 1);
        int exit_status;
        cr_assert_eq(waitpid(child, &exit_status, 0), child);
        cr_assert(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
        test_db_close(db);
        test_db_close(test_db_open(durable(i), other, 0));
        test_folder_remove(real);
    }
    test_folder_remove(dir);
}

/* A killed holder leaves no lock. */
Test(folder, killed_holder)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    test_db_close(test_db_open(durable(0), dir, KV_CREATE));
    int ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        kv_db *db;
        char code = (char)test_db_try(durable(0), dir, 0, &db, NULL);
        if (write(ready[1], &code, 1) == 1)
            pause();
        _exit(1);
    }
    char code;
    cr_assert_eq(read(ready[0], &code, 1), 1);
    cr_assert_eq(code, KV_OK);
    expect_refused(durable(0), dir, 0, KV_BUSY, "open already");
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    test_db_close(test_db_open(durable(0), dir, 0));
    test_folder_remove(dir);
}

Test(folder, other_engine)
{
    char dir[TEST_PATH_SIZE], message[128], marker[TEST_PATH_SIZE];
    for (size_t i = 0; durable(i) != NULL; i++) {
        for (size_t j = 0; durable(j) != NULL; j++) {
            if (i == j)
                continue;
            test_folder_make(dir);
            test_db_close(test_db_open(durable(i), dir, KV_CREATE));
            int before = entries(dir);
            snprintf(message, sizeof(message), "holds %s, config says %s", durable(i),
                     durable(j));
            expect_refused(durable(j), dir, KV_CREATE, KV_INVALID, message);
            cr_assert_eq(entries(dir), before);

            /* without our marker it is the engine's own files that tell */
            cr_assert_eq(unlink(scratch_join(marker, dir, KV_FOLDER_MARKER)), 0);
            snprintf(message, sizeof(message), "holds a %s database", durable(i));
            if (kv_driver_find(durable(i))->recognise != NULL)
                expect_refused(durable(j), dir, KV_CREATE, KV_INVALID, message);
            cr_assert_eq(entries(dir), before - 1);
            test_folder_remove(dir);
        }
    }
}

/* Files lost from a finished database are damage, never a fresh start. */
Test(folder, lost_files)
{
    char dir[TEST_PATH_SIZE], current[TEST_PATH_SIZE];
    for (size_t i = 0; durable(i) != NULL; i++) {
        test_folder_make(dir);
        kv_db *db = test_db_open(durable(i), dir, KV_CREATE);
        scratch_put(test_db_space(db, "s"), "k", "v");
        test_db_close(db);
        if (access(scratch_join(current, dir, "CURRENT"), F_OK) == 0) {
            cr_assert_eq(unlink(current), 0);
            expect_refused(durable(i), dir, KV_CREATE, KV_CORRUPT, "");
        }
        test_folder_remove(dir);
    }
}

Test(folder, markers)
{
    char dir[TEST_PATH_SIZE], marker[TEST_PATH_SIZE], text[128];
    test_folder_make(dir);
    scratch_join(marker, dir, KV_FOLDER_MARKER);
    scratch_write(marker, "something else\n");
    expect_refused(durable(0), dir, KV_CREATE, KV_CORRUPT, "is not a statekv marker");
    scratch_write(marker, "statekv database 1\nengine lev\x9a"
                          "ldb\nstate made\n");
    expect_refused(durable(0), dir, KV_CREATE, KV_CORRUPT, "is not a statekv marker");
    scratch_write(marker, "statekv database 1\nengine levelda\nstate made\n");
    expect_refused(durable(0), dir, KV_CREATE, KV_INVALID,
                   KV_FOLDER_MARKER " names the engine levelda, which is not built in");

    /* cut short by a crash before the engine came: taken up again */
    scratch_write(marker, "");
    expect_refused(durable(0), dir, 0, KV_NOT_FOUND, "no database in");
    test_db_close(test_db_open(durable(0), dir, KV_CREATE));
    test_folder_remove(dir);

    test_folder_make(dir);
    scratch_join(marker, dir, KV_FOLDER_MARKER);
    snprintf(text, sizeof(text), "statekv database 1\nengine %s\nstate new \n", durable(0));
    scratch_write(marker, text);
    expect_refused(durable(0), dir, 0, KV_NOT_FOUND, "cut short");
    test_db_close(test_db_open(durable(0), dir, KV_CREATE));
    test_db_close(test_db_open(durable(0), dir, 0));
    test_folder_remove(dir);
}

/* Run as somebody without rights; root would be refused nothing. */
Test(folder, no_permission)
{
    char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    test_folder_make(dir);
    scratch_join(path, dir, "db");
    test_db_close(test_db_open(durable(0), path, KV_CREATE));
    cr_assert_eq(chmod(dir, 0755), 0);
    cr_assert_eq(chmod(path, 0555), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(2);
        kv_db *db;
        kv_status status = KV_STATUS_INIT;
        kv_code code = test_db_try(durable(0), path, 0, &db, &status);
        bool good = code == KV_IO && strstr(status.message, path) != NULL &&
                    strstr(status.message, "Permission denied") != NULL;
        status = (kv_status)KV_STATUS_INIT;
        scratch_join(path, dir, "new/db");
        code = test_db_try(durable(0), path, KV_CREATE, &db, &status);
        good = good && code == KV_IO && strstr(status.message, "Permission denied") != NULL;
        _exit(good ? 0 : 1);
    }
    int exit_status;
    cr_assert_eq(waitpid(child, &exit_status, 0), child);
    cr_assert(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0, "%d", exit_status);
    test_folder_remove(dir);
}
