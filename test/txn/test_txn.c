/* test_txn.c - one transaction after another, on every driver. */
#include "kv/driver.h"
#include "kv/txn.h"
#include "test/txn/store.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

struct row {
    char driver[16];
    kv_txn_mode mode;
    kv_txn_isolation isolation;
};

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

static struct row all_rows[64];

/* All drivers, all modes and levels. */
#define EVERY(suite, name)                                                     \
    ParameterizedTestParameters(suite, name)                                   \
    {                                                                          \
        return cr_make_param_array(struct row, all_rows, rows_make(all_rows)); \
    }                                                                          \
    ParameterizedTest(struct row *row, suite, name)

struct bench {
    struct store store;
    kv_txn_manager *manager;
    kv_space *space;
};

static void setup(struct bench *bench, const struct row *row, uint32_t timeout_ms)
{
    store_open(&bench->store, row->driver);
    bench->space = bench->store.space;
    kv_txn_options options = { .mode = row->mode,
                               .isolation = row->isolation,
                               .timeout_ms = timeout_ms,
                               .size_max = 1 << 20 };
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_txn_manager_open(bench->store.db, &options, &bench->manager, &status),
                 KV_OK, "%s", status.message);
}

static void teardown(struct bench *bench)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_txn_manager_close(bench->manager, &status), KV_OK, "%s", status.message);
    store_remove(&bench->store);
}

static kv_txn *begin(struct bench *bench)
{
    kv_txn *txn;
    cr_assert_eq(kv_txn_begin(bench->manager, &txn, NULL), KV_OK);
    return txn;
}

static kv_code put(struct bench *bench, kv_txn *txn, const char *key, const char *value)
{
    return kv_txn_put(txn, bench->space, kv_text(key), kv_text(value), NULL);
}

static kv_code del(struct bench *bench, kv_txn *txn, const char *key)
{
    return kv_txn_delete(txn, bench->space, kv_text(key), NULL);
}

/* "value", "-" when absent, or the code's name. */
static const char *get(struct bench *bench, kv_txn *txn, const char *key)
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

static void set(struct bench *bench, const char *key, const char *value)
{
    kv_txn *txn = begin(bench);
    cr_assert_eq(put(bench, txn, key, value), KV_OK);
    cr_assert_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
}

/* "a=1 b=2 ", forwards or backwards. */
static const char *scan(struct bench *bench, kv_txn *txn, const char *first, const char *limit,
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

/* ---- Life ----------------------------------------------------------------- */

TestSuite(txn, .timeout = 60);

EVERY(txn, own_writes_are_seen_and_others_see_them_after_commit)
{
    struct bench bench;
    setup(&bench, row, 0);
    kv_txn *txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "k"), "-");
    cr_expect_eq(put(&bench, txn, "k", "1"), KV_OK);
    cr_expect_str_eq(get(&bench, txn, "k"), "1");
    cr_expect_eq(del(&bench, txn, "k"), KV_OK);
    cr_expect_str_eq(get(&bench, txn, "k"), "-");
    cr_expect_eq(put(&bench, txn, "k", ""), KV_OK);
    cr_expect_str_eq(get(&bench, txn, "k"), "");
    kv_value value = KV_VALUE_INIT;
    cr_expect_eq(kv_get(bench.space, NULL, kv_text("k"), &value, NULL), KV_NOT_FOUND);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    cr_expect_eq(kv_txn_state_of(txn), KV_TXN_COMMITTED);
    cr_expect_eq(kv_get(bench.space, NULL, kv_text("k"), &value, NULL), KV_OK);
    cr_expect_eq(value.bytes.size, 0);
    kv_value_release(&value);
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn, an_ended_transaction_refuses_everything)
{
    struct bench bench;
    setup(&bench, row, 0);
    for (int commit = 0; commit < 2; commit++) {
        kv_txn *txn = begin(&bench);
        cr_expect_eq(put(&bench, txn, "k", "1"), KV_OK);
        if (commit)
            cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
        else
            kv_txn_abort(txn);
        kv_status status = KV_STATUS_INIT;
        kv_txn_savepoint savepoint;
        kv_txn_iter *iter;
        cr_expect_str_eq(get(&bench, txn, "k"), "BAD_STATE");
        cr_expect_eq(put(&bench, txn, "k", "2"), KV_BAD_STATE);
        cr_expect_eq(del(&bench, txn, "k"), KV_BAD_STATE);
        cr_expect_eq(kv_txn_iter_open(txn, bench.space, NULL, &iter, NULL), KV_BAD_STATE);
        cr_expect_null(iter);
        cr_expect_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_BAD_STATE);
        cr_expect_eq(kv_txn_commit(txn, &status), KV_BAD_STATE);
        cr_expect(strstr(status.message, commit ? "committed" : "aborted") != NULL);
        kv_txn_abort(txn);
        kv_txn_close(txn);
    }
    teardown(&bench);
}

