/*
 * sha256.h - many SHA-256 digests at once. Private.
 *
 * One message's blocks depend on each other, so a processor's SHA instructions wait for their
 * own results. Two messages side by side fill the gaps: twice the digests in the same time.
 * Where the processor has no such instructions, or is no x86, nettle does the work.
 */
#ifndef VMAP_SHA256_H
#define VMAP_SHA256_H

#include "vmap/vmap.h"

enum { SHA256_BLOCK_SIZE = 64 };

/* The digests of `count` messages; `out` may not overlap them. */
void vmap_sha256_many(const kv_slice *messages, vmap_digest *out, size_t count);

/* Two messages of two blocks each, padded already (vmap_sha256_pad). */
void vmap_sha256_pair(uint8_t *const blocks[2], vmap_digest *const out[2]);

/* Pad the `size` bytes at `block`, which has room for whole blocks; answers their number. */
size_t vmap_sha256_pad(uint8_t *block, size_t size, size_t message_size);

#endif /* VMAP_SHA256_H */
