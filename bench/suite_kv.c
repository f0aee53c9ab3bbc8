/*
 * suite_kv.c - every driver, and each engine without our layer.
 *
 * Reading workloads share one database per size: the first process that needs
 * it fills, compacts and marks it, the next ones open it again. Writing
 * workloads start each iteration from a new database.
 */
#include "bench/kv_store.h"
#include "bench/suites.h"
#include "kv/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYNC_OPERATIONS_MAX = 1000, PATH_SIZE = PATH_MAX + 256 };

static bool is_raw(const bench_process *process)
{
    return strcmp(bench_text(process, "layer"), "raw") == 0;
}

/* A driver that syncs every write has to do with fewer keys. */
static uint64_t keys_of(const bench_process *process)
{
    uint64_t count = bench_number(process, "count");
    uint64_t synced = bench_number(process, "synced-count");
    return strcmp(process->backend, "shadow") == 0 && synced < count ? synced : count;
}

static const struct kv_loops *loops_of(const bench_process *process)
{
    if (!is_raw(process))
        return &kv_loops_ours;
#if STATEKV_DRIVER_ROCKSDB
    if (strcmp(process->backend, "rocksdb") == 0)
        return &kv_loops_rocksdb;
#endif
#if STATEKV_DRIVER_LEVELDB
    if (strcmp(process->backend, "leveldb") == 0)
        return &kv_loops_leveldb;
#endif
    return NULL;
}

/* ---- Opening and closing ----------------------------------------------------------- */

static kv_code store_open(struct kv_store *store, const bench_process *process, const char *dir,
                          kv_status *status)
{
    kv_code code = bench_open(process, dir, KV_CREATE, &store->db, status);
    /* LevelDB has no spaces of its own: without our layer there are none. */
    bool spaces =
        code == KV_OK && (!is_raw(process) || strcmp(process->backend, "leveldb") != 0);
    if (spaces)
        code = kv_space_open(store->db, "bench", KV_CREATE, &store->space, status);
    if (code == KV_OK)
        code = store->loops->setup(store, status);
    return code;
}

static kv_code store_close(struct kv_store *store, kv_status *status)
{
    if (store->db == NULL)
        return KV_OK;
    store->loops->teardown(store);
    kv_code code = kv_close(store->db, status);
    store->db = NULL;
    store->space = NULL;
    return code;
}

static kv_code store_new(bench_process *process, kv_status *status)
{
    struct kv_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a workload");
    process->state = store;
    store->options = process->options;
    store->loops = loops_of(process);
    return kv_data_init(&store->data, keys_of(process), bench_number(process, "key-size"),
                        bench_number(process, "value-size"),
                        (unsigned)bench_number(process, "compressible"), process->seed, status);
}

static void store_teardown(bench_process *process)
{
    struct kv_store *store = process->state;
    kv_status status = KV_STATUS_INIT;
    if (store == NULL)
        return;
    if (store_close(store, &status) != KV_OK)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    kv_data_clear(&store->data);
    free(store);
}

/* ---- Reading: a shared database ------------------------------------------------------ */

static kv_code mark_ready(const char *path, kv_status *status)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return kv_fail(status, KV_IO, "%s: %s", path, strerror(errno));
    close(file);
    return KV_OK;
}

/* Everything that decides the contents is in the folder's name; the marker beside
 * it says that the filling came to its end. */
static kv_code setup_filled(bench_process *process, kv_status *status)
{
    kv_code code = store_new(process, status);
    struct kv_store *store = process->state;
    char dir[PATH_SIZE], marker[PATH_SIZE + 8];
    if (code != KV_OK)
        return code;
    snprintf(dir, sizeof(dir), "%s/%s-%s-%s-%s-%s-%s", process->shared_dir, process->backend,
             bench_text(process, "layer"), bench_text(process, "count"),
             bench_text(process, "key-size"), bench_text(process, "value-size"),
             bench_text(process, "compressible"));
    snprintf(marker, sizeof(marker), "%s.ready", dir);
    bool durable = (kv_driver_find(process->backend)->caps & KV_CAP_DURABLE) != 0;
    bool ready = durable && access(marker, F_OK) == 0;
    if (!ready)
        code = bench_remove(dir, status);
    if (code == KV_OK)
        code = store_open(store, process, durable ? dir : "", status);
    if (code != KV_OK || ready)
        return code;

    code = store->loops->fill(store, status);
    if (code == KV_OK)
        code = store->loops->compact(store, status);
    if (code != KV_OK || !durable)
        return code;
    /* The first process reads what the others read: files, not what it wrote. */
    code = store_close(store, status);
    if (code == KV_OK)
        code = mark_ready(marker, status);
    if (code == KV_OK)
        code = store_open(store, process, dir, status);
    return code;
}

