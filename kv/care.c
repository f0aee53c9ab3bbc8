/* care.c - looking after a database: sizes, compaction, figures, copies, repair. */
#include "kv/core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COPY_BATCH_SIZE = 1 << 20 /* bytes per batch of a checkpoint by copying */ };

kv_code kv_approximate_size(kv_space *space, const kv_range *range, uint64_t *out,
                            kv_status *status)
{
    *out = 0;
    const kv_driver *driver = space->db->driver;
    struct kv_full_range full;
    kv_code code = kv_full_range_init(&full, space, range, status);
    if (code != KV_OK)
        return code;
    if (driver->approximate_size == NULL)
        code = kv_fail(status, KV_UNSUPPORTED, "%s cannot tell sizes", driver->name);
    else
        code = driver->approximate_size(space, &full.range, out, status);
    kv_full_range_clear(&full);
    return code;
}

kv_code kv_compact(kv_space *space, const kv_range *range, kv_status *status)
{
    kv_db *db = space->db;
    kv_code code = kv_check_write(db, status);
    if (code != KV_OK || db->driver->compact == NULL)
        return code;

    struct kv_full_range full;
    code = kv_full_range_init(&full, space, range, status);
    if (code != KV_OK)
        return code;
    kv_status fault;
    kv_status_start(&fault);
    code = db->driver->compact(space, &full.range, &fault);
    kv_full_range_clear(&full);
    return code == KV_OK ? KV_OK : kv_write_failed(db, &fault, status);
}

/* ---- Figures ------------------------------------------------------------- */

/* The driver gives three figures, then its own; ours go between. */
enum { DRIVER_COMMON_STATS = 3 };

struct stats_walk {
    kv_db *db;
    void (*visit)(void *context, const kv_stat *stat);
    void *context;
    size_t seen;
    size_t space_count;
};

static void visit_number(const struct stats_walk *walk, const char *name, uint64_t number)
{
    const kv_stat stat = { name, NULL, number };
    walk->visit(walk->context, &stat);
}

static void visit_core_stats(const struct stats_walk *walk)
{
    const struct kv_core *core = walk->db->core;
    visit_number(walk, "live_iterators", atomic_load(&core->iterators));
    visit_number(walk, "live_snapshots", atomic_load(&core->snapshots));
    visit_number(walk, "live_batches", atomic_load(&core->batches));
    visit_number(walk, "spaces", walk->space_count);
}

static void visit_driver_stat(void *context, const kv_stat *stat)
{
    struct stats_walk *walk = context;
    walk->visit(walk->context, stat);
    if (++walk->seen == DRIVER_COMMON_STATS)
        visit_core_stats(walk);
}

static bool count_space(void *context, const char *name)
{
    (void)name;
    struct stats_walk *walk = context;
    walk->space_count++;
    return true;
}

kv_code kv_stats(kv_db *db, void (*visit)(void *context, const kv_stat *stat), void *context,
                 kv_status *status)
{
    struct stats_walk walk = { .db = db, .visit = visit, .context = context };
    kv_code code = kv_space_list(db, count_space, &walk, status);
    if (code != KV_OK)
        return code;
    if (db->driver->stats != NULL)
        return db->driver->stats(db, visit_driver_stat, &walk, status);

    visit_number(&walk, "keys_estimate", 0);
    visit_number(&walk, "size_disk_bytes", 0);
    visit_number(&walk, "size_memory_bytes", 0);
    visit_core_stats(&walk);
    return KV_OK;
}

/* ---- Copies -------------------------------------------------------------- */

struct copy {
    kv_db *from, *to;
    kv_read read; /* the snapshot */
    kv_batch *batch;
    kv_code code;
    kv_status *status;
};

static kv_code copy_pairs(const struct copy *copy, kv_iter *iter, kv_space *to)
{
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_batch_put(copy->batch, to, kv_iter_key(iter), kv_iter_value(iter));
        if (kv_batch_size(copy->batch) < COPY_BATCH_SIZE)
            continue;
        kv_code code = kv_batch_commit(copy->batch, 0, copy->status);
        if (code != KV_OK)
            return code;
    }
    kv_code code = kv_iter_status(iter, copy->status);
    return code == KV_OK ? kv_batch_commit(copy->batch, 0, copy->status) : code;
}

