/*
 * random.c - random histories against the model.
 *
 *     test_state_random OPERATIONS [DRIVER [SEED]]
 *
 * Puts, deletes, commits, rollbacks, reopening with other options, prunes,
 * returns to older versions, drops of maps; after each commit every root and
 * every pair is compared, and at random times older versions, walks both ways,
 * proofs and the full verification. A failure prints the seed.
 */
#include "model.h"
#include "records.h"

#include "kv/driver.h"
#include "test/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSIONS_MAX = 4096, UNIVERSE = 1500 };

struct run {
    char driver[16];
    char dir[64];
    uint64_t seed;
    struct random random;
    struct universe universe;
    unsigned page_bits;
    kv_options *options;
    kv_db *db;
    state *state;
    struct model committed, working;
    struct model *versions; /* [version]; version 0 when never or no more there */
    uint64_t oldest;
    uint64_t keep;
    uint64_t versions_kept;
    uint64_t operation;
    uint64_t checks;
};

KV_PRINTF(2, 3)
static void fail(const struct run *run, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "random: driver %s seed %llu operation %llu version %llu: ", run->driver,
            (unsigned long long)run->seed, (unsigned long long)run->operation,
            (unsigned long long)run->committed.version);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void need(const struct run *run, kv_code code, const kv_status *status, const char *what)
{
    if (code != KV_OK)
        fail(run, "%s: %s: %s", what, kv_code_name(code), status->message);
}

/* ---- Opening ------------------------------------------------------------- */

static void set_option(struct run *run, const char *name, const char *value)
{
    kv_status status = KV_STATUS_INIT;
    need(run, kv_options_set(run->options, name, value, &status), &status, name);
}

static void set_number(struct run *run, const char *name, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    set_option(run, name, text);
}

static void set_random_options(struct run *run)
{
    static const char *const caches[] = { "0", "4096", "100000", "16MiB" };
    static const char *const batches[] = { "4096", "20000", "100000", "16MiB" };
    static const uint64_t keeps[] = { 1, 2, 5, 30 };
    set_option(run, "vmap.cache_size", caches[random_below(&run->random, 4)]);
    set_option(run, "vmap.batch_size", batches[random_below(&run->random, 4)]);
    run->keep = keeps[random_below(&run->random, 4)];
    set_number(run, "vmap.threads", 1 + random_below(&run->random, 4));
    set_number(run, "vmap.keep_recent", run->keep);
    set_number(run, "vmap.page_bits", run->page_bits);
}

static void open_all(struct run *run, bool database)
{
    kv_status status = KV_STATUS_INIT;
    set_random_options(run);
    if (database)
        need(run, kv_open(run->options, KV_CREATE, &run->db, &status), &status, "kv_open");
    need(run, state_open(run->db, run->options, KV_CREATE, &run->state, &status), &status,
         "state_open");
    if (state_version(run->state) != run->committed.version)
        fail(run, "opened at version %llu", (unsigned long long)state_version(run->state));
}

static void close_all(struct run *run, bool database)
{
    kv_status status = KV_STATUS_INIT;
    need(run, state_close(run->state, &status), &status, "state_close");
    run->state = NULL;
    if (database)
        need(run, kv_close(run->db, &status), &status, "kv_close");
}

static vmap *open_map(struct run *run, size_t map)
{
    vmap *handle;
    kv_status status = KV_STATUS_INIT;
    need(run, state_map_open(run->state, model_names[map], KV_CREATE, &handle, &status),
         &status, "state_map_open");
    run->working.exists[map] = true;
    return handle;
}

/* ---- Comparing ----------------------------------------------------------- */

static void compare_value(const struct run *run, const char *where, size_t key, kv_code code,
                          const kv_value *value, uint32_t number)
{
    uint8_t buffer[MODEL_VALUE_SIZE_MAX];
    if (code != (number == 0 ? KV_NOT_FOUND : KV_OK))
        fail(run, "%s: key %zu answers %s", where, key, kv_code_name(code));
    if (number != 0 && kv_compare(value->bytes, model_value(number, buffer)) != 0)
        fail(run, "%s: key %zu has another value", where, key);
}

static void compare_working(struct run *run, size_t map, size_t key)
{
    kv_value value = KV_VALUE_INIT;
    kv_status status = KV_STATUS_INIT;
    vmap *handle = open_map(run, map);
    kv_code code = vmap_get(handle, run->universe.keys[key], &value, &status);
    compare_value(run, "working set", key, code, &value, run->working.numbers[map][key]);
    kv_value_release(&value);
}

