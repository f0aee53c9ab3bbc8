/* scratch.c - short forms for the tests of this folder. */
#include "test/kv/scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>

const char *scratch_join(char out[TEST_PATH_SIZE], const char *path, const char *name)
{
    cr_assert_lt(snprintf(out, TEST_PATH_SIZE, "%s/%s", path, name), TEST_PATH_SIZE);
    return out;
}

void scratch_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

void scratch_put(kv_space *space, const char *key, const char *value)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_put(space, kv_text(key), kv_text(value), 0, &status), KV_OK, "%s",
                 status.message);
}

const char *scratch_get(kv_space *space, const char *key, char out[TEST_PATH_SIZE])
{
    kv_status status = KV_STATUS_INIT;
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_get(space, NULL, kv_text(key), &value, &status);
    cr_assert(code == KV_OK || code == KV_NOT_FOUND, "%s", status.message);
    snprintf(out, TEST_PATH_SIZE, "%.*s", code == KV_OK ? (int)value.bytes.size : 1,
             code == KV_OK ? (const char *)value.bytes.data : "-");
    kv_value_release(&value);
    return out;
}
