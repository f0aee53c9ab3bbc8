/* writing.c - batches, ranges and spaces. */
#include "test/contract/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kv_batch *batch_new(struct store *store)
{
    kv_batch *batch = NULL;
    assert_ok(kv_batch_new(store->db, &batch, status));
    return batch;
}

static void batch_put(kv_batch *batch, kv_space *space, const char *key, const char *value)
{
    kv_batch_put(batch, space, kv_text(key), kv_text(value));
}

static void batch_del(kv_batch *batch, kv_space *space, const char *key)
{
    kv_batch_delete(batch, space, kv_text(key));
}

static void batch_del_range(kv_batch *batch, kv_space *space, const char *first,
                            const char *limit)
{
    kv_range range = text_range(first, limit);
    kv_batch_delete_range(batch, space, &range);
}

/* ---- Batches ------------------------------------------------------------------- */

CONTRACT_TEST(writing, the_last_operation_on_a_key_wins)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store.space;
    put(space, "c", "stored");
    put(space, "e", "stored");
    kv_batch *batch = batch_new(&store);
    batch_put(batch, space, "a", "1");
    batch_del(batch, space, "a");
    batch_put(batch, space, "a", "2");
    batch_put(batch, space, "b", "1");
    batch_del(batch, space, "b");
    batch_del(batch, space, "c");
    batch_put(batch, space, "c", "3");
    batch_put(batch, space, "d", "1");
    batch_put(batch, space, "d", "2");
    batch_put(batch, space, "e", "1");
    batch_del(batch, space, "e");
    batch_del(batch, space, "e");
    assert_ok(kv_batch_commit(batch, 0, status));
    kv_batch_free(batch);
    assert_text(pairs_at(space, NULL), "a=2 c=3 d=2");
    if (store_has(&store, KV_CAP_DURABLE)) {
        store_reopen(&store);
        assert_text(pairs_at(store.space, NULL), "a=2 c=3 d=2");
    }
    store_free(&store);
}

CONTRACT_TEST(writing, a_batch_copies_and_is_reusable)
{
    struct store store;
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    kv_batch *batch = batch_new(&store);
    char key[] = "key";
    char value[] = "value";
    batch_put(batch, store.space, key, value);
    batch_put(batch, other, key, value);
    memset(key, 'x', 3);
    memset(value, 'x', 5);
    cr_assert(kv_batch_count(batch) == 2, "count %zu", kv_batch_count(batch));
    cr_assert(kv_batch_size(batch) == 16, "size %zu", kv_batch_size(batch));
    assert_text(keys(store.space, NULL, NULL), "");
    assert_ok(kv_batch_commit(batch, 0, status));
    assert_text(pairs_at(store.space, NULL), "key=value");
    assert_text(pairs_at(other, NULL), "key=value");

    assert_ok(kv_batch_commit(batch, 0, status)); /* empty: nothing is written twice */
    del(other, "key");
    assert_ok(kv_batch_commit(batch, KV_SYNC, status));
    assert_text(pairs_at(other, NULL), "");

    batch_put(batch, store.space, "second", "2");
    assert_ok(kv_batch_commit(batch, 0, status));
    batch_put(batch, store.space, "third", "3");
    kv_batch_clear(batch);
    cr_assert(kv_batch_count(batch) == 0 && kv_batch_size(batch) == 0, "not cleared");
    assert_ok(kv_batch_commit(batch, 0, status));
    batch_put(batch, store.space, "fourth", "4");
    kv_batch_free(batch); /* never committed */
    assert_text(pairs_at(store.space, NULL), "key=value second=2");
    store_free(&store);
}

CONTRACT_TEST(writing, a_refused_batch_writes_nothing)
{
    struct store store;
    struct store second;
    contract_store(&store, row);
    contract_store(&second, row);
    kv_batch *batch = batch_new(&store);
    batch_put(batch, store.space, "a", "1");
    batch_put(batch, second.space, "b", "2"); /* of another database */
    batch_put(batch, store.space, "c", "3");
    assert_code(KV_INVALID, kv_batch_commit(batch, 0, status));
    kv_batch_clear(batch);
    unsigned char *key = calloc(1, KV_KEY_SIZE_MAX + 1u);
    kv_batch_put(batch, store.space, kv_bytes(key, KV_KEY_SIZE_MAX + 1u), kv_text("v"));
    free(key);
    assert_code(KV_TOO_BIG, kv_batch_commit(batch, 0, status));
    assert_text(keys(store.space, NULL, NULL), "");
    assert_text(keys(second.space, NULL, NULL), "");
    kv_batch_free(batch);
    store_free(&second);
    store_free(&store);
}

