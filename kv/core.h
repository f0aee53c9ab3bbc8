/*
 * core.h - what the files of kv/ share: the state behind every database and
 * space, and the rules that all calls pass through.
 */
#ifndef KV_CORE_H
#define KV_CORE_H

#include "kv/driver.h"
#include "kv/folder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct kv_core {
    kv_options *options; /* our own copy, for checkpoints */
    struct kv_folder folder;
    atomic_size_t iterators, snapshots, batches; /* live handles */
    atomic_bool refuses_writes;
    pthread_mutex_t refusal_mutex; /* guards the change to refusing */
    kv_status refusal;             /* why, once refuses_writes is set */
    pthread_mutex_t mutex;         /* guards spaces and what makes or drops them */
    kv_space **spaces;             /* opened so far */
    size_t space_count;
    atomic_uint drops; /* spaces dropped so far */

    /* Held shared by every write, and alone by a commit that first looks up
     * which keys a range holds; unused where the driver deletes ranges. */
    pthread_rwlock_t gate;
};

struct kv_space_core {
    atomic_size_t iterators;
    unsigned id; /* behind the prefix, where spaces are not native */
    char name[KV_SPACE_NAME_SIZE_MAX + 1];
};

/* Whether a driver could be called so; of anything else in a file it is damage,
 * and not fit to be shown. */
bool kv_driver_is_name(const char *name);

/* The whole of a space, or of a database without native spaces. */
extern const kv_range kv_everything;

/*
 * A key as the driver takes it: the space's prefix, then the key. Short keys
 * stay on the stack; only a long one on a driver without native spaces costs
 * an allocation.
 */
enum { KV_KEY_STACK_SIZE = 1024 };
struct kv_full_key {
    kv_slice key;
    unsigned char *heap;
    unsigned char stack[KV_KEY_STACK_SIZE];
};

kv_code kv_full_key_allocate(struct kv_full_key *full, size_t size, kv_status *status);
void kv_full_key_free(struct kv_full_key *full);

static inline kv_code kv_full_key_init(struct kv_full_key *full, const kv_space *space,
                                       kv_slice key, kv_status *status)
{
    full->key = key;
    full->heap = NULL;
    if (space->prefix_size == 0)
        return KV_OK;

    unsigned char *bytes = full->stack;
    size_t size = space->prefix_size + key.size;
    if (size > sizeof(full->stack)) {
        kv_code code = kv_full_key_allocate(full, size, status);
        if (code != KV_OK)
            return code;
        bytes = full->heap;
    }
    bytes[0] = space->prefix[0];
    bytes[1] = space->prefix[1]; /* the key goes over it where the prefix is short */
    if (key.size > 0)
        memcpy(bytes + space->prefix_size, key.data, key.size);
    full->key = kv_bytes(bytes, size);
    return KV_OK;
}

static inline void kv_full_key_clear(struct kv_full_key *full)
{
    if (full->heap != NULL)
        kv_full_key_free(full);
}

/* A range as the driver takes it, in right order; NULL is the whole space. */
struct kv_full_range {
    kv_range range;
    struct kv_full_key first, limit;
    unsigned char end[KV_SPACE_PREFIX_SIZE_MAX];
};

kv_code kv_full_range_init(struct kv_full_range *full, const kv_space *space,
                           const kv_range *range, kv_status *status);
void kv_full_range_clear(struct kv_full_range *full);

/* Refuse an empty or over-long key or value. */
kv_code kv_refuse_key(const kv_driver *driver, kv_slice key, kv_status *status);
kv_code kv_refuse_value(const kv_driver *driver, kv_slice value, kv_status *status);

static inline kv_code kv_check_key(const kv_driver *driver, kv_slice key, kv_status *status)
{
    if (key.size - 1 < driver->key_size_max) /* an empty key wraps around */
        return KV_OK;
    return kv_refuse_key(driver, key, status);
}

static inline kv_code kv_check_value(const kv_driver *driver, kv_slice value, kv_status *status)
{
    if (value.size <= driver->value_size_max)
        return KV_OK;
    return kv_refuse_value(driver, value, status);
}

/* Answer why the database refuses writes. */
kv_code kv_refuse_write(const kv_db *db, kv_status *status);

static inline kv_code kv_check_write(const kv_db *db, kv_status *status)
{
    if (!atomic_load_explicit(&db->core->refuses_writes, memory_order_acquire))
        return KV_OK;
    return kv_refuse_write(db, status);
}

/* Refuse writes from now on, for the reason in `fault`; the first one stays. */
void kv_core_refuse(kv_db *db, const kv_status *fault);

/* Hand the outcome of a write, whose message is in `fault`, to the caller; a
 * failed write or a full disk turns the database read-only. */
kv_code kv_write_failed(kv_db *db, const kv_status *fault, kv_status *status);

static inline bool kv_db_has_gate(const kv_db *db)
{
    return db->driver->batch_delete_range == NULL;
}

static inline void kv_status_start(kv_status *status)
{
    status->code = KV_OK;
    status->message[0] = '\0';
}

/* Spaces without the driver's help, in the records of prefix 0: see spaces.c. */
kv_code kv_spaces_recover(kv_db *db, kv_status *status);
void kv_spaces_close(kv_db *db);

/* In what follows `status` is not NULL, and a NULL handle has its code there. */

/* One driver batch made and destroyed by the core, uncounted. */
kv_batch *kv_driver_batch_open(kv_db *db, kv_status *status);
void kv_driver_batch_close(kv_batch *batch);

/* One driver iterator opened and closed by the core, uncounted; `range` is
 * already the driver's. */
kv_iter *kv_driver_iter_open(kv_space *space, const kv_read *read, const kv_range *range,
                             kv_status *status);
void kv_driver_iter_close(kv_iter *iter);

/* Commit a batch that has no ranges, through the gate. */
kv_code kv_driver_commit(kv_batch *batch, unsigned flags, kv_status *status);

void kv_ranges_free(struct kv_ranges *ranges);

/* Delete the driver's range `range` in batches of bounded size. */
kv_code kv_delete_in_steps(kv_space *space, const kv_range *range, kv_status *status);

/* A copy with another folder. */
kv_code kv_options_copy(const kv_options *options, const char *dir, kv_options **out,
                        kv_status *status);

#endif /* KV_CORE_H */
