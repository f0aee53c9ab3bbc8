/*
 * driver.h - what a storage engine must provide to stand behind kv.h.
 *
 * A driver is one constant table of functions. The core allocates every
 * handle, `*_size` bytes zeroed with the base struct first, fills the base,
 * and frees it: a driver only opens and closes what it keeps in the rest.
 *
 * The core checks before it calls: keys and values are within the table's
 * limits, ranges are given (never NULL) and not reversed (first == limit holds
 * no key, an empty limit is no upper end), handles belong to this database,
 * and no write reaches a database that is read-only. So a driver may assert
 * these. It counts live handles and never closes a database, or drops a space,
 * over one. A failing function leaves nothing to close.
 *
 * Without KV_CAP_SPACES the space a driver is given says only which database
 * is meant: the key carries the rest.
 *
 * docs/driver.md is the guide. Drivers are C; this header is not for C++.
 */
#ifndef KV_DRIVER_H
#define KV_DRIVER_H

#include "kv/kv.h"

/* Raised when the table changes; members are appended, never moved. */
enum { KV_DRIVER_VERSION = 1 };

/* What a driver can do beyond the required calls. */
enum kv_caps {
    KV_CAP_DURABLE = 1u << 0, /* contents outlive the process */
    KV_CAP_SPACES = 1u << 1,  /* native spaces; else the core prefixes every key */
    KV_CAP_PINNED = 1u << 2,  /* get lends memory instead of copying */
    KV_CAP_VERIFY = 1u << 3   /* honours kv_read.verify */
};

/* Base of every driver's handles: embed it as the first member. */
struct kv_db {
    const kv_driver *driver;
    const char *dir; /* owned by the core */
    unsigned flags;
    struct kv_core *core; /* the core's own */
};

/* Bytes the core puts before a key where spaces are not native; a driver
 * takes keys this much longer than its key_size_max. */
enum { KV_SPACE_PREFIX_SIZE_MAX = 2 };

struct kv_space {
    kv_db *db;
    const char *name; /* owned by the core */
    struct kv_space_core *core;
    unsigned char prefix[KV_SPACE_PREFIX_SIZE_MAX]; /* the core's own, */
    unsigned char prefix_size;                      /* 0 where spaces are native */
};

struct kv_snapshot {
    kv_db *db;
};

struct kv_iter {
    kv_slice key;   /* set by the driver at each move to an entry; the core */
    kv_slice value; /* changes them afterwards, so never read them back */
    const kv_driver *driver;
    kv_space *space;
    bool on;                   /* kept by the core: on an entry */
    unsigned char prefix_size; /* the core's own */
    kv_status status;          /* the fault that ended the walk, if any */
};

struct kv_batch {
    const kv_driver *driver;
    kv_db *db;
    size_t count; /* kept by the core */
    size_t size;
    struct kv_ranges *ranges; /* the core's own, */
    unsigned drops;           /* this too */
    kv_status status;         /* the first fault while gathering */
};

enum { KV_DRIVER_NAME_SIZE_MAX = 32 };

struct kv_driver {
    unsigned version; /* KV_DRIVER_VERSION this table was written for */
    unsigned caps;
    const char *name;              /* a-z 0-9 . _ -, at most KV_DRIVER_NAME_SIZE_MAX bytes */
    const char *engine_version;    /* "RocksDB 7.8.3" */
    const kv_option_spec *options; /* ended by a NULL name */
    uint64_t key_size_max, value_size_max;

    size_t db_size, space_size, snapshot_size, iter_size, batch_size;

    /* ---- Required ---- */

    /*
     * Open the engine in db->dir as db->flags say. The core has already made
     * the folder, taken its lock and checked that it holds this driver's data
     * or nothing; it passes KV_CREATE only where no database was ever finished,
     * so that lost files are never taken for a fresh start. Options are read by
     * their dotted names, kv_options_number(options, "kv.<name>.<option>").
     */
    kv_code (*open)(kv_db *db, const kv_options *options, kv_status *status);
    void (*close)(kv_db *db);

    /* Find or, with KV_CREATE, make a space; KV_NOT_FOUND. The core calls it
     * once per space and keeps the handle. NULL, both, without KV_CAP_SPACES. */
    kv_code (*space_open)(kv_space *space, unsigned flags, kv_status *status);
    void (*space_close)(kv_space *space);

    /* `out` is empty; KV_NOT_FOUND leaves it so. */
    kv_code (*get)(kv_space *space, const kv_read *read, kv_slice key, kv_value *out,
                   kv_status *status);

