/*
 * rocksdb_order.h - tell RocksDB that a batch comes in key order.
 *
 * Every insert searches the memtable from its top. Of a batch whose keys ascend the next
 * place is near the last one, and RocksDB can go on from there, but its C interface cannot
 * say so.
 */
#ifndef DRIVERS_ROCKSDB_ORDER_H
#define DRIVERS_ROCKSDB_ORDER_H

#include <rocksdb/c.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before a database is opened, or a family made, with these options. */
void rocks_order_prepare(rocksdb_options_t *options);

/* From here on this thread writes keys that ascend, or it does not. */
void rocks_order_set(bool on);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DRIVERS_ROCKSDB_ORDER_H */
