/* state.c - opening, closing, and the maps of the working set. */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

static const kv_option_spec option_specs[] = {
    { "page_bits", KV_OPTION_INT, "5", VMAP_PAGE_BITS_MIN, VMAP_PAGE_BITS_MAX,
      "Pages of new maps hold 2^page_bits entries on average; part of the root", NULL },
    { "keep_recent", KV_OPTION_INT, "100", 1, UINT32_MAX,
      "Versions that stay readable with proofs; 1 keeps no history and commits faster", NULL },
    { "cache_size", KV_OPTION_SIZE, "64MiB", 0, UINT64_C(1) << 40,
      "Memory for pages of the trees", NULL },
    { "batch_size", KV_OPTION_SIZE, "64MiB", 4096, UINT64_C(1) << 36,
      "A working set larger than this is staged on disk and committed in parts", NULL },
    { "threads", KV_OPTION_INT, "0", 0, POOL_THREADS_MAX,
      "Threads that hash a commit and verify; 0 takes one per core", NULL },
    { NULL, KV_OPTION_INT, NULL, 0, 0, NULL, NULL },
};
const kv_option_table state_option_table = { "vmap", option_specs };

/* States that are open in this process, so that none is opened twice. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct state *open_states;

kv_code state_no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a state");
}

kv_code state_usable(const struct state *self, kv_status *status)
{
    if (self->broken)
        return kv_fail(status, KV_BAD_STATE,
                       "a commit of the state in '%s' failed half way: close and open it "
                       "again to finish it",
                       kv_db_dir(self->store.db));
    return KV_OK;
}

/* ---- Opening ------------------------------------------------------------ */

static struct state_options options_read(const kv_options *options)
{
    struct state_options read = { 5, 100, 64u << 20, 64u << 20, 0 };
    if (options != NULL) {
        read.page_bits = (unsigned)kv_options_number(options, "vmap.page_bits");
        read.keep_recent = kv_options_number(options, "vmap.keep_recent");
        read.cache_size = kv_options_number(options, "vmap.cache_size");
        read.batch_size = kv_options_number(options, "vmap.batch_size");
        read.threads = (unsigned)kv_options_number(options, "vmap.threads");
    }
    return read;
}

static kv_code claim(struct state *self, kv_status *status)
{
    kv_code code = KV_OK;
    pthread_mutex_lock(&open_lock);
    for (struct state *other = open_states; other != NULL; other = other->next_open) {
        if (other->store.db == self->store.db)
            code = kv_fail(status, KV_BUSY, "the state in '%s' is open already",
                           kv_db_dir(self->store.db));
    }
    if (code == KV_OK) {
        self->next_open = open_states;
        open_states = self;
    }
    pthread_mutex_unlock(&open_lock);
    return code;
}

static void unclaim(struct state *self)
{
    pthread_mutex_lock(&open_lock);
    for (struct state **link = &open_states; *link != NULL; link = &(*link)->next_open) {
        if (*link == self) {
            *link = self->next_open;
            break;
        }
    }
    pthread_mutex_unlock(&open_lock);
}

