/*
 * kv_loops.h - the workloads of suite kv, to be compiled once per layer.
 *
 * The file that includes this defines before, all static inline, so that no
 * layer pays for a call that another does not make:
 *
 *   struct face_value    one value read         face_get, face_value_bytes, face_value_release
 *   struct face_batch    gathered writes        face_batch_open, _put, _commit, _close
 *   struct face_iter     a cursor               face_iter_open, _first, _last, _seek, _next,
 *                                               _prev, _key, _value, _status, _close
 *   face_setup, face_teardown, face_compact, face_put, face_delete, face_get_many, and
 *   FACE_LOOPS, the name of the table.
 */
#ifndef BENCH_KV_LOOPS_H
#define BENCH_KV_LOOPS_H

#include "bench/kv_store.h"

#include <stdlib.h>

enum { MULTIGET = KV_MULTIGET, SEEK_STEPS = 10, FILL_BATCH = 1000, HOT_SHARE = 100 };

static inline struct kv_store *store_of(const bench_thread *thread)
{
    return thread->process->state;
}

/* A thread's first turn of the iteration's. */
static inline uint64_t first_turn(const bench_thread *thread)
{
    return thread->index * thread->operations;
}

static kv_code wrong_value(const char *what, uint64_t index, kv_status *status)
{
    return kv_fail(status, KV_CORRUPT, "key %llu %s", (unsigned long long)index, what);
}

/* ---- Writing ----------------------------------------------------------------- */

static kv_code loop_put(bench_thread *thread, bool in_order, bool sync, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    kv_data_key_init(&key);
    kv_code code = KV_OK;
    uint64_t turn = first_turn(thread);
    while (code == KV_OK && bench_next(thread)) {
        uint64_t index = in_order ? turn : kv_data_order(data, turn);
        code = face_put(store, kv_data_key_of(data, &key, index, true),
                        kv_data_value_of(data, index, store->generation), sync, status);
        turn++;
    }
    return code;
}

static kv_code loop_fillseq(bench_thread *thread, kv_status *status)
{
    return loop_put(thread, true, false, status);
}

static kv_code loop_fillrandom(bench_thread *thread, kv_status *status)
{
    return loop_put(thread, false, false, status);
}

static kv_code loop_fillsync(bench_thread *thread, kv_status *status)
{
    return loop_put(thread, false, true, status);
}

static kv_code loop_batch(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    struct face_batch batch;
    kv_data_key_init(&key);
    kv_code code = face_batch_open(store, &batch, status);
    uint64_t turn = first_turn(thread);
    bench_units(thread, store->batch_size);
    while (code == KV_OK && bench_next(thread)) {
        for (uint64_t i = 0; i < store->batch_size; i++) {
            uint64_t index = kv_data_order(data, turn++);
            face_batch_put(store, &batch, kv_data_key_of(data, &key, index, true),
                           kv_data_value_of(data, index, store->generation));
        }
        code = face_batch_commit(store, &batch, status);
    }
    face_batch_close(&batch);
    return code;
}

static kv_code loop_remove(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    struct kv_data_key key;
    kv_data_key_init(&key);
    kv_code code = KV_OK;
    uint64_t turn = first_turn(thread);
    while (code == KV_OK && bench_next(thread)) {
        uint64_t index = kv_data_order(&store->data, turn++);
        code = face_delete(store, kv_data_key_of(&store->data, &key, index, true), status);
    }
    return code;
}

static kv_code loop_fill(struct kv_store *store, kv_status *status)
{
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    struct face_batch batch;
    kv_data_key_init(&key);
    kv_code code = face_batch_open(store, &batch, status);
    for (uint64_t turn = 0; code == KV_OK && turn < data->count;) {
        for (unsigned i = 0; i < FILL_BATCH && turn < data->count; i++) {
            uint64_t index = kv_data_order(data, turn++);
            face_batch_put(store, &batch, kv_data_key_of(data, &key, index, true),
                           kv_data_value_of(data, index, store->generation));
        }
        code = face_batch_commit(store, &batch, status);
    }
    face_batch_close(&batch);
    return code;
}

/* ---- Point reads --------------------------------------------------------------- */

static inline kv_code read_one(bench_thread *thread, struct kv_store *store,
                               struct kv_data_key *key, uint64_t index, bool there,
                               kv_status *status)
{
    struct face_value value;
    kv_code code =
        face_get(store, kv_data_key_of(&store->data, key, index, there), &value, status);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;

    bool found = code == KV_OK;
    bool right =
        found == there && (!found || kv_data_value_is(&store->data, face_value_bytes(&value),
                                                      index, store->generation));
    bench_lookup(thread, found);
    if (found)
        face_value_release(&value);
    if (!right)
        return wrong_value(!found  ? "is missing"
                           : there ? "has a wrong value"
                                   : "is there and should not be",
                           index, status);
    return KV_OK;
}

