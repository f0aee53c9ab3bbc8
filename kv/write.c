/*
 * write.c - puts, deletes and batches.
 *
 * Deleting a range on a driver that cannot: the range is noted with its place
 * among the batch's operations. At commit, with every other writer held at the
 * gate, the operations are replayed into a second batch; at each noted place
 * go deletes for the keys stored in the range and for those that the batch
 * itself put there before. The second batch is what the engine commits.
 */
#include "kv/core.h"

#include <stdlib.h>
#include <string.h>

/* ---- The gate ------------------------------------------------------------ */

static void gate_enter(kv_db *db)
{
    if (kv_db_has_gate(db))
        pthread_rwlock_rdlock(&db->core->gate);
}

static void gate_leave(kv_db *db)
{
    if (kv_db_has_gate(db))
        pthread_rwlock_unlock(&db->core->gate);
}

kv_code kv_driver_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    kv_db *db = batch->db;
    kv_code code = kv_check_write(db, status);
    if (code != KV_OK)
        return code;
    if (batch->status.code != KV_OK)
        return kv_fail(status, batch->status.code, "%s", batch->status.message);

    kv_status fault;
    kv_status_start(&fault);
    gate_enter(db);
    code = db->driver->batch_commit(batch, flags, &fault);
    gate_leave(db);
    return code == KV_OK ? KV_OK : kv_write_failed(db, &fault, status);
}

/* ---- Single writes ------------------------------------------------------- */

/* A put, or a delete where `value` is NULL, through a batch of its own. */
static kv_code write_by_batch(kv_space *space, kv_slice key, const kv_slice *value,
                              unsigned flags, kv_status *fault)
{
    kv_batch *batch = kv_driver_batch_open(space->db, fault);
    if (batch == NULL)
        return fault->code;
    if (value != NULL)
        batch->driver->batch_put(batch, space, key, *value);
    else
        batch->driver->batch_delete(batch, space, key);
    kv_code code = batch->status.code;
    if (code == KV_OK)
        code = batch->driver->batch_commit(batch, flags, fault);
    else
        kv_fail(fault, code, "%s", batch->status.message);
    kv_driver_batch_close(batch);
    return code;
}

static kv_code write_one(kv_space *space, kv_slice key, const kv_slice *value, unsigned flags,
                         kv_status *status)
{
    kv_db *db = space->db;
    const kv_driver *driver = db->driver;
    kv_code code = kv_check_write(db, status);
    if (code != KV_OK)
        return code;

    kv_status fault;
    kv_status_start(&fault);
    struct kv_full_key full;
    code = kv_full_key_init(&full, space, key, status);
    if (code != KV_OK)
        return code;
    gate_enter(db);
    if (value != NULL && driver->put != NULL)
        code = driver->put(space, full.key, *value, flags, &fault);
    else if (value == NULL && driver->del != NULL)
        code = driver->del(space, full.key, flags, &fault);
    else
        code = write_by_batch(space, full.key, value, flags, &fault);
    gate_leave(db);
    kv_full_key_clear(&full);
    return code == KV_OK ? KV_OK : kv_write_failed(db, &fault, status);
}

kv_code kv_put(kv_space *space, kv_slice key, kv_slice value, unsigned flags, kv_status *status)
{
    const kv_driver *driver = space->db->driver;
    kv_code code = kv_check_key(driver, key, status);
    if (code == KV_OK)
        code = kv_check_value(driver, value, status);
    return code == KV_OK ? write_one(space, key, &value, flags, status) : code;
}

kv_code kv_delete(kv_space *space, kv_slice key, unsigned flags, kv_status *status)
{
    kv_code code = kv_check_key(space->db->driver, key, status);
    return code == KV_OK ? write_one(space, key, NULL, flags, status) : code;
}

