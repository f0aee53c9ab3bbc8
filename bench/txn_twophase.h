/*
 * txn_twophase.h - RocksDB's own way to commit to two stores: prepare in both, a
 * decision record in the first, commit in both. A yardstick for the journal.
 */
#ifndef BENCH_TXN_TWOPHASE_H
#define BENCH_TXN_TWOPHASE_H

#include "kv/kv.h"

struct twophase;

/* Two databases below `dir`. KV_UNSUPPORTED where RocksDB is not built in. */
kv_code twophase_open(const char *dir, struct twophase **out, kv_status *status);
void twophase_close(struct twophase *twophase);

/* Put `value` under the thread's key in both, durably. */
kv_code twophase_commit(struct twophase *twophase, unsigned thread, kv_slice value,
                        kv_status *status);

#endif /* BENCH_TXN_TWOPHASE_H */
