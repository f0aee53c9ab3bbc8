/*
 * shim.h - a driver around any other, whose calls fail when told to.
 *
 * "f.rocksdb" passes everything through to "rocksdb", until the call that was
 * chosen answers a fault of the test's choice without reaching it.
 */
#ifndef TEST_FAULT_SHIM_H
#define TEST_FAULT_SHIM_H

#include "kv/driver.h"

/* Register a shim around `inner`, called "f.<name>"; harmless when done. */
void fault_shim_register(const kv_driver *inner);

bool fault_is_shim(const kv_driver *driver);

/* Let the `nth` call from now on (1 is the next) fail with `code`, once; with
 * `stay` all later ones too. 0 for none. */
void fault_shim_fail(unsigned long nth, kv_code code, bool stay);

/* The calls that could have failed, since fault_shim_fail. */
unsigned long fault_shim_calls(void);

#endif /* TEST_FAULT_SHIM_H */
