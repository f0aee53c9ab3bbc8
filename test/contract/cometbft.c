/*
 * cometbft.c - the cases that cometbft-db's own tests check, in their order.
 *
 * Where a rule of ours differs on purpose the test says so: see docs/contract.md.
 */
#include "test/contract/contract.h"

#include <stdio.h>
#include <string.h>

static kv_slice none(void)
{
    return kv_bytes(NULL, 0);
}

CONTRACT_TEST(cometbft, get_set_delete)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;

    assert_text(get(space, "a"), "-");
    put(space, "a", "1");
    assert_text(get(space, "a"), "1");
    assert_ok(kv_put(space, kv_text("b"), kv_text("2"), KV_SYNC, status));
    assert_text(get(space, "b"), "2");

    del(space, "absent");
    assert_ok(kv_delete(space, kv_text("absent"), KV_SYNC, status));
    del(space, "a");
    assert_text(get(space, "a"), "-");
    assert_ok(kv_delete(space, kv_text("b"), KV_SYNC, status));
    assert_text(get(space, "b"), "-");
    store_free(&store);
}

CONTRACT_TEST(cometbft, empty_keys_and_values)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    kv_slice empties[] = { { NULL, 0 }, { "", 0 } };
    for (size_t i = 0; i < 2; i++) {
        kv_value value = KV_VALUE_INIT;
        kv_slice empty = empties[i];
        assert_code(KV_INVALID, kv_get(space, NULL, empty, &value, status));
        assert_code(KV_INVALID, kv_put(space, empty, kv_text("1"), 0, status));
        assert_code(KV_INVALID, kv_put(space, empty, kv_text("1"), KV_SYNC, status));
        assert_code(KV_INVALID, kv_delete(space, empty, 0, status));
        assert_code(KV_INVALID, kv_delete(space, empty, KV_SYNC, status));

        /* A value without bytes is a value; NULL with no size is the same. */
        assert_ok(kv_put(space, kv_text("x"), empty, i == 0 ? 0 : KV_SYNC, status));
        assert_text(get(space, "x"), "");
        assert_ok(kv_get(space, NULL, kv_text("x"), &value, status));
        cr_assert(value.bytes.size == 0, "an empty value of %zu bytes", value.bytes.size);
        kv_value_release(&value);
    }
    assert_text(get(space, "y"), "-");
    assert_text(keys(space, NULL, NULL), "x");

    assert_ok(kv_compact(space, NULL, status));
    put(space, "y", "2");
    assert_ok(kv_compact(space, NULL, status));
    assert_text(pairs_at(space, NULL), "x= y=2");
    store_free(&store);
}

/* ---- Iterators: big-endian numbers 0 to 9 without 6 ------------------------- */

static kv_slice number_key(unsigned char bytes[8], int number)
{
    memset(bytes, 0, 8);
    bytes[7] = (unsigned char)number;
    return kv_bytes(bytes, 8);
}

struct number_case {
    int first, limit; /* -1: no bound */
    bool back;
    const char *expected;
};

static void check_numbers(kv_space *space, const struct number_case *one)
{
    unsigned char first[8];
    unsigned char limit[8];
    char got[64] = "";
    kv_range range = { one->first < 0 ? none() : number_key(first, one->first),
                       one->limit < 0 ? none() : number_key(limit, one->limit) };
    kv_iter *iter = iter_open(space, NULL, &range);
    memset(first, 0xaa, sizeof(first)); /* the bounds were copied */
    memset(limit, 0xaa, sizeof(limit));
    bool on = one->back ? kv_iter_last(iter) : kv_iter_first(iter);
    while (on) {
        const unsigned char *key = kv_iter_key(iter).data;
        size_t size = strlen(got);
        cr_assert(kv_iter_key(iter).size == 8 && kv_iter_value(iter).size == 0, "sizes");
        snprintf(got + size, sizeof(got) - size, "%d", key[7]);
        on = one->back ? kv_iter_prev(iter) : kv_iter_next(iter);
    }
    assert_ok(kv_iter_status(iter, status));
    kv_iter_close(iter);
    cr_expect_str_eq(got, one->expected, "[%d, %d) %s: %s, not %s", one->first, one->limit,
                     one->back ? "back" : "forth", got, one->expected);
}

