/*
 * rocksdb.c - RocksDB behind kv/driver.h.
 *
 * A space is a column family of its name. RocksDB's own "default" family always
 * exists and cannot be dropped, so it stays empty and unseen: a space called
 * "default", or one beginning with '~', lives in a family with '~' before the
 * name.
 */
#include "drivers/drivers.h"
#include "drivers/engine_damage.h"
#include "drivers/engine_error.h"
#include "drivers/engine_handles.h"
#include "drivers/engine_log.h"
#include "drivers/rocksdb_options.h"
#include "drivers/rocksdb_order.h"
#include "kv/folder.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

struct rocks_family {
    char *name; /* of the space */
    rocksdb_column_family_handle_t *handle;
};

struct rocks_db {
    kv_db base;
    rocksdb_t *rocks;
    rocksdb_column_family_handle_t *unused; /* RocksDB's own "default" */
    struct rocks_settings settings;
    rocksdb_readoptions_t *reads[2]; /* by kv_read.no_cache */
    rocksdb_writeoptions_t *write, *write_sync;
    pthread_mutex_t mutex; /* guards families */
    struct rocks_family *families;
    size_t family_count;
    struct engine_damage damage;
};

struct rocks_space {
    kv_space base;
    rocksdb_column_family_handle_t *handle;
};

struct rocks_snapshot {
    kv_snapshot base;
    const rocksdb_snapshot_t *snapshot;
    rocksdb_readoptions_t *reads[2];
};

struct rocks_iter {
    kv_iter base;
    rocksdb_iterator_t *cursor;
    rocksdb_readoptions_t *read; /* holds the bounds below by address */
    char *bounds;
};

/* A batch whose keys ascend but for an eighth at most is written as one in order. */
enum { ORDER_HEAD_SIZE = 24, ORDER_ASCENTS_MIN = 32 };

struct rocks_batch {
    kv_batch base;
    rocksdb_writebatch_t *writes;
    unsigned char head[ORDER_HEAD_SIZE]; /* how the last key begins */
    size_t ascents;                      /* keys that begin greater than the one before */
    bool ranges;                         /* it removes ranges */
};

static struct rocks_db *rocks_db_of(kv_db *db)
{
    return (struct rocks_db *)db;
}

static struct rocks_space *rocks_space_of(kv_space *space)
{
    return (struct rocks_space *)space;
}

rocksdb_t *rocks_engine_of(kv_db *db)
{
    return rocks_db_of(db)->rocks;
}

rocksdb_column_family_handle_t *rocks_family_of(kv_space *space)
{
    return rocks_space_of(space)->handle;
}

static struct rocks_iter *rocks_iter_of(kv_iter *iter)
{
    return (struct rocks_iter *)iter;
}

static struct rocks_batch *rocks_batch_of(kv_batch *batch)
{
    return (struct rocks_batch *)batch;
}

/* Record RocksDB's error, if there is one, and free it. Damage that it places in no
 * table or log may still be in a table: then, for who wants to know, we say in which. */
static kv_code settle(kv_db *db, char *error, kv_status *status)
{
    if (error == NULL)
        return KV_OK;
    const char *table = NULL;
    bool wanted = status != NULL && status->code == KV_OK;
    if (wanted && engine_error_code(rocksdb_errors, error) == KV_CORRUPT &&
        strstr(error, ".sst") == NULL && strstr(error, ".log") == NULL)
        table = engine_damage_find(&rocks_db_of(db)->damage, db->dir, rocks_table_is_damaged);
    kv_code code = engine_fail(status, rocksdb_errors, db->dir, table, error);
    rocksdb_free(error);
    return code;
}

/* The same after opening, where the logs had a record of which the engine may tell, and
 * not always in which file. */
static kv_code settle_open(kv_db *db, char *error, const kv_status *suspect, kv_status *status)
{
    if (error != NULL && suspect->code != KV_OK &&
        engine_error_code(rocksdb_errors, error) == suspect->code)
        kv_fail(status, suspect->code, "%s", suspect->message);
    return settle(db, error, status);
}

static rocksdb_readoptions_t *read_options_new(const rocksdb_snapshot_t *snapshot,
                                               bool no_cache)
{
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(read, !no_cache);
    if (snapshot != NULL)
        rocksdb_readoptions_set_snapshot(read, snapshot);
    return read;
}

