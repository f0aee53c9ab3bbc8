/*
 * suite_vmap.c - the map and its state, beside the same pairs written raw.
 *
 *   commit               80 % updates, 10 % inserts, 10 % deletes, `changes` at a time: the
 *                        price of a root for every version
 *   update, insert, delete   the same, of one kind
 *   build                from nothing to `keys` pairs, `changes` at a time
 *   get, get_old         newest values; values at a version 15 commits back
 *   near_raw             a seek and 7 steps in the plain store: what a change of a value has
 *                        to read when its page is not in the cache, and no more
 *   prove, prove_absent, prove_old, check   proofs made, proofs checked
 *   verify               every digest again from the pairs
 *   open, open_cold      the state opened and closed; its database too, and one proof
 *   transfer             CryptoBench: accounts read, changed and put back, then a commit
 *   churn                VirtualMapBench's update: read, then remove 1 in 256, else add
 *   ..._raw              the same pairs in plain batches, the same reads of a plain store
 *
 * Keys are 32 random-looking bytes. A window of numbers slides: inserts add at its end and
 * deletes take from its beginning, so that the number of pairs stays what it is.
 *
 * `cache` is the page cache's budget in percent of what all pages of the map need, which is
 * measured: the state is opened, every page is read once, and the bytes that the cache then
 * holds are 100 percent. With the budget set, every page is read once more, so that a row
 * with 200 begins with all pages in the cache, and stays so while changed pages stand there
 * beside those that they replace. A row with 10 begins with the tenth that was read last.
 *
 * With `cache-size` the budget is that many bytes, and a row begins cold: the store is loaded
 * once for all rows and copied for each, so that a row's peak of resident memory
 * has nothing of the loading in it.
 */
#include "bench/suites.h"

#include "vmap/state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY_SIZE = 32, VALUE_SIZE_MAX = 4096, MAP_PREFIX_SIZE = 4 };
enum { LOAD_COMMIT = 100000, SAMPLE = 200, NEAR_STEPS = 7 };
enum { METRIC_LEAF, METRIC_INNER, METRIC_RANK, METRIC_MISSES, METRIC_NEED, METRICS };

/* While loading, no page that is needed leaves the cache: a pair takes at most half of this. */
static const uint64_t LOADING_PER_PAIR = 300, LOADING_LEAST = UINT64_C(64) << 20;

struct vmap_bench {
    kv_options *options;
    kv_db *db;
    kv_space *space; /* of the raw workloads */
    kv_batch *batch;
    state *state;
    vmap *map;
    state_view *view;
    uint64_t low, high; /* numbers of the keys that are there, */
    uint64_t absent;    /* but for so many that were removed one by one */
    uint64_t generation;
    uint64_t random;
    uint64_t need; /* bytes that all pages take in the cache */
    size_t value_size;
    uint8_t value[VALUE_SIZE_MAX];
};

struct bench_key {
    uint8_t bytes[MAP_PREFIX_SIZE + KEY_SIZE];
};

static struct vmap_bench *state_of(const bench_process *process)
{
    return process->state;
}

/* ---- Pairs ----------------------------------------------------------------- */

static uint64_t mix(uint64_t number)
{
    return bench_random(&number);
}

/* Key `number`, behind room for a raw record's prefix. */
static kv_slice make_key(struct bench_key *key, uint64_t number)
{
    for (size_t i = 0; i < KEY_SIZE / 8; i++) {
        uint64_t word = mix(number * 4 + i);
        memcpy(key->bytes + MAP_PREFIX_SIZE + 8 * i, &word, sizeof(word));
    }
    memcpy(key->bytes, "\0\0\0\1", MAP_PREFIX_SIZE);
    return kv_bytes(key->bytes + MAP_PREFIX_SIZE, KEY_SIZE);
}

static kv_slice raw_key(const struct bench_key *key)
{
    return kv_bytes(key->bytes, sizeof(key->bytes));
}

/* Half of a value is noise, so that it compresses by half. */
static kv_slice make_value(struct vmap_bench *bench, uint64_t number, uint64_t generation)
{
    uint64_t random = number ^ (generation << 40);
    for (size_t i = 0; i + 8 <= bench->value_size / 2; i += 8) {
        uint64_t word = bench_random(&random);
        memcpy(bench->value + i, &word, sizeof(word));
    }
    return kv_bytes(bench->value, bench->value_size);
}

/* ---- Stores ---------------------------------------------------------------- */

static kv_code set_number(kv_options *options, const char *name, uint64_t number,
                          kv_status *status)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return kv_options_set(options, name, text, status);
}