EVERY(txn, abort_leaves_nothing)
{
    struct bench bench;
    setup(&bench, row, 0);
    set(&bench, "k", "old");
    kv_txn *txn = begin(&bench);
    cr_expect_eq(put(&bench, txn, "k", "new"), KV_OK);
    cr_expect_eq(put(&bench, txn, "l", "new"), KV_OK);
    kv_txn_close(txn);
    txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "k"), "old");
    cr_expect_str_eq(get(&bench, txn, "l"), "-");
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn, bad_keys_and_too_much_leave_it_active)
{
    struct bench bench;
    setup(&bench, row, 0);
    kv_txn *txn = begin(&bench);
    cr_expect_eq(put(&bench, txn, "", "v"), KV_INVALID);
    static char big[1 << 20];
    kv_status status = KV_STATUS_INIT;
    cr_expect_eq(
        kv_txn_put(txn, bench.space, kv_text("k"), kv_bytes(big, sizeof(big)), &status),
        KV_TOO_BIG);
    cr_expect(strstr(status.message, "1048576") != NULL, "%s", status.message);
    cr_expect_eq(put(&bench, txn, "k", "v"), KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn, a_manager_with_live_transactions_stays_open)
{
    struct bench bench;
    setup(&bench, row, 0);
    kv_txn *txn = begin(&bench);
    kv_status status = KV_STATUS_INIT;
    cr_expect_eq(kv_txn_manager_close(bench.manager, &status), KV_BUSY);
    cr_expect(strstr(status.message, "1 ") != NULL);
    kv_txn_close(txn);
    teardown(&bench);
}

Test(txn, ids_round_trip_and_differ)
{
    struct bench bench;
    struct row row = { "memory", KV_TXN_OPTIMISTIC, KV_TXN_SERIALIZABLE };
    setup(&bench, &row, 0);
    kv_txn *a = begin(&bench), *b = begin(&bench);
    kv_txn_id id_a = kv_txn_identity(a), id_b = kv_txn_identity(b), parsed;
    cr_expect(memcmp(&id_a, &id_b, sizeof(id_a)) != 0);
    char text[KV_TXN_ID_TEXT_SIZE];
    cr_expect_eq(strlen(kv_txn_id_text(&id_a, text)), 32);
    cr_expect_eq(kv_txn_id_parse(text, &parsed, NULL), KV_OK);
    cr_expect(memcmp(&id_a, &parsed, sizeof(id_a)) == 0);
    const char *const bad[] = { "", "0", "g0000000000000000000000000000000",
                                "000000000000000000000000000000000", text + 1 };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(kv_txn_id_parse(bad[i], &parsed, NULL), KV_INVALID, "%s", bad[i]);
    kv_txn_close(a);
    kv_txn_close(b);
    teardown(&bench);
}

/* ---- Savepoints ----------------------------------------------------------- */

EVERY(txn, rollback_to_a_savepoint_restores_exactly)
{
    struct bench bench;
    setup(&bench, row, 0);
    set(&bench, "a", "0");
    set(&bench, "b", "0");
    kv_txn *txn = begin(&bench);
    kv_txn_savepoint outer, inner;
    cr_expect_eq(put(&bench, txn, "a", "1"), KV_OK);
    cr_expect_eq(kv_txn_savepoint_take(txn, &outer, NULL), KV_OK);
    cr_expect_eq(put(&bench, txn, "a", "2"), KV_OK);
    cr_expect_eq(del(&bench, txn, "b"), KV_OK);
    cr_expect_eq(kv_txn_savepoint_take(txn, &inner, NULL), KV_OK);
    cr_expect_eq(del(&bench, txn, "a"), KV_OK);
    cr_expect_eq(put(&bench, txn, "c", "3"), KV_OK);
    cr_expect_str_eq(scan(&bench, txn, "", "", false), "c=3 ");
    cr_expect_eq(kv_txn_savepoint_rollback(txn, inner, NULL), KV_OK);
    cr_expect_str_eq(scan(&bench, txn, "", "", false), "a=2 ");
    cr_expect_eq(kv_txn_savepoint_rollback(txn, inner, NULL), KV_BAD_STATE);
    cr_expect_eq(kv_txn_savepoint_rollback(txn, outer, NULL), KV_OK);
    cr_expect_str_eq(scan(&bench, txn, "", "", true), "b=0 a=1 ");
    cr_expect_eq(kv_txn_savepoint_take(txn, &inner, NULL), KV_OK);
    cr_expect_eq(kv_txn_savepoint_release(txn, outer, NULL), KV_BAD_STATE); /* not that one */
    cr_expect_eq(put(&bench, txn, "d", "4"), KV_OK);
    cr_expect_eq(kv_txn_savepoint_release(txn, inner, NULL), KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    txn = begin(&bench);
    cr_expect_str_eq(scan(&bench, txn, "", "", false), "a=1 b=0 d=4 ");
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn, savepoints_nest_to_the_limit)
{
    struct bench bench;
    setup(&bench, row, 0);
    kv_txn *txn = begin(&bench);
    kv_txn_savepoint first, savepoint;
    cr_expect_eq(kv_txn_savepoint_take(txn, &first, NULL), KV_OK);
    for (unsigned i = 1; i < KV_TXN_SAVEPOINTS_MAX; i++)
        cr_assert_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_OK);
    cr_expect_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_TOO_BIG);
    cr_expect_eq(kv_txn_savepoint_rollback(txn, first, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}

/* ---- Walks ---------------------------------------------------------------- */

TestSuite(txn_iter, .timeout = 60);

EVERY(txn_iter, own_writes_stay_inside_the_bounds)
{
    struct bench bench;
    setup(&bench, row, 0);
    set(&bench, "a", "0");
    set(&bench, "c", "0");
    set(&bench, "e", "0");
    kv_txn *txn = begin(&bench);
    cr_expect_eq(put(&bench, txn, "b", "1"), KV_OK);
    cr_expect_eq(put(&bench, txn, "d", "1"), KV_OK);
    cr_expect_eq(del(&bench, txn, "c"), KV_OK);
    cr_expect_eq(put(&bench, txn, "a", "1"), KV_OK);
    cr_expect_str_eq(scan(&bench, txn, "a", "d", false), "a=1 b=1 ");
    cr_expect_str_eq(scan(&bench, txn, "a", "d", true), "b=1 a=1 ");
    cr_expect_str_eq(scan(&bench, txn, "b", "z", false), "b=1 d=1 e=0 ");
    cr_expect_str_eq(scan(&bench, txn, "b", "z", true), "e=0 d=1 b=1 ");
    cr_expect_str_eq(scan(&bench, txn, "d", "e", false), "d=1 ");
    cr_expect_str_eq(get(&bench, txn, "c"), "-");
    kv_txn_savepoint savepoint;
    cr_expect_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_OK);
    for (char key[2] = "a"; key[0] <= 'e'; key[0]++)
        cr_expect_eq(del(&bench, txn, key), KV_OK);
    cr_expect_str_eq(scan(&bench, txn, "", "", false), "");
    cr_expect_str_eq(scan(&bench, txn, "", "", true), "");
    cr_expect_eq(kv_txn_savepoint_rollback(txn, savepoint, NULL), KV_OK);
    cr_expect_str_eq(scan(&bench, txn, "", "", false), "a=1 b=1 d=1 e=0 ");
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn_iter, writes_ahead_of_an_open_walk_are_met_once)
{
    struct bench bench;
    setup(&bench, row, 0);
    set(&bench, "b", "0");
    set(&bench, "d", "0");
    kv_txn *txn = begin(&bench);
    kv_txn_iter *iter;
    cr_assert_eq(kv_txn_iter_open(txn, bench.space, NULL, &iter, NULL), KV_OK);
    cr_expect(kv_txn_iter_first(iter)); /* b */
    cr_expect_eq(put(&bench, txn, "a", "1"), KV_OK);
    cr_expect_eq(put(&bench, txn, "b", "1"), KV_OK);
    cr_expect_eq(put(&bench, txn, "c", "1"), KV_OK);
    cr_expect_eq(del(&bench, txn, "d"), KV_OK);
    cr_expect(kv_txn_iter_next(iter));
    cr_expect_eq(kv_compare(kv_txn_iter_key(iter), kv_text("c")), 0);
    cr_expect(kv_txn_iter_prev(iter));
    cr_expect_eq(kv_compare(kv_txn_iter_key(iter), kv_text("b")), 0);
    cr_expect_eq(kv_compare(kv_txn_iter_value(iter), kv_text("1")), 0);
    cr_expect(kv_txn_iter_prev(iter));
    cr_expect_eq(kv_compare(kv_txn_iter_key(iter), kv_text("a")), 0);
    cr_expect(kv_txn_iter_next(iter));
    cr_expect_eq(kv_compare(kv_txn_iter_key(iter), kv_text("b")), 0);
    cr_expect(kv_txn_iter_next(iter));
    cr_expect_not(kv_txn_iter_next(iter));
    cr_expect_eq(kv_txn_iter_key(iter).size, 0);
    cr_expect_not(kv_txn_iter_next(iter));
    cr_expect_not(kv_txn_iter_prev(iter));
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_BAD_STATE); /* over an open walk */
    kv_txn_iter_close(iter);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}

