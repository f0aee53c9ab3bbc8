/* shim.c - a driver around any other, whose calls fail when told to. */
#include "test/fault/shim.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHIMS_MAX = 8 };

/* The table the core sees, and whom it stands before. */
struct shim_driver {
    kv_driver table;
    const kv_driver *inner;
    char name[32];
};

struct shim_db {
    kv_db base;
    kv_db *inner;
    kv_space *plain; /* for drivers without native spaces */
};

struct shim_space {
    kv_space base;
    kv_space *inner;
};

struct shim_snapshot {
    kv_snapshot base;
    kv_snapshot *inner;
};

struct shim_iter {
    kv_iter base;
    kv_iter *inner;
};

struct shim_batch {
    kv_batch base;
    kv_batch *inner;
};

/* ---- Faults -------------------------------------------------------------------- */

static atomic_ulong calls, chosen;
static atomic_int chosen_code;
static atomic_bool chosen_stays;

void fault_shim_fail(unsigned long nth, kv_code code, bool stay)
{
    atomic_store(&chosen_code, (int)code);
    atomic_store(&chosen_stays, stay);
    atomic_store(&calls, 0);
    atomic_store(&chosen, nth);
}

unsigned long fault_shim_calls(void)
{
    return atomic_load(&calls);
}

/* KV_OK, or the fault that this call is to answer. */
static kv_code fault(const char *call, kv_status *status)
{
    unsigned long number = atomic_fetch_add(&calls, 1) + 1;
    unsigned long wanted = atomic_load(&chosen);
    if (wanted == 0 || number < wanted || (number > wanted && !atomic_load(&chosen_stays)))
        return KV_OK;
    return kv_fail(status, (kv_code)atomic_load(&chosen_code), "injected at call %lu, %s",
                   number, call);
}

/* ---- Handles ------------------------------------------------------------------- */

static const kv_driver *inner_of(const kv_driver *driver)
{
    return ((const struct shim_driver *)driver)->inner;
}

static struct shim_db *db_of(const kv_space *space)
{
    return (struct shim_db *)space->db;
}

static kv_space *space_of(kv_space *space)
{
    struct shim_db *db = db_of(space);
    return db->plain != NULL ? db->plain : ((struct shim_space *)space)->inner;
}

/* `read` with the inner snapshot in it. */
static kv_read read_of(const kv_read *read)
{
    kv_read inner = { .snapshot = NULL };
    if (read != NULL)
        inner = *read;
    if (inner.snapshot != NULL)
        inner.snapshot = ((const struct shim_snapshot *)inner.snapshot)->inner;
    return inner;
}

static void *handle_new(size_t size)
{
    void *handle = calloc(1, size);
    if (handle == NULL)
        abort();
    return handle;
}

static kv_code shim_open(kv_db *base, const kv_options *options, kv_status *status)
{
    struct shim_db *db = (struct shim_db *)base;
    const kv_driver *inner = inner_of(base->driver);
    kv_code code = fault("open", status);
    if (code != KV_OK)
        return code;
    db->inner = handle_new(inner->db_size);
    *db->inner = *base;
    db->inner->driver = inner;
    code = inner->open(db->inner, options, status);
    if (code != KV_OK) {
        free(db->inner);
        return code;
    }
    if ((inner->caps & KV_CAP_SPACES) == 0) {
        db->plain = handle_new(inner->space_size);
        db->plain->db = db->inner;
        db->plain->name = "";
    }
    return KV_OK;
}

static void shim_close(kv_db *base)
{
    struct shim_db *db = (struct shim_db *)base;
    inner_of(base->driver)->close(db->inner);
    free(db->plain);
    free(db->inner);
}

static kv_code shim_space_open(kv_space *base, unsigned flags, kv_status *status)
{
    struct shim_space *space = (struct shim_space *)base;
    const kv_driver *inner = inner_of(base->db->driver);
    kv_code code = fault("space_open", status);
    if (code != KV_OK)
        return code;
    space->inner = handle_new(inner->space_size);
    *space->inner = *base;
    space->inner->db = db_of(base)->inner;
    code = inner->space_open(space->inner, flags, status);
    if (code != KV_OK)
        free(space->inner);
    return code;
}

static void shim_space_close(kv_space *base)
{
    struct shim_space *space = (struct shim_space *)base;
    inner_of(base->db->driver)->space_close(space->inner);
    free(space->inner);
}