static kv_code loop_readrandom(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    struct kv_data_key key;
    kv_data_key_init(&key);
    uint64_t random = bench_random_seed(thread);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread))
        code = read_one(thread, store, &key, bench_random_below(&random, store->data.count),
                        true, status);
    return code;
}

static kv_code loop_readmissing(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    struct kv_data_key key;
    kv_data_key_init(&key);
    uint64_t random = bench_random_seed(thread);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread))
        code = read_one(thread, store, &key, bench_random_below(&random, store->data.count),
                        false, status);
    return code;
}

/* One key in a hundred, spread over all. */
static kv_code loop_readhot(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    struct kv_data_key key;
    kv_data_key_init(&key);
    uint64_t random = bench_random_seed(thread);
    uint64_t hot = (store->data.count + HOT_SHARE - 1) / HOT_SHARE;
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        uint64_t index = kv_data_order(&store->data, bench_random_below(&random, hot));
        code = read_one(thread, store, &key, index, true, status);
    }
    return code;
}

static kv_code loop_mixed(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    kv_data_key_init(&key);
    uint64_t random = bench_random_seed(thread);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        uint64_t index = bench_random_below(&random, data->count);
        if (bench_random_below(&random, 100) < store->read_percent)
            code = read_one(thread, store, &key, index, true, status);
        else
            code = face_put(store, kv_data_key_of(data, &key, index, true),
                            kv_data_value_of(data, index, store->generation), false, status);
    }
    return code;
}