/* Against a plain model: a random base, random own writes, random moves. */
EVERY(txn_iter, random_walks_equal_a_model)
{
    struct bench bench;
    setup(&bench, row, 0);
    uint64_t random = 42;
    for (unsigned round = 0; round < 8; round++) {
        char model[26]; /* the value's letter per key, 0 absent */
        kv_txn *txn = begin(&bench);
        for (char key[2] = "a"; key[0] <= 'z'; key[0]++) {
            kv_code code;
            random = random * 6364136223846793005u + 1442695040888963407u;
            char value[2] = { (char)('A' + (random >> 33) % 26), 0 };
            if ((random >> 40) % 3 == 0)
                code = del(&bench, txn, key);
            else
                code = put(&bench, txn, key, value);
            cr_assert_eq(code, KV_OK);
            if (key[0] % 2 == 0) /* half of it is committed before */
                continue;
        }
        cr_assert_eq(kv_txn_commit(txn, NULL), KV_OK);
        kv_txn_close(txn);

        txn = begin(&bench);
        for (char key[2] = "a"; key[0] <= 'z'; key[0]++) {
            const char *value = get(&bench, txn, key);
            model[key[0] - 'a'] = value[0] == '-' ? 0 : value[0];
            random = random * 6364136223846793005u + 1442695040888963407u;
            if ((random >> 33) % 3 == 0) {
                cr_assert_eq(del(&bench, txn, key), KV_OK);
                model[key[0] - 'a'] = 0;
            } else if ((random >> 33) % 3 == 1) {
                cr_assert_eq(put(&bench, txn, key, "x"), KV_OK);
                model[key[0] - 'a'] = 'x';
            }
        }
        kv_txn_iter *iter;
        cr_assert_eq(kv_txn_iter_open(txn, bench.space, NULL, &iter, NULL), KV_OK);
        int at = -1; /* off */
        for (unsigned step = 0; step < 300; step++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            unsigned kind =
                at < 0 ? (unsigned)(random >> 33) % 3 : (unsigned)(random >> 33) % 9;
            bool on;
            int to;
            if (kind == 0) {
                on = kv_txn_iter_first(iter);
                for (to = 0; to < 26 && model[to] == 0;)
                    to++;
            } else if (kind == 1) {
                on = kv_txn_iter_last(iter);
                for (to = 25; to >= 0 && model[to] == 0;)
                    to--;
            } else if (kind == 2) {
                char key = (char)('a' + (random >> 50) % 26);
                on = kv_txn_iter_seek(iter, kv_bytes(&key, 1));
                for (to = key - 'a'; to < 26 && model[to] == 0;)
                    to++;
            } else if (kind < 6) {
                on = kv_txn_iter_next(iter);
                for (to = at + 1; to < 26 && model[to] == 0;)
                    to++;
            } else {
                on = kv_txn_iter_prev(iter);
                for (to = at - 1; to >= 0 && model[to] == 0;)
                    to--;
            }
            bool wanted = to >= 0 && to < 26;
            cr_assert_eq(on, wanted, "round %u step %u", round, step);
            at = wanted ? to : -1;
            if (!on)
                continue;
            cr_assert_eq(*(const char *)kv_txn_iter_key(iter).data, 'a' + at);
            cr_assert_eq(*(const char *)kv_txn_iter_value(iter).data, model[at]);
        }
        kv_txn_iter_close(iter);
        kv_txn_close(txn);
    }
    teardown(&bench);
}