/* Blocks are verified whenever they come from disk, so kv_read.verify asks for
 * nothing more. */
static const rocksdb_readoptions_t *read_options(kv_db *db, const kv_read *read)
{
    if (read->snapshot != NULL)
        return ((const struct rocks_snapshot *)read->snapshot)->reads[read->no_cache];
    return rocks_db_of(db)->reads[read->no_cache];
}

/* A key above every key: where a range has no end and RocksDB wants one. */
static kv_slice top_key(void)
{
    static unsigned char bytes[KV_KEY_SIZE_MAX + 1];
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (bytes[0] == 0)
        memset(bytes, 0xff, sizeof(bytes));
    pthread_mutex_unlock(&mutex);
    return kv_bytes(bytes, sizeof(bytes));
}

/* ---- Opening ------------------------------------------------------------- */

static bool family_add(struct rocks_db *self, const char *space,
                       rocksdb_column_family_handle_t *handle)
{
    struct rocks_family *families =
        realloc(self->families, (self->family_count + 1) * sizeof(*families));
    if (families != NULL)
        self->families = families;
    char *name = strdup(space);
    if (families == NULL || name == NULL) {
        free(name);
        return false;
    }
    self->families[self->family_count++] = (struct rocks_family){ name, handle };
    return true;
}

/* The family's name for a space: "~" before "default" and before "~...". */
static void family_name(const char *space, char name[KV_SPACE_NAME_SIZE_MAX + 2])
{
    bool escaped = space[0] == '~' || strcmp(space, "default") == 0;
    name[0] = '~';
    memcpy(name + escaped, space, strlen(space) + 1); /* the core checked its length */
}

/* Every handle must be kept or destroyed, or the engine aborts as it closes. */
static kv_code adopt_families(struct rocks_db *self, char **names,
                              rocksdb_column_family_handle_t **handles, size_t count,
                              kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "default") == 0)
            self->unused = handles[i];
        else if (code != KV_OK ||
                 !family_add(self, names[i] + (names[i][0] == '~'), handles[i])) {
            rocksdb_column_family_handle_destroy(handles[i]);
            code =
                kv_fail(status, KV_NO_MEMORY, "no memory for the spaces of %s", self->base.dir);
        }
    }
    return code;
}

