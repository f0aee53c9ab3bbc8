/* scratch.h - a folder per test, and databases in it. */
#ifndef TEST_KV_SCRATCH_H
#define TEST_KV_SCRATCH_H

#include "kv/kv.h"

enum { SCRATCH_PATH_SIZE = 256 };

/* A new empty folder; removed, with all in it, by scratch_remove. */
void scratch_make(char path[SCRATCH_PATH_SIZE]);
void scratch_remove(const char *path);

/* path/name */
const char *scratch_join(char out[SCRATCH_PATH_SIZE], const char *path, const char *name);

/* Write a file of `text`. */
void scratch_write(const char *path, const char *text);

/* Open driver:dir; the test fails, with the message, when that fails. */
kv_db *scratch_open(const char *driver, const char *dir, unsigned flags);
kv_code scratch_try_open(const char *driver, const char *dir, unsigned flags, kv_db **out,
                         kv_status *status);
kv_space *scratch_space(kv_db *db, const char *name);
void scratch_close(kv_db *db);

/* Put and get short texts; scratch_get answers "-" for an absent key. */
void scratch_put(kv_space *space, const char *key, const char *value);
const char *scratch_get(kv_space *space, const char *key, char out[SCRATCH_PATH_SIZE]);

#endif /* TEST_KV_SCRATCH_H */
