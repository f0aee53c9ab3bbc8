/* read.c - gets, snapshots and iterators. */
#include "kv/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GET_MESSAGE_KEY_SIZE = 32 /* bytes of a key shown in a message */ };

static const kv_read plain_read;

/* ---- Gets ---------------------------------------------------------------- */

/* Say which key a fault was met at. */
static kv_code get_failed(kv_slice key, const kv_status *fault, kv_status *status)
{
    char hex[2 * GET_MESSAGE_KEY_SIZE + 1] = "";
    size_t shown = key.size < GET_MESSAGE_KEY_SIZE ? key.size : GET_MESSAGE_KEY_SIZE;
    for (size_t i = 0; i < shown; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const unsigned char *)key.data)[i]);
    return kv_fail(status, fault->code, "key %s%s: %s", hex, shown < key.size ? "..." : "",
                   fault->message);
}

kv_code kv_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
               kv_status *status)
{
    const kv_driver *driver = space->db->driver;
    kv_code code = kv_check_key(driver, key, status);
    if (code != KV_OK)
        return code;
    if (read == NULL)
        read = &plain_read;

    kv_status fault;
    kv_status_start(&fault);
    if (space->prefix_size == 0) {
        code = driver->get(space, read, key, out, &fault);
    } else {
        struct kv_full_key full;
        code = kv_full_key_init(&full, space, key, &fault);
        if (code == KV_OK)
            code = driver->get(space, read, full.key, out, &fault);
        kv_full_key_clear(&full);
    }
    if (code == KV_OK || code == KV_NOT_FOUND)
        return code;
    return get_failed(key, &fault, status);
}

static kv_code get_each(kv_space *space, const kv_read *read, size_t count,
                        const kv_slice *keys, kv_value *out, kv_code *codes, kv_status *status)
{
    kv_code first = KV_OK;
    for (size_t i = 0; i < count; i++) {
        codes[i] = kv_get(space, read, keys[i], &out[i], status);
        if (codes[i] != KV_OK && codes[i] != KV_NOT_FOUND && first == KV_OK)
            first = codes[i];
    }
    return first;
}

/* One get after the other, under a snapshot so that all see one moment. */
static kv_code get_many_emulated(kv_space *space, const kv_read *read, size_t count,
                                 const kv_slice *keys, kv_value *out, kv_code *codes,
                                 kv_status *status)
{
    if (read->snapshot != NULL || count == 1)
        return get_each(space, read, count, keys, out, codes, status);

    kv_snapshot *snapshot;
    kv_code code = kv_snapshot_take(space->db, &snapshot, status);
    for (size_t i = 0; code != KV_OK && i < count; i++)
        codes[i] = code;
    if (code != KV_OK)
        return code;
    kv_read then = *read;
    then.snapshot = snapshot;
    code = get_each(space, &then, count, keys, out, codes, status);
    kv_snapshot_release(snapshot);
    return code;
}

kv_code kv_get_many(kv_space *space, const kv_read *read, size_t count, const kv_slice *keys,
                    kv_value *out, kv_code *codes, kv_status *status)
{
    const kv_driver *driver = space->db->driver;
    kv_code code = KV_OK;
    bool native = driver->get_many != NULL && space->prefix_size == 0;
    for (size_t i = 0; i < count; i++) {
        codes[i] = kv_check_key(driver, keys[i], status);
        if (codes[i] != KV_OK && code == KV_OK)
            code = codes[i];
    }
    if (code != KV_OK || count == 0)
        return code;

    if (read == NULL)
        read = &plain_read;
    code = (native ? driver->get_many : get_many_emulated)(space, read, count, keys, out, codes,
                                                           status);
    for (size_t i = 0; code != KV_OK && i < count; i++)
        kv_value_release(&out[i]);
    return code;
}

/* ---- Snapshots ----------------------------------------------------------- */

