/* kv_raw_rocksdb.c - the loops of suite kv straight on RocksDB's C interface. */
#include "bench/kv_store.h"
#include "drivers/engine_handles.h"

#define FACE_LOOPS kv_loops_rocksdb

struct raw {
    rocksdb_t *rocks;
    rocksdb_column_family_handle_t *family;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write, *write_sync;
};

struct face_value {
    rocksdb_pinnableslice_t *pinned;
};

struct face_batch {
    rocksdb_writebatch_t *writes;
};

struct face_iter {
    rocksdb_iterator_t *cursor;
    rocksdb_readoptions_t *read;
};

static inline struct raw *raw_of(struct kv_store *store)
{
    return store->own;
}

static kv_code raw_fail(char *error, kv_status *status)
{
    kv_code code = kv_fail(status, KV_IO, "%s", error);
    rocksdb_free(error);
    return code;
}

static kv_code face_setup(struct kv_store *store, kv_status *status)
{
    static struct raw raw;
    (void)status;
    raw.rocks = rocks_engine_of(store->db);
    raw.family = rocks_family_of(store->space);
    raw.read = rocksdb_readoptions_create();
    raw.write = rocksdb_writeoptions_create();
    raw.write_sync = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(raw.write_sync, 1);
    store->own = &raw;
    return KV_OK;
}

static void face_teardown(struct kv_store *store)
{
    struct raw *raw = raw_of(store);
    rocksdb_readoptions_destroy(raw->read);
    rocksdb_writeoptions_destroy(raw->write);
    rocksdb_writeoptions_destroy(raw->write_sync);
}

static kv_code face_compact(struct kv_store *store, kv_status *status)
{
    (void)status;
    rocksdb_compact_range_cf(raw_of(store)->rocks, raw_of(store)->family, NULL, 0, NULL, 0);
    return KV_OK;
}

static inline kv_code face_put(struct kv_store *store, kv_slice key, kv_slice value, bool sync,
                               kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    rocksdb_put_cf(raw->rocks, sync ? raw->write_sync : raw->write, raw->family, key.data,
                   key.size, value.data, value.size, &error);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline kv_code face_delete(struct kv_store *store, kv_slice key, kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    rocksdb_delete_cf(raw->rocks, raw->write, raw->family, key.data, key.size, &error);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline kv_code face_get(struct kv_store *store, kv_slice key, struct face_value *out,
                               kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    out->pinned =
        rocksdb_get_pinned_cf(raw->rocks, raw->read, raw->family, key.data, key.size, &error);
    if (error != NULL)
        return raw_fail(error, status);
    return out->pinned != NULL ? KV_OK : KV_NOT_FOUND;
}

static inline kv_slice face_value_bytes(const struct face_value *value)
{
    size_t size;
    const char *data = rocksdb_pinnableslice_value(value->pinned, &size);
    return kv_bytes(data, size);
}

static inline void face_value_release(struct face_value *value)
{
    rocksdb_pinnableslice_destroy(value->pinned);
}

static inline kv_code face_get_many(struct kv_store *store, size_t count, const kv_slice *keys,
                                    struct face_value *out, kv_code *codes, kv_status *status)
{
    enum { MOST = 128 };
    const struct raw *raw = raw_of(store);
    const char *data[MOST];
    size_t sizes[MOST];
    char *errors[MOST] = { NULL };
    rocksdb_pinnableslice_t *pinned[MOST];
    if (count > MOST)
        return kv_fail(status, KV_TOO_BIG, "more than %d keys at once", MOST);
    for (size_t i = 0; i < count; i++) {
        data[i] = keys[i].data;
        sizes[i] = keys[i].size;
    }
    rocksdb_batched_multi_get_cf(raw->rocks, raw->read, raw->family, count, data, sizes, pinned,
                                 errors, false);
    for (size_t i = 0; i < count; i++) {
        if (errors[i] != NULL)
            return raw_fail(errors[i], status);
        out[i].pinned = pinned[i];
        codes[i] = pinned[i] != NULL ? KV_OK : KV_NOT_FOUND;
    }
    return KV_OK;
}

static inline kv_code face_batch_open(struct kv_store *store, struct face_batch *batch,
                                      kv_status *status)
{
    (void)store;
    (void)status;
    batch->writes = rocksdb_writebatch_create();
    return KV_OK;
}

static inline void face_batch_put(struct kv_store *store, struct face_batch *batch,
                                  kv_slice key, kv_slice value)
{
    rocksdb_writebatch_put_cf(batch->writes, raw_of(store)->family, key.data, key.size,
                              value.data, value.size);
}

static inline kv_code face_batch_commit(struct kv_store *store, struct face_batch *batch,
                                        kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    rocksdb_write(raw->rocks, raw->write, batch->writes, &error);
    rocksdb_writebatch_clear(batch->writes);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline void face_batch_close(struct face_batch *batch)
{
    rocksdb_writebatch_destroy(batch->writes);
}

/* The bounds' bytes are the caller's and outlive the iterator. */
static inline kv_code face_iter_open(struct kv_store *store, const kv_range *range,
                                     struct face_iter *iter, kv_status *status)
{
    const struct raw *raw = raw_of(store);
    (void)status;
    iter->read = rocksdb_readoptions_create();
    if (range != NULL && range->first.size > 0)
        rocksdb_readoptions_set_iterate_lower_bound(iter->read, range->first.data,
                                                    range->first.size);
    if (range != NULL && range->limit.size > 0)
        rocksdb_readoptions_set_iterate_upper_bound(iter->read, range->limit.data,
                                                    range->limit.size);
    iter->cursor = rocksdb_create_iterator_cf(raw->rocks, iter->read, raw->family);
    return KV_OK;
}

static inline bool face_iter_first(struct face_iter *iter)
{
    rocksdb_iter_seek_to_first(iter->cursor);
    return rocksdb_iter_valid(iter->cursor);
}

static inline bool face_iter_last(struct face_iter *iter)
{
    rocksdb_iter_seek_to_last(iter->cursor);
    return rocksdb_iter_valid(iter->cursor);
}

static inline bool face_iter_seek(struct face_iter *iter, kv_slice key)
{
    rocksdb_iter_seek(iter->cursor, key.data, key.size);
    return rocksdb_iter_valid(iter->cursor);
}

static inline bool face_iter_next(struct face_iter *iter)
{
    rocksdb_iter_next(iter->cursor);
    return rocksdb_iter_valid(iter->cursor);
}

static inline bool face_iter_prev(struct face_iter *iter)
{
    rocksdb_iter_prev(iter->cursor);
    return rocksdb_iter_valid(iter->cursor);
}

static inline kv_slice face_iter_key(struct face_iter *iter)
{
    size_t size;
    const char *data = rocksdb_iter_key(iter->cursor, &size);
    return kv_bytes(data, size);
}

static inline kv_slice face_iter_value(struct face_iter *iter)
{
    size_t size;
    const char *data = rocksdb_iter_value(iter->cursor, &size);
    return kv_bytes(data, size);
}

static inline kv_code face_iter_status(struct face_iter *iter, kv_status *status)
{
    char *error = NULL;
    rocksdb_iter_get_error(iter->cursor, &error);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline void face_iter_close(struct face_iter *iter)
{
    rocksdb_iter_destroy(iter->cursor);
    rocksdb_readoptions_destroy(iter->read);
}

#include "bench/kv_loops.h"
