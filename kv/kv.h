/*
 * kv.h - one interface over ordered key-value stores.
 *
 * A database is opened by a driver ("rocksdb", "leveldb", "memory", "shadow")
 * and holds named spaces. A space is an ordered map from byte strings to byte
 * strings; keys compare as unsigned bytes, a prefix before its extensions.
 *
 *     kv_options *options;             kv_options_load("config.toml", NULL, &options, &status)
 *     kv_db *db;                       kv_open(options, KV_CREATE, &db, &status)
 *     kv_space *space;                 kv_space_open(db, "default", KV_CREATE, &space, &status)
 *     kv_put(space, key, value, KV_SYNC, &status)
 *     kv_close(db, &status);           kv_options_free(options)
 *
 * Conventions, true of every declaration below:
 *
 *  1. Names read kv_<type>_<verb>; the object comes first, then inputs, then
 *     outputs, and the status record last.
 *  2. A call that can fail returns a kv_code, KV_OK being zero. Pass a
 *     kv_status to learn why; pass NULL when the code is enough.
 *  3. Absence is an answer, not a fault: KV_NOT_FOUND writes no message.
 *     An empty value is not an absent one.
 *  4. On failure an output handle is NULL and an output value is empty, so a
 *     single exit label may release everything unconditionally.
 *  5. A kv_slice is borrowed and never freed. A handle or kv_value is owned
 *     by the caller; its release function accepts NULL or an empty value.
 *  6. Iterators, snapshots and batches are counted. Closing a database over a
 *     live one is KV_BUSY and changes nothing.
 *  7. A kv_db and its spaces may be used by many threads at once. A kv_iter
 *     or kv_batch belongs to one thread at a time.
 *  8. Any call that reads or writes a durable database may answer KV_IO,
 *     KV_NO_SPACE or KV_CORRUPT, and any call may answer KV_NO_MEMORY; the
 *     comments below name only what else a call can answer.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KV_API __attribute__((visibility("default")))
#define KV_MUST_CHECK __attribute__((warn_unused_result))
#define KV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define KV_API
#define KV_MUST_CHECK
#define KV_PRINTF(text, first)
#endif

/* ---- Limits ------------------------------------------------------------- */

#define KV_KEY_SIZE_MAX 65535u       /* bytes in a key; at least 1 */
#define KV_VALUE_SIZE_MAX (1u << 30) /* bytes in a value; may be empty */
#define KV_SPACE_NAME_SIZE_MAX 255u  /* bytes in a space's name; at least 1 */
#define KV_SPACES_MAX 4096u          /* spaces in one database */

/* ---- Outcomes ----------------------------------------------------------- */

/* Codes are stable: they travel in JSON-RPC replies. Append, never renumber. */
#define KV_CODE_MAP(XX)                                   \
    XX(OK, 0, "ok")                                       \
    XX(NOT_FOUND, 1, "not found")                         \
    XX(INVALID, 2, "invalid argument or option")          \
    XX(UNSUPPORTED, 3, "not supported by this driver")    \
    XX(BUSY, 4, "held by another user")                   \
    XX(CORRUPT, 5, "stored data failed a check")          \
    XX(IO, 6, "input or output failed")                   \
    XX(NO_MEMORY, 7, "out of memory")                     \
    XX(INTERNAL, 8, "unexpected failure")                 \
    XX(READ_ONLY, 9, "database refuses writes")           \
    XX(NO_SPACE, 10, "no space left")                     \
    XX(CONFLICT, 11, "changed by another transaction")    \
    XX(DEADLOCK, 12, "would wait for itself")             \
    XX(TIMEOUT, 13, "took too long")                      \
    XX(TOO_BIG, 14, "over a size limit")                  \
    XX(TOO_OLD, 15, "version or snapshot no longer kept") \
    XX(TOO_NEW, 16, "version not committed yet")          \
    XX(BAD_STATE, 17, "not possible in this state")       \
    XX(UNPROVEN, 18, "proof or peer's data does not verify")

