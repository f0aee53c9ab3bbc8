/*
 * verify.c - a damaged store is told with the first difference, and a copy of a
 * state in any other engine is the same state.
 */
#include "scratch.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 3000, PAGE_BITS = 3, CHANGED = 40, KEY_SIZE = 4, NODE_MAX = 64 };

TestSuite(verify, .timeout = 110);
TestSuite(copies, .timeout = 110);

/* Keys ascend with their numbers. */
static kv_slice key_of(uint32_t number, uint8_t key[KEY_SIZE])
{
    uint32_t big = __builtin_bswap32(number * 16);
    memcpy(key, &big, sizeof(big));
    return kv_bytes(key, KEY_SIZE);
}

static unsigned rank_of(uint32_t number)
{
    uint8_t key[KEY_SIZE];
    return vmap_rank(key_of(number, key), PAGE_BITS);
}

static void put(vmap *map, uint32_t number, uint64_t value)
{
    uint8_t key[KEY_SIZE];
    need(vmap_put(map, key_of(number, key), kv_bytes(&value, sizeof(value)), NULL));
}

/* Two versions; the second changes some values, and the last key is gone in it. */
static void fill(struct scratch *scratch, const char *driver)
{
    vmap *map;
    scratch_open(scratch, driver);
    scratch_set(scratch, "vmap.page_bits", "3");
    scratch_reopen(scratch);
    need(state_map_open(scratch->state, "m", KV_CREATE, &map, NULL));
    for (uint32_t i = 0; i < KEYS; i++)
        put(map, i, i);
    need(state_commit(scratch->state, 0, NULL, NULL));
    for (uint32_t i = 0; i < CHANGED; i++)
        put(map, i * (KEYS / CHANGED), UINT64_MAX - i);
    uint8_t key[KEY_SIZE];
    need(vmap_delete(map, key_of(KEYS - 1, key), NULL));
    need(state_commit(scratch->state, 0, NULL, NULL));
    scratch_reopen(scratch); /* with the entries of all pages written */
}

/* ---- Damage ---------------------------------------------------------------------- */

/* A record's key: map number 1, a level unless it is a value's, the key. */
struct record {
    uint8_t bytes[5 + KEY_SIZE];
    size_t size;
};

static struct record record_at(int level, uint32_t number)
{
    struct record record = { { 0, 0, 0, 1 }, 4 };
    if (level >= 0)
        record.bytes[record.size++] = (uint8_t)level;
    key_of(number, record.bytes + record.size);
    record.size += KEY_SIZE;
    return record;
}

static kv_space *space_of(const struct scratch *scratch, const char *name)
{
    kv_space *space;
    need(kv_space_open(scratch->db, name, 0, &space, NULL));
    return space;
}

static void write_record(const struct scratch *scratch, const char *space,
                         const struct record *record, kv_slice value)
{
    need(kv_put(space_of(scratch, space), kv_bytes(record->bytes, record->size), value, 0,
                NULL));
}

static void delete_record(const struct scratch *scratch, const char *space,
                          const struct record *record)
{
    need(kv_delete(space_of(scratch, space), kv_bytes(record->bytes, record->size), 0, NULL));
}

/* Invert a record's last byte; the record as it was goes to `before`. */
static size_t flip_record(const struct scratch *scratch, const char *space, kv_slice key,
                          uint8_t before[NODE_MAX])
{
    kv_value value;
    uint8_t after[NODE_MAX];
    need(kv_get(space_of(scratch, space), NULL, key, &value, NULL));
    size_t size = value.bytes.size;
    cr_assert_leq(size, NODE_MAX);
    memcpy(before, value.bytes.data, size);
    memcpy(after, before, size);
    after[size - 1] ^= 0xff;
    kv_value_release(&value);
    need(kv_put(space_of(scratch, space), key, kv_bytes(after, size), 0, NULL));
    return size;
}

/* The first digest bytes of a node's record, in hex, as messages show them. */
static void shown_digest(const uint8_t *node, size_t size, char out[17])
{
    for (size_t i = 0; i < 8; i++)
        snprintf(out + 2 * i, 3, "%02x", node[size - VMAP_DIGEST_SIZE + i]);
}

