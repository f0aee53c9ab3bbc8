/*
 * txn_lock.c - who may touch what: a striped hash table of locks with queues.
 *
 *     stripe ──> bucket ──> lock (space, key) ──> holders: grant(txn, mode) ──> ...
 *                                             └─> queue:   txn ──> txn ──> ...
 *
 * The queue is first come, first served, so nobody starves; one that holds the
 * lock already and wants more goes to its head. A wait is looked at for deadlock
 * only when it has lasted LOCK_DETECT_AFTER_MS, with every stripe held, so what
 * the search sees is exact: no false deadlocks, and one victim per circle, the
 * one that looked.
 */
#include "kv/txn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_SIZE_INLINE = 64 };

struct lock {
    struct lock *next; /* in the bucket, or among the spares */
    struct lock_stripe *stripe;
    struct lock **bucket;
    kv_space *space;
    char *key; /* `room`, or memory of its own when longer */
    size_t key_size;
    struct lock_grant *holders;
    kv_txn *queue;
    char room[KEY_SIZE_INLINE];
};

/* Rows: held; columns: wanted. */
static const bool compatible[LOCK_MODES][LOCK_MODES] = {
    /*             NONE   IS     IX     S      SIX    X */
    [LOCK_NONE] = { true, true, true, true, true, true },
    [LOCK_IS] = { true, true, true, true, true, false },
    [LOCK_IX] = { true, true, true, false, false, false },
    [LOCK_S] = { true, true, false, true, false, false },
    [LOCK_SIX] = { true, true, false, false, false, false },
    [LOCK_X] = { true, false, false, false, false, false },
};

/* The weakest mode that grants both. */
static const enum lock_mode joined[LOCK_MODES][LOCK_MODES] = {
    [LOCK_NONE] = { LOCK_NONE, LOCK_IS, LOCK_IX, LOCK_S, LOCK_SIX, LOCK_X },
    [LOCK_IS] = { LOCK_IS, LOCK_IS, LOCK_IX, LOCK_S, LOCK_SIX, LOCK_X },
    [LOCK_IX] = { LOCK_IX, LOCK_IX, LOCK_IX, LOCK_SIX, LOCK_SIX, LOCK_X },
    [LOCK_S] = { LOCK_S, LOCK_S, LOCK_SIX, LOCK_S, LOCK_SIX, LOCK_X },
    [LOCK_SIX] = { LOCK_SIX, LOCK_SIX, LOCK_SIX, LOCK_SIX, LOCK_SIX, LOCK_X },
    [LOCK_X] = { LOCK_X, LOCK_X, LOCK_X, LOCK_X, LOCK_X, LOCK_X },
};

/* ---- Tables, owners ------------------------------------------------------- */

kv_code lock_table_init(struct lock_table *table, kv_status *status)
{
    *table = (struct lock_table){ 0 };
    for (size_t i = 0; i < LOCK_STRIPES; i++) {
        if (pthread_mutex_init(&table->stripes[i].mutex, NULL) == 0)
            continue;
        while (i-- > 0)
            pthread_mutex_destroy(&table->stripes[i].mutex);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a lock table");
    }
    return KV_OK;
}

static void lock_free(struct lock *lock)
{
    if (lock->key != lock->room)
        free(lock->key);
    free(lock);
}

void lock_table_free(struct lock_table *table)
{
    for (size_t i = 0; i < LOCK_STRIPES; i++) {
        struct lock_stripe *stripe = &table->stripes[i];
        while (stripe->spare_locks != NULL) {
            struct lock *lock = stripe->spare_locks;
            stripe->spare_locks = lock->next;
            lock_free(lock);
        }
        while (stripe->spare_grants != NULL) {
            struct lock_grant *grant = stripe->spare_grants;
            stripe->spare_grants = grant->next;
            free(grant);
        }
        pthread_mutex_destroy(&stripe->mutex);
    }
}

