/* more_drivers.c - the drivers of the tests' own that the contract runs over too. */
#include "test/contract/more_drivers.h"

void more_drivers_register(void)
{
}