static kv_code open_families(struct rocks_db *self, char **names, size_t count,
                             const kv_status *suspect, kv_status *status)
{
    const rocksdb_options_t *options = self->settings.options;
    const rocksdb_options_t **each = calloc(count, sizeof(*each));
    rocksdb_column_family_handle_t **handles = calloc(count, sizeof(*handles));
    const char *const *family_names = (const char *const *)names;
    kv_code code = KV_NO_MEMORY;
    char *error = NULL;
    if (each == NULL || handles == NULL) {
        kv_fail(status, code, "no memory to open %s", self->base.dir);
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        each[i] = options;

    if ((self->base.flags & KV_OPEN_READ) != 0)
        self->rocks = rocksdb_open_for_read_only_column_families(
            options, self->base.dir, (int)count, family_names, each, handles, 0, &error);
    else
        self->rocks = rocksdb_open_column_families(options, self->base.dir, (int)count,
                                                   family_names, each, handles, &error);
    code = settle_open(&self->base, error, suspect, status);
    if (code == KV_OK)
        code = adopt_families(self, names, handles, count, status);
out:
    free(handles);
    free(each);
    return code;
}

static void rocks_close(kv_db *db)
{
    struct rocks_db *self = rocks_db_of(db);
    for (size_t i = 0; i < self->family_count; i++) {
        rocksdb_column_family_handle_destroy(self->families[i].handle);
        free(self->families[i].name);
    }
    free(self->families);
    if (self->unused != NULL)
        rocksdb_column_family_handle_destroy(self->unused);
    if (self->rocks != NULL)
        rocksdb_close(self->rocks);
    for (size_t i = 0; i < 2; i++)
        if (self->reads[i] != NULL)
            rocksdb_readoptions_destroy(self->reads[i]);
    if (self->write != NULL)
        rocksdb_writeoptions_destroy(self->write);
    if (self->write_sync != NULL)
        rocksdb_writeoptions_destroy(self->write_sync);
    rocks_settings_clear(&self->settings);
    pthread_mutex_destroy(&self->mutex);
}

static kv_code rocks_open(kv_db *db, const kv_options *options, kv_status *status)
{
    struct rocks_db *self = rocks_db_of(db);
    bool fresh = (db->flags & KV_CREATE) != 0;
    kv_status suspect = KV_STATUS_INIT;
    pthread_mutex_init(&self->mutex, NULL);
    kv_code code = rocks_settings_init(&self->settings, options, status);
    if (code == KV_OK)
        code = engine_logs_check(db->dir, &suspect, status);
    if (code != KV_OK)
        goto out;
    self->reads[0] = read_options_new(NULL, false);
    self->reads[1] = read_options_new(NULL, true);
    self->write = rocksdb_writeoptions_create();
    self->write_sync = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(self->write_sync, 1);

    rocksdb_options_set_create_if_missing(self->settings.options, fresh);
    if (fresh && !kv_folder_has(db->dir, "CURRENT")) { /* or cut short before that */
        char only[] = "default", *names[] = { only };
        code = open_families(self, names, 1, &suspect, status);
    } else {
        char *error = NULL;
        size_t count = 0;
        char **names =
            rocksdb_list_column_families(self->settings.options, db->dir, &count, &error);
        code = settle_open(db, error, &suspect, status);
        if (code == KV_OK)
            code = open_families(self, names, count, &suspect, status);
        rocksdb_list_column_families_destroy(names, count);
    }
out:
    if (code != KV_OK)
        rocks_close(db);
    return code;
}

/* ---- Spaces -------------------------------------------------------------- */

static kv_code rocks_space_open(kv_space *space, unsigned flags, kv_status *status)
{
    struct rocks_db *self = rocks_db_of(space->db);
    struct rocks_space *own = rocks_space_of(space);
    kv_code code = KV_NOT_FOUND;
    pthread_mutex_lock(&self->mutex);
    for (size_t i = 0; i < self->family_count; i++) {
        if (strcmp(self->families[i].name, space->name) == 0) {
            own->handle = self->families[i].handle;
            code = KV_OK;
        }
    }
    if (code == KV_NOT_FOUND && (flags & KV_CREATE) != 0) {
        char name[KV_SPACE_NAME_SIZE_MAX + 2], *error = NULL;
        family_name(space->name, name);
        own->handle =
            rocksdb_create_column_family(self->rocks, self->settings.options, name, &error);
        code = settle(space->db, error, status);
        if (code == KV_OK && !family_add(self, space->name, own->handle)) {
            rocksdb_column_family_handle_destroy(own->handle);
            code = kv_fail(status, KV_NO_MEMORY, "no memory for the space %s", space->name);
        }
    }
    pthread_mutex_unlock(&self->mutex);
    return code;
}

static void rocks_space_close(kv_space *space)
{
    (void)space; /* the handle lasts as long as the database */
}

static kv_code rocks_space_drop(kv_space *space, kv_status *status)
{
    struct rocks_db *self = rocks_db_of(space->db);
    rocksdb_column_family_handle_t *handle = rocks_space_of(space)->handle;
    char *error = NULL;
    rocksdb_drop_column_family(self->rocks, handle, &error);
    kv_code code = settle(space->db, error, status);
    if (code != KV_OK)
        return code;

    pthread_mutex_lock(&self->mutex);
    size_t i = 0;
    while (self->families[i].handle != handle)
        i++;
    free(self->families[i].name);
    self->families[i] = self->families[--self->family_count];
    pthread_mutex_unlock(&self->mutex);
    rocksdb_column_family_handle_destroy(handle);
    return KV_OK;
}

static kv_code rocks_space_list(kv_db *db, bool (*visit)(void *context, const char *name),
                                void *context, kv_status *status)
{
    (void)status;
    struct rocks_db *self = rocks_db_of(db);
    pthread_mutex_lock(&self->mutex);
    for (size_t i = 0; i < self->family_count; i++)
        if (!visit(context, self->families[i].name))
            break;
    pthread_mutex_unlock(&self->mutex);
    return KV_OK;
}

/* ---- Reading ------------------------------------------------------------- */

static void release_pinned(kv_value *value)
{
    rocksdb_pinnableslice_destroy(value->owner);
}

static void lend(rocksdb_pinnableslice_t *pinned, kv_value *out)
{
    out->bytes.data = rocksdb_pinnableslice_value(pinned, &out->bytes.size);
    out->owner = pinned;
    out->release = release_pinned;
}

static kv_code rocks_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                         kv_status *status)
{
    char *error = NULL;
    rocksdb_pinnableslice_t *pinned =
        rocksdb_get_pinned_cf(rocks_db_of(space->db)->rocks, read_options(space->db, read),
                              rocks_space_of(space)->handle, key.data, key.size, &error);
    if (pinned != NULL) {
        lend(pinned, out);
        return KV_OK;
    }
    return error == NULL ? KV_NOT_FOUND : settle(space->db, error, status);
}