kv_code kv_snapshot_take(kv_db *db, kv_snapshot **out, kv_status *status)
{
    *out = NULL;
    kv_snapshot *snapshot = calloc(1, db->driver->snapshot_size);
    if (snapshot == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a snapshot");
    snapshot->db = db;
    kv_code code = db->driver->snapshot_take(snapshot, status);
    if (code != KV_OK) {
        free(snapshot);
        return code;
    }
    atomic_fetch_add_explicit(&db->core->snapshots, 1, memory_order_relaxed);
    *out = snapshot;
    return KV_OK;
}

void kv_snapshot_release(kv_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    struct kv_core *core = snapshot->db->core;
    snapshot->db->driver->snapshot_release(snapshot);
    free(snapshot);
    atomic_fetch_sub_explicit(&core->snapshots, 1, memory_order_release);
}

/* ---- Iterators ----------------------------------------------------------- */

kv_code kv_iter_open(kv_space *space, const kv_read *read, const kv_range *range, kv_iter **out,
                     kv_status *status)
{
    *out = NULL;
    struct kv_full_range full;
    kv_code code = kv_full_range_init(&full, space, range, status);
    if (code != KV_OK)
        return code;

    kv_status local;
    kv_status_start(&local);
    kv_iter *iter = kv_driver_iter_open(space, read, &full.range, &local);
    kv_full_range_clear(&full);
    if (iter == NULL)
        return kv_fail(status, local.code, "%s", local.message);
    atomic_fetch_add_explicit(&space->core->iterators, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&space->db->core->iterators, 1, memory_order_relaxed);
    *out = iter;
    return KV_OK;
}

void kv_iter_close(kv_iter *iter)
{
    if (iter == NULL)
        return;
    kv_space *space = iter->space;
    struct kv_core *core = space->db->core;
    kv_driver_iter_close(iter);
    atomic_fetch_sub_explicit(&space->core->iterators, 1, memory_order_release);
    atomic_fetch_sub_explicit(&core->iterators, 1, memory_order_release);
}

/* Settle where a move has led: the caller's key has no prefix, and there is
 * neither key nor value off an entry. */
static inline bool settle(kv_iter *iter, bool on)
{
    iter->on = on;
    if (on) {
        iter->key.data = (const unsigned char *)iter->key.data + iter->prefix_size;
        iter->key.size -= iter->prefix_size;
    } else {
        iter->key = iter->value = kv_bytes(NULL, 0);
    }
    return on;
}

static inline bool has_failed(const kv_iter *iter)
{
    return iter->status.code != KV_OK;
}

bool kv_iter_first(kv_iter *iter)
{
    return settle(iter, !has_failed(iter) && iter->driver->iter_first(iter));
}

bool kv_iter_last(kv_iter *iter)
{
    return settle(iter, !has_failed(iter) && iter->driver->iter_last(iter));
}

bool kv_iter_next(kv_iter *iter)
{
    return iter->on && settle(iter, iter->driver->iter_next(iter));
}

bool kv_iter_prev(kv_iter *iter)
{
    return iter->on && settle(iter, iter->driver->iter_prev(iter));
}

/* The last entry <= key, where the driver has no such call. */
static bool seek_for_prev_emulated(kv_iter *iter, kv_slice key)
{
    const kv_driver *driver = iter->driver;
    if (driver->iter_seek(iter, key))
        return kv_compare(iter->key, key) == 0 || driver->iter_prev(iter);
    return !has_failed(iter) && driver->iter_last(iter);
}

/* Seek to a key that may be empty or longer than any stored one. */
static bool seek(kv_iter *iter, kv_slice key, bool (*move)(kv_iter *iter, kv_slice key))
{
    if (has_failed(iter))
        return settle(iter, false);
    if (iter->prefix_size == 0)
        return settle(iter, move(iter, key));

    struct kv_full_key full;
    bool on = false;
    if (kv_full_key_init(&full, iter->space, key, &iter->status) == KV_OK)
        on = move(iter, full.key);
    kv_full_key_clear(&full);
    return settle(iter, on);
}

bool kv_iter_seek(kv_iter *iter, kv_slice key)
{
    return seek(iter, key, iter->driver->iter_seek);
}

bool kv_iter_seek_for_prev(kv_iter *iter, kv_slice key)
{
    bool native = iter->driver->iter_seek_for_prev != NULL;
    return seek(iter, key, native ? iter->driver->iter_seek_for_prev : seek_for_prev_emulated);
}

kv_slice kv_iter_key(const kv_iter *iter)
{
    return iter->key;
}

kv_slice kv_iter_value(const kv_iter *iter)
{
    return iter->value;
}

kv_code kv_iter_status(kv_iter *iter, kv_status *status)
{
    if (!has_failed(iter) && iter->driver->iter_verify != NULL)
        iter->driver->iter_verify(iter);
    if (!has_failed(iter))
        return KV_OK;
    return kv_fail(status, iter->status.code, "%s", iter->status.message);
}
