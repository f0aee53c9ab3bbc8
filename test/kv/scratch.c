/* scratch.c */
#include "test/kv/scratch.h"
#include "kv/folder.h"
#include "test/base.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void scratch_make(char path[SCRATCH_PATH_SIZE])
{
    snprintf(path, SCRATCH_PATH_SIZE, "%s/statekv-kv-XXXXXX", test_base());
    cr_assert_not_null(mkdtemp(path));
}

void scratch_remove(const char *path)
{
    kv_folder_remove(path);
}

const char *scratch_join(char out[SCRATCH_PATH_SIZE], const char *path, const char *name)
{
    cr_assert_lt(snprintf(out, SCRATCH_PATH_SIZE, "%s/%s", path, name), SCRATCH_PATH_SIZE);
    return out;
}

void scratch_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

kv_code scratch_try_open(const char *driver, const char *dir, unsigned flags, kv_db **out,
                         kv_status *status)
{
    kv_options *options;
    *out = NULL;
    kv_code code = kv_options_new(driver, dir, NULL, &options, status);
    if (code != KV_OK)
        return code;
    code = kv_open(options, flags, out, status);
    kv_options_free(options);
    return code;
}

kv_db *scratch_open(const char *driver, const char *dir, unsigned flags)
{
    kv_status status = KV_STATUS_INIT;
    kv_db *db;
    cr_assert_eq(scratch_try_open(driver, dir, flags, &db, &status), KV_OK, "%s: %s", driver,
                 status.message);
    return db;
}

kv_space *scratch_space(kv_db *db, const char *name)
{
    kv_status status = KV_STATUS_INIT;
    kv_space *space;
    cr_assert_eq(kv_space_open(db, name, KV_CREATE, &space, &status), KV_OK, "%s: %s", name,
                 status.message);
    return space;
}

void scratch_close(kv_db *db)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_close(db, &status), KV_OK, "%s", status.message);
}

void scratch_put(kv_space *space, const char *key, const char *value)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_put(space, kv_text(key), kv_text(value), 0, &status), KV_OK, "%s",
                 status.message);
}

const char *scratch_get(kv_space *space, const char *key, char out[SCRATCH_PATH_SIZE])
{
    kv_status status = KV_STATUS_INIT;
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_get(space, NULL, kv_text(key), &value, &status);
    cr_assert(code == KV_OK || code == KV_NOT_FOUND, "%s", status.message);
    snprintf(out, SCRATCH_PATH_SIZE, "%.*s", code == KV_OK ? (int)value.bytes.size : 1,
             code == KV_OK ? (const char *)value.bytes.data : "-");
    kv_value_release(&value);
    return out;
}
