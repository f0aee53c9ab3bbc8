/*
 * shadow.c - the shadow driver: a file for each record, written beside and renamed
 * over, and a tree of all of them in memory. For small sets of precious records.
 *
 * Reads, walks and snapshots are the tree's and touch no file. A write is drafted
 * in the tree, made durable in the files, and then published; every write is
 * synced. A change to several records goes through an intent, so that it is whole
 * after a crash. Files found damaged are put aside and remembered by name: asking
 * for such a record, or walking to an end of its database, says so.
 */
#include "drivers/drivers.h"
#include "drivers/shadow_file.h"
#include "drivers/tree.h"
#include "drivers/tree_iter.h"
#include "kv/folder.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct shadow_db {
    kv_db base;
    struct shadow_files files;
    struct tree *tree;
    pthread_rwlock_t lost_lock; /* guards what follows */
    struct shadow_name *lost;   /* of records put aside and not written since */
    size_t lost_count, lost_capacity;
};

struct shadow_space {
    kv_space base;
    uint32_t index;
};

struct shadow_snapshot {
    kv_snapshot base;
    struct tree_moment *moment;
};

/* One operation: where it belongs, and in which space, for the file. */
struct shadow_batch {
    kv_batch base;
    struct tree_ops ops;
    kv_space **spaces; /* one for each operation */
    size_t capacity;
};

/* The changes of one write, for the files. */
struct shadow_plan {
    struct shadow_change *changes;
    struct tree_record **records; /* keep the changes' keys alive */
    size_t count, capacity;
};

static struct shadow_db *self(kv_db *db)
{
    return (struct shadow_db *)db;
}

static uint32_t index_of(const kv_space *space)
{
    return ((const struct shadow_space *)space)->index;
}

static const struct tree_moment *moment_of(const kv_read *read)
{
    if (read == NULL || read->snapshot == NULL)
        return NULL;
    return ((const struct shadow_snapshot *)read->snapshot)->moment;
}

/* ---- Lost records ------------------------------------------------------------- */

static kv_code lost_add(struct shadow_db *db, const struct shadow_name *name, kv_status *status)
{
    if (db->lost_count == db->lost_capacity) {
        size_t capacity = db->lost_capacity == 0 ? 8 : 2 * db->lost_capacity;
        struct shadow_name *lost = realloc(db->lost, capacity * sizeof(*lost));
        if (lost == NULL)
            return kv_fail(status, KV_NO_MEMORY, "out of memory for the damaged records of %s",
                           db->base.dir);
        db->lost = lost;
        db->lost_capacity = capacity;
    }
    db->lost[db->lost_count++] = *name;
    return KV_OK;
}

/* The record was written or deleted: what it was does not matter any more. */
static void lost_forget(struct shadow_db *db, const struct shadow_name *name)
{
    pthread_rwlock_wrlock(&db->lost_lock);
    for (size_t i = 0; i < db->lost_count; i++) {
        if (strcmp(db->lost[i].text, name->text) != 0)
            continue;
        shadow_aside_remove(&db->files, name);
        db->lost[i] = db->lost[--db->lost_count];
        break;
    }
    pthread_rwlock_unlock(&db->lost_lock);
}

/* KV_NOT_FOUND, or KV_CORRUPT for a record that was there. */
static kv_code lost_check(kv_space *space, kv_slice key, kv_status *status)
{
    struct shadow_db *db = self(space->db);
    kv_code code = KV_NOT_FOUND;
    pthread_rwlock_rdlock(&db->lost_lock);
    if (db->lost_count > 0) {
        struct shadow_name name = shadow_name_of(space->name, key);
        for (size_t i = 0; i < db->lost_count && code == KV_NOT_FOUND; i++)
            if (strcmp(db->lost[i].text, name.text) == 0)
                code = kv_fail(status, KV_CORRUPT, "record damaged: its file is in %s/aside/%s",
                               db->base.dir, name.text);
    }
    pthread_rwlock_unlock(&db->lost_lock);
    return code;
}

/* A walk that comes to an end tells of the records it could not show. */
static bool lost_tell(kv_iter *iter, bool on)
{
    struct shadow_db *db = self(iter->space->db);
    if (on)
        return true;
    pthread_rwlock_rdlock(&db->lost_lock);
    if (db->lost_count > 0)
        kv_fail(&iter->status, KV_CORRUPT,
                "%zu damaged records are missing from the walk: see %s/aside, first %s",
                db->lost_count, db->base.dir, db->lost[0].text);
    pthread_rwlock_unlock(&db->lost_lock);
    return false;
}