static kv_code loop_multiget(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    const struct kv_data *data = &store->data;
    struct kv_data_key *keys = calloc(MULTIGET, sizeof(*keys));
    kv_slice slices[MULTIGET];
    uint64_t indexes[MULTIGET], random = bench_random_seed(thread);
    struct face_value values[MULTIGET];
    kv_code codes[MULTIGET], code = KV_OK;
    if (keys == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for keys");
    for (unsigned i = 0; i < MULTIGET; i++)
        kv_data_key_init(&keys[i]);
    bench_units(thread, MULTIGET);
    while (code == KV_OK && bench_next(thread)) {
        for (unsigned i = 0; i < MULTIGET; i++) {
            indexes[i] = bench_random_below(&random, data->count);
            slices[i] = kv_data_key_of(data, &keys[i], indexes[i], true);
        }
        code = face_get_many(store, MULTIGET, slices, values, codes, status);
        for (unsigned i = 0; code == KV_OK && i < MULTIGET; i++) {
            bool right =
                codes[i] == KV_OK && kv_data_value_is(data, face_value_bytes(&values[i]),
                                                      indexes[i], store->generation);
            bench_lookup(thread, codes[i] == KV_OK);
            if (!right)
                code = wrong_value("is missing or has a wrong value", indexes[i], status);
            if (codes[i] == KV_OK)
                face_value_release(&values[i]);
        }
    }
    free(keys);
    return code;
}

/* ---- Iteration ------------------------------------------------------------------ */

/* Check the entry under the cursor; `index` is what it must be. */
static inline kv_code check_entry(struct kv_store *store, struct face_iter *iter,
                                  uint64_t index, kv_status *status)
{
    if (kv_data_index_of(&store->data, face_iter_key(iter)) != index)
        return wrong_value("is not where it should be", index, status);
    if (!kv_data_value_is(&store->data, face_iter_value(iter), index, store->generation))
        return wrong_value("has a wrong value", index, status);
    return KV_OK;
}

/* Each thread walks from the start, or from the end backwards. */
static kv_code loop_walk(bench_thread *thread, bool back, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    struct face_iter iter;
    uint64_t index = back ? store->data.count - 1 : 0;
    kv_code code = face_iter_open(store, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    bool first = true;
    while (code == KV_OK && bench_next(thread)) {
        bool on = first  ? (back ? face_iter_last(&iter) : face_iter_first(&iter))
                  : back ? face_iter_prev(&iter)
                         : face_iter_next(&iter);
        code = on ? check_entry(store, &iter, index, status) : face_iter_status(&iter, status);
        if (!on && code == KV_OK)
            code = wrong_value("is missing from a scan", index, status);
        index = back ? index - 1 : index + 1;
        first = false;
    }
    if (code == KV_OK)
        code = face_iter_status(&iter, status);
    face_iter_close(&iter);
    return code;
}

static kv_code loop_scan(bench_thread *thread, kv_status *status)
{
    return loop_walk(thread, false, status);
}

static kv_code loop_scanback(bench_thread *thread, kv_status *status)
{
    return loop_walk(thread, true, status);
}

/* Look for a key that is not there, read the next one and ten more. */
static kv_code loop_seek(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    struct face_iter iter;
    uint64_t random = bench_random_seed(thread);
    kv_data_key_init(&key);
    kv_code code = face_iter_open(store, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    while (code == KV_OK && bench_next(thread)) {
        uint64_t index = bench_random_below(&random, data->count);
        bool on = face_iter_seek(&iter, kv_data_key_of(data, &key, index, false));
        unsigned steps = 0;
        for (; code == KV_OK && on; on = face_iter_next(&iter)) {
            code = check_entry(store, &iter, index + 1 + steps, status);
            if (steps++ == SEEK_STEPS)
                break;
        }
        if (code == KV_OK)
            code = face_iter_status(&iter, status);
        if (code == KV_OK && !on && index + 1 + steps != data->count)
            code = wrong_value("is missing after a seek", index + 1 + steps, status);
    }
    face_iter_close(&iter);
    return code;
}

/* Open an iterator over the keys of one prefix, and read them all. */
static kv_code loop_prefixscan(bench_thread *thread, kv_status *status)
{
    struct kv_store *store = store_of(thread);
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    unsigned char limit[KV_DATA_PREFIX_SIZE];
    uint64_t random = bench_random_seed(thread);
    kv_data_key_init(&key);
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        uint64_t index = bench_random_below(&random, data->count);
        index -= index % KV_DATA_PREFIX_KEYS;
        kv_data_key_of(data, &key, index, true);
        kv_range range = kv_range_of_prefix(kv_bytes(key.bytes, KV_DATA_PREFIX_SIZE), limit);
        uint64_t end = index + KV_DATA_PREFIX_KEYS;
        end = end < data->count ? end : data->count;
        struct face_iter iter;
        code = face_iter_open(store, &range, &iter, status);
        if (code != KV_OK)
            break;
        for (bool on = face_iter_first(&iter); code == KV_OK && on; on = face_iter_next(&iter))
            code = check_entry(store, &iter, index++, status);
        if (code == KV_OK)
            code = face_iter_status(&iter, status);
        if (code == KV_OK && index != end)
            code = wrong_value("is missing from a prefix, or one too many is there", index,
                               status);
        face_iter_close(&iter);
    }
    return code;
}

static kv_code loop_verify(struct kv_store *store, uint64_t count, uint64_t generation,
                           kv_status *status)
{
    struct face_iter iter;
    uint64_t seen = 0;
    kv_code code = face_iter_open(store, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = face_iter_first(&iter); code == KV_OK && on; on = face_iter_next(&iter)) {
        uint64_t index = kv_data_index_of(&store->data, face_iter_key(&iter));
        if (index == UINT64_MAX ||
            !kv_data_value_is(&store->data, face_iter_value(&iter), index, generation))
            code = wrong_value("has a wrong value, or is none of ours", index, status);
        seen++;
    }
    if (code == KV_OK)
        code = face_iter_status(&iter, status);
    if (code == KV_OK && seen != count)
        code = kv_fail(status, KV_CORRUPT, "there are %llu keys, not the %llu that were left",
                       (unsigned long long)seen, (unsigned long long)count);
    face_iter_close(&iter);
    return code;
}

/* readwhilewriting: puts of the same values in random places, as fast as they go. */
static void *loop_write_until_stopped(void *context)
{
    struct kv_store *store = context;
    const struct kv_data *data = &store->data;
    struct kv_data_key key;
    uint64_t random = data->seed;
    kv_data_key_init(&key);
    while (store->writer_code == KV_OK && !atomic_load(&store->stop)) {
        uint64_t index = bench_random_below(&random, data->count);
        store->writer_code = face_put(store, kv_data_key_of(data, &key, index, true),
                                      kv_data_value_of(data, index, store->generation), false,
                                      &store->writer_status);
    }
    return NULL;
}

const struct kv_loops FACE_LOOPS = {
    .setup = face_setup,
    .teardown = face_teardown,
    .compact = face_compact,
    .fill = loop_fill,
    .verify = loop_verify,
    .write_until_stopped = loop_write_until_stopped,
    .fillseq = loop_fillseq,
    .fillrandom = loop_fillrandom,
    .fillsync = loop_fillsync,
    .batch = loop_batch,
    .readrandom = loop_readrandom,
    .readmissing = loop_readmissing,
    .readhot = loop_readhot,
    .multiget = loop_multiget,
    .scan = loop_scan,
    .scanback = loop_scanback,
    .seek = loop_seek,
    .prefixscan = loop_prefixscan,
    .remove = loop_remove,
    .mixed = loop_mixed,
};

#endif /* BENCH_KV_LOOPS_H */
