/*
 * leveldb.c - LevelDB behind kv/driver.h. Spaces are the core's, by prefixes.
 *
 * Durability: LevelDB's synced write makes the current log durable, not the one
 * before it, which may still wait to become a table. A record written without
 * sync and then followed by a synced one could so be lost alone, a hole. So when
 * unsynced writes came before, a sync also sees to it that no older log is left.
 */
#include "drivers/drivers.h"
#include "drivers/engine_damage.h"
#include "drivers/engine_error.h"
#include "drivers/engine_handles.h"
#include "drivers/engine_log.h"
#include "drivers/leveldb_iter.h"
#include "drivers/leveldb_view.h"
#include "kv/folder.h"

#include <dirent.h>
#include <endian.h>
#include <leveldb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const kv_option_spec level_option_specs[] = {
    { "block_cache", KV_OPTION_SIZE, "256MiB", MIB, UINT64_C(1) << 40,
      "Memory for blocks read from disk", NULL },
    { "write_buffer", KV_OPTION_SIZE, "32MiB", 1u << 16, UINT64_C(1) << 30,
      "Memory for writes not yet in tables; up to twice this is in use", NULL },
    { "block_size", KV_OPTION_SIZE, "4KiB", 1024, MIB,
      "Bytes in a block, the unit of reading and caching", NULL },
    { "table_size", KV_OPTION_SIZE, "8MiB", MIB, UINT64_C(1) << 30, "Bytes in a table file",
      NULL },
    { "bloom_bits", KV_OPTION_INT, "10", 0, 32,
      "Bits of bloom filter per key, which save reading for keys that are absent; 0 is none",
      NULL },
    { "compression", KV_OPTION_TEXT, "snappy", 0, 0,
      "How tables are compressed: none or snappy", NULL },
    { "max_open_files", KV_OPTION_INT, "1000", 64, 50000, "Table files kept open", NULL },
    { "verify_checksums", KV_OPTION_BOOL, "true", 0, 0,
      "Check every block read from disk, not only where a read asks for it", NULL },
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

struct level_db {
    kv_db base;
    leveldb_t *level;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *reads[2][2]; /* by kv_read.verify and no_cache */
    leveldb_writeoptions_t *write, *write_sync;
    char *view; /* where LevelDB is, when opened for reading; else NULL */
    bool verify;
    struct engine_damage damage;
    atomic_ullong unsynced; /* writes begun without sync */
    atomic_ullong settled;  /* how many of them are durable */
};

struct level_snapshot {
    kv_snapshot base;
    const leveldb_snapshot_t *snapshot;
    leveldb_readoptions_t *reads[2][2];
};

struct level_batch {
    kv_batch base;
    leveldb_writebatch_t *writes;
};

static struct level_db *level_db_of(kv_db *db)
{
    return (struct level_db *)db;
}

leveldb_t *level_engine_of(kv_db *db)
{
    return level_db_of(db)->level;
}

static struct level_iter *level_iter_of(kv_iter *iter)
{
    return (struct level_iter *)iter;
}

static struct level_batch *level_batch_of(kv_batch *batch)
{
    return (struct level_batch *)batch;
}

/* Record LevelDB's error, if there is one, and free it. A damaged block it does
 * not place: then, for who wants to know, we say in which table it is. */
static kv_code settle(kv_db *db, char *error, kv_status *status)
{
    if (error == NULL)
        return KV_OK;
    const char *table = NULL;
    bool wanted = status != NULL && status->code == KV_OK;
    if (wanted && engine_error_code(leveldb_errors, error) == KV_CORRUPT &&
        strchr(error, '/') == NULL)
        table = engine_damage_find(&level_db_of(db)->damage, db->dir, level_table_is_damaged);
    kv_code code = engine_fail(status, leveldb_errors, db->dir, table, error);
    leveldb_free(error);
    return code;
}

static void read_options_init(leveldb_readoptions_t *reads[2][2], bool always_verify,
                              const leveldb_snapshot_t *snapshot)
{
    for (int verify = 0; verify < 2; verify++) {
        for (int no_cache = 0; no_cache < 2; no_cache++) {
            leveldb_readoptions_t *read = leveldb_readoptions_create();
            leveldb_readoptions_set_verify_checksums(read, verify || always_verify);
            leveldb_readoptions_set_fill_cache(read, !no_cache);
            if (snapshot != NULL)
                leveldb_readoptions_set_snapshot(read, snapshot);
            reads[verify][no_cache] = read;
        }
    }
}