kv_code kv_sync(kv_db *db, kv_status *status)
{
    kv_code code = kv_check_write(db, status);
    if (code != KV_OK)
        return (db->flags & KV_OPEN_READ) != 0 ? KV_OK : code;
    if ((db->driver->caps & KV_CAP_DURABLE) == 0)
        return KV_OK;

    kv_status fault;
    kv_status_start(&fault);
    if (db->driver->sync != NULL) {
        code = db->driver->sync(db, &fault);
        return code == KV_OK ? KV_OK : kv_write_failed(db, &fault, status);
    }
    kv_batch *batch = kv_driver_batch_open(db, &fault);
    if (batch == NULL)
        return kv_fail(status, fault.code, "%s", fault.message);
    code = kv_driver_commit(batch, KV_SYNC, status);
    kv_driver_batch_close(batch);
    return code;
}

/* ---- Batches: gathering -------------------------------------------------- */

/* A range to delete, noted at its place among the operations. */
struct noted_range {
    size_t place; /* operations gathered before it */
    kv_space *space;
    kv_range range;        /* the driver's, its bytes behind it: */
    unsigned char bytes[]; /* first, then limit */
};

struct kv_ranges {
    size_t count, capacity;
    struct noted_range **items;
};

static void ranges_clear(struct kv_ranges *ranges)
{
    if (ranges == NULL)
        return;
    for (size_t i = 0; i < ranges->count; i++)
        free(ranges->items[i]);
    ranges->count = 0;
}

void kv_ranges_free(struct kv_ranges *ranges)
{
    if (ranges == NULL)
        return;
    ranges_clear(ranges);
    free(ranges->items);
    free(ranges);
}

static bool ranges_grow(kv_batch *batch)
{
    if (batch->ranges == NULL)
        batch->ranges = calloc(1, sizeof(*batch->ranges));
    struct kv_ranges *ranges = batch->ranges;
    if (ranges == NULL)
        return false;
    if (ranges->count < ranges->capacity)
        return true;
    size_t capacity = ranges->capacity == 0 ? 4 : 2 * ranges->capacity;
    void *items = realloc(ranges->items, capacity * sizeof(struct noted_range *));
    if (items == NULL)
        return false;
    ranges->items = items;
    ranges->capacity = capacity;
    return true;
}

static void range_note(kv_batch *batch, kv_space *space, const kv_range *range)
{
    size_t size = range->first.size + range->limit.size;
    struct noted_range *item = malloc(sizeof(*item) + size);
    if (item == NULL || !ranges_grow(batch)) {
        free(item);
        kv_fail(&batch->status, KV_NO_MEMORY, "no memory for a range in a batch");
        return;
    }
    if (range->first.size > 0)
        memcpy(item->bytes, range->first.data, range->first.size);
    if (range->limit.size > 0)
        memcpy(item->bytes + range->first.size, range->limit.data, range->limit.size);
    item->range = (kv_range){ kv_bytes(item->bytes, range->first.size),
                              kv_bytes(item->bytes + range->first.size, range->limit.size) };
    item->space = space;
    item->place = batch->count - batch->ranges->count;
    batch->ranges->items[batch->ranges->count++] = item;
}

kv_code kv_batch_new(kv_db *db, kv_batch **out, kv_status *status)
{
    kv_status local;
    kv_status_start(&local);
    *out = kv_driver_batch_open(db, &local);
    if (*out == NULL)
        return kv_fail(status, local.code, "%s", local.message);
    atomic_fetch_add_explicit(&db->core->batches, 1, memory_order_relaxed);
    return KV_OK;
}

void kv_batch_free(kv_batch *batch)
{
    if (batch == NULL)
        return;
    struct kv_core *core = batch->db->core;
    kv_driver_batch_close(batch);
    atomic_fetch_sub_explicit(&core->batches, 1, memory_order_release);
}