static kv_code rocks_get_many(kv_space *space, const kv_read *read, size_t count,
                              const kv_slice *keys, kv_value *out, kv_code *codes,
                              kv_status *status)
{
    /* four arrays in one piece */
    void *memory = malloc(
        count * (sizeof(rocksdb_pinnableslice_t *) + 2 * sizeof(char *) + sizeof(size_t)));
    if (memory == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to get %zu keys", count);
    const char **data = memory;
    size_t *sizes = (size_t *)(data + count);
    rocksdb_pinnableslice_t **pinned = (rocksdb_pinnableslice_t **)(sizes + count);
    char **errors = (char **)(pinned + count);
    for (size_t i = 0; i < count; i++) {
        data[i] = keys[i].data;
        sizes[i] = keys[i].size;
    }

    rocksdb_batched_multi_get_cf(rocks_db_of(space->db)->rocks, read_options(space->db, read),
                                 rocks_space_of(space)->handle, count, data, sizes, pinned,
                                 errors, false);
    kv_code first = KV_OK;
    for (size_t i = 0; i < count; i++) {
        codes[i] = KV_OK;
        if (pinned[i] != NULL)
            lend(pinned[i], &out[i]);
        else if (errors[i] == NULL)
            codes[i] = KV_NOT_FOUND;
        else
            codes[i] = settle(space->db, errors[i], status);
        if (codes[i] != KV_NOT_FOUND && first == KV_OK)
            first = codes[i];
    }
    free(memory);
    return first;
}

static kv_code rocks_snapshot_take(kv_snapshot *snapshot, kv_status *status)
{
    (void)status;
    struct rocks_snapshot *self = (struct rocks_snapshot *)snapshot;
    self->snapshot = rocksdb_create_snapshot(rocks_db_of(snapshot->db)->rocks);
    self->reads[0] = read_options_new(self->snapshot, false);
    self->reads[1] = read_options_new(self->snapshot, true);
    return KV_OK;
}

static void rocks_snapshot_release(kv_snapshot *snapshot)
{
    struct rocks_snapshot *self = (struct rocks_snapshot *)snapshot;
    rocksdb_readoptions_destroy(self->reads[0]);
    rocksdb_readoptions_destroy(self->reads[1]);
    rocksdb_release_snapshot(rocks_db_of(snapshot->db)->rocks, self->snapshot);
}

/* ---- Iterators ----------------------------------------------------------- */

static kv_code rocks_iter_open(kv_iter *iter, const kv_read *read, const kv_range *range,
                               kv_status *status)
{
    struct rocks_iter *self = rocks_iter_of(iter);
    size_t first_size = range->first.size, limit_size = range->limit.size;
    if (first_size + limit_size > 0) {
        self->bounds = malloc(first_size + limit_size);
        if (self->bounds == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for an iterator's bounds");
    }
    const rocksdb_snapshot_t *snapshot =
        read->snapshot == NULL ? NULL
                               : ((const struct rocks_snapshot *)read->snapshot)->snapshot;
    self->read = read_options_new(snapshot, read->no_cache);
    if (first_size > 0) {
        memcpy(self->bounds, range->first.data, first_size);
        rocksdb_readoptions_set_iterate_lower_bound(self->read, self->bounds, first_size);
    }
    if (limit_size > 0) {
        char *limit = self->bounds + first_size;
        memcpy(limit, range->limit.data, limit_size);
        rocksdb_readoptions_set_iterate_upper_bound(self->read, limit, limit_size);
    }
    self->cursor = rocksdb_create_iterator_cf(rocks_db_of(iter->space->db)->rocks, self->read,
                                              rocks_space_of(iter->space)->handle);
    return KV_OK;
}

static void rocks_iter_close(kv_iter *iter)
{
    struct rocks_iter *self = rocks_iter_of(iter);
    rocksdb_iter_destroy(self->cursor);
    rocksdb_readoptions_destroy(self->read);
    free(self->bounds);
}

/* Off an entry: the end, or a fault? */
static bool leave(struct rocks_iter *self)
{
    char *error = NULL;
    rocksdb_iter_get_error(self->cursor, &error);
    if (settle(self->base.space->db, error, &self->base.status) != KV_OK) {
        /* recorded: kv_iter_status tells */
    }
    return false;
}

static inline bool land(struct rocks_iter *self)
{
    if (!rocksdb_iter_valid(self->cursor))
        return leave(self);
    self->base.key.data = rocksdb_iter_key(self->cursor, &self->base.key.size);
    self->base.value.data = rocksdb_iter_value(self->cursor, &self->base.value.size);
    return true;
}

static bool rocks_iter_first(kv_iter *iter)
{
    rocksdb_iter_seek_to_first(rocks_iter_of(iter)->cursor);
    return land(rocks_iter_of(iter));
}

static bool rocks_iter_last(kv_iter *iter)
{
    rocksdb_iter_seek_to_last(rocks_iter_of(iter)->cursor);
    return land(rocks_iter_of(iter));
}

static bool rocks_iter_seek(kv_iter *iter, kv_slice key)
{
    rocksdb_iter_seek(rocks_iter_of(iter)->cursor, key.data, key.size);
    return land(rocks_iter_of(iter));
}

static bool rocks_iter_seek_for_prev(kv_iter *iter, kv_slice key)
{
    rocksdb_iter_seek_for_prev(rocks_iter_of(iter)->cursor, key.data, key.size);
    return land(rocks_iter_of(iter));
}

static bool rocks_iter_next(kv_iter *iter)
{
    rocksdb_iter_next(rocks_iter_of(iter)->cursor);
    return land(rocks_iter_of(iter));
}

static bool rocks_iter_prev(kv_iter *iter)
{
    rocksdb_iter_prev(rocks_iter_of(iter)->cursor);
    return land(rocks_iter_of(iter));
}

/* ---- Writing ------------------------------------------------------------- */

static rocksdb_writeoptions_t *write_options(struct rocks_db *self, unsigned flags)
{
    return (flags & KV_SYNC) != 0 ? self->write_sync : self->write;
}

static kv_code rocks_put(kv_space *space, kv_slice key, kv_slice value, unsigned flags,
                         kv_status *status)
{
    struct rocks_db *self = rocks_db_of(space->db);
    char *error = NULL;
    rocksdb_put_cf(self->rocks, write_options(self, flags), rocks_space_of(space)->handle,
                   key.data, key.size, value.data, value.size, &error);
    return settle(space->db, error, status);
}

static kv_code rocks_delete(kv_space *space, kv_slice key, unsigned flags, kv_status *status)
{
    struct rocks_db *self = rocks_db_of(space->db);
    char *error = NULL;
    rocksdb_delete_cf(self->rocks, write_options(self, flags), rocks_space_of(space)->handle,
                      key.data, key.size, &error);
    return settle(space->db, error, status);
}

static kv_code rocks_batch_open(kv_batch *batch, kv_status *status)
{
    (void)status;
    rocks_batch_of(batch)->writes = rocksdb_writebatch_create();
    return KV_OK;
}

static void rocks_batch_close(kv_batch *batch)
{
    rocksdb_writebatch_destroy(rocks_batch_of(batch)->writes);
}

static void note_order(kv_batch *batch, kv_slice key)
{
    struct rocks_batch *self = rocks_batch_of(batch);
    unsigned char head[ORDER_HEAD_SIZE] = { 0 };
    memcpy(head, key.data, key.size < sizeof(head) ? key.size : sizeof(head));
    self->ascents += memcmp(head, self->head, sizeof(head)) > 0;
    memcpy(self->head, head, sizeof(head));
}

static void rocks_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    note_order(batch, key);
    rocksdb_writebatch_put_cf(rocks_batch_of(batch)->writes, rocks_space_of(space)->handle,
                              key.data, key.size, value.data, value.size);
}

static void rocks_batch_delete(kv_batch *batch, kv_space *space, kv_slice key)
{
    note_order(batch, key);
    rocksdb_writebatch_delete_cf(rocks_batch_of(batch)->writes, rocks_space_of(space)->handle,
                                 key.data, key.size);
}

static void rocks_batch_delete_range(kv_batch *batch, kv_space *space, const kv_range *range)
{
    kv_slice first = range->first;
    kv_slice limit = range->limit.size > 0 ? range->limit : top_key();
    rocks_batch_of(batch)->ranges = true;
    rocksdb_writebatch_delete_range_cf(
        rocks_batch_of(batch)->writes, rocks_space_of(space)->handle,
        first.size > 0 ? first.data : "", first.size, limit.data, limit.size);
}

static void rocks_batch_clear(kv_batch *batch)
{
    rocksdb_writebatch_clear(rocks_batch_of(batch)->writes);
    rocks_batch_of(batch)->ascents = 0;
    rocks_batch_of(batch)->ranges = false;
}

static kv_code rocks_batch_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    struct rocks_db *self = rocks_db_of(batch->db);
    char *error = NULL;
    size_t ascents = rocks_batch_of(batch)->ascents;
    /* RocksDB keeps removed ranges in a list of their own, but one place for both lists:
     * a range put in from a place in the other list breaks both. */
    rocks_order_set(!rocks_batch_of(batch)->ranges && ascents >= ORDER_ASCENTS_MIN &&
                    ascents >= batch->count / 8 * 7);
    rocksdb_write(self->rocks, write_options(self, flags), rocks_batch_of(batch)->writes,
                  &error);
    rocks_order_set(false);
    return settle(batch->db, error, status);
}

