#include "test/txn/store.h"
#include "test/base.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(kv_code code, const kv_status *status)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "%s: %s\n", kv_code_name(code), status->message);
    abort();
}

kv_code store_try(struct store *store, const char *driver, kv_status *status)
{
    kv_options *options;
    must(kv_options_new(driver, store->dir, NULL, &options, status), status);
    kv_code code = kv_open(options, KV_CREATE, &store->db, status);
    kv_options_free(options);
    if (code == KV_OK)
        must(kv_space_open(store->db, "default", KV_CREATE, &store->space, status), status);
    return code;
}

void store_reopen(struct store *store, const char *driver)
{
    kv_status status = KV_STATUS_INIT;
    must(store_try(store, driver, &status), &status);
}

void store_open(struct store *store, const char *driver)
{
    snprintf(store->dir, sizeof(store->dir) - 4, "%s/statekv-txn-XXXXXX", test_base());
    if (mkdtemp(store->dir) == NULL)
        abort();
    strcat(store->dir, "/db");
    store_reopen(store, driver);
}

void store_close(struct store *store)
{
    kv_status status = KV_STATUS_INIT;
    must(kv_close(store->db, &status), &status);
    store->db = NULL;
}

void store_abandon(struct store *store)
{
    if (kv_close(store->db, NULL) == KV_BUSY)
        abort();
    store->db = NULL;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void store_remove(struct store *store)
{
    if (store->db != NULL)
        store_close(store);
    *strrchr(store->dir, '/') = '\0';
    nftw(store->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
