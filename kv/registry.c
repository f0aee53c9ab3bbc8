/* registry.c - the drivers built in and those added at run time. */
#include "drivers/drivers.h"
#include "kv/core.h"

#include <string.h>

enum { REGISTERED_MAX = 16 };

static const kv_driver *registered[REGISTERED_MAX];
static size_t registered_count;

const kv_driver *kv_driver_at(size_t index)
{
    size_t built_in = 0;
    while (kv_drivers_built_in[built_in] != NULL)
        built_in++;
    if (index < built_in)
        return kv_drivers_built_in[index];
    index -= built_in;
    return index < registered_count ? registered[index] : NULL;
}

const kv_driver *kv_driver_find(const char *name)
{
    if (strcmp(name, "goleveldb") == 0 || strcmp(name, "cleveldb") == 0)
        name = "leveldb";
    else if (strcmp(name, "memdb") == 0)
        name = "memory";

    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        if (strcmp(driver->name, name) == 0)
            return driver;
    return NULL;
}

bool kv_driver_is_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
    return size > 0 && size <= KV_DRIVER_NAME_SIZE_MAX && name[size] == '\0';
}

static bool is_complete(const kv_driver *driver)
{
    bool spaces =
        driver->space_open != NULL && driver->space_close != NULL && driver->space_list != NULL;
    return driver->name != NULL && driver->engine_version != NULL && driver->options != NULL &&
           driver->open != NULL && driver->close != NULL &&
           (spaces || (driver->caps & KV_CAP_SPACES) == 0) && driver->get != NULL &&
           driver->snapshot_take != NULL && driver->snapshot_release != NULL &&
           driver->iter_open != NULL && driver->iter_close != NULL &&
           driver->iter_first != NULL && driver->iter_last != NULL &&
           driver->iter_seek != NULL && driver->iter_next != NULL &&
           driver->iter_prev != NULL && driver->batch_open != NULL &&
           driver->batch_close != NULL && driver->batch_put != NULL &&
           driver->batch_delete != NULL && driver->batch_clear != NULL &&
           driver->batch_commit != NULL;
}

static bool has_sizes(const kv_driver *driver)
{
    return driver->db_size >= sizeof(kv_db) && driver->space_size >= sizeof(kv_space) &&
           driver->snapshot_size >= sizeof(kv_snapshot) &&
           driver->iter_size >= sizeof(kv_iter) && driver->batch_size >= sizeof(kv_batch) &&
           driver->key_size_max >= 1 && driver->key_size_max <= KV_KEY_SIZE_MAX &&
           driver->value_size_max <= KV_VALUE_SIZE_MAX;
}

kv_code kv_driver_register(const kv_driver *driver, kv_status *status)
{
    const char *name = driver->name == NULL ? "(no name)" : driver->name;
    if (driver->version != KV_DRIVER_VERSION)
        return kv_fail(status, KV_INVALID, "driver %s is for table version %u, not %d", name,
                       driver->version, KV_DRIVER_VERSION);
    if (!is_complete(driver))
        return kv_fail(status, KV_INVALID, "driver %s lacks a required member", name);
    if (!kv_driver_is_name(name))
        return kv_fail(status, KV_INVALID, "a driver's name is 1 to %d of a-z 0-9 . _ -",
                       KV_DRIVER_NAME_SIZE_MAX);
    if (!has_sizes(driver))
        return kv_fail(status, KV_INVALID, "driver %s gives a size or limit out of range",
                       name);
    if (kv_driver_find(driver->name) != NULL)
        return kv_fail(status, KV_INVALID, "there is a driver %s already", name);
    if (registered_count == REGISTERED_MAX)
        return kv_fail(status, KV_INVALID, "no more than %d drivers can be registered",
                       REGISTERED_MAX);
    registered[registered_count++] = driver;
    return KV_OK;
}