CONTRACT_TEST(writing, a_large_batch)
{
    enum { COUNT = 20000 };
    struct store store;
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    kv_batch *batch = batch_new(&store);
    char key[16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof(key), "%08d", (i * 7919) % COUNT);
        batch_put(batch, i % 2 == 0 ? store.space : other, key, key);
    }
    cr_assert(kv_batch_count(batch) == COUNT, "%zu", kv_batch_count(batch));
    bool few = strcmp(row->driver, "shadow") == 0 || strcmp(row->driver, "f.shadow") == 0;
    if (!few) { /* shadow is for small sets: a file a record */
        assert_ok(kv_batch_commit(batch, 0, status));
        int count = 0;
        kv_space *spaces[] = { store.space, other };
        for (int i = 0; i < 2; i++) {
            kv_iter *iter = iter_open(spaces[i], NULL, NULL);
            for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
                count++;
            kv_iter_close(iter);
        }
        cr_assert(count == COUNT, "%d keys", count);
    }
    kv_batch_free(batch);
    store_free(&store);
}

/* ---- Ranges --------------------------------------------------------------------- */

/* A long batch in key order, of which an engine may take advantage, with ranges between. */
CONTRACT_TEST(writing, ranges_in_a_batch_in_key_order)
{
    struct store store;
    contract_store(&store, row);
    kv_batch *batch;
    enum { KEYS = 400 };
    assert_ok(kv_batch_new(store.db, &batch, status));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < KEYS; i++) {
            char key[16], first[16], limit[16];
            snprintf(key, sizeof(key), "key %06d", 10 * i);
            snprintf(first, sizeof(first), "key %06d", 10 * i - 4);
            snprintf(limit, sizeof(limit), "key %06d", 10 * i);
            kv_range range = text_range(first, limit);
            kv_batch_put(batch, store.space, kv_text(key), kv_text(key));
            if (i % 10 == round)
                kv_batch_delete_range(batch, store.space, &range);
        }
        assert_ok(kv_batch_commit(batch, 0, status));
    }
    kv_batch_free(batch);
    int count = 0;
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        count++;
    cr_assert_eq(count, KEYS);
    kv_iter_close(iter);
    store_free(&store);
}

CONTRACT_TEST(writing, delete_range)
{
    struct store store;
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    for (char key[2] = "a"; key[0] <= 'h'; key[0]++) {
        put(store.space, key, key);
        put(other, key, key);
    }
    kv_range range = text_range("c", "e");
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    assert_ok(kv_delete_range(store.space, &range, KV_SYNC, status));
    assert_text(keys(store.space, NULL, NULL), "a b e f g h");
    assert_text(keys_of(iter, false), "a b c d e f g h"); /* its own moment */
    range = text_range("e", "c");                         /* reversed: no key */
    assert_ok(kv_delete_range(store.space, &range, 0, status));
    range = text_range("e", "e");
    assert_ok(kv_delete_range(store.space, &range, 0, status));
    range = text_range("x", NULL);
    assert_ok(kv_delete_range(store.space, &range, 0, status));
    assert_text(keys(store.space, NULL, NULL), "a b e f g h");
    range = text_range("g", NULL);
    assert_ok(kv_delete_range(store.space, &range, 0, status));
    range = text_range(NULL, "b");
    assert_ok(kv_delete_range(store.space, &range, 0, status));
    assert_text(keys(store.space, NULL, NULL), "b e f");
    put(store.space, "c", "again");
    assert_text(get(store.space, "c"), "again");
    assert_ok(kv_delete_range(store.space, NULL, 0, status));
    assert_text(keys(store.space, NULL, NULL), "");
    assert_text(keys(other, NULL, NULL), "a b c d e f g h");
    store_free(&store);
}

CONTRACT_TEST(writing, ranges_keep_their_place_in_a_batch)
{
    struct store store;
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    put(store.space, "a", "stored");
    put(store.space, "b", "stored");
    put(store.space, "z", "stored");
    put(other, "b", "stored");
    kv_batch *batch = batch_new(&store);
    batch_put(batch, store.space, "a1", "before"); /* goes with the range */
    batch_put(batch, other, "a1", "before");       /* another space: stays */
    batch_del_range(batch, store.space, "a", "c");
    batch_put(batch, store.space, "b", "after"); /* stays */
    batch_put(batch, store.space, "b1", "after");
    batch_del_range(batch, store.space, "b1", "b2");
    batch_put(batch, store.space, "c", "after");
    cr_assert(kv_batch_count(batch) == 7, "count %zu", kv_batch_count(batch));
    put(store.space, "a2", "between"); /* stored before the commit: goes too */
    kv_status fault = KV_STATUS_INIT;
    kv_code code = kv_batch_commit(batch, 0, &fault);
    if (code != KV_UNSUPPORTED) { /* a driver may do ranges only on their own */
        cr_assert(code == KV_OK, "%s", fault.message);
        assert_text(pairs_at(store.space, NULL), "b=after c=after z=stored");
        assert_text(pairs_at(other, NULL), "a1=before b=stored");
    }
    kv_batch_free(batch);
    store_free(&store);
}