static void read_options_clear(leveldb_readoptions_t *reads[2][2])
{
    for (int i = 0; i < 4; i++)
        if (reads[i / 2][i % 2] != NULL)
            leveldb_readoptions_destroy(reads[i / 2][i % 2]);
}

static const leveldb_readoptions_t *read_options(kv_db *db, const kv_read *read)
{
    if (read->snapshot != NULL)
        return ((const struct level_snapshot *)read->snapshot)
            ->reads[read->verify][read->no_cache];
    return level_db_of(db)->reads[read->verify][read->no_cache];
}

/* ---- Opening ------------------------------------------------------------- */

static kv_code set_options(struct level_db *self, const kv_options *options, kv_status *status)
{
    const char *compression = kv_options_text(options, "kv.leveldb.compression");
    bool snappy = strcmp(compression, "snappy") == 0;
    if (!snappy && strcmp(compression, "none") != 0)
        return kv_fail(status, KV_INVALID,
                       "kv.leveldb.compression does not know \"%s\": none or snappy",
                       compression);

    leveldb_options_t *level = self->options = leveldb_options_create();
    self->cache =
        leveldb_cache_create_lru(kv_options_number(options, "kv.leveldb.block_cache"));
    uint64_t bloom_bits = kv_options_number(options, "kv.leveldb.bloom_bits");
    if (bloom_bits > 0)
        self->filter = leveldb_filterpolicy_create_bloom((int)bloom_bits);
    self->verify = kv_options_bool(options, "kv.leveldb.verify_checksums");
    leveldb_options_set_cache(level, self->cache);
    leveldb_options_set_filter_policy(level, self->filter);
    leveldb_options_set_compression(level, snappy ? leveldb_snappy_compression
                                                  : leveldb_no_compression);
    leveldb_options_set_write_buffer_size(
        level, kv_options_number(options, "kv.leveldb.write_buffer"));
    leveldb_options_set_block_size(level, kv_options_number(options, "kv.leveldb.block_size"));
    leveldb_options_set_max_file_size(level,
                                      kv_options_number(options, "kv.leveldb.table_size"));
    leveldb_options_set_max_open_files(
        level, (int)kv_options_number(options, "kv.leveldb.max_open_files"));
    /* Without this, damage in the log is skipped and leaves a hole. */
    leveldb_options_set_paranoid_checks(level, 1);
    return KV_OK;
}

static void level_close(kv_db *db)
{
    struct level_db *self = level_db_of(db);
    if (self->level != NULL)
        leveldb_close(self->level);
    level_view_remove(self->view);
    read_options_clear(self->reads);
    if (self->write != NULL)
        leveldb_writeoptions_destroy(self->write);
    if (self->write_sync != NULL)
        leveldb_writeoptions_destroy(self->write_sync);
    if (self->options != NULL)
        leveldb_options_destroy(self->options);
    if (self->filter != NULL)
        leveldb_filterpolicy_destroy(self->filter);
    if (self->cache != NULL)
        leveldb_cache_destroy(self->cache);
}

static kv_code level_open(kv_db *db, const kv_options *options, kv_status *status)
{
    struct level_db *self = level_db_of(db);
    kv_code code = set_options(self, options, status);
    if (code != KV_OK)
        return code;
    read_options_init(self->reads, self->verify, NULL);
    self->write = leveldb_writeoptions_create();
    self->write_sync = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(self->write_sync, 1);

    leveldb_options_set_create_if_missing(self->options, (db->flags & KV_CREATE) != 0);
    if ((db->flags & KV_OPEN_READ) != 0)
        code = level_view_make(db->dir, &self->view, status);
    kv_status suspect = KV_STATUS_INIT;
    if (code == KV_OK)
        code = engine_logs_check(db->dir, &suspect, status);
    if (code == KV_OK) {
        char *error = NULL;
        self->level =
            leveldb_open(self->options, self->view == NULL ? db->dir : self->view, &error);
        /* The engine may tell of the suspect record, but not in which file it is. */
        if (error != NULL && suspect.code != KV_OK &&
            engine_error_code(leveldb_errors, error) == suspect.code)
            kv_fail(status, suspect.code, "%s", suspect.message);
        code = settle(db, error, status);
    }
    if (code != KV_OK)
        level_close(db);
    return code;
}

/* ---- Reading ------------------------------------------------------------- */

