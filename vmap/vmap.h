/*
 * vmap.h - the merkle virtual map: rules of the tree, digests and proofs.
 *
 * A map is a set of (key, value) pairs with a 32-byte root that is a function
 * of the pairs alone. Leaves stand in key order and are cut into pages by the
 * keys' own hashes (docs/vmap.md draws it):
 *
 *     level 2          [ a ........................ ]            the root page
 *     level 1          [ a ....... ][ k .. ][ r ... ]            pages of pages
 *     level 0   [a b c][d e f][h][k l][m n][r s t u][w x]        pages of leaves
 *
 *     rank(key)    leading zero bits of SHA-256(key) / page_bits, rounded down
 *     level n      is cut before every entry whose first key has rank > n
 *     leaf         SHA-256(00 02 00 | varint len key | key | 20 | SHA-256(value))
 *     inner        SHA-256(zigzag height | zigzag size | 00 | 20 | left | 20 | right)
 *     fold         pair left to right, promote an odd last one, until one is left
 *     page digest  fold of its entries' digests; the root is the last page's
 *     empty map    SHA-256("")
 *
 * These are IAVL's leaf and inner formats, so stock ICS23 verifiers with the
 * IAVL spec accept proofs from such a tree.
 *
 * Everything in this header is pure: no database, no state, thread-safe.
 * state.h keeps maps in a database.
 */
#ifndef VMAP_VMAP_H
#define VMAP_VMAP_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VMAP_DIGEST_SIZE 32u
#define VMAP_PAGE_BITS_DEFAULT 5u /* pages of 32 entries on average */
#define VMAP_PAGE_BITS_MIN 3u
#define VMAP_PAGE_BITS_MAX 8u
#define VMAP_LEVELS_MAX 86u                        /* 256 / VMAP_PAGE_BITS_MIN + 1 */
#define VMAP_KEY_SIZE_MAX (KV_KEY_SIZE_MAX - 1024) /* room for a record's own parts */
#define VMAP_VALUE_SIZE_MAX KV_VALUE_SIZE_MAX /* at least 1 byte: ICS23 cannot prove empty */

typedef struct vmap_digest {
    uint8_t bytes[VMAP_DIGEST_SIZE];
} vmap_digest;

/* An entry of a page, or a page as its parent sees it: a folded run of leaves. */
typedef struct vmap_node {
    vmap_digest digest;
    uint64_t size;   /* leaves below; 1 for a leaf */
    uint32_t height; /* 0 for a leaf, else 1 + the higher child's */
} vmap_node;

KV_API vmap_digest vmap_digest_of(kv_slice bytes); /* SHA-256 */
KV_API vmap_digest vmap_empty_root(void);          /* SHA-256("") */
KV_API unsigned vmap_rank(kv_slice key, unsigned page_bits);
KV_API vmap_node vmap_leaf(kv_slice key, kv_slice value);
/* A leaf from SHA-256(value), for those who hold no value. */
KV_API vmap_node vmap_leaf_of_digest(kv_slice key, const vmap_digest *value_digest);
KV_API vmap_node vmap_inner(const vmap_node *left, const vmap_node *right);
/* Fold `count` >= 1 entries; `nodes` is scratch and overwritten. */
KV_API vmap_node vmap_fold(vmap_node *nodes, size_t count);

/* One map's place in an app hash. */
typedef struct vmap_named_root {
    const char *name;
    vmap_digest root;
} vmap_named_root;

/* RFC 6962 tree over (name, root), `maps` sorted by name, each name once:
 * leaf = SHA-256(00 | varint len | name | 20 | SHA-256(root)). */
KV_API vmap_digest vmap_app_hash(const vmap_named_root *maps, size_t count);

/* ---- Proofs ------------------------------------------------------------- */

#define VMAP_PROOF_OPS_MAX 2u
#define VMAP_PROOF_SIZE_MAX (1u << 20) /* bytes of one op that are looked at */

/* One step of a proof as abci_query carries it. */
typedef struct vmap_proof_op {
    const char *type; /* "ics23:iavl" or "ics23:simple" */
    kv_slice key;     /* the key; the map's name */
    kv_slice data;    /* an encoded ICS23 CommitmentProof */
} vmap_proof_op;

/*
 * Leaf to root: {ics23:iavl, key}, {ics23:simple, map}. A map that is empty
 * proves any absence by its second op alone (its root is SHA-256("")), so then
 * there is one op. Owns its bytes.
 */
typedef struct vmap_proof {
    size_t count;
    vmap_proof_op ops[VMAP_PROOF_OPS_MAX];
    void *storage; /* private */
} vmap_proof;

#define VMAP_PROOF_INIT                                 \
    {                                                   \
        0, { { NULL, { NULL, 0 }, { NULL, 0 } } }, NULL \
    }

KV_API void vmap_proof_clear(vmap_proof *proof);

/*
 * Check that `proof` proves, against `app_hash`, that `map` holds `value` under
 * `key`, or with `value` NULL that `map` has no such key. Accepts only the
 * canonical encoding: every byte enters a hash or a strict check.
 * KV_UNPROVEN says what does not fit.
 */
KV_API KV_MUST_CHECK kv_code vmap_proof_verify(const vmap_proof *proof,
                                               const vmap_digest *app_hash, const char *map,
                                               kv_slice key, const kv_slice *value,
                                               kv_status *status);

/* ---- Range proofs ------------------------------------------------------- */

#define VMAP_RANGE_PROOF_SIZE_MAX (1u << 28) /* bytes that are looked at */

/*
 * Check that `proof` (docs/proofs.md has its bytes) shows the pairs of a map
 * with the root `root` whose keys lie in `range`: all of them from range->first
 * on, up to its end or to the last pair given. `visit` gets each pair once all
 * is proven, in key order; false stops it. `more`: the proof ends before the
 * range does, ask again from behind the last key. KV_UNPROVEN.
 */
KV_API KV_MUST_CHECK kv_code
vmap_range_proof_verify(kv_slice proof, const vmap_digest *root, const kv_range *range,
                        bool (*visit)(void *context, kv_slice key, kv_slice value),
                        void *context, bool *more, kv_status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* VMAP_VMAP_H */
