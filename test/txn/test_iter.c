/* test_iter.c - walks over the store and own writes. */
#include "test/txn/fixture.h"

#include <stdio.h>
#include <string.h>

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

/* ---- Against a plain model --------------------------------------------------- */

enum { LETTERS = 26, ROUNDS = 8, MOVES = 300 };

static unsigned chance(uint64_t *random, unsigned below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*random >> 33) % below;
}

/* Values of one letter under keys of one letter, a third of them absent; committed. */
static void base_write(struct bench *bench, uint64_t *random)
{
    kv_txn *txn = begin(bench);
    for (char key[2] = "a"; key[0] <= 'z'; key[0]++) {
        const char value[2] = { (char)('A' + chance(random, 26)), 0 };
        cr_assert_eq(
            chance(random, 3) == 0 ? del(bench, txn, key) : put(bench, txn, key, value), KV_OK);
    }
    cr_assert_eq(kv_txn_commit(txn, NULL), KV_OK);
    kv_txn_close(txn);
}

/* Own writes on top, of a third each put, deleted and left; `model` gets each key's letter
 * as it is to be seen, 0 where there is none. */
static void own_write(struct bench *bench, kv_txn *txn, char model[LETTERS], uint64_t *random)
{
    for (char key[2] = "a"; key[0] <= 'z'; key[0]++) {
        const char *value = get(bench, txn, key);
        char *seen = &model[key[0] - 'a'];
        *seen = value[0] == '-' ? 0 : value[0];
        unsigned kind = chance(random, 3);
        if (kind == 0) {
            cr_assert_eq(del(bench, txn, key), KV_OK);
            *seen = 0;
        } else if (kind == 1) {
            cr_assert_eq(put(bench, txn, key, "x"), KV_OK);
            *seen = 'x';
        }
    }
}

/* The first letter that is there, from `at` on in the direction of `step`; -1: none. */
static int model_find(const char model[LETTERS], int at, int step)
{
    while (at >= 0 && at < LETTERS && model[at] == 0)
        at += step;
    return at < LETTERS ? at : -1;
}

/* Move the walk and the model, which is at `*at`, alike. */
static bool move_both(kv_txn_iter *iter, const char model[LETTERS], int *at, uint64_t *random)
{
    unsigned kind = chance(random, *at < 0 ? 3 : 9); /* off an entry only position */
    if (kind == 0) {
        *at = model_find(model, 0, 1);
        return kv_txn_iter_first(iter);
    }
    if (kind == 1) {
        *at = model_find(model, LETTERS - 1, -1);
        return kv_txn_iter_last(iter);
    }
    if (kind == 2) {
        char key = (char)('a' + chance(random, LETTERS));
        *at = model_find(model, key - 'a', 1);
        return kv_txn_iter_seek(iter, kv_bytes(&key, 1));
    }
    if (kind < 6) {
        *at = model_find(model, *at + 1, 1);
        return kv_txn_iter_next(iter);
    }
    *at = model_find(model, *at - 1, -1);
    return kv_txn_iter_prev(iter);
}

EVERY(txn_iter, random_walks_equal_a_model)
{
    struct bench bench;
    setup(&bench, row, 0);
    uint64_t random = 42;
    for (unsigned round = 0; round < ROUNDS; round++) {
        char model[LETTERS];
        base_write(&bench, &random);
        kv_txn *txn = begin(&bench);
        own_write(&bench, txn, model, &random);
        kv_txn_iter *iter;
        cr_assert_eq(kv_txn_iter_open(txn, bench.space, NULL, &iter, NULL), KV_OK);
        int at = -1; /* off */
        for (unsigned step = 0; step < MOVES; step++) {
            bool on = move_both(iter, model, &at, &random);
            cr_assert_eq(on, at >= 0, "round %u step %u", round, step);
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