/* ---- Writing: a new database for each iteration --------------------------------------- */

static kv_code prepare_empty(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    char dir[PATH_SIZE];
    kv_code code = store_close(store, status);
    snprintf(dir, sizeof(dir), "%s/db", process->dir);
    if (code == KV_OK)
        code = bench_remove(dir, status);
    if (code == KV_OK)
        code = store_open(
            store, process,
            (kv_driver_find(process->backend)->caps & KV_CAP_DURABLE) != 0 ? dir : "", status);
    store->generation = process->iteration;
    return code;
}

static kv_code prepare_filled(bench_process *process, kv_status *status)
{
    kv_code code = prepare_empty(process, status);
    struct kv_store *store = process->state;
    if (code == KV_OK)
        code = store->loops->fill(store, status);
    store->generation++;
    return code;
}

/* Filled once, then written over in place, iteration after iteration. */
static kv_code prepare_filled_once(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    if (process->iteration == 0)
        return prepare_filled(process, status);
    store->generation++;
    return KV_OK;
}

static uint64_t operations_all(const bench_process *process)
{
    return keys_of(process);
}

static uint64_t operations_reads(const bench_process *process)
{
    uint64_t count = keys_of(process), reads = bench_number(process, "reads");
    return count < reads ? count : reads;
}

/* At least one call for each thread. */
static uint64_t operations_multiget(const bench_process *process)
{
    uint64_t reads = operations_reads(process),
             least = (uint64_t)KV_MULTIGET * process->threads;
    return reads > least ? reads : least;
}

static uint64_t operations_sync(const bench_process *process)
{
    uint64_t reads = operations_reads(process);
    return reads < SYNC_OPERATIONS_MAX ? reads : SYNC_OPERATIONS_MAX;
}

static uint64_t operations_prefixes(const bench_process *process)
{
    uint64_t prefixes = operations_reads(process) / KV_DATA_PREFIX_KEYS;
    return prefixes > process->threads ? prefixes : process->threads;
}

/* What a thread rounds down is not written. */
static uint64_t written(const bench_process *process, uint64_t operations, uint64_t units)
{
    uint64_t share = operations / process->threads;
    return (share - share % units) * process->threads;
}

static kv_code check_all(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    uint64_t units = store->batch_size != 0 ? store->batch_size : 1;
    return store->loops->verify(store, written(process, operations_all(process), units),
                                store->generation, status);
}

static kv_code check_sync(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    return store->loops->verify(store, written(process, operations_sync(process), 1),
                                store->generation, status);
}

/* With threads, up to threads - 1 keys are left of the generation before. */
static kv_code check_overwritten(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    if (operations_all(process) % process->threads != 0)
        return KV_OK;
    return store->loops->verify(store, store->data.count, store->generation, status);
}

static kv_code check_removed(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    uint64_t left = store->data.count - written(process, operations_all(process), 1);
    return store->loops->verify(store, left, store->generation - 1, status);
}

/* ---- Workloads of their own ------------------------------------------------------------ */

static kv_code setup_batch(bench_process *process, kv_status *status)
{
    kv_code code = store_new(process, status);
    struct kv_store *store = process->state;
    uint64_t size = strtoull(process->workload->name + strlen("batch"), NULL, 10);
    uint64_t share = store->data.count / process->threads;
    store->batch_size = size < share ? size : share > 0 ? share : 1;
    return code;
}

/* The values written are the values that are there, so that every read can be checked. */
static kv_code setup_mixed(bench_process *process, kv_status *status)
{
    kv_code code = store_new(process, status);
    struct kv_store *store = process->state;
    store->read_percent =
        (unsigned)strtoul(process->workload->name + strlen("mixed"), NULL, 10);
    return code;
}

static kv_code prepare_mixed(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    kv_code code = KV_OK;
    if (process->iteration == 0) {
        code = prepare_filled(process, status);
        store->generation = 0;
    }
    return code;
}

static kv_code prepare_writer(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    kv_code code = prepare_mixed(process, status);
    if (code != KV_OK)
        return code;
    atomic_store(&store->stop, false);
    int error = pthread_create(&store->writer, NULL, store->loops->write_until_stopped, store);
    if (error != 0)
        return kv_fail(status, KV_INTERNAL, "the writer does not start: %s", strerror(error));
    store->writing = true;
    return KV_OK;
}

static kv_code stop_writer(bench_process *process, kv_status *status)
{
    struct kv_store *store = process->state;
    if (store == NULL || !store->writing)
        return KV_OK;
    atomic_store(&store->stop, true);
    pthread_join(store->writer, NULL);
    store->writing = false;
    if (store->writer_code != KV_OK)
        return kv_fail(status, store->writer_code, "%s", store->writer_status.message);
    return KV_OK;
}

