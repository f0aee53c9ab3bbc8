/* test_optimistic.c - what conflicts, and what does not, where nothing is locked. */
#include "drivers/drivers.h"
#include "test/txn/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* ---- A commit under way ----------------------------------------------------- */

enum { SLOW_COMMIT_MS = 300, READER_CPU_MS_MAX = 20 };

static kv_driver slow_driver;
static _Atomic bool committing;

static kv_code slow_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    atomic_store(&committing, true);
    usleep(SLOW_COMMIT_MS * 1000);
    return memory_driver.batch_commit(batch, flags, status);
}

static void *set_slowly(void *context)
{
    set(context, "k", "new");
    return NULL;
}

static long cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (long)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* The commit may need the processor that a reader would look on again and again. */
Test(txn_optimistic, who_reads_what_is_being_committed_sleeps)
{
    slow_driver = memory_driver;
    slow_driver.name = "slow";
    slow_driver.batch_commit = slow_commit;
    cr_assert_eq(kv_driver_register(&slow_driver, NULL), KV_OK);
    const struct row row = { "slow", KV_TXN_OPTIMISTIC, KV_TXN_SERIALIZABLE };
    struct bench bench;
    pthread_t thread;
    setup(&bench, &row, 0);
    kv_txn *txn = begin(&bench);
    pthread_create(&thread, NULL, set_slowly, &bench);
    while (!atomic_load(&committing))
        usleep(1000);
    long before = cpu_ms();
    cr_expect_str_eq(get(&bench, txn, "k"), "new");
    long used = cpu_ms() - before;
    cr_expect_lt(used, READER_CPU_MS_MAX, "%ld ms of a processor", used);
    pthread_join(thread, NULL);
    cr_expect_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
    teardown(&bench);
}