static uint64_t loading_budget(const bench_process *process)
{
    return LOADING_LEAST + LOADING_PER_PAIR * bench_number(process, "keys");
}

static kv_code open_state(const bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    kv_code code = state_open(bench->db, bench->options, KV_CREATE, &bench->state, status);
    if (code == KV_OK)
        code = state_map_open(bench->state, "bench", KV_CREATE, &bench->map, status);
    return code;
}

static uint64_t empty_budget(const bench_process *process)
{
    uint64_t size = bench_number(process, "cache-size");
    return size > 0 ? size : loading_budget(process);
}

static kv_code open_store(bench_process *process, uint64_t budget, kv_status *status)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    struct vmap_bench *bench = calloc(1, sizeof(*bench));
    char dir[PATH_MAX];
    process->state = bench;
    if (bench == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory");
    bench->random = process->seed;
    bench->value_size = bench_number(process, "value-size");
    if (bench->value_size == 0 || bench->value_size > VALUE_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "value-size is 1 to %d", VALUE_SIZE_MAX);
    memset(bench->value, 'v', sizeof(bench->value));
    kv_code code = kv_options_new("memory", "", tables, &bench->options, status);
    if (code == KV_OK)
        code = set_number(bench->options, "vmap.keep_recent", bench_number(process, "keep"),
                          status);
    if (code == KV_OK)
        code = set_number(bench->options, "vmap.cache_size", budget, status);
    if (code == KV_OK)
        code = set_number(bench->options, "vmap.page_bits", bench_number(process, "page-bits"),
                          status);
    if (code == KV_OK)
        code = set_number(bench->options, "vmap.threads", bench_number(process, "workers"),
                          status);
    snprintf(dir, sizeof(dir), "%s/db", process->dir);
    return code == KV_OK ? bench_open(process, dir, KV_CREATE, &bench->db, status) : code;
}

static void teardown(bench_process *process)
{
    struct vmap_bench *bench = state_of(process);
    if (bench == NULL)
        return;
    state_view_close(bench->view);
    kv_batch_free(bench->batch);
    if (state_close(bench->state, NULL) != KV_OK || kv_close(bench->db, NULL) != KV_OK)
        fprintf(stderr, "vmap: something was not closed\n");
    kv_options_free(bench->options);
    free(bench);
    process->state = NULL;
}

/* ---- Changes --------------------------------------------------------------- */

static kv_code put_bytes(struct vmap_bench *bench, const struct bench_key *key, kv_slice name,
                         kv_slice value, kv_status *status)
{
    if (bench->map != NULL)
        return vmap_put(bench->map, name, value, status);
    kv_batch_put(bench->batch, bench->space, raw_key(key), value);
    return KV_OK;
}

static kv_code put(struct vmap_bench *bench, uint64_t number, kv_status *status)
{
    struct bench_key key;
    kv_slice name = make_key(&key, number);
    return put_bytes(bench, &key, name, make_value(bench, number, bench->generation), status);
}

static kv_code drop(struct vmap_bench *bench, uint64_t number, kv_status *status)
{
    struct bench_key key;
    kv_slice name = make_key(&key, number);
    if (bench->map != NULL)
        return vmap_delete(bench->map, name, status);
    kv_batch_delete(bench->batch, bench->space, raw_key(&key));
    return KV_OK;
}

static kv_code finish(struct vmap_bench *bench, kv_status *status)
{
    bench->generation++;
    if (bench->map != NULL)
        return state_commit(bench->state, 0, NULL, status);
    return kv_batch_commit(bench->batch, 0, status);
}

/* Percent of the changes that insert and delete; the rest update. */
struct blend {
    unsigned inserts, deletes;
};

static kv_code change_some(struct vmap_bench *bench, uint64_t count, struct blend blend,
                           kv_status *status)
{
    kv_code code = KV_OK;
    for (uint64_t i = 0; code == KV_OK && i < count; i++) {
        uint64_t dice = bench_random_below(&bench->random, 100);
        if (dice < blend.inserts)
            code = put(bench, bench->high++, status);
        else if (dice < blend.inserts + blend.deletes && bench->low < bench->high)
            code = drop(bench, bench->low++, status);
        else
            code =
                put(bench,
                    bench->low + bench_random_below(&bench->random, bench->high - bench->low),
                    status);
    }
    return code == KV_OK ? finish(bench, status) : code;
}

static kv_code load(struct vmap_bench *bench, uint64_t keys, kv_status *status)
{
    kv_code code = KV_OK;
    while (code == KV_OK && bench->high < keys) {
        uint64_t left = keys - bench->high;
        for (uint64_t i = 0; code == KV_OK && i < left && i < LOAD_COMMIT; i++)
            code = put(bench, bench->high++, status);
        if (code == KV_OK)
            code = finish(bench, status);
    }
    return code;
}

