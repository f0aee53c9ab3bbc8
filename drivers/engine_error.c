/* engine_error.c - the tables; see util/status.cc of either engine. */
#include "drivers/engine_error.h"

#include <string.h>

const struct engine_error leveldb_errors[] = {
    { "IO error: ", "No space left on device", KV_NO_SPACE },
    { "IO error: ", "Disk quota exceeded", KV_NO_SPACE },
    { "IO error: ", "File too large", KV_NO_SPACE },
    { "IO error: lock ", NULL, KV_BUSY },
    { "IO error: ", "Cannot allocate memory", KV_NO_MEMORY },
    { "IO error: ", NULL, KV_IO },
    /* a table named by the manifest is gone, or CURRENT names no file */
    { "NotFound: ", NULL, KV_CORRUPT },
    { "Corruption: ", NULL, KV_CORRUPT },
    { "Invalid argument: ", "does not exist (create_if_missing is false)", KV_CORRUPT },
    { "Invalid argument: ", NULL, KV_INVALID },
    { "Not implemented: ", NULL, KV_UNSUPPORTED },
    { "", NULL, KV_INTERNAL },
};

const struct engine_error rocksdb_errors[] = {
    { "IO error: ", "No space left on device", KV_NO_SPACE },
    { "IO error: ", "Disk quota exceeded", KV_NO_SPACE },
    { "IO error: ", "File too large", KV_NO_SPACE },
    { "IO error: ", "lock hold by current process", KV_BUSY },
    { "IO error: While lock file", NULL, KV_BUSY },
    { "IO error: ", "Cannot allocate memory", KV_NO_MEMORY },
    /* a file that the manifest names is gone */
    { "IO error: No such file or directory", NULL, KV_CORRUPT },
    { "IO error: ", NULL, KV_IO },
    { "NotFound: ", NULL, KV_CORRUPT },
    { "Corruption: ", NULL, KV_CORRUPT },
    { "Invalid argument: ", "does not exist (create_if_missing is false)", KV_CORRUPT },
    { "Invalid argument: ", NULL, KV_INVALID },
    { "Not implemented: ", NULL, KV_UNSUPPORTED },
    { "Operation failed. Try again.: ", NULL, KV_CONFLICT },
    { "Operation timed out: ", NULL, KV_TIMEOUT },
    { "Operation expired: ", NULL, KV_TIMEOUT },
    { "Resource busy: ", NULL, KV_BUSY },
    { "Shutdown in progress: ", NULL, KV_BAD_STATE },
    { "", NULL, KV_INTERNAL },
};

kv_code engine_error_code(const struct engine_error *table, const char *text)
{
    while (strncmp(text, table->begins, strlen(table->begins)) != 0 ||
           (table->contains != NULL && strstr(text, table->contains) == NULL))
        table++;
    return table->code;
}

kv_code engine_fail(kv_status *status, const struct engine_error *table, const char *dir,
                    const char *file, const char *text)
{
    kv_code code = engine_error_code(table, text);
    if (file != NULL)
        return kv_fail(status, code, "%s/%s: %s", dir, file, text);
    if (strstr(text, dir) != NULL) /* it names the file already */
        return kv_fail(status, code, "%s", text);
    return kv_fail(status, code, "%s: %s", dir, text);
}
