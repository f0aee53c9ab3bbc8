/* drivers.c - the list of drivers built in; the first is the default. */
#include "drivers/drivers.h"

const kv_driver *const kv_drivers_built_in[] = {
#if STATEKV_DRIVER_ROCKSDB
    &rocksdb_driver,
#endif
#if STATEKV_DRIVER_LEVELDB
    &leveldb_driver,
#endif
    &memory_driver,  &shadow_driver, NULL,
};
