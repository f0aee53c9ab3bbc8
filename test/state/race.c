/*
 * race.c - readers of old and new versions while commits and pruning go on.
 *
 *     test_state_race [COMMITS]
 *
 * One thread commits; others open views of any kept version and compare app
 * hash, values, walks and proofs with the model. Run it under the thread
 * sanitizer on the memory driver; it also runs on the others.
 */
#include "model.h"

#include "kv/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNIVERSE = 500, PAGE_BITS = 3, READERS = 3, CHANGES = 60, VERSIONS_MAX = 1024 };

struct race {
    state *state;
    struct universe universe;
    struct model versions[VERSIONS_MAX];
    vmap_digest app_hashes[VERSIONS_MAX];
    atomic_bool stop;
    atomic_uint_fast64_t views, too_old;
};

struct reader {
    struct race *race;
    uint64_t seed;
};

static void fail(const char *what, const char *more)
{
    fprintf(stderr, "race: %s: %s\n", what, more);
    exit(1);
}

static void need(kv_code code, const kv_status *status, const char *what)
{
    if (code != KV_OK)
        fail(what, status->message);
}

static void read_key(struct race *race, state_view *view, const struct model *model, size_t map,
                     size_t key)
{
    uint8_t buffer[MODEL_VALUE_SIZE_MAX];
    kv_status status = KV_STATUS_INIT;
    kv_value value;
    vmap_proof proof;
    uint32_t number = model->numbers[map][key];
    vmap_digest app_hash = state_view_app_hash(view);
    kv_slice name = race->universe.keys[key];
    kv_code code = state_view_get(view, model_names[map], name, &value, &status);
    if (code != (number == 0 ? KV_NOT_FOUND : KV_OK) ||
        (number != 0 && kv_compare(value.bytes, model_value(number, buffer)) != 0))
        fail("a value is wrong", status.message);
    kv_value_release(&value);
    code = state_view_prove(view, model_names[map], name, &value, &proof, &status);
    if (code != (number == 0 ? KV_NOT_FOUND : KV_OK))
        fail("a proof shows the wrong thing", status.message);
    need(vmap_proof_verify(&proof, &app_hash, model_names[map], name,
                           number == 0 ? NULL : &value.bytes, &status),
         &status, "vmap_proof_verify");
    vmap_proof_clear(&proof);
    kv_value_release(&value);
}

static void walk(struct race *race, state_view *view, const struct model *model, size_t map)
{
    vmap_iter *iter;
    kv_status status = KV_STATUS_INIT;
    need(state_view_iter_open(view, model_names[map], NULL, &iter, &status), &status, "iter");
    bool on = vmap_iter_first(iter);
    for (size_t key = 0; key < race->universe.count; key++) {
        if (model->numbers[map][key] == 0)
            continue;
        if (!on || kv_compare(vmap_iter_key(iter), race->universe.keys[key]) != 0)
            fail("a walk is wrong", model_names[map]);
        on = vmap_iter_next(iter);
    }
    if (on)
        fail("a walk has too much", model_names[map]);
    vmap_iter_close(iter);
}

static void read_version(struct race *race, struct random *random)
{
    state_view *view;
    kv_status status = KV_STATUS_INIT;
    uint64_t oldest = state_version_oldest(race->state), newest = state_version(race->state);
    if (oldest == 0 || newest == 0)
        return;
    uint64_t version = oldest + random_below(random, newest - oldest + 1);
    kv_code code = state_view_open(race->state, version, &view, &status);
    if (code == KV_TOO_OLD) { /* pruned since */
        race->too_old++;
        return;
    }
    need(code, &status, "state_view_open");
    const struct model *model = &race->versions[version];
    vmap_digest app_hash = state_view_app_hash(view);
    if (memcmp(app_hash.bytes, race->app_hashes[version].bytes, sizeof(app_hash.bytes)) != 0)
        fail("an app hash is wrong", "");
    size_t map = random_below(random, MODEL_MAPS);
    for (int i = 0; i < 30; i++)
        read_key(race, view, model, map, random_below(random, race->universe.count));
    walk(race, view, model, map);
    if (random_below(random, 8) == 0)
        need(state_view_verify(view, NULL, NULL, &status), &status, "state_view_verify");
    race->views++;
    state_view_close(view);
}