/* ---- Optimistic ----------------------------------------------------------- */

TestSuite(txn_optimistic, .timeout = 60);

static struct row optimistic(const struct row *row, kv_txn_isolation isolation)
{
    struct row changed = *row;
    changed.mode = KV_TXN_OPTIMISTIC;
    changed.isolation = isolation;
    return changed;
}

EVERY(txn_optimistic, a_to_b_to_a_conflicts)
{
    struct row changed = optimistic(row, KV_TXN_SERIALIZABLE);
    struct bench bench;
    setup(&bench, &changed, 0);
    set(&bench, "k", "A");
    kv_txn *txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "k"), "A");
    set(&bench, "k", "B");
    set(&bench, "k", "A");
    cr_expect_eq(put(&bench, txn, "other", "1"), KV_OK);
    kv_status status = KV_STATUS_INIT;
    cr_expect_eq(kv_txn_commit(txn, &status), KV_CONFLICT);
    cr_expect_eq(kv_txn_state_of(txn), KV_TXN_FAILED);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_BAD_STATE);
    kv_txn_close(txn);
    txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "other"), "-");
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn_optimistic, reads_are_of_one_moment_or_conflict)
{
    struct row changed = optimistic(row, row->isolation);
    struct bench bench;
    setup(&bench, &changed, 0);
    set(&bench, "a", "0");
    set(&bench, "b", "0");
    kv_txn *txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "a"), "0");
    kv_txn *other = begin(&bench);
    cr_expect_eq(put(&bench, other, "a", "1"), KV_OK);
    cr_expect_eq(put(&bench, other, "b", "1"), KV_OK);
    cr_expect_eq(kv_txn_commit(other, NULL), KV_OK);
    kv_txn_close(other);
    cr_expect_str_eq(get(&bench, txn, "b"),
                     changed.isolation == KV_TXN_SNAPSHOT ? "0" : "CONFLICT");
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn_optimistic, an_unrelated_commit_moves_the_moment_forward)
{
    struct row changed = optimistic(row, KV_TXN_SERIALIZABLE);
    struct bench bench;
    setup(&bench, &changed, 0);
    kv_txn *txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "a"), "-");
    set(&bench, "b", "1");
    cr_expect_str_eq(get(&bench, txn, "b"), "1");
    cr_expect_eq(put(&bench, txn, "c", "1"), KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}

