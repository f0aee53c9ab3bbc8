/*
 * walk.h - read one map of a view as pages and leaves, for both sides.
 *
 * A walk remembers the page it last read on each level and the place of its
 * leaf iterator, so that questions asked in key order cost one read each.
 * It belongs to one thread. Slices it gives last until the next call on it.
 */
#ifndef RECONNECT_WALK_H
#define RECONNECT_WALK_H

#include "reconnect/wire.h"
#include "vmap/state.h"

struct walk_page {
    bool loaded;
    struct wire_out first; /* of the page */
    vmap_page page;
};

struct walk {
    state_view *view;
    const char *map;
    vmap_iter *iter; /* over the whole map; NULL where the view has no such map */
    bool on;         /* the iterator is on a leaf */
    unsigned top;    /* level of the root page */
    unsigned page_bits;
    vmap_node node;        /* size 0: empty or no such map */
    struct wire_out start; /* the map's smallest key */
    struct walk_page pages[VMAP_LEVELS_MAX];
    /* The leaf cursor: on entry `leaf_at` of pages[0], of which those before `leaf_end` are
     * wanted; the page ends before `leaf_next`, what is wanted before `leaf_limit`. */
    bool leaf_on;
    size_t leaf_at, leaf_end;
    struct wire_out leaf_next, leaf_limit; /* empty: at no key */
};

/* `map` lasts as long as the walk. A map that the view lacks is walked as an
 * empty one. On failure the walk is closed. */
KV_MUST_CHECK kv_code walk_open(struct walk *walk, state_view *view, const char *map,
                                kv_status *status);
void walk_close(struct walk *walk);

typedef kv_code (*walk_visit)(void *context, kv_slice first, const vmap_node *node);

/* Visit the pages of `level` whose first key is in `range`, in order, until
 * `visit` answers something else than KV_OK, which is returned. */
KV_MUST_CHECK kv_code walk_pages(struct walk *walk, unsigned level, const kv_range *range,
                                 walk_visit visit, void *context, kv_status *status);

/* The page of `level` that starts at `first` (empty: the leftmost) and where the
 * next one starts (empty: at no key). KV_NOT_FOUND. */
KV_MUST_CHECK kv_code walk_find(struct walk *walk, unsigned level, kv_slice first,
                                vmap_node *node, kv_range *range, kv_status *status);

/* Go to the first leaf >= key (empty: the map's first) and below `limit` (empty: any) by
 * its page, without its value: pages that are in the state's cache cost no reading and no
 * hashing. walk->leaf_on tells whether there is one. */
KV_MUST_CHECK kv_code walk_leaf_seek(struct walk *walk, kv_slice key, kv_slice limit,
                                     kv_status *status);
/* Pass `count` >= 1 leaves, at most those that walk_leaf_run tells. */
KV_MUST_CHECK kv_code walk_leaf_pass(struct walk *walk, size_t count, kv_status *status);
/* Leaves from this one on that are wanted and in the page `walk->pages[0]`, from its entry
 * `walk->leaf_at` on. */
static inline size_t walk_leaf_run(const struct walk *walk)
{
    return walk->leaf_on ? walk->leaf_end - walk->leaf_at : 0;
}
kv_slice walk_leaf_key(const struct walk *walk);
vmap_node walk_leaf_node(const struct walk *walk);

/* The same with values, by an iterator of its own.
 * Go to the first leaf >= key (empty: the map's first) and read on from there:
 * walk->on tells whether there is one. A fault is returned by either. */
KV_MUST_CHECK kv_code walk_seek(struct walk *walk, kv_slice key, kv_status *status);
KV_MUST_CHECK kv_code walk_next(struct walk *walk, kv_status *status);
kv_slice walk_key(const struct walk *walk);
kv_slice walk_value(const struct walk *walk);
/* Whether the walk is on a leaf below `limit` (empty: any). */
bool walk_below(const struct walk *walk, kv_slice limit);

#endif /* RECONNECT_WALK_H */
