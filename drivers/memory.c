/* memory.c - the memory driver: a tree and nothing else. Gone when closed. */
#include "drivers/drivers.h"
#include "drivers/tree.h"
#include "drivers/tree_iter.h"

struct memory_db {
    kv_db base;
    struct tree *tree;
};

struct memory_space {
    kv_space base;
    uint32_t index;
};

struct memory_snapshot {
    kv_snapshot base;
    struct tree_moment *moment;
};

struct memory_batch {
    kv_batch base;
    struct tree_ops ops;
};

static struct tree *tree_of(const kv_db *db)
{
    return ((const struct memory_db *)db)->tree;
}

static uint32_t index_of(const kv_space *space)
{
    return ((const struct memory_space *)space)->index;
}

static const struct tree_moment *moment_of(const kv_read *read)
{
    if (read == NULL || read->snapshot == NULL)
        return NULL;
    return ((const struct memory_snapshot *)read->snapshot)->moment;
}

static kv_code memory_open(kv_db *db, const kv_options *options, kv_status *status)
{
    (void)options;
    return tree_new(&((struct memory_db *)db)->tree, status);
}

static void memory_close(kv_db *db)
{
    tree_free(tree_of(db));
}

static kv_code memory_space_open(kv_space *space, unsigned flags, kv_status *status)
{
    return tree_space_open(tree_of(space->db), space->name, flags,
                           &((struct memory_space *)space)->index, status);
}

static void memory_space_close(kv_space *space)
{
    (void)space;
}

static kv_code memory_space_drop(kv_space *space, kv_status *status)
{
    return tree_space_drop(tree_of(space->db), index_of(space), status);
}

static kv_code memory_space_list(kv_db *db, bool (*visit)(void *context, const char *name),
                                 void *context, kv_status *status)
{
    return tree_space_list(tree_of(db), visit, context, status);
}

static kv_code memory_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                          kv_status *status)
{
    (void)status;
    struct tree_record *record =
        tree_get(tree_of(space->db), moment_of(read), index_of(space), key);
    if (record == NULL)
        return KV_NOT_FOUND;
    tree_record_lend(record, out);
    return KV_OK;
}

static kv_code memory_get_many(kv_space *space, const kv_read *read, size_t count,
                               const kv_slice *keys, kv_value *out, kv_code *codes,
                               kv_status *status)
{
    struct tree *tree = tree_of(space->db);
    const struct tree_moment *moment = moment_of(read);
    struct tree_moment *own = NULL;
    if (moment == NULL) {
        moment = own = tree_moment_take(tree);
        if (moment == NULL)
            return kv_fail(status, KV_NO_MEMORY, "out of memory for a moment to read at");
    }
    for (size_t i = 0; i < count; i++) {
        struct tree_record *record = tree_get(tree, moment, index_of(space), keys[i]);
        codes[i] = record == NULL ? KV_NOT_FOUND : KV_OK;
        if (record != NULL)
            tree_record_lend(record, &out[i]);
    }
    if (own != NULL)
        tree_moment_release(tree, own);
    return KV_OK;
}

static kv_code memory_snapshot_take(kv_snapshot *snapshot, kv_status *status)
{
    struct tree_moment *moment = tree_moment_take(tree_of(snapshot->db));
    ((struct memory_snapshot *)snapshot)->moment = moment;
    if (moment == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a snapshot");
    return KV_OK;
}

static void memory_snapshot_release(kv_snapshot *snapshot)
{
    tree_moment_release(tree_of(snapshot->db), ((struct memory_snapshot *)snapshot)->moment);
}

static kv_code memory_iter_open(kv_iter *iter, const kv_read *read, const kv_range *range,
                                kv_status *status)
{
    return tree_iter_open((struct tree_iter *)iter, tree_of(iter->space->db), moment_of(read),
                          index_of(iter->space), range, status);
}

static struct tree_ops *ops_of(kv_batch *batch)
{
    return &((struct memory_batch *)batch)->ops;
}

static kv_code memory_batch_open(kv_batch *batch, kv_status *status)
{
    (void)batch; /* zeroed is empty */
    (void)status;
    return KV_OK;
}

static void memory_batch_close(kv_batch *batch)
{
    tree_ops_free(ops_of(batch));
}

static void memory_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    tree_ops_add(ops_of(batch), TREE_OP_PUT, index_of(space), key, value, &batch->status);
}