static kv_code rocks_sync(kv_db *db, kv_status *status)
{
    char *error = NULL;
    rocksdb_flush_wal(rocks_db_of(db)->rocks, 1, &error);
    return settle(db, error, status);
}

/* ---- Looking after ------------------------------------------------------- */

static kv_code rocks_approximate_size(kv_space *space, const kv_range *range, uint64_t *out,
                                      kv_status *status)
{
    kv_slice limit = range->limit.size > 0 ? range->limit : top_key();
    const char *first_data = range->first.size > 0 ? range->first.data : "";
    const char *limit_data = limit.data;
    char *error = NULL;
    rocksdb_approximate_sizes_cf(rocks_db_of(space->db)->rocks, rocks_space_of(space)->handle,
                                 1, &first_data, &range->first.size, &limit_data, &limit.size,
                                 out, &error);
    return settle(space->db, error, status);
}

static kv_code rocks_compact(kv_space *space, const kv_range *range, kv_status *status)
{
    (void)status; /* a failed compaction shows at the next write or read */
    const char *first = range->first.size > 0 ? range->first.data : NULL;
    const char *limit = range->limit.size > 0 ? range->limit.data : NULL;
    rocksdb_compact_range_cf(rocks_db_of(space->db)->rocks, rocks_space_of(space)->handle,
                             first, range->first.size, limit, range->limit.size);
    return KV_OK;
}

