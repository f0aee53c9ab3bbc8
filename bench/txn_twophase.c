/* txn_twophase.c - RocksDB's two-phase commit over two transaction databases. */
#include "bench/txn_twophase.h"

#include <stdlib.h>

#if STATEKV_DRIVER_ROCKSDB

#include <limits.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdio.h>

enum { STORES = 2 };

struct twophase {
    rocksdb_options_t *options;
    rocksdb_transactiondb_options_t *db_options;
    rocksdb_transaction_options_t *txn_options;
    rocksdb_writeoptions_t *synced;
    rocksdb_transactiondb_t *stores[STORES];
    _Atomic unsigned long long next_id;
};

static kv_code settle(char *error, kv_status *status)
{
    if (error == NULL)
        return KV_OK;
    kv_code code = kv_fail(status, KV_IO, "two-phase commit: %s", error);
    rocksdb_free(error);
    return code;
}

kv_code twophase_open(const char *dir, struct twophase **out, kv_status *status)
{
    struct twophase *twophase = calloc(1, sizeof(*twophase));
    *out = twophase;
    if (twophase == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory");
    twophase->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(twophase->options, 1);
    twophase->db_options = rocksdb_transactiondb_options_create();
    twophase->txn_options = rocksdb_transaction_options_create();
    twophase->synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(twophase->synced, 1);
    kv_code code = KV_OK;
    for (unsigned i = 0; i < STORES && code == KV_OK; i++) {
        char path[PATH_MAX], *error = NULL;
        snprintf(path, sizeof(path), "%s/twophase-%u", dir, i);
        twophase->stores[i] =
            rocksdb_transactiondb_open(twophase->options, twophase->db_options, path, &error);
        code = settle(error, status);
    }
    return code;
}

void twophase_close(struct twophase *twophase)
{
    if (twophase == NULL)
        return;
    for (unsigned i = 0; i < STORES; i++)
        if (twophase->stores[i] != NULL)
            rocksdb_transactiondb_close(twophase->stores[i]);
    rocksdb_writeoptions_destroy(twophase->synced);
    rocksdb_transaction_options_destroy(twophase->txn_options);
    rocksdb_transactiondb_options_destroy(twophase->db_options);
    rocksdb_options_destroy(twophase->options);
    free(twophase);
}

static kv_code prepare(rocksdb_transaction_t *txn, kv_slice id, kv_slice key, kv_slice value,
                       kv_status *status)
{
    char *error = NULL;
    rocksdb_transaction_set_name(txn, id.data, id.size, &error);
    kv_code code = settle(error, status);
    if (code != KV_OK)
        return code;
    rocksdb_transaction_put(txn, key.data, key.size, value.data, value.size, &error);
    code = settle(error, status);
    if (code != KV_OK)
        return code;
    rocksdb_transaction_prepare(txn, &error);
    return settle(error, status);
}

kv_code twophase_commit(struct twophase *twophase, unsigned thread, kv_slice value,
                        kv_status *status)
{
    char id_text[32], key_text[32], *error = NULL;
    kv_slice id = kv_bytes(id_text, (size_t)snprintf(id_text, sizeof(id_text), "%llu",
                                                     atomic_fetch_add(&twophase->next_id, 1)));
    kv_slice key =
        kv_bytes(key_text, (size_t)snprintf(key_text, sizeof(key_text), "object-%u", thread));
    rocksdb_transaction_t *txns[STORES];
    kv_code code = KV_OK;
    for (unsigned i = 0; i < STORES; i++) {
        txns[i] = rocksdb_transaction_begin(twophase->stores[i], twophase->synced,
                                            twophase->txn_options, NULL);
        if (code == KV_OK)
            code = prepare(txns[i], id, key, value, status);
    }
    if (code == KV_OK) {
        rocksdb_transactiondb_put(twophase->stores[0], twophase->synced, "decision", 8, id.data,
                                  id.size, &error);
        code = settle(error, status);
    }
    for (unsigned i = 0; i < STORES; i++) {
        if (code == KV_OK) {
            rocksdb_transaction_commit(txns[i], &error);
            code = settle(error, status);
        }
        rocksdb_transaction_destroy(txns[i]);
    }
    return code;
}

#else

kv_code twophase_open(const char *dir, struct twophase **out, kv_status *status)
{
    (void)dir;
    *out = NULL;
    return kv_fail(status, KV_UNSUPPORTED, "RocksDB is not built in");
}

void twophase_close(struct twophase *twophase)
{
    (void)twophase;
}

kv_code twophase_commit(struct twophase *twophase, unsigned thread, kv_slice value,
                        kv_status *status)
{
    (void)twophase, (void)thread, (void)value;
    return kv_fail(status, KV_UNSUPPORTED, "RocksDB is not built in");
}

#endif
