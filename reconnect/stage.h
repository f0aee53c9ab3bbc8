/*
 * stage.h - what a learner has fetched and checked but not yet switched to.
 *
 * One space of the state's database, "reconnect", holds records:
 *
 *     T                      the goal: version, app hash
 *     N <map:2>              the name of a map
 *     X <map:2>              the map is to be emptied before its changes
 *     B <map:2>              the map is built: its number in the state:4
 *     C <map:2> <key>        the key's new value; empty: it is to be removed
 *     P <tier> <digest:32>   the list of a page of which every entry is checked
 *
 * C records are differences from the learner's own newest version. A map of which it
 * has no pairs is built instead (see state.h): its pairs are written where they will
 * stay, and the switch makes its tree from the page lists. Page lists
 * are named by digest, so they serve any goal. Nothing here needs to be true
 * for the outcome to be: changes are folded and compared again when a learner
 * takes them up, and the commit compares the app hash.
 */
#ifndef RECONNECT_STAGE_H
#define RECONNECT_STAGE_H

#include "reconnect/wire.h"
#include "vmap/state.h"

/* The longest list asked for in one answer, as estimated. */
#define STAGE_LIST_MAX 4096u

struct stage_map {
    char name[STATE_MAP_NAME_SIZE_MAX + 1];
    uint32_t number;    /* of the map that is built; 0: none is */
    unsigned page_bits; /* of its tree */
    state_build *build; /* or NULL */
    bool empty;         /* it is to be emptied */
};

/* fresh.c: changes in the order they were staged; a later one of a key counts. The first
 * `written` of them are records, too, or in the batch. */
struct fresh_change {
    size_t at; /* in bytes */
    uint32_t map, key_size, value_size;
};

struct stage_fresh {
    struct wire_out bytes;
    struct fresh_change *list;
    size_t count, capacity, written;
    bool lost; /* these are not all changes there are */
};

/* False: there is no room, or no memory. */
bool fresh_add(struct stage_fresh *fresh, unsigned map, kv_slice key, kv_slice value);
kv_slice fresh_key(const struct stage_fresh *fresh, const struct fresh_change *change);
kv_slice fresh_value(const struct stage_fresh *fresh, const struct fresh_change *change);
/* Bytes of changes that are not written. */
size_t fresh_unwritten(const struct stage_fresh *fresh);
KV_MUST_CHECK kv_code fresh_apply(const struct stage_fresh *fresh, unsigned number, vmap *map,
                                  kv_status *status);
/* Forget all; they are lost. */
void fresh_clear(struct stage_fresh *fresh);

/* A map as the goal has it. */
struct stage_goal {
    const char *name;
    unsigned level, page_bits;
    vmap_node node;
};

struct stage {
    kv_db *db;
    state *state;
    kv_space *space;
    kv_batch *batch;
    size_t map_count;
    struct stage_map *maps;
    bool built; /* the switch takes a map that was built */
    bool found; /* it held changes of an earlier run or goal: look before asking */
    bool used;  /* there are records in the space */
    struct stage_fresh fresh;
    struct wire_out key;
};

KV_MUST_CHECK kv_code stage_open(struct stage *stage, kv_db *db, state *to, kv_status *status);
void stage_close(struct stage *stage);

/* Remember the goal; what is staged for another one stays. */
KV_MUST_CHECK kv_code stage_goal(struct stage *stage, uint64_t version,
                                 const vmap_digest *app_hash, kv_status *status);
/* The number of a map, given anew where it has none. */
KV_MUST_CHECK kv_code stage_map(struct stage *stage, kv_slice name, unsigned *out,
                                kv_status *status);

/* Whether the map is to be built, with `page_bits`, or its changes are staged. What was
 * staged in the other way is dropped. */
KV_MUST_CHECK kv_code stage_build(struct stage *stage, unsigned map, bool wanted,
                                  unsigned page_bits, kv_status *status);

/* Writes are gathered; a full batch is written by the call that fills it. What a short
 * sync fetches is never written: the switch takes it from memory. */
KV_MUST_CHECK kv_code stage_put(struct stage *stage, unsigned map, kv_slice key, kv_slice value,
                                kv_status *status);
KV_MUST_CHECK kv_code stage_remove(struct stage *stage, unsigned map, kv_slice key,
                                   kv_status *status);
/* Drop the changes of a range. */
KV_MUST_CHECK kv_code stage_forget(struct stage *stage, unsigned map, const kv_range *range,
                                   kv_status *status);
KV_MUST_CHECK kv_code stage_empty_map(struct stage *stage, unsigned map, bool empty,
                                      kv_status *status);
KV_MUST_CHECK kv_code stage_put_page(struct stage *stage, unsigned tier,
                                     const vmap_digest *digest, kv_slice list,
                                     kv_status *status);
/* The list to ask for of a page of `level` over `size` leaves: the lowest that is not
 * too long, so that few round trips lead to the leaves. */
unsigned stage_tier(unsigned level, unsigned page_bits, uint64_t size);
/* Drop all lists of pages. */
KV_MUST_CHECK kv_code stage_forget_pages(struct stage *stage, kv_status *status);
KV_MUST_CHECK kv_code stage_flush(struct stage *stage, kv_status *status);
/* The same, if a batch is gathered. */
KV_MUST_CHECK kv_code stage_flush_if_full(struct stage *stage, kv_status *status);

/* The list of a page. KV_NOT_FOUND. */
KV_MUST_CHECK kv_code stage_get_page(struct stage *stage, unsigned tier,
                                     const vmap_digest *digest, kv_value *out,
                                     kv_status *status);
/* Walk the changes of a range: keys begin after `*prefix` bytes. */
KV_MUST_CHECK kv_code stage_changes(struct stage *stage, unsigned map, const kv_range *range,
                                    kv_iter **out, size_t *prefix, kv_status *status);

/*
 * Turn the working set of `to`, rolled back first, into the goal and commit
 * it as `version`, synced, if its app hash is `app_hash`; then drop the stage.
 * `maps` names the goal's maps, sorted; others are dropped.
 */
KV_MUST_CHECK kv_code stage_switch(struct stage *stage, state *to, uint64_t version,
                                   const vmap_digest *app_hash, const struct stage_goal *maps,
                                   size_t map_count, kv_status *status);
/* stage_tree.c: the tree of a map that is built, from the page lists; the working set takes it.
 */
KV_MUST_CHECK kv_code stage_tree(struct stage *stage, unsigned map,
                                 const struct stage_goal *goal, kv_status *status);
/* Forget everything. */
KV_MUST_CHECK kv_code stage_drop(struct stage *stage, kv_status *status);

#endif /* RECONNECT_STAGE_H */
