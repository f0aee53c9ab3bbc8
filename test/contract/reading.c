/* reading.c - walks, prefixes, snapshots and reads of many keys. */
#include "test/contract/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Walks -------------------------------------------------------------------- */

static const char *seek(kv_iter *iter, const char *key, bool before)
{
    static char text[64];
    bool on =
        before ? kv_iter_seek_for_prev(iter, kv_text(key)) : kv_iter_seek(iter, kv_text(key));
    kv_slice at = kv_iter_key(iter);
    snprintf(text, sizeof(text), "%.*s", (int)at.size,
             at.size > 0 ? (const char *)at.data : "");
    cr_assert(on == (at.size > 0), "seek %s", key);
    return text;
}

CONTRACT_TEST(reading, seeks_to_keys_gaps_and_past_the_ends)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "b", "1");
    put(store.space, "d", "2");
    put(store.space, "f", "3");
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    assert_text(seek(iter, "a", false), "b");
    assert_text(seek(iter, "b", false), "b");
    assert_text(seek(iter, "c", false), "d");
    assert_text(seek(iter, "f", false), "f");
    assert_text(seek(iter, "fa", false), "");
    assert_text(seek(iter, "a", true), "");
    assert_text(seek(iter, "b", true), "b");
    assert_text(seek(iter, "c", true), "b");
    assert_text(seek(iter, "e", true), "d");
    assert_text(seek(iter, "zzz", true), "f");

    assert_text(seek(iter, "c", false), "d"); /* turn round in the middle */
    cr_assert(kv_iter_prev(iter) && memcmp(kv_iter_key(iter).data, "b", 1) == 0, "back to b");
    cr_assert(kv_iter_next(iter) && memcmp(kv_iter_key(iter).data, "d", 1) == 0, "on to d");
    cr_assert(kv_iter_next(iter) && kv_iter_prev(iter), "f and back");
    cr_assert(memcmp(kv_iter_key(iter).data, "d", 1) == 0, "d again");
    kv_iter_close(iter);
    store_free(&store);
}

CONTRACT_TEST(reading, seeks_stay_within_the_range)
{
    struct store store;
    contract_store(&store, row);
    for (char key[2] = "a"; key[0] <= 'h'; key[0]++)
        put(store.space, key, key);
    kv_range range = text_range("c", "f");
    kv_iter *iter = iter_open(store.space, NULL, &range);
    assert_text(seek(iter, "a", false), "c");
    assert_text(seek(iter, "d", false), "d");
    assert_text(seek(iter, "f", false), "");
    assert_text(seek(iter, "g", false), "");
    assert_text(seek(iter, "a", true), "");
    assert_text(seek(iter, "bz", true), "");
    assert_text(seek(iter, "c", true), "c");
    assert_text(seek(iter, "f", true), "e");
    assert_text(seek(iter, "z", true), "e");
    cr_assert(!kv_iter_next(iter) && !kv_iter_prev(iter), "once off, it stays off");
    cr_assert(kv_iter_first(iter) && !kv_iter_prev(iter) && !kv_iter_next(iter), "off below");
    kv_iter_close(iter);
    store_free(&store);
}

/* Reverse walks without an end, with one past the data, and with none inside. */
CONTRACT_TEST(reading, reverse_walks)
{
    struct store store;
    contract_store(&store, row);
    kv_space *next = store_space(&store, "next"); /* a neighbour, first empty */
    for (int i = 0; i < 2; i++) {
        put(store.space, "a", "1");
        put(store.space, "b", "2");
        put(store.space, "c", "3");
        assert_text(keys_back(store.space, NULL, NULL), "c b a");
        assert_text(keys_back(store.space, "b", NULL), "c b");
        assert_text(keys_back(store.space, NULL, "b"), "a");
        assert_text(keys_back(store.space, NULL, "zzz"), "c b a");
        assert_text(keys_back(store.space, NULL, "bb"), "b a");
        assert_text(keys_back(store.space, "aa", "bb"), "b");
        assert_text(keys_back(store.space, "x", NULL), "");
        assert_text(keys_back(store.space, NULL, "A"), "");
        assert_text(keys_back(store.space, "b", "b"), "");
        assert_text(keys_back(store.space, "c", "a"), "");
        put(next, "a", "other");
    }
    store_free(&store);
}

