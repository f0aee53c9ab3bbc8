/*
 * suite_txn.c - transactions: Narayana's STM and JTA benchmarks over our stores.
 *
 *   stm_*      STMBenchmark's body: two integers, one counted up and one down in a
 *              transaction, which then commits or, `abort-pct` of the time, aborts
 *   readonly   a transaction that reads the two
 *   local1     one store, one phase: a put (LocalJTABenchmark with real work)
 *   local2_*   one key in each of two stores (JTAStoreBase.jtaTest): through our journal;
 *              by two synced writes, which is not atomic; by RocksDB's two-phase commit
 *   puts10_*   ten puts: as a transaction, as a plain batch
 *   hot        two of `hot-keys` keys counted up, all threads on the same ones
 *   uid        a transaction's id to text and back (UidBenchmark)
 *   empty      nothing (baseLineBenchmark)
 */
#include "bench/suites.h"
#include "bench/txn_twophase.h"

#include "kv/group.h"
#include "kv/txn.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_COMMITS, METRIC_ABORTS, METRIC_RETRIES, METRIC_LEAST };
enum { START = 10, PUTS = 10, HOT_KEYS_MAX = 1 << 20 };

/* A thread's operations so far, on a cache line of its own. */
struct progress {
    _Alignas(64) _Atomic uint64_t done;
};

struct txn_state {
    kv_db *db, *second;
    kv_space *space, *second_space;
    kv_txn_manager *manager;
    kv_group *group;
    struct twophase *twophase;
    unsigned flags; /* KV_SYNC or none */
    _Atomic int64_t commits;
    struct progress *progress; /* of each thread */
    _Atomic bool over;         /* a thread has done its share */
};

static struct txn_state *state_of(const bench_process *process)
{
    return process->state;
}

static uint64_t operations(const bench_process *process)
{
    return bench_number(process, "count");
}

static bool is_sync(const bench_process *process)
{
    return strcmp(bench_text(process, "sync"), "on") == 0;
}

/* A synced operation is a hundred times slower on a disk. */
static uint64_t operations_synced(const bench_process *process)
{
    uint64_t count = operations(process);
    return is_sync(process) ? count / 50 + 1 : count / 4 + 1;
}

static bool is_durable(const bench_process *process)
{
    return strcmp(process->backend, "memory") != 0;
}

static bool only_unsynced(const bench_process *process)
{
    return !is_sync(process);
}

static bool only_synced(const bench_process *process)
{
    return is_sync(process) && is_durable(process);
}

static bool sync_where_durable(const bench_process *process)
{
    return is_durable(process) || !is_sync(process);
}

static bool only_rocksdb(const bench_process *process)
{
    return only_synced(process) && strcmp(process->backend, "rocksdb") == 0;
}

/* ---- Setting up ------------------------------------------------------------ */

static void teardown(bench_process *process)
{
    struct txn_state *state = state_of(process);
    if (state == NULL)
        return;
    bool closed = kv_group_close(state->group, NULL) == KV_OK &&
                  kv_txn_manager_close(state->manager, NULL) == KV_OK &&
                  kv_close(state->second, NULL) == KV_OK && kv_close(state->db, NULL) == KV_OK;
    twophase_close(state->twophase);
    if (!closed)
        fprintf(stderr, "txn: something was not closed\n");
    free(state->progress);
    free(state);
    process->state = NULL;
}