CONTRACT_TEST(cometbft, iterators)
{
    static const struct number_case cases[] = {
        { -1, -1, false, "012345789" },
        { -1, -1, true, "987543210" },
        { -1, 0, false, "" },
        { 10, -1, true, "" },
        { 0, -1, false, "012345789" },
        { 1, -1, false, "12345789" },
        { -1, 10, true, "987543210" },
        { -1, 9, true, "87543210" },
        { -1, 8, true, "7543210" },
        { 5, 6, false, "5" },
        { 5, 7, false, "5" },
        { 5, 8, false, "57" },
        { 6, 7, false, "" },
        { 6, 8, false, "7" },
        { 7, 8, false, "7" },
        { 4, 5, true, "4" },
        { 4, 6, true, "54" },
        { 4, 7, true, "54" },
        { 5, 6, true, "5" },
        { 5, 7, true, "5" },
        { 6, 7, true, "" },
        { 10, -1, true, "" },
        { 6, -1, true, "987" },
        { 5, -1, true, "9875" },
        { 8, 9, true, "8" },
        { 2, 4, true, "32" },
        { 4, 2, true, "" },
        { 4, 2, false, "" },
        { 3, 3, true, "" },
        { 3, 3, false, "" },
    };
    struct store store;
    unsigned char key[8];
    contract_store(&store, row);
    check_numbers(store.space, &(struct number_case){ -1, -1, false, "" });
    check_numbers(store.space, &(struct number_case){ -1, -1, true, "" });
    for (int i = 0; i < 10; i++)
        if (i != 6)
            assert_ok(kv_put(store.space, number_key(key, i), none(), 0, status));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_numbers(store.space, &cases[i]);

    /* Ours: an empty bound, NULL or not, is no bound. Theirs: an error. */
    kv_range open = { kv_bytes("", 0), kv_bytes("", 0) };
    kv_iter *iter = iter_open(store.space, NULL, &open);
    cr_assert(kv_iter_first(iter) && kv_iter_last(iter), "an empty bound is no bound");
    kv_iter_close(iter);
    store_free(&store);
}

/* ---- Batches ---------------------------------------------------------------- */

CONTRACT_TEST(cometbft, batches)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    kv_batch *batch = NULL;
    assert_ok(kv_batch_new(store.db, &batch, status));
    kv_batch_put(batch, space, kv_text("a"), kv_text("1"));
    kv_batch_put(batch, space, kv_text("b"), kv_text("2"));
    kv_batch_put(batch, space, kv_text("c"), kv_text("3"));
    assert_text(pairs_at(space, NULL), "");
    assert_ok(kv_batch_commit(batch, 0, status));
    assert_text(pairs_at(space, NULL), "a=1 b=2 c=3");

    /* Ours: a committed batch is empty and may be used again. Theirs: closed. */
    cr_assert(kv_batch_count(batch) == 0 && kv_batch_size(batch) == 0, "not emptied");
    assert_ok(kv_batch_commit(batch, KV_SYNC, status));
    kv_batch_delete(batch, space, kv_text("a"));
    kv_batch_put(batch, space, kv_text("a"), kv_text("1"));
    kv_batch_put(batch, space, kv_text("b"), kv_text("1"));
    kv_batch_put(batch, space, kv_text("b"), kv_text("2"));
    kv_batch_put(batch, space, kv_text("c"), kv_text("3"));
    kv_batch_delete(batch, space, kv_text("c"));
    cr_assert(kv_batch_count(batch) == 6, "%zu operations", kv_batch_count(batch));
    assert_ok(kv_batch_commit(batch, KV_SYNC, status));
    assert_text(pairs_at(space, NULL), "a=1 b=2");
    kv_batch_free(batch);

    /* A bad key is told at commit, and nothing is written. */
    kv_slice empties[] = { { NULL, 0 }, { "", 0 } };
    for (size_t i = 0; i < 4; i++) {
        assert_ok(kv_batch_new(store.db, &batch, status));
        kv_batch_put(batch, space, kv_text("z"), kv_text("9"));
        if (i < 2)
            kv_batch_put(batch, space, empties[i], kv_text("1"));
        else
            kv_batch_delete(batch, space, empties[i - 2]);
        assert_code(KV_INVALID, kv_batch_commit(batch, 0, status));
        assert_code(KV_INVALID, kv_batch_commit(batch, 0, status)); /* until cleared */
        kv_batch_clear(batch);
        assert_ok(kv_batch_commit(batch, 0, status));
        kv_batch_free(batch);
    }
    kv_batch_free(NULL);
    assert_text(pairs_at(space, NULL), "a=1 b=2");
    store_free(&store);
}

/* ---- db_test ----------------------------------------------------------------- */

static void check_ended(kv_iter *iter)
{
    for (int i = 0; i < 3; i++) {
        cr_assert(!kv_iter_next(iter) && !kv_iter_prev(iter), "moved after the end");
        cr_assert(kv_iter_key(iter).size == 0 && kv_iter_value(iter).size == 0, "bytes");
    }
    assert_ok(kv_iter_status(iter, status));
}