static void put_bytes(kv_space *space, const char *key, size_t size)
{
    assert_ok(kv_put(space, kv_bytes(key, size), kv_text("v"), 0, status));
}

static const char *prefixed(kv_space *space, const char *prefix, size_t size, bool back)
{
    char copy[8];
    char limit[8];
    memcpy(copy, prefix, size);
    kv_range range = kv_range_of_prefix(kv_bytes(copy, size), limit);
    const char *text = keys_of(iter_open(space, NULL, &range), back);
    cr_assert(memcmp(copy, prefix, size) == 0, "the prefix was changed");
    return text;
}

CONTRACT_TEST(reading, prefixes_that_end_in_ff)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    put_bytes(space, "a", 1);
    put_bytes(space, "a\xff", 2);
    put_bytes(space, "a\xff\x01", 3);
    put_bytes(space, "a\xff\xff", 3);
    put_bytes(space, "b", 1);
    put_bytes(space, "\xff", 1);
    put_bytes(space, "\xff\x00", 2);
    put_bytes(space, "\xff\xff\xff", 3);
    assert_text(prefixed(space, "a\xff", 2, false), "a\\xff a\\xff\\x01 a\\xff\\xff");
    assert_text(prefixed(space, "a\xff", 2, true), "a\\xff\\xff a\\xff\\x01 a\\xff");
    assert_text(prefixed(space, "a", 1, false), "a a\\xff a\\xff\\x01 a\\xff\\xff");
    assert_text(prefixed(space, "\xff\xff", 2, false), "\\xff\\xff\\xff");
    assert_text(prefixed(space, "\xff\xff", 2, true), "\\xff\\xff\\xff");
    assert_text(prefixed(space, "\xff", 1, false), "\\xff \\xff\\x00 \\xff\\xff\\xff");
    assert_text(prefixed(space, "\xff", 1, true), "\\xff\\xff\\xff \\xff\\x00 \\xff");
    assert_text(prefixed(space, "", 0, false),
                "a a\\xff a\\xff\\x01 a\\xff\\xff b \\xff \\xff\\x00 \\xff\\xff\\xff");

    char limit[2];
    kv_range range = kv_range_of_prefix(kv_bytes("\xff", 1), limit);
    assert_ok(kv_delete_range(space, &range, 0, status));
    assert_text(keys(space, NULL, NULL), "a a\\xff a\\xff\\x01 a\\xff\\xff b");
    store_free(&store);
}

/* Bytes compare without sign, a prefix before what goes on; NULs are bytes. */
CONTRACT_TEST(reading, order_of_odd_keys)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    put_bytes(space, "\x80", 1);
    put_bytes(space, "\x7f", 1);
    put_bytes(space, "a", 1);
    put_bytes(space, "a\0", 2);
    put_bytes(space, "a\0\0b", 4);
    put_bytes(space, "\0", 1);
    put_bytes(space, "\0\0", 2);
    assert_text(keys(space, NULL, NULL), "\\x00 \\x00\\x00 a a\\x00 a\\x00\\x00b \\x7f \\x80");
    assert_text(keys_back(space, NULL, NULL),
                "\\x80 \\x7f a\\x00\\x00b a\\x00 a \\x00\\x00 \\x00");
    assert_ok(kv_delete(space, kv_bytes("a\0", 2), 0, status));
    assert_text(keys(space, "a", "b"), "a a\\x00\\x00b");
    store_free(&store);
}

CONTRACT_TEST(reading, an_iterator_sees_one_moment)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "1");
    put(store.space, "c", "3");
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    put(store.space, "a", "changed");
    put(store.space, "b", "new");
    del(store.space, "c");
    kv_iter *later = iter_open(store.space, NULL, NULL);
    cr_assert(kv_iter_first(iter), "a");
    put(store.space, "aa", "new"); /* in the way of the walk */
    cr_assert(kv_compare(kv_iter_value(iter), kv_text("1")) == 0, "the value of then");
    cr_assert(kv_iter_next(iter) && kv_compare(kv_iter_key(iter), kv_text("c")) == 0, "c");
    cr_assert(kv_compare(kv_iter_value(iter), kv_text("3")) == 0, "the value of then");
    assert_text(keys_of(iter, true), "c a");
    assert_text(keys_of(later, false), "a b");
    assert_text(keys(store.space, NULL, NULL), "a aa b");
    store_free(&store);
}

