/*
 * fixture.h - what the tests of transactions share: a manager over a store of its own, and
 * short forms over texts.
 */
#ifndef TEST_TXN_FIXTURE_H
#define TEST_TXN_FIXTURE_H

#include "kv/txn.h"
#include "test/store.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

/* One row of a parameterized test: by value, because each test is a new process. */
struct row {
    char driver[16];
    kv_txn_mode mode;
    kv_txn_isolation isolation;
};

struct criterion_test_params every_row(void); /* all drivers, all modes and levels */

#define EVERY(suite, name)                   \
    ParameterizedTestParameters(suite, name) \
    {                                        \
        return every_row();                  \
    }                                        \
    ParameterizedTest(struct row *row, suite, name)

struct bench {
    struct store store;
    kv_txn_manager *manager;
    kv_space *space;
};

void setup(struct bench *bench, const struct row *row, uint32_t timeout_ms);
void teardown(struct bench *bench);

kv_txn *begin(struct bench *bench);
kv_code put(struct bench *bench, kv_txn *txn, const char *key, const char *value);
kv_code del(struct bench *bench, kv_txn *txn, const char *key);
/* "value", "-" when absent, or the code's name. */
const char *get(struct bench *bench, kv_txn *txn, const char *key);
/* Put in a transaction of its own. */
void set(struct bench *bench, const char *key, const char *value);
/* "a=1 b=2 ", forwards or backwards. */
const char *scan(struct bench *bench, kv_txn *txn, const char *first, const char *limit,
                 bool back);

#endif /* TEST_TXN_FIXTURE_H */