/* The state in the store, or the plain space. */
static kv_code open_within(bench_process *process, bool raw, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    if (!raw)
        return open_state(process, status);
    kv_code code = kv_space_open(bench->db, "raw", KV_CREATE, &bench->space, status);
    return code == KV_OK ? kv_batch_new(bench->db, &bench->batch, status) : code;
}

static kv_code setup_empty(bench_process *process, kv_status *status)
{
    kv_code code = open_store(process, empty_budget(process), status);
    return code == KV_OK ? open_within(process, false, status) : code;
}

static kv_code setup_empty_raw(bench_process *process, kv_status *status)
{
    kv_code code = open_store(process, empty_budget(process), status);
    return code == KV_OK ? open_within(process, true, status) : code;
}

/* Load, and then a few commits over all of it. */
static kv_code fill(bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    static const struct blend updates = { 0, 0 };
    kv_code code = load(bench, bench_number(process, "keys"), status);
    for (int i = 0; code == KV_OK && i < 5; i++)
        code = change_some(bench, 10000, updates, status);
    return code;
}

/* ---- The page cache -------------------------------------------------------- */

static void note_stat(void *context, const kv_stat *stat)
{
    static const char *const names[] = { "digests_leaf", "digests_inner", "digests_rank",
                                         "cache_misses", "cache_size_bytes" };
    uint64_t *figures = context;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(stat->name, names[i]) == 0)
            figures[i] = stat->number;
    }
}

/* Read the page of `level` that begins at `first`, and all below it. */
static kv_code touch_pages(state_view *view, unsigned level, kv_slice first, kv_status *status)
{
    vmap_page page = { 0, 0, NULL };
    if (level == 0) {
        vmap_proof proof;
        kv_code code = state_view_prove(view, "bench", first, NULL, &proof, status);
        vmap_proof_clear(&proof);
        return code;
    }
    kv_code code = state_view_page(view, "bench", level, first, &page, status);
    for (size_t i = 0; code == KV_OK && i < page.count; i++)
        code = touch_pages(view, level - 1, vmap_page_key(&page, i), status);
    vmap_page_clear(&page);
    return code;
}

/* Read every page of the map. */
static kv_code touch_all(struct vmap_bench *bench, kv_status *status)
{
    state_view *view;
    vmap_iter *iter;
    vmap_node node;
    unsigned level, page_bits;
    kv_code code = state_view_open(bench->state, 0, &view, status);
    if (code != KV_OK)
        return code;
    code = state_view_iter_open(view, "bench", NULL, &iter, status);
    if (code == KV_OK && vmap_iter_first(iter))
        code = state_view_top(view, "bench", &level, &node, &page_bits, status);
    if (code == KV_OK)
        code = touch_pages(view, level, vmap_iter_key(iter), status);
    vmap_iter_close(iter);
    state_view_close(view);
    return code;
}

static kv_code reopen_state(const bench_process *process, uint64_t budget, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    bench->map = NULL;
    kv_code code = state_close(bench->state, status);
    bench->state = NULL;
    if (code == KV_OK)
        code = set_number(bench->options, "vmap.cache_size", budget, status);
    return code == KV_OK ? open_state(process, status) : code;
}

/* Find out what all pages need, and give the cache its percentage of it. */
static kv_code warm(bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    uint64_t figures[METRICS] = { 0 };
    kv_code code = reopen_state(process, loading_budget(process), status);
    if (code == KV_OK)
        code = touch_all(bench, status);
    if (code == KV_OK)
        code = state_stats(bench->state, note_stat, figures, status);
    bench->need = figures[METRIC_NEED];
    if (code == KV_OK)
        code =
            reopen_state(process, bench->need / 100 * bench_number(process, "cache"), status);
    return code == KV_OK ? touch_all(bench, status) : code;
}

/* ---- A store that is loaded once -------------------------------------------- */

static kv_code copy_folder(const char *from, const char *to, kv_status *status)
{
    char *const arguments[] = { (char *)(uintptr_t) "cp", (char *)(uintptr_t) "-r",
                                (char *)(uintptr_t) "--", (char *)(uintptr_t)from,
                                (char *)(uintptr_t)to,    NULL };
    pid_t child;
    int ended = -1;
    int fault = posix_spawnp(&child, "cp", NULL, NULL, arguments, environ);
    if (fault != 0)
        return kv_fail(status, KV_IO, "cp: %s", strerror(fault));
    if (waitpid(child, &ended, 0) != child || ended != 0)
        return kv_fail(status, KV_IO, "%s cannot be copied", from);
    return KV_OK;
}