static void compare_proof(struct run *run, state_view *view, const struct model *model,
                          size_t map, size_t key)
{
    vmap_proof proof;
    kv_status status = KV_STATUS_INIT;
    kv_value value = KV_VALUE_INIT;
    vmap_digest app_hash = state_view_app_hash(view);
    uint32_t number = model->numbers[map][key];
    kv_code code = state_view_prove(view, model_names[map], run->universe.keys[key], &value,
                                    &proof, &status);
    if (code != KV_OK && code != KV_NOT_FOUND)
        fail(run, "prove: %s: %s", kv_code_name(code), status.message);
    compare_value(run, "prove", key, code, &value, number);
    code = vmap_proof_verify(&proof, &app_hash, model_names[map], run->universe.keys[key],
                             number != 0 ? &value.bytes : NULL, &status);
    need(run, code, &status, "vmap_proof_verify");
    /* The other claim must fail. */
    kv_slice claim = kv_text("no such value");
    if (vmap_proof_verify(&proof, &app_hash, model_names[map], run->universe.keys[key],
                          number != 0 ? NULL : &claim, NULL) != KV_UNPROVEN)
        fail(run, "a false claim about key %zu was proven", key);
    vmap_proof_clear(&proof);
    kv_value_release(&value);
    run->checks++;
}

/* Turn about at random inside [low, high). */
static void compare_turns(struct run *run, vmap_iter *iter, const uint32_t *numbers, size_t low,
                          size_t high)
{
    const kv_slice *keys = run->universe.keys;
    if (low >= high)
        return;
    size_t here = low + random_below(&run->random, high - low);
    bool on = vmap_iter_seek(iter, keys[here]);
    while (here < high && numbers[here] == 0)
        here++;
    for (int turns = 0; turns < 12; turns++) {
        bool should = here < high && here >= low;
        if (on != should || (on && kv_compare(vmap_iter_key(iter), keys[here]) != 0))
            fail(run, "a turn to key %zu goes wrong", here);
        if (!on)
            return;
        bool forward = random_below(&run->random, 2) == 0;
        do
            here += forward ? 1 : SIZE_MAX;
        while (here < high && here >= low && numbers[here] == 0);
        on = forward ? vmap_iter_next(iter) : vmap_iter_prev(iter);
    }
}

/* Walk a view, or the working set (`view` NULL), forwards, back, and to and fro. */
static void compare_walk(struct run *run, state_view *view, const uint32_t *numbers, size_t map)
{
    vmap_iter *iter;
    kv_status status = KV_STATUS_INIT;
    uint8_t buffer[MODEL_VALUE_SIZE_MAX];
    const kv_slice *keys = run->universe.keys;
    bool all = random_below(&run->random, 2) == 0;
    size_t low = all ? 0 : random_below(&run->random, run->universe.count);
    size_t high = all ? run->universe.count : random_below(&run->random, run->universe.count);
    kv_range range = { all ? kv_bytes(NULL, 0) : keys[low],
                       all ? kv_bytes(NULL, 0) : keys[high] };
    kv_code code = view != NULL
                       ? state_view_iter_open(view, model_names[map], &range, &iter, &status)
                       : vmap_iter_open(open_map(run, map), &range, &iter, &status);
    need(run, code, &status, "iter_open");
    bool on = vmap_iter_first(iter);
    for (size_t i = low; i < high; i++) {
        if (numbers[i] == 0)
            continue;
        if (!on || kv_compare(vmap_iter_key(iter), keys[i]) != 0 ||
            kv_compare(vmap_iter_value(iter), model_value(numbers[i], buffer)) != 0)
            fail(run, "a walk forwards differs at key %zu", i);
        on = vmap_iter_next(iter);
    }
    if (on)
        fail(run, "a walk forwards has too much");
    on = vmap_iter_last(iter);
    for (size_t i = high; i > low; i--) {
        if (numbers[i - 1] == 0)
            continue;
        if (!on || kv_compare(vmap_iter_key(iter), keys[i - 1]) != 0)
            fail(run, "a walk backwards differs at key %zu", i - 1);
        on = vmap_iter_prev(iter);
    }
    if (on)
        fail(run, "a walk backwards has too much");
    compare_turns(run, iter, numbers, low, high);
    need(run, vmap_iter_status(iter, &status), &status, "iter_status");
    vmap_iter_close(iter);
}