static kv_code open_spaces(struct state *self, unsigned flags, kv_status *status)
{
    struct vtree_store *store = &self->store;
    const struct {
        const char *name;
        kv_space **space;
    } spaces[] = {
        { "state", &store->meta },          { "state.values", &store->values },
        { "state.pages", &store->pages },   { "state.history", &store->history },
        { "state.staged", &store->staged },
    };
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        kv_code code = kv_space_open(store->db, spaces[i].name, 0, spaces[i].space, status);
        if (code == KV_NOT_FOUND && (flags & KV_CREATE) != 0)
            code = kv_space_open(store->db, spaces[i].name, KV_CREATE, spaces[i].space, status);
        if (code == KV_NOT_FOUND)
            return kv_fail(status, KV_NOT_FOUND, "no state in '%s'", kv_db_dir(store->db));
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

/* Read the head, or write the first one. */
static kv_code open_head(struct state *self, unsigned flags, kv_status *status)
{
    kv_value record = KV_VALUE_INIT;
    kv_code code = kv_get(self->store.meta, NULL, meta_key_head(), &record, status);
    if (code == KV_OK) {
        if (!meta_head_decode(record.bytes, &self->head))
            code = kv_fail(status, KV_CORRUPT,
                           "the head record of the state in '%s' is damaged or of a newer "
                           "format",
                           kv_db_dir(self->store.db));
        kv_value_release(&record);
        return code;
    }
    if (code != KV_NOT_FOUND)
        return code;
    if ((flags & KV_CREATE) == 0)
        return kv_fail(status, KV_NOT_FOUND, "no state in '%s'", kv_db_dir(self->store.db));
    self->head.map_next = 1;
    if (!meta_head_encode(&self->head, &self->scratch))
        return state_no_memory(status);
    return kv_put(self->store.meta, meta_key_head(), vtree_buffer_slice(&self->scratch), 0,
                  status);
}

/* How much history upkeep has removed so far; a state's first removal makes the record. */
static kv_code open_removed(struct state *self, kv_status *status)
{
    kv_value record = KV_VALUE_INIT;
    kv_code code = kv_get(self->store.meta, NULL, meta_key_removed(), &record, status);
    kv_slice bytes = record.bytes;
    if (code == KV_OK && !record_take_varint(&bytes, &self->removed))
        code = kv_fail(status, KV_CORRUPT,
                       "the count of removed history of the state in '%s' is damaged",
                       kv_db_dir(self->store.db));
    kv_value_release(&record);
    return code == KV_NOT_FOUND ? KV_OK : code;
}

kv_code state_version_read(const struct state *self, const kv_read *read, uint64_t version,
                           struct meta_version **out, kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    kv_value record = KV_VALUE_INIT;
    *out = NULL;
    kv_code code =
        kv_get(self->store.meta, read, meta_key_version(key, version), &record, status);
    if (code != KV_OK)
        return code;
    *out = meta_version_decode(record.bytes, version);
    kv_value_release(&record);
    if (*out == NULL)
        return kv_fail(status, KV_CORRUPT, "the record of version %llu is damaged",
                       (unsigned long long)version);
    return KV_OK;
}

bool state_has_views(struct state *self)
{
    pthread_mutex_lock(&self->lock);
    bool has = self->view_count > 0;
    pthread_mutex_unlock(&self->lock);
    return has;
}

bool state_push_dropped(struct state *self, uint32_t map, uint64_t last)
{
    void *grown = self->dropped;
    if (!vtree_grow(&grown, &self->dropped_capacity, self->dropped_count + 1,
                    sizeof(*self->dropped)))
        return false;
    self->dropped = grown;
    self->dropped[self->dropped_count++] = (struct dropped_map){ map, last };
    return true;
}

static kv_code read_dropped(struct state *self, kv_status *status)
{
    uint8_t limit[16];
    kv_iter *iter;
    kv_range range = kv_range_of_prefix(kv_text("dropped/"), limit);
    kv_code code = kv_iter_open(self->store.meta, NULL, &range, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); code == KV_OK && on; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter), value = kv_iter_value(iter);
        uint64_t last;
        uint32_t map;
        if (!meta_key_map(key, range.first.size, &map) || !record_take_varint(&value, &last)) {
            code = kv_fail(status, KV_CORRUPT, "a record of a dropped map is damaged");
            break;
        }
        if (!state_push_dropped(self, map, last))
            code = state_no_memory(status);
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

/* Read the newest version and make the working set's maps from it. */
static kv_code open_version(struct state *self, kv_status *status)
{
    struct meta_version *info = NULL;
    struct meta_head head = self->head;
    kv_code code = KV_OK;
    if (head.newest == 0) {
        info = meta_version_new(0);
        if (info == NULL)
            return state_no_memory(status);
        meta_version_seal(info);
    } else {
        code = state_version_read(self, NULL, head.newest, &info, status);
        if (code == KV_NOT_FOUND)
            code = kv_fail(status, KV_CORRUPT, "the record of version %llu is missing",
                           (unsigned long long)head.newest);
    }
    return code == KV_OK ? state_publish(self, &head, info, status) : code;
}

static void state_free(struct state *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->map_count; i++)
        state_map_free(self->maps[i]);
    for (size_t i = 0; i < self->gone_count; i++)
        state_map_free(self->gone[i]);
    free(self->maps);
    free(self->gone);
    free(self->undo);
    free(self->marks);
    free(self->dropped);
    if (self->newest != NULL)
        state_moment_release(self, self->newest);
    vtree_buffer_clear(&self->scratch);
    vtree_cache_free(self->store.cache);
    vtree_pool_free(self->pool);
    pthread_cond_destroy(&self->upkeep_wake);
    pthread_cond_destroy(&self->upkeep_idle);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static kv_code open_inside(struct state *self, unsigned flags, kv_status *status)
{
    kv_code code = open_spaces(self, flags, status);
    if (code == KV_OK)
        code = open_head(self, flags, status);
    if (code == KV_OK)
        code = open_removed(self, status);
    if (code == KV_OK)
        code = read_dropped(self, status);
    if (code == KV_OK)
        code = open_version(self, status);
    if (code != KV_OK)
        return code;
    if (self->head.pending != META_PENDING_NONE && self->read_only)
        return kv_fail(status, KV_BAD_STATE,
                       "the state in '%s' has an unfinished commit: open it for writing once",
                       kv_db_dir(self->store.db));
    if (self->head.pending != META_PENDING_NONE)
        code = state_finish_pending(self, status);
    else if (!self->read_only)
        code = state_clear_staged(self, status);
    if (code == KV_OK && !self->read_only)
        code = state_spill_clear(self, status);
    return code;
}

kv_code state_open(kv_db *db, const kv_options *options, unsigned flags, struct state **out,
                   kv_status *status)
{
    *out = NULL;
    struct state *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return state_no_memory(status);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->upkeep_wake, NULL);
    pthread_cond_init(&self->upkeep_idle, NULL);
    self->store.db = db;
    self->read_only = (flags & KV_OPEN_READ) != 0;
    self->options = options_read(options);
    kv_code code = claim(self, status);
    if (code != KV_OK) {
        state_free(self);
        return code;
    }
    self->store.cache = vtree_cache_new(self->options.cache_size);
    self->pool = vtree_pool_new(self->options.threads);
    code = self->store.cache == NULL || self->pool == NULL ? state_no_memory(status)
                                                           : open_inside(self, flags, status);
    if (code != KV_OK) {
        unclaim(self);
        state_free(self);
        return code;
    }
    if (!self->read_only)
        state_upkeep_start(self);
    *out = self;
    return KV_OK;
}