static bool copy_space(void *context, const char *name)
{
    struct copy *copy = context;
    kv_space *from, *to;
    kv_iter *iter = NULL;
    copy->code = kv_space_open(copy->from, name, 0, &from, copy->status);
    if (copy->code == KV_OK)
        copy->code = kv_space_open(copy->to, name, KV_CREATE, &to, copy->status);
    if (copy->code == KV_OK)
        copy->code = kv_iter_open(from, &copy->read, NULL, &iter, copy->status);
    if (copy->code == KV_OK)
        copy->code = copy_pairs(copy, iter, to);
    kv_iter_close(iter);
    return copy->code == KV_OK;
}

/* Write what a snapshot of `db` shows into a new database in `dir`. */
static kv_code copy_all(kv_db *db, const char *dir, kv_status *status)
{
    struct copy copy = { .from = db, .read = { .no_cache = true }, .status = status };
    kv_snapshot *snapshot = NULL;
    kv_options *options = NULL;
    kv_code code = kv_options_copy(db->core->options, dir, &options, status);
    if (code == KV_OK)
        code = kv_open(options, KV_CREATE, &copy.to, status);
    if (code == KV_OK)
        code = kv_batch_new(copy.to, &copy.batch, status);
    if (code == KV_OK)
        code = kv_snapshot_take(db, &snapshot, status);
    if (code == KV_OK) {
        copy.read.snapshot = snapshot;
        code = kv_space_list(db, copy_space, &copy, status);
    }
    if (code == KV_OK)
        code = copy.code;
    if (code == KV_OK)
        code = kv_sync(copy.to, status);
    kv_snapshot_release(snapshot);
    kv_batch_free(copy.batch);
    kv_code closed = kv_close(copy.to, status);
    kv_options_free(options);
    return code == KV_OK ? closed : code;
}

/* Give the finished copy its name, durably. */
static kv_code put_in_place(const char *from, const char *dir, kv_status *status)
{
    if (renameat2(-1, from, -1, dir, RENAME_NOREPLACE) != 0)
        return kv_fail(status, KV_IO, "cannot rename %s to %s: %s", from, dir, strerror(errno));

    char *parent = NULL;
    if (asprintf(&parent, "%s/..", dir) < 0)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", dir);
    kv_code code = kv_folder_sync(parent, status);
    free(parent);
    return code;
}

kv_code kv_checkpoint(kv_db *db, const char *dir, kv_status *status)
{
    if ((db->driver->caps & KV_CAP_DURABLE) == 0)
        return kv_fail(status, KV_UNSUPPORTED, "%s keeps nothing on disk to copy",
                       db->driver->name);
    struct stat info;
    size_t size = strlen(dir);
    while (size > 1 && dir[size - 1] == '/')
        size--;
    if (size == 0 || lstat(dir, &info) == 0)
        return kv_fail(status, KV_INVALID, "cannot copy to %s: it exists already", dir);

    char *target = strndup(dir, size), *partial = NULL;
    if (target == NULL || asprintf(&partial, "%s.partial", target) < 0) {
        free(target);
        return kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", dir);
    }
    kv_code code;
    bool ours = lstat(partial, &info) != 0;
    if (!ours)
        code = kv_fail(status, KV_INVALID,
                       "cannot copy to %s: an unfinished copy, %s, is there", dir, partial);
    else if (db->driver->checkpoint != NULL)
        code = db->driver->checkpoint(db, partial, status);
    else
        code = copy_all(db, partial, status);
    if (code == KV_OK && db->driver->checkpoint != NULL)
        code = kv_folder_mark(partial, db->driver, status);
    if (code == KV_OK)
        code = put_in_place(partial, target, status);
    if (code != KV_OK && ours)
        kv_folder_remove(partial);
    free(partial);
    free(target);
    return code;
}

kv_code kv_repair(const kv_options *options, kv_status *status)
{
    const kv_driver *driver = kv_driver_find(kv_options_backend(options));
    if (driver == NULL || driver->repair == NULL)
        return kv_fail(status, KV_UNSUPPORTED, "%s has no repair", kv_options_backend(options));

    struct kv_folder folder;
    kv_code code = kv_folder_open(&folder, kv_options_dir(options), driver, 0, status);
    if (code != KV_OK)
        return code;
    code = driver->repair(options, status);
    kv_folder_close(&folder);
    return code;
}