typedef enum kv_code {
#define XX(name, number, text) KV_##name = number,
    KV_CODE_MAP(XX)
#undef XX
} kv_code;

/* The name of `code`, such as "NOT_FOUND"; "UNKNOWN" outside the list. */
KV_API const char *kv_code_name(kv_code code);

/* The text of `code`, such as "not found"; "unknown code" outside the list. */
KV_API const char *kv_code_text(kv_code code);

enum { KV_MESSAGE_SIZE = 252 };

/*
 * Why a call failed: plain data on the caller's stack, free to copy, to send
 * to another thread, or to forget. Long messages are cut, never allocated.
 * The first fault recorded in a status is kept; start from KV_STATUS_INIT.
 */
typedef struct kv_status {
    kv_code code;
    char message[KV_MESSAGE_SIZE];
} kv_status;

#define KV_STATUS_INIT \
    {                  \
        KV_OK,         \
        {              \
            0          \
        }              \
    }

/* Record a fault and return its code: `return kv_fail(status, KV_IO, ...)`.
 * `status` may be NULL. One line, no full stop; the first fault wins. */
KV_API kv_code kv_fail(kv_status *status, kv_code code, const char *format, ...)
    KV_PRINTF(3, 4);

/* ---- Bytes -------------------------------------------------------------- */

/* A borrowed run of bytes. `data` may be NULL only when `size` is zero. */
typedef struct kv_slice {
    const void *data;
    size_t size;
} kv_slice;

static inline kv_slice kv_bytes(const void *data, size_t size)
{
    kv_slice slice = { data, size };
    return slice;
}

/* The bytes of a text, without its end mark. */
KV_API kv_slice kv_text(const char *text);

/* Less than, equal to or greater than zero, as `a` sorts against `b`. */
KV_API int kv_compare(kv_slice a, kv_slice b);

/*
 * Bytes lent by a driver: a pinned block, a private copy, or a node of the
 * memory store. Start from KV_VALUE_INIT and give back with kv_value_release.
 * A value outlives the iterator, snapshot or batch it came from, not its
 * database.
 */
typedef struct kv_value {
    kv_slice bytes;
    void (*release)(struct kv_value *value); /* private */
    void *owner;                             /* private */
} kv_value;

#define KV_VALUE_INIT           \
    {                           \
        { NULL, 0 }, NULL, NULL \
    }

/* Give the bytes back and empty `value`. Harmless on an empty value. */
KV_API void kv_value_release(kv_value *value);

/* ---- Handles ------------------------------------------------------------ */

typedef struct kv_db kv_db;             /* an open database */
typedef struct kv_space kv_space;       /* a named map; owned by its database */
typedef struct kv_snapshot kv_snapshot; /* an unchanging view of every space */
typedef struct kv_iter kv_iter;         /* a cursor over one space */
typedef struct kv_batch kv_batch;       /* changes applied all or none */
typedef struct kv_options kv_options;   /* every option in force */
typedef struct kv_driver kv_driver;     /* see kv/driver.h */

/* ---- Options ------------------------------------------------------------ */

typedef enum kv_option_type {
    KV_OPTION_BOOL,     /* true, false */
    KV_OPTION_INT,      /* 42 */
    KV_OPTION_SIZE,     /* bytes: 4096, "64MiB" */
    KV_OPTION_DURATION, /* milliseconds: "10s", "250ms", "1m30s" */
    KV_OPTION_TEXT      /* "text", or a list of texts joined by commas */
} kv_option_type;

/* One key of a TOML table; also the source of its documentation. */
typedef struct kv_option_spec {
    const char *name;
    kv_option_type type;
    const char *fallback; /* the default, as it would be written, unquoted */
    uint64_t min, max;    /* for INT, SIZE and DURATION, both included */
    const char *help;     /* one sentence, no full stop */
    const char *alias;    /* a CometBFT key that means the same, such as
                             "rpc.laddr", or NULL; ours wins where both stand */
} kv_option_spec;

