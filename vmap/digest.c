/* digest.c - ranks, digests, folds and app hashes: the rules of vmap.h. */
#include "vmap/digest.h"

#include <assert.h>
#include <nettle/sha2.h>
#include <string.h>

enum {
    VARINT_SIZE_MAX = 10,
    /* height, size, version 0, then both sides with their length bytes */
    INNER_SIZE_MAX = 2 * VARINT_SIZE_MAX + 1 + 2 * (1 + VMAP_DIGEST_SIZE),
    LEAF_SIZE_FIXED = 3 + VARINT_SIZE_MAX + 1 + VMAP_DIGEST_SIZE,
    LEAF_KEY_SIZE = 128, /* longer keys' leaves are computed one by one */
    LEAF_GROUP = 16
};

size_t vmap_varint_encode(uint8_t *out, uint64_t number)
{
    size_t size = 0;
    while (number >= 0x80) {
        out[size++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    out[size++] = (uint8_t)number;
    return size;
}

vmap_digest vmap_digest_of(kv_slice bytes)
{
    struct sha256_ctx context;
    vmap_digest digest;
    sha256_init(&context);
    sha256_update(&context, bytes.size, bytes.data);
    sha256_digest(&context, sizeof(digest.bytes), digest.bytes);
    return digest;
}

vmap_digest vmap_empty_root(void)
{
    return vmap_digest_of(kv_bytes("", 0));
}

static unsigned rank_of(const vmap_digest *digest, unsigned page_bits)
{
    unsigned zeros = 0;
    for (size_t i = 0; i < sizeof(digest->bytes); i++) {
        if (digest->bytes[i] != 0) {
            zeros += (unsigned)__builtin_clz(digest->bytes[i]) - 24u;
            break;
        }
        zeros += 8;
    }
    return zeros / page_bits;
}

unsigned vmap_rank(kv_slice key, unsigned page_bits)
{
    vmap_digest digest = vmap_digest_of(key);
    return rank_of(&digest, page_bits);
}

void vmap_ranks(const kv_slice *keys, unsigned page_bits, unsigned *out, size_t count)
{
    vmap_digest digests[LEAF_GROUP];
    for (size_t begin = 0; begin < count; begin += LEAF_GROUP) {
        size_t some = count - begin < LEAF_GROUP ? count - begin : LEAF_GROUP;
        vmap_sha256_many(keys + begin, digests, some);
        for (size_t i = 0; i < some; i++)
            out[begin + i] = rank_of(&digests[i], page_bits);
    }
}

vmap_node vmap_leaf_of_digest(kv_slice key, const vmap_digest *value_digest)
{
    uint8_t head[3 + VARINT_SIZE_MAX] = { 0x00, 0x02, 0x00 };
    uint8_t tail[1 + VMAP_DIGEST_SIZE] = { VMAP_DIGEST_SIZE };
    memcpy(tail + 1, value_digest->bytes, sizeof(value_digest->bytes));

    struct sha256_ctx context;
    vmap_node leaf = { .size = 1, .height = 0 };
    sha256_init(&context);
    sha256_update(&context, 3 + vmap_varint_encode(head + 3, key.size), head);
    sha256_update(&context, key.size, key.data);
    sha256_update(&context, sizeof(tail), tail);
    sha256_digest(&context, sizeof(leaf.digest.bytes), leaf.digest.bytes);
    return leaf;
}

/* A leaf's bytes as far as they fit into `room`; answers their number, or 0. */
static size_t leaf_bytes(uint8_t *bytes, size_t room, kv_slice key,
                         const vmap_digest *value_digest)
{
    if (LEAF_SIZE_FIXED + key.size > room)
        return 0;
    static const uint8_t begin[3] = { 0x00, 0x02, 0x00 };
    memcpy(bytes, begin, sizeof(begin));
    size_t used = 3 + vmap_varint_encode(bytes + 3, key.size);
    memcpy(bytes + used, key.data, key.size);
    used += key.size;
    bytes[used++] = VMAP_DIGEST_SIZE;
    memcpy(bytes + used, value_digest->bytes, VMAP_DIGEST_SIZE);
    return used + VMAP_DIGEST_SIZE;
}

static void leaves_group(const kv_slice *keys, const kv_slice *values, vmap_node *out,
                         size_t count)
{
    uint8_t bytes[LEAF_GROUP][LEAF_SIZE_FIXED + LEAF_KEY_SIZE];
    vmap_digest digests[LEAF_GROUP], leaves[LEAF_GROUP];
    kv_slice messages[LEAF_GROUP];
    size_t places[LEAF_GROUP], short_count = 0;
    vmap_sha256_many(values, digests, count);
    for (size_t i = 0; i < count; i++) {
        size_t size = leaf_bytes(bytes[short_count], sizeof(bytes[0]), keys[i], &digests[i]);
        if (size == 0) {
            out[i] = vmap_leaf_of_digest(keys[i], &digests[i]);
            continue;
        }
        messages[short_count] = kv_bytes(bytes[short_count], size);
        places[short_count++] = i;
    }
    vmap_sha256_many(messages, leaves, short_count);
    for (size_t i = 0; i < short_count; i++)
        out[places[i]] = (vmap_node){ .digest = leaves[i], .size = 1, .height = 0 };
}

void vmap_leaves(const kv_slice *keys, const kv_slice *values, vmap_node *out, size_t count)
{
    for (size_t i = 0; i < count; i += LEAF_GROUP)
        leaves_group(keys + i, values + i, out + i,
                     count - i < LEAF_GROUP ? count - i : LEAF_GROUP);
}

vmap_node vmap_leaf(kv_slice key, kv_slice value)
{
    vmap_digest value_digest = vmap_digest_of(value);
    return vmap_leaf_of_digest(key, &value_digest);
}

size_t vmap_inner_header(uint8_t *out, uint32_t height, uint64_t size)
{
    size_t used = vmap_varint_encode(out, (uint64_t)height << 1);
    used += vmap_varint_encode(out + used, size << 1);
    out[used++] = 0; /* IAVL's version: a constant, so that history has no say */
    return used;
}

/* An inner node's bytes; answers their number. */
static size_t inner_bytes(uint8_t bytes[INNER_SIZE_MAX], uint32_t height, uint64_t size,
                          const vmap_digest *left, const vmap_digest *right)
{
    size_t used = vmap_inner_header(bytes, height, size);
    bytes[used++] = VMAP_DIGEST_SIZE;
    memcpy(bytes + used, left->bytes, VMAP_DIGEST_SIZE);
    used += VMAP_DIGEST_SIZE;
    bytes[used++] = VMAP_DIGEST_SIZE;
    memcpy(bytes + used, right->bytes, VMAP_DIGEST_SIZE);
    return used + VMAP_DIGEST_SIZE;
}

void vmap_inner_digest(uint32_t height, uint64_t size, const vmap_digest *left,
                       const vmap_digest *right, vmap_digest *out)
{
    uint8_t bytes[INNER_SIZE_MAX];
    size_t used = inner_bytes(bytes, height, size, left, right);
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, used, bytes);
    sha256_digest(&context, sizeof(out->bytes), out->bytes);
}

void vmap_inner_queue_add(struct vmap_inner_queue *queue, uint32_t height, uint64_t size,
                          const vmap_digest *left, const vmap_digest *right, vmap_digest *out)
{
    static_assert(INNER_SIZE_MAX + 9 <= sizeof(queue->blocks[0]), "an inner node fits in");
    uint8_t *bytes = queue->blocks[queue->count];
    size_t used = inner_bytes(bytes, height, size, left, right);
    vmap_sha256_pad(bytes, used, used);
    queue->out[queue->count++] = out;
    if (queue->count == 2)
        vmap_inner_queue_flush(queue);
}

void vmap_inner_queue_flush(struct vmap_inner_queue *queue)
{
    vmap_digest spare;
    if (queue->count == 0)
        return;
    uint8_t *const blocks[2] = { queue->blocks[0], queue->blocks[queue->count - 1] };
    vmap_digest *const out[2] = { queue->out[0], queue->count == 2 ? queue->out[1] : &spare };
    vmap_sha256_pair(blocks, out);
    queue->count = 0;
}

vmap_node vmap_inner(const vmap_node *left, const vmap_node *right)
{
    vmap_node node;
    node.size = left->size + right->size;
    node.height = 1 + (left->height > right->height ? left->height : right->height);
    vmap_inner_digest(node.height, node.size, &left->digest, &right->digest, &node.digest);
    return node;
}

vmap_node vmap_fold(vmap_node *nodes, size_t count)
{
    struct vmap_inner_queue queue;
    assert(count > 0);
    queue.count = 0;
    while (count > 1) {
        size_t half = 0;
        for (size_t i = 0; i + 1 < count; i += 2) {
            vmap_node *left = &nodes[i], *right = &nodes[i + 1], *out = &nodes[half++];
            uint32_t height = 1 + (left->height > right->height ? left->height : right->height);
            uint64_t size = left->size + right->size;
            vmap_inner_queue_add(&queue, height, size, &left->digest, &right->digest,
                                 &out->digest);
            out->height = height;
            out->size = size;
        }
        vmap_inner_queue_flush(&queue);
        if (count % 2 != 0)
            nodes[half++] = nodes[count - 1];
        count = half;
    }
    return nodes[0];
}

/* ---- App hash ----------------------------------------------------------- */

vmap_digest vmap_app_leaf(const vmap_named_root *map)
{
    uint8_t head[1 + VARINT_SIZE_MAX] = { 0x00 };
    uint8_t tail[1 + VMAP_DIGEST_SIZE] = { VMAP_DIGEST_SIZE };
    size_t name_size = strlen(map->name);
    vmap_digest root_digest =
        vmap_digest_of(kv_bytes(map->root.bytes, sizeof(map->root.bytes)));
    memcpy(tail + 1, root_digest.bytes, sizeof(root_digest.bytes));

    struct sha256_ctx context;
    vmap_digest digest;
    sha256_init(&context);
    sha256_update(&context, 1 + vmap_varint_encode(head + 1, name_size), head);
    sha256_update(&context, name_size, (const uint8_t *)map->name);
    sha256_update(&context, sizeof(tail), tail);
    sha256_digest(&context, sizeof(digest.bytes), digest.bytes);
    return digest;
}

vmap_digest vmap_app_inner(const vmap_digest *left, const vmap_digest *right)
{
    uint8_t bytes[1 + 2 * VMAP_DIGEST_SIZE] = { 0x01 };
    memcpy(bytes + 1, left->bytes, VMAP_DIGEST_SIZE);
    memcpy(bytes + 1 + VMAP_DIGEST_SIZE, right->bytes, VMAP_DIGEST_SIZE);
    return vmap_digest_of(kv_bytes(bytes, sizeof(bytes)));
}

size_t vmap_app_split(size_t count)
{
    size_t split = 1;
    while (split * 2 < count)
        split *= 2;
    return split;
}

vmap_digest vmap_app_hash(const vmap_named_root *maps, size_t count)
{
    if (count == 0)
        return vmap_empty_root();
    if (count == 1)
        return vmap_app_leaf(maps);
    size_t split = vmap_app_split(count);
    vmap_digest left = vmap_app_hash(maps, split);
    vmap_digest right = vmap_app_hash(maps + split, count - split);
    return vmap_app_inner(&left, &right);
}
