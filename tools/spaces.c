/* spaces.c - the names of a database's spaces. */
#include "tools/spaces.h"

#include "tools/text.h"

#include <stdlib.h>
#include <string.h>

struct listing {
    struct spaces *spaces;
    bool full;
};

static bool add(void *context, const char *name)
{
    struct listing *listing = context;
    struct spaces *spaces = listing->spaces;
    char *copy = spaces->count < KV_SPACES_MAX ? strdup(name) : NULL;
    listing->full = copy == NULL;
    if (copy != NULL)
        spaces->names[spaces->count++] = copy;
    return copy != NULL;
}

kv_code spaces_list(struct spaces *spaces, kv_db *db, kv_status *status)
{
    struct listing listing = { spaces, false };
    spaces->count = 0;
    kv_code code = kv_space_list(db, add, &listing, status);
    if (code == KV_OK && listing.full)
        code = kv_fail(status, KV_NO_MEMORY, "%s: no memory for the list of spaces",
                       kv_db_dir(db));
    if (code != KV_OK)
        spaces_clear(spaces);
    return code;
}

const char *spaces_shown(const char *name)
{
    static struct text shown;
    shown.size = 0;
    text_encode(&shown, kv_text(name), false);
    return shown.data;
}

void spaces_clear(struct spaces *spaces)
{
    for (size_t i = 0; i < spaces->count; i++)
        free(spaces->names[i]);
    spaces->count = 0;
}