static kv_code setup_store(bench_process *process, kv_status *status)
{
    struct txn_state *state = calloc(1, sizeof(*state));
    process->state = state;
    if (state == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory");
    state->flags = is_sync(process) ? KV_SYNC : 0;
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s/first", process->dir);
    kv_code code = bench_open(process, dir, KV_CREATE, &state->db, status);
    if (code == KV_OK)
        code = kv_space_open(state->db, "objects", KV_CREATE, &state->space, status);
    return code;
}

static kv_code setup_manager(bench_process *process, kv_txn_mode mode, kv_status *status)
{
    kv_code code = setup_store(process, status);
    if (code != KV_OK)
        return code;
    struct txn_state *state = state_of(process);
    kv_txn_options options = { .mode = mode, .flags = state->flags };
    options.attempts_max = UINT32_MAX;
    return kv_txn_manager_open(state->db, &options, &state->manager, status);
}

static kv_code setup_optimistic(bench_process *process, kv_status *status)
{
    return setup_manager(process, KV_TXN_OPTIMISTIC, status);
}

static kv_code setup_pessimistic(bench_process *process, kv_status *status)
{
    return setup_manager(process, KV_TXN_PESSIMISTIC, status);
}

static kv_code setup_two(bench_process *process, kv_status *status)
{
    kv_code code = setup_store(process, status);
    if (code != KV_OK)
        return code;
    struct txn_state *state = state_of(process);
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s/second", process->dir);
    code = bench_open(process, dir, KV_CREATE, &state->second, status);
    if (code == KV_OK)
        code = kv_space_open(state->second, "objects", KV_CREATE, &state->second_space, status);
    return code;
}

static kv_code setup_group(bench_process *process, kv_status *status)
{
    kv_code code = setup_two(process, status);
    if (code != KV_OK)
        return code;
    struct txn_state *state = state_of(process);
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s/journal", process->dir);
    kv_group_member members[] = { { "first", state->db }, { "second", state->second } };
    return kv_group_open(dir, members, 2, NULL, &state->group, status);
}

static kv_code setup_twophase(bench_process *process, kv_status *status)
{
    struct txn_state *state = calloc(1, sizeof(*state));
    process->state = state;
    if (state == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory");
    return twophase_open(process->dir, &state->twophase, status);
}

/* ---- The two integers ------------------------------------------------------ */

static kv_slice integer(const int64_t *number)
{
    return kv_bytes(number, sizeof(*number));
}

static kv_code prepare_integers(bench_process *process, kv_status *status)
{
    struct txn_state *state = state_of(process);
    int64_t start = START;
    atomic_store(&state->commits, 0);
    kv_code code = kv_put(state->space, kv_text("up"), integer(&start), 0, status);
    if (code == KV_OK)
        code = kv_put(state->space, kv_text("down"), integer(&start), 0, status);
    return code;
}

static kv_code number_read(kv_space *space, const char *key, int64_t *out, kv_status *status)
{
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_get(space, NULL, kv_text(key), &value, status);
    if (code == KV_OK && value.bytes.size == sizeof(*out))
        memcpy(out, value.bytes.data, sizeof(*out));
    else if (code == KV_OK || code == KV_NOT_FOUND)
        code = kv_fail(status, KV_INTERNAL, "%s is gone or is no number", key);
    kv_value_release(&value);
    return code;
}

static kv_code check_integers(bench_process *process, kv_status *status)
{
    struct txn_state *state = state_of(process);
    int64_t up = 0, down = 0, commits = atomic_load(&state->commits);
    kv_code code = number_read(state->space, "up", &up, status);
    if (code == KV_OK)
        code = number_read(state->space, "down", &down, status);
    if (code == KV_OK && (up != START + commits || down != START - commits))
        code = kv_fail(status, KV_INTERNAL,
                       "%" PRId64 " up and %" PRId64 " down after %" PRId64 " commits", up,
                       down, commits);
    return code;
}

static kv_code add(kv_txn *txn, kv_space *space, kv_slice key, int64_t delta, kv_status *status)
{
    int64_t number = 0;
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_txn_get_for_update(txn, space, key, &value, status);
    if (code == KV_OK)
        memcpy(&number, value.bytes.data, sizeof(number));
    kv_value_release(&value);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;
    number += delta;
    return kv_txn_put(txn, space, key, integer(&number), status);
}

static kv_code add_nested(kv_txn *txn, kv_space *space, kv_slice key, int64_t delta,
                          kv_status *status)
{
    kv_txn_savepoint savepoint;
    kv_code code = kv_txn_savepoint_take(txn, &savepoint, status);
    if (code == KV_OK)
        code = add(txn, space, key, delta, status);
    if (code == KV_OK)
        code = kv_txn_savepoint_release(txn, savepoint, status);
    return code;
}

typedef kv_code adder(kv_txn *txn, kv_space *space, kv_slice key, int64_t delta,
                      kv_status *status);

static bool is_retryable(kv_code code)
{
    return code == KV_CONFLICT || code == KV_DEADLOCK || code == KV_TIMEOUT;
}

static kv_code stm_once(bench_thread *thread, adder *add_one, bool commit, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    for (;;) {
        kv_txn *txn;
        kv_code code = kv_txn_begin(state->manager, &txn, status);
        if (code != KV_OK)
            return code;
        code = add_one(txn, state->space, kv_text("up"), 1, NULL);
        if (code == KV_OK)
            code = add_one(txn, state->space, kv_text("down"), -1, NULL);
        if (code == KV_OK && commit)
            code = kv_txn_commit(txn, NULL);
        kv_txn_close(txn);
        if (code == KV_OK) {
            bench_count(thread, commit ? METRIC_COMMITS : METRIC_ABORTS, 1);
            if (commit)
                atomic_fetch_add_explicit(&state->commits, 1, memory_order_relaxed);
            return KV_OK;
        }
        if (!is_retryable(code))
            return kv_fail(status, code, "%s", kv_code_text(code));
        bench_count(thread, METRIC_RETRIES, 1);
    }
}

static kv_code stm_loop(bench_thread *thread, adder *add_one, kv_status *status)
{
    uint64_t random = bench_random_seed(thread);
    uint64_t abort_pct = bench_number(thread->process, "abort-pct");
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread))
        code = stm_once(thread, add_one, bench_random_below(&random, 100) >= abort_pct, status);
    return code;
}