static void release_copy(kv_value *value)
{
    leveldb_free(value->owner);
}

static kv_code level_get(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                         kv_status *status)
{
    char *error = NULL;
    size_t size;
    /* An empty value comes as malloc(0), which glibc makes non-NULL. */
    char *copy = leveldb_get(level_db_of(space->db)->level, read_options(space->db, read),
                             key.data, key.size, &size, &error);
    if (copy != NULL) {
        out->bytes = kv_bytes(copy, size);
        out->owner = copy;
        out->release = release_copy;
        return KV_OK;
    }
    return error == NULL ? KV_NOT_FOUND : settle(space->db, error, status);
}

static kv_code level_snapshot_take(kv_snapshot *snapshot, kv_status *status)
{
    (void)status;
    struct level_snapshot *self = (struct level_snapshot *)snapshot;
    struct level_db *db = level_db_of(snapshot->db);
    self->snapshot = leveldb_create_snapshot(db->level);
    read_options_init(self->reads, db->verify, self->snapshot);
    return KV_OK;
}

static void level_snapshot_release(kv_snapshot *snapshot)
{
    struct level_snapshot *self = (struct level_snapshot *)snapshot;
    read_options_clear(self->reads);
    leveldb_release_snapshot(level_db_of(snapshot->db)->level, self->snapshot);
}

/* ---- Iterators ----------------------------------------------------------- */

/* The first eight bytes as a number that sorts like them, zeros for what lacks. */
static inline uint64_t head(kv_slice bytes)
{
    uint64_t number = 0;
    memcpy(&number, bytes.data, bytes.size < sizeof(number) ? bytes.size : sizeof(number));
    return be64toh(number);
}

static kv_code level_iter_open(kv_iter *iter, const kv_read *read, const kv_range *range,
                               kv_status *status)
{
    struct level_iter *self = level_iter_of(iter);
    kv_slice first = range->first, limit = range->limit;
    self->bounds = malloc(first.size + limit.size + 1);
    if (self->bounds == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for an iterator's bounds");
    if (first.size > 0)
        memcpy(self->bounds, first.data, first.size);
    if (limit.size > 0)
        memcpy(self->bounds + first.size, limit.data, limit.size);
    self->range.first = kv_bytes(self->bounds, first.size);
    self->range.limit = kv_bytes(self->bounds + first.size, limit.size);
    self->limit_head = limit.size == 0 ? UINT64_MAX : head(limit);
    self->cursor = leveldb_create_iterator(level_db_of(iter->space->db)->level,
                                           read_options(iter->space->db, read));
    return KV_OK;
}

static void level_iter_close(kv_iter *iter)
{
    struct level_iter *self = level_iter_of(iter);
    leveldb_iter_destroy(self->cursor);
    free(self->bounds);
}

/*
 * LevelDB steps over a block that it cannot read, keeps the error to itself and
 * goes on behind the hole. So its error is asked for after every seek, wherever
 * a walk ends, whenever the caller asks, and in between at every change of
 * block: asking at each step would cost a third more.
 */
static bool is_sound(struct level_iter *self)
{
    if (level_iter_is_fine(self))
        return true;
    char *error = NULL;
    leveldb_iter_get_error(self->cursor, &error);
    return settle(self->base.space->db, error, &self->base.status) == KV_OK;
}

static void level_iter_verify(kv_iter *iter)
{
    if (!is_sound(level_iter_of(iter))) {
        /* recorded: kv_iter_status tells */
    }
}

/* Off every entry: the end, or a fault, now recorded. */
bool level_iter_leave(struct level_iter *self)
{
    level_iter_verify(&self->base);
    return false;
}

static inline bool below_limit(const struct level_iter *self)
{
    return self->range.limit.size == 0 || kv_compare(self->base.key, self->range.limit) < 0;
}

static inline bool from_first(const struct level_iter *self)
{
    return kv_compare(self->base.key, self->range.first) >= 0;
}

/* Take the entry under the cursor; false where there is none. */
static inline bool take(struct level_iter *self)
{
    if (!leveldb_iter_valid(self->cursor))
        return false;
    self->base.key.data = leveldb_iter_key(self->cursor, &self->base.key.size);
    self->base.value.data = leveldb_iter_value(self->cursor, &self->base.value.size);
    return true;
}

/* After a move that may have met damage: on an entry within the range, all
 * blocks on the way being sound. */
static bool land(struct level_iter *self)
{
    bool within = take(self) && below_limit(self) && from_first(self);
    if (within)
        level_iter_remember_end(self);
    return is_sound(self) && within;
}

static bool level_iter_seek(kv_iter *iter, kv_slice key)
{
    struct level_iter *self = level_iter_of(iter);
    if (kv_compare(key, self->range.first) < 0)
        key = self->range.first;
    leveldb_iter_seek(self->cursor, key.data, key.size);
    return land(self);
}

static bool level_iter_first(kv_iter *iter)
{
    return level_iter_seek(iter, level_iter_of(iter)->range.first);
}

/* The last entry below `key`, or of all where key is empty. */
static bool seek_below(struct level_iter *self, kv_slice key)
{
    leveldb_iterator_t *cursor = self->cursor;
    if (key.size > 0)
        leveldb_iter_seek(cursor, key.data, key.size);
    if (key.size > 0 && leveldb_iter_valid(cursor))
        leveldb_iter_prev(cursor);
    else if (is_sound(self)) /* past every key, not at a damaged block */
        leveldb_iter_seek_to_last(cursor);
    else
        return false;
    return land(self);
}

static bool level_iter_last(kv_iter *iter)
{
    return seek_below(level_iter_of(iter), level_iter_of(iter)->range.limit);
}

static bool level_iter_seek_for_prev(kv_iter *iter, kv_slice key)
{
    struct level_iter *self = level_iter_of(iter);
    if (self->range.limit.size > 0 && kv_compare(key, self->range.limit) >= 0)
        return level_iter_last(iter);
    leveldb_iter_seek(self->cursor, key.data, key.size);
    if (take(self) && kv_compare(self->base.key, key) == 0)
        return land(self);
    return seek_below(self, key);
}

bool level_iter_near_limit(struct level_iter *self)
{
    self->base.value.data = leveldb_iter_value(self->cursor, &self->base.value.size);
    bool within = below_limit(self), same_block = level_iter_is_same_block(self);
    level_iter_remember_end(self);
    return (same_block || is_sound(self)) && within;
}

bool level_iter_enter_block(struct level_iter *self)
{
    level_iter_remember_end(self);
    return is_sound(self);
}

static bool level_iter_prev(kv_iter *iter)
{
    leveldb_iter_prev(level_iter_of(iter)->cursor);
    return land(level_iter_of(iter));
}

/* ---- Durability ---------------------------------------------------------- */

static bool is_log(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".log") == 0;
}

