/* contract.h - what the tests of the contract share; each runs over every driver. */
#ifndef TEST_CONTRACT_CONTRACT_H
#define TEST_CONTRACT_CONTRACT_H

#include "test/store.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

/* One row of a parameterized test: by value, because each test is a new process. */
struct contract_row {
    char driver[16];
};

struct criterion_test_params contract_rows(void);         /* every driver */
struct criterion_test_params contract_rows_durable(void); /* those that keep their data */

#define CONTRACT_TEST(suite, name)           \
    ParameterizedTestParameters(suite, name) \
    {                                        \
        return contract_rows();              \
    }                                        \
    ParameterizedTest(struct contract_row *row, suite, name)

#define CONTRACT_TEST_DURABLE(suite, name)   \
    ParameterizedTestParameters(suite, name) \
    {                                        \
        return contract_rows_durable();      \
    }                                        \
    ParameterizedTest(struct contract_row *row, suite, name)

/* An open store of the row's driver. */
void contract_store(struct store *store, const struct contract_row *row);
/* The space `name` of the store, made where it is missing. */
kv_space *store_space(struct store *store, const char *name);
bool store_has(const struct store *store, unsigned caps);

/* Open `dir` with `driver` and hand back the code; status as usual. */
kv_code contract_open(const char *driver, const char *dir, unsigned flags, kv_db **out,
                      kv_status *status);
void contract_path(char out[TEST_PATH_SIZE], const char *dir, const char *name);

/* Short forms over texts; an answer that is not KV_OK fails the test. */
void put(kv_space *space, const char *key, const char *value);
void del(kv_space *space, const char *key);
/* "-" where there is none, else the value with odd bytes as \xNN. In turn
 * eight buffers. */
const char *get(kv_space *space, const char *key);
const char *get_at(kv_space *space, const kv_snapshot *snapshot, const char *key);

kv_range text_range(const char *first, const char *limit); /* NULL for no bound */

/* The keys of a range, joined by blanks; values too, as key=value. */
const char *keys(kv_space *space, const char *first, const char *limit);
const char *keys_back(kv_space *space, const char *first, const char *limit);
const char *pairs_at(kv_space *space, const kv_snapshot *snapshot);
/* From an open iterator, which is closed. */
const char *keys_of(kv_iter *iter, bool back);

kv_iter *iter_open(kv_space *space, const kv_read *read, const kv_range *range);

#define assert_ok(call)                                                                       \
    do {                                                                                      \
        kv_status status_ = KV_STATUS_INIT;                                                   \
        kv_status *status = &status_;                                                         \
        kv_code code_ = (call);                                                               \
        cr_assert(code_ == KV_OK, "%s: %s: %s", #call, kv_code_name(code_), status_.message); \
    } while (0)

#define assert_code(expected, call)                                                       \
    do {                                                                                  \
        kv_status status_ = KV_STATUS_INIT;                                               \
        kv_status *status = &status_;                                                     \
        kv_code code_ = (call);                                                           \
        cr_assert(code_ == (expected), "%s: %s (%s), not %s", #call, kv_code_name(code_), \
                  status_.message, kv_code_name(expected));                               \
        cr_assert(code_ == KV_OK || code_ == KV_NOT_FOUND || status_.message[0] != '\0',  \
                  "%s: %s without a message", #call, kv_code_name(code_));                \
    } while (0)

#define assert_text(got, expected)                                                   \
    do {                                                                             \
        const char *got_ = (got);                                                    \
        cr_assert(strcmp(got_, expected) == 0, "%s: \"%s\", not \"%s\"", #got, got_, \
                  expected);                                                         \
    } while (0)

#endif /* TEST_CONTRACT_CONTRACT_H */
