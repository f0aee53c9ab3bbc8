/* kv_ours.c - the loops of suite kv through kv.h. */
#include "bench/kv_store.h"

#include <stdlib.h>

#define FACE_LOOPS kv_loops_ours

struct face_value {
    kv_value value;
};

struct face_batch {
    kv_batch *batch;
};

struct face_iter {
    kv_iter *iter;
};

static kv_code face_setup(struct kv_store *store, kv_status *status)
{
    (void)store;
    (void)status;
    return KV_OK;
}

static void face_teardown(struct kv_store *store)
{
    (void)store;
}

static kv_code face_compact(struct kv_store *store, kv_status *status)
{
    return kv_compact(store->space, NULL, status);
}

static inline kv_code face_put(struct kv_store *store, kv_slice key, kv_slice value, bool sync,
                               kv_status *status)
{
    return kv_put(store->space, key, value, sync ? KV_SYNC : 0, status);
}

static inline kv_code face_delete(struct kv_store *store, kv_slice key, kv_status *status)
{
    return kv_delete(store->space, key, 0, status);
}

static inline kv_code face_get(struct kv_store *store, kv_slice key, struct face_value *out,
                               kv_status *status)
{
#ifdef BENCH_EXTRA_ALLOCATION /* a build that is worse on purpose: compare must find it */
    void *volatile extra = malloc(16);
    free(extra);
#endif
    out->value = (kv_value)KV_VALUE_INIT;
    return kv_get(store->space, NULL, key, &out->value, status);
}

static inline kv_slice face_value_bytes(const struct face_value *value)
{
    return value->value.bytes;
}

static inline void face_value_release(struct face_value *value)
{
    kv_value_release(&value->value);
}

static inline kv_code face_get_many(struct kv_store *store, size_t count, const kv_slice *keys,
                                    struct face_value *out, kv_code *codes, kv_status *status)
{
    _Static_assert(sizeof(struct face_value) == sizeof(kv_value), "an array of the one is "
                                                                  "an array of the other");
    for (size_t i = 0; i < count; i++)
        out[i].value = (kv_value)KV_VALUE_INIT;
    return kv_get_many(store->space, NULL, count, keys, &out->value, codes, status);
}

static inline kv_code face_batch_open(struct kv_store *store, struct face_batch *batch,
                                      kv_status *status)
{
    return kv_batch_new(store->db, &batch->batch, status);
}

static inline void face_batch_put(struct kv_store *store, struct face_batch *batch,
                                  kv_slice key, kv_slice value)
{
    kv_batch_put(batch->batch, store->space, key, value);
}

static inline kv_code face_batch_commit(struct kv_store *store, struct face_batch *batch,
                                        kv_status *status)
{
    (void)store;
    return kv_batch_commit(batch->batch, 0, status);
}

static inline void face_batch_close(struct face_batch *batch)
{
    kv_batch_free(batch->batch);
}

static inline kv_code face_iter_open(struct kv_store *store, const kv_range *range,
                                     struct face_iter *iter, kv_status *status)
{
    return kv_iter_open(store->space, NULL, range, &iter->iter, status);
}

static inline bool face_iter_first(struct face_iter *iter)
{
    return kv_iter_first(iter->iter);
}

static inline bool face_iter_last(struct face_iter *iter)
{
    return kv_iter_last(iter->iter);
}

static inline bool face_iter_seek(struct face_iter *iter, kv_slice key)
{
    return kv_iter_seek(iter->iter, key);
}

static inline bool face_iter_next(struct face_iter *iter)
{
    return kv_iter_next(iter->iter);
}

static inline bool face_iter_prev(struct face_iter *iter)
{
    return kv_iter_prev(iter->iter);
}

static inline kv_slice face_iter_key(struct face_iter *iter)
{
    return kv_iter_key(iter->iter);
}

static inline kv_slice face_iter_value(struct face_iter *iter)
{
    return kv_iter_value(iter->iter);
}

static inline kv_code face_iter_status(struct face_iter *iter, kv_status *status)
{
    return kv_iter_status(iter->iter, status);
}

static inline void face_iter_close(struct face_iter *iter)
{
    kv_iter_close(iter->iter);
}

#include "bench/kv_loops.h"