/* Whether a log older than the current one is still there; -1 if unknown. */
static int older_log(const kv_db *db)
{
    DIR *stream = opendir(db->dir);
    if (stream == NULL)
        return -1;
    int logs = 0;
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL)
        logs += is_log(entry->d_name);
    closedir(stream);
    return logs > 1;
}

/*
 * After a synced write made the current log durable: make durable what older
 * logs hold. LevelDB removes a log once the table made of it is synced, and
 * compacting an empty range waits for that.
 */
static kv_code settle_older_logs(struct level_db *self, unsigned long long unsynced,
                                 kv_status *status)
{
    static const char top[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
    if (atomic_load(&self->settled) >= unsynced)
        return KV_OK;

    if (older_log(&self->base) != 0) {
        leveldb_compact_range(self->level, top, sizeof(top) - 1, top, sizeof(top) - 1);
        leveldb_writebatch_t *nothing = leveldb_writebatch_create();
        char *error = NULL; /* compact_range tells none; a failure stops writes */
        leveldb_write(self->level, self->write_sync, nothing, &error);
        leveldb_writebatch_destroy(nothing);
        kv_code code = settle(&self->base, error, status);
        if (code != KV_OK)
            return code;
    }
    unsigned long long settled = atomic_load(&self->settled);
    while (settled < unsynced &&
           !atomic_compare_exchange_weak(&self->settled, &settled, unsynced)) {
    }
    return KV_OK;
}

/* Every write passes here, with LevelDB's own call between. */
static leveldb_writeoptions_t *write_begin(struct level_db *self, unsigned flags,
                                           unsigned long long *unsynced)
{
    if ((flags & KV_SYNC) == 0) {
        atomic_fetch_add_explicit(&self->unsynced, 1, memory_order_relaxed);
        return self->write;
    }
    *unsynced = atomic_load(&self->unsynced);
    return self->write_sync;
}

static kv_code write_end(struct level_db *self, unsigned flags, unsigned long long unsynced,
                         char *error, kv_status *status)
{
    kv_code code = settle(&self->base, error, status);
    if (code == KV_OK && (flags & KV_SYNC) != 0)
        code = settle_older_logs(self, unsynced, status);
    return code;
}

/* ---- Writing ------------------------------------------------------------- */

static kv_code level_put(kv_space *space, kv_slice key, kv_slice value, unsigned flags,
                         kv_status *status)
{
    struct level_db *self = level_db_of(space->db);
    unsigned long long unsynced = 0;
    char *error = NULL;
    leveldb_put(self->level, write_begin(self, flags, &unsynced), key.data, key.size,
                value.data, value.size, &error);
    return write_end(self, flags, unsynced, error, status);
}

static kv_code level_delete(kv_space *space, kv_slice key, unsigned flags, kv_status *status)
{
    struct level_db *self = level_db_of(space->db);
    unsigned long long unsynced = 0;
    char *error = NULL;
    leveldb_delete(self->level, write_begin(self, flags, &unsynced), key.data, key.size,
                   &error);
    return write_end(self, flags, unsynced, error, status);
}

static kv_code level_batch_open(kv_batch *batch, kv_status *status)
{
    (void)status;
    level_batch_of(batch)->writes = leveldb_writebatch_create();
    return KV_OK;
}

static void level_batch_close(kv_batch *batch)
{
    leveldb_writebatch_destroy(level_batch_of(batch)->writes);
}

static void level_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    (void)space;
    leveldb_writebatch_put(level_batch_of(batch)->writes, key.data, key.size, value.data,
                           value.size);
}

