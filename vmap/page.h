/*
 * page.h - one page in memory: its keys, its entries' digests and every digest
 * of their fold. Private.
 *
 * A page never changes once made, and its digest and level tell all that is in
 * it, so working set and views of any version share pages freely.
 */
#ifndef VMAP_PAGE_H
#define VMAP_PAGE_H

#include "vmap/proof.h"
#include "vmap/record.h"

#include <stdatomic.h>

enum { PAGE_COUNT_MAX = 1 << 26, PAGE_KEYS_SIZE_MAX = 1 << 30 };

/*
 * One block of memory. The rounds of the fold stand from the last to the first: the page's
 * own digest comes first, and what most changes touch lies beside it. Behind the digests
 * come, for levels >= 1, their sizes and heights; then of each key the four bytes behind
 * those that all keys of the page begin with, which a search looks at; then where the keys
 * lie, if they are not all of one size; and the keys.
 */
struct vtree_page {
    atomic_uint references;
    uint32_t count;    /* entries */
    uint32_t slots;    /* digests: the entries', and each round's of the fold */
    uint32_t size;     /* bytes of memory */
    uint16_t shared;   /* bytes that all keys begin with */
    uint16_t key_size; /* of all keys; 0: it varies */
    uint8_t level;
    /* The cache's own, under its lock. */
    uint8_t list;
    bool used;    /* since it came, or since it was spared */
    bool dirty;   /* level 1: its entries are not in the store, */
    uint32_t map; /* under this map's number */
    struct vtree_page *newer, *older;
    vmap_digest digests[]; /* [slots]; the first is the page's own */
};

/* Entries gathered for a page; keys are borrowed. Start from all zeros. */
struct vtree_entries {
    kv_slice *keys;
    vmap_node *nodes;
    size_t count;
    size_t key_capacity, node_capacity;
};

bool vtree_entries_add(struct vtree_entries *entries, kv_slice key, const vmap_node *node);
void vtree_entries_clear(struct vtree_entries *entries);

/* Fold `entries` (at least one) into a page with one reference. Digests that
 * `old` (may be NULL) has at the same place are taken from it; `inner_count`
 * grows by the inner digests computed. NULL when out of memory or limits. */
struct vtree_page *vtree_page_make(unsigned level, const struct vtree_entries *entries,
                                   const struct vtree_page *old, uint64_t *inner_count);
/* A page of its own with the same in it; NULL when out of memory. */
struct vtree_page *vtree_page_copy(const struct vtree_page *page);

/* A page, held by nobody else, whose nodes at `indices` are others now. The
 * indices ascend and are overwritten. */
struct vtree_refold {
    struct vtree_page *page;
    uint32_t *indices;
    size_t count;
    size_t base, width; /* private */
};

void vtree_page_set(struct vtree_page *page, size_t index, const vmap_node *node);
/* Fold again what is above such nodes, in all these pages; answers the inner
 * digests computed. */
uint64_t vtree_pages_refold(struct vtree_refold *refolds, size_t count);

/* What becomes of entry `index` of a level-0 page. */
struct vtree_page_change {
    enum { PAGE_REPLACE, PAGE_DELETE, PAGE_INSERT /* before it */ } what;
    uint32_t index;
    kv_slice key;          /* to insert */
    const vmap_node *node; /* but for a delete */
};

/* Whether `key` can be inserted by vtree_page_change. */
bool vtree_page_takes(const struct vtree_page *page, kv_slice key);
/* A page as `old` with `changes`, at least one, in order; entries are left. */
struct vtree_page *vtree_page_change(const struct vtree_page *old,
                                     const struct vtree_page_change *changes, size_t count,
                                     uint64_t *inner_count);

struct vtree_page *vtree_page_hold(struct vtree_page *page);
void vtree_page_release(struct vtree_page *page); /* NULL is harmless */

kv_slice vtree_page_key(const struct vtree_page *page, size_t index);
vmap_node vtree_page_entry(const struct vtree_page *page, size_t index);
vmap_node vtree_page_node(const struct vtree_page *page); /* the page's own */

static inline const vmap_digest *vtree_page_digest(const struct vtree_page *page)
{
    return &page->digests[0];
}

/* Where the digests of the entries begin; those of the next round end there. */
static inline size_t vtree_page_base(const struct vtree_page *page)
{
    return page->slots - page->count;
}

/* Rounds that fold `leaves` of height 0 into one. */
static inline uint32_t vtree_fold_height(uint64_t leaves)
{
    return leaves <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(leaves - 1);
}

/* Rounds of the page's fold, and its node in place `index` after `round` of
 * them; `width` gets how many nodes that round leaves. */
unsigned vtree_page_rounds(const struct vtree_page *page);
vmap_node vtree_page_slot(const struct vtree_page *page, unsigned round, size_t index,
                          size_t *width);

/* Have the processor fetch what a search in the page reads first; and, once that has come,
 * the entry that `key` is likely to be and what folding above it again reads. */
void vtree_page_prefetch(const struct vtree_page *page);
void vtree_page_prefetch_entry(const struct vtree_page *page, kv_slice key);

/* The first entry with a key >= `key`, or count; `exact` tells equality. */
size_t vtree_page_find(const struct vtree_page *page, kv_slice key, bool *exact);

/* Append the steps from entry `index` up to the page's own digest. */
bool vtree_page_path(const struct vtree_page *page, size_t index, struct proof_leaf *leaf);

/* The record that holds a level-1 page's entries. */
bool vtree_page_encode(const struct vtree_page *page, struct vtree_buffer *out);
/* Read one back; NULL when damaged, or when it is not the page of `node`. */
struct vtree_page *vtree_page_decode(kv_slice first, kv_slice record, const vmap_node *node);

#endif /* VMAP_PAGE_H */