/* ---- Opening ------------------------------------------------------------------- */

static kv_code space_index(struct shadow_db *db, const char *name, uint32_t *out,
                           kv_status *status)
{
    return tree_space_open(db->tree, name, KV_CREATE, out, status);
}

static kv_code load_put(struct shadow_db *db, const char *space, kv_slice key, kv_slice value,
                        kv_status *status)
{
    uint32_t index = 0;
    kv_code code = space_index(db, space, &index, status);
    if (code != KV_OK || key.size == 0)
        return code;
    struct tree_record *record = tree_record_new(key, value);
    if (record == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for the records of %s",
                       db->base.dir);
    code = tree_put(db->tree, index, record, status);
    if (code != KV_OK)
        tree_record_release(record);
    return code;
}

static kv_code load_record(void *context, const struct shadow_seen *seen, kv_status *status)
{
    struct shadow_db *db = context;
    if (seen->space == NULL)
        return lost_add(db, &seen->name, status);
    return load_put(db, seen->space, seen->key, seen->value, status);
}

/* What an interrupted change would do, where nothing may be written. */
static kv_code load_change(void *context, const struct shadow_change *change, kv_status *status)
{
    struct shadow_db *db = context;
    uint32_t index = 0;
    lost_forget(db, &change->name);
    if (change->put)
        return load_put(db, change->space, change->key, change->value, status);
    kv_code code = tree_space_open(db->tree, change->space, 0, &index, status);
    if (code == KV_OK && change->key.size > 0)
        code = tree_delete(db->tree, index, change->key, status);
    else if (code == KV_OK)
        code = tree_space_drop(db->tree, index, status);
    return code == KV_NOT_FOUND ? KV_OK : code;
}

static void shadow_close(kv_db *base)
{
    struct shadow_db *db = self(base);
    shadow_files_close(&db->files);
    tree_free(db->tree);
    pthread_rwlock_destroy(&db->lost_lock);
    free(db->lost);
}

static kv_code shadow_open(kv_db *base, const kv_options *options, kv_status *status)
{
    (void)options;
    struct shadow_db *db = self(base);
    kv_code code = shadow_files_open(&db->files, base->dir, base->flags, status);
    if (code != KV_OK)
        return code;
    pthread_rwlock_init(&db->lost_lock, NULL);
    code = tree_new(&db->tree, status);
    if (code == KV_OK && !db->files.read_only)
        code = shadow_intent_redo(&db->files, status);
    if (code == KV_OK)
        code = shadow_records_visit(&db->files, load_record, db, status);
    if (code == KV_OK && db->files.read_only) {
        code = shadow_intent_visit(&db->files, load_change, db, status);
        code = code == KV_NOT_FOUND ? KV_OK : code;
    }
    if (code != KV_OK)
        shadow_close(base);
    return code;
}

static bool shadow_recognise(const char *dir)
{
    struct shadow_files files;
    if (shadow_files_open(&files, dir, KV_OPEN_READ, NULL) != KV_OK)
        return false;
    shadow_files_close(&files);
    return true;
}

static kv_code pass_over(void *context, const struct shadow_seen *seen, kv_status *status)
{
    (void)context;
    (void)seen;
    (void)status;
    return KV_OK;
}

/* Damaged records may not have been put aside yet: who found them may only have read. */
static kv_code shadow_repair(const kv_options *options, kv_status *status)
{
    struct shadow_files files;
    kv_code code = shadow_files_open(&files, kv_options_dir(options), 0, status);
    if (code != KV_OK)
        return code;
    code = shadow_intent_redo(&files, NULL);
    if (code == KV_OK || code == KV_CORRUPT) {
        code = shadow_records_visit(&files, pass_over, NULL, status);
        if (code == KV_OK)
            code = shadow_aside_accept(&files, status);
    } else {
        code = kv_fail(status, code, "cannot finish the last change of %s", files.path);
    }
    shadow_files_close(&files);
    return code;
}

/* ---- Plans: what a write does to the files --------------------------------------- */

static void plan_free(struct shadow_plan *plan)
{
    for (size_t i = 0; i < plan->count && plan->records != NULL; i++)
        tree_record_release(plan->records[i]);
    free(plan->changes);
    free(plan->records);
}

