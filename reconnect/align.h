/*
 * align.h - line two lists up by short fingerprints of their entries.
 *
 * The learner tells a few bits of each entry it has; the teacher finds the
 * steps that turn that list into its own. An entry taken for equal by chance
 * costs the learner a second question, never a wrong state: it folds what comes
 * out and compares. So this need not be the shortest list of steps, only short
 * when little differs, and linear when much does.
 */
#ifndef RECONNECT_ALIGN_H
#define RECONNECT_ALIGN_H

#include "reconnect/wire.h"

/* A run: `count` entries of step `step`. */
struct align_run {
    enum wire_step step;
    uint32_t count;
};

struct align {
    struct align_run *runs; /* owned */
    size_t count, capacity;
};

/* Low `bits` of what stands for an entry. */
uint64_t align_of_leaf(uint64_t salt, const vmap_digest *digest);
uint64_t align_of_page(const vmap_digest *digest);

/*
 * Fill `out` (cleared first, reused) with the steps from `theirs` to `ours`;
 * only the low `bits` count. KV_NO_MEMORY.
 */
KV_MUST_CHECK kv_code align_lists(const uint64_t *theirs, size_t their_count,
                                  const uint64_t *ours, size_t our_count, unsigned bits,
                                  struct align *out);
void align_clear(struct align *align);

#endif /* RECONNECT_ALIGN_H */
