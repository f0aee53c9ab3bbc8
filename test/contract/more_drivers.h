/* more_drivers.h - the drivers of the tests' own that the contract runs over too. */
#ifndef TEST_CONTRACT_MORE_DRIVERS_H
#define TEST_CONTRACT_MORE_DRIVERS_H

/* Register them; harmless when done already. */
void more_drivers_register(void);

#endif /* TEST_CONTRACT_MORE_DRIVERS_H */
