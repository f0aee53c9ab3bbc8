/*
 * txn_lock.c - who may touch what: a striped hash table of locks with queues.
 *
 *     stripe ──> bucket ──> lock (space, key) ──> holders: grant(txn, mode) ──> ...
 *                                             └─> queue:   txn ──> txn ──> ...
 *
 * The queue is first come, first served, so nobody starves; one that holds the
 * lock already and wants more goes to its head. A lock is awaited mostly because its
 * holder lost its processor: so who waits lets others run a few times before it sleeps,
 * which spares both the sleep and the wake. Sleepers are woken when the stripe is free
 * again.
 *
 * Deadlock. Who joins a queue marks all that hold the lock or stand in line before it
 * as awaited. A circle of waits closes when its last member joins a queue; that one
 * is marked by then, so only a transaction that is both marked and about to sleep
 * looks for a circle. It looks with every stripe held, so what it sees is exact: no
 * false deadlocks, and one victim per circle, the one that looked first.
 */
#include "kv/txn_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
        if (kv_mutex_init(&table->stripes[i].mutex) == 0)
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

void lock_owner_free(struct lock_owner *owner)
{
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

/* Those to be woken once the stripe is free. Their memory may be gone by then, which
 * does no harm: the kernel is given an address, and a wake too many is slept over. */
struct lock_wakes {
    _Atomic uint32_t *states[LOCK_WAKES_MAX];
    size_t count;
};

static void wakes_run(struct lock_wakes *wakes)
{
    for (size_t i = 0; i < wakes->count; i++)
        syscall(SYS_futex, wakes->states[i], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    wakes->count = 0;
}

/* Grant from the head of the queue what now can be. A waiter has its grant (of mode
 * NONE, or what it held before) already, so this needs no memory. */
static void queue_advance(struct lock *lock, struct lock_wakes *wakes)
{
    while (lock->queue != NULL) {
        kv_txn *txn = lock->queue;
        struct lock_owner *owner = &txn->locks;
        if (!lock_allows(lock, txn, owner->waiting_mode))
            return;
        lock->queue = owner->next_in_queue;
        grant_of(lock, txn)->mode = owner->waiting_mode;
        owner->waiting_for = NULL;
        _Atomic uint32_t *state = &owner->wait_state;
        if (atomic_exchange(state, WAIT_GRANTED) != WAIT_ASLEEP)
            continue;
        if (wakes->count == LOCK_WAKES_MAX)
            wakes_run(wakes);
        wakes->states[wakes->count++] = state;
    }
}

static void queue_join(struct lock *lock, kv_txn *txn, enum lock_mode mode, bool first)
{
    kv_txn **link = &lock->queue;
    while (!first && *link != NULL)
        link = &(*link)->locks.next_in_queue;
    txn->locks.next_in_queue = *link;
    *link = txn;
    /* who stands in line has a grant as well */
    for (struct lock_grant *grant = lock->holders; grant != NULL; grant = grant->next)
        if (grant->txn != txn)
            atomic_store(&grant->txn->locks.awaited, true);
    txn->locks.waiting_for = lock;
    txn->locks.waiting_mode = mode;
    atomic_store(&txn->locks.wait_state, WAIT_AWAKE);
}

static void queue_leave(struct lock *lock, kv_txn *txn, struct lock_wakes *wakes)
{
    kv_txn **link = &lock->queue;
    while (*link != txn)
        link = &(*link)->locks.next_in_queue;
    *link = txn->locks.next_in_queue;
    txn->locks.waiting_for = NULL;
    if (grant_of(lock, txn)->mode == LOCK_NONE)
        grant_drop(lock, txn);
    queue_advance(lock, wakes);
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
    struct lock_wakes wakes = { .count = 0 };
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        pthread_mutex_lock(&table->stripes[i].mutex);
    table->visit++;
    bool found = waits_reach(table, txn, txn, 0);
    if (found)
        queue_leave(txn->locks.waiting_for, txn, &wakes);
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        pthread_mutex_unlock(&table->stripes[i].mutex);
    wakes_run(&wakes);
    return found;
}

/* ---- Taking --------------------------------------------------------------- */

static struct timespec moment_after(uint64_t delay_ms)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    moment.tv_sec += (time_t)(delay_ms / 1000);
    moment.tv_nsec += (long)(delay_ms % 1000) * 1000000;
    if (moment.tv_nsec >= 1000000000) {
        moment.tv_nsec -= 1000000000;
        moment.tv_sec++;
    }
    return moment;
}

static bool is_granted(struct lock_owner *owner)
{
    return atomic_load_explicit(&owner->wait_state, memory_order_acquire) == WAIT_GRANTED;
}

/* Sleep until granted or `until`; true: granted. */
static bool wait_asleep(struct lock_owner *owner, const struct timespec *until)
{
    uint32_t awake = WAIT_AWAKE;
    atomic_compare_exchange_strong(&owner->wait_state, &awake, WAIT_ASLEEP);
    while (!is_granted(owner)) {
        long failed = syscall(SYS_futex, &owner->wait_state, FUTEX_WAIT_BITSET_PRIVATE,
                              WAIT_ASLEEP, until, NULL, FUTEX_BITSET_MATCH_ANY);
        if (failed != 0 && errno == ETIMEDOUT)
            break;
    }
    return is_granted(owner);
}

/* Leave the queue, unless granted at the last moment. */
static bool wait_give_up(kv_txn *txn, struct lock *lock, struct lock_stripe *stripe)
{
    struct lock_wakes wakes = { .count = 0 };
    pthread_mutex_lock(&stripe->mutex);
    bool granted = is_granted(&txn->locks);
    if (!granted)
        queue_leave(lock, txn, &wakes);
    pthread_mutex_unlock(&stripe->mutex);
    wakes_run(&wakes);
    return !granted;
}

/* Wait, holding no stripe, until granted. */
static kv_code lock_wait(kv_txn *txn, struct lock *lock, struct lock_stripe *stripe,
                         kv_status *status)
{
    struct lock_table *table = &txn->manager->locks;
    struct lock_owner *owner = &txn->locks;
    atomic_fetch_add_explicit(&table->waits, 1, memory_order_relaxed);
    /* Each of two that join at once has marked the other before it looks here. */
    if (atomic_load(&owner->awaited) && deadlock_break(table, txn)) {
        atomic_fetch_add_explicit(&table->deadlocks, 1, memory_order_relaxed);
        return kv_fail(status, KV_DEADLOCK, "the wait for a lock would never end");
    }
    for (unsigned i = 0; i < LOCK_YIELDS; i++) {
        if (is_granted(owner))
            return KV_OK;
        sched_yield();
    }
    uint32_t timeout_ms = txn->manager->options.timeout_ms;
    const struct timespec deadline = moment_after(timeout_ms);
    if (wait_asleep(owner, &deadline) || !wait_give_up(txn, lock, stripe))
        return KV_OK;
    atomic_fetch_add_explicit(&table->timeouts, 1, memory_order_relaxed);
    return kv_fail(status, KV_TIMEOUT, "waited %u ms for a lock", timeout_ms);
}

/* What `lock_try` came to. */
enum lock_answer { LOCK_HELD, LOCK_QUEUED, LOCK_NO_MEMORY };

/* With the stripe held: take the lock, or join its queue. Room for a record and, on
 * top of the last, the record itself are the owner's from here on. */
static enum lock_answer lock_try(kv_txn *txn, struct lock *lock, enum lock_mode mode)
{
    struct lock_owner *owner = &txn->locks;
    struct lock_grant *grant = grant_of(lock, txn);
    enum lock_mode before = grant == NULL ? LOCK_NONE : grant->mode;
    enum lock_mode wanted = joined[before][mode];
    if (wanted == before)
        return LOCK_HELD;
    if (txn_grow(&owner->records, owner->count, &owner->room, sizeof(owner->records[0]),
                 NULL) != KV_OK ||
        (grant == NULL && (grant = grant_make(lock, txn)) == NULL)) {
        lock_retire(lock);
        return LOCK_NO_MEMORY;
    }

    owner->records[owner->count] = (struct lock_record){ lock, before, wanted };
    if ((before != LOCK_NONE || lock->queue == NULL) && lock_allows(lock, txn, wanted)) {
        grant->mode = wanted;
        owner->count++;
        return LOCK_HELD;
    }
    queue_join(lock, txn, wanted, before != LOCK_NONE);
    return LOCK_QUEUED;
}

/*
 * Is the lock held already, as far as the owner can tell by itself? Most transactions
 * stay in one space, and write the key that they have just read. What a record says of
 * the newest lock is how it stands: nobody else changes what is held.
 */
static bool is_held(const struct lock_owner *owner, const kv_space *space, kv_slice key,
                    enum lock_mode mode)
{
    if (key.size == 0)
        return owner->space == space && joined[owner->space_mode][mode] == owner->space_mode;
    if (owner->count == 0)
        return false;
    const struct lock_record *last = &owner->records[owner->count - 1];
    const struct lock *lock = last->lock;
    return lock->space == space && joined[last->after][mode] == last->after &&
           kv_compare(kv_bytes(lock->key, lock->key_size), key) == 0;
}

static void note_space(struct lock_owner *owner, kv_space *space, enum lock_mode mode)
{
    owner->space_mode = owner->space == space ? joined[owner->space_mode][mode] : mode;
    owner->space = space;
}

kv_code lock_take(kv_txn *txn, kv_space *space, kv_slice key, enum lock_mode mode,
                  kv_status *status)
{
    if (is_held(&txn->locks, space, key, mode))
        return KV_OK;
    uint64_t hash = txn_hash(space, key);
    struct lock_stripe *stripe = &txn->manager->locks.stripes[(hash >> 32) % LOCK_STRIPES];
    struct lock **bucket = &stripe->buckets[(hash >> 40) % LOCK_BUCKETS];

    pthread_mutex_lock(&stripe->mutex);
    struct lock *lock = lock_find(bucket, space, key);
    if (lock == NULL)
        lock = lock_make(stripe, bucket, space, key);
    enum lock_answer answer = lock == NULL ? LOCK_NO_MEMORY : lock_try(txn, lock, mode);
    pthread_mutex_unlock(&stripe->mutex);
    kv_code code = KV_OK;
    if (answer == LOCK_NO_MEMORY)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a lock");
    if (answer == LOCK_QUEUED) {
        code = lock_wait(txn, lock, stripe, status);
        txn->locks.count += code == KV_OK;
    }
    if (code == KV_OK && key.size == 0)
        note_space(&txn->locks, space, mode);
    return code;
}

void lock_release_to(kv_txn *txn, size_t count)
{
    struct lock_owner *owner = &txn->locks;
    struct lock_wakes wakes = { .count = 0 };
    owner->space = NULL; /* its lock may be among those that go */
    while (owner->count > count) {
        struct lock_record record = owner->records[--owner->count];
        struct lock *lock = record.lock;
        struct lock_stripe *stripe = lock->stripe;
        pthread_mutex_lock(&stripe->mutex);
        if (record.before == LOCK_NONE)
            grant_drop(lock, txn);
        else
            grant_of(lock, txn)->mode = record.before;
        queue_advance(lock, &wakes);
        lock_retire(lock);
        pthread_mutex_unlock(&stripe->mutex);
    }
    wakes_run(&wakes);
    if (count == 0)
        atomic_store_explicit(&owner->awaited, false, memory_order_relaxed);
}