static void compare_version(struct run *run, const struct model *model, bool thorough)
{
    state_view *view;
    kv_status status = KV_STATUS_INIT;
    need(run, state_view_open(run->state, model->version, &view, &status), &status,
         "state_view_open");
    vmap_digest app_hash = state_view_app_hash(view);
    vmap_digest expected = model_app_hash(model, &run->universe, run->page_bits);
    if (memcmp(app_hash.bytes, expected.bytes, sizeof(expected.bytes)) != 0)
        fail(run, "version %llu has another app hash", (unsigned long long)model->version);
    for (size_t map = 0; map < MODEL_MAPS; map++) {
        if (!model->exists[map]) {
            if (state_view_root(view, model_names[map], &app_hash, NULL) != KV_NOT_FOUND)
                fail(run, "map %s should not be there", model_names[map]);
            continue;
        }
        for (size_t key = 0; key < run->universe.count; key++) {
            kv_value value = KV_VALUE_INIT;
            kv_code code = state_view_get(view, model_names[map], run->universe.keys[key],
                                          &value, &status);
            compare_value(run, "view", key, code, &value, model->numbers[map][key]);
            kv_value_release(&value);
        }
        for (int i = 0; i < (thorough ? 40 : 4); i++)
            compare_proof(run, view, model, map,
                          random_below(&run->random, run->universe.count));
        if (thorough)
            compare_walk(run, view, model->numbers[map], map);
    }
    if (thorough)
        need(run, state_view_verify(view, NULL, NULL, &status), &status, "state_view_verify");
    state_view_close(view);
}

/* ---- Operations ---------------------------------------------------------- */

static void forget_version(struct run *run, uint64_t version)
{
    if (run->versions[version].version == 0)
        return;
    model_free(&run->versions[version]);
    memset(&run->versions[version], 0, sizeof(struct model));
    run->versions_kept--;
}

static void keep_versions(struct run *run, uint64_t keep)
{
    while (run->versions_kept > keep) {
        forget_version(run, run->oldest);
        while (run->versions[run->oldest].version == 0)
            run->oldest++;
    }
    if (state_version_oldest(run->state) != run->oldest)
        fail(run, "the oldest version is %llu, not %llu",
             (unsigned long long)state_version_oldest(run->state),
             (unsigned long long)run->oldest);
}

static void commit(struct run *run)
{
    uint64_t version = run->committed.version + 1;
    kv_status status = KV_STATUS_INIT;
    kv_code code;
    if (random_below(&run->random, 6) == 0) {
        version += random_below(&run->random, 2);
        vmap_digest app_hash = model_app_hash(&run->working, &run->universe, run->page_bits);
        code = state_commit_as(run->state, version, &app_hash, 0, &status);
    } else {
        code = state_commit(run->state, 0, &version, &status);
    }
    need(run, code, &status, "commit");
    run->working.version = version;
    model_copy(&run->committed, &run->working, &run->universe);
    model_init(&run->versions[version], &run->universe);
    model_copy(&run->versions[version], &run->working, &run->universe);
    run->versions_kept++;
    if (run->oldest == 0)
        run->oldest = version;
    keep_versions(run, run->keep);
    compare_version(run, &run->committed, random_below(&run->random, 8) == 0);
}

/* A commit that must reach an app hash that it does not reach. */
static void commit_wrong(struct run *run)
{
    vmap_digest wrong = { { 1, 2, 3 } };
    kv_code code = state_commit_as(run->state, run->committed.version + 1, &wrong, 0, NULL);
    if (code != KV_UNPROVEN)
        fail(run, "a wrong app hash gives %s", kv_code_name(code));
    if (state_version(run->state) != run->committed.version)
        fail(run, "a refused commit left version %llu",
             (unsigned long long)state_version(run->state));
    state_rollback(run->state);
    model_copy(&run->working, &run->committed, &run->universe);
    if (run->committed.version > 0)
        compare_version(run, &run->committed, true);
}

static void compare_older(struct run *run)
{
    if (run->committed.version == 0)
        return;
    uint64_t version =
        run->oldest + random_below(&run->random, run->committed.version - run->oldest + 1);
    state_view *view;
    if (run->versions[version].version != 0)
        compare_version(run, &run->versions[version], random_below(&run->random, 4) == 0);
    else if (state_view_open(run->state, version, &view, NULL) != KV_TOO_OLD)
        fail(run, "version %llu, which never was, opens", (unsigned long long)version);
    if (run->oldest > 1 &&
        state_view_open(run->state, run->oldest - 1, &view, NULL) != KV_TOO_OLD)
        fail(run, "a pruned version opens");
    if (state_view_open(run->state, run->committed.version + 1, &view, NULL) != KV_TOO_NEW)
        fail(run, "a future version opens");
}

