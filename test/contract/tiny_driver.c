/*
 * tiny_driver.c - the smallest driver there can be: docs/driver.md builds it up.
 *
 * One sorted array of pairs, copied whole for every change, so that an iterator,
 * a snapshot or a batch keeps the array it began with. No spaces of its own, no
 * optional calls: the core does the rest.
 */
#include "test/contract/tiny_driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A pair in one allocation, shared by all arrays that hold it. */
struct tiny_pair {
    size_t refs, key_size, value_size;
    unsigned char bytes[];
};

struct tiny_array {
    size_t refs, count;
    struct tiny_pair *pairs[];
};

struct tiny_db {
    kv_db base;
    pthread_mutex_t mutex; /* guards every count of references, and `now` */
    struct tiny_array *now;
};

struct tiny_snapshot {
    kv_snapshot base;
    struct tiny_array *array;
};

struct tiny_iter {
    kv_iter base;
    struct tiny_array *array;
    size_t from, to, at; /* the range, as places in the array */
};

struct tiny_op {
    struct tiny_pair *pair;
    bool put;
};

struct tiny_batch {
    kv_batch base;
    struct tiny_op *ops;
    size_t count;
};

/* ---- Arrays --------------------------------------------------------------------- */

static kv_slice pair_key(const struct tiny_pair *pair)
{
    return kv_bytes(pair->bytes, pair->key_size);
}

static struct tiny_pair *pair_new(kv_slice key, kv_slice value)
{
    struct tiny_pair *pair = malloc(sizeof(*pair) + key.size + value.size);
    if (pair == NULL)
        return NULL;
    pair->refs = 1;
    pair->key_size = key.size;
    pair->value_size = value.size;
    if (key.size > 0)
        memcpy(pair->bytes, key.data, key.size);
    if (value.size > 0)
        memcpy(pair->bytes + key.size, value.data, value.size);
    return pair;
}

static void pair_drop(struct tiny_pair *pair)
{
    if (--pair->refs == 0)
        free(pair);
}

static void array_drop(struct tiny_array *array)
{
    if (--array->refs > 0)
        return;
    for (size_t i = 0; i < array->count; i++)
        pair_drop(array->pairs[i]);
    free(array);
}