/* A named table of options: "kv.rocksdb", "vmap", "query". */
typedef struct kv_option_table {
    const char *name;
    const kv_option_spec *specs; /* ended by a NULL name */
} kv_option_table;

/*
 * Read a TOML file. The top level's `db_backend` and `db_dir` choose engine
 * and folder (CometBFT's goleveldb, cleveldb and memdb mean leveldb, leveldb
 * and memory; a relative db_dir is relative to the file's folder). Every
 * [kv.<driver>] table, and every table listed in `tables` (ended by NULL, or
 * NULL for none), is checked against its own list: an unknown key or a value
 * out of range is KV_INVALID with file and line in the message. Other tables
 * are CometBFT's and left alone.
 */
KV_API KV_MUST_CHECK kv_code kv_options_load(const char *path,
                                             const kv_option_table *const *tables,
                                             kv_options **out, kv_status *status);

/* Start from the defaults of `backend` in the folder `dir` ("" for memory). */
KV_API KV_MUST_CHECK kv_code kv_options_new(const char *backend, const char *dir,
                                            const kv_option_table *const *tables,
                                            kv_options **out, kv_status *status);

/* Set one option by its dotted name, as in ("kv.rocksdb.block_cache", "512MiB")
 * or ("db_backend", "leveldb"). */
KV_API KV_MUST_CHECK kv_code kv_options_set(kv_options *options, const char *name,
                                            const char *value, kv_status *status);

KV_API void kv_options_free(kv_options *options);

/* The driver's name as in drivers/, and the folder, as they stand. */
KV_API const char *kv_options_backend(const kv_options *options);
KV_API const char *kv_options_dir(const kv_options *options);

/* The value in force of a known option, by dotted name. Asking for a name that
 * no table has, or for another type, is a programmer's error and aborts. */
KV_API bool kv_options_bool(const kv_options *options, const char *name);
KV_API uint64_t kv_options_number(const kv_options *options, const char *name);
KV_API const char *kv_options_text(const kv_options *options, const char *name);

/* ---- Databases ---------------------------------------------------------- */

enum kv_open_flags {
    KV_CREATE = 1u << 0,   /* make what is missing, parent folders included */
    KV_OPEN_READ = 1u << 1 /* change nothing: every write is KV_READ_ONLY */
};

/*
 * Open the database that `options` name. They are copied and may be freed at
 * once. KV_NOT_FOUND: nothing there and no KV_CREATE. KV_BUSY: open already,
 * here or in another process. KV_INVALID: the folder holds another engine.
 * Any number may have it open for reading, but none while one writes.
 */
KV_API KV_MUST_CHECK kv_code kv_open(const kv_options *options, unsigned flags, kv_db **out,
                                     kv_status *status);

/* Close. KV_BUSY over live iterators, snapshots or batches: the message counts
 * them and the database stays open. Any other answer: it is closed. */
KV_API KV_MUST_CHECK kv_code kv_close(kv_db *db, kv_status *status);

KV_API const kv_driver *kv_db_driver(const kv_db *db);
KV_API const char *kv_db_dir(const kv_db *db);

/* Return once every write acknowledged before this call survives power loss. */
KV_API KV_MUST_CHECK kv_code kv_sync(kv_db *db, kv_status *status);

/* ---- Spaces ------------------------------------------------------------- */

/*
 * Find the space called `name`, making it when `flags` has KV_CREATE, else
 * KV_NOT_FOUND. The same handle is returned each time; it lasts until kv_close
 * or kv_space_drop and there is nothing to free.
 */
KV_API KV_MUST_CHECK kv_code kv_space_open(kv_db *db, const char *name, unsigned flags,
                                           kv_space **out, kv_status *status);

/* Delete a space and its contents. KV_BUSY over a live iterator of it.
 * `space` is invalid on success, and a batch gathered before is KV_BAD_STATE. */
