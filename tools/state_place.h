/* state_place.h - what the commands on a state share: opening it, a version of it. */
#ifndef TOOLS_STATE_PLACE_H
#define TOOLS_STATE_PLACE_H

#include "tools/command.h"
#include "vmap/state.h"

#define STATE_PLACE_VERSION_HELP "At this kept version (default: the newest)"

struct state_place {
    kv_options *options;
    kv_db *db;
    state *state;
    state_view *view;
};

/* Open the database and the state in it; with KV_CREATE make what is missing. */
KV_MUST_CHECK kv_code state_place_open(struct state_place *place, const struct globals *globals,
                                       unsigned flags, kv_status *status);
/* The same to read `version` (0: the newest) through place->view. */
KV_MUST_CHECK kv_code state_place_view(struct state_place *place, const struct globals *globals,
                                       uint64_t version, kv_status *status);

/* The code of a call that took the name of a map from the command line: one that is not there
 * is a bad input, and no fault of the store. */
kv_code state_place_named(kv_code code, kv_status *status);

/* Close all, keeping the first fault; the exit status, `done` if all went well. */
int state_place_close(struct state_place *place, kv_code code, kv_status *status, int done);

/* Print version, app hash and the root of each map. */
void state_place_print(const state_view *view, bool json);

#endif /* TOOLS_STATE_PLACE_H */