/* Leave nothing to rebuild at the next open. What cannot be written can be
 * rebuilt, so a fault here is none of the caller's. */
static void write_back_all(struct state *self)
{
    kv_batch *batch;
    size_t written = 1;
    if (self->read_only || self->broken || kv_batch_new(self->store.db, &batch, NULL) != KV_OK)
        return;
    while (written > 0) {
        if (state_write_back(self, batch, true, &written, NULL) != KV_OK ||
            kv_batch_commit(batch, 0, NULL) != KV_OK)
            break;
    }
    kv_batch_free(batch);
}

kv_code state_close(struct state *self, kv_status *status)
{
    if (self == NULL)
        return KV_OK;
    pthread_mutex_lock(&self->lock);
    size_t views = self->view_count;
    pthread_mutex_unlock(&self->lock);
    if (views > 0)
        return kv_fail(status, KV_BUSY, "the state in '%s' has %zu open views",
                       kv_db_dir(self->store.db), views);
    state_upkeep_stop(self);
    if (!self->broken && self->staged && state_clear_staged(self, NULL) != KV_OK) {
        /* The next open clears them. */
    }
    write_back_all(self);
    unclaim(self);
    state_free(self);
    return KV_OK;
}

/* ---- Figures ------------------------------------------------------------ */

static pthread_mutex_t *lock_of(const struct state *self)
{
    /* The lock is no part of what `const` promises. */
    pthread_mutex_t *lock;
    const pthread_mutex_t *held = &self->lock;
    memcpy(&lock, &held, sizeof(lock));
    return lock;
}

