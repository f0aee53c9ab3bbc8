/* tiny_driver.h - the driver that docs/driver.md builds, for the contract suite. */
#ifndef TEST_CONTRACT_TINY_DRIVER_H
#define TEST_CONTRACT_TINY_DRIVER_H

#include "kv/driver.h"

extern const kv_driver tiny_driver;

#endif /* TEST_CONTRACT_TINY_DRIVER_H */
