/* sweep.h - apply edits to pages of one level, from left to right. Private. */
#ifndef VMAP_SWEEP_H
#define VMAP_SWEEP_H

#include "vmap/update.h"

enum { SWEEP_REFOLDS = 32 };

/* A page that edits touch, or whose right neighbour joins it. */
struct sweep_item {
    kv_slice first;
    vmap_node node;
    struct vtree_page *page; /* held */
    size_t begin, end;       /* its edits */
    bool leftmost;           /* the first page of its level */
    bool join;               /* its first entry goes, so the rest joins the page before */
};

struct sweep_items {
    struct sweep_item *items;
    size_t count, capacity;
};

struct sweep_edits {
    struct vtree_edit *edits;
    size_t count, capacity;
};

void sweep_items_clear(struct sweep_items *items);

/* From pages of level + 1 and the leaf edits in them to their pages of `level`,
 * each loaded. */
KV_MUST_CHECK kv_code sweep_plan(struct vtree_reader *reader, const struct vtree_top *top,
                                 const struct vtree_edit *leaves,
                                 const struct sweep_item *above, size_t above_count,
                                 unsigned level, struct sweep_items *out, kv_status *status);

/* A sweep over one level. Zero it, fill the first part, run, read the second.
 */
struct sweep {
    struct vtree_reader *reader;
    const struct vtree_top *top;
    struct vtree_arena *arena; /* for the firsts in `out` */
    unsigned level;
    bool want_old_values;
    bool exclusive; /* pages that are replaced may be changed where they stand */

    struct sweep_edits out;       /* edits of the level above */
    struct vtree_entries dropped; /* level 1: firsts of pages whose shape changed */
    uint64_t consumed_count, made_count, longest;
    uint64_t rank_digests, inner_digests;

    struct vtree_entries open; /* the page being gathered */
    const struct vtree_page *open_old;
    struct vtree_entries consumed, made;
    struct vtree_refold refolds[SWEEP_REFOLDS]; /* pages of the same shape, not folded yet */
    size_t refold_begin[SWEEP_REFOLDS];         /* where each one's places begin */
    size_t refold_count;
    uint32_t *places; /* of edits in their pages */
    size_t place_count, place_capacity;
    struct vtree_entries tail;         /* of a page that is there in brief */
    struct vtree_page_change *changes; /* of one page */
    size_t change_capacity;
};

/* Fill in the leaves of edits that are present. */
void sweep_leaves(struct vtree_edit *edits, size_t count, uint64_t *computed);

/* `edits` lie in the items' ranges; with no items they are all new entries. */
KV_MUST_CHECK kv_code sweep_run(struct sweep *sweep, struct sweep_item *items,
                                size_t item_count, struct vtree_edit *edits, size_t edit_count,
                                kv_status *status);
/* Frees everything but `out`. */
void sweep_clear(struct sweep *sweep);

/* ---- Pieces of a sweep --------------------------------------------------- */

/* Apply edits, at least one, to a page that is there in brief and that no other joins.
 * KV_NOT_FOUND: it has to be read whole. */
KV_MUST_CHECK kv_code sweep_brief(struct sweep *sweep, const struct sweep_item *item,
                                  struct vtree_edit *edits, kv_status *status);

/* Make a page of what is open; and fold the pages that keep their shape. */
KV_MUST_CHECK kv_code sweep_close_page(struct sweep *sweep, kv_status *status);
KV_MUST_CHECK kv_code sweep_finish_refolds(struct sweep *sweep, kv_status *status);
/* Take a finished page into the cache and the list. */
KV_MUST_CHECK kv_code sweep_list_page(struct sweep *sweep, struct vtree_page *page,
                                      kv_slice first, kv_status *status);
/* Have the item's page leave the cache, now or when others need it no more; true: now, and
 * nobody else has it. */
bool sweep_let_go(const struct sweep *sweep, const struct sweep_item *item);
/* Fill in what an edit needs of the entry that it meets (NULL: none). */
KV_MUST_CHECK kv_code sweep_meet(struct sweep *sweep, struct vtree_edit *edit,
                                 const vmap_node *entry, kv_status *status);

#endif /* VMAP_SWEEP_H */