static void prune(struct run *run)
{
    if (run->committed.version == 0)
        return;
    uint64_t keep = 1 + random_below(&run->random, 6);
    kv_status status = KV_STATUS_INIT;
    need(run, state_prune(run->state, keep, &status), &status, "state_prune");
    keep_versions(run, keep);
    if (random_below(&run->random, 2) == 0 && !records_history_exact(run->db, run->state))
        fail(run, "the figures of history are wrong");
}

static void load(struct run *run)
{
    if (run->committed.version == 0)
        return;
    uint64_t version =
        run->oldest + random_below(&run->random, run->committed.version - run->oldest + 1);
    if (run->versions[version].version == 0)
        return;
    kv_status status = KV_STATUS_INIT;
    need(run, state_load_version(run->state, version, &status), &status, "state_load_version");
    for (uint64_t newer = version + 1; newer <= run->committed.version; newer++)
        forget_version(run, newer);
    model_copy(&run->committed, &run->versions[version], &run->universe);
    model_copy(&run->working, &run->committed, &run->universe);
    compare_version(run, &run->committed, true);
}

static void drop(struct run *run)
{
    size_t map = random_below(&run->random, MODEL_MAPS);
    kv_status status = KV_STATUS_INIT;
    kv_code code = state_map_drop(run->state, model_names[map], &status);
    if (code != (run->working.exists[map] ? KV_OK : KV_NOT_FOUND))
        fail(run, "state_map_drop: %s", kv_code_name(code));
    run->working.exists[map] = false;
    memset(run->working.numbers[map], 0, run->universe.count * sizeof(uint32_t));
}

static void change(struct run *run)
{
    uint8_t buffer[MODEL_VALUE_SIZE_MAX];
    kv_status status = KV_STATUS_INIT;
    size_t map = random_below(&run->random, MODEL_MAPS);
    size_t key = random_below(&run->random, run->universe.count);
    vmap *handle = open_map(run, map);
    if (random_below(&run->random, 10) < 6) {
        uint32_t number = 1 + (uint32_t)random_below(&run->random, 1u << 20);
        need(run,
             vmap_put(handle, run->universe.keys[key], model_value(number, buffer), &status),
             &status, "vmap_put");
        run->working.numbers[map][key] = number;
    } else {
        need(run, vmap_delete(handle, run->universe.keys[key], &status), &status,
             "vmap_delete");
        run->working.numbers[map][key] = 0;
    }
}

/* Delete most of a map, or all of it. */
static void empty(struct run *run)
{
    size_t map = random_below(&run->random, MODEL_MAPS);
    kv_status status = KV_STATUS_INIT;
    vmap *handle = open_map(run, map);
    uint64_t spare = random_below(&run->random, 3);
    for (size_t key = 0; key < run->universe.count; key++) {
        if (run->working.numbers[map][key] == 0 || random_below(&run->random, 200) < spare)
            continue;
        need(run, vmap_delete(handle, run->universe.keys[key], &status), &status,
             "vmap_delete");
        run->working.numbers[map][key] = 0;
        run->operation++;
    }
}

static void reopen(struct run *run)
{
    bool database = strcmp(run->driver, "memory") != 0 && random_below(&run->random, 2) == 0;
    close_all(run, database);
    model_copy(&run->working, &run->committed, &run->universe);
    open_all(run, database);
}

/* Changes under a savepoint, some under a second one inside, taken back or kept. */
static void nest(struct run *run, unsigned depth)
{
    kv_status status = KV_STATUS_INIT;
    state_savepoint savepoint;
    struct model before;
    model_init(&before, &run->universe);
    model_copy(&before, &run->working, &run->universe);
    need(run, state_savepoint_take(run->state, &savepoint, &status), &status,
         "state_savepoint_take");
    uint64_t count = random_below(&run->random, 60);
    for (uint64_t i = 0; i < count; i++) {
        change(run);
        if (depth < 3 && random_below(&run->random, 40) == 0)
            nest(run, depth + 1);
    }
    if (random_below(&run->random, 2) == 0) {
        need(run, state_savepoint_rollback(run->state, savepoint, &status), &status,
             "state_savepoint_rollback");
        model_copy(&run->working, &before, &run->universe);
    } else {
        need(run, state_savepoint_release(run->state, savepoint, &status), &status,
             "state_savepoint_release");
    }
    if (state_savepoint_release(run->state, savepoint, NULL) != KV_BAD_STATE)
        fail(run, "an ended savepoint is taken for an open one");
    size_t map = random_below(&run->random, MODEL_MAPS);
    compare_working(run, map, random_below(&run->random, run->universe.count));
    compare_walk(run, NULL, run->working.numbers[map], map);
    model_free(&before);
}