/* Delete what is walked over, and write before and behind it. */
CONTRACT_TEST(reading, writes_during_a_walk)
{
    struct store store;
    contract_store(&store, row);
    char key[16];
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "k%04d", 2 * i);
        put(store.space, key, key);
    }
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    int count = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        snprintf(key, sizeof(key), "k%04d", 2 * count);
        cr_assert(kv_compare(kv_iter_key(iter), kv_text(key)) == 0, "at %d", count);
        assert_ok(kv_delete(store.space, kv_iter_key(iter), 0, status));
        snprintf(key, sizeof(key), "k%04d", 2 * count + 1);
        put(store.space, key, "new");
        count++;
    }
    assert_ok(kv_iter_status(iter, status));
    kv_iter_close(iter);
    cr_assert(count == 500, "%d keys", count);
    iter = iter_open(store.space, NULL, NULL);
    count = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        cr_assert(kv_compare(kv_iter_value(iter), kv_text("new")) == 0, "key %d", count++);
    kv_iter_close(iter);
    store_free(&store);
}

CONTRACT_TEST(reading, bounds_may_be_freed)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "1");
    put(store.space, "b", "2");
    put(store.space, "c", "3");
    char *first = strdup("b");
    char *limit = strdup("c");
    kv_range *range = malloc(sizeof(*range));
    *range = text_range(first, limit);
    kv_iter *iter = iter_open(store.space, NULL, range);
    free(first);
    free(limit);
    free(range);
    assert_text(keys_of(iter, false), "b");
    store_free(&store);
}

CONTRACT_TEST(reading, ten_thousand_live_iterators)
{
    enum { COUNT = 10000 };
    struct store store;
    contract_store(&store, row);
    kv_iter **iters = calloc(COUNT, sizeof(*iters));
    char key[16];
    for (int i = 0; i < COUNT; i++) {
        if (i % 100 == 0) {
            snprintf(key, sizeof(key), "%06d", i);
            put(store.space, key, "v");
        }
        iters[i] = iter_open(store.space, NULL, NULL);
        cr_assert(kv_iter_last(iters[i]), "an entry");
    }
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof(key), "%06d", i / 100 * 100);
        cr_assert(kv_compare(kv_iter_key(iters[i]), kv_text(key)) == 0, "iterator %d", i);
    }
    assert_code(KV_BUSY, kv_close(store.db, status));
    for (int i = 0; i < COUNT; i++)
        kv_iter_close(iters[(i * 7919) % COUNT]); /* in no order */
    free(iters);
    store_free(&store);
}

/* ---- Values ------------------------------------------------------------------- */

CONTRACT_TEST(reading, a_value_outlives_its_key)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "first");
    kv_value value = KV_VALUE_INIT;
    kv_value same = KV_VALUE_INIT;
    assert_ok(kv_get(store.space, NULL, kv_text("a"), &value, status));
    assert_ok(kv_get(store.space, NULL, kv_text("a"), &same, status));
    put(store.space, "a", "second");
    del(store.space, "a");
    assert_ok(kv_compact(store.space, NULL, status));
    cr_assert(kv_compare(value.bytes, kv_text("first")) == 0, "changed");
    kv_value_release(&same);
    cr_assert(kv_compare(value.bytes, kv_text("first")) == 0, "changed");
    kv_value_release(&value);
    kv_value_release(&value); /* empty by now */
    cr_assert(value.bytes.data == NULL && value.bytes.size == 0, "not emptied");
    store_free(&store);
}

/* ---- Snapshots ---------------------------------------------------------------- */