/* The place of the first pair whose key is >= key. */
static size_t array_find(const struct tiny_array *array, kv_slice key)
{
    size_t low = 0;
    size_t high = array->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kv_compare(pair_key(array->pairs[middle]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool array_has(const struct tiny_array *array, size_t at, kv_slice key)
{
    return at < array->count && kv_compare(pair_key(array->pairs[at]), key) == 0;
}

/* A copy with room for `more` pairs. */
static struct tiny_array *array_copy(const struct tiny_array *from, size_t more)
{
    size_t count = from == NULL ? 0 : from->count;
    struct tiny_array *array = malloc(sizeof(*array) + (count + more) * sizeof(void *));
    if (array == NULL)
        return NULL;
    array->refs = 1;
    array->count = count;
    for (size_t i = 0; i < count; i++) {
        array->pairs[i] = from->pairs[i];
        array->pairs[i]->refs++;
    }
    return array;
}

static void array_apply(struct tiny_array *array, const struct tiny_op *op)
{
    kv_slice key = pair_key(op->pair);
    size_t at = array_find(array, key);
    if (array_has(array, at, key)) {
        pair_drop(array->pairs[at]);
        array->count--;
        memmove(&array->pairs[at], &array->pairs[at + 1], (array->count - at) * sizeof(void *));
    }
    if (!op->put)
        return;
    memmove(&array->pairs[at + 1], &array->pairs[at], (array->count - at) * sizeof(void *));
    array->pairs[at] = op->pair;
    array->count++;
    op->pair->refs++;
}

/* ---- The database ---------------------------------------------------------------- */

static struct tiny_db *db_of(kv_db *db)
{
    return (struct tiny_db *)db;
}

static kv_code tiny_open(kv_db *base, const kv_options *options, kv_status *status)
{
    (void)options;
    struct tiny_db *db = db_of(base);
    db->now = array_copy(NULL, 0);
    if (db->now == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a database");
    pthread_mutex_init(&db->mutex, NULL);
    return KV_OK;
}

static void tiny_close(kv_db *base)
{
    struct tiny_db *db = db_of(base);
    array_drop(db->now);
    pthread_mutex_destroy(&db->mutex);
}

/* The array that `read` means, with a reference. */
static struct tiny_array *array_take(kv_db *base, const kv_read *read)
{
    struct tiny_db *db = db_of(base);
    pthread_mutex_lock(&db->mutex);
    struct tiny_array *array = db->now;
    if (read != NULL && read->snapshot != NULL)
        array = ((const struct tiny_snapshot *)read->snapshot)->array;
    array->refs++;
    pthread_mutex_unlock(&db->mutex);
    return array;
}

static void array_give_back(kv_db *base, struct tiny_array *array)
{
    pthread_mutex_lock(&db_of(base)->mutex);
    array_drop(array);
    pthread_mutex_unlock(&db_of(base)->mutex);
}

static kv_code tiny_snapshot_take(kv_snapshot *snapshot, kv_status *status)
{
    (void)status;
    ((struct tiny_snapshot *)snapshot)->array = array_take(snapshot->db, NULL);
    return KV_OK;
}

static void tiny_snapshot_release(kv_snapshot *snapshot)
{
    array_give_back(snapshot->db, ((struct tiny_snapshot *)snapshot)->array);
}

/* ---- Reading --------------------------------------------------------------------- */

static void value_free(kv_value *value)
{
    free(value->owner);
}

static kv_code tiny_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                        kv_status *status)
{
    struct tiny_array *array = array_take(space->db, read);
    size_t at = array_find(array, key);
    kv_code code = KV_NOT_FOUND;
    if (array_has(array, at, key)) {
        const struct tiny_pair *pair = array->pairs[at];
        out->owner = malloc(pair->value_size + 1);
        code = out->owner != NULL ? KV_OK : kv_fail(status, KV_NO_MEMORY, "out of memory");
        if (code == KV_OK) {
            memcpy(out->owner, pair->bytes + pair->key_size, pair->value_size);
            out->bytes = kv_bytes(out->owner, pair->value_size);
            out->release = value_free;
        }
    }
    array_give_back(space->db, array);
    return code;
}

static kv_code tiny_iter_open(kv_iter *base, const kv_read *read, const kv_range *range,
                              kv_status *status)
{
    (void)status;
    struct tiny_iter *iter = (struct tiny_iter *)base;
    iter->array = array_take(base->space->db, read);
    iter->from = array_find(iter->array, range->first);
    iter->to =
        range->limit.size == 0 ? iter->array->count : array_find(iter->array, range->limit);
    return KV_OK;
}

static void tiny_iter_close(kv_iter *base)
{
    array_give_back(base->space->db, ((struct tiny_iter *)base)->array);
}

static bool stand(kv_iter *base, size_t at)
{
    struct tiny_iter *iter = (struct tiny_iter *)base;
    if (at < iter->from || at >= iter->to)
        return false;
    const struct tiny_pair *pair = iter->array->pairs[at];
    iter->at = at;
    base->key = pair_key(pair);
    base->value = kv_bytes(pair->bytes + pair->key_size, pair->value_size);
    return true;
}

static bool tiny_iter_first(kv_iter *base)
{
    return stand(base, ((struct tiny_iter *)base)->from);
}

static bool tiny_iter_last(kv_iter *base)
{
    return stand(base, ((struct tiny_iter *)base)->to - 1); /* SIZE_MAX is past any end */
}

static bool tiny_iter_seek(kv_iter *base, kv_slice key)
{
    struct tiny_iter *iter = (struct tiny_iter *)base;
    size_t at = array_find(iter->array, key);
    return stand(base, at < iter->from ? iter->from : at);
}

static bool tiny_iter_next(kv_iter *base)
{
    return stand(base, ((struct tiny_iter *)base)->at + 1);
}

static bool tiny_iter_prev(kv_iter *base)
{
    return stand(base, ((struct tiny_iter *)base)->at - 1);
}

/* ---- Writing --------------------------------------------------------------------- */

static kv_code tiny_batch_open(kv_batch *batch, kv_status *status)
{
    (void)batch; /* zeroed is empty */
    (void)status;
    return KV_OK;
}

static void tiny_batch_clear(kv_batch *base)
{
    struct tiny_batch *batch = (struct tiny_batch *)base;
    pthread_mutex_lock(&db_of(base->db)->mutex);
    for (size_t i = 0; i < batch->count; i++)
        pair_drop(batch->ops[i].pair);
    pthread_mutex_unlock(&db_of(base->db)->mutex);
    batch->count = 0;
}

static void tiny_batch_close(kv_batch *base)
{
    tiny_batch_clear(base);
    free(((struct tiny_batch *)base)->ops);
}

static void batch_add(kv_batch *base, kv_slice key, kv_slice value, bool put)
{
    struct tiny_batch *batch = (struct tiny_batch *)base;
    struct tiny_pair *pair = pair_new(key, value);
    struct tiny_op *ops = realloc(batch->ops, (batch->count + 1) * sizeof(*ops));
    if (ops != NULL)
        batch->ops = ops;
    if (ops != NULL && pair != NULL) {
        batch->ops[batch->count++] = (struct tiny_op){ pair, put };
        return;
    }
    free(pair);
    kv_fail(&base->status, KV_NO_MEMORY, "out of memory for a batch");
}

static void tiny_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    (void)space; /* the core has put it into the key */
    batch_add(batch, key, value, true);
}

static void tiny_batch_delete(kv_batch *batch, kv_space *space, kv_slice key)
{
    (void)space;
    batch_add(batch, key, kv_bytes(NULL, 0), false);
}

static void tiny_batch_visit(const kv_batch *base,
                             void (*visit)(void *context, kv_space *space, kv_slice key,
                                           const kv_slice *value),
                             void *context)
{
    const struct tiny_batch *batch = (const struct tiny_batch *)base;
    kv_space any = { .db = base->db, .prefix_size = 1 };
    for (size_t i = 0; i < batch->count; i++) {
        const struct tiny_pair *pair = batch->ops[i].pair;
        kv_slice value = kv_bytes(pair->bytes + pair->key_size, pair->value_size);
        visit(context, &any, pair_key(pair), batch->ops[i].put ? &value : NULL);
    }
}

static kv_code tiny_batch_commit(kv_batch *base, unsigned flags, kv_status *status)
{
    (void)flags; /* nothing here outlives the process */
    struct tiny_batch *batch = (struct tiny_batch *)base;
    struct tiny_db *db = db_of(base->db);
    kv_code code = KV_OK;
    pthread_mutex_lock(&db->mutex);
    struct tiny_array *next = array_copy(db->now, batch->count);
    if (next == NULL) {
        code = kv_fail(status, KV_NO_MEMORY, "out of memory for a batch");
    } else {
        for (size_t i = 0; i < batch->count; i++)
            array_apply(next, &batch->ops[i]);
        array_drop(db->now);
        db->now = next;
    }
    pthread_mutex_unlock(&db->mutex);
    return code;
}

static const kv_option_spec tiny_options[] = {
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

const kv_driver tiny_driver = {
    .version = KV_DRIVER_VERSION,
    .caps = 0,
    .name = "tiny",
    .engine_version = "an array",
    .options = tiny_options,
    .key_size_max = KV_KEY_SIZE_MAX,
    .value_size_max = KV_VALUE_SIZE_MAX,
    .db_size = sizeof(struct tiny_db),
    .space_size = sizeof(kv_space),
    .snapshot_size = sizeof(struct tiny_snapshot),
    .iter_size = sizeof(struct tiny_iter),
    .batch_size = sizeof(struct tiny_batch),
    .open = tiny_open,
    .close = tiny_close,
    .get = tiny_get,
    .snapshot_take = tiny_snapshot_take,
    .snapshot_release = tiny_snapshot_release,
    .iter_open = tiny_iter_open,
    .iter_close = tiny_iter_close,
    .iter_first = tiny_iter_first,
    .iter_last = tiny_iter_last,
    .iter_seek = tiny_iter_seek,
    .iter_next = tiny_iter_next,
    .iter_prev = tiny_iter_prev,
    .batch_open = tiny_batch_open,
    .batch_close = tiny_batch_close,
    .batch_put = tiny_batch_put,
    .batch_delete = tiny_batch_delete,
    .batch_clear = tiny_batch_clear,
    .batch_commit = tiny_batch_commit,
    .batch_visit = tiny_batch_visit,
};
