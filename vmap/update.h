/*
 * update.h - bring one map's tree from one set of pairs to the next. Private.
 *
 * Nothing is written here: an update answers which records to write. New pages
 * go to the cache at once, which harms nothing if the commit then fails, for a
 * page is found by what is in it.
 */
#ifndef VMAP_UPDATE_H
#define VMAP_UPDATE_H

#include "vmap/pool.h"
#include "vmap/reader.h"

#include <pthread.h>

/* What happens to one entry: a leaf, or a page's node. */
struct vtree_edit {
    kv_slice key;   /* of the leaf, or the page's first */
    vmap_node node; /* when present */
    vmap_node old;  /* when existed */
    bool present, existed;
    const struct vtree_change *change; /* of a leaf */
    kv_value old_value;                /* of a leaf that existed, if asked for */
};

struct vtree_node_edit {
    unsigned level; /* of the page, >= 1 */
    struct vtree_edit edit;
};

struct vtree_update {
    /* In. */
    struct vtree_store *store;
    struct vtree_pool *pool;
    struct vtree_top top;                      /* also out: the tree afterwards */
    const struct vtree_change *const *changes; /* in key order */
    size_t change_count;
    bool want_old_values;
    bool exclusive; /* nobody else needs the tree as it is now to be in the cache */
    /* Called by the caller's thread for runs of leaves, from left to right, while other
     * threads still fold what comes behind them. */
    kv_code (*leaves_done)(void *context, const struct vtree_update *update, size_t begin,
                           size_t end, kv_status *status);
    void *context;
    /* Out: one edit per change; nodes and entry records to write. */
    struct vtree_edit *leaves;
    struct vtree_node_edit *nodes;
    size_t node_count, node_capacity;
    kv_slice *dropped; /* firsts of level-1 pages whose entries' record must go */
    size_t dropped_count, dropped_capacity;
    /* Own. */
    struct vtree_chunk *chunks;
    size_t chunk_count, chunks_done; /* these were told to leaves_done */
    pthread_t caller;
    kv_code done_code;
    kv_status done_status;
    struct vtree_arena arena;
};

KV_MUST_CHECK kv_code vtree_update_run(struct vtree_update *update, kv_status *status);
void vtree_update_clear(struct vtree_update *update);

/* Whether an edit leaves its entry as it was. */
bool vtree_edit_is_idle(const struct vtree_edit *edit);

#endif /* VMAP_UPDATE_H */
