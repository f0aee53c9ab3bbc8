/* scratch.h - short forms for the tests of this folder. */
#ifndef TEST_KV_SCRATCH_H
#define TEST_KV_SCRATCH_H

#include "test/store.h"

/* path/name */
const char *scratch_join(char out[TEST_PATH_SIZE], const char *path, const char *name);

/* Write a file of `text`. */
void scratch_write(const char *path, const char *text);

/* Put and get short texts; scratch_get answers "-" for an absent key. */
void scratch_put(kv_space *space, const char *key, const char *value);
const char *scratch_get(kv_space *space, const char *key, char out[TEST_PATH_SIZE]);

#endif /* TEST_KV_SCRATCH_H */
