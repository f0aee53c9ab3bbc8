/* digest.h - the pieces of the digests that pages and proofs need. Private. */
#ifndef VMAP_DIGEST_H
#define VMAP_DIGEST_H

#include "vmap/sha256.h"

enum { VMAP_VARINT_SIZE_MAX = 10, VMAP_INNER_HEADER_SIZE_MAX = 21 };

/* Write a protobuf varint and answer its size. */
size_t vmap_varint_encode(uint8_t *out, uint64_t number);

/* zigzag height | zigzag size | 00: how an inner node's bytes begin. */
size_t vmap_inner_header(uint8_t *out, uint32_t height, uint64_t size);

void vmap_inner_digest(uint32_t height, uint64_t size, const vmap_digest *left,
                       const vmap_digest *right, vmap_digest *out);

/*
 * Inner digests that do not depend on each other, computed two at a time. `left` and `right`
 * are read at once; `out` is written by a later call, at the latest by the flush. Start from
 * count 0.
 */
struct vmap_inner_queue {
    unsigned count;
    vmap_digest *out[2];
    uint8_t blocks[2][2 * SHA256_BLOCK_SIZE];
};

void vmap_inner_queue_add(struct vmap_inner_queue *queue, uint32_t height, uint64_t size,
                          const vmap_digest *left, const vmap_digest *right, vmap_digest *out);
void vmap_inner_queue_flush(struct vmap_inner_queue *queue);

/* The leaves of many pairs. */
void vmap_leaves(const kv_slice *keys, const kv_slice *values, vmap_node *out, size_t count);

/* The ranks of many keys. */
void vmap_ranks(const kv_slice *keys, unsigned page_bits, unsigned *out, size_t count);

/* The parts of an app hash (RFC 6962). */
vmap_digest vmap_app_leaf(const vmap_named_root *map);
vmap_digest vmap_app_inner(const vmap_digest *left, const vmap_digest *right);
size_t vmap_app_split(size_t count); /* leaves on the left of `count` >= 2 */

#endif /* VMAP_DIGEST_H */