/* The page of `level` that key `number` is in begins at this key. */
static uint32_t page_begin(unsigned level, uint32_t number)
{
    while (number > 0 && rank_of(number) <= level)
        number--;
    return number;
}

/* A key inside that begins no page at all, or one of `level` and no higher. */
static uint32_t find_inner(void)
{
    uint32_t number = KEYS / 2;
    while (rank_of(number) != 0)
        number++;
    return number;
}

static uint32_t find_begin(unsigned rank)
{
    uint32_t number = KEYS / 3;
    while (rank_of(number) != rank)
        number++;
    cr_assert_lt(number, KEYS - 1);
    return number;
}

/* ---- What is told ---------------------------------------------------------------- */

static kv_code verify_version(struct scratch *scratch, uint64_t version, kv_status *status)
{
    state_view *view;
    *status = (kv_status)KV_STATUS_INIT;
    scratch_reopen(scratch);
    need(state_view_open(scratch->state, version, &view, status));
    kv_code code = state_view_verify(view, NULL, NULL, status);
    state_view_close(view);
    return code;
}

static void expect_told(struct scratch *scratch, uint64_t version, const char *first,
                        const char *second)
{
    kv_status status;
    cr_assert_eq(verify_version(scratch, version, &status), KV_CORRUPT, "not found: %s, %s",
                 first, second);
    cr_expect(strstr(status.message, first) != NULL, "'%s' lacks '%s'", status.message, first);
    cr_expect(strstr(status.message, second) != NULL, "'%s' lacks '%s'", status.message,
              second);
}

static void expect_page(struct scratch *scratch, uint64_t version, unsigned level,
                        uint32_t begin, const char *more)
{
    char where[64];
    snprintf(where, sizeof(where), "map 'm': page of level %u at key %08x:", level, begin * 16);
    expect_told(scratch, version, where, more);
}

static void expect_key(struct scratch *scratch, unsigned level, uint32_t number,
                       const char *more)
{
    char where[64];
    snprintf(where, sizeof(where), "map 'm': level %u, key %08x: ", level, number * 16);
    expect_told(scratch, 0, where, more);
}

struct parameter {
    char driver[16];
};

static struct parameter drivers[] = {
    { "memory" }, { "leveldb" }, { "rocksdb" }, { "shadow" }
};

#define DAMAGE_TEST(name)                                                        \
    ParameterizedTestParameters(verify, name)                                    \
    {                                                                            \
        return cr_make_param_array(struct parameter, drivers, DRIVERS_OF_TESTS); \
    }                                                                            \
    ParameterizedTest(const struct parameter *parameter, verify, name)
/* A folder with a file per record is slow to make, and verify reads it like any other. */
enum { DRIVERS_OF_TESTS = 3 };

DAMAGE_TEST(value)
{
    struct scratch scratch;
    kv_status status;
    fill(&scratch, parameter->driver);
    cr_assert_eq(verify_version(&scratch, 1, &status), KV_OK, "%s", status.message);
    cr_assert_eq(verify_version(&scratch, 2, &status), KV_OK, "%s", status.message);
    uint32_t number = find_inner();
    uint32_t begin = page_begin(0, number);
    struct record record = record_at(-1, number);
    uint8_t before[NODE_MAX];
    size_t size =
        flip_record(&scratch, "state.values", kv_bytes(record.bytes, record.size), before);
    expect_page(&scratch, 0, 0, begin, "pairs, digest ");
    delete_record(&scratch, "state.values", &record); /* one pair too few */
    expect_page(&scratch, 0, 0, begin, "expected ");
    write_record(&scratch, "state.values", &record, kv_bytes(before, size));
    cr_assert_eq(verify_version(&scratch, 2, &status), KV_OK, "%s", status.message);
    record.bytes[record.size - 1] ^= 1; /* a key that was never put */
    if (vmap_rank(kv_bytes(record.bytes + 4, KEY_SIZE), PAGE_BITS) == 0) {
        write_record(&scratch, "state.values", &record, kv_text("new"));
        expect_page(&scratch, 0, 0, begin, "found ");
    }
    scratch_close(&scratch);
}