/* ---- Spaces ---------------------------------------------------------------------- */

static bool append_name(void *context, const char *name)
{
    char *text = context;
    if (text[0] != '\0')
        strcat(text, " ");
    strcat(text, name);
    return true;
}

static bool only_one(void *context, const char *name)
{
    (void)name;
    ++*(int *)context;
    return false;
}

static const char *space_names(struct store *store)
{
    static char text[1024];
    text[0] = '\0';
    assert_ok(kv_space_list(store->db, append_name, text, status));
    return text;
}

CONTRACT_TEST(writing, spaces_are_apart)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = NULL;
    assert_code(KV_NOT_FOUND, kv_space_open(store.db, "b", 0, &space, status));
    cr_assert(space == NULL, "a handle without a space");
    kv_space *b = store_space(&store, "b");
    kv_space *a = store_space(&store, "a");
    cr_assert(a != b && store_space(&store, "a") == a, "one handle for each name");
    assert_ok(kv_space_open(store.db, "a", 0, &space, status));
    cr_assert(space == a && strcmp(kv_space_name(a), "a") == 0, "found");
    assert_text(space_names(&store), "a b default");
    int seen = 0;
    assert_ok(kv_space_list(store.db, only_one, &seen, status));
    cr_assert(seen == 1, "asked to stop");

    put(a, "k", "in_a");
    put(b, "k", "in_b");
    assert_text(get(a, "k"), "in_a");
    assert_text(get(b, "k"), "in_b");
    assert_text(get(store.space, "k"), "-");
    del(a, "k");
    assert_text(get(b, "k"), "in_b");

    char name[KV_SPACE_NAME_SIZE_MAX + 2];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_code(KV_INVALID, kv_space_open(store.db, "", KV_CREATE, &space, status));
    kv_code code = kv_space_open(store.db, name, KV_CREATE, &space, NULL);
    cr_assert(code == KV_INVALID || code == KV_TOO_BIG, "a name of 256 bytes: %d", code);
    name[sizeof(name) - 2] = '\0';
    put(store_space(&store, name), "k", "v");
    put(store_space(&store, "with / and \xc3\xa4 .. \n"), "k", "odd");
    if (store_has(&store, KV_CAP_DURABLE)) {
        store_reopen(&store);
        assert_ok(kv_space_open(store.db, name, 0, &space, status));
        assert_text(get(space, "k"), "v");
        assert_ok(kv_space_open(store.db, "with / and \xc3\xa4 .. \n", 0, &space, status));
        assert_text(get(space, "k"), "odd");
        assert_ok(kv_space_open(store.db, "a", 0, &space, status)); /* empty, but there */
        assert_text(keys(space, NULL, NULL), "");
    }
    store_free(&store);
}

CONTRACT_TEST(writing, dropping_a_space)
{
    struct store store;
    contract_store(&store, row);
    kv_space *space = store_space(&store, "gone");
    put(store.space, "stays", "1");
    put(space, "a", "1");
    put(space, "b", "2");
    kv_iter *iter = iter_open(space, NULL, NULL);
    assert_code(KV_BUSY, kv_space_drop(space, status));
    assert_text(keys_of(iter, false), "a b");
    assert_ok(kv_space_drop(space, status));
    assert_text(space_names(&store), "default");
    assert_code(KV_NOT_FOUND, kv_space_open(store.db, "gone", 0, &space, status));
    space = store_space(&store, "gone"); /* a new one: nothing comes back */
    assert_text(keys(space, NULL, NULL), "");
    put(space, "c", "3");
    kv_space *next = store_space(&store, "next");
    assert_text(keys(next, NULL, NULL), "");
    if (store_has(&store, KV_CAP_DURABLE))
        store_reopen(&store);
    assert_text(keys(store_space(&store, "gone"), NULL, NULL), "c");
    assert_text(keys(store_space(&store, "next"), NULL, NULL), "");
    assert_text(pairs_at(store_space(&store, "default"), NULL), "stays=1");
    store_free(&store);
}

CONTRACT_TEST(writing, many_spaces)
{
    enum { COUNT = 60 };
    struct store store;
    contract_store(&store, row);
    char name[24];
    kv_batch *batch = batch_new(&store);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "space%d", i);
        batch_put(batch, store_space(&store, name), "k", name);
    }
    assert_ok(kv_batch_commit(batch, KV_SYNC, status));
    kv_batch_free(batch);
    if (store_has(&store, KV_CAP_DURABLE))
        store_reopen(&store);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "space%d", i);
        assert_text(get(store_space(&store, name), "k"), name);
    }
    store_free(&store);
}
