/* warm.c - a cache that has room for all pages keeps them; one that has not keeps the best. */
#include "../state/scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 20000, COMMITS = 80, CHANGES = 400, BYTES_PER_KEY = 110 };

TestSuite(warm, .timeout = 100);

static void note_misses(void *context, const kv_stat *stat)
{
    if (strcmp(stat->name, "cache_misses") == 0)
        *(uint64_t *)context = stat->number;
}

static void note_leaves(void *context, const kv_stat *stat)
{
    if (strcmp(stat->name, "digests_leaf") == 0)
        *(uint64_t *)context = stat->number;
}

static void put(vmap *map, uint64_t number, uint64_t value)
{
    uint64_t key[4] = { number * UINT64_C(0x9e3779b97f4a7c15), number, 0, 0 };
    need(vmap_put(map, kv_bytes(key, sizeof(key)), kv_bytes(&value, sizeof(value)), NULL));
}

/* Pages that a commit replaced stand beside those that took their place, at every level;
 * they must be the first to go. `keep` 2 has all of them copied. */
static void commit_much(const char *keep)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    kv_options *options;
    kv_db *db;
    state *self;
    vmap *map;
    uint64_t misses = 0, random = 1;
    char budget[32];
    snprintf(budget, sizeof(budget), "%d", 2 * KEYS * BYTES_PER_KEY);
    need(kv_options_new("memory", "", tables, &options, NULL));
    need(kv_options_set(options, "vmap.cache_size", budget, NULL));
    need(kv_options_set(options, "vmap.keep_recent", keep, NULL));
    need(kv_open(options, KV_CREATE, &db, NULL));
    need(state_open(db, options, KV_CREATE, &self, NULL));
    need(state_map_open(self, "m", KV_CREATE, &map, NULL));
    for (uint64_t i = 0; i < KEYS; i++)
        put(map, i, i);
    need(state_commit(self, 0, NULL, NULL));
    for (uint64_t version = 0; version < COMMITS; version++) {
        for (int i = 0; i < CHANGES; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            put(map, (random >> 33) % KEYS, random);
        }
        need(state_commit(self, 0, NULL, NULL));
    }
    need(state_stats(self, note_misses, &misses, NULL));
    cr_assert_eq(misses, 0, "%lu pages had left the cache", (unsigned long)misses);
    need(state_close(self, NULL));
    need(kv_close(db, NULL));
    kv_options_free(options);
}

Test(warm, pages_stay_when_changed_in_place)
{
    commit_much("1");
}

Test(warm, replaced_pages_go_first)
{
    commit_much("2");
}

/* What pages leave behind in the cache is enough for a change of a value: of its page, 32
 * pairs on average and the longer the likelier, only a group is read. The roots are those
 * of a map whose pages are all there, also where keys come and go. */
enum { ROOM_PER_KEY = 22, COLD_COMMITS = 20 };

struct cold {
    kv_options *options;
    kv_db *db;
    state *self;
    vmap *map;
};

static void cold_open(struct cold *cold, size_t cache, const char *keep)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    char budget[32];
    snprintf(budget, sizeof(budget), "%zu", cache);
    need(kv_options_new("memory", "", tables, &cold->options, NULL));
    need(kv_options_set(cold->options, "vmap.cache_size", budget, NULL));
    need(kv_options_set(cold->options, "vmap.keep_recent", keep, NULL));
    need(kv_open(cold->options, KV_CREATE, &cold->db, NULL));
    need(state_open(cold->db, cold->options, KV_CREATE, &cold->self, NULL));
    need(state_map_open(cold->self, "m", KV_CREATE, &cold->map, NULL));
    for (uint64_t i = 0; i < KEYS; i++)
        put(cold->map, i, i);
    need(state_commit(cold->self, 0, NULL, NULL));
}

static void cold_close(struct cold *cold)
{
    need(state_close(cold->self, NULL));
    need(kv_close(cold->db, NULL));
    kv_options_free(cold->options);
}

static void cold_commit(struct cold *cold, uint64_t seed, bool reshape)
{
    for (uint64_t i = 0; i < CHANGES; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t number = (seed >> 33) % KEYS;
        uint64_t key[4] = { number * UINT64_C(0x9e3779b97f4a7c15), number, 0, 0 };
        if (!reshape || i % 3 == 0)
            put(cold->map, number, seed);
        else if (i % 3 == 1)
            put(cold->map, KEYS + number, seed);
        else
            need(vmap_delete(cold->map, kv_bytes(key, sizeof(key)), NULL));
    }
    need(state_commit(cold->self, 0, NULL, NULL));
}

static void commit_cold(bool reshape, const char *keep, double leaves_max)
{
    struct cold all, few;
    uint64_t before = 0, after = 0;
    cold_open(&all, (size_t)1 << 30, keep);
    cold_open(&few, (size_t)KEYS * ROOM_PER_KEY, keep);
    need(state_stats(few.self, note_leaves, &before, NULL));
    for (uint64_t version = 0; version < COLD_COMMITS; version++) {
        cold_commit(&all, version, reshape);
        cold_commit(&few, version, reshape);
        vmap_digest right = state_app_hash(all.self), found = state_app_hash(few.self);
        cr_assert_arr_eq(found.bytes, right.bytes, VMAP_DIGEST_SIZE, "commit %lu",
                         (unsigned long)version);
    }
    need(state_stats(few.self, note_leaves, &after, NULL));
    double leaves = (double)(after - before) / (COLD_COMMITS * CHANGES);
    cr_assert_lt(leaves, leaves_max, "%f leaves were computed for a change", leaves);
    cold_close(&all);
    cold_close(&few);
}

Test(warm, a_value_changes_by_its_group)
{
    commit_cold(false, "1", 14);
}

Test(warm, groups_of_versions_kept)
{
    commit_cold(false, "5", 18);
}

Test(warm, groups_when_keys_come_and_go)
{
    commit_cold(true, "1", 64);
}
