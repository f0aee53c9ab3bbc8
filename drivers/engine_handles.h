/*
 * engine_handles.h - the engines' own handles behind an open database, so that
 * a benchmark can run the same work straight on the engine. Not for anything
 * else: what is done through them passes by all that the core checks.
 */
#ifndef DRIVERS_ENGINE_HANDLES_H
#define DRIVERS_ENGINE_HANDLES_H

#include "kv/kv.h"

#if STATEKV_DRIVER_ROCKSDB
#include <rocksdb/c.h>

rocksdb_t *rocks_engine_of(kv_db *db);
rocksdb_column_family_handle_t *rocks_family_of(kv_space *space);
#endif

#if STATEKV_DRIVER_LEVELDB
#include <leveldb/c.h>

leveldb_t *level_engine_of(kv_db *db);
#endif

#endif /* DRIVERS_ENGINE_HANDLES_H */