static void level_batch_delete(kv_batch *batch, kv_space *space, kv_slice key)
{
    (void)space;
    leveldb_writebatch_delete(level_batch_of(batch)->writes, key.data, key.size);
}

static void level_batch_clear(kv_batch *batch)
{
    leveldb_writebatch_clear(level_batch_of(batch)->writes);
}

static kv_code level_batch_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    struct level_db *self = level_db_of(batch->db);
    unsigned long long unsynced = 0;
    char *error = NULL;
    leveldb_write(self->level, write_begin(self, flags, &unsynced),
                  level_batch_of(batch)->writes, &error);
    return write_end(self, flags, unsynced, error, status);
}

struct level_visit {
    void (*visit)(void *context, kv_space *space, kv_slice key, const kv_slice *value);
    void *context;
    kv_space *space;
};

static void visit_put(void *state, const char *key, size_t key_size, const char *value,
                      size_t value_size)
{
    struct level_visit *visit = state;
    const kv_slice bytes = kv_bytes(value, value_size);
    visit->visit(visit->context, visit->space, kv_bytes(key, key_size), &bytes);
}

static void visit_delete(void *state, const char *key, size_t key_size)
{
    struct level_visit *visit = state;
    visit->visit(visit->context, visit->space, kv_bytes(key, key_size), NULL);
}

static void level_batch_visit(const kv_batch *batch,
                              void (*visit)(void *context, kv_space *space, kv_slice key,
                                            const kv_slice *value),
                              void *context)
{
    kv_space any = { .db = batch->db, .name = "" };
    struct level_visit state = { visit, context, &any };
    leveldb_writebatch_iterate(((const struct level_batch *)batch)->writes, &state, visit_put,
                               visit_delete);
}

/* ---- Looking after ------------------------------------------------------- */

static kv_code level_approximate_size(kv_space *space, const kv_range *range, uint64_t *out,
                                      kv_status *status)
{
    (void)status;
    const char *first = range->first.data, *limit = range->limit.data;
    leveldb_approximate_sizes(level_db_of(space->db)->level, 1, &first, &range->first.size,
                              &limit, &range->limit.size, out);
    return KV_OK;
}

static kv_code level_compact(kv_space *space, const kv_range *range, kv_status *status)
{
    (void)status; /* a failed compaction shows at the next write */
    leveldb_compact_range(level_db_of(space->db)->level, range->first.data, range->first.size,
                          range->limit.data, range->limit.size);
    return KV_OK;
}

enum { STATS_SAMPLE_KEYS = 10000 };

/* LevelDB counts no keys: so many are looked at, and the rest is taken to be
 * of their size. */
