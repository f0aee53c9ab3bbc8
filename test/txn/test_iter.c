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
