/* kv_raw_leveldb.c - the loops of suite kv straight on LevelDB's C interface. */
#include "bench/kv_store.h"
#include "drivers/engine_handles.h"

#define FACE_LOOPS kv_loops_leveldb

struct raw {
    leveldb_t *level;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write, *write_sync;
};

struct face_value {
    char *data;
    size_t size;
};

struct face_batch {
    leveldb_writebatch_t *writes;
};

/* LevelDB has no bounds: who walks a range compares keys. */
struct face_iter {
    leveldb_iterator_t *cursor;
    kv_slice first, limit;
};

static inline struct raw *raw_of(struct kv_store *store)
{
    return store->own;
}

static kv_code raw_fail(char *error, kv_status *status)
{
    kv_code code = kv_fail(status, KV_IO, "%s", error);
    leveldb_free(error);
    return code;
}

static kv_code face_setup(struct kv_store *store, kv_status *status)
{
    static struct raw raw;
    (void)status;
    raw.level = level_engine_of(store->db);
    raw.read = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(
        raw.read, kv_options_bool(store->options, "kv.leveldb.verify_checksums"));
    raw.write = leveldb_writeoptions_create();
    raw.write_sync = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(raw.write_sync, 1);
    store->own = &raw;
    return KV_OK;
}

static void face_teardown(struct kv_store *store)
{
    struct raw *raw = raw_of(store);
    leveldb_readoptions_destroy(raw->read);
    leveldb_writeoptions_destroy(raw->write);
    leveldb_writeoptions_destroy(raw->write_sync);
}

static kv_code face_compact(struct kv_store *store, kv_status *status)
{
    (void)status;
    leveldb_compact_range(raw_of(store)->level, NULL, 0, NULL, 0);
    return KV_OK;
}

static inline kv_code face_put(struct kv_store *store, kv_slice key, kv_slice value, bool sync,
                               kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    leveldb_put(raw->level, sync ? raw->write_sync : raw->write, key.data, key.size, value.data,
                value.size, &error);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline kv_code face_delete(struct kv_store *store, kv_slice key, kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    leveldb_delete(raw->level, raw->write, key.data, key.size, &error);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline kv_code face_get(struct kv_store *store, kv_slice key, struct face_value *out,
                               kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    out->data = leveldb_get(raw->level, raw->read, key.data, key.size, &out->size, &error);
    if (error != NULL)
        return raw_fail(error, status);
    return out->data != NULL ? KV_OK : KV_NOT_FOUND;
}

static inline kv_slice face_value_bytes(const struct face_value *value)
{
    return kv_bytes(value->data, value->size);
}

static inline void face_value_release(struct face_value *value)
{
    leveldb_free(value->data);
}

/* LevelDB gets one key at a time. */
static inline kv_code face_get_many(struct kv_store *store, size_t count, const kv_slice *keys,
                                    struct face_value *out, kv_code *codes, kv_status *status)
{
    for (size_t i = 0; i < count; i++) {
        codes[i] = face_get(store, keys[i], &out[i], status);
        if (codes[i] != KV_OK && codes[i] != KV_NOT_FOUND)
            return codes[i];
    }
    return KV_OK;
}

static inline kv_code face_batch_open(struct kv_store *store, struct face_batch *batch,
                                      kv_status *status)
{
    (void)store;
    (void)status;
    batch->writes = leveldb_writebatch_create();
    return KV_OK;
}

static inline void face_batch_put(struct kv_store *store, struct face_batch *batch,
                                  kv_slice key, kv_slice value)
{
    (void)store;
    leveldb_writebatch_put(batch->writes, key.data, key.size, value.data, value.size);
}

static inline kv_code face_batch_commit(struct kv_store *store, struct face_batch *batch,
                                        kv_status *status)
{
    const struct raw *raw = raw_of(store);
    char *error = NULL;
    leveldb_write(raw->level, raw->write, batch->writes, &error);
    leveldb_writebatch_clear(batch->writes);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline void face_batch_close(struct face_batch *batch)
{
    leveldb_writebatch_destroy(batch->writes);
}

static inline kv_code face_iter_open(struct kv_store *store, const kv_range *range,
                                     struct face_iter *iter, kv_status *status)
{
    const struct raw *raw = raw_of(store);
    (void)status;
    iter->first = range != NULL ? range->first : kv_bytes(NULL, 0);
    iter->limit = range != NULL ? range->limit : kv_bytes(NULL, 0);
    iter->cursor = leveldb_create_iterator(raw->level, raw->read);
    return KV_OK;
}

static inline kv_slice face_iter_key(struct face_iter *iter)
{
    size_t size;
    const char *data = leveldb_iter_key(iter->cursor, &size);
    return kv_bytes(data, size);
}

static inline bool face_iter_on(struct face_iter *iter)
{
    if (!leveldb_iter_valid(iter->cursor))
        return false;
    return iter->limit.size == 0 || kv_compare(face_iter_key(iter), iter->limit) < 0;
}

static inline bool face_iter_first(struct face_iter *iter)
{
    if (iter->first.size > 0)
        leveldb_iter_seek(iter->cursor, iter->first.data, iter->first.size);
    else
        leveldb_iter_seek_to_first(iter->cursor);
    return face_iter_on(iter);
}

/* Only of whole databases here. */
static inline bool face_iter_last(struct face_iter *iter)
{
    leveldb_iter_seek_to_last(iter->cursor);
    return leveldb_iter_valid(iter->cursor);
}

static inline bool face_iter_seek(struct face_iter *iter, kv_slice key)
{
    leveldb_iter_seek(iter->cursor, key.data, key.size);
    return face_iter_on(iter);
}

static inline bool face_iter_next(struct face_iter *iter)
{
    leveldb_iter_next(iter->cursor);
    return face_iter_on(iter);
}

static inline bool face_iter_prev(struct face_iter *iter)
{
    leveldb_iter_prev(iter->cursor);
    return leveldb_iter_valid(iter->cursor);
}

static inline kv_slice face_iter_value(struct face_iter *iter)
{
    size_t size;
    const char *data = leveldb_iter_value(iter->cursor, &size);
    return kv_bytes(data, size);
}

static inline kv_code face_iter_status(struct face_iter *iter, kv_status *status)
{
    char *error = NULL;
    leveldb_iter_get_error(iter->cursor, &error);
    return error == NULL ? KV_OK : raw_fail(error, status);
}

static inline void face_iter_close(struct face_iter *iter)
{
    leveldb_iter_destroy(iter->cursor);
}

#include "bench/kv_loops.h"