static void write_skew(struct bench *bench, kv_code wanted)
{
    set(bench, "x", "1");
    set(bench, "y", "1");
    kv_txn *a = begin(bench), *b = begin(bench);
    cr_expect_str_eq(get(bench, a, "x"), "1");
    cr_expect_str_eq(get(bench, b, "y"), "1");
    cr_expect_eq(put(bench, a, "y", "0"), KV_OK);
    cr_expect_eq(put(bench, b, "x", "0"), KV_OK);
    cr_expect_eq(kv_txn_commit(a, NULL), KV_OK);
    cr_expect_eq(kv_txn_commit(b, NULL), wanted);
    kv_txn_close(a);
    kv_txn_close(b);
}

EVERY(txn_optimistic, write_skew_only_under_snapshot)
{
    struct row changed = optimistic(row, row->isolation);
    struct bench bench;
    setup(&bench, &changed, 0);
    write_skew(&bench, changed.isolation == KV_TXN_SNAPSHOT ? KV_OK : KV_CONFLICT);
    teardown(&bench);
}

EVERY(txn_optimistic, a_lost_update_conflicts)
{
    struct row changed = optimistic(row, row->isolation);
    struct bench bench;
    setup(&bench, &changed, 0);
    set(&bench, "k", "0");
    kv_txn *a = begin(&bench), *b = begin(&bench);
    cr_expect_str_eq(get(&bench, a, "k"), "0");
    cr_expect_str_eq(get(&bench, b, "k"), "0");
    cr_expect_eq(put(&bench, a, "k", "a"), KV_OK);
    cr_expect_eq(put(&bench, b, "k", "b"), KV_OK);
    cr_expect_eq(kv_txn_commit(a, NULL), KV_OK);
    cr_expect_eq(kv_txn_commit(b, NULL), KV_CONFLICT);
    kv_txn_close(a);
    kv_txn_close(b);
    teardown(&bench);
}

