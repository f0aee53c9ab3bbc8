/*
 * txn.h - transactions over one database, the same on every driver.
 *
 * A manager stands over an open database. Its transactions read and write any
 * of the database's spaces and end in one atomic batch, or in nothing:
 *
 *     kv_txn_manager_open(db, NULL, &manager, &status)
 *     kv_txn_begin(manager, &txn, &status)
 *     kv_txn_get_for_update(txn, accounts, alice, &balance, &status)
 *     kv_txn_put(txn, accounts, alice, less, &status)
 *     kv_txn_commit(txn, &status)
 *     kv_txn_close(txn)
 *
 * or, retried where that can help, kv_txn_run(manager, transfer, &order, &status).
 *
 * Two modes, chosen per manager:
 *
 *   optimistic   reads lock nothing; commit fails with KV_CONFLICT if something
 *                read has been written since. By version, never by value: a key
 *                that went from A to B and back to A conflicts.
 *   pessimistic  reads take shared and writes exclusive locks, held to the end
 *                (strict two-phase locking). A wait that would never end is
 *                KV_DEADLOCK for one of the circle, at once; a long one is
 *                KV_TIMEOUT.
 *
 * Two isolation levels, by their names in Berenson et al., "A Critique of ANSI
 * SQL Isolation Levels" (1995):
 *
 *   serializable  no lost update, write skew or phantom. Every read of a
 *                 transaction, also of one that will fail, is of one moment
 *                 (opacity: Dice, Shalev, Shavit, "Transactional Locking II", 2006).
 *   snapshot      reads see the moment of the first of them; two transactions
 *                 that write one key cannot both commit. Write skew is possible.
 *
 * Writes made around the manager (kv_put and its kin) are not seen by it: while
 * a manager is open, write through it alone.
 *
 * Conventions are kv.h's. Threads: a manager may be used by many; a transaction
 * belongs to one thread at a time.
 */
#ifndef KV_TXN_H
#define KV_TXN_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KV_TXN_SAVEPOINTS_MAX 256u           /* nesting depth */
#define KV_TXN_SIZE_MAX_DEFAULT (256u << 20) /* bytes of keys and values written */
#define KV_TXN_READS_MAX (1u << 24)          /* keys and ranges a transaction may read */
#define KV_TXN_TIMEOUT_MS_DEFAULT 10000u     /* wait for one lock */
#define KV_TXN_ATTEMPTS_MAX_DEFAULT 100u     /* tries of kv_txn_run */

typedef struct kv_txn_manager kv_txn_manager;
typedef struct kv_txn kv_txn;
typedef struct kv_txn_iter kv_txn_iter;

typedef enum kv_txn_mode { KV_TXN_OPTIMISTIC, KV_TXN_PESSIMISTIC } kv_txn_mode;
typedef enum kv_txn_isolation { KV_TXN_SERIALIZABLE, KV_TXN_SNAPSHOT } kv_txn_isolation;

/* NULL, or all zeros, means the defaults. */
typedef struct kv_txn_options {
    kv_txn_mode mode;
    kv_txn_isolation isolation;
    unsigned flags;        /* KV_SYNC: a commit returns once durable */
    uint32_t timeout_ms;   /* longest wait for one lock */
    uint32_t attempts_max; /* tries of kv_txn_run */
    size_t size_max;       /* bytes one transaction may write, else KV_TOO_BIG */
} kv_txn_options;

/* KV_INVALID: no such mode, isolation or flag. */
KV_API KV_MUST_CHECK kv_code kv_txn_manager_open(kv_db *db, const kv_txn_options *options,
                                                 kv_txn_manager **out, kv_status *status);
/* KV_BUSY over transactions that were not closed. */
KV_API KV_MUST_CHECK kv_code kv_txn_manager_close(kv_txn_manager *manager, kv_status *status);

/* ---- Identity ------------------------------------------------------------ */

/* 8 random bytes drawn when the manager was opened, then a counter, big-endian:
 * never used twice, also across restarts. */
typedef struct kv_txn_id {
    uint8_t bytes[16];
} kv_txn_id;

enum { KV_TXN_ID_TEXT_SIZE = 33 }; /* 32 hex digits and the end mark */

/* Write the text form into `text`, which is returned. */
KV_API char *kv_txn_id_text(const kv_txn_id *id, char text[KV_TXN_ID_TEXT_SIZE]);
/* KV_INVALID: not 32 hex digits. */
KV_API KV_MUST_CHECK kv_code kv_txn_id_parse(const char *text, kv_txn_id *out,
                                             kv_status *status);

/* ---- Life ---------------------------------------------------------------- */

typedef enum kv_txn_state {
    KV_TXN_ACTIVE,
    KV_TXN_FAILED, /* by conflict, deadlock, timeout or fault: only abort is left */
    KV_TXN_COMMITTED,
    KV_TXN_ABORTED
} kv_txn_state;

KV_API KV_MUST_CHECK kv_code kv_txn_begin(kv_txn_manager *manager, kv_txn **out,
                                          kv_status *status);
KV_API kv_txn_id kv_txn_identity(const kv_txn *txn);
KV_API kv_txn_state kv_txn_state_of(const kv_txn *txn);