/* Records of the pages of `level` >= 1: another digest, none, one too many. */
static void damage_level(const char *driver, unsigned level)
{
    struct scratch scratch;
    kv_status status;
    uint8_t before[NODE_MAX];
    char digest[17], wanted[40];
    fill(&scratch, driver);
    uint32_t begin = find_begin(level + 1);
    struct record record = record_at((int)level, begin);
    kv_slice key = kv_bytes(record.bytes, record.size);
    size_t size = flip_record(&scratch, "state.pages", key, before);
    shown_digest(before, size, digest);
    snprintf(wanted, sizeof(wanted), "digest %s", digest);
    expect_page(&scratch, 0, level, begin, wanted); /* what its pairs give, and what was said */
    before[size - 32] ^= 0xff;
    write_record(&scratch, "state.pages", &record, kv_bytes(before, size));
    shown_digest(before, size, digest);
    snprintf(wanted, sizeof(wanted), "digest %s, found", digest);
    expect_page(&scratch, 0, level, begin, wanted);
    before[size - 32] ^= 0xff;
    delete_record(&scratch, "state.pages", &record);
    if (level == 1)
        expect_key(&scratch, 1, begin, "a page begins that has no record");
    else
        expect_page(&scratch, 0, level, begin, "expected no page");
    write_record(&scratch, "state.pages", &record, kv_bytes(before, size));
    cr_assert_eq(verify_version(&scratch, 2, &status), KV_OK, "%s", status.message);
    uint32_t inner = find_inner();
    record = record_at((int)level, inner);
    write_record(&scratch, "state.pages", &record, kv_bytes(before, size));
    expect_key(&scratch, level, inner, "a record where no page begins");
    scratch_close(&scratch);
}

DAMAGE_TEST(level_1)
{
    damage_level(parameter->driver, 1);
}

DAMAGE_TEST(level_2)
{
    damage_level(parameter->driver, 2);
}

/* Visit the history records of `level` of the changed key's page or value. */
static kv_slice find_history(const struct scratch *scratch, uint8_t level, uint8_t key[64])
{
    kv_iter *iter;
    const uint8_t prefix[5] = { 0, 0, 0, 1, level };
    need(kv_iter_open(space_of(scratch, "state.history"), NULL, NULL, &iter, NULL));
    cr_assert(kv_iter_seek(iter, kv_bytes(prefix, sizeof(prefix))));
    kv_slice found = kv_iter_key(iter);
    cr_assert(found.size <= 64 && memcmp(found.data, prefix, sizeof(prefix)) == 0);
    memcpy(key, found.data, found.size);
    found.data = key;
    kv_iter_close(iter);
    return found;
}

DAMAGE_TEST(history)
{
    struct scratch scratch;
    kv_status status;
    uint8_t before[NODE_MAX], key[64];
    fill(&scratch, parameter->driver);
    for (uint8_t level = 0; level <= 2; level++) {
        kv_slice name = find_history(&scratch, level, key);
        size_t size = flip_record(&scratch, "state.history", name, before);
        /* Key 0 was changed, so the first record of each level is the first page's. */
        expect_page(&scratch, 1, level == 0 ? 1 : level, 0, "expected ");
        need(kv_delete(space_of(&scratch, "state.history"), name, 0, NULL));
        /* Without the old node of level 1 the new one's entries name a page below it. */
        expect_page(&scratch, 1, level == 0 ? 1 : level == 1 ? 0 : level, 0, "expected ");
        before[0] = 7; /* neither there nor absent */
        need(
            kv_put(space_of(&scratch, "state.history"), name, kv_bytes(before, size), 0, NULL));
        expect_told(&scratch, 1, "state.history: the record at key 00000001", "is damaged");
        before[0] = 1;
        need(
            kv_put(space_of(&scratch, "state.history"), name, kv_bytes(before, size), 0, NULL));
        cr_assert_eq(verify_version(&scratch, 1, &status), KV_OK, "%s", status.message);
        cr_assert_eq(verify_version(&scratch, 2, &status), KV_OK, "%s", status.message);
    }
    scratch_close(&scratch);
}