KV_API KV_MUST_CHECK kv_code kv_space_drop(kv_space *space, kv_status *status);

/* Call `visit` with each space's name as of this call, in byte order. `visit`
 * returns false to stop. */
KV_API KV_MUST_CHECK kv_code kv_space_list(kv_db *db,
                                           bool (*visit)(void *context, const char *name),
                                           void *context, kv_status *status);

KV_API const char *kv_space_name(const kv_space *space);

/* ---- Reading ------------------------------------------------------------ */

/* How to read. NULL, or all zeros, means the latest state with defaults. */
typedef struct kv_read {
    const kv_snapshot *snapshot; /* read as of this view */
    bool verify;                 /* check the checksums of what comes from storage */
    bool no_cache;               /* do not keep the blocks read: for scans */
} kv_read;

/* Fetch the value of `key` into `out`, which must come empty and is left empty
 * unless the answer is KV_OK. KV_NOT_FOUND, KV_INVALID (bad key). */
KV_API KV_MUST_CHECK kv_code kv_get(kv_space *space, const kv_read *read, kv_slice key,
                                    kv_value *out, kv_status *status);

/*
 * Fetch `count` keys at one moment, in any order, duplicates allowed. codes[i]
 * tells the fate of keys[i]; the return value is the first code that is
 * neither KV_OK nor KV_NOT_FOUND, and then every out[i] is empty.
 */
KV_API KV_MUST_CHECK kv_code kv_get_many(kv_space *space, const kv_read *read, size_t count,
                                         const kv_slice *keys, kv_value *out, kv_code *codes,
                                         kv_status *status);

/* See every space as it is now, until released. */
KV_API KV_MUST_CHECK kv_code kv_snapshot_take(kv_db *db, kv_snapshot **out, kv_status *status);
KV_API void kv_snapshot_release(kv_snapshot *snapshot);

/* Keys k with first <= k < limit; an empty `first` means from the start, an
 * empty `limit` no upper end. first >= limit holds no key. */
typedef struct kv_range {
    kv_slice first;
    kv_slice limit;
} kv_range;

/*
 * The range of keys that begin with `prefix`. `limit` takes prefix.size bytes
 * of scratch and must last as long as the range is used; it is the prefix with
 * trailing 0xff bytes cut and one added to the last byte, or empty (no upper
 * end) when all bytes are 0xff.
 */
KV_API kv_range kv_range_of_prefix(kv_slice prefix, void *limit);

/*
 * Walk a range (NULL for the whole space) at one moment in time. The bytes of
 * `range` are copied. A new iterator is on no entry. The positioning calls
 * return true while on an entry; once a walk has left the range it stays off
 * until it is positioned anew by first, last or a seek:
 *
 *     for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
 *         visit(kv_iter_key(iter), kv_iter_value(iter));
 *     code = kv_iter_status(iter, &status);
 *
 * A fault ends the walk and sticks. What a walk delivered holds only once
 * kv_iter_status, asked after the loop or where it was left, says KV_OK.
 */
KV_API KV_MUST_CHECK kv_code kv_iter_open(kv_space *space, const kv_read *read,
                                          const kv_range *range, kv_iter **out,
                                          kv_status *status);
KV_API bool kv_iter_first(kv_iter *iter);
KV_API bool kv_iter_last(kv_iter *iter);
KV_API bool kv_iter_seek(kv_iter *iter, kv_slice key);          /* the first entry >= key */
KV_API bool kv_iter_seek_for_prev(kv_iter *iter, kv_slice key); /* the last entry <= key */
KV_API bool kv_iter_next(kv_iter *iter);
KV_API bool kv_iter_prev(kv_iter *iter);

/* The entry under the cursor; the bytes last until the cursor moves. Both are
 * empty off an entry. */
KV_API kv_slice kv_iter_key(const kv_iter *iter);
KV_API kv_slice kv_iter_value(const kv_iter *iter);