static kv_code stm_run(bench_thread *thread, kv_status *status)
{
    return stm_loop(thread, add, status);
}

static kv_code stm_nested_run(bench_thread *thread, kv_status *status)
{
    return stm_loop(thread, add_nested, status);
}

static kv_code readonly_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        kv_txn *txn;
        code = kv_txn_begin(state->manager, &txn, status);
        if (code != KV_OK)
            break;
        const char *const keys[] = { "up", "down" };
        for (size_t i = 0; i < 2 && code == KV_OK; i++) {
            kv_value value = KV_VALUE_INIT;
            code = kv_txn_get(txn, state->space, kv_text(keys[i]), &value, status);
            if (code == KV_OK && value.bytes.size != sizeof(int64_t))
                code = kv_fail(status, KV_INTERNAL, "%s is no number", keys[i]);
            kv_value_release(&value);
        }
        if (code == KV_OK)
            code = kv_txn_commit(txn, status);
        kv_txn_close(txn);
        bench_lookup(thread, code == KV_OK);
    }
    return code;
}

/* ---- One store, two stores ------------------------------------------------- */

enum { OBJECT_NAME_SIZE = 24 };

/* Each thread writes an object of its own. */
static kv_slice object_name(const bench_thread *thread, char key[OBJECT_NAME_SIZE])
{
    return kv_bytes(key, (size_t)snprintf(key, OBJECT_NAME_SIZE, "object-%u", thread->index));
}

static kv_code local1_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    int64_t number = 0;
    char key[OBJECT_NAME_SIZE];
    kv_slice name = object_name(thread, key);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        kv_txn *txn;
        code = kv_txn_begin(state->manager, &txn, status);
        if (code != KV_OK)
            break;
        number++;
        code = kv_txn_put(txn, state->space, name, integer(&number), status);
        if (code == KV_OK)
            code = kv_txn_commit(txn, status);
        kv_txn_close(txn);
        bench_count(thread, METRIC_COMMITS, 1);
    }
    return code;
}