CONTRACT_TEST(reading, snapshots_see_one_moment_of_every_space)
{
    struct store store;
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    kv_snapshot *empty = NULL;
    kv_snapshot *full = NULL;
    assert_ok(kv_snapshot_take(store.db, &empty, status));
    put(store.space, "a", "1");
    put(store.space, "b", "2");
    put(other, "a", "other");
    assert_ok(kv_snapshot_take(store.db, &full, status));
    put(store.space, "a", "changed");
    del(store.space, "b");
    del(other, "a");
    put(other, "z", "new");

    assert_text(pairs_at(store.space, empty), "");
    assert_text(pairs_at(store.space, full), "a=1 b=2");
    assert_text(pairs_at(other, full), "a=other");
    assert_text(get_at(store.space, full, "b"), "2");
    assert_text(get_at(store.space, empty, "a"), "-");
    assert_text(get_at(other, full, "z"), "-");
    assert_text(pairs_at(store.space, NULL), "a=changed");
    assert_text(pairs_at(other, NULL), "z=new");

    kv_read read = { .snapshot = full };
    kv_iter *iter = iter_open(store.space, &read, NULL);
    kv_snapshot_release(empty);
    assert_text(keys_of(iter, true), "b a");
    kv_snapshot_release(full);
    kv_snapshot_release(NULL);
    assert_text(pairs_at(store.space, NULL), "a=changed");
    store_free(&store);
}

CONTRACT_TEST(reading, a_value_outlives_its_snapshot)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "old");
    kv_snapshot *snapshot = NULL;
    assert_ok(kv_snapshot_take(store.db, &snapshot, status));
    put(store.space, "a", "new");
    kv_read read = { .snapshot = snapshot, .verify = true, .no_cache = true };
    kv_value value = KV_VALUE_INIT;
    assert_ok(kv_get(store.space, &read, kv_text("a"), &value, status));
    kv_snapshot_release(snapshot);
    cr_assert(kv_compare(value.bytes, kv_text("old")) == 0, "changed");
    kv_value_release(&value);
    store_free(&store);
}

/* Released in an order of their own, under writes. */
CONTRACT_TEST(reading, many_snapshots)
{
    enum { COUNT = 40 };
    struct store store;
    contract_store(&store, row);
    kv_snapshot *snapshots[COUNT] = { NULL };
    char value[16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(value, sizeof(value), "%d", i);
        put(store.space, "k", value);
        put(store.space, value, value);
        assert_ok(kv_snapshot_take(store.db, &snapshots[i], status));
    }
    for (int i = 0; i < COUNT; i++) {
        int at = (i * 17) % COUNT;
        snprintf(value, sizeof(value), "%d", at);
        assert_text(get_at(store.space, snapshots[at], "k"), value);
        snprintf(value, sizeof(value), "%d", at + 1);
        assert_text(get_at(store.space, snapshots[at], value), "-");
        kv_snapshot_release(snapshots[at]);
        put(store.space, "k", "now");
    }
    store_free(&store);
}

/* ---- Many keys at once --------------------------------------------------------- */

CONTRACT_TEST(reading, get_many_keeps_order_and_duplicates)
{
    enum { COUNT = 7 };
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "1");
    put(store.space, "b", "");
    put(store.space, "c", "3");
    kv_slice wanted[COUNT] = { kv_text("c"), kv_text("x"), kv_text("a"), kv_text("c"),
                               kv_text("b"), kv_text("a"), kv_text("0") };
    static const char *const expected[COUNT] = { "3", NULL, "1", "3", "", "1", NULL };
    kv_value values[COUNT];
    kv_code codes[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = (kv_value)KV_VALUE_INIT;
    assert_ok(kv_get_many(store.space, NULL, COUNT, wanted, values, codes, status));
    for (int i = 0; i < COUNT; i++) {
        cr_assert(codes[i] == (expected[i] == NULL ? KV_NOT_FOUND : KV_OK), "key %d", i);
        if (expected[i] != NULL)
            cr_assert(kv_compare(values[i].bytes, kv_text(expected[i])) == 0, "key %d", i);
        kv_value_release(&values[i]);
    }
    assert_ok(kv_get_many(store.space, NULL, 0, NULL, NULL, NULL, status));

    kv_snapshot *snapshot = NULL;
    assert_ok(kv_snapshot_take(store.db, &snapshot, status));
    del(store.space, "c");
    kv_read read = { .snapshot = snapshot };
    assert_ok(kv_get_many(store.space, &read, 1, wanted, values, codes, status));
    cr_assert(codes[0] == KV_OK, "at the snapshot");
    kv_value_release(&values[0]);
    kv_snapshot_release(snapshot);

    /* One bad key: its code, and nothing handed out. */
    wanted[3] = kv_bytes(NULL, 0);
    assert_code(KV_INVALID,
                kv_get_many(store.space, NULL, COUNT, wanted, values, codes, status));
    for (int i = 0; i < COUNT; i++)
        cr_assert(values[i].release == NULL && values[i].bytes.size == 0, "value %d", i);
    store_free(&store);
}

