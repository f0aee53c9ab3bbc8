/*
 * upkeep.c - the removal of records that no kept version needs.
 *
 * A thread that takes bounded steps. It removes history until versions that are
 * not kept any more, and all records of dropped maps that no kept version has.
 * Both are already invisible, so a step may stop, fail or be killed anywhere:
 * what is left is found again. A fault ends the work until there is new cause.
 */
#include "vmap/digest.h"
#include "vmap/state_private.h"

#include <string.h>

/* Take a step: gather what is garbage from `from` on, and where to go on. */
static kv_code remove_history(struct state *self, kv_batch *batch, struct vtree_buffer *from,
                              uint64_t oldest, bool *end)
{
    kv_iter *iter;
    kv_read read = { .no_cache = true };
    kv_code code = kv_iter_open(self->store.history, &read, NULL, &iter, NULL);
    if (code != KV_OK)
        return code;
    bool on =
        from->size == 0 ? kv_iter_first(iter) : kv_iter_seek(iter, vtree_buffer_slice(from));
    for (size_t seen = 0; on && seen < STATE_STEP_RECORDS; seen++, on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        uint64_t until = 0;
        if (key.size > sizeof(until))
            memcpy(&until, (const uint8_t *)key.data + key.size - sizeof(until), sizeof(until));
        if (__builtin_bswap64(until) < oldest)
            kv_batch_delete(batch, self->store.history, key);
    }
    *end = !on;
    from->size = 0;
    kv_slice key = kv_iter_key(iter);
    if (on && !vtree_buffer_add(from, key.data, key.size))
        code = KV_NO_MEMORY;
    if (!on)
        code = kv_iter_status(iter, NULL);
    kv_iter_close(iter);
    return code;
}

/* Gather up to a step's records whose keys begin with the map's number. */
static kv_code remove_map_step(kv_space *space, kv_batch *batch, uint32_t map, size_t *found)
{
    uint8_t limit[RECORD_MAP_SIZE];
    uint32_t big = __builtin_bswap32(map);
    kv_range range = kv_range_of_prefix(kv_bytes(&big, sizeof(big)), limit);
    kv_iter *iter;
    kv_read read = { .no_cache = true };
    *found = 0;
    kv_code code = kv_iter_open(space, &read, &range, &iter, NULL);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); on && *found < STATE_STEP_RECORDS;
         on = kv_iter_next(iter)) {
        kv_batch_delete(batch, space, kv_iter_key(iter));
        (*found)++;
    }
    code = kv_iter_status(iter, NULL);
    kv_iter_close(iter);
    return code;
}

static bool stopped(struct state *self)
{
    pthread_mutex_lock(&self->lock);
    bool stop = self->upkeep_stop;
    pthread_mutex_unlock(&self->lock);
    return stop;
}

/* A dropped map that no kept version has; false when there is none. */
static bool next_dropped(struct state *self, uint32_t *map)
{
    bool found = false;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < self->dropped_count && !found; i++) {
        found = self->dropped[i].last < self->head.oldest || self->head.newest == 0;
        *map = self->dropped[i].map;
    }
    pthread_mutex_unlock(&self->lock);
    return found;
}

static void forget_dropped(struct state *self, uint32_t map)
{
    pthread_mutex_lock(&self->lock);
    size_t kept = 0;
    for (size_t i = 0; i < self->dropped_count; i++) {
        if (self->dropped[i].map != map)
            self->dropped[kept++] = self->dropped[i];
    }
    self->dropped_count = kept;
    pthread_mutex_unlock(&self->lock);
}

/* Commit a batch that removes `count` records of history, and count them. */
static kv_code commit_removal(struct state *self, kv_batch *batch, uint64_t count)
{
    uint8_t bytes[VMAP_VARINT_SIZE_MAX];
    uint64_t removed = self->removed + count; /* only this thread changes it */
    if (count > 0)
        kv_batch_put(batch, self->store.meta, meta_key_removed(),
                     kv_bytes(bytes, vmap_varint_encode(bytes, removed)));
    kv_code code = kv_batch_commit(batch, 0, NULL);
    if (code != KV_OK)
        return code;
    pthread_mutex_lock(&self->lock);
    self->removed = removed;
    pthread_mutex_unlock(&self->lock);
    return KV_OK;
}

