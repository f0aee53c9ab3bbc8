/* test_pessimistic.c - locks: who waits, who times out, who gives way. */
#include "test/txn/fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

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

/* What is remembered of the locks taken last goes with them. */
Test(txn_pessimistic, who_rolled_back_holds_neither_key_nor_space)
{
    struct bench bench;
    setup(&bench, &locking, 50);
    kv_txn *txn = begin(&bench);
    kv_txn_savepoint savepoint;
    cr_assert_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_OK);
    cr_assert_eq(put(&bench, txn, "x", "1"), KV_OK);
    cr_assert_eq(kv_txn_savepoint_rollback(txn, savepoint, NULL), KV_OK);
    kv_txn *other = begin(&bench);
    cr_expect_str_eq(scan(&bench, other, "", "", false), "");
    cr_expect_eq(put(&bench, txn, "x", "2"), KV_TIMEOUT);
    kv_txn_close(other);
    kv_txn_close(txn);

    txn = begin(&bench);
    cr_expect_str_eq(get(&bench, txn, "y"), "-");
    cr_assert_eq(kv_txn_savepoint_take(txn, &savepoint, NULL), KV_OK);
    cr_assert_eq(put(&bench, txn, "y", "1"), KV_OK);
    cr_assert_eq(kv_txn_savepoint_rollback(txn, savepoint, NULL), KV_OK);
    other = begin(&bench);
    cr_expect_str_eq(get(&bench, other, "y"), "-");
    cr_expect_eq(put(&bench, txn, "y", "2"), KV_TIMEOUT);
    kv_txn_close(other);
    kv_txn_close(txn);
    teardown(&bench);
}
