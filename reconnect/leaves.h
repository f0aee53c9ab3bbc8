/*
 * leaves.h - what the learner would have of a page now: its own version's leaves,
 * with what is staged over them, and over both what an answer made of the page.
 * Its own leaves are known by their digests; values are not read.
 */
#ifndef RECONNECT_LEAVES_H
#define RECONNECT_LEAVES_H

#include "reconnect/learner.h"

struct leaves {
    struct walk *walk;
    kv_iter *staged;           /* NULL: nothing is */
    size_t prefix;             /* bytes before the key there */
    const struct guess *guess; /* NULL: there is none */
    size_t guess_at;
    bool staged_on;
    kv_slice key, value; /* value: of what is staged or guessed only */
    vmap_node node;
    bool on, from_walk, from_stage, from_guess;
    bool plain; /* the walk is all there is */
    kv_status *status;
};

/* Stand on the first leaf of the want's range; leaves->on tells if there is one.
 * Close it whatever the answer is. */
KV_MUST_CHECK kv_code leaves_open(struct leaves *leaves, reconnect_learner *learner,
                                  const struct want *want, kv_status *status);
KV_MUST_CHECK kv_code leaves_next(struct leaves *leaves);
/* Leaves from this one on that are one piece of a page of our own version, from its entry
 * leaves->walk->leaf_at on; 0: look at them one by one. */
static inline size_t leaves_run(const struct leaves *leaves)
{
    return leaves->plain ? walk_leaf_run(leaves->walk) : 0;
}
/* Pass `count` >= 1 of such. */
KV_MUST_CHECK kv_code leaves_pass(struct leaves *leaves, size_t count);
/* `code`, unless it is KV_OK and the walk over what is staged ended in a fault. */
KV_MUST_CHECK kv_code leaves_close(struct leaves *leaves, kv_code code);

/* guess.c */
kv_slice guess_key(const struct guess *guess, size_t at);
kv_slice guess_value(const struct guess *guess, size_t at);

#endif /* RECONNECT_LEAVES_H */
