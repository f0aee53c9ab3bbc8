/*
 * txn_internal.h - the parts of a transaction: what it wrote (buffer), what it
 * holds (locks), and what others committed since it began (oracle).
 */
#ifndef KV_TXN_INTERNAL_H
#define KV_TXN_INTERNAL_H

#include "kv/mutex.h"
#include "kv/txn.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- Buffer: own writes, ordered by space and key, with undo ------------- */

enum { TXN_HEIGHT_MAX = 12 };

enum txn_kind { TXN_NONE, TXN_PUT, TXN_DELETE };

/* A skip list's node. A write that was undone leaves a node of kind TXN_NONE. */
struct txn_node {
    kv_space *space;
    kv_slice key;
    kv_slice value;
    enum txn_kind kind;
    struct txn_node *next[]; /* as many as the node is high */
};

struct txn_undo {
    struct txn_node *node;
    enum txn_kind kind; /* as it was before */
    kv_slice value;
};

struct txn_block; /* of the arena */

struct txn_buffer {
    struct txn_node *head[TXN_HEIGHT_MAX];
    unsigned height;          /* of the highest node */
    struct txn_block *blocks; /* newest first; one is kept over a reset */
    size_t block_left;
    struct txn_undo *undo;
    size_t undo_count, undo_room;
    size_t size;     /* bytes of keys and values written */
    uint64_t random; /* for heights */
};

void txn_buffer_init(struct txn_buffer *buffer);
void txn_buffer_clear(struct txn_buffer *buffer); /* empty, keeping memory for reuse */
void txn_buffer_free(struct txn_buffer *buffer);
KV_MUST_CHECK kv_code txn_buffer_set(struct txn_buffer *buffer, kv_space *space, kv_slice key,
                                     enum txn_kind kind, kv_slice value, kv_status *status);
/* Undo the writes after the first `undo_count`. */
void txn_buffer_rollback(struct txn_buffer *buffer, size_t undo_count);
/* The node of exactly this key, or NULL. */
struct txn_node *txn_buffer_find(struct txn_buffer *buffer, const kv_space *space,
                                 kv_slice key);
/* The first node of `space` with a key >= or the last with a key < `key`, or NULL. */
struct txn_node *txn_buffer_seek(struct txn_buffer *buffer, const kv_space *space,
                                 kv_slice key);
struct txn_node *txn_buffer_before(struct txn_buffer *buffer, const kv_space *space,
                                   kv_slice key);
/* The last node of `space`, or NULL. */
struct txn_node *txn_buffer_last(struct txn_buffer *buffer, const kv_space *space);

/* ---- Oracle: who committed what since when ------------------------------- */

/*
 * Versions are kept per slot, not per key: keys that share a slot can only make
 * a conflict that is not one, never hide one.
 */
enum { ORACLE_SLOTS = 1 << 16 };
enum { ORACLE_LOG_SIZE_MAX = 16 << 20 }; /* bytes kept for those that scan */

struct oracle {
    pthread_mutex_t commit;  /* held from check to publication */
    _Atomic uint64_t newest; /* the newest published commit */
    unsigned scanners;       /* live transactions that guard a range */
    uint64_t log_low;        /* commits up to here are not in the log */
    char *log;               /* records of oracle_record and key bytes */
    size_t log_size, log_room;
    _Atomic uint64_t versions[ORACLE_SLOTS]; /* the newest commit that wrote a slot */
};

/* `oracle` comes zeroed. */
KV_MUST_CHECK kv_code oracle_init(struct oracle *oracle, kv_status *status);
void oracle_free(struct oracle *oracle);
uint64_t txn_hash(const kv_space *space, kv_slice key);

static inline uint32_t oracle_slot(uint64_t hash)
{
    return (uint32_t)(hash & (ORACLE_SLOTS - 1));
}

/* With `commit` held: note that commit `version` wrote this key. */
void oracle_note(struct oracle *oracle, uint64_t version, const kv_space *space, kv_slice key);
/* With `commit` held: was a key in the range written after `version`? KV_OK no,
 * KV_CONFLICT yes, KV_TOO_OLD no longer known. */
KV_MUST_CHECK kv_code oracle_check_range(const struct oracle *oracle, uint64_t version,
                                         const kv_space *space, const kv_range *range);

/* ---- Locks ---------------------------------------------------------------- */

/* Multi-granularity modes (Gray et al., "Granularity of Locks", 1976): a space is
 * locked with an intention before its keys, a scan shares the whole space. */