static void operate(struct run *run)
{
    uint64_t dice = random_below(&run->random, 2000);
    run->operation++;
    if (dice < 1900) {
        change(run);
    } else if (dice < 1940) {
        size_t map = random_below(&run->random, MODEL_MAPS);
        compare_working(run, map, random_below(&run->random, run->universe.count));
    } else if (dice < 1960) {
        commit(run);
    } else if (dice < 1966) {
        size_t map = random_below(&run->random, MODEL_MAPS);
        compare_walk(run, NULL, run->working.numbers[map], map);
    } else if (dice < 1972) {
        compare_older(run);
    } else if (dice < 1976) {
        state_rollback(run->state);
        model_copy(&run->working, &run->committed, &run->universe);
    } else if (dice < 1979) {
        prune(run);
    } else if (dice < 1982) {
        load(run);
    } else if (dice < 1984) {
        drop(run);
    } else if (dice < 1986) {
        empty(run);
    } else if (dice < 1988) {
        commit_wrong(run);
    } else if (dice < 1992) {
        reopen(run);
    } else {
        nest(run, 0);
    }
}

/* ---- A run --------------------------------------------------------------- */

static void run_history(const char *driver, uint64_t operations, uint64_t seed)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    struct run run;
    kv_status status = KV_STATUS_INIT;
    char text[128];
    memset(&run, 0, sizeof(run));
    snprintf(run.driver, sizeof(run.driver), "%s", driver);
    snprintf(run.dir, sizeof(run.dir), "%s/statekv-random-XXXXXX", test_base());
    if (mkdtemp(run.dir) == NULL)
        fail(&run, "mkdtemp");
    run.seed = seed;
    run.random.state = seed;
    run.page_bits = 3 + (unsigned)random_below(&run.random, 3);
    universe_make(&run.universe, UNIVERSE, seed);
    model_init(&run.committed, &run.universe);
    model_init(&run.working, &run.universe);
    run.versions = calloc(VERSIONS_MAX, sizeof(*run.versions));
    snprintf(text, sizeof(text), "%s/db", run.dir);
    need(&run, kv_options_new(driver, text, tables, &run.options, &status), &status, "options");
    open_all(&run, true);
    while (run.operation < operations && run.committed.version + 4 < VERSIONS_MAX)
        operate(&run);
    commit(&run);
    compare_version(&run, &run.committed, true);
    if (!records_history_exact(run.db, run.state))
        fail(&run, "the figures of history are wrong");
    close_all(&run, true);
    kv_options_free(run.options);
    printf("%s seed %llu: %llu operations, version %llu, %llu proofs\n", driver,
           (unsigned long long)seed, (unsigned long long)run.operation,
           (unsigned long long)run.committed.version, (unsigned long long)run.checks);
    fflush(stdout);
    for (size_t i = 0; i < VERSIONS_MAX; i++)
        model_free(&run.versions[i]);
    free(run.versions);
    model_free(&run.committed);
    model_free(&run.working);
    universe_free(&run.universe);
    snprintf(text, sizeof(text), "rm -rf '%s'", run.dir);
    if (system(text) != 0)
        fprintf(stderr, "random: %s stays\n", run.dir);
}

int main(int count, char **arguments)
{
    static const char *const drivers[] = { "memory", "leveldb", "rocksdb" };
    enum { RUN_OPERATIONS = 20000 };
    uint64_t operations = count > 1 ? strtoull(arguments[1], NULL, 10) : 3000;
    const char *driver = count > 2 ? arguments[2] : NULL;
    uint64_t seed = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    bool known = driver == NULL;
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
        known = known || strcmp(driver, drivers[i]) == 0;
    if (!known) {
        fprintf(stderr, "random: %s is none of memory, leveldb and rocksdb\n", driver);
        return 2;
    }
    /* Many histories of bounded length: each has its own options and keys. */
    for (uint64_t done = 0; done < operations; done += RUN_OPERATIONS, seed++) {
        uint64_t left = operations - done;
        uint64_t now = left < RUN_OPERATIONS ? left : RUN_OPERATIONS;
        for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
            if (driver == NULL ? kv_driver_find(drivers[i]) != NULL
                               : strcmp(driver, drivers[i]) == 0)
                run_history(drivers[i], now, seed);
        }
    }
    return 0;
}