static kv_code remove_map(struct state *self, kv_batch *batch, uint32_t map)
{
    kv_space *const spaces[] = { self->store.values, self->store.pages, self->store.history };
    uint8_t key[META_KEY_SIZE];
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        kv_space *space = spaces[i];
        size_t found = STATE_STEP_RECORDS;
        while (found == STATE_STEP_RECORDS) {
            if (stopped(self))
                return KV_OK;
            kv_code code = remove_map_step(space, batch, map, &found);
            if (code == KV_OK && found > 0)
                code = commit_removal(self, batch, space == self->store.history ? found : 0);
            if (code != KV_OK)
                return code;
        }
    }
    kv_batch_delete(batch, self->store.meta, meta_key_building(key, map));
    kv_batch_delete(batch, self->store.meta, meta_key_dropped(key, map));
    kv_code code = kv_batch_commit(batch, 0, NULL);
    if (code == KV_OK)
        forget_dropped(self, map);
    return code;
}

static uint64_t oldest_kept(struct state *self)
{
    pthread_mutex_lock(&self->lock);
    uint64_t oldest = self->head.oldest;
    pthread_mutex_unlock(&self->lock);
    return oldest;
}

/* Walk all of history once. */
static kv_code sweep_history(struct state *self, kv_batch *batch)
{
    struct vtree_buffer from = { NULL, 0, 0 };
    bool end = false;
    kv_code code = KV_OK;
    while (!end && code == KV_OK && !stopped(self)) {
        kv_batch_clear(batch);
        code = remove_history(self, batch, &from, oldest_kept(self), &end);
        size_t removed = kv_batch_count(batch);
        if (code == KV_OK && removed > 0)
            code = commit_removal(self, batch, removed);
    }
    vtree_buffer_clear(&from);
    return code;
}

/* Whether a walk over history is worth it; the lock is held. */
static bool sweep_is_due(const struct state *self)
{
    uint64_t garbage = self->head.history_garbage - self->removed;
    uint64_t records = self->head.history_records - self->removed;
    return garbage > 0 && (self->upkeep_all || garbage >= STATE_SWEEP_RECORDS ||
                           garbage * STATE_SWEEP_SHARE >= records);
}

static void upkeep_round(struct state *self)
{
    kv_batch *batch;
    uint32_t map;
    kv_code code = kv_batch_new(self->store.db, &batch, NULL);
    while (code == KV_OK && !stopped(self) && next_dropped(self, &map))
        code = remove_map(self, batch, map);
    pthread_mutex_lock(&self->lock);
    bool due = sweep_is_due(self);
    pthread_mutex_unlock(&self->lock);
    if (code == KV_OK && due)
        code = sweep_history(self, batch);
    kv_batch_free(batch);
    pthread_mutex_lock(&self->lock);
    if (code != KV_OK)
        self->upkeep_faults++;
    pthread_mutex_unlock(&self->lock);
}

static void *upkeep_main(void *argument)
{
    struct state *self = argument;
    pthread_mutex_lock(&self->lock);
    while (!self->upkeep_stop) {
        if (!self->upkeep_due) {
            self->upkeep_busy = false;
            pthread_cond_broadcast(&self->upkeep_idle);
            pthread_cond_wait(&self->upkeep_wake, &self->lock);
            continue;
        }
        self->upkeep_due = false;
        self->upkeep_busy = true;
        pthread_mutex_unlock(&self->lock);
        upkeep_round(self);
        pthread_mutex_lock(&self->lock);
    }
    self->upkeep_busy = false;
    pthread_cond_broadcast(&self->upkeep_idle);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

void state_upkeep_start(struct state *self)
{
    self->upkeep_due = true;
    self->upkeep_runs = pthread_create(&self->upkeep, NULL, upkeep_main, self) == 0;
}

void state_upkeep_stop(struct state *self)
{
    if (!self->upkeep_runs)
        return;
    pthread_mutex_lock(&self->lock);
    self->upkeep_stop = true;
    pthread_cond_broadcast(&self->upkeep_wake);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->upkeep, NULL);
    self->upkeep_runs = false;
}

void state_upkeep_wake(struct state *self)
{
    pthread_mutex_lock(&self->lock);
    self->upkeep_due = true;
    pthread_cond_broadcast(&self->upkeep_wake);
    pthread_mutex_unlock(&self->lock);
}

kv_code state_settle(struct state *self, kv_status *status)
{
    pthread_mutex_lock(&self->lock);
    uint64_t faults = self->upkeep_faults;
    self->upkeep_all = true;
    self->upkeep_due = true;
    pthread_cond_broadcast(&self->upkeep_wake);
    while (self->upkeep_runs && !self->upkeep_stop && (self->upkeep_due || self->upkeep_busy))
        pthread_cond_wait(&self->upkeep_idle, &self->lock);
    self->upkeep_all = false;
    bool failed = self->upkeep_faults != faults;
    pthread_mutex_unlock(&self->lock);
    return failed ? kv_fail(status, KV_IO,
                            "records that nothing needs could not be removed "
                            "from '%s'; they are tried again later",
                            kv_db_dir(self->store.db))
                  : KV_OK;
}
