/*
 * engine_log.h - look at an engine's logs and MANIFEST before the engine does.
 *
 * LevelDB, and RocksDB after it, takes a record that reaches past the end of its file for a
 * torn write and stops there in silence, as it must after a crash. A single wrong bit in the
 * length of any record looks the same, and all synced writes from there on are gone without a
 * word; in the MANIFEST, whole tables. But the record's checksum still tells: it fits some
 * shorter length, which a torn record's never does.
 */
#ifndef DRIVERS_ENGINE_LOG_H
#define DRIVERS_ENGINE_LOG_H

#include "kv/kv.h"

/*
 * KV_CORRUPT, with the file and place, where the engine would lose records in
 * silence. KV_OK otherwise; then `suspect`, if it says something, names the first
 * record that fails its checksum, which the engine refuses without a name.
 */
kv_code engine_logs_check(const char *dir, kv_status *suspect, kv_status *status);

#endif /* DRIVERS_ENGINE_LOG_H */