EVERY(txn_optimistic, a_phantom_conflicts_under_serializable)
{
    struct row changed = optimistic(row, row->isolation);
    struct bench bench;
    setup(&bench, &changed, 0);
    set(&bench, "a", "0");
    kv_txn *txn = begin(&bench);
    cr_expect_str_eq(scan(&bench, txn, "a", "m", false), "a=0 ");
    set(&bench, "b", "0"); /* inside */
    cr_expect_str_eq(scan(&bench, txn, "a", "m", false), "a=0 ");
    cr_expect_eq(put(&bench, txn, "x", "1"), KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL),
                 changed.isolation == KV_TXN_SNAPSHOT ? KV_OK : KV_CONFLICT);
    kv_txn_close(txn);

    txn = begin(&bench);
    cr_expect_str_eq(scan(&bench, txn, "a", "m", false), "a=0 b=0 ");
    set(&bench, "z", "0"); /* outside */
    cr_expect_eq(put(&bench, txn, "y", "1"), KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn_optimistic, get_for_update_guards_under_snapshot)
{
    struct row changed = optimistic(row, KV_TXN_SNAPSHOT);
    struct bench bench;
    setup(&bench, &changed, 0);
    set(&bench, "x", "1");
    kv_txn *txn = begin(&bench);
    kv_value value = KV_VALUE_INIT;
    cr_expect_eq(kv_txn_get_for_update(txn, bench.space, kv_text("x"), &value, NULL), KV_OK);
    kv_value_release(&value);
    set(&bench, "x", "2");
    cr_expect_eq(put(&bench, txn, "y", "0"), KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_CONFLICT);
    kv_txn_close(txn);
    teardown(&bench);
}

static kv_code bump(kv_txn *txn, void *context, kv_status *status)
{
    struct bench *bench = context;
    uint64_t number = 0;
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_txn_get_for_update(txn, bench->space, kv_text("count"), &value, status);
    if (code == KV_OK)
        memcpy(&number, value.bytes.data, sizeof(number));
    kv_value_release(&value);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;
    number++;
    return kv_txn_put(txn, bench->space, kv_text("count"), kv_bytes(&number, sizeof(number)),
                      status);
}

static void *bump_often(void *context)
{
    struct bench *bench = context;
    for (unsigned i = 0; i < 200; i++) {
        kv_status status = KV_STATUS_INIT;
        kv_code code = kv_txn_run(bench->manager, bump, bench, &status);
        cr_assert_eq(code, KV_OK, "%s", status.message);
    }
    return NULL;
}

EVERY(txn, run_retries_until_every_increment_counts)
{
    struct bench bench;
    setup(&bench, row, 0);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, bump_often, &bench);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    kv_value value = KV_VALUE_INIT;
    uint64_t number = 0;
    cr_assert_eq(kv_get(bench.space, NULL, kv_text("count"), &value, NULL), KV_OK);
    memcpy(&number, value.bytes.data, sizeof(number));
    kv_value_release(&value);
    cr_expect_eq(number, 800);
    teardown(&bench);
}

/* ---- Pessimistic ---------------------------------------------------------- */

TestSuite(txn_pessimistic, .timeout = 60);

static struct row pessimistic(const struct row *row, kv_txn_isolation isolation)
{
    struct row changed = *row;
    changed.mode = KV_TXN_PESSIMISTIC;
    changed.isolation = isolation;
    return changed;
}

EVERY(txn_pessimistic, a_held_key_times_out)
{
    struct row changed = pessimistic(row, row->isolation);
    struct bench bench;
    setup(&bench, &changed, 30);
    kv_txn *a = begin(&bench), *b = begin(&bench);
    cr_expect_eq(put(&bench, a, "k", "a"), KV_OK);
    cr_expect_eq(put(&bench, b, "k", "b"), KV_TIMEOUT);
    cr_expect_eq(kv_txn_state_of(b), KV_TXN_FAILED);
    cr_expect_eq(put(&bench, b, "l", "b"), KV_BAD_STATE);
    kv_txn_close(b);
    cr_expect_eq(put(&bench, a, "k", "a2"), KV_OK); /* the same key twice */
    cr_expect_eq(kv_txn_commit(a, NULL), KV_OK);
    kv_txn_close(a);
    cr_expect_eq(kv_txn_manager_counts(bench.manager).timeouts, 1);
    teardown(&bench);
}

EVERY(txn_pessimistic, the_only_reader_may_upgrade)
{
    struct row changed = pessimistic(row, KV_TXN_SERIALIZABLE);
    struct bench bench;
    setup(&bench, &changed, 30);
    kv_txn *txn = begin(&bench), *other = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "k"), "-");
    cr_expect_eq(put(&bench, txn, "k", "1"), KV_OK);
    cr_expect_str_eq(get(&bench, other, "k"), "TIMEOUT");
    kv_txn_close(other);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn_pessimistic, rollback_lets_go_of_inner_locks)
{
    struct row changed = pessimistic(row, KV_TXN_SERIALIZABLE);
    struct bench bench;
    setup(&bench, &changed, 30);
    kv_txn *txn = begin(&bench), *other = begin(&bench);
    kv_txn_savepoint savepoint;
    cr_expect_str_eq(get(&bench, txn, "shared"), "-");
    cr_expect_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_OK);
    cr_expect_eq(put(&bench, txn, "inner", "1"), KV_OK);
    cr_expect_eq(put(&bench, txn, "shared", "1"), KV_OK); /* an upgrade */
    cr_expect_eq(kv_txn_savepoint_rollback(txn, savepoint, NULL), KV_OK);
    cr_expect_eq(put(&bench, other, "inner", "2"), KV_OK);
    cr_expect_str_eq(get(&bench, other, "shared"), "-"); /* shared again */
    cr_expect_eq(kv_txn_commit(other, NULL), KV_OK);
    kv_txn_close(other);
    kv_txn_close(txn);
    teardown(&bench);
}

