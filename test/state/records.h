/* records.h - what a state keeps, counted record by record, without its help. */
#ifndef TEST_STATE_RECORDS_H
#define TEST_STATE_RECORDS_H

#include "vmap/state.h"

enum records_which {
    RECORDS_ALL,
    RECORDS_NODES /* of state.pages: pages' nodes, not the entries beside them */
};

/* Fails the program on any fault. */
uint64_t records_count(kv_db *db, const char *space, enum records_which which);

/* A figure of state_stats. */
uint64_t records_figure(state *self, const char *name);

/*
 * Let the state settle: then no garbage may be left by its figures, no history until a
 * version before the oldest kept one may be there, and the figure of history must be
 * what is there. Else say what is not so on standard error.
 */
bool records_history_exact(kv_db *db, state *self);

#endif /* TEST_STATE_RECORDS_H */