enum lock_mode { LOCK_NONE, LOCK_IS, LOCK_IX, LOCK_S, LOCK_SIX, LOCK_X };
enum { LOCK_MODES = 6 };
enum { LOCK_STRIPES = 16 };
enum { LOCK_BUCKETS = 256 };         /* per stripe */
enum { LOCK_WAIT_DEPTH_MAX = 4096 }; /* longest chain of waits that is followed */
enum { LOCK_SPARES_MAX = 1024 };     /* unused locks and grants kept per stripe */
enum { LOCK_WAKES_MAX = 16 };        /* sleepers gathered before they are woken */
enum { LOCK_YIELDS = 8 };            /* times that a waiter lets others run before it sleeps */

struct lock;

/* One holder of a lock. */
struct lock_grant {
    kv_txn *txn;
    struct lock_grant *next;
    enum lock_mode mode;
};

/* What a transaction did to a lock, to undo in reverse. */
struct lock_record {
    struct lock *lock;
    enum lock_mode before, after;
};

struct lock_stripe {
    pthread_mutex_t mutex;
    struct lock *buckets[LOCK_BUCKETS];
    struct lock *spare_locks;
    struct lock_grant *spare_grants;
    unsigned spare_lock_count, spare_grant_count;
};

struct lock_table {
    struct lock_stripe stripes[LOCK_STRIPES];
    _Atomic uint64_t waits, deadlocks, timeouts;
    uint64_t visit; /* of the deadlock search; under all stripes */
};

/* How it stands with a wait; a futex. */
enum lock_wait_state { WAIT_AWAKE, WAIT_ASLEEP, WAIT_GRANTED };

/* A transaction's side of the lock table. */
struct lock_owner {
    struct lock_record *records;
    size_t count, room;
    kv_space *space;           /* the one locked last; NULL when none is known to be, */
    enum lock_mode space_mode; /* and at least so */
    struct lock *waiting_for;  /* NULL when not waiting */
    enum lock_mode waiting_mode;
    _Atomic uint32_t wait_state;
    _Atomic bool awaited; /* somebody waited for a lock it held or stood in line for */
    kv_txn *next_in_queue;
    uint64_t visited;
};

KV_MUST_CHECK kv_code lock_table_init(struct lock_table *table, kv_status *status);
void lock_table_free(struct lock_table *table);
void lock_owner_free(struct lock_owner *owner);
/* Hold (space, key) in `mode`, or the space itself with an empty key. */
KV_MUST_CHECK kv_code lock_take(kv_txn *txn, kv_space *space, kv_slice key, enum lock_mode mode,
                                kv_status *status);
/* Undo what was taken after the first `count` records. */
void lock_release_to(kv_txn *txn, size_t count);

/* ---- Transactions --------------------------------------------------------- */

struct txn_range {
    kv_space *space;
    kv_range keys;
    char *bytes; /* of `keys`; owned */
};

struct txn_mark { /* of a savepoint */
    size_t undo_count, lock_count;
    uint64_t serial;
};

struct kv_txn_manager {
    kv_db *db;
    kv_txn_options options;
    uint8_t id_prefix[8];
    _Atomic uint64_t id_next;
    struct oracle oracle;
    struct lock_table locks;
    pthread_mutex_t spare_mutex;
    kv_txn *spares; /* closed transactions, for reuse */
    unsigned spare_count;
    _Atomic uint64_t live, commits, aborts, conflicts;
};

struct kv_txn {
    kv_txn_manager *manager;
    kv_txn *next_spare;
    uint64_t id;
    kv_txn_state state;
    uint64_t start; /* reads are of this commit's moment */
    kv_snapshot *snapshot;
    kv_batch *batch; /* kept for reuse */
    struct txn_buffer buffer;
    struct lock_owner locks;
    uint32_t *reads; /* slots read, to check at commit */
    size_t read_count, read_room;
    struct txn_range *ranges;
    size_t range_count, range_room;
    struct txn_mark *marks;
    uint32_t mark_count, mark_room;
    uint64_t serial; /* of the newest savepoint */
    unsigned iterators;
};

/* Make room for one more of `size` bytes in an array that doubles. */
KV_MUST_CHECK kv_code txn_grow(void *array, size_t count, size_t *room, size_t size,
                               kv_status *status);

/* For the iterator: state, a copy of a range (NULL: all), its read view and guard. */
KV_MUST_CHECK kv_code txn_range_copy(struct txn_range *to, kv_space *space,
                                     const kv_range *range, kv_status *status);
KV_MUST_CHECK kv_code txn_check_active(const kv_txn *txn, kv_status *status);
KV_MUST_CHECK kv_code txn_guard_range(kv_txn *txn, kv_space *space, const kv_range *range,
                                      kv_status *status);

#endif /* KV_TXN_INTERNAL_H */