kv_db *state_database(const struct state *self)
{
    return self->store.db;
}

uint64_t state_version(const struct state *self)
{
    pthread_mutex_lock(lock_of(self));
    uint64_t version = self->head.newest;
    pthread_mutex_unlock(lock_of(self));
    return version;
}

uint64_t state_version_oldest(const struct state *self)
{
    pthread_mutex_lock(lock_of(self));
    uint64_t version = self->head.oldest;
    pthread_mutex_unlock(lock_of(self));
    return version;
}

vmap_digest state_app_hash(const struct state *self)
{
    pthread_mutex_lock(lock_of(self));
    vmap_digest app_hash = self->newest->info->app_hash;
    pthread_mutex_unlock(lock_of(self));
    return app_hash;
}

/* ---- Moments ------------------------------------------------------------ */

void state_moment_release(struct state *self, struct state_moment *moment)
{
    pthread_mutex_lock(&self->lock);
    bool last = --moment->references == 0;
    pthread_mutex_unlock(&self->lock);
    if (!last)
        return;
    kv_snapshot_release(moment->snapshot);
    meta_version_free(moment->info);
    free(moment);
}

kv_code state_pin_newest(struct state *self, kv_status *status)
{
    kv_code code = KV_OK;
    pthread_mutex_lock(&self->lock);
    if (self->newest->snapshot == NULL)
        code = kv_snapshot_take(self->store.db, &self->newest->snapshot, status);
    pthread_mutex_unlock(&self->lock);
    return code;
}

/* Bring the handles in line with the maps of `info`. */
static kv_code adopt_maps(struct state *self, const struct meta_version *info,
                          kv_status *status)
{
    size_t kept = 0;
    for (size_t i = 0; i < self->map_count; i++) {
        vmap *map = self->maps[i];
        const struct meta_map *committed = meta_version_find_id(info, map->top.map);
        if (committed == NULL) {
            state_map_discard(self, map);
            continue;
        }
        map->top = committed->top;
        map->made = false;
        map->spilled = false;
        map->staged = false;
        vtree_changes_clear(&map->changes);
        self->maps[kept++] = map;
    }
    self->map_count = kept;
    for (size_t i = 0; i < info->count; i++) {
        bool exact;
        state_map_place(self, info->maps[i].name, &exact);
        if (exact)
            continue;
        vmap *map = state_map_new(self, info->maps[i].name, info->maps[i].top.map,
                                  info->maps[i].top.page_bits);
        if (map == NULL)
            return state_no_memory(status);
        map->top = info->maps[i].top;
        map->made = false;
        kv_code code = state_map_insert(self, map, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

kv_code state_publish(struct state *self, const struct meta_head *head,
                      struct meta_version *info, kv_status *status)
{
    struct state_moment *moment = calloc(1, sizeof(*moment));
    if (moment == NULL) {
        meta_version_free(info);
        return state_no_memory(status);
    }
    for (size_t i = 0; i < self->gone_count; i++)
        state_map_discard(self, self->gone[i]);
    self->gone_count = 0;
    kv_code code = adopt_maps(self, info, status);
    moment->info = info;
    moment->references = 1;
    pthread_mutex_lock(&self->lock);
    struct state_moment *before = self->newest;
    for (size_t i = 0; before != NULL && i < before->info->count; i++) {
        uint32_t map = before->info->maps[i].top.map;
        if (info->version > before->info->version && meta_version_find_id(info, map) == NULL &&
            !state_push_dropped(self, map, before->info->version))
            code = state_no_memory(status); /* its record is found at the next open */
    }
    self->newest = moment;
    self->head = *head;
    self->map_next = head->map_next;
    pthread_mutex_unlock(&self->lock);
    if (before != NULL)
        state_moment_release(self, before);
    state_upkeep_wake(self);
    return code;
}