static kv_code plan_grow(struct shadow_plan *plan, kv_status *status)
{
    if (plan->count < plan->capacity)
        return KV_OK;
    size_t capacity = plan->capacity == 0 ? 8 : 2 * plan->capacity;
    void *changes = realloc(plan->changes, capacity * sizeof(*plan->changes));
    if (changes != NULL)
        plan->changes = changes;
    void *records = realloc(plan->records, capacity * sizeof(struct tree_record *));
    if (records != NULL)
        plan->records = records;
    if (changes == NULL || records == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a change of %zu records",
                       capacity);
    plan->capacity = capacity;
    return KV_OK;
}

/* Add what becomes of a record, of which a reference is taken. */
static kv_code plan_add(struct shadow_plan *plan, const char *space, struct tree_record *record,
                        bool put, kv_status *status)
{
    kv_code code = plan_grow(plan, status);
    if (code != KV_OK)
        return code;
    assert(plan->changes != NULL && plan->records != NULL);
    kv_slice key = tree_record_key(record);
    plan->changes[plan->count] = (struct shadow_change){
        .name = shadow_name_of(space, key),
        .order = plan->count,
        .space = space,
        .key = key,
        .value = put ? tree_record_value(record) : kv_bytes(NULL, 0),
        .put = put,
    };
    plan->records[plan->count++] = tree_record_take(record);
    return KV_OK;
}

