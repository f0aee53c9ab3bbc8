/* warm.c - a cache that has room for all pages keeps them. */
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