/* Whether the batch can take an operation on `space`. */
static inline bool batch_takes(kv_batch *batch, const kv_space *space)
{
    if (batch->status.code != KV_OK)
        return false;
    if (space->db != batch->db) {
        kv_fail(&batch->status, KV_INVALID,
                "space %s belongs to another database than the batch", space->name);
        return false;
    }
    if (batch->count == 0)
        batch->drops = atomic_load_explicit(&batch->db->core->drops, memory_order_relaxed);
    return true;
}

void kv_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    const kv_driver *driver = batch->driver;
    if (!batch_takes(batch, space) || kv_check_key(driver, key, &batch->status) != KV_OK ||
        kv_check_value(driver, value, &batch->status) != KV_OK)
        return;

    if (space->prefix_size == 0) {
        driver->batch_put(batch, space, key, value);
    } else {
        struct kv_full_key full;
        if (kv_full_key_init(&full, space, key, &batch->status) != KV_OK)
            return;
        driver->batch_put(batch, space, full.key, value);
        kv_full_key_clear(&full);
    }
    batch->count++;
    batch->size += key.size + value.size;
}

void kv_batch_delete(kv_batch *batch, kv_space *space, kv_slice key)
{
    const kv_driver *driver = batch->driver;
    if (!batch_takes(batch, space) || kv_check_key(driver, key, &batch->status) != KV_OK)
        return;

    if (space->prefix_size == 0) {
        driver->batch_delete(batch, space, key);
    } else {
        struct kv_full_key full;
        if (kv_full_key_init(&full, space, key, &batch->status) != KV_OK)
            return;
        driver->batch_delete(batch, space, full.key);
        kv_full_key_clear(&full);
    }
    batch->count++;
    batch->size += key.size;
}

void kv_batch_delete_range(kv_batch *batch, kv_space *space, const kv_range *range)
{
    if (!batch_takes(batch, space))
        return;
    struct kv_full_range full;
    if (kv_full_range_init(&full, space, range, &batch->status) != KV_OK)
        return;

    if (batch->driver->batch_delete_range != NULL)
        batch->driver->batch_delete_range(batch, space, &full.range);
    else
        range_note(batch, space, &full.range);
    batch->count++;
    batch->size += full.range.first.size + full.range.limit.size;
    kv_full_range_clear(&full);
}

void kv_batch_clear(kv_batch *batch)
{
    batch->driver->batch_clear(batch);
    ranges_clear(batch->ranges);
    batch->count = 0;
    batch->size = 0;
    kv_status_start(&batch->status);
}

size_t kv_batch_count(const kv_batch *batch)
{
    return batch->count;
}

size_t kv_batch_size(const kv_batch *batch)
{
    return batch->size;
}

/* ---- Batches: committing ------------------------------------------------- */

/* The replay of a batch with ranges into one without. */
struct replay {
    const kv_batch *from;
    kv_batch *to;
    size_t place;                    /* operations replayed so far */
    size_t next_range;               /* the first range not yet replaced by deletes */
    const struct noted_range *range; /* while looking for earlier puts: the range, */
    size_t before;                   /* and how many operations to look at */
    kv_status *status;
};

static bool in_range(const kv_range *range, kv_slice key)
{
    return kv_compare(key, range->first) >= 0 &&
           (range->limit.size == 0 || kv_compare(key, range->limit) < 0);
}

static void delete_earlier_put(void *context, kv_space *space, kv_slice key,
                               const kv_slice *value)
{
    struct replay *replay = context;
    const struct noted_range *range = replay->range;
    if (replay->before == 0)
        return;
    replay->before--;
    bool native = (replay->to->driver->caps & KV_CAP_SPACES) != 0;
    bool same = !native || space == range->space; /* else the key tells */
    if (value != NULL && same && in_range(&range->range, key))
        replay->to->driver->batch_delete(replay->to, range->space, key);
}