static kv_code load_kept(bench_process *process, bool raw, const char *dir, const char *kept,
                         kv_status *status)
{
    kv_code code = open_store(process, loading_budget(process), status);
    if (code == KV_OK)
        code = open_within(process, raw, status);
    if (code == KV_OK)
        code = fill(process, status);
    teardown(process);
    if (code == KV_OK && rename(dir, kept) != 0)
        code = kv_fail(status, KV_IO, "%s: %s", kept, strerror(errno));
    malloc_trim(0);
    return code;
}

/* Begin cold, with a copy of the loaded store. */
static kv_code setup_kept(bench_process *process, bool raw, kv_status *status)
{
    char kept[PATH_MAX], dir[PATH_MAX];
    uint64_t keys = bench_number(process, "keys");
    snprintf(kept, sizeof(kept), "%s/vmap-%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64 "%s",
             process->shared_dir, keys, bench_number(process, "value-size"),
             bench_number(process, "page-bits"), bench_number(process, "keep"),
             raw ? "-raw" : "");
    snprintf(dir, sizeof(dir), "%s/db", process->dir);
    kv_code code = KV_OK;
    if (access(kept, F_OK) != 0)
        code = load_kept(process, raw, dir, kept, status);
    if (code == KV_OK)
        code = copy_folder(kept, dir, status);
    if (code == KV_OK)
        code = open_store(process, bench_number(process, "cache-size"), status);
    if (code == KV_OK) {
        state_of(process)->high = keys;
        state_of(process)->generation = keys; /* above all that loading wrote */
        code = open_within(process, raw, status);
    }
    return code;
}

static kv_code setup_full(bench_process *process, kv_status *status)
{
    if (bench_number(process, "cache-size") > 0)
        return setup_kept(process, false, status);
    kv_code code = setup_empty(process, status);
    if (code == KV_OK)
        code = fill(process, status);
    return code == KV_OK ? warm(process, status) : code;
}

static kv_code setup_full_raw(bench_process *process, kv_status *status)
{
    if (bench_number(process, "cache-size") > 0)
        return setup_kept(process, true, status);
    kv_code code = setup_empty_raw(process, status);
    return code == KV_OK ? fill(process, status) : code;
}

/* ---- Commits --------------------------------------------------------------- */

static uint64_t commit_operations(const bench_process *process)
{
    uint64_t changes = bench_number(process, "changes");
    return changes * bench_number(process, "commits");
}

static kv_code commits_run(bench_thread *thread, struct blend blend, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    uint64_t changes = bench_number(thread->process, "changes");
    uint64_t before[METRICS] = { 0 }, after[METRICS] = { 0 };
    kv_code code = KV_OK;
    if (bench->state != NULL)
        code = state_stats(bench->state, note_stat, before, status);
    bench_units(thread, changes);
    while (code == KV_OK && bench_next(thread))
        code = change_some(bench, changes, blend, status);
    if (bench->state == NULL || code != KV_OK)
        return code;
    code = state_stats(bench->state, note_stat, after, status);
    for (unsigned i = METRIC_LEAF; i <= METRIC_MISSES; i++)
        bench_count(thread, i, after[i] - before[i]);
    bench_count(thread, METRIC_NEED,
                bench->need / (bench->high - bench->low) * thread->operations);
    return code;
}

static kv_code commit_run(bench_thread *thread, kv_status *status)
{
    return commits_run(thread, (struct blend){ 10, 10 }, status);
}

static kv_code update_run(bench_thread *thread, kv_status *status)
{
    return commits_run(thread, (struct blend){ 0, 0 }, status);
}

static kv_code insert_run(bench_thread *thread, kv_status *status)
{
    return commits_run(thread, (struct blend){ 100, 0 }, status);
}

static kv_code delete_run(bench_thread *thread, kv_status *status)
{
    return commits_run(thread, (struct blend){ 0, 100 }, status);
}

/* As many pairs as at first, for workloads that take them away. */
static kv_code refill(bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    uint64_t need = bench_number(process, "keys") + commit_operations(process);
    return load(bench, bench->low + need, status);
}

