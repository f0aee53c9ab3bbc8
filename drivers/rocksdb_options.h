/* rocksdb_options.h - RocksDB's settings from our options. */
#ifndef DRIVERS_ROCKSDB_OPTIONS_H
#define DRIVERS_ROCKSDB_OPTIONS_H

#include "kv/driver.h"

#include <rocksdb/c.h>

extern const kv_option_spec rocks_option_specs[];

struct rocks_settings {
    rocksdb_options_t *options; /* of the database and of every family */
    rocksdb_cache_t *cache;
};

kv_code rocks_settings_init(struct rocks_settings *settings, const kv_options *options,
                            kv_status *status);
void rocks_settings_clear(struct rocks_settings *settings);

#endif /* DRIVERS_ROCKSDB_OPTIONS_H */