static void delete_stored(struct replay *replay, const struct noted_range *range)
{
    const kv_driver *driver = replay->to->driver;
    kv_iter *iter = kv_driver_iter_open(range->space, NULL, &range->range, replay->status);
    if (iter == NULL)
        return;
    for (bool on = driver->iter_first(iter); on; on = driver->iter_next(iter))
        driver->batch_delete(replay->to, range->space, iter->key);
    if (iter->status.code != KV_OK)
        kv_fail(replay->status, iter->status.code, "%s", iter->status.message);
    kv_driver_iter_close(iter);
}

static void replay_ranges(struct replay *replay, size_t place)
{
    const struct kv_ranges *ranges = replay->from->ranges;
    while (replay->next_range < ranges->count &&
           ranges->items[replay->next_range]->place == place) {
        const struct noted_range *range = ranges->items[replay->next_range++];
        delete_stored(replay, range);
        replay->range = range;
        replay->before = place;
        if (place > 0)
            replay->from->driver->batch_visit(replay->from, delete_earlier_put, replay);
    }
}

static void replay_operation(void *context, kv_space *space, kv_slice key,
                             const kv_slice *value)
{
    struct replay *replay = context;
    replay_ranges(replay, replay->place);
    if (value != NULL)
        replay->to->driver->batch_put(replay->to, space, key, *value);
    else
        replay->to->driver->batch_delete(replay->to, space, key);
    replay->place++;
}

/* Commit a batch that has ranges, with every other writer at the gate. */
static kv_code commit_ranges(kv_batch *batch, unsigned flags, kv_status *fault)
{
    size_t operations = batch->count - batch->ranges->count;
    if (operations > 0 && batch->driver->batch_visit == NULL)
        return kv_fail(fault, KV_UNSUPPORTED,
                       "%s cannot delete a range and write keys in one batch",
                       batch->driver->name);
    kv_batch *whole = kv_driver_batch_open(batch->db, fault);
    if (whole == NULL)
        return fault->code;

    struct replay replay = { .from = batch, .to = whole, .status = fault };
    pthread_rwlock_wrlock(&batch->db->core->gate);
    if (operations > 0)
        batch->driver->batch_visit(batch, replay_operation, &replay);
    replay_ranges(&replay, operations);
    if (whole->status.code != KV_OK)
        kv_fail(fault, whole->status.code, "%s", whole->status.message);
    if (fault->code == KV_OK)
        batch->driver->batch_commit(whole, flags, fault);
    pthread_rwlock_unlock(&batch->db->core->gate);
    kv_driver_batch_close(whole);
    return fault->code;
}

kv_code kv_batch_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    kv_db *db = batch->db;
    if (batch->status.code != KV_OK)
        return kv_fail(status, batch->status.code, "%s", batch->status.message);
    if (batch->count == 0)
        return (flags & KV_SYNC) != 0 ? kv_sync(db, status) : kv_check_write(db, status);
    if (batch->drops != atomic_load_explicit(&db->core->drops, memory_order_relaxed))
        return kv_fail(status, KV_BAD_STATE,
                       "a space was dropped after this batch began: clear it and gather anew");

    kv_code code;
    if (batch->ranges != NULL && batch->ranges->count > 0) {
        kv_status fault;
        kv_status_start(&fault);
        code = kv_check_write(db, status);
        if (code == KV_OK && commit_ranges(batch, flags, &fault) != KV_OK)
            code = kv_write_failed(db, &fault, status);
    } else {
        code = kv_driver_commit(batch, flags, status);
    }
    if (code == KV_OK)
        kv_batch_clear(batch);
    return code;
}

kv_code kv_delete_range(kv_space *space, const kv_range *range, unsigned flags,
                        kv_status *status)
{
    kv_batch *batch;
    kv_code code = kv_batch_new(space->db, &batch, status);
    if (code != KV_OK)
        return code;
    kv_batch_delete_range(batch, space, range);
    code = kv_batch_commit(batch, flags, status);
    kv_batch_free(batch);
    return code;
}
