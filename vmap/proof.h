/* proof.h - from paths of digests to encoded ICS23 proofs. Private. */
#ifndef VMAP_PROOF_H
#define VMAP_PROOF_H

#include "vmap/vmap.h"

/* ICS23 verifiers refuse deeper trees by default. */
enum { PROOF_STEPS_MAX = 128 };

/* One inner node on the way from a leaf to the root. */
struct proof_step {
    vmap_digest sibling;
    uint64_t size;   /* of the inner node */
    uint32_t height; /* of the inner node */
    bool left;       /* the sibling is the left child */
};

/* One leaf and its way up, leaf first. */
struct proof_leaf {
    kv_slice key;
    kv_slice value;
    size_t count;
    struct proof_step steps[PROOF_STEPS_MAX];
};

/* What a proof's first op shows: that `key` is `left` (exists) or that it would
 * stand between `left` and `right`, either of which may be NULL. */
struct proof_subject {
    kv_slice key;
    bool exists;
    const struct proof_leaf *left;
    const struct proof_leaf *right;
};

/* Encode both ops; `subject` NULL: the map is empty, so only the second. */
KV_MUST_CHECK kv_code vmap_proof_encode(const struct proof_subject *subject,
                                        const vmap_named_root *maps, size_t map_count,
                                        size_t map, vmap_proof *out, kv_status *status);

#endif /* VMAP_PROOF_H */