/* The sum of a property over all families. */
static uint64_t sum_property(struct rocks_db *self, const char *property)
{
    uint64_t sum = 0, number;
    pthread_mutex_lock(&self->mutex);
    for (size_t i = 0; i < self->family_count; i++)
        if (rocksdb_property_int_cf(self->rocks, self->families[i].handle, property, &number) ==
            0)
            sum += number;
    pthread_mutex_unlock(&self->mutex);
    return sum;
}

static kv_code rocks_stats(kv_db *db, void (*visit)(void *context, const kv_stat *stat),
                           void *context, kv_status *status)
{
    (void)status;
    struct rocks_db *self = rocks_db_of(db);
    const struct {
        const char *name, *property;
    } own[] = {
        { "rocksdb.memtables_bytes", "rocksdb.cur-size-all-mem-tables" },
        { "rocksdb.table_readers_bytes", "rocksdb.estimate-table-readers-mem" },
        { "rocksdb.tables_bytes", "rocksdb.total-sst-files-size" },
        { "rocksdb.live_data_bytes", "rocksdb.estimate-live-data-size" },
        { "rocksdb.level0_tables", "rocksdb.num-files-at-level0" },
        { "rocksdb.compactions_pending", "rocksdb.compaction-pending" },
        { "rocksdb.compaction_pending_bytes", "rocksdb.estimate-pending-compaction-bytes" },
        { "rocksdb.flushes_pending", "rocksdb.mem-table-flush-pending" },
        { "rocksdb.background_errors", "rocksdb.background-errors" },
    };
    size_t cached = rocksdb_cache_get_usage(self->settings.cache);
    uint64_t memory =
        cached + sum_property(self, own[0].property) + sum_property(self, own[1].property);
    const kv_stat common[] = {
        { "keys_estimate", NULL, sum_property(self, "rocksdb.estimate-num-keys") },
        { "size_disk_bytes", NULL, kv_folder_size(db->dir) },
        { "size_memory_bytes", NULL, memory },
        { "rocksdb.block_cache_bytes", NULL, cached },
        { "rocksdb.block_cache_pinned_bytes", NULL,
          rocksdb_cache_get_pinned_usage(self->settings.cache) },
    };
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        visit(context, &common[i]);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        const kv_stat stat = { own[i].name, NULL, sum_property(self, own[i].property) };
        visit(context, &stat);
    }
    char *text = rocksdb_property_value(self->rocks, "rocksdb.dbstats");
    if (text != NULL) {
        const kv_stat stat = { "rocksdb.dbstats", text, 0 };
        visit(context, &stat);
        rocksdb_free(text);
    }
    return KV_OK;
}

