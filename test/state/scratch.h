/* scratch.h - a state in a folder of its own, for Criterion tests. */
#ifndef TEST_STATE_SCRATCH_H
#define TEST_STATE_SCRATCH_H

#include "kv/driver.h"
#include "vmap/state.h"

struct scratch {
    char dir[64];
    char driver[16];
    kv_options *options;
    kv_db *db;
    state *state;
};

/* Fail the test unless `code` is KV_OK. */
#define need(code) cr_assert_eq((code), KV_OK)

void scratch_open(struct scratch *scratch, const char *driver);
void scratch_set(struct scratch *scratch, const char *name, const char *value);
/* Close and open the state; its database too, where that keeps it. */
void scratch_reopen(struct scratch *scratch);
/* The newest version must verify. */
void scratch_verify(const struct scratch *scratch);
void scratch_close(struct scratch *scratch);

#endif /* TEST_STATE_SCRATCH_H */