static void teardown_writer(bench_process *process)
{
    kv_status status = KV_STATUS_INIT;
    if (stop_writer(process, &status) != KV_OK)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    store_teardown(process);
}

/* ---- The table --------------------------------------------------------------------------- */

/* Hand a workload to the loops of its layer. */
#define RUN(loop)                                                                        \
    static kv_code run_##loop(bench_thread *thread, kv_status *status)                   \
    {                                                                                    \
        return ((struct kv_store *)thread->process->state)->loops->loop(thread, status); \
    }
RUN(fillseq)
RUN(fillrandom)
RUN(fillsync)
RUN(batch)
RUN(readrandom)
RUN(readmissing)
RUN(readhot)
RUN(multiget)
RUN(scan)
RUN(scanback)
RUN(seek)
RUN(prefixscan)
RUN(remove)
RUN(mixed)

static bool applies(const bench_process *process)
{
    return loops_of(process) != NULL;
}

#define WRITES(name, help, loop, setup, check)                                           \
    {                                                                                    \
        name, help, "put", 0, operations_all, run_##loop, applies, setup, prepare_empty, \
            check, store_teardown                                                        \
    }
#define READS(name, help, unit, loop, operations)                                       \
    {                                                                                   \
        name, help, unit, 0, operations, run_##loop, applies, setup_filled, NULL, NULL, \
            store_teardown                                                              \
    }

static const bench_workload workloads[] = {
    WRITES("fillseq", "Put all keys in order", fillseq, store_new, check_all),
    WRITES("fillrandom", "Put all keys in random order", fillrandom, store_new, check_all),
    WRITES("batch1", "Put all keys in random order, in batches of one", batch, setup_batch,
           check_all),
    WRITES("batch100", "The same in batches of 100", batch, setup_batch, check_all),
    WRITES("batch10000", "The same in batches of 10,000", batch, setup_batch, check_all),
    { "fillsync", "Put up to 1,000 keys, each durable before the next", "put", 0,
      operations_sync, run_fillsync, applies, store_new, prepare_empty, check_sync,
      store_teardown },
    { "overwrite", "Put all keys again in random order", "put", 0, operations_all,
      run_fillrandom, applies, store_new, prepare_filled_once, check_overwritten,
      store_teardown },
    { "delete", "Delete all keys in random order", "delete", 0, operations_all, run_remove,
      applies, store_new, prepare_filled, check_removed, store_teardown },
    READS("readrandom", "Get random keys that are there", "get", readrandom, operations_reads),
    READS("readmissing", "Get random keys that are not there", "get", readmissing,
          operations_reads),
    READS("readhot", "Get random keys of one in a hundred", "get", readhot, operations_reads),
    READS("multiget", "Get random keys, 100 at once", "get", multiget, operations_multiget),
    READS("scan", "Step through all keys", "step", scan, operations_all),
    READS("scanback", "Step through all keys backwards", "step", scanback, operations_all),
    READS("seek", "Seek to a random place, read 11 entries", "seek", seek, operations_reads),
    READS("prefixscan", "Open an iterator over one prefix, read its 128 entries", "scan",
          prefixscan, operations_prefixes),
    { "mixed95", "95 % gets and 5 % puts of random keys", "op", 0, operations_reads, run_mixed,
      applies, setup_mixed, prepare_mixed, NULL, store_teardown },
    { "mixed50", "50 % gets and 50 % puts of random keys", "op", 0, operations_reads, run_mixed,
      applies, setup_mixed, prepare_mixed, NULL, store_teardown },
    { "readwhilewriting", "Get random keys while another thread puts all the time", "get",
      BENCH_LOOSE, operations_reads, run_readrandom, applies, store_new, prepare_writer,
      stop_writer, teardown_writer },
    { 0 },
};

static const bench_parameter parameters[] = {
    { "count", "100000", "2000", NULL, "keys" },
    { "synced-count", "1000", "20", NULL, "most keys for driver shadow, which syncs each put" },
    { "key-size", "20", NULL, NULL, "bytes in a key, 8 to 1024" },
    { "value-size", "100", NULL, NULL, "bytes in a value" },
    { "compressible", "50", NULL, NULL, "percent of a value that repeats itself" },
    { "reads", "100000", NULL, NULL, "most operations in an iteration of reads" },
    { "layer", "ours", NULL, "ours,raw", "through kv.h, or straight on the engine" },
    { 0 },
};

const bench_suite bench_suite_kv = {
    "kv", "Measure the drivers.", 0, workloads, parameters, NULL, NULL, NULL
};
