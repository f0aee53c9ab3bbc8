/* reconnect_sides.h - the small states that the reconnect targets work on. */
#ifndef TEST_FUZZ_RECONNECT_SIDES_H
#define TEST_FUZZ_RECONNECT_SIDES_H

#include "vmap/state.h"

struct fuzz_side {
    kv_options *options;
    kv_db *db;
    state *state;
};

/* A state in memory with `keys` pairs; aborts on any fault. */
void fuzz_side_open(struct fuzz_side *side, unsigned keys, unsigned salt, unsigned versions);

#endif /* TEST_FUZZ_RECONNECT_SIDES_H */