static kv_code local2_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    int64_t number = 0;
    char key[OBJECT_NAME_SIZE];
    kv_slice name = object_name(thread, key);
    kv_group_batch *batch;
    kv_code code = kv_group_batch_new(state->group, &batch, status);
    while (code == KV_OK && bench_next(thread)) {
        number++;
        kv_group_batch_put(batch, state->space, name, integer(&number));
        kv_group_batch_put(batch, state->second_space, name, integer(&number));
        code = kv_group_batch_commit(batch, state->flags, status);
        bench_count(thread, METRIC_COMMITS, 1);
    }
    kv_group_batch_free(batch);
    return code;
}

static kv_code local2_two_writes_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    int64_t number = 0;
    char key[OBJECT_NAME_SIZE];
    kv_slice name = object_name(thread, key);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        number++;
        code = kv_put(state->space, name, integer(&number), state->flags, status);
        if (code == KV_OK)
            code = kv_put(state->second_space, name, integer(&number), state->flags, status);
        bench_count(thread, METRIC_COMMITS, 1);
    }
    return code;
}

static kv_code local2_two_phase_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    int64_t number = 0;
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        number++;
        code = twophase_commit(state->twophase, thread->index, integer(&number), status);
        bench_count(thread, METRIC_COMMITS, 1);
    }
    return code;
}

/* ---- Ten puts -------------------------------------------------------------- */

static kv_slice put_key(char *key, uint64_t number)
{
    memcpy(key, "account/", 8); /* NOLINT(bugprone-not-null-terminated-result) */
    for (unsigned i = 0; i < 8; i++)
        key[8 + i] = (char)('a' + (number >> (4 * i)) % 16);
    return kv_bytes(key, 16);
}

static kv_code puts10_txn_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    char key[16], value[100] = { 'v' };
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        kv_txn *txn;
        code = kv_txn_begin(state->manager, &txn, status);
        if (code != KV_OK)
            break;
        for (unsigned i = 0; i < PUTS && code == KV_OK; i++)
            code = kv_txn_put(txn, state->space, put_key(key, bench_random(&random)),
                              kv_bytes(value, sizeof(value)), status);
        if (code == KV_OK)
            code = kv_txn_commit(txn, status);
        kv_txn_close(txn);
    }
    return code;
}

static kv_code puts10_batch_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    char key[16], value[100] = { 'v' };
    kv_batch *batch;
    kv_code code = kv_batch_new(state->db, &batch, status);
    while (code == KV_OK && bench_next(thread)) {
        for (unsigned i = 0; i < PUTS; i++)
            kv_batch_put(batch, state->space, put_key(key, bench_random(&random)),
                         kv_bytes(value, sizeof(value)));
        code = kv_batch_commit(batch, state->flags, status);
    }
    kv_batch_free(batch);
    return code;
}

/* ---- Contention ------------------------------------------------------------ */

