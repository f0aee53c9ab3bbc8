/* kv_store.h - what the workloads of suite kv work on, through our layer or straight. */
#ifndef BENCH_KV_STORE_H
#define BENCH_KV_STORE_H

#include "bench/kv_data.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KV_MULTIGET = 100 }; /* keys in one call of multiget */

struct kv_store;

/* The loops of kv_loops.h, compiled for one layer. */
struct kv_loops {
    kv_code (*setup)(struct kv_store *store, kv_status *status); /* once it is open */
    void (*teardown)(struct kv_store *store);                    /* before it is closed */

    /* Outside the measurement. */
    kv_code (*compact)(struct kv_store *store, kv_status *status);
    kv_code (*fill)(struct kv_store *store, kv_status *status);
    kv_code (*verify)(struct kv_store *store, uint64_t count, uint64_t generation,
                      kv_status *status); /* `count` keys, all of this generation */
    void *(*write_until_stopped)(void *store);

    /* The workloads. */
    kv_code (*fillseq)(bench_thread *thread, kv_status *status);
    kv_code (*fillrandom)(bench_thread *thread, kv_status *status);
    kv_code (*fillsync)(bench_thread *thread, kv_status *status);
    kv_code (*batch)(bench_thread *thread, kv_status *status);
    kv_code (*readrandom)(bench_thread *thread, kv_status *status);
    kv_code (*readmissing)(bench_thread *thread, kv_status *status);
    kv_code (*readhot)(bench_thread *thread, kv_status *status);
    kv_code (*multiget)(bench_thread *thread, kv_status *status);
    kv_code (*scan)(bench_thread *thread, kv_status *status);
    kv_code (*scanback)(bench_thread *thread, kv_status *status);
    kv_code (*seek)(bench_thread *thread, kv_status *status);
    kv_code (*prefixscan)(bench_thread *thread, kv_status *status);
    kv_code (*remove)(bench_thread *thread, kv_status *status);
    kv_code (*mixed)(bench_thread *thread, kv_status *status);
};

extern const struct kv_loops kv_loops_ours;
#if STATEKV_DRIVER_ROCKSDB
extern const struct kv_loops kv_loops_rocksdb;
#endif
#if STATEKV_DRIVER_LEVELDB
extern const struct kv_loops kv_loops_leveldb;
#endif

struct kv_store {
    kv_db *db;
    kv_space *space;
    const kv_options *options;
    const struct kv_loops *loops;
    struct kv_data data;
    uint64_t generation;   /* of the values that are written */
    uint64_t batch_size;   /* of workload batch<n> */
    unsigned read_percent; /* of workload mixed<n> */
    void *own;             /* the layer's */

    /* readwhilewriting */
    pthread_t writer;
    bool writing;
    atomic_bool stop;
    kv_code writer_code;
    kv_status writer_status;
};

#endif /* BENCH_KV_STORE_H */
