/* test_txn.c - the life of a transaction, ids, savepoints, retries. */
#include "test/txn/fixture.h"

#include <pthread.h>
#include <string.h>

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

/* ---- Retrying ------------------------------------------------------------- */

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
