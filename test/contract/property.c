/*
 * property.c - random operations, against a plain sorted array.
 *
 * The oracle knows nothing of trees, logs or prefixes: an array of pairs kept in
 * order, copied whole for a snapshot. Every answer of the store must be its own.
 */
#include "test/contract/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPACES = 3,
    SNAPSHOTS = 3,
    KEYS_MAX = 400, /* different keys there can be */
    KEY_MAX = 12,
    VALUE_MAX = 300
};

struct pair {
    unsigned char key[KEY_MAX];
    size_t key_size;
    uint32_t seed; /* what the value is made from */
};

struct oracle {
    size_t count[SPACES];
    struct pair pairs[SPACES][KEYS_MAX];
};

struct world {
    struct store store;
    kv_space *spaces[SPACES];
    struct oracle now;
    kv_snapshot *snapshots[SNAPSHOTS];
    struct oracle *then;
    uint64_t state;
    unsigned step;
};

static uint32_t chance(struct world *world, uint32_t below)
{
    world->state = world->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(world->state >> 33) % below;
}

/* Short keys over few letters, with NUL and 0xff among them, so that one is often
 * the prefix of another. */
static kv_slice some_key(struct world *world, unsigned char key[KEY_MAX])
{
    static const unsigned char letters[] = { 0x00, 0x01, 'a', 'b', 0xff };
    size_t size = 1 + chance(world, 3);
    for (size_t i = 0; i < size; i++)
        key[i] = letters[chance(world, sizeof(letters))];
    if (chance(world, 4) == 0) { /* a long common beginning */
        memmove(key + 8, key, size);
        memset(key, 'p', 8);
        size += 8;
    }
    return kv_bytes(key, size);
}

static kv_slice value_of(uint32_t seed, unsigned char value[VALUE_MAX])
{
    size_t size = seed % 7 == 0 ? 0 : seed % VALUE_MAX;
    for (size_t i = 0; i < size; i++)
        value[i] = (unsigned char)(seed * 31 + i);
    return kv_bytes(value, size);
}

/* ---- The oracle ---------------------------------------------------------------- */

static kv_slice pair_key(const struct pair *pair)
{
    return kv_bytes(pair->key, pair->key_size);
}

/* The first pair whose key is >= `key`: by looking at each in turn. */
static size_t oracle_find(const struct oracle *oracle, int space, kv_slice key)
{
    size_t at = 0;
    while (at < oracle->count[space] &&
           kv_compare(pair_key(&oracle->pairs[space][at]), key) < 0)
        at++;
    return at;
}

static bool oracle_has(const struct oracle *oracle, int space, size_t at, kv_slice key)
{
    return at < oracle->count[space] &&
           kv_compare(pair_key(&oracle->pairs[space][at]), key) == 0;
}

static void oracle_put(struct oracle *oracle, int space, kv_slice key, uint32_t seed)
{
    struct pair *pairs = oracle->pairs[space];
    size_t at = oracle_find(oracle, space, key);
    if (!oracle_has(oracle, space, at, key)) {
        cr_assert(oracle->count[space] < KEYS_MAX, "the oracle is full");
        memmove(&pairs[at + 1], &pairs[at], (oracle->count[space] - at) * sizeof(*pairs));
        oracle->count[space]++;
        memcpy(pairs[at].key, key.data, key.size);
        pairs[at].key_size = key.size;
    }
    pairs[at].seed = seed;
}

static void oracle_cut(struct oracle *oracle, int space, size_t from, size_t to)
{
    struct pair *pairs = oracle->pairs[space];
    if (from >= to)
        return;
    memmove(&pairs[from], &pairs[to], (oracle->count[space] - to) * sizeof(*pairs));
    oracle->count[space] -= to - from;
}

static void oracle_delete(struct oracle *oracle, int space, kv_slice key)
{
    size_t at = oracle_find(oracle, space, key);
    if (oracle_has(oracle, space, at, key))
        oracle_cut(oracle, space, at, at + 1);
}

static void oracle_delete_range(struct oracle *oracle, int space, const kv_range *range)
{
    size_t to = range->limit.size == 0 ? oracle->count[space]
                                       : oracle_find(oracle, space, range->limit);
    oracle_cut(oracle, space, oracle_find(oracle, space, range->first), to);
}

/* ---- Comparing ------------------------------------------------------------------ */

static void check_pair(const struct world *world, const struct pair *pair, const kv_iter *iter)
{
    unsigned char value[VALUE_MAX];
    cr_assert(kv_compare(kv_iter_key(iter), pair_key(pair)) == 0, "step %u: another key",
              world->step);
    cr_assert(kv_compare(kv_iter_value(iter), value_of(pair->seed, value)) == 0,
              "step %u: another value", world->step);
}