/* A sample of what should be there is read back; what was deleted is not. */
static kv_code check_pairs(bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    for (int i = 0; i < SAMPLE && bench->high > bench->low; i++) {
        struct bench_key key;
        bool deleted = bench->low > 0 && i % 4 == 0;
        uint64_t number =
            deleted ? bench_random_below(&bench->random, bench->low)
                    : bench->low + bench_random_below(&bench->random, bench->high - bench->low);
        kv_slice name = make_key(&key, number);
        kv_value value = KV_VALUE_INIT;
        kv_code code = bench->map != NULL
                           ? vmap_get(bench->map, name, &value, status)
                           : kv_get(bench->space, NULL, raw_key(&key), &value, status);
        bool missing = deleted || (bench->absent > 0 && code == KV_NOT_FOUND);
        bool right = code == (missing ? KV_NOT_FOUND : KV_OK) &&
                     (missing || value.bytes.size == bench->value_size);
        kv_value_release(&value);
        if (!right)
            return kv_fail(status, KV_INTERNAL, "key %" PRIu64 " is not as it should be",
                           number);
    }
    return KV_OK;
}

static kv_code check_state(bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    state_view *view;
    unsigned level, page_bits;
    vmap_node node;
    kv_code code = check_pairs(process, status);
    if (code == KV_OK)
        code = state_view_open(bench->state, 0, &view, status);
    if (code != KV_OK)
        return code;
    code = state_view_top(view, "bench", &level, &node, &page_bits, status);
    state_view_close(view);
    uint64_t keys = bench->high - bench->low - bench->absent;
    if (code == KV_OK && node.size != keys)
        code = kv_fail(status, KV_INTERNAL, "%" PRIu64 " keys, not %" PRIu64, node.size, keys);
    return code;
}

/* ---- Building -------------------------------------------------------------- */

static uint64_t build_operations(const bench_process *process)
{
    uint64_t changes = bench_number(process, "changes");
    uint64_t commits = bench_number(process, "keys") / changes;
    return changes * (commits == 0 ? 1 : commits);
}

static kv_code reopen_empty(bench_process *process, kv_status *status)
{
    teardown(process);
    kv_code code = bench_remove(process->dir, status);
    return code == KV_OK ? setup_empty(process, status) : code;
}

static kv_code reopen_empty_raw(bench_process *process, kv_status *status)
{
    teardown(process);
    kv_code code = bench_remove(process->dir, status);
    return code == KV_OK ? setup_empty_raw(process, status) : code;
}

/* ---- Reading --------------------------------------------------------------- */

static uint64_t any_number(const struct vmap_bench *bench, uint64_t *random)
{
    return bench->low + bench_random_below(random, bench->high - bench->low);
}

static uint64_t read_operations(const bench_process *process)
{
    return bench_number(process, "reads");
}

static kv_code read_one(const struct vmap_bench *bench, const struct bench_key *key,
                        kv_slice name, kv_value *value, kv_status *status)
{
    if (bench->view != NULL)
        return state_view_get(bench->view, "bench", name, value, status);
    if (bench->map != NULL)
        return vmap_get(bench->map, name, value, status);
    *value = (kv_value)KV_VALUE_INIT;
    return kv_get(bench->space, NULL, raw_key(key), value, status);
}

static kv_code get_run(bench_thread *thread, kv_status *status)
{
    const struct vmap_bench *bench = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    while (bench_next(thread)) {
        struct bench_key key;
        kv_value value;
        kv_slice name = make_key(&key, any_number(bench, &random));
        kv_code code = read_one(bench, &key, name, &value, status);
        if (code != KV_OK && code != KV_NOT_FOUND)
            return code;
        bench_lookup(thread, code == KV_OK && value.bytes.size == bench->value_size);
        kv_value_release(&value);
    }
    return KV_OK;
}

/* A pair and those behind it, in the order of their keys, as a commit reads them. */
static kv_code near_run(bench_thread *thread, kv_status *status)
{
    const struct vmap_bench *bench = state_of(thread->process);
    uint64_t random = bench_random_seed(thread), bytes = 0;
    kv_iter *iter;
    kv_code code = kv_iter_open(bench->space, NULL, NULL, &iter, status);
    while (code == KV_OK && bench_next(thread)) {
        struct bench_key key;
        make_key(&key, any_number(bench, &random));
        bool on = kv_iter_seek(iter, raw_key(&key));
        for (int i = 0; on && i < NEAR_STEPS; i++) {
            bytes += kv_iter_value(iter).size;
            on = kv_iter_next(iter);
        }
        code = kv_iter_status(iter, status);
    }
    kv_iter_close(iter);
    if (code == KV_OK && bytes == 0)
        return kv_fail(status, KV_INTERNAL, "nothing was read");
    return code;
}