static kv_code setup_hot(bench_process *process, kv_status *status)
{
    kv_code code = setup_pessimistic(process, status);
    if (code != KV_OK)
        return code;
    struct txn_state *state = state_of(process);
    size_t size = process->threads * sizeof(state->progress[0]);
    state->progress = aligned_alloc(_Alignof(struct progress), size);
    if (state->progress == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for %u threads", process->threads);
    return KV_OK;
}

static kv_code prepare_hot(bench_process *process, kv_status *status)
{
    (void)status;
    struct txn_state *state = state_of(process);
    atomic_store(&state->over, false);
    for (unsigned i = 0; i < process->threads; i++)
        atomic_store(&state->progress[i].done, 0);
    return KV_OK;
}

/* The first to be done looks how far the last is. Per operation, the threads' number
 * times the least is the least over the most: 1 when all got the same. */
static void count_least(bench_thread *thread)
{
    struct txn_state *state = state_of(thread->process);
    if (atomic_exchange(&state->over, true))
        return;
    uint64_t least = thread->operations;
    for (unsigned i = 0; i < thread->process->threads; i++) {
        uint64_t done = atomic_load(&state->progress[i].done);
        least = done < least ? done : least;
    }
    bench_count(thread, METRIC_LEAST, least * thread->process->threads);
}

static kv_code hot_once(struct txn_state *state, const uint32_t keys[2], kv_status *status)
{
    kv_txn *txn;
    kv_code code = kv_txn_begin(state->manager, &txn, status);
    for (size_t i = 0; i < 2 && code == KV_OK; i++)
        code = add(txn, state->space, kv_bytes(&keys[i], sizeof(keys[i])), 1, status);
    if (code == KV_OK)
        code = kv_txn_commit(txn, status);
    kv_txn_close(txn);
    return code;
}

static kv_code hot_run(bench_thread *thread, kv_status *status)
{
    struct txn_state *state = state_of(thread->process);
    uint64_t random = bench_random_seed(thread);
    uint64_t limit = bench_number(thread->process, "hot-keys");
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        const uint32_t keys[2] = { (uint32_t)bench_random_below(&random, limit),
                                   (uint32_t)bench_random_below(&random, limit) };
        for (;;) {
            code = hot_once(state, keys, NULL);
            if (!is_retryable(code))
                break;
            bench_count(thread, METRIC_RETRIES, 1);
        }
        if (code != KV_OK)
            return kv_fail(status, code, "%s", kv_code_text(code));
        atomic_fetch_add_explicit(&state->commits, 2, memory_order_relaxed);
        atomic_fetch_add_explicit(&state->progress[thread->index].done, 1,
                                  memory_order_relaxed);
        bench_count(thread, METRIC_COMMITS, 1);
    }
    count_least(thread);
    return code;
}

/* Every increment counts, over all iterations. */
static kv_code check_hot(bench_process *process, kv_status *status)
{
    struct txn_state *state = state_of(process);
    kv_iter *iter;
    kv_code code = kv_iter_open(state->space, NULL, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    int64_t sum = 0, number;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        memcpy(&number, kv_iter_value(iter).data, sizeof(number));
        sum += number;
    }
    code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    if (code == KV_OK && sum != atomic_load(&state->commits))
        code = kv_fail(status, KV_INTERNAL, "%" PRId64 " counted, not %" PRId64, sum,
                       atomic_load(&state->commits));
    return code;
}

/* ---- Ids, nothing ---------------------------------------------------------- */

static kv_code uid_run(bench_thread *thread, kv_status *status)
{
    kv_txn_id id = { { 0 } }, parsed;
    char text[KV_TXN_ID_TEXT_SIZE];
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        id.bytes[15]++;
        code = kv_txn_id_parse(kv_txn_id_text(&id, text), &parsed, status);
        if (code == KV_OK && memcmp(&id, &parsed, sizeof(id)) != 0)
            code = kv_fail(status, KV_INTERNAL, "%s reads back as another id", text);
    }
    return code;
}

static kv_code empty_run(bench_thread *thread, kv_status *status)
{
    (void)status;
    while (bench_next(thread))
        __asm__ volatile("" ::: "memory");
    return KV_OK;
}

static bool only_once(const bench_process *process)
{
    return strcmp(process->backend, "memory") == 0 && !is_sync(process);
}

/* ---- Tables ---------------------------------------------------------------- */

static const bench_parameter parameters[] = {
    { "count", "200000", "4000", NULL, "operations of an iteration; fewer where they sync" },
    { "sync", "off,on", "off,on", "off,on", "commits wait until they are durable" },
    { "abort-pct", "50", NULL, NULL, "transactions of stm that abort, of a hundred" },
    { "hot-keys", "100", NULL, NULL, "keys of the contention workload" },
    { NULL, NULL, NULL, NULL, NULL },
};

