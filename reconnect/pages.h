/*
 * pages.h - inside the pages: scratch that their files share.
 *
 *     pages.c         the scratch, what we have of a page
 *     pages_list.c    a page as a list of lower pages
 *     pages_leaves.c  a page as a list of leaves
 *     pages_pushed.c  pages that are pushed
 *     guess.c         what a misled answer is good for
 */
#ifndef RECONNECT_PAGES_H
#define RECONNECT_PAGES_H

#include "reconnect/leaves.h"

/* A key inside pages.text. */
struct key_place {
    size_t at, size;
};

/* An entry of a list of pages; of leaves, only those that came are kept. */
struct entry {
    struct key_place key;
    vmap_node node;
    kv_slice value; /* of a leaf that came; inside the frame */
    size_t own;     /* which of our entries it is, or SIZE_MAX */
};

struct entries {
    struct entry *list;
    size_t count, capacity;
};

/* Scratch, kept between answers. */
struct pages {
    struct wire_out text; /* keys */
    struct entries own;   /* what we have of the page; of leaves, those skipped */
    struct entries all;   /* what the page is; of leaves, those that came */
    vmap_node *nodes;     /* being folded */
    size_t node_capacity;
    uint64_t *marks;
    size_t mark_count;
    unsigned char *ranks;
    struct wire_out last; /* the key before, for the order */
    struct wire_key key;  /* decoding of staged lists */
    bool guessable;       /* what came last of leaves is in order */
};

/* ---- pages.c ------------------------------------------------------------ */

void pages_reset(struct pages *pages);
kv_slice pages_key(const struct pages *pages, const struct entry *entry);
/* Append an entry; its key is copied. NULL: out of memory. */
struct entry *pages_add(struct pages *pages, struct entries *entries, kv_slice key,
                        const vmap_node *node);
/* Put a node at place `at` of those to fold. KV_NO_MEMORY. */
KV_MUST_CHECK kv_code pages_add_node(struct pages *pages, size_t at, const vmap_node *node);
/* How our entry `own` sorts against entry `all` of the page, either may be past the last. */
int pages_order(const struct pages *pages, size_t own, size_t all);
/* What entry `i` of the page reaches over, of a page that is `whole`. */
kv_range pages_range_of(const struct pages *pages, size_t i, const kv_range *whole);
bool pages_same_node(const vmap_node *a, const vmap_node *b);
KV_MUST_CHECK kv_code pages_no_memory(kv_status *status);
/* Say what is wrong with the page: KV_UNPROVEN. */
KV_MUST_CHECK kv_code pages_unproven(const reconnect_learner *learner, const struct want *want,
                                     const char *what, kv_status *status);
/* Our pages that start in the want's range, or none where there are too many to be
 * worth telling. */
KV_MUST_CHECK kv_code pages_gather(reconnect_learner *learner, const struct want *want,
                                   kv_status *status);

/* ---- pages_list.c ------------------------------------------------------- */

/* pages->all is read: prove it. */
KV_MUST_CHECK kv_code pages_prove_list(reconnect_learner *learner, const struct want *want,
                                       kv_status *status);
/* Find which of ours each entry is, by key and digest. */
void pages_match(struct pages *pages);
/* An entry that is a page of ours: what else we have in its range goes. */
KV_MUST_CHECK kv_code pages_keep(reconnect_learner *learner, const struct want *want,
                                 const struct entry *entry, const kv_range *range,
                                 kv_status *status);
KV_MUST_CHECK kv_code pages_take_list(reconnect_learner *learner, const struct want *want,
                                      struct wire_in *in, uint32_t teller, kv_status *status);
KV_MUST_CHECK kv_code pages_take_staged_list(reconnect_learner *learner,
                                             const struct want *want, kv_status *status);

/* ---- pages_leaves.c ----------------------------------------------------- */

/* A list of leaves being read. */
struct reading {
    reconnect_learner *learner;
    const struct want *want;
    struct wire_in *in;
    struct leaves leaves; /* ours */
    size_t own, count;    /* of ours passed, of the page read */
    bool ordered, placed; /* keys ascend; the first is where the page starts */
    kv_status *status;
};

/* The next leaf of the page. KV_NO_MEMORY. */
KV_MUST_CHECK kv_code reading_add(struct reading *reading, kv_slice key, const vmap_node *node);
/* All are read: prove that they are the page. */
KV_MUST_CHECK kv_code reading_prove(struct reading *reading);
KV_MUST_CHECK kv_code pages_take_leaves(reconnect_learner *learner, const struct want *want,
                                        struct wire_in *in, kv_status *status);
/* Whether what we have, with what is staged, is the page already. */
KV_MUST_CHECK kv_code pages_take_staged_leaves(reconnect_learner *learner,
                                               const struct want *want, kv_status *status);

/* ---- guess.c ------------------------------------------------------------ */

/* What the guess removed is ours still: it counts as skipped. */
KV_MUST_CHECK kv_code guess_skip(reconnect_learner *learner, const struct guess *guess,
                                 kv_status *status);

#endif /* RECONNECT_PAGES_H */