static kv_code rocks_checkpoint(kv_db *db, const char *dir, kv_status *status)
{
    char *error = NULL;
    rocksdb_checkpoint_t *maker =
        rocksdb_checkpoint_object_create(rocks_db_of(db)->rocks, &error);
    if (error == NULL) {
        rocksdb_checkpoint_create(maker, dir, 0, &error);
        rocksdb_checkpoint_object_destroy(maker);
    }
    return settle(db, error, status);
}

static bool rocks_recognise(const char *dir)
{
    /* OPTIONS files are RocksDB's alone, IDENTITY is written before CURRENT */
    return kv_folder_has(dir, "OPTIONS-") || kv_folder_has(dir, "IDENTITY");
}

const kv_driver rocksdb_driver = {
    .version = KV_DRIVER_VERSION,
    .caps = KV_CAP_DURABLE | KV_CAP_SPACES | KV_CAP_PINNED | KV_CAP_VERIFY,
    .name = "rocksdb",
    .engine_version = ROCKS_VERSION,
    .options = rocks_option_specs,
    .key_size_max = KV_KEY_SIZE_MAX,
    .value_size_max = KV_VALUE_SIZE_MAX,
    .db_size = sizeof(struct rocks_db),
    .space_size = sizeof(struct rocks_space),
    .snapshot_size = sizeof(struct rocks_snapshot),
    .iter_size = sizeof(struct rocks_iter),
    .batch_size = sizeof(struct rocks_batch),
    .open = rocks_open,
    .close = rocks_close,
    .space_open = rocks_space_open,
    .space_close = rocks_space_close,
    .get = rocks_get,
    .snapshot_take = rocks_snapshot_take,
    .snapshot_release = rocks_snapshot_release,
    .iter_open = rocks_iter_open,
    .iter_close = rocks_iter_close,
    .iter_first = rocks_iter_first,
    .iter_last = rocks_iter_last,
    .iter_seek = rocks_iter_seek,
    .iter_next = rocks_iter_next,
    .iter_prev = rocks_iter_prev,
    .batch_open = rocks_batch_open,
    .batch_close = rocks_batch_close,
    .batch_put = rocks_batch_put,
    .batch_delete = rocks_batch_delete,
    .batch_clear = rocks_batch_clear,
    .batch_commit = rocks_batch_commit,
    .put = rocks_put,
    .del = rocks_delete,
    .get_many = rocks_get_many,
    .iter_seek_for_prev = rocks_iter_seek_for_prev,
    .batch_delete_range = rocks_batch_delete_range,
    .sync = rocks_sync,
    .space_drop = rocks_space_drop,
    .space_list = rocks_space_list,
    .approximate_size = rocks_approximate_size,
    .compact = rocks_compact,
    .stats = rocks_stats,
    .checkpoint = rocks_checkpoint,
    .recognise = rocks_recognise,
};