kv_code lock_owner_init(struct lock_owner *owner, kv_status *status)
{
    *owner = (struct lock_owner){ 0 };
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a condition variable");
    int failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (failed == 0)
        failed = pthread_cond_init(&owner->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    return failed == 0 ? KV_OK
                       : kv_fail(status, KV_NO_MEMORY, "no memory for a condition variable");
}

void lock_owner_free(struct lock_owner *owner)
{
    pthread_cond_destroy(&owner->wake);
    free(owner->records);
}

/* ---- Locks of a stripe; its mutex is held --------------------------------- */

static struct lock *lock_find(struct lock *const *bucket, const kv_space *space, kv_slice key)
{
    for (struct lock *lock = *bucket; lock != NULL; lock = lock->next)
        if (lock->space == space && kv_compare(kv_bytes(lock->key, lock->key_size), key) == 0)
            return lock;
    return NULL;
}

static struct lock *lock_make(struct lock_stripe *stripe, struct lock **bucket, kv_space *space,
                              kv_slice key)
{
    struct lock *lock = stripe->spare_locks;
    if (lock != NULL) {
        stripe->spare_locks = lock->next;
        stripe->spare_lock_count--;
    } else if ((lock = malloc(sizeof(*lock))) == NULL) {
        return NULL;
    }
    lock->key = key.size <= KEY_SIZE_INLINE ? lock->room : malloc(key.size);
    if (lock->key == NULL) {
        free(lock);
        return NULL;
    }
    if (key.size > 0)
        memcpy(lock->key, key.data, key.size);
    lock->key_size = key.size;
    lock->space = space;
    lock->stripe = stripe;
    lock->bucket = bucket;
    lock->holders = NULL;
    lock->queue = NULL;
    lock->next = *bucket;
    *bucket = lock;
    return lock;
}

/* Take a lock that nobody holds or awaits out of the table. */
static void lock_retire(struct lock *lock)
{
    if (lock->holders != NULL || lock->queue != NULL)
        return;
    struct lock **link = lock->bucket;
    while (*link != lock)
        link = &(*link)->next;
    *link = lock->next;

    struct lock_stripe *stripe = lock->stripe;
    if (stripe->spare_lock_count == LOCK_SPARES_MAX) {
        lock_free(lock);
        return;
    }
    if (lock->key != lock->room)
        free(lock->key);
    lock->key = lock->room;
    lock->next = stripe->spare_locks;
    stripe->spare_locks = lock;
    stripe->spare_lock_count++;
}

static struct lock_grant *grant_of(const struct lock *lock, const kv_txn *txn)
{
    struct lock_grant *grant = lock->holders;
    while (grant != NULL && grant->txn != txn)
        grant = grant->next;
    return grant;
}

static bool lock_allows(const struct lock *lock, const kv_txn *txn, enum lock_mode mode)
{
    for (const struct lock_grant *grant = lock->holders; grant != NULL; grant = grant->next)
        if (grant->txn != txn && !compatible[grant->mode][mode])
            return false;
    return true;
}

static struct lock_grant *grant_make(struct lock *lock, kv_txn *txn)
{
    struct lock_stripe *stripe = lock->stripe;
    struct lock_grant *grant = stripe->spare_grants;
    if (grant != NULL) {
        stripe->spare_grants = grant->next;
        stripe->spare_grant_count--;
    } else if ((grant = malloc(sizeof(*grant))) == NULL) {
        return NULL;
    }
    *grant = (struct lock_grant){ .txn = txn, .next = lock->holders, .mode = LOCK_NONE };
    lock->holders = grant;
    return grant;
}

static void grant_drop(struct lock *lock, const kv_txn *txn)
{
    struct lock_grant **link = &lock->holders;
    while ((*link)->txn != txn)
        link = &(*link)->next;
    struct lock_grant *grant = *link;
    *link = grant->next;

    struct lock_stripe *stripe = lock->stripe;
    if (stripe->spare_grant_count == LOCK_SPARES_MAX) {
        free(grant);
        return;
    }
    grant->next = stripe->spare_grants;
    stripe->spare_grants = grant;
    stripe->spare_grant_count++;
}

/* Grant from the head of the queue what now can be. A waiter has its grant (of mode
 * NONE, or what it held before) already, so this needs no memory. */
static void queue_advance(struct lock *lock)
{
    while (lock->queue != NULL) {
        kv_txn *txn = lock->queue;
        struct lock_owner *owner = &txn->locks;
        if (!lock_allows(lock, txn, owner->waiting_mode))
            return;
        lock->queue = owner->next_in_queue;
        grant_of(lock, txn)->mode = owner->waiting_mode;
        owner->waiting_for = NULL;
        owner->granted = true;
        pthread_cond_signal(&owner->wake);
    }
}

static void queue_join(struct lock *lock, kv_txn *txn, enum lock_mode mode, bool first)
{
    kv_txn **link = &lock->queue;
    while (!first && *link != NULL)
        link = &(*link)->locks.next_in_queue;
    txn->locks.next_in_queue = *link;
    *link = txn;
    txn->locks.waiting_for = lock;
    txn->locks.waiting_mode = mode;
    txn->locks.granted = false;
}

static void queue_leave(struct lock *lock, kv_txn *txn)
{
    kv_txn **link = &lock->queue;
    while (*link != txn)
        link = &(*link)->locks.next_in_queue;
    *link = txn->locks.next_in_queue;
    txn->locks.waiting_for = NULL;
    if (grant_of(lock, txn)->mode == LOCK_NONE)
        grant_drop(lock, txn);
    queue_advance(lock);
    lock_retire(lock);
}

/* ---- Deadlock; every stripe's mutex is held ------------------------------- */

static bool waits_reach(struct lock_table *table, kv_txn *txn, const kv_txn *target,
                        unsigned depth)
{
    const struct lock *lock = txn->locks.waiting_for;
    if (lock == NULL || depth == LOCK_WAIT_DEPTH_MAX)
        return false;
    if (txn->locks.visited == table->visit)
        return false;
    txn->locks.visited = table->visit;

    for (const struct lock_grant *grant = lock->holders; grant != NULL; grant = grant->next) {
        if (grant->txn == txn || compatible[grant->mode][txn->locks.waiting_mode])
            continue;
        if (grant->txn == target || waits_reach(table, grant->txn, target, depth + 1))
            return true;
    }
    for (kv_txn *ahead = lock->queue; ahead != txn; ahead = ahead->locks.next_in_queue)
        if (ahead == target || waits_reach(table, ahead, target, depth + 1))
            return true;
    return false;
}

/* Is `txn`, still waiting, part of a circle? Then it leaves its queue. */
static bool deadlock_break(struct lock_table *table, kv_txn *txn)
{
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        pthread_mutex_lock(&table->stripes[i].mutex);
    table->visit++;
    bool found = waits_reach(table, txn, txn, 0);
    if (found)
        queue_leave(txn->locks.waiting_for, txn);
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        pthread_mutex_unlock(&table->stripes[i].mutex);
    return found;
}

/* ---- Taking --------------------------------------------------------------- */

static struct timespec moment_after(struct timespec from, uint64_t delay_ms)
{
    from.tv_sec += (time_t)(delay_ms / 1000);
    from.tv_nsec += (long)(delay_ms % 1000) * 1000000;
    if (from.tv_nsec >= 1000000000) {
        from.tv_nsec -= 1000000000;
        from.tv_sec++;
    }
    return from;
}

static bool moment_before(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* Wait, with the stripe held, until granted; the stripe is held again after. */
static kv_code lock_wait(kv_txn *txn, struct lock *lock, struct lock_stripe *stripe,
                         kv_status *status)
{
    struct lock_table *table = &txn->manager->locks;
    struct lock_owner *owner = &txn->locks;
    uint32_t timeout_ms = txn->manager->options.timeout_ms;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const struct timespec deadline = moment_after(now, timeout_ms);
    uint64_t pause_ms = LOCK_DETECT_AFTER_MS;

    atomic_fetch_add_explicit(&table->waits, 1, memory_order_relaxed);
    while (!owner->granted) {
        struct timespec until = moment_after(now, pause_ms);
        if (moment_before(deadline, until))
            until = deadline;
        if (pthread_cond_timedwait(&owner->wake, &stripe->mutex, &until) != ETIMEDOUT ||
            owner->granted)
            continue;

        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!moment_before(now, deadline)) {
            queue_leave(lock, txn);
            atomic_fetch_add_explicit(&table->timeouts, 1, memory_order_relaxed);
            return kv_fail(status, KV_TIMEOUT, "waited %u ms for a lock", timeout_ms);
        }
        pthread_mutex_unlock(&stripe->mutex);
        bool dead = deadlock_break(table, txn);
        pthread_mutex_lock(&stripe->mutex);
        if (dead) {
            atomic_fetch_add_explicit(&table->deadlocks, 1, memory_order_relaxed);
            return kv_fail(status, KV_DEADLOCK, "the wait for a lock would never end");
        }
        pause_ms *= 2; /* a circle closes when its last member starts to wait, and that
                          one looks after LOCK_DETECT_AFTER_MS */
    }
    return KV_OK;
}

static kv_code lock_take_held(kv_txn *txn, struct lock *lock, enum lock_mode mode,
                              kv_status *status)
{
    struct lock_stripe *stripe = lock->stripe;
    struct lock_owner *owner = &txn->locks;
    struct lock_grant *grant = grant_of(lock, txn);
    enum lock_mode before = grant == NULL ? LOCK_NONE : grant->mode;
    enum lock_mode wanted = joined[before][mode];
    if (wanted == before)
        return KV_OK;

    kv_code code = txn_grow(&owner->records, owner->count, &owner->room,
                            sizeof(owner->records[0]), status);
    if (code == KV_OK && grant == NULL && (grant = grant_make(lock, txn)) == NULL)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a lock");
    if (code != KV_OK) {
        lock_retire(lock);
        return code;
    }

    bool queued = before == LOCK_NONE && lock->queue != NULL;
    if (!queued && lock_allows(lock, txn, wanted)) {
        grant->mode = wanted;
    } else {
        queue_join(lock, txn, wanted, before != LOCK_NONE);
        code = lock_wait(txn, lock, stripe, status);
        if (code != KV_OK)
            return code;
    }
    owner->records[owner->count++] = (struct lock_record){ lock, before };
    return KV_OK;
}

kv_code lock_take(kv_txn *txn, kv_space *space, kv_slice key, enum lock_mode mode,
                  kv_status *status)
{
    uint64_t hash = txn_hash(space, key);
    struct lock_stripe *stripe = &txn->manager->locks.stripes[(hash >> 32) % LOCK_STRIPES];
    struct lock **bucket = &stripe->buckets[(hash >> 40) % LOCK_BUCKETS];

    pthread_mutex_lock(&stripe->mutex);
    struct lock *lock = lock_find(bucket, space, key);
    if (lock == NULL)
        lock = lock_make(stripe, bucket, space, key);
    kv_code code = lock == NULL ? kv_fail(status, KV_NO_MEMORY, "no memory for a lock")
                                : lock_take_held(txn, lock, mode, status);
    pthread_mutex_unlock(&stripe->mutex);
    return code;
}

void lock_release_to(kv_txn *txn, size_t count)
{
    struct lock_owner *owner = &txn->locks;
    while (owner->count > count) {
        struct lock_record record = owner->records[--owner->count];
        struct lock *lock = record.lock;
        struct lock_stripe *stripe = lock->stripe;
        pthread_mutex_lock(&stripe->mutex);
        if (record.before == LOCK_NONE)
            grant_drop(lock, txn);
        else
            grant_of(lock, txn)->mode = record.before;
        queue_advance(lock);
        lock_retire(lock);
        pthread_mutex_unlock(&stripe->mutex);
    }
}
