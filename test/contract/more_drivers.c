/* more_drivers.c - the drivers of the tests' own that the contract runs over too. */
#include "test/contract/more_drivers.h"
#include "test/contract/tiny_driver.h"
#include "test/fault/shim.h"

#include <stdio.h>
#include <stdlib.h>

void more_drivers_register(void)
{
    kv_status status = KV_STATUS_INIT;
    if (kv_driver_find("tiny") != NULL)
        return;
    if (kv_driver_register(&tiny_driver, &status) != KV_OK) {
        fprintf(stderr, "tiny: %s\n", status.message);
        abort();
    }
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL && !fault_is_shim(driver); i++)
        fault_shim_register(driver);
}