static void *reader_main(void *argument)
{
    const struct reader *reader = argument;
    struct random random = { reader->seed };
    while (!reader->race->stop)
        read_version(reader->race, &random);
    return NULL;
}

static void commit(struct race *race, struct random *random, uint64_t version)
{
    kv_status status = KV_STATUS_INIT;
    struct model *model = &race->versions[version];
    model_init(model, &race->universe);
    model_copy(model, &race->versions[version - 1], &race->universe);
    model->version = version;
    for (size_t map = 0; map < MODEL_MAPS; map++) {
        vmap *handle;
        need(state_map_open(race->state, model_names[map], KV_CREATE, &handle, &status),
             &status, "state_map_open");
        model->exists[map] = true;
        for (int i = 0; i < CHANGES; i++) {
            uint8_t buffer[MODEL_VALUE_SIZE_MAX];
            size_t key = random_below(random, race->universe.count);
            uint32_t number =
                random_below(random, 3) == 0 ? 0 : 1 + (uint32_t)random_below(random, 1u << 20);
            kv_code code = number == 0 ? vmap_delete(handle, race->universe.keys[key], &status)
                                       : vmap_put(handle, race->universe.keys[key],
                                                  model_value(number, buffer), &status);
            need(code, &status, "change");
            model->numbers[map][key] = number;
        }
    }
    /* Readers may ask for the version as soon as it is committed. */
    race->app_hashes[version] = model_app_hash(model, &race->universe, PAGE_BITS);
    need(state_commit(race->state, 0, NULL, &status), &status, "state_commit");
    if (version % 7 == 0)
        need(state_prune(race->state, 2, &status), &status, "state_prune");
}

static void run_race(const char *driver, uint64_t commits, const char *batch_size)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    static struct race race;
    kv_status status = KV_STATUS_INIT;
    kv_options *options;
    kv_db *db;
    char dir[64] = "/tmp/statekv-race-XXXXXX", command[96];
    pthread_t threads[READERS];
    struct reader readers[READERS];
    struct random random = { 7 };
    memset(&race, 0, sizeof(race));
    if (mkdtemp(dir) == NULL)
        fail("mkdtemp", dir);
    snprintf(command, sizeof(command), "%s/db", dir);
    need(kv_options_new(driver, command, tables, &options, &status), &status, "options");
    need(kv_options_set(options, "vmap.page_bits", "3", &status), &status, "page_bits");
    need(kv_options_set(options, "vmap.keep_recent", "8", &status), &status, "keep_recent");
    need(kv_options_set(options, "vmap.threads", "2", &status), &status, "threads");
    need(kv_options_set(options, "vmap.cache_size", "60000", &status), &status, "cache_size");
    need(kv_options_set(options, "vmap.batch_size", batch_size, &status), &status, "batch");
    need(kv_open(options, KV_CREATE, &db, &status), &status, "kv_open");
    need(state_open(db, options, KV_CREATE, &race.state, &status), &status, "state_open");
    universe_make(&race.universe, UNIVERSE, 3);
    model_init(&race.versions[0], &race.universe);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){ &race, i + 1 };
        if (pthread_create(&threads[i], NULL, reader_main, &readers[i]) != 0)
            fail("pthread_create", driver);
    }
    for (uint64_t version = 1; version <= commits && version < VERSIONS_MAX; version++)
        commit(&race, &random, version);
    race.stop = true;
    for (size_t i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    need(state_close(race.state, &status), &status, "state_close");
    need(kv_close(db, &status), &status, "kv_close");
    kv_options_free(options);
    printf("%s, batches of %s: %llu commits, %llu views, %llu pruned before they opened\n",
           driver, batch_size, (unsigned long long)commits, (unsigned long long)race.views,
           (unsigned long long)race.too_old);
    if (race.views == 0)
        fail("no view was ever read", driver);
    for (size_t i = 0; i < VERSIONS_MAX; i++)
        model_free(&race.versions[i]);
    universe_free(&race.universe);
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0)
        fail("rm", dir);
}

int main(int count, char **arguments)
{
    static const char *const drivers[] = { "memory", "leveldb", "rocksdb" };
    uint64_t commits = count > 1 ? strtoull(arguments[1], NULL, 10) : 30;
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        if (kv_driver_find(drivers[i]) == NULL)
            continue;
        run_race(drivers[i], commits, "16MiB");
        run_race(drivers[i], commits, "8192");
    }
    return 0;
}