    kv_code (*snapshot_take)(kv_snapshot *snapshot, kv_status *status);
    void (*snapshot_release)(kv_snapshot *snapshot);

    /*
     * The iterator sees the moment of this call (or read->snapshot) and only
     * keys in `range`, whose bytes the driver copies. The moves set iter->key
     * and iter->value and return true, or return false off the range or on a
     * fault, which they record in iter->status by kv_fail. next and prev are
     * called only on an entry.
     */
    kv_code (*iter_open)(kv_iter *iter, const kv_read *read, const kv_range *range,
                         kv_status *status);
    void (*iter_close)(kv_iter *iter);
    bool (*iter_first)(kv_iter *iter);
    bool (*iter_last)(kv_iter *iter);
    bool (*iter_seek)(kv_iter *iter, kv_slice key);
    bool (*iter_next)(kv_iter *iter);
    bool (*iter_prev)(kv_iter *iter);

    /* Gathering records faults in batch->status by kv_fail. A refused commit
     * leaves the gathered operations as they were; the core clears after a
     * good one. */
    kv_code (*batch_open)(kv_batch *batch, kv_status *status);
    void (*batch_close)(kv_batch *batch);
    void (*batch_put)(kv_batch *batch, kv_space *space, kv_slice key, kv_slice value);
    void (*batch_delete)(kv_batch *batch, kv_space *space, kv_slice key);
    void (*batch_clear)(kv_batch *batch);
    kv_code (*batch_commit)(kv_batch *batch, unsigned flags, kv_status *status);

    /* ---- Optional: NULL lets the core do it with the calls above, or refuse
     * with KV_UNSUPPORTED where it cannot ---- */

    kv_code (*put)(kv_space *space, kv_slice key, kv_slice value, unsigned flags,
                   kv_status *status);
    kv_code (*del)(kv_space *space, kv_slice key, unsigned flags, kv_status *status);
    kv_code (*get_many)(kv_space *space, const kv_read *read, size_t count,
                        const kv_slice *keys, kv_value *out, kv_code *codes, kv_status *status);
    bool (*iter_seek_for_prev)(kv_iter *iter, kv_slice key);
    void (*iter_verify)(kv_iter *iter); /* record a fault that a move passed over */
    void (*batch_delete_range)(kv_batch *batch, kv_space *space, const kv_range *range);
    kv_code (*sync)(kv_db *db, kv_status *status);             /* NULL: a synced empty batch */
    kv_code (*space_drop)(kv_space *space, kv_status *status); /* space_close follows */
    kv_code (*space_list)(kv_db *db, bool (*visit)(void *context, const char *name),
                          void *context, kv_status *status); /* required with KV_CAP_SPACES */
    kv_code (*approximate_size)(kv_space *space, const kv_range *range, uint64_t *out,
                                kv_status *status);
    kv_code (*compact)(kv_space *space, const kv_range *range, kv_status *status);
    /* First "keys_estimate", "size_disk_bytes" and "size_memory_bytes", in this
     * order; then the engine's own, named "<driver>.<name>". */
    kv_code (*stats)(kv_db *db, void (*visit)(void *context, const kv_stat *stat),
                     void *context, kv_status *status);
    /* `dir` does not exist; the core renames it into place afterwards. */
    kv_code (*checkpoint)(kv_db *db, const char *dir, kv_status *status);
    kv_code (*repair)(const kv_options *options, kv_status *status);

    /* Call `visit` with the gathered operations in order, `value` NULL for a
     * delete. Lets the core do batch_delete_range. `space` is as given to
     * batch_put. */
    void (*batch_visit)(const kv_batch *batch,
                        void (*visit)(void *context, kv_space *space, kv_slice key,
                                      const kv_slice *value),
                        void *context);

    /* Tell whether `dir` holds files of this engine, whoever made them. */
    bool (*recognise)(const char *dir);
    /* Members above are version 1. */
};

/* The driver called `name` or one of CometBFT's names for it, or NULL. */
KV_API const kv_driver *kv_driver_find(const char *name);

/* The drivers built in and registered, in order; NULL past the last. */
KV_API const kv_driver *kv_driver_at(size_t index);

/* Add a driver at run time, for tests and shims. Not thread-safe. KV_INVALID:
 * a required call is missing, or the name is not one or is taken. */
KV_API KV_MUST_CHECK kv_code kv_driver_register(const kv_driver *driver, kv_status *status);

#endif /* KV_DRIVER_H */
