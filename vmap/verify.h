/* verify.h - what the parts of a verification share. Private. */
#ifndef VMAP_VERIFY_H
#define VMAP_VERIFY_H

#include "vmap/state_private.h"

/* The pairs of one level-1 page, or of a whole map of one page. */
struct verify_run {
    struct vtree_buffer first, limit; /* an empty limit: to the end */
    vmap_node expected, found;
    uint64_t page_count; /* of level 0 */
    kv_code code;
    kv_status status;
};

/* The page of a level >= 2 that is being gathered. */
struct verify_level {
    struct vtree_buffer first;  /* its first key */
    struct vtree_buffer behind; /* the least key after the first one of the page before */
    struct vtree_entries nodes; /* without keys */
};

struct verification {
    state_view *view;
    const struct meta_map *map;
    struct verify_run *runs;
    size_t run_count;
    uint64_t page_counts[VMAP_LEVELS_MAX];
    struct verify_level levels[VMAP_LEVELS_MAX];
    struct vtree_reader *reader; /* for the records of levels >= 2 */
};

/* Where a page differs: what its record says, and what its pairs give. NULL: no page. */
kv_code verify_differs(const struct meta_map *map, unsigned level, kv_slice first,
                       const vmap_node *expected, const vmap_node *found, kv_status *status);
/* What else is wrong, and where. */
kv_code verify_wrong(const struct meta_map *map, unsigned level, kv_slice key, const char *what,
                     kv_status *status);
bool verify_same(const vmap_node *one, const vmap_node *other);

/* Add a page of `level` - 1 to the page of `level` that is being gathered. */
KV_MUST_CHECK kv_code verify_add(struct verification *check, unsigned level, kv_slice first,
                                 const vmap_node *node, kv_status *status);
/* After the last page of level 1: no page is open and no record is left over. */
KV_MUST_CHECK kv_code verify_end(struct verification *check, kv_status *status);
/* Every record belongs to a map that there is. */
KV_MUST_CHECK kv_code verify_maps(const state_view *view, kv_status *status);

void verify_levels_reset(struct verification *check);
void verify_levels_clear(struct verification *check);

#endif /* VMAP_VERIFY_H */