/* A view of the oldest kept version, some commits back. */
static kv_code setup_old(bench_process *process, kv_status *status)
{
    static const struct blend updates = { 0, 0 };
    kv_code code = open_store(process, loading_budget(process), status);
    struct vmap_bench *bench = state_of(process);
    if (code == KV_OK)
        code = set_number(bench->options, "vmap.keep_recent", 20, status);
    if (code == KV_OK)
        code = open_state(process, status);
    if (code == KV_OK)
        code = fill(process, status);
    uint64_t version = code == KV_OK ? state_version(bench->state) : 0;
    for (int i = 0; code == KV_OK && i < 15; i++)
        code = change_some(bench, bench_number(process, "changes"), updates, status);
    if (code == KV_OK)
        code = warm(process, status);
    return code == KV_OK ? state_view_open(bench->state, version, &bench->view, status) : code;
}

static kv_code setup_view(bench_process *process, kv_status *status)
{
    kv_code code = setup_full(process, status);
    struct vmap_bench *bench = state_of(process);
    return code == KV_OK ? state_view_open(bench->state, 0, &bench->view, status) : code;
}

static kv_code prove_number(bench_thread *thread, uint64_t number, bool there, bool check,
                            kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    struct bench_key key;
    vmap_proof proof;
    kv_value value;
    kv_slice name = make_key(&key, number);
    kv_code code = state_view_prove(bench->view, "bench", name, &value, &proof, status);
    if (code != (there ? KV_OK : KV_NOT_FOUND))
        return code == KV_OK || code == KV_NOT_FOUND
                   ? kv_fail(status, KV_INTERNAL, "a proof shows the wrong thing")
                   : code;
    code = KV_OK;
    vmap_digest app_hash = state_view_app_hash(bench->view);
    for (int i = 0; check && code == KV_OK && i < 10; i++)
        code = vmap_proof_verify(&proof, &app_hash, "bench", name, there ? &value.bytes : NULL,
                                 status);
    kv_value_release(&value);
    vmap_proof_clear(&proof);
    return code;
}

static uint64_t prove_operations(const bench_process *process)
{
    return read_operations(process) / 10 + 1;
}

static kv_code prove_run(bench_thread *thread, kv_status *status)
{
    const struct vmap_bench *bench = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread))
        code = prove_number(thread, any_number(bench, &random), true, false, status);
    return code;
}

static kv_code prove_absent_run(bench_thread *thread, kv_status *status)
{
    const struct vmap_bench *bench = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread))
        code = prove_number(thread, bench->high + any_number(bench, &random), false, false,
                            status);
    return code;
}

static kv_code check_run(bench_thread *thread, kv_status *status)
{
    const struct vmap_bench *bench = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    kv_code code = KV_OK;
    bench_units(thread, 10);
    while (code == KV_OK && bench_next(thread))
        code = prove_number(thread, any_number(bench, &random), true, true, status);
    return code;
}

static uint64_t check_operations(const bench_process *process)
{
    return prove_operations(process) / 10 * 10 + 10;
}

static uint64_t verify_operations(const bench_process *process)
{
    return bench_number(process, "keys");
}

static kv_code verify_run(bench_thread *thread, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    kv_code code = KV_OK;
    bench_units(thread, thread->operations);
    while (code == KV_OK && bench_next(thread))
        code = state_view_verify(bench->view, NULL, NULL, status);
    return code;
}

static uint64_t open_operations(const bench_process *process)
{
    return bench_number(process, "commits");
}

static kv_code open_run(bench_thread *thread, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        code = state_close(bench->state, status);
        bench->state = NULL;
        if (code == KV_OK)
            code = open_state(thread->process, status);
    }
    return code;
}

static kv_code reopen_database(const bench_process *process, kv_status *status)
{
    struct vmap_bench *bench = state_of(process);
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s/db", process->dir);
    kv_code code = kv_close(bench->db, status);
    bench->db = NULL;
    return code == KV_OK ? bench_open(process, dir, 0, &bench->db, status) : code;
}

/* Database and state, and a first proof. */
static kv_code open_cold_run(bench_thread *thread, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        code = state_close(bench->state, status);
        bench->state = NULL;
        if (code == KV_OK)
            code = reopen_database(thread->process, status);
        if (code == KV_OK)
            code = open_state(thread->process, status);
        if (code == KV_OK)
            code = state_view_open(bench->state, 0, &bench->view, status);
        if (code == KV_OK)
            code = prove_number(thread, bench->low, true, false, status);
        state_view_close(bench->view);
        bench->view = NULL;
    }
    return code;
}

/* The database, and a first value. */
static kv_code open_cold_raw_run(bench_thread *thread, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        struct bench_key key;
        kv_value value = KV_VALUE_INIT;
        make_key(&key, bench->low);
        kv_batch_free(bench->batch);
        bench->batch = NULL;
        code = reopen_database(thread->process, status);
        if (code == KV_OK)
            code = kv_space_open(bench->db, "raw", 0, &bench->space, status);
        if (code == KV_OK)
            code = kv_get(bench->space, NULL, raw_key(&key), &value, status);
        kv_value_release(&value);
    }
    return code;
}