/* ---- Sizes --------------------------------------------------------------------- */

CONTRACT_TEST(reading, the_longest_keys)
{
    struct store store;
    contract_store(&store, row);
    uint64_t most = kv_db_driver(store.db)->key_size_max;
    if (most > KV_KEY_SIZE_MAX)
        most = KV_KEY_SIZE_MAX;
    unsigned char *key = malloc(most + 1);
    memset(key, 'k', most + 1);
    for (unsigned i = 0; i < 20; i++) { /* apart in the last byte only */
        key[most - 1] = (unsigned char)(200 - 3 * i);
        assert_ok(kv_put(store.space, kv_bytes(key, most), kv_bytes(&i, sizeof(i)), 0, status));
    }
    for (unsigned i = 0; i < 20; i++) {
        kv_value value = KV_VALUE_INIT;
        key[most - 1] = (unsigned char)(200 - 3 * i);
        assert_ok(kv_get(store.space, NULL, kv_bytes(key, most), &value, status));
        cr_assert(kv_compare(value.bytes, kv_bytes(&i, sizeof(i))) == 0, "key %u", i);
        kv_value_release(&value);
    }
    kv_range range = { kv_bytes(key, most), kv_bytes(NULL, 0) };
    kv_iter *iter = iter_open(store.space, NULL, &range);
    unsigned count = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        cr_assert(kv_iter_key(iter).size == most, "key %u", count++);
    assert_ok(kv_iter_status(iter, status));
    kv_iter_close(iter);

    kv_value value = KV_VALUE_INIT;
    assert_code(KV_TOO_BIG,
                kv_put(store.space, kv_bytes(key, most + 1), kv_text("v"), 0, status));
    assert_code(KV_TOO_BIG, kv_delete(store.space, kv_bytes(key, most + 1), 0, status));
    assert_code(KV_TOO_BIG, kv_get(store.space, NULL, kv_bytes(key, most + 1), &value, status));
    free(key);
    store_free(&store);
}

static void check_big_value(struct store *store, const unsigned char *bytes, size_t size)
{
    kv_value value = KV_VALUE_INIT;
    assert_ok(kv_get(store->space, NULL, kv_text("big"), &value, status));
    cr_assert(kv_compare(value.bytes, kv_bytes(bytes, size)) == 0, "big value differs");
    kv_value_release(&value);
    kv_iter *iter = iter_open(store->space, NULL, NULL);
    cr_assert(kv_iter_seek(iter, kv_text("big")), "seek");
    cr_assert(kv_compare(kv_iter_value(iter), kv_bytes(bytes, size)) == 0, "walk differs");
    kv_iter_close(iter);
}

CONTRACT_TEST(reading, a_value_of_100_megabytes)
{
    struct store store;
    contract_store(&store, row);
    size_t size = 100u * 1000u * 1000u;
    if (size > kv_db_driver(store.db)->value_size_max)
        size = kv_db_driver(store.db)->value_size_max;
    unsigned char *bytes = malloc(size);
    uint64_t seed = 1;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        memcpy(bytes + i, &seed, 8);
    }
    assert_ok(kv_put(store.space, kv_text("big"), kv_bytes(bytes, size), KV_SYNC, status));
    check_big_value(&store, bytes, size);
    if (store_has(&store, KV_CAP_DURABLE)) {
        store_reopen(&store);
        check_big_value(&store, bytes, size);
    }
    assert_code(KV_TOO_BIG, kv_put(store.space, kv_text("k"),
                                   kv_bytes(bytes, (size_t)KV_VALUE_SIZE_MAX + 1), 0, status));
    free(bytes);
    del(store.space, "big");
    store_free(&store);
}
