/*
 * store.h - folders and databases that last as long as a test.
 *
 * What fails here ends the process with a message, so that a Criterion test and a plain
 * program can both use it; only the calls with `try` in their name answer.
 */
#ifndef TEST_STORE_H
#define TEST_STORE_H

#include "kv/driver.h"

enum { TEST_PATH_SIZE = 256 };

/* A new empty folder where tests put theirs (base.h), and its removal with all in it. */
void test_folder_make(char path[TEST_PATH_SIZE]);
void test_folder_remove(const char *path);

kv_code test_db_try(const char *driver, const char *dir, unsigned flags, kv_db **out,
                    kv_status *status);
kv_db *test_db_open(const char *driver, const char *dir, unsigned flags);
kv_space *test_db_space(kv_db *db, const char *name); /* made where it is missing */
void test_db_close(kv_db *db);

/* A database in a folder of its own, with the space "default". */
struct store {
    char driver[16];
    char root[TEST_PATH_SIZE]; /* the test's folder, */
    char dir[TEST_PATH_SIZE];  /* and the database in it */
    kv_db *db;
    kv_space *space;
};

void store_new(struct store *store, const char *driver);
void store_open(struct store *store);                      /* `driver` in `dir` */
kv_code store_try(struct store *store, kv_status *status); /* KV_BUSY, when in use */
void store_close(struct store *store);                     /* keeps the folder */
void store_reopen(struct store *store);                    /* close and open */
void store_abandon(struct store *store);                   /* close, whatever comes of it */
void store_free(struct store *store);                      /* close and remove */

#endif /* TEST_STORE_H */