DAMAGE_TEST(leftover)
{
    struct scratch scratch;
    kv_status status;
    fill(&scratch, parameter->driver);
    uint32_t inner = find_inner();
    struct record record = record_at(0, inner); /* entries */
    write_record(&scratch, "state.pages", &record, kv_text("old"));
    expect_key(&scratch, 1, inner, "entries where no page begins");
    delete_record(&scratch, "state.pages", &record);
    record = record_at(40, 0); /* far above the root */
    write_record(&scratch, "state.pages", &record, kv_text("old"));
    expect_key(&scratch, 40, 0, "a record where no page begins");
    delete_record(&scratch, "state.pages", &record);
    static const char *const spaces[] = { "state.values", "state.pages", "state.history" };
    for (size_t i = 0; i < 3; i++) {
        record = record_at(1, inner);
        record.bytes[3] = 9; /* a map that never was */
        write_record(&scratch, spaces[i], &record, kv_text("x"));
        expect_told(&scratch, 0, spaces[i], "map number 9");
        delete_record(&scratch, spaces[i], &record);
    }
    cr_assert_eq(verify_version(&scratch, 2, &status), KV_OK, "%s", status.message);
    scratch_close(&scratch);
}

/* ---- Copies ---------------------------------------------------------------------- */

struct copying {
    struct scratch *from, *to;
};

static bool copy_space(void *context, const char *name)
{
    const struct copying *copying = context;
    kv_space *to;
    kv_iter *iter;
    need(kv_space_open(copying->to->db, name, KV_CREATE, &to, NULL));
    need(kv_iter_open(space_of(copying->from, name), NULL, NULL, &iter, NULL));
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        need(kv_put(to, kv_iter_key(iter), kv_iter_value(iter), 0, NULL));
    need(kv_iter_status(iter, NULL));
    kv_iter_close(iter);
    return true;
}

static void small_fill(struct scratch *scratch, const char *driver)
{
    vmap *map, *other;
    scratch_open(scratch, driver);
    scratch_set(scratch, "vmap.page_bits", "3");
    scratch_reopen(scratch);
    need(state_map_open(scratch->state, "m", KV_CREATE, &map, NULL));
    need(state_map_open(scratch->state, "other", KV_CREATE, &other, NULL));
    for (uint64_t version = 1; version <= 3; version++) {
        for (uint32_t i = 0; i < 40; i++)
            put(map, (uint32_t)(i * version), version);
        put(other, (uint32_t)version, version);
        need(state_commit(scratch->state, 0, NULL, NULL));
    }
    scratch_reopen(scratch);
}

/* A state of every engine, copied record by record to every other, is verified there at
 * every kept version and has the same app hashes. */
Test(copies, any_engine_to_any_other)
{
    enum { COUNT = sizeof(drivers) / sizeof(drivers[0]) };
    for (size_t i = 0; i < COUNT * COUNT; i++) {
        struct scratch from, to;
        kv_status status;
        if (i / COUNT == i % COUNT)
            continue;
        small_fill(&from, drivers[i / COUNT].driver);
        scratch_open(&to, drivers[i % COUNT].driver);
        need(state_close(to.state, NULL));
        struct copying copying = { &from, &to };
        need(kv_space_list(from.db, copy_space, &copying, NULL));
        need(state_open(to.db, to.options, 0, &to.state, NULL));
        for (uint64_t version = 1; version <= 3; version++) {
            state_view *views[2];
            need(state_view_open(from.state, version, &views[0], NULL));
            need(state_view_open(to.state, version, &views[1], NULL));
            vmap_digest one = state_view_app_hash(views[0]);
            vmap_digest two = state_view_app_hash(views[1]);
            cr_assert_arr_eq(one.bytes, two.bytes, sizeof(one.bytes));
            state_view_close(views[0]);
            state_view_close(views[1]);
            cr_assert_eq(verify_version(&to, version, &status), KV_OK, "%s to %s: %s",
                         from.driver, to.driver, status.message);
        }
        scratch_close(&from);
        scratch_close(&to);
    }
}
