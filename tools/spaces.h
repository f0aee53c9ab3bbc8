/* spaces.h - the names of a database's spaces, copied, for commands that visit all. */
#ifndef TOOLS_SPACES_H
#define TOOLS_SPACES_H

#include "kv/kv.h"

struct spaces {
    size_t count;
    char *names[KV_SPACES_MAX];
};

KV_MUST_CHECK kv_code spaces_list(struct spaces *spaces, kv_db *db, kv_status *status);
void spaces_clear(struct spaces *spaces);

/* A name as people and JSON can read it: a static text, as --space takes it. */
const char *spaces_shown(const char *name);

#endif /* TOOLS_SPACES_H */