/* A record of that key alone, to delete by. */
static kv_code plan_delete(struct shadow_plan *plan, const char *space, kv_slice key,
                           kv_status *status)
{
    struct tree_record *record = tree_record_new(key, kv_bytes(NULL, 0));
    if (record == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a deletion");
    kv_code code = plan_add(plan, space, record, false, status);
    tree_record_release(record);
    return code;
}

/* Delete a range in the draft, one key after the other, and plan each. */
static kv_code draft_range(struct shadow_db *db, struct shadow_plan *plan, kv_space *space,
                           kv_slice first, kv_slice limit, kv_status *status)
{
    const struct tree_record *record;
    while ((record = tree_draft_seek(db->tree, index_of(space), first)) != NULL) {
        kv_slice key = tree_record_key(record);
        if (limit.size > 0 && kv_compare(key, limit) >= 0)
            break;
        kv_code code = plan_delete(plan, space->name, key, status);
        if (code == KV_OK)
            code = tree_draft_delete(db->tree, index_of(space), key, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

static kv_code draft_op(struct shadow_db *db, struct shadow_plan *plan, kv_space *space,
                        const struct tree_op *op, kv_status *status)
{
    kv_slice key = tree_record_key(op->record);
    if (op->kind == TREE_OP_DELETE_RANGE)
        return draft_range(db, plan, space, key, tree_record_value(op->record), status);
    bool put = op->kind == TREE_OP_PUT;
    kv_code code = plan_add(plan, space->name, op->record, put, status);
    if (code == KV_OK && put)
        code = tree_draft_put(db->tree, op->space, op->record, status);
    else if (code == KV_OK)
        code = tree_draft_delete(db->tree, op->space, key, status);
    return code;
}

/* Make the drafted change durable, then visible; or give it up for `code`. */
static kv_code draft_end(struct shadow_db *db, struct shadow_plan *plan, kv_code code,
                         kv_status *status)
{
    if (code == KV_OK && plan->count > 0)
        code = shadow_change(&db->files, plan->changes, plan->count, status);
    if (code == KV_OK)
        tree_draft_publish(db->tree);
    else
        tree_draft_abandon(db->tree);
    for (size_t i = 0; code == KV_OK && i < plan->count; i++)
        lost_forget(db, &plan->changes[i].name);
    plan_free(plan);
    return code;
}

/* ---- Spaces ---------------------------------------------------------------------- */

static kv_code shadow_space_open(kv_space *space, unsigned flags, kv_status *status)
{
    struct shadow_db *db = self(space->db);
    uint32_t *index = &((struct shadow_space *)space)->index;
    kv_code code = tree_space_open(db->tree, space->name, 0, index, status);
    if (code != KV_NOT_FOUND || (flags & KV_CREATE) == 0)
        return code;

    struct shadow_plan plan = { .count = 0 };
    struct tree_record *marker = tree_record_new(kv_bytes(NULL, 0), kv_bytes(NULL, 0));
    if (marker == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for space %s", space->name);
    code = plan_add(&plan, space->name, marker, true, status);
    if (code == KV_OK)
        code = shadow_change(&db->files, plan.changes, plan.count, status);
    if (code == KV_OK)
        code = space_index(db, space->name, index, status);
    tree_record_release(marker);
    plan_free(&plan);
    return code;
}

static void shadow_space_close(kv_space *space)
{
    (void)space;
}

static kv_code shadow_space_drop(kv_space *space, kv_status *status)
{
    struct shadow_db *db = self(space->db);
    struct shadow_plan plan = { .count = 0 };
    kv_slice none = kv_bytes(NULL, 0);
    kv_code code = tree_draft_begin(db->tree, status);
    if (code != KV_OK)
        return code;
    code = draft_range(db, &plan, space, none, none, status);
    if (code == KV_OK)
        code = plan_delete(&plan, space->name, none, status); /* its marker */
    code = draft_end(db, &plan, code, status);
    return code == KV_OK ? tree_space_drop(db->tree, index_of(space), status) : code;
}

static kv_code shadow_space_list(kv_db *db, bool (*visit)(void *context, const char *name),
                                 void *context, kv_status *status)
{
    return tree_space_list(self(db)->tree, visit, context, status);
}

/* ---- Reading ---------------------------------------------------------------------- */

static kv_code shadow_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                          kv_status *status)
{
    struct tree_record *record =
        tree_get(self(space->db)->tree, moment_of(read), index_of(space), key);
    if (record == NULL)
        return lost_check(space, key, status);
    tree_record_lend(record, out);
    return KV_OK;
}

static kv_code shadow_snapshot_take(kv_snapshot *snapshot, kv_status *status)
{
    struct tree_moment *moment = tree_moment_take(self(snapshot->db)->tree);
    ((struct shadow_snapshot *)snapshot)->moment = moment;
    if (moment == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a snapshot");
    return KV_OK;
}

static void shadow_snapshot_release(kv_snapshot *snapshot)
{
    tree_moment_release(self(snapshot->db)->tree, ((struct shadow_snapshot *)snapshot)->moment);
}

static kv_code shadow_iter_open(kv_iter *iter, const kv_read *read, const kv_range *range,
                                kv_status *status)
{
    return tree_iter_open((struct tree_iter *)iter, self(iter->space->db)->tree,
                          moment_of(read), index_of(iter->space), range, status);
}

static bool shadow_iter_first(kv_iter *iter)
{
    return lost_tell(iter, tree_iter_first(iter));
}

static bool shadow_iter_last(kv_iter *iter)
{
    return lost_tell(iter, tree_iter_last(iter));
}

static bool shadow_iter_seek(kv_iter *iter, kv_slice key)
{
    return lost_tell(iter, tree_iter_seek(iter, key));
}

static bool shadow_iter_seek_for_prev(kv_iter *iter, kv_slice key)
{
    return lost_tell(iter, tree_iter_seek_for_prev(iter, key));
}

static bool shadow_iter_next(kv_iter *iter)
{
    return lost_tell(iter, tree_iter_next(iter));
}

static bool shadow_iter_prev(kv_iter *iter)
{
    return lost_tell(iter, tree_iter_prev(iter));
}

/* ---- Writing ---------------------------------------------------------------------- */

static struct shadow_batch *batch_of(kv_batch *batch)
{
    return (struct shadow_batch *)batch;
}

static kv_code shadow_batch_open(kv_batch *batch, kv_status *status)
{
    (void)batch; /* zeroed is empty */
    (void)status;
    return KV_OK;
}

static void shadow_batch_close(kv_batch *base)
{
    struct shadow_batch *batch = batch_of(base);
    tree_ops_free(&batch->ops);
    free(batch->spaces);
}

static void batch_add(kv_batch *base, enum tree_op_kind kind, kv_space *space, kv_slice key,
                      kv_slice value)
{
    struct shadow_batch *batch = batch_of(base);
    size_t count = batch->ops.count;
    if (count == batch->capacity) {
        size_t capacity = count == 0 ? 8 : 2 * count;
        kv_space **spaces = realloc(batch->spaces, capacity * sizeof(kv_space *));
        if (spaces == NULL) {
            kv_fail(&base->status, KV_NO_MEMORY, "out of memory for a batch of %zu operations",
                    capacity);
            return;
        }
        batch->spaces = spaces;
        batch->capacity = capacity;
    }
    batch->spaces[count] = space;
    tree_ops_add(&batch->ops, kind, index_of(space), key, value, &base->status);
}

static void shadow_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    batch_add(batch, TREE_OP_PUT, space, key, value);
}

static void shadow_batch_delete(kv_batch *batch, kv_space *space, kv_slice key)
{
    batch_add(batch, TREE_OP_DELETE, space, key, kv_bytes(NULL, 0));
}

static void shadow_batch_delete_range(kv_batch *batch, kv_space *space, const kv_range *range)
{
    batch_add(batch, TREE_OP_DELETE_RANGE, space, range->first, range->limit);
}

static void shadow_batch_clear(kv_batch *batch)
{
    tree_ops_clear(&batch_of(batch)->ops);
}

static kv_code shadow_batch_commit(kv_batch *base, unsigned flags, kv_status *status)
{
    (void)flags; /* every write is synced */
    struct shadow_batch *batch = batch_of(base);
    struct shadow_db *db = self(base->db);
    struct shadow_plan plan = { .count = 0 };
    if (batch->ops.count == 0)
        return KV_OK;
    kv_code code = tree_draft_begin(db->tree, status);
    if (code != KV_OK)
        return code;
    for (size_t i = 0; i < batch->ops.count && code == KV_OK; i++)
        code = draft_op(db, &plan, batch->spaces[i], &batch->ops.items[i], status);
    return draft_end(db, &plan, code, status);
}

static kv_code shadow_sync(kv_db *db, kv_status *status)
{
    (void)db; /* every write was synced */
    (void)status;
    return KV_OK;
}

/* ---- Care -------------------------------------------------------------------------- */

static kv_code shadow_approximate_size(kv_space *space, const kv_range *range, uint64_t *out,
                                       kv_status *status)
{
    return tree_size(self(space->db)->tree, index_of(space), range, out, status);
}

static kv_code shadow_compact(kv_space *space, const kv_range *range, kv_status *status)
{
    (void)space; /* nothing deleted is kept */
    (void)range;
    (void)status;
    return KV_OK;
}

static kv_code shadow_stats(kv_db *base, void (*visit)(void *context, const kv_stat *stat),
                            void *context, kv_status *status)
{
    (void)status;
    struct shadow_db *db = self(base);
    struct tree_figures figures;
    tree_figures(db->tree, &figures);
    pthread_rwlock_rdlock(&db->lost_lock);
    const kv_stat stats[] = {
        { "keys_estimate", NULL, figures.keys },
        { "size_disk_bytes", NULL, kv_folder_size(base->dir) },
        { "size_memory_bytes", NULL, figures.bytes },
        { "shadow.records_aside", NULL, db->lost_count },
        { "shadow.first_aside", db->lost_count > 0 ? db->lost[0].text : "", 0 },
    };
    for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++)
        visit(context, &stats[i]);
    pthread_rwlock_unlock(&db->lost_lock);
    return KV_OK;
}

static const kv_option_spec shadow_options[] = {
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

const kv_driver shadow_driver = {
    .version = KV_DRIVER_VERSION,
    .caps = KV_CAP_DURABLE | KV_CAP_SPACES | KV_CAP_PINNED,
    .name = "shadow",
    .engine_version = "statekv shadow files 1",
    .options = shadow_options,
    .key_size_max = KV_KEY_SIZE_MAX,
    .value_size_max = KV_VALUE_SIZE_MAX,
    .db_size = sizeof(struct shadow_db),
    .space_size = sizeof(struct shadow_space),
    .snapshot_size = sizeof(struct shadow_snapshot),
    .iter_size = sizeof(struct tree_iter),
    .batch_size = sizeof(struct shadow_batch),
    .open = shadow_open,
    .close = shadow_close,
    .space_open = shadow_space_open,
    .space_close = shadow_space_close,
    .get = shadow_get,
    .snapshot_take = shadow_snapshot_take,
    .snapshot_release = shadow_snapshot_release,
    .iter_open = shadow_iter_open,
    .iter_close = tree_iter_close,
    .iter_first = shadow_iter_first,
    .iter_last = shadow_iter_last,
    .iter_seek = shadow_iter_seek,
    .iter_next = shadow_iter_next,
    .iter_prev = shadow_iter_prev,
    .batch_open = shadow_batch_open,
    .batch_close = shadow_batch_close,
    .batch_put = shadow_batch_put,
    .batch_delete = shadow_batch_delete,
    .batch_clear = shadow_batch_clear,
    .batch_commit = shadow_batch_commit,
    .iter_seek_for_prev = shadow_iter_seek_for_prev,
    .batch_delete_range = shadow_batch_delete_range,
    .sync = shadow_sync,
    .space_drop = shadow_space_drop,
    .space_list = shadow_space_list,
    .approximate_size = shadow_approximate_size,
    .compact = shadow_compact,
    .stats = shadow_stats,
    .repair = shadow_repair,
    .recognise = shadow_recognise,
};