KV_API KV_MUST_CHECK kv_code kv_iter_status(kv_iter *iter, kv_status *status);
KV_API void kv_iter_close(kv_iter *iter);

/* ---- Writing ------------------------------------------------------------ */

enum kv_write_flags {
    KV_SYNC = 1u << 0 /* return only once the write is durable */
};

/* After a failed sync or a full disk every write answers KV_READ_ONLY, with
 * that first reason in the message, until the database is opened anew. */
KV_API KV_MUST_CHECK kv_code kv_put(kv_space *space, kv_slice key, kv_slice value,
                                    unsigned flags, kv_status *status);

/* Deleting a key that is not there succeeds. */
KV_API KV_MUST_CHECK kv_code kv_delete(kv_space *space, kv_slice key, unsigned flags,
                                       kv_status *status);

/*
 * Gather changes across spaces of one database, then apply them all or not at
 * all. Keys and values are copied; the last operation on a key wins. Gathering
 * never fails on the spot: a batch that ran out of memory or was given a bad
 * key says so when committed, and until cleared. A committed batch is empty
 * and reusable; a refused one is unchanged.
 */
KV_API KV_MUST_CHECK kv_code kv_batch_new(kv_db *db, kv_batch **out, kv_status *status);
KV_API void kv_batch_put(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value);
KV_API void kv_batch_delete(kv_batch *batch, kv_space *space, kv_slice key);
KV_API void kv_batch_delete_range(kv_batch *batch, kv_space *space, const kv_range *range);
KV_API void kv_batch_clear(kv_batch *batch);
KV_API size_t kv_batch_count(const kv_batch *batch); /* operations gathered */
KV_API size_t kv_batch_size(const kv_batch *batch);  /* bytes of keys and values gathered */
KV_API KV_MUST_CHECK kv_code kv_batch_commit(kv_batch *batch, unsigned flags,
                                             kv_status *status);
KV_API void kv_batch_free(kv_batch *batch);

/* Delete every key of `range` (NULL: all), atomically. */
KV_API KV_MUST_CHECK kv_code kv_delete_range(kv_space *space, const kv_range *range,
                                             unsigned flags, kv_status *status);

/* ---- Looking after a database ------------------------------------------- */

/* About how many bytes of storage the keys of `range` (NULL: all) occupy. */
KV_API KV_MUST_CHECK kv_code kv_approximate_size(kv_space *space, const kv_range *range,
                                                 uint64_t *out, kv_status *status);

/* Rewrite the storage of `range` (NULL: all) without what was deleted. */
KV_API KV_MUST_CHECK kv_code kv_compact(kv_space *space, const kv_range *range,
                                        kv_status *status);

/* One figure. `text` is set instead of `number` where the engine gives prose. */
typedef struct kv_stat {
    const char *name;
    const char *text;
    uint64_t number;
} kv_stat;

/*
 * Call `visit` with each figure. Every driver gives, first and in this order:
 * "keys_estimate", "size_disk_bytes", "size_memory_bytes", "live_iterators",
 * "live_snapshots", "live_batches", "spaces". Then come the engine's own,
 * named "<driver>.<name>".
 */
KV_API KV_MUST_CHECK kv_code kv_stats(kv_db *db,
                                      void (*visit)(void *context, const kv_stat *stat),
                                      void *context, kv_status *status);

/*
 * Write a consistent copy of the whole database to the folder `dir`, which must
 * not exist, while it stays in use. Hard links where the engine can. The copy
 * opens like the original.
 */
KV_API KV_MUST_CHECK kv_code kv_checkpoint(kv_db *db, const char *dir, kv_status *status);

/* Salvage what can be read of the closed database that `options` name.
 * KV_UNSUPPORTED where the engine cannot. */
KV_API KV_MUST_CHECK kv_code kv_repair(const kv_options *options, kv_status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KV_KV_H */