static bool has_files(const bench_process *process)
{
    return strcmp(process->backend, "memory") != 0;
}

/* ---- Shapes of others ------------------------------------------------------ */

/* Read account `number`, add `amount` to it and put it back. */
static kv_code transfer_one(struct vmap_bench *bench, uint64_t number, uint64_t amount,
                            kv_status *status)
{
    struct bench_key key;
    kv_value value;
    uint64_t balance = 0;
    kv_slice name = make_key(&key, number);
    kv_code code = read_one(bench, &key, name, &value, status);
    if (code != KV_OK)
        return code == KV_NOT_FOUND ? kv_fail(status, KV_INTERNAL, "an account is missing")
                                    : code;
    if (value.bytes.size == bench->value_size && value.bytes.size >= sizeof(balance)) {
        memcpy(&balance, value.bytes.data, sizeof(balance));
        memcpy(bench->value, value.bytes.data, value.bytes.size);
    }
    kv_value_release(&value);
    balance += amount;
    memcpy(bench->value, &balance, sizeof(balance));
    return put_bytes(bench, &key, name, kv_bytes(bench->value, bench->value_size), status);
}

/* Two random accounts and two that take the fees, per transaction. */
static kv_code transfer_run(bench_thread *thread, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    uint64_t changes = bench_number(thread->process, "changes");
    uint64_t accounts = bench->high - bench->low;
    kv_code code = KV_OK;
    bench_units(thread, changes);
    while (code == KV_OK && bench_next(thread)) {
        for (uint64_t i = 0; code == KV_OK && i < changes; i++) {
            uint64_t amount = bench_random_below(&bench->random, 1000);
            uint64_t from = bench->low + bench_random_below(&bench->random, accounts);
            uint64_t to = bench->low + bench_random_below(&bench->random, accounts);
            code = transfer_one(bench, from, 0 - amount - 2, status);
            if (code == KV_OK)
                code = transfer_one(bench, to, amount, status);
            for (uint64_t fee = 0; code == KV_OK && fee < 2; fee++)
                code = transfer_one(bench, bench->low + fee, 1, status);
        }
        if (code == KV_OK)
            code = finish(bench, status);
    }
    return code;
}

static kv_code churn_one(struct vmap_bench *bench, kv_status *status)
{
    struct bench_key key;
    kv_value value;
    uint64_t number = bench_random_below(&bench->random, bench->high);
    kv_slice name = make_key(&key, number);
    kv_code code = read_one(bench, &key, name, &value, status);
    bool there = code == KV_OK;
    kv_value_release(&value);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;
    if (there && bench_random_below(&bench->random, 256) == 0) {
        bench->absent++;
        return drop(bench, number, status);
    }
    if (!there && bench->map != NULL) /* raw reads do not see their own batch */
        bench->absent--;
    return put(bench, number, status);
}

static kv_code churn_run(bench_thread *thread, kv_status *status)
{
    struct vmap_bench *bench = state_of(thread->process);
    uint64_t changes = bench_number(thread->process, "changes");
    kv_code code = KV_OK;
    bench_units(thread, changes);
    while (code == KV_OK && bench_next(thread)) {
        for (uint64_t i = 0; code == KV_OK && i < changes; i++)
            code = churn_one(bench, status);
        if (code == KV_OK)
            code = finish(bench, status);
    }
    return code;
}

/* ---- The table ------------------------------------------------------------- */

#define STATE_WORKLOAD(word, text, unit_name, count, body, begin, end)                   \
    {                                                                                    \
        .name = word, .help = text, .unit = unit_name, .operations = count, .run = body, \
        .setup = begin, .check = end, .teardown = teardown                               \
    }
/* A workload on the map, and the same on the plain store. */
#define COMMIT_WORKLOADS(word, text, unit_name, body)                                          \
    STATE_WORKLOAD(word, text, unit_name, commit_operations, body, setup_full, check_state),   \
        STATE_WORKLOAD(word "_raw", "the same in plain batches", unit_name, commit_operations, \
                       body, setup_full_raw, check_pairs)
#define DELETE_WORKLOAD(word, text, begin, end)                                        \
    {                                                                                  \
        .name = word, .help = text, .unit = "change", .operations = commit_operations, \
        .run = delete_run, .setup = begin, .prepare = refill, .check = end,            \
        .teardown = teardown                                                           \
    }
#define BUILD_WORKLOAD(word, text, begin, again, end)                               \
    {                                                                               \
        .name = word, .help = text, .unit = "pair", .operations = build_operations, \
        .run = insert_run, .setup = begin, .prepare = again, .check = end,          \
        .teardown = teardown                                                        \
    }