static kv_code shim_snapshot_take(kv_snapshot *base, kv_status *status)
{
    struct shim_snapshot *snapshot = (struct shim_snapshot *)base;
    const kv_driver *inner = inner_of(base->db->driver);
    kv_code code = fault("snapshot_take", status);
    if (code != KV_OK)
        return code;
    snapshot->inner = handle_new(inner->snapshot_size);
    snapshot->inner->db = ((struct shim_db *)base->db)->inner;
    code = inner->snapshot_take(snapshot->inner, status);
    if (code != KV_OK)
        free(snapshot->inner);
    return code;
}

static void shim_snapshot_release(kv_snapshot *base)
{
    struct shim_snapshot *snapshot = (struct shim_snapshot *)base;
    inner_of(base->db->driver)->snapshot_release(snapshot->inner);
    free(snapshot->inner);
}

/* ---- Reading ------------------------------------------------------------------- */

static kv_code shim_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                        kv_status *status)
{
    kv_code code = fault("get", status);
    kv_read inner = read_of(read);
    return code != KV_OK
               ? code
               : inner_of(space->db->driver)->get(space_of(space), &inner, key, out, status);
}

static kv_code shim_get_many(kv_space *space, const kv_read *read, size_t count,
                             const kv_slice *keys, kv_value *out, kv_code *codes,
                             kv_status *status)
{
    kv_code code = fault("get_many", status);
    kv_read inner = read_of(read);
    return code != KV_OK
               ? code
               : inner_of(space->db->driver)
                     ->get_many(space_of(space), &inner, count, keys, out, codes, status);
}

static kv_code shim_iter_open(kv_iter *base, const kv_read *read, const kv_range *range,
                              kv_status *status)
{
    struct shim_iter *iter = (struct shim_iter *)base;
    const kv_driver *inner = inner_of(base->driver);
    kv_read inner_read = read_of(read);
    kv_code code = fault("iter_open", status);
    if (code != KV_OK)
        return code;
    iter->inner = handle_new(inner->iter_size);
    iter->inner->driver = inner;
    iter->inner->space = space_of(base->space);
    code = inner->iter_open(iter->inner, &inner_read, range, status);
    if (code != KV_OK)
        free(iter->inner);
    return code;
}

static void shim_iter_close(kv_iter *base)
{
    struct shim_iter *iter = (struct shim_iter *)base;
    inner_of(base->driver)->iter_close(iter->inner);
    free(iter->inner);
}

/* Show what the inner iterator came to. */
static bool moved(kv_iter *base, bool on)
{
    struct shim_iter *iter = (struct shim_iter *)base;
    if (on) {
        base->key = iter->inner->key;
        base->value = iter->inner->value;
    } else if (iter->inner->status.code != KV_OK) {
        kv_fail(&base->status, iter->inner->status.code, "%s", iter->inner->status.message);
    }
    return on;
}