static uint64_t estimate_keys(struct level_db *self, uint64_t disk)
{
    leveldb_iterator_t *cursor = leveldb_create_iterator(self->level, self->reads[0][1]);
    uint64_t count = 0, bytes = 0;
    for (leveldb_iter_seek_to_first(cursor);
         leveldb_iter_valid(cursor) && count < STATS_SAMPLE_KEYS; leveldb_iter_next(cursor)) {
        size_t key_size, value_size;
        leveldb_iter_key(cursor, &key_size);
        leveldb_iter_value(cursor, &value_size);
        bytes += key_size + value_size;
        count++;
    }
    bool more = leveldb_iter_valid(cursor);
    leveldb_iter_destroy(cursor);
    if (!more || bytes == 0)
        return count;
    uint64_t estimate = disk / (bytes / count + 1);
    return estimate > count ? estimate : count;
}

static kv_code level_stats(kv_db *db, void (*visit)(void *context, const kv_stat *stat),
                           void *context, kv_status *status)
{
    (void)status;
    struct level_db *self = level_db_of(db);
    uint64_t disk = kv_folder_size(db->dir);
    char *memory = leveldb_property_value(self->level, "leveldb.approximate-memory-usage");
    char *text = leveldb_property_value(self->level, "leveldb.stats");
    const kv_stat stats[] = {
        { "keys_estimate", NULL, estimate_keys(self, disk) },
        { "size_disk_bytes", NULL, disk },
        { "size_memory_bytes", NULL, memory == NULL ? 0 : strtoull(memory, NULL, 10) },
        { "leveldb.stats", text == NULL ? "" : text, 0 },
    };
    for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++)
        visit(context, &stats[i]);
    for (int level = 0; level < 7; level++) {
        char name[32], property[48];
        snprintf(property, sizeof(property), "leveldb.num-files-at-level%d", level);
        snprintf(name, sizeof(name), "leveldb.level%d_tables", level);
        char *number = leveldb_property_value(self->level, property);
        const kv_stat stat = { name, NULL, number == NULL ? 0 : strtoull(number, NULL, 10) };
        visit(context, &stat);
        leveldb_free(number);
    }
    leveldb_free(text);
    leveldb_free(memory);
    return KV_OK;
}

static kv_code level_repair(const kv_options *options, kv_status *status)
{
    struct level_db self = { .base = { .dir = kv_options_dir(options) } };
    kv_code code = set_options(&self, options, status);
    if (code != KV_OK)
        return code;
    char *error = NULL;
    leveldb_repair_db(self.options, self.base.dir, &error);
    code = settle(&self.base, error, status);
    level_close(&self.base);
    return code;
}

static bool level_recognise(const char *dir)
{
    return kv_folder_has(dir, "CURRENT") && !kv_folder_has(dir, "IDENTITY") &&
           !kv_folder_has(dir, "OPTIONS-");
}

const kv_driver leveldb_driver = {
    .version = KV_DRIVER_VERSION,
    .caps = KV_CAP_DURABLE | KV_CAP_VERIFY,
    .name = "leveldb",
    .engine_version = LEVEL_VERSION,
    .options = level_option_specs,
    .key_size_max = KV_KEY_SIZE_MAX,
    .value_size_max = KV_VALUE_SIZE_MAX,
    .db_size = sizeof(struct level_db),
    .space_size = sizeof(kv_space),
    .snapshot_size = sizeof(struct level_snapshot),
    .iter_size = sizeof(struct level_iter),
    .batch_size = sizeof(struct level_batch),
    .open = level_open,
    .close = level_close,
    .get = level_get,
    .snapshot_take = level_snapshot_take,
    .snapshot_release = level_snapshot_release,
    .iter_open = level_iter_open,
    .iter_close = level_iter_close,
    .iter_first = level_iter_first,
    .iter_last = level_iter_last,
    .iter_seek = level_iter_seek,
    .iter_next = level_iter_next,
    .iter_prev = level_iter_prev,
    .batch_open = level_batch_open,
    .batch_close = level_batch_close,
    .batch_put = level_batch_put,
    .batch_delete = level_batch_delete,
    .batch_clear = level_batch_clear,
    .batch_commit = level_batch_commit,
    .put = level_put,
    .del = level_delete,
    .iter_seek_for_prev = level_iter_seek_for_prev,
    .iter_verify = level_iter_verify,
    .approximate_size = level_approximate_size,
    .compact = level_compact,
    .stats = level_stats,
    .repair = level_repair,
    .batch_visit = level_batch_visit,
    .recognise = level_recognise,
};