static void check_walk(struct world *world, const struct oracle *oracle, int space,
                       const kv_read *read)
{
    unsigned char first[KEY_MAX];
    unsigned char limit[KEY_MAX];
    kv_range range = text_range(NULL, NULL);
    if (chance(world, 2) == 0)
        range.first = some_key(world, first);
    if (chance(world, 2) == 0)
        range.limit = some_key(world, limit);
    size_t from = oracle_find(oracle, space, range.first);
    size_t to =
        range.limit.size == 0 ? oracle->count[space] : oracle_find(oracle, space, range.limit);
    if (to < from)
        to = from;
    const struct pair *pairs = oracle->pairs[space];
    kv_iter *iter = iter_open(world->spaces[space], read, &range);

    size_t at = from;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        cr_assert(at < to, "step %u: more than there is", world->step);
        check_pair(world, &pairs[at++], iter);
    }
    cr_assert(at == to, "step %u: %zu missing", world->step, to - at);
    for (bool on = kv_iter_last(iter); on; on = kv_iter_prev(iter)) {
        cr_assert(at > from, "step %u: more than there is, backwards", world->step);
        check_pair(world, &pairs[--at], iter);
    }
    cr_assert(at == from, "step %u: %zu missing backwards", world->step, at - from);

    for (int i = 0; i < 4; i++) {
        unsigned char bytes[KEY_MAX];
        kv_slice key = some_key(world, bytes);
        size_t wanted = oracle_find(oracle, space, key);
        bool before = chance(world, 2) == 0;
        if (before && !oracle_has(oracle, space, wanted, key))
            wanted--; /* SIZE_MAX below the first */
        if (before && wanted != SIZE_MAX && wanted >= to)
            wanted = to - 1;
        if (!before && wanted < from)
            wanted = from;
        bool on = before ? kv_iter_seek_for_prev(iter, key) : kv_iter_seek(iter, key);
        cr_assert(on == (wanted != SIZE_MAX && wanted >= from && wanted < to), "step %u: seek",
                  world->step);
        if (on)
            check_pair(world, &pairs[wanted], iter);
        if (on && kv_iter_prev(iter))
            check_pair(world, &pairs[wanted - 1], iter);
    }
    assert_ok(kv_iter_status(iter, status));
    kv_iter_close(iter);
}

static void check_gets(struct world *world, const struct oracle *oracle, int space,
                       const kv_read *read)
{
    enum { COUNT = 6 };
    unsigned char bytes[COUNT][KEY_MAX];
    kv_slice wanted[COUNT];
    kv_value values[COUNT];
    kv_code codes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        wanted[i] = some_key(world, bytes[i]);
        values[i] = (kv_value)KV_VALUE_INIT;
    }
    assert_ok(kv_get_many(world->spaces[space], read, COUNT, wanted, values, codes, status));
    for (int i = 0; i < COUNT; i++) {
        unsigned char value[VALUE_MAX];
        kv_value again = KV_VALUE_INIT;
        size_t at = oracle_find(oracle, space, wanted[i]);
        bool has = oracle_has(oracle, space, at, wanted[i]);
        kv_code code = kv_get(world->spaces[space], read, wanted[i], &again, NULL);
        cr_assert(codes[i] == code && code == (has ? KV_OK : KV_NOT_FOUND), "step %u: %s",
                  world->step, kv_code_name(code));
        if (has) {
            kv_slice expected = value_of(oracle->pairs[space][at].seed, value);
            cr_assert(kv_compare(values[i].bytes, expected) == 0 &&
                          kv_compare(again.bytes, expected) == 0,
                      "step %u: another value", world->step);
        }
        kv_value_release(&again);
        kv_value_release(&values[i]);
    }
}

static void check(struct world *world, const struct oracle *oracle, const kv_snapshot *snapshot)
{
    kv_read read = { .snapshot = snapshot };
    for (int space = 0; space < SPACES; space++) {
        check_walk(world, oracle, space, &read);
        check_gets(world, oracle, space, &read);
    }
}

/* ---- Steps ---------------------------------------------------------------------- */

static void step_single(struct world *world)
{
    unsigned char key_bytes[KEY_MAX];
    unsigned char value[VALUE_MAX];
    int space = (int)chance(world, SPACES);
    kv_slice key = some_key(world, key_bytes);
    unsigned flags = chance(world, 20) == 0 ? KV_SYNC : 0;
    if (chance(world, 3) > 0) {
        uint32_t seed = chance(world, 1000);
        assert_ok(kv_put(world->spaces[space], key, value_of(seed, value), flags, status));
        oracle_put(&world->now, space, key, seed);
    } else {
        assert_ok(kv_delete(world->spaces[space], key, flags, status));
        oracle_delete(&world->now, space, key);
    }
}

