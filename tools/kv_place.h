/* kv_place.h - what the kv commands share: a space of the database, text or hex. */
#ifndef TOOLS_KV_PLACE_H
#define TOOLS_KV_PLACE_H

#include "tools/command.h"
#include "tools/text.h"

/* Filled by the argp below; opened by place_open. */
struct place {
    const char *space_name;
    const char *key; /* of place_key_argp */
    bool hex;
    kv_db *db;
    kv_space *space;
};

#define PLACE_INIT                          \
    {                                       \
        .space_name = "default", .db = NULL \
    }

/* --space and --hex; its input is a struct place. */
extern const struct argp place_argp;

/* The same and one argument, KEY. */
extern const struct argp place_key_argp;

/* Open the space that --space SPACE names, where \\xNN stands for a byte as in keys. */
KV_MUST_CHECK kv_code place_space(kv_db *db, const char *name, unsigned flags, kv_space **out,
                                  kv_status *status);

/* Open the database and the space; with KV_CREATE make what is missing. */
KV_MUST_CHECK kv_code place_open(struct place *place, const struct globals *globals,
                                 unsigned flags, kv_status *status);

/* Close, keeping the first fault; the exit status of the command, `done` if all went well. */
int place_close(struct place *place, kv_code code, kv_status *status, int done);

#endif /* TOOLS_KV_PLACE_H */
