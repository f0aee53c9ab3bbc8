/* fixture.c - what the tests of transactions share. */
#include "test/txn/fixture.h"

#include <stdio.h>
#include <string.h>

static size_t rows_make(struct row *rows)
{
    size_t count = 0;
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        for (int mode = 0; mode < 2; mode++)
            for (int isolation = 0; isolation < 2; isolation++) {
                struct row row = { "", (kv_txn_mode)mode, (kv_txn_isolation)isolation };
                snprintf(row.driver, sizeof(row.driver), "%s", driver->name);
                rows[count++] = row;
            }
    return count;
}

struct criterion_test_params every_row(void)
{
    static struct row rows[64];
    return cr_make_param_array(struct row, rows, rows_make(rows));
}

void setup(struct bench *bench, const struct row *row, uint32_t timeout_ms)
{
    store_new(&bench->store, row->driver);
    bench->space = bench->store.space;
    kv_txn_options options = { .mode = row->mode,
                               .isolation = row->isolation,
                               .timeout_ms = timeout_ms,
                               .size_max = 1 << 20 };
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_txn_manager_open(bench->store.db, &options, &bench->manager, &status),
                 KV_OK, "%s", status.message);
}

void teardown(struct bench *bench)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_txn_manager_close(bench->manager, &status), KV_OK, "%s", status.message);
    store_free(&bench->store);
}

kv_txn *begin(struct bench *bench)
{
    kv_txn *txn;
    cr_assert_eq(kv_txn_begin(bench->manager, &txn, NULL), KV_OK);
    return txn;
}

kv_code put(struct bench *bench, kv_txn *txn, const char *key, const char *value)
{
    return kv_txn_put(txn, bench->space, kv_text(key), kv_text(value), NULL);
}

kv_code del(struct bench *bench, kv_txn *txn, const char *key)
{
    return kv_txn_delete(txn, bench->space, kv_text(key), NULL);
}

const char *get(struct bench *bench, kv_txn *txn, const char *key)
{
    static char text[64];
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_txn_get(txn, bench->space, kv_text(key), &value, NULL);
    if (code == KV_OK)
        snprintf(text, sizeof(text), "%.*s", (int)value.bytes.size,
                 value.bytes.size == 0 ? "" : (const char *)value.bytes.data);
    else
        snprintf(text, sizeof(text), "%s", code == KV_NOT_FOUND ? "-" : kv_code_name(code));
    kv_value_release(&value);
    return text;
}

void set(struct bench *bench, const char *key, const char *value)
{
    kv_txn *txn = begin(bench);
    cr_assert_eq(put(bench, txn, key, value), KV_OK);
    cr_assert_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
}

const char *scan(struct bench *bench, kv_txn *txn, const char *first, const char *limit,
                 bool back)
{
    static char text[512];
    kv_range range = { kv_text(first), kv_text(limit) };
    kv_txn_iter *iter;
    kv_code code = kv_txn_iter_open(txn, bench->space, &range, &iter, NULL);
    if (code != KV_OK)
        return kv_code_name(code);
    text[0] = '\0';
    bool on = back ? kv_txn_iter_last(iter) : kv_txn_iter_first(iter);
    for (; on; on = back ? kv_txn_iter_prev(iter) : kv_txn_iter_next(iter)) {
        kv_slice key = kv_txn_iter_key(iter), value = kv_txn_iter_value(iter);
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%.*s=%.*s ", (int)key.size,
                 (const char *)key.data, (int)value.size, (const char *)value.data);
    }
    cr_assert_eq(kv_txn_iter_status(iter, NULL), KV_OK);
    kv_txn_iter_close(iter);
    return text;
}