#define COLD_WORKLOAD(word, text, body, begin)                                     \
    {                                                                              \
        .name = word, .help = text, .unit = "open", .operations = open_operations, \
        .applies = has_files, .run = body, .setup = begin, .teardown = teardown    \
    }

static const bench_workload workloads[] = {
    COMMIT_WORKLOADS("commit", "commits of 80 % updates, 10 % inserts, 10 % deletes", "change",
                     commit_run),
    COMMIT_WORKLOADS("update", "commits of updates", "change", update_run),
    COMMIT_WORKLOADS("insert", "commits of inserts", "change", insert_run),
    DELETE_WORKLOAD("delete", "commits of deletes", setup_full, check_state),
    DELETE_WORKLOAD("delete_raw", "the same in plain batches", setup_full_raw, check_pairs),
    BUILD_WORKLOAD("build", "from nothing to `keys` pairs", setup_empty, reopen_empty,
                   check_state),
    BUILD_WORKLOAD("build_raw", "the same in plain batches", setup_empty_raw, reopen_empty_raw,
                   check_pairs),
    STATE_WORKLOAD("get", "reads of newest values", "get", read_operations, get_run, setup_full,
                   NULL),
    STATE_WORKLOAD("get_raw", "the same reads from the plain store", "get", read_operations,
                   get_run, setup_full_raw, NULL),
    STATE_WORKLOAD("near_raw", "seeks and 7 steps in the plain store", "seek", read_operations,
                   near_run, setup_full_raw, NULL),
    STATE_WORKLOAD("get_old", "reads at a version 15 commits back", "get", read_operations,
                   get_run, setup_old, NULL),
    STATE_WORKLOAD("prove", "proofs of keys that are there", "proof", prove_operations,
                   prove_run, setup_view, NULL),
    STATE_WORKLOAD("prove_absent", "proofs of keys that are not there", "proof",
                   prove_operations, prove_absent_run, setup_view, NULL),
    STATE_WORKLOAD("prove_old", "proofs at a version 15 commits back", "proof",
                   prove_operations, prove_run, setup_old, NULL),
    STATE_WORKLOAD("check", "checks of proofs, ten for each proof made", "check",
                   check_operations, check_run, setup_view, NULL),
    STATE_WORKLOAD("verify", "every digest again from the pairs", "pair", verify_operations,
                   verify_run, setup_view, NULL),
    STATE_WORKLOAD("open", "the state closed and opened", "open", open_operations, open_run,
                   setup_full, NULL),
    COLD_WORKLOAD("open_cold", "database and state closed and opened, and a proof",
                  open_cold_run, setup_full),
    COLD_WORKLOAD("open_cold_raw", "the database closed and opened, and a get",
                  open_cold_raw_run, setup_full_raw),
    COMMIT_WORKLOADS("transfer", "CryptoBench: four accounts read and changed", "transaction",
                     transfer_run),
    COMMIT_WORKLOADS("churn", "VirtualMapBench: read, then put, or remove 1 in 256", "change",
                     churn_run),
    { .name = NULL },
};

static const bench_parameter parameters[] = {
    { "keys", "100000", "10000", NULL, "pairs in the map" },
    { "changes", "10000", "1000", NULL, "changes of one commit" },
    { "commits", "20", "3", NULL, "commits of one iteration" },
    { "reads", "200000", "10000", NULL, "reads of one iteration" },
    { "value-size", "128", NULL, NULL, "bytes of a value" },
    { "keep", "1", NULL, NULL, "versions kept" },
    { "cache", "200", NULL, NULL, "page cache in percent of what all pages need" },
    { "cache-size", "0", NULL, NULL, "page cache in bytes, cold at first; 0: as cache says" },
    { "page-bits", "5", NULL, NULL, "as the option" },
    { "workers", "0", NULL, NULL, "threads that hash; 0: one per core" },
    { NULL, NULL, NULL, NULL, NULL },
};

static const bench_metric metrics[] = {
    [METRIC_LEAF] = { "digests_leaf", "digests", false, true },
    [METRIC_INNER] = { "digests_inner", "digests", false, true },
    [METRIC_RANK] = { "digests_rank", "digests", false, true },
    [METRIC_MISSES] = { "cache_misses", "pages", false, false },
    [METRIC_NEED] = { "page_memory", "bytes a pair", false, true },
    { NULL, NULL, false, false },
};

const bench_suite bench_suite_vmap = {
    .name = "vmap",
    .help = "the merkle map beside the same pairs written raw",
    .workloads = workloads,
    .parameters = parameters,
    .metrics = metrics,
};
