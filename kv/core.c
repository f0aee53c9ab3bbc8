/* core.c - opening and closing, and the rules that every call passes through. */
#include "kv/core.h"

#include <stdlib.h>
#include <string.h>

const kv_range kv_everything = { { NULL, 0 }, { NULL, 0 } };

/* ---- Keys and ranges as the driver takes them ---------------------------- */

kv_code kv_full_key_allocate(struct kv_full_key *full, size_t size, kv_status *status)
{
    full->heap = malloc(size);
    if (full->heap == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a key of %zu bytes", size);
    return KV_OK;
}

void kv_full_key_free(struct kv_full_key *full)
{
    free(full->heap);
}

kv_code kv_full_range_init(struct kv_full_range *full, const kv_space *space,
                           const kv_range *range, kv_status *status)
{
    kv_slice prefix = kv_bytes(space->prefix, space->prefix_size);
    kv_slice limit = range == NULL ? kv_bytes(NULL, 0) : range->limit;

    kv_code code = kv_full_key_init(&full->first, space,
                                    range == NULL ? kv_bytes(NULL, 0) : range->first, status);
    if (code != KV_OK)
        return code;
    code = kv_full_key_init(&full->limit, space, limit, status);
    if (code != KV_OK) {
        kv_full_key_clear(&full->first);
        return code;
    }

    full->range = (kv_range){ full->first.key, full->limit.key };
    if (limit.size == 0)
        full->range.limit = kv_range_of_prefix(prefix, full->end).limit;
    else if (kv_compare(full->range.first, full->range.limit) > 0)
        full->range.limit = full->range.first;
    return KV_OK;
}

void kv_full_range_clear(struct kv_full_range *full)
{
    kv_full_key_clear(&full->first);
    kv_full_key_clear(&full->limit);
}

/* ---- Refusals ------------------------------------------------------------ */

kv_code kv_refuse_key(const kv_driver *driver, kv_slice key, kv_status *status)
{
    if (key.size == 0)
        return kv_fail(status, KV_INVALID, "the key is empty: a key has at least one byte");
    return kv_fail(status, KV_TOO_BIG, "the key has %zu bytes, and %s takes no more than %llu",
                   key.size, driver->name, (unsigned long long)driver->key_size_max);
}

kv_code kv_refuse_value(const kv_driver *driver, kv_slice value, kv_status *status)
{
    return kv_fail(status, KV_TOO_BIG,
                   "the value has %zu bytes, and %s takes no more than %llu", value.size,
                   driver->name, (unsigned long long)driver->value_size_max);
}

kv_code kv_refuse_write(const kv_db *db, kv_status *status)
{
    /* refusal never changes once refuses_writes is seen to be set */
    return kv_fail(status, KV_READ_ONLY, "%s", db->core->refusal.message);
}

void kv_core_refuse(kv_db *db, const kv_status *fault)
{
    struct kv_core *core = db->core;
    pthread_mutex_lock(&core->refusal_mutex);
    if (!atomic_load_explicit(&core->refuses_writes, memory_order_relaxed)) {
        kv_fail(&core->refusal, KV_READ_ONLY, "writes refused until reopened, after: %s",
                fault->message);
        atomic_store_explicit(&core->refuses_writes, true, memory_order_release);
    }
    pthread_mutex_unlock(&core->refusal_mutex);
}

kv_code kv_write_failed(kv_db *db, const kv_status *fault, kv_status *status)
{
    /* Whatever the engine holds of this write, or of earlier unsynced ones, can
     * no longer be known: only a fresh recovery may go on from here. */
    if (fault->code == KV_IO || fault->code == KV_NO_SPACE)
        kv_core_refuse(db, fault);
    return kv_fail(status, fault->code, "%s", fault->message);
}

/* ---- Opening ------------------------------------------------------------- */

static void core_free(struct kv_core *core)
{
    kv_folder_close(&core->folder);
    kv_options_free(core->options);
    pthread_rwlock_destroy(&core->gate);
    pthread_mutex_destroy(&core->refusal_mutex);
    pthread_mutex_destroy(&core->mutex);
    free(core);
}

static struct kv_core *core_new(const kv_options *options, kv_status *status)
{
    struct kv_core *core = calloc(1, sizeof(*core));
    if (core == NULL) {
        kv_fail(status, KV_NO_MEMORY, "no memory for a database handle");
        return NULL;
    }
    core->folder = (struct kv_folder)KV_FOLDER_INIT;
    pthread_mutex_init(&core->mutex, NULL);
    pthread_mutex_init(&core->refusal_mutex, NULL);
    pthread_rwlock_init(&core->gate, NULL);
    if (kv_options_copy(options, NULL, &core->options, status) != KV_OK) {
        core_free(core);
        return NULL;
    }
    return core;
}

/* Open the engine in a folder that is ours, and mend what a crash left. */
static kv_code engine_open(kv_db *db, unsigned flags, kv_status *status)
{
    struct kv_core *core = db->core;
    bool durable = (db->driver->caps & KV_CAP_DURABLE) != 0;
    db->dir = durable ? core->folder.path : "";
    db->flags = flags & KV_OPEN_READ;
    if (!durable || core->folder.fresh)
        db->flags |= KV_CREATE;

    kv_code code = db->driver->open(db, core->options, status);
    if (code != KV_OK)
        return code;

    code = kv_spaces_recover(db, status);
    if (code == KV_OK && durable)
        code = kv_folder_finish(&core->folder, status);
    if (code != KV_OK) {
        kv_spaces_close(db);
        db->driver->close(db);
    }
    return code;
}

kv_code kv_open(const kv_options *options, unsigned flags, kv_db **out, kv_status *status)
{
    *out = NULL;
    const char *backend = kv_options_backend(options);
    const kv_driver *driver = kv_driver_find(backend);
    if (driver == NULL)
        return kv_fail(status, KV_INVALID, "there is no driver %s", backend);
    if ((flags & KV_OPEN_READ) != 0)
        flags &= ~(unsigned)KV_CREATE;

    struct kv_core *core = core_new(options, status);
    if (core == NULL)
        return KV_NO_MEMORY;
    kv_db *db = NULL;
    kv_code code = KV_OK;
    if ((driver->caps & KV_CAP_DURABLE) != 0)
        code = kv_folder_open(&core->folder, kv_options_dir(options), driver, flags, status);
    if (code != KV_OK)
        goto out;

    db = calloc(1, driver->db_size);
    if (db == NULL) {
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a database handle");
        goto out;
    }
    db->driver = driver;
    db->core = core;
    code = engine_open(db, flags, status);
    if (code == KV_OK && (flags & KV_OPEN_READ) != 0) {
        kv_fail(&core->refusal, KV_READ_ONLY, "database %s was opened for reading", db->dir);
        atomic_store(&core->refuses_writes, true);
    }
out:
    if (code != KV_OK) {
        kv_folder_undo(&core->folder, driver);
        core_free(core);
        free(db);
        return code;
    }
    *out = db;
    return KV_OK;
}

kv_code kv_close(kv_db *db, kv_status *status)
{
    if (db == NULL)
        return KV_OK;

    struct kv_core *core = db->core;
    size_t iterators = atomic_load(&core->iterators);
    size_t snapshots = atomic_load(&core->snapshots);
    size_t batches = atomic_load(&core->batches);
    if (iterators + snapshots + batches > 0)
        return kv_fail(status, KV_BUSY,
                       "database %s has %zu iterators, %zu snapshots and %zu batches open",
                       db->dir[0] == '\0' ? db->driver->name : db->dir, iterators, snapshots,
                       batches);

    kv_spaces_close(db);
    db->driver->close(db);
    core_free(core);
    free(db);
    return KV_OK;
}

const kv_driver *kv_db_driver(const kv_db *db)
{
    return db->driver;
}

const char *kv_db_dir(const kv_db *db)
{
    return db->dir;
}

/* ---- Handles that the core uses for itself ------------------------------- */

kv_batch *kv_driver_batch_open(kv_db *db, kv_status *status)
{
    kv_batch *batch = calloc(1, db->driver->batch_size);
    if (batch == NULL) {
        kv_fail(status, KV_NO_MEMORY, "no memory for a batch");
        return NULL;
    }
    batch->driver = db->driver;
    batch->db = db;
    kv_code code = db->driver->batch_open(batch, status);
    if (code != KV_OK) {
        kv_fail(status, code, "%s", kv_code_text(code));
        free(batch);
        return NULL;
    }
    return batch;
}

void kv_driver_batch_close(kv_batch *batch)
{
    if (batch == NULL)
        return;
    batch->driver->batch_close(batch);
    kv_ranges_free(batch->ranges);
    free(batch);
}

kv_iter *kv_driver_iter_open(kv_space *space, const kv_read *read, const kv_range *range,
                             kv_status *status)
{
    static const kv_read plain;
    const kv_driver *driver = space->db->driver;
    kv_iter *iter = calloc(1, driver->iter_size);
    if (iter == NULL) {
        kv_fail(status, KV_NO_MEMORY, "no memory for an iterator");
        return NULL;
    }
    iter->driver = driver;
    iter->space = space;
    iter->prefix_size = space->prefix_size;
    kv_code code = driver->iter_open(iter, read == NULL ? &plain : read, range, status);
    if (code != KV_OK) {
        kv_fail(status, code, "%s", kv_code_text(code));
        free(iter);
        return NULL;
    }
    return iter;
}

void kv_driver_iter_close(kv_iter *iter)
{
    if (iter == NULL)
        return;
    iter->driver->iter_close(iter);
    free(iter);
}