static const bench_metric metrics[] = {
    [METRIC_COMMITS] = { "commits", "commits", true, false },
    [METRIC_ABORTS] = { "aborts", "aborts", false, false },
    [METRIC_RETRIES] = { "retries", "retries", false, false },
    /* of `hot`: the slowest thread's operations when the fastest is done */
    [METRIC_LEAST] = { "hot_least", "of the most", true, false },
    { NULL, NULL, false, false },
};

#define COMMON .unit = "transaction", .teardown = teardown

static const bench_workload workloads[] = {
    { .name = "stm_optimistic",
      .help = "Two integers, optimistic",
      .operations = operations_synced,
      .applies = sync_where_durable,
      .setup = setup_optimistic,
      .prepare = prepare_integers,
      .run = stm_run,
      .check = check_integers,
      COMMON },
    { .name = "stm_pessimistic",
      .help = "Two integers, pessimistic",
      .operations = operations_synced,
      .applies = sync_where_durable,
      .setup = setup_pessimistic,
      .prepare = prepare_integers,
      .run = stm_run,
      .check = check_integers,
      COMMON },
    { .name = "stm_nested",
      .help = "Two integers, each in a nested transaction",
      .operations = operations_synced,
      .applies = sync_where_durable,
      .setup = setup_pessimistic,
      .prepare = prepare_integers,
      .run = stm_nested_run,
      .check = check_integers,
      COMMON },
    { .name = "readonly",
      .help = "Read two integers",
      .operations = operations,
      .applies = only_unsynced,
      .setup = setup_optimistic,
      .prepare = prepare_integers,
      .run = readonly_run,
      COMMON },
    { .name = "local1",
      .help = "One put in one store",
      .operations = operations_synced,
      .applies = sync_where_durable,
      .setup = setup_optimistic,
      .run = local1_run,
      COMMON },
    { .name = "local2_journal",
      .help = "One put in each of two stores, atomically",
      .operations = operations_synced,
      .applies = is_durable,
      .setup = setup_group,
      .run = local2_run,
      COMMON },
    { .name = "local2_two_writes",
      .help = "The same by two writes, not atomically",
      .operations = operations_synced,
      .applies = is_durable,
      .setup = setup_two,
      .run = local2_two_writes_run,
      COMMON },
    { .name = "local2_two_phase",
      .help = "The same by RocksDB's two-phase commit",
      .operations = operations_synced,
      .applies = only_rocksdb,
      .setup = setup_twophase,
      .run = local2_two_phase_run,
      COMMON },
    { .name = "puts10_txn",
      .help = "Ten puts in a transaction",
      .operations = operations_synced,
      .applies = only_unsynced,
      .setup = setup_optimistic,
      .run = puts10_txn_run,
      COMMON },
    { .name = "puts10_batch",
      .help = "Ten puts in a plain batch",
      .operations = operations_synced,
      .applies = only_unsynced,
      .setup = setup_optimistic,
      .run = puts10_batch_run,
      COMMON },
    { .name = "hot",
      .help = "Two of a few keys counted up, pessimistic",
      .operations = operations_synced,
      .applies = only_unsynced,
      .setup = setup_hot,
      .prepare = prepare_hot,
      .run = hot_run,
      .check = check_hot,
      COMMON },
    { .name = "uid",
      .help = "An id to text and back",
      .unit = "id",
      .operations = operations,
      .applies = only_once,
      .run = uid_run },
    { .name = "empty",
      .help = "Nothing",
      .unit = "nothing",
      .operations = operations,
      .applies = only_once,
      .run = empty_run },
    { .name = NULL },
};

const bench_suite bench_suite_txn = {
    .name = "txn",
    .help = "transactions over one store and over two",
    .workloads = workloads,
    .parameters = parameters,
    .metrics = metrics,
};