static void step_batch(struct world *world)
{
    kv_batch *batch = NULL;
    struct oracle *before = malloc(sizeof(*before));
    *before = world->now;
    assert_ok(kv_batch_new(world->store.db, &batch, status));
    bool ranges = false;
    for (unsigned i = chance(world, 12); i > 0; i--) {
        unsigned char first[KEY_MAX];
        unsigned char limit[KEY_MAX];
        unsigned char value[VALUE_MAX];
        int space = (int)chance(world, SPACES);
        kv_slice key = some_key(world, first);
        uint32_t what = chance(world, 10);
        uint32_t seed = chance(world, 1000);
        if (what == 0) {
            kv_range range = { key, some_key(world, limit) };
            kv_batch_delete_range(batch, world->spaces[space], &range);
            oracle_delete_range(&world->now, space, &range);
            ranges = true;
        } else if (what < 4) {
            kv_batch_delete(batch, world->spaces[space], key);
            oracle_delete(&world->now, space, key);
        } else {
            kv_batch_put(batch, world->spaces[space], key, value_of(seed, value));
            oracle_put(&world->now, space, key, seed);
        }
    }
    bool dropped = chance(world, 6) == 0;
    kv_status fault = KV_STATUS_INIT;
    kv_code code = dropped ? KV_OK : kv_batch_commit(batch, 0, &fault);
    if (code == KV_UNSUPPORTED && ranges)
        dropped = true;
    else
        cr_assert(code == KV_OK, "step %u: %s", world->step, fault.message);
    if (dropped)
        world->now = *before;
    kv_batch_free(batch);
    free(before);
}

static void step_range(struct world *world)
{
    unsigned char first[KEY_MAX];
    unsigned char limit[KEY_MAX];
    int space = (int)chance(world, SPACES);
    kv_range range = { some_key(world, first), some_key(world, limit) };
    assert_ok(kv_delete_range(world->spaces[space], &range, 0, status));
    oracle_delete_range(&world->now, space, &range);
}

static void step_snapshot(struct world *world)
{
    unsigned i = chance(world, SNAPSHOTS);
    if (world->snapshots[i] == NULL) {
        assert_ok(kv_snapshot_take(world->store.db, &world->snapshots[i], status));
        world->then[i] = world->now;
        return;
    }
    check(world, &world->then[i], world->snapshots[i]);
    kv_snapshot_release(world->snapshots[i]);
    world->snapshots[i] = NULL;
}

static void open_spaces(struct world *world)
{
    static const char *const names[SPACES] = { "default", "second", "third" };
    for (int i = 0; i < SPACES; i++)
        world->spaces[i] = store_space(&world->store, names[i]);
}

static void step_reopen(struct world *world)
{
    if (!store_has(&world->store, KV_CAP_DURABLE))
        return;
    for (int i = 0; i < SNAPSHOTS; i++) {
        kv_snapshot_release(world->snapshots[i]);
        world->snapshots[i] = NULL;
    }
    store_reopen(&world->store);
    open_spaces(world);
    check(world, &world->now, NULL);
}

CONTRACT_TEST(property, any_operations_in_any_order)
{
    const char *steps_text = getenv("STATEKV_STEPS");
    const char *seed_text = getenv("STATEKV_SEED");
    bool slow = strstr(row->driver, "shadow") != NULL;
    unsigned steps = steps_text != NULL ? (unsigned)atoi(steps_text) : slow ? 400 : 3000;
    struct world *world = calloc(1, sizeof(*world));
    world->then = calloc(SNAPSHOTS, sizeof(*world->then));
    world->state = seed_text != NULL ? (uint64_t)atoi(seed_text) : 20180;
    contract_store(&world->store, row);
    open_spaces(world);
    for (world->step = 0; world->step < steps; world->step++) {
        uint32_t what = chance(world, 200);
        if (what < 140)
            step_single(world);
        else if (what < 170)
            step_batch(world);
        else if (what < 174)
            step_range(world);
        else if (what < 186)
            step_snapshot(world);
        else if (what < 187)
            step_reopen(world);
        else
            check(world, &world->now, NULL);
        if (what == 199 && chance(world, 5) == 0)
            assert_ok(kv_compact(world->spaces[0], NULL, status));
    }
    for (int i = 0; i < SNAPSHOTS; i++)
        if (world->snapshots[i] != NULL) {
            check(world, &world->then[i], world->snapshots[i]);
            kv_snapshot_release(world->snapshots[i]);
            world->snapshots[i] = NULL;
        }
    step_reopen(world);
    store_free(&world->store);
    free(world->then);
    free(world);
}