CONTRACT_TEST(cometbft, ends_of_walks)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    kv_iter *iter = iter_open(space, NULL, NULL);
    check_ended(iter); /* on no entry yet */
    cr_assert(!kv_iter_first(iter) && !kv_iter_last(iter), "empty");
    check_ended(iter);
    kv_iter_close(iter);

    kv_range range = text_range("1", NULL);
    iter = iter_open(space, NULL, &range);
    cr_assert(!kv_iter_first(iter), "empty from 1");
    kv_iter_close(iter);

    put(space, "value_1", "0123456789");
    iter = iter_open(space, NULL, NULL);
    cr_assert(kv_iter_first(iter) && kv_iter_key(iter).size == 7, "one key");
    cr_assert(!kv_iter_next(iter), "only one key");
    check_ended(iter);
    kv_iter_close(iter);

    put(space, "value_2", "0123456789");
    iter = iter_open(space, NULL, NULL);
    cr_assert(kv_iter_first(iter) && kv_iter_next(iter) && !kv_iter_next(iter), "two keys");
    check_ended(iter);
    cr_assert(kv_iter_seek(iter, kv_text("value_2")), "positioned anew");
    kv_iter_close(iter);

    range = text_range("value_3", NULL);
    iter = iter_open(space, NULL, &range);
    cr_assert(!kv_iter_first(iter) && !kv_iter_last(iter), "start after the last");
    kv_iter_close(iter);
    kv_iter_close(NULL);
    store_free(&store);
}

CONTRACT_TEST(cometbft, gets_while_walking)
{
    struct store store;
    contract_store(&store, row);
    for (unsigned i = 0; i < 100; i++) {
        unsigned char byte = (unsigned char)i;
        assert_ok(kv_put(store.space, kv_bytes(&byte, 1), kv_bytes(&byte, 1), 0, status));
    }
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    unsigned count = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_value value = KV_VALUE_INIT;
        assert_ok(kv_get(store.space, NULL, kv_iter_key(iter), &value, status));
        cr_assert(kv_compare(value.bytes, kv_iter_value(iter)) == 0 &&
                      *(const unsigned char *)value.bytes.data == count,
                  "key %u", count);
        kv_value_release(&value);
        count++;
    }
    assert_ok(kv_iter_status(iter, status));
    cr_assert(count == 100, "%u keys", count);
    kv_iter_close(iter);
    store_free(&store);
}

/* ---- Prefixes ---------------------------------------------------------------- */

static const char *with_prefix(kv_space *space, const char *prefix, bool back)
{
    char limit[64];
    kv_range range = kv_range_of_prefix(kv_text(prefix), limit);
    return keys_of(iter_open(space, NULL, &range), back);
}

CONTRACT_TEST(cometbft, prefixes)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    assert_text(with_prefix(space, "2", false), "");

    kv_iter *iter = iter_open(space, NULL, NULL);
    assert_ok(kv_put(space, kv_text("2"), kv_text("value_2"), KV_SYNC, status));
    cr_assert(!kv_iter_first(iter), "an iterator sees the moment it was opened at");
    kv_iter_close(iter);
    assert_text(with_prefix(space, "3", false), "");
    assert_text(with_prefix(space, "2", false), "2");
    del(space, "2");

    put(space, "a/1", "value_1");
    put(space, "a/3", "value_3");
    put(space, "b/3", "value_3");
    put(space, "a-3", "value_3");
    put(space, "a.3", "value_3");
    put(space, "abcdefg", "value_3");
    assert_text(with_prefix(space, "a/", false), "a/1 a/3");
    assert_text(with_prefix(space, "a/", true), "a/3 a/1");
    store_free(&store);
}

/* Their prefix database is our space: nothing of its neighbours shows. */
CONTRACT_TEST(cometbft, spaces_for_prefix_databases)
{
    struct store store;
    contract_store(&store, row);
    kv_space *outer = store.space;
    kv_space *inner = store_space(&store, "key");
    static const char *const names[] = { "key", "key1", "key2", "key3", "something",
                                         "k",   "ke",   "kee",  "a",    "z" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        put(outer, names[i], "outer");
    put(inner, "1", "value1");
    put(inner, "2", "value2");
    put(inner, "3", "value3");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_text(get(inner, names[i]), "-");
    assert_text(get(inner, "1"), "value1");
    assert_text(get(inner, "3"), "value3");
    assert_text(get(outer, "1"), "-");
    assert_text(keys(inner, NULL, NULL), "1 2 3");
    assert_text(keys_back(inner, NULL, NULL), "3 2 1");
    assert_text(keys_back(inner, "1", NULL), "3 2 1");
    assert_text(keys_back(inner, "2", NULL), "3 2");
    assert_text(keys_back(inner, NULL, "2"), "1");
    assert_text(keys(outer, "key", "l"), "key key1 key2 key3");
    store_free(&store);
}
