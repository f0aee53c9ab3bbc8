/* contract.c - opening stores for the tests, and showing what is in them. */
#include "test/contract/contract.h"
#include "test/contract/more_drivers.h"
#include "test/fault/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 16, TEXT_MAX = 4096, TEXTS = 8 };

/* ---- Rows ------------------------------------------------------------------ */

/* The drivers themselves, or with STATEKV_CONTRACT_SHIMS a shim around each: two halves,
 * so that they can run side by side. */
static bool is_row(const kv_driver *driver)
{
    bool shims = getenv("STATEKV_CONTRACT_SHIMS") != NULL;
    return fault_is_shim(driver) == shims;
}

static void rows_free(struct criterion_test_params *params)
{
    cr_free(params->params);
}

static struct criterion_test_params rows(unsigned caps)
{
    more_drivers_register();
    size_t count = 0;
    struct contract_row *list = cr_malloc(ROWS_MAX * sizeof(*list));
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL && count < ROWS_MAX; i++)
        if ((driver->caps & caps) == caps && is_row(driver))
            snprintf(list[count++].driver, sizeof(list->driver), "%s", driver->name);
    return cr_make_param_array(struct contract_row, list, count, rows_free);
}

struct criterion_test_params contract_rows(void)
{
    return rows(0);
}

struct criterion_test_params contract_rows_durable(void)
{
    return rows(KV_CAP_DURABLE);
}

/* ---- Stores ---------------------------------------------------------------- */

void contract_path(char out[TEST_PATH_SIZE], const char *dir, const char *name)
{
    int size = snprintf(out, TEST_PATH_SIZE, "%s/%s", dir, name);
    cr_assert(size > 0 && size < TEST_PATH_SIZE, "path too long");
}

kv_code contract_open(const char *driver, const char *dir, unsigned flags, kv_db **out,
                      kv_status *status)
{
    more_drivers_register();
    return test_db_try(driver, dir, flags, out, status);
}

void contract_store(struct store *store, const struct contract_row *row)
{
    more_drivers_register();
    store_new(store, row->driver);
}

bool store_has(const struct store *store, unsigned caps)
{
    return (kv_db_driver(store->db)->caps & caps) == caps;
}

kv_space *store_space(struct store *store, const char *name)
{
    return test_db_space(store->db, name);
}

/* ---- Texts ----------------------------------------------------------------- */

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_MAX];
    static unsigned turn;
    char *text = texts[turn++ % TEXTS];
    text[0] = '\0';
    return text;
}

static void append(char *text, kv_slice bytes)
{
    const unsigned char *data = bytes.data;
    size_t at = strlen(text);
    for (size_t i = 0; i < bytes.size && at + 5 < TEXT_MAX; i++) {
        if (data[i] > ' ' && data[i] < 0x7f)
            at += (size_t)snprintf(text + at, TEXT_MAX - at, "%c", data[i]);
        else
            at += (size_t)snprintf(text + at, TEXT_MAX - at, "\\x%02x", data[i]);
    }
}

void put(kv_space *space, const char *key, const char *value)
{
    assert_ok(kv_put(space, kv_text(key), kv_text(value), 0, status));
}

void del(kv_space *space, const char *key)
{
    assert_ok(kv_delete(space, kv_text(key), 0, status));
}

const char *get_at(kv_space *space, const kv_snapshot *snapshot, const char *key)
{
    kv_read read = { .snapshot = snapshot };
    kv_value value = KV_VALUE_INIT;
    kv_status status = KV_STATUS_INIT;
    kv_code code = kv_get(space, &read, kv_text(key), &value, &status);
    char *text = next_text();
    if (code == KV_NOT_FOUND) {
        cr_assert(status.message[0] == '\0', "absence wrote: %s", status.message);
        cr_assert(value.bytes.size == 0 && value.release == NULL, "absence left a value");
        append(text, kv_text("-"));
    } else {
        cr_assert(code == KV_OK, "get %s: %s: %s", key, kv_code_name(code), status.message);
        append(text, value.bytes);
    }
    kv_value_release(&value);
    return text;
}

const char *get(kv_space *space, const char *key)
{
    return get_at(space, NULL, key);
}

kv_range text_range(const char *first, const char *limit)
{
    kv_slice none = kv_bytes(NULL, 0);
    kv_range range = { first == NULL ? none : kv_text(first),
                       limit == NULL ? none : kv_text(limit) };
    return range;
}

kv_iter *iter_open(kv_space *space, const kv_read *read, const kv_range *range)
{
    kv_iter *iter = NULL;
    assert_ok(kv_iter_open(space, read, range, &iter, status));
    return iter;
}

static const char *walk(kv_iter *iter, bool back, bool values)
{
    char *text = next_text();
    bool on = back ? kv_iter_last(iter) : kv_iter_first(iter);
    while (on) {
        if (text[0] != '\0')
            strcat(text, " ");
        append(text, kv_iter_key(iter));
        if (values) {
            strcat(text, "=");
            append(text, kv_iter_value(iter));
        }
        on = back ? kv_iter_prev(iter) : kv_iter_next(iter);
    }
    cr_assert(kv_iter_key(iter).size == 0 && kv_iter_value(iter).size == 0,
              "off an entry, but with bytes");
    assert_ok(kv_iter_status(iter, status));
    kv_iter_close(iter);
    return text;
}

const char *keys_of(kv_iter *iter, bool back)
{
    return walk(iter, back, false);
}

const char *keys(kv_space *space, const char *first, const char *limit)
{
    kv_range range = text_range(first, limit);
    return walk(iter_open(space, NULL, &range), false, false);
}

const char *keys_back(kv_space *space, const char *first, const char *limit)
{
    kv_range range = text_range(first, limit);
    return walk(iter_open(space, NULL, &range), true, false);
}

const char *pairs_at(kv_space *space, const kv_snapshot *snapshot)
{
    kv_read read = { .snapshot = snapshot };
    return walk(iter_open(space, &read, NULL), false, true);
}
