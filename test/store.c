/* store.c - folders and databases that last as long as a test. */
#include "test/store.h"
#include "kv/folder.h"
#include "test/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(kv_code code, const char *what, const char *where, const kv_status *status)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "%s %s: %s: %s\n", what, where, kv_code_name(code), status->message);
    abort();
}

void test_folder_make(char path[TEST_PATH_SIZE])
{
    int size = snprintf(path, TEST_PATH_SIZE, "%s/statekv-test-XXXXXX", test_base());
    if (size >= TEST_PATH_SIZE || mkdtemp(path) == NULL) {
        perror(path);
        abort();
    }
}

void test_folder_remove(const char *path)
{
    kv_folder_remove(path);
}

kv_code test_db_try(const char *driver, const char *dir, unsigned flags, kv_db **out,
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

kv_db *test_db_open(const char *driver, const char *dir, unsigned flags)
{
    kv_status status = KV_STATUS_INIT;
    kv_db *db;
    must(test_db_try(driver, dir, flags, &db, &status), "open", driver, &status);
    return db;
}

kv_space *test_db_space(kv_db *db, const char *name)
{
    kv_status status = KV_STATUS_INIT;
    kv_space *space;
    must(kv_space_open(db, name, KV_CREATE, &space, &status), "space", name, &status);
    return space;
}

void test_db_close(kv_db *db)
{
    kv_status status = KV_STATUS_INIT;
    must(kv_close(db, &status), "close", db == NULL ? "" : kv_db_dir(db), &status);
}

/* ---- Stores --------------------------------------------------------------- */

kv_code store_try(struct store *store, kv_status *status)
{
    kv_code code = test_db_try(store->driver, store->dir, KV_CREATE, &store->db, status);
    if (code == KV_OK)
        store->space = test_db_space(store->db, "default");
    return code;
}

void store_open(struct store *store)
{
    kv_status status = KV_STATUS_INIT;
    must(store_try(store, &status), "open", store->driver, &status);
}

void store_new(struct store *store, const char *driver)
{
    memset(store, 0, sizeof(*store));
    snprintf(store->driver, sizeof(store->driver), "%s", driver);
    test_folder_make(store->root);
    snprintf(store->dir, sizeof(store->dir), "%.250s/db", store->root);
    store_open(store);
}

void store_close(struct store *store)
{
    test_db_close(store->db);
    store->db = NULL;
    store->space = NULL;
}

void store_reopen(struct store *store)
{
    store_close(store);
    store_open(store);
}

void store_abandon(struct store *store)
{
    if (kv_close(store->db, NULL) == KV_BUSY)
        abort();
    store->db = NULL;
    store->space = NULL;
}

void store_free(struct store *store)
{
    if (store->db != NULL)
        store_close(store);
    test_folder_remove(store->root);
}
