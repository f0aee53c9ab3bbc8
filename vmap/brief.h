/*
 * brief.h - what a level-0 page leaves behind in the cache when it has to go. Private.
 *
 *     a page    [ a b c d e f g h | i j k l m n o p | q r s ]
 *     brief     own digest, one digest for each group of leaves, and between two
 *               groups the fewest bytes that tell their keys apart
 *
 * A group is what some rounds of the fold have put together. So a change of a value needs
 * one group's pairs from the store, and not the page's; whether a key is there is told by
 * these pairs, for the brief page has no keys. It takes the place of its page in the cache:
 * struct vtree_page with fewer slots than entries. Only what is in this file may look at its
 * entries.
 */
#ifndef VMAP_BRIEF_H
#define VMAP_BRIEF_H

#include "vmap/page.h"

enum {
    BRIEF_GROUP = 8,        /* leaves, a power of two */
    BRIEF_GROUPS_MIN = 3,   /* shorter pages are as soon read whole, */
    BRIEF_GROUPS_MAX = 256, /* and longer ones have no brief form, */
    BRIEF_BETWEEN_MAX = 255 /* nor those whose neighbours share more bytes */
};

static inline bool vtree_page_is_brief(const struct vtree_page *page)
{
    return page->slots < page->count;
}

/* The brief form of `page`, with one reference; NULL when it has none or memory is short. */
struct vtree_page *vtree_brief_make(const struct vtree_page *page);

/* The group that `key` belongs to. Its first key is the first one >= `from`; empty for
 * the first group. */
size_t vtree_brief_find(const struct vtree_page *page, kv_slice key, kv_slice *from);

size_t vtree_brief_groups(const struct vtree_page *page);
size_t vtree_brief_group_size(const struct vtree_page *page, size_t group);
const vmap_digest *vtree_brief_group(const struct vtree_page *page, size_t group);

/* Give a group of a page, held by nobody else, another digest. */
void vtree_brief_set(struct vtree_page *page, size_t group, const vmap_digest *digest);
/* Then fold the groups again; answers the inner digests computed. */
uint64_t vtree_brief_refold(struct vtree_page *page);

/* A brief page as `old` up to `group`, which is not the first, and from there on of `leaves`,
 * none of whose keys is less than that group's `from`. NULL when it has no brief form or
 * memory is short. `inner_count` grows by the digests computed. */
struct vtree_page *vtree_brief_change(const struct vtree_page *old, size_t group,
                                      const struct vtree_entries *leaves,
                                      uint64_t *inner_count);

#endif /* VMAP_BRIEF_H */