EVERY(txn_pessimistic, a_scan_keeps_phantoms_out)
{
    struct row changed = pessimistic(row, KV_TXN_SERIALIZABLE);
    struct bench bench;
    setup(&bench, &changed, 30);
    kv_txn *a = begin(&bench), *b = begin(&bench);
    cr_expect_str_eq(scan(&bench, a, "a", "m", false), "");
    cr_expect_eq(put(&bench, b, "b", "1"), KV_TIMEOUT);
    kv_txn_close(b);
    cr_expect_eq(put(&bench, a, "b", "1"), KV_OK); /* its own */
    cr_expect_eq(kv_txn_commit(a, NULL), KV_OK);
    kv_txn_close(a);
    teardown(&bench);
}

struct crossing {
    struct bench *bench;
    const char *first, *second;
    pthread_barrier_t *both_hold;
    kv_code code;
};

static void *cross(void *argument)
{
    struct crossing *crossing = argument;
    kv_txn *txn = begin(crossing->bench);
    cr_assert_eq(put(crossing->bench, txn, crossing->first, "1"), KV_OK);
    pthread_barrier_wait(crossing->both_hold);
    crossing->code = put(crossing->bench, txn, crossing->second, "1");
    if (crossing->code == KV_OK)
        crossing->code = kv_txn_commit(txn, NULL);
    kv_txn_close(txn);
    return NULL;
}

EVERY(txn_pessimistic, one_of_a_deadlock_gives_way)
{
    struct row changed = pessimistic(row, KV_TXN_SERIALIZABLE);
    struct bench bench;
    setup(&bench, &changed, 5000);
    pthread_barrier_t both_hold;
    pthread_barrier_init(&both_hold, NULL, 2);
    struct crossing a = { &bench, "x", "y", &both_hold, KV_OK };
    struct crossing b = { &bench, "y", "x", &both_hold, KV_OK };
    pthread_t thread;
    pthread_create(&thread, NULL, cross, &a);
    cross(&b);
    pthread_join(thread, NULL);
    cr_expect((a.code == KV_OK && b.code == KV_DEADLOCK) ||
                  (a.code == KV_DEADLOCK && b.code == KV_OK),
              "%s, %s", kv_code_name(a.code), kv_code_name(b.code));
    pthread_barrier_destroy(&both_hold);
    teardown(&bench);
}

/* Locks know nothing of drivers. */
static const struct row locking = { "memory", KV_TXN_PESSIMISTIC, KV_TXN_SERIALIZABLE };

/* A put of another thread that waits for its lock. */
struct waiter {
    struct bench *bench;
    kv_txn *txn;
    const char *key;
    bool reads;
    kv_code code;
    pthread_t thread;
};

static void *wait_and_commit(void *argument)
{
    struct waiter *waiter = argument;
    kv_value value = KV_VALUE_INIT;
    waiter->code = waiter->reads ? kv_txn_get(waiter->txn, waiter->bench->space,
                                              kv_text(waiter->key), &value, NULL)
                                 : put(waiter->bench, waiter->txn, waiter->key, "1");
    kv_value_release(&value);
    if (waiter->code == KV_OK || waiter->code == KV_NOT_FOUND)
        waiter->code = kv_txn_commit(waiter->txn, NULL);
    kv_txn_close(waiter->txn);
    return NULL;
}

/* Start it, and come back when it waits as the `count`th. */
static void waiter_start(struct waiter *waiter, uint64_t count)
{
    pthread_create(&waiter->thread, NULL, wait_and_commit, waiter);
    while (kv_txn_manager_counts(waiter->bench->manager).lock_waits < count)
        sched_yield();
}

static void waiter_end(struct waiter *waiter)
{
    pthread_join(waiter->thread, NULL);
    cr_expect_eq(waiter->code, KV_OK, "%s", kv_code_name(waiter->code));
}