/*
 * Make every write visible and, with KV_SYNC, durable. KV_CONFLICT: something
 * read was written by another, nothing was committed. KV_BAD_STATE: ended or
 * failed before. After KV_IO from the final sync the writes are visible but may
 * not outlive a power cut; the database refuses further writes.
 */
KV_API KV_MUST_CHECK kv_code kv_txn_commit(kv_txn *txn, kv_status *status);
/* Drop every write and lock. Harmless on an ended transaction. */
KV_API void kv_txn_abort(kv_txn *txn);
/* Abort what is not committed and give the handle back. */
KV_API void kv_txn_close(kv_txn *txn);

/*
 * Run `body` in a transaction and commit it. A KV_CONFLICT, KV_DEADLOCK or
 * KV_TIMEOUT, from a call in `body` that it passes on or from the commit, aborts
 * and tries anew, after a random pause that doubles up to 16 ms, at most
 * `attempts_max` times; any other code of `body` aborts and is returned.
 */
KV_API KV_MUST_CHECK kv_code kv_txn_run(kv_txn_manager *manager,
                                        kv_code (*body)(kv_txn *txn, void *context,
                                                        kv_status *status),
                                        void *context, kv_status *status);

/* ---- Reading and writing -------------------------------------------------
 *
 * Own writes are visible. Every call below answers KV_BAD_STATE unless the
 * transaction is active. A value read may be an own write, and lasts until the
 * transaction ends. KV_CONFLICT, KV_DEADLOCK and KV_TIMEOUT leave it
 * failed; KV_INVALID and KV_TOO_BIG leave it as it was.
 */

KV_API KV_MUST_CHECK kv_code kv_txn_get(kv_txn *txn, kv_space *space, kv_slice key,
                                        kv_value *out, kv_status *status);
/* As kv_txn_get, for a key that will be written: takes the exclusive lock at
 * once, and under snapshot isolation guards the read as a write would. */
KV_API KV_MUST_CHECK kv_code kv_txn_get_for_update(kv_txn *txn, kv_space *space, kv_slice key,
                                                   kv_value *out, kv_status *status);
KV_API KV_MUST_CHECK kv_code kv_txn_put(kv_txn *txn, kv_space *space, kv_slice key,
                                        kv_slice value, kv_status *status);
KV_API KV_MUST_CHECK kv_code kv_txn_delete(kv_txn *txn, kv_space *space, kv_slice key,
                                           kv_status *status);

/* As kv_iter, over the database and own writes; a write made while the walk is
 * open is met if it lies ahead. A serializable walk guards its whole range.
 * Close it before the transaction ends, or it answers KV_BAD_STATE. */
KV_API KV_MUST_CHECK kv_code kv_txn_iter_open(kv_txn *txn, kv_space *space,
                                              const kv_range *range, kv_txn_iter **out,
                                              kv_status *status);
KV_API bool kv_txn_iter_first(kv_txn_iter *iter);
KV_API bool kv_txn_iter_last(kv_txn_iter *iter);
KV_API bool kv_txn_iter_seek(kv_txn_iter *iter, kv_slice key);
KV_API bool kv_txn_iter_next(kv_txn_iter *iter);
KV_API bool kv_txn_iter_prev(kv_txn_iter *iter);
KV_API kv_slice kv_txn_iter_key(const kv_txn_iter *iter);
KV_API kv_slice kv_txn_iter_value(const kv_txn_iter *iter);
KV_API KV_MUST_CHECK kv_code kv_txn_iter_status(const kv_txn_iter *iter, kv_status *status);
KV_API void kv_txn_iter_close(kv_txn_iter *iter);

/* ---- Savepoints ----------------------------------------------------------
 *
 * A nested transaction is a savepoint: release commits it into its parent,
 * rollback aborts it. Savepoints nest; naming an outer one ends the inner ones.
 */

typedef struct kv_txn_savepoint {
    uint32_t depth;
    uint64_t serial;
} kv_txn_savepoint;

/* KV_TOO_BIG: KV_TXN_SAVEPOINTS_MAX deep. */
KV_API KV_MUST_CHECK kv_code kv_txn_savepoint_take(kv_txn *txn, kv_txn_savepoint *out,
                                                   kv_status *status);
/* Undo every write since, release every lock taken since, end the savepoint. What
 * was read since stays guarded in optimistic mode. KV_BAD_STATE: ended already. */
KV_API KV_MUST_CHECK kv_code kv_txn_savepoint_rollback(kv_txn *txn, kv_txn_savepoint savepoint,
                                                       kv_status *status);
/* Keep every write and lock since, and end the savepoint. */
KV_API KV_MUST_CHECK kv_code kv_txn_savepoint_release(kv_txn *txn, kv_txn_savepoint savepoint,
                                                      kv_status *status);

/* ---- Figures ------------------------------------------------------------- */

typedef struct kv_txn_counts {
    uint64_t commits, aborts, conflicts, deadlocks, timeouts, lock_waits;
} kv_txn_counts;

KV_API kv_txn_counts kv_txn_manager_counts(const kv_txn_manager *manager);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KV_TXN_H */