static void memory_batch_delete(kv_batch *batch, kv_space *space, kv_slice key)
{
    tree_ops_add(ops_of(batch), TREE_OP_DELETE, index_of(space), key, kv_bytes(NULL, 0),
                 &batch->status);
}

static void memory_batch_delete_range(kv_batch *batch, kv_space *space, const kv_range *range)
{
    tree_ops_add(ops_of(batch), TREE_OP_DELETE_RANGE, index_of(space), range->first,
                 range->limit, &batch->status);
}

static void memory_batch_clear(kv_batch *batch)
{
    tree_ops_clear(ops_of(batch));
}

static kv_code memory_batch_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    (void)flags;
    return tree_ops_commit(ops_of(batch), tree_of(batch->db), status);
}

static kv_code memory_put(kv_space *space, kv_slice key, kv_slice value, unsigned flags,
                          kv_status *status)
{
    (void)flags;
    struct tree_record *record = tree_record_new(key, value);
    if (record == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a value of %zu bytes",
                       value.size);
    kv_code code = tree_put(tree_of(space->db), index_of(space), record, status);
    if (code != KV_OK)
        tree_record_release(record);
    return code;
}

static kv_code memory_del(kv_space *space, kv_slice key, unsigned flags, kv_status *status)
{
    (void)flags;
    return tree_delete(tree_of(space->db), index_of(space), key, status);
}

static kv_code memory_approximate_size(kv_space *space, const kv_range *range, uint64_t *out,
                                       kv_status *status)
{
    return tree_size(tree_of(space->db), index_of(space), range, out, status);
}

static kv_code memory_compact(kv_space *space, const kv_range *range, kv_status *status)
{
    (void)space; /* nothing deleted is kept */
    (void)range;
    (void)status;
    return KV_OK;
}

static kv_code memory_stats(kv_db *db, void (*visit)(void *context, const kv_stat *stat),
                            void *context, kv_status *status)
{
    (void)status;
    struct tree_figures figures;
    tree_figures(tree_of(db), &figures);
    const kv_stat stats[] = {
        { "keys_estimate", NULL, figures.keys },
        { "size_disk_bytes", NULL, 0 },
        { "size_memory_bytes", NULL, figures.bytes },
        { "memory.moments", NULL, figures.moments },
    };
    for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++)
        visit(context, &stats[i]);
    return KV_OK;
}

static const kv_option_spec memory_options[] = {
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

const kv_driver memory_driver = {
    .version = KV_DRIVER_VERSION,
    .caps = KV_CAP_SPACES | KV_CAP_PINNED,
    .name = "memory",
    .engine_version = "statekv copy-on-write tree",
    .options = memory_options,
    .key_size_max = KV_KEY_SIZE_MAX,
    .value_size_max = KV_VALUE_SIZE_MAX,
    .db_size = sizeof(struct memory_db),
    .space_size = sizeof(struct memory_space),
    .snapshot_size = sizeof(struct memory_snapshot),
    .iter_size = sizeof(struct tree_iter),
    .batch_size = sizeof(struct memory_batch),
    .open = memory_open,
    .close = memory_close,
    .space_open = memory_space_open,
    .space_close = memory_space_close,
    .get = memory_get,
    .snapshot_take = memory_snapshot_take,
    .snapshot_release = memory_snapshot_release,
    .iter_open = memory_iter_open,
    .iter_close = tree_iter_close,
    .iter_first = tree_iter_first,
    .iter_last = tree_iter_last,
    .iter_seek = tree_iter_seek,
    .iter_next = tree_iter_next,
    .iter_prev = tree_iter_prev,
    .batch_open = memory_batch_open,
    .batch_close = memory_batch_close,
    .batch_put = memory_batch_put,
    .batch_delete = memory_batch_delete,
    .batch_clear = memory_batch_clear,
    .batch_commit = memory_batch_commit,
    .put = memory_put,
    .del = memory_del,
    .get_many = memory_get_many,
    .iter_seek_for_prev = tree_iter_seek_for_prev,
    .batch_delete_range = memory_batch_delete_range,
    .space_drop = memory_space_drop,
    .space_list = memory_space_list,
    .approximate_size = memory_approximate_size,
    .compact = memory_compact,
    .stats = memory_stats,
};