/* Put what closes a circle with both, end all, and see that one gave way: whoever of
 * the circle was first to look. */
static void circle_close(struct bench *bench, kv_txn *txn, const char *key, struct waiter *a,
                         struct waiter *b)
{
    kv_code code = put(bench, txn, key, "1");
    if (code == KV_OK)
        code = kv_txn_commit(txn, NULL);
    kv_txn_close(txn);
    pthread_join(a->thread, NULL);
    if (b != NULL)
        pthread_join(b->thread, NULL);
    kv_code codes[] = { code, a->code, b == NULL ? KV_OK : b->code };
    unsigned gave_way = 0;
    for (size_t i = 0; i < 3; i++) {
        cr_expect(codes[i] == KV_OK || codes[i] == KV_DEADLOCK, "%s", kv_code_name(codes[i]));
        gave_way += codes[i] == KV_DEADLOCK;
    }
    cr_expect_eq(gave_way, 1);
    cr_expect_eq(kv_txn_manager_counts(bench->manager).deadlocks, 1);
}

Test(txn_pessimistic, one_of_a_circle_of_three_gives_way)
{
    struct bench bench;
    setup(&bench, &locking, 50000);
    kv_txn *c = begin(&bench);
    struct waiter a = { .bench = &bench, .txn = begin(&bench), .key = "y" };
    struct waiter b = { .bench = &bench, .txn = begin(&bench), .key = "z" };
    cr_expect_eq(put(&bench, a.txn, "x", "1"), KV_OK);
    cr_expect_eq(put(&bench, b.txn, "y", "1"), KV_OK);
    cr_expect_eq(put(&bench, c, "z", "1"), KV_OK);
    waiter_start(&a, 1);
    waiter_start(&b, 2);
    circle_close(&bench, c, "x", &a, &b);
    teardown(&bench);
}

Test(txn_pessimistic, a_circle_through_a_place_in_line_is_found)
{
    struct bench bench;
    setup(&bench, &locking, 50000);
    kv_txn *a = begin(&bench);
    struct waiter b = { .bench = &bench, .txn = begin(&bench), .key = "x" };
    struct waiter c = { .bench = &bench, .txn = begin(&bench), .key = "x", .reads = true };
    cr_expect_str_eq(get(&bench, a, "x"), "-");
    cr_expect_eq(put(&bench, c.txn, "y", "1"), KV_OK);
    waiter_start(&b, 1); /* for a */
    waiter_start(&c, 2); /* behind b, though a's lock would let it pass */
    circle_close(&bench, a, "y", &b, &c);
    teardown(&bench);
}

Test(txn_pessimistic, of_two_readers_that_upgrade_one_gives_way)
{
    struct bench bench;
    setup(&bench, &locking, 50000);
    kv_txn *a = begin(&bench);
    struct waiter b = { .bench = &bench, .txn = begin(&bench), .key = "x" };
    cr_expect_str_eq(get(&bench, a, "x"), "-");
    cr_expect_str_eq(get(&bench, b.txn, "x"), "-");
    waiter_start(&b, 1);
    circle_close(&bench, a, "x", &b, NULL);
    teardown(&bench);
}

Test(txn_pessimistic, who_waits_without_a_circle_is_served)
{
    struct bench bench;
    setup(&bench, &locking, 50000);
    kv_txn *a = begin(&bench);
    struct waiter b = { .bench = &bench, .txn = begin(&bench), .key = "x" };
    struct waiter c = { .bench = &bench, .txn = begin(&bench), .key = "y" };
    cr_expect_eq(put(&bench, a, "x", "1"), KV_OK);
    cr_expect_eq(put(&bench, b.txn, "y", "1"), KV_OK);
    waiter_start(&c, 1); /* so b, which is about to wait, is awaited itself */
    waiter_start(&b, 2);
    cr_expect_eq(kv_txn_commit(a, NULL), KV_OK);
    kv_txn_close(a);
    waiter_end(&b);
    waiter_end(&c);
    cr_expect_eq(kv_txn_manager_counts(bench.manager).deadlocks, 0);
    teardown(&bench);
}

Test(txn_pessimistic, a_hundred_thousand_locks)
{
    struct bench bench;
    setup(&bench, &locking, 30);
    kv_txn *txn = begin(&bench);
    kv_code code = KV_OK;
    for (unsigned i = 0; i < 100000 && code == KV_OK; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%u", i);
        code = kv_txn_put(txn, bench.space, kv_text(key), kv_bytes(NULL, 0), NULL);
    }
    cr_expect_eq(code, KV_OK);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}