#define SHIM_MOVE(verb)                                                       \
    static bool shim_iter_##verb(kv_iter *base)                               \
    {                                                                         \
        struct shim_iter *iter = (struct shim_iter *)base;                    \
        if (fault("iter_" #verb, &base->status) != KV_OK)                     \
            return false;                                                     \
        return moved(base, inner_of(base->driver)->iter_##verb(iter->inner)); \
    }
#define SHIM_SEEK(verb)                                                            \
    static bool shim_iter_##verb(kv_iter *base, kv_slice key)                      \
    {                                                                              \
        struct shim_iter *iter = (struct shim_iter *)base;                         \
        if (fault("iter_" #verb, &base->status) != KV_OK)                          \
            return false;                                                          \
        return moved(base, inner_of(base->driver)->iter_##verb(iter->inner, key)); \
    }
SHIM_MOVE(first)
SHIM_MOVE(last)
SHIM_MOVE(next)
SHIM_MOVE(prev)
SHIM_SEEK(seek)
SHIM_SEEK(seek_for_prev)

static void shim_iter_verify(kv_iter *base)
{
    struct shim_iter *iter = (struct shim_iter *)base;
    if (fault("iter_verify", &base->status) != KV_OK)
        return;
    inner_of(base->driver)->iter_verify(iter->inner);
    moved(base, false);
}

/* ---- Writing ------------------------------------------------------------------- */

static kv_code shim_put(kv_space *space, kv_slice key, kv_slice value, unsigned flags,
                        kv_status *status)
{
    kv_code code = fault("put", status);
    return code != KV_OK
               ? code
               : inner_of(space->db->driver)->put(space_of(space), key, value, flags, status);
}

static kv_code shim_del(kv_space *space, kv_slice key, unsigned flags, kv_status *status)
{
    kv_code code = fault("del", status);
    return code != KV_OK
               ? code
               : inner_of(space->db->driver)->del(space_of(space), key, flags, status);
}

static kv_batch *batch_of(const kv_batch *batch)
{
    return ((const struct shim_batch *)batch)->inner;
}

static kv_code shim_batch_open(kv_batch *base, kv_status *status)
{
    struct shim_batch *batch = (struct shim_batch *)base;
    const kv_driver *inner = inner_of(base->driver);
    kv_code code = fault("batch_open", status);
    if (code != KV_OK)
        return code;
    batch->inner = handle_new(inner->batch_size);
    batch->inner->driver = inner;
    batch->inner->db = ((struct shim_db *)base->db)->inner;
    code = inner->batch_open(batch->inner, status);
    if (code != KV_OK)
        free(batch->inner);
    return code;
}

static void shim_batch_close(kv_batch *base)
{
    kv_batch *inner = batch_of(base);
    inner->driver->batch_close(inner);
    free(inner);
}

/* The faults of gathering are the outer batch's to keep. */
static void gathered(kv_batch *base)
{
    kv_batch *inner = batch_of(base);
    if (inner->status.code != KV_OK)
        kv_fail(&base->status, inner->status.code, "%s", inner->status.message);
}

static void shim_batch_put(kv_batch *base, kv_space *space, kv_slice key, kv_slice value)
{
    kv_batch *inner = batch_of(base);
    if (fault("batch_put", &base->status) == KV_OK)
        inner->driver->batch_put(inner, space_of(space), key, value);
    gathered(base);
}

static void shim_batch_delete(kv_batch *base, kv_space *space, kv_slice key)
{
    kv_batch *inner = batch_of(base);
    if (fault("batch_delete", &base->status) == KV_OK)
        inner->driver->batch_delete(inner, space_of(space), key);
    gathered(base);
}

static void shim_batch_delete_range(kv_batch *base, kv_space *space, const kv_range *range)
{
    kv_batch *inner = batch_of(base);
    if (fault("batch_delete_range", &base->status) == KV_OK)
        inner->driver->batch_delete_range(inner, space_of(space), range);
    gathered(base);
}

static void shim_batch_clear(kv_batch *base)
{
    kv_batch *inner = batch_of(base);
    inner->driver->batch_clear(inner);
    inner->status = (kv_status)KV_STATUS_INIT;
}

static kv_code shim_batch_commit(kv_batch *base, unsigned flags, kv_status *status)
{
    kv_batch *inner = batch_of(base);
    kv_code code = fault("batch_commit", status);
    return code != KV_OK ? code : inner->driver->batch_commit(inner, flags, status);
}

/* Without native spaces the inner space is one, and tells nothing. */
struct visiting {
    void (*visit)(void *context, kv_space *space, kv_slice key, const kv_slice *value);
    void *context;
    kv_space stand_in;
};

static void visit_outer(void *context, kv_space *space, kv_slice key, const kv_slice *value)
{
    struct visiting *visiting = context;
    (void)space;
    visiting->visit(visiting->context, &visiting->stand_in, key, value);
}

static void shim_batch_visit(const kv_batch *base,
                             void (*visit)(void *context, kv_space *space, kv_slice key,
                                           const kv_slice *value),
                             void *context)
{
    kv_batch *inner = batch_of(base);
    struct visiting visiting = { visit, context, { .db = base->db, .prefix_size = 1 } };
    inner->driver->batch_visit(inner, visit_outer, &visiting);
}

/* ---- Care ---------------------------------------------------------------------- */

static kv_code shim_sync(kv_db *db, kv_status *status)
{
    kv_code code = fault("sync", status);
    return code != KV_OK ? code
                         : inner_of(db->driver)->sync(((struct shim_db *)db)->inner, status);
}

static kv_code shim_space_drop(kv_space *space, kv_status *status)
{
    kv_code code = fault("space_drop", status);
    return code != KV_OK ? code
                         : inner_of(space->db->driver)->space_drop(space_of(space), status);
}

static kv_code shim_space_list(kv_db *db, bool (*visit)(void *context, const char *name),
                               void *context, kv_status *status)
{
    kv_code code = fault("space_list", status);
    return code != KV_OK
               ? code
               : inner_of(db->driver)
                     ->space_list(((struct shim_db *)db)->inner, visit, context, status);
}

static kv_code shim_approximate_size(kv_space *space, const kv_range *range, uint64_t *out,
                                     kv_status *status)
{
    kv_code code = fault("approximate_size", status);
    return code != KV_OK ? code
                         : inner_of(space->db->driver)
                               ->approximate_size(space_of(space), range, out, status);
}

static kv_code shim_compact(kv_space *space, const kv_range *range, kv_status *status)
{
    kv_code code = fault("compact", status);
    return code != KV_OK ? code
                         : inner_of(space->db->driver)->compact(space_of(space), range, status);
}

static kv_code shim_stats(kv_db *db, void (*visit)(void *context, const kv_stat *stat),
                          void *context, kv_status *status)
{
    kv_code code = fault("stats", status);
    return code != KV_OK ? code
                         : inner_of(db->driver)
                               ->stats(((struct shim_db *)db)->inner, visit, context, status);
}

static kv_code shim_checkpoint(kv_db *db, const char *dir, kv_status *status)
{
    kv_code code = fault("checkpoint", status);
    return code != KV_OK
               ? code
               : inner_of(db->driver)->checkpoint(((struct shim_db *)db)->inner, dir, status);
}

/* ---- Registering ----------------------------------------------------------------- */

static const kv_driver shim_table = {
    .open = shim_open,
    .close = shim_close,
    .space_open = shim_space_open,
    .space_close = shim_space_close,
    .get = shim_get,
    .snapshot_take = shim_snapshot_take,
    .snapshot_release = shim_snapshot_release,
    .iter_open = shim_iter_open,
    .iter_close = shim_iter_close,
    .iter_first = shim_iter_first,
    .iter_last = shim_iter_last,
    .iter_seek = shim_iter_seek,
    .iter_next = shim_iter_next,
    .iter_prev = shim_iter_prev,
    .batch_open = shim_batch_open,
    .batch_close = shim_batch_close,
    .batch_put = shim_batch_put,
    .batch_delete = shim_batch_delete,
    .batch_clear = shim_batch_clear,
    .batch_commit = shim_batch_commit,
};

/* An optional call only where the inner driver has it. */
#define SHIM_IF_THERE(call) table->call = inner->call == NULL ? NULL : shim_##call

static void table_fill(kv_driver *table, const kv_driver *inner)
{
    *table = shim_table;
    table->version = inner->version;
    table->caps = inner->caps;
    table->engine_version = inner->engine_version;
    table->options = inner->options;
    table->key_size_max = inner->key_size_max;
    table->value_size_max = inner->value_size_max;
    table->db_size = sizeof(struct shim_db);
    table->space_size = sizeof(struct shim_space);
    table->snapshot_size = sizeof(struct shim_snapshot);
    table->iter_size = sizeof(struct shim_iter);
    table->batch_size = sizeof(struct shim_batch);
    SHIM_IF_THERE(space_open);
    SHIM_IF_THERE(space_close);
    SHIM_IF_THERE(put);
    SHIM_IF_THERE(del);
    SHIM_IF_THERE(get_many);
    SHIM_IF_THERE(iter_seek_for_prev);
    SHIM_IF_THERE(iter_verify);
    SHIM_IF_THERE(batch_delete_range);
    SHIM_IF_THERE(sync);
    SHIM_IF_THERE(space_drop);
    SHIM_IF_THERE(space_list);
    SHIM_IF_THERE(approximate_size);
    SHIM_IF_THERE(compact);
    SHIM_IF_THERE(stats);
    SHIM_IF_THERE(checkpoint);
    SHIM_IF_THERE(batch_visit);
}

bool fault_is_shim(const kv_driver *driver)
{
    return driver->open == shim_open;
}

void fault_shim_register(const kv_driver *inner)
{
    static struct shim_driver shims[SHIMS_MAX];
    static unsigned count;
    char name[32];
    snprintf(name, sizeof(name), "f.%.24s", inner->name);
    if (kv_driver_find(name) != NULL || count == SHIMS_MAX)
        return;
    struct shim_driver *shim = &shims[count++];
    table_fill(&shim->table, inner);
    strcpy(shim->name, name);
    shim->table.name = shim->name;
    shim->inner = inner;
    kv_status status = KV_STATUS_INIT;
    if (kv_driver_register(&shim->table, &status) != KV_OK) {
        fprintf(stderr, "%s: %s\n", name, status.message);
        abort();
    }
}
