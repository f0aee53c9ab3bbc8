/* drivers.h - the drivers that this library was built with. */
#ifndef DRIVERS_DRIVERS_H
#define DRIVERS_DRIVERS_H

#include "kv/driver.h"

extern const kv_driver memory_driver, leveldb_driver, rocksdb_driver, shadow_driver;

/* In the order in which they are listed to the user; ended by NULL. */
extern const kv_driver *const kv_drivers_built_in[];

#endif /* DRIVERS_DRIVERS_H */
