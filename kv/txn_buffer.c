/*
 * txn_buffer.c - what a transaction wrote: a skip list in an arena (Pugh, "Skip
 * Lists", 1990), with an undo log for savepoints. Nodes are never unlinked, so an
 * iterator may stand on one while the list grows.
 */
#include "kv/txn_internal.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 4096 };

struct txn_block {
    struct txn_block *next;
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

static struct txn_block *block_new(size_t size)
{
    struct txn_block *block = malloc(sizeof(*block) + size);
    if (block != NULL)
        *block = (struct txn_block){ .size = size };
    return block;
}

static void *arena_alloc(struct txn_buffer *buffer, size_t size)
{
    size = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (buffer->blocks == NULL || buffer->block_left < size) {
        struct txn_block *block = block_new(size > BLOCK_SIZE ? size : BLOCK_SIZE);
        if (block == NULL)
            return NULL;
        block->next = buffer->blocks;
        buffer->blocks = block;
        buffer->block_left = block->size;
    }
    struct txn_block *block = buffer->blocks;
    void *bytes = block->bytes + (block->size - buffer->block_left);
    buffer->block_left -= size;
    return bytes;
}

void txn_buffer_init(struct txn_buffer *buffer)
{
    *buffer = (struct txn_buffer){ .random = 0x9e3779b97f4a7c15u };
}

void txn_buffer_clear(struct txn_buffer *buffer)
{
    struct txn_block *kept = NULL;
    while (buffer->blocks != NULL) {
        struct txn_block *block = buffer->blocks;
        buffer->blocks = block->next;
        if (kept == NULL && block->size == BLOCK_SIZE)
            kept = block;
        else
            free(block);
    }
    if (kept != NULL)
        kept->next = NULL;
    buffer->blocks = kept;
    buffer->block_left = kept == NULL ? 0 : kept->size;
    memset(buffer->head, 0, sizeof(buffer->head));
    buffer->height = 0;
    buffer->undo_count = 0;
    buffer->size = 0;
}

void txn_buffer_free(struct txn_buffer *buffer)
{
    txn_buffer_clear(buffer);
    free(buffer->blocks);
    free(buffer->undo);
    txn_buffer_init(buffer);
}

static int node_compare(const struct txn_node *node, const kv_space *space, kv_slice key)
{
    if (node->space != space)
        return (uintptr_t)node->space < (uintptr_t)space ? -1 : 1;
    return kv_compare(node->key, key);
}

/* The first node >= (space, key), and in `links` (may be NULL) the pointers that lead up
 * to it, at each level below the list's height. */
static struct txn_node *skip_find(struct txn_buffer *buffer, const kv_space *space,
                                  kv_slice key, struct txn_node **links[TXN_HEIGHT_MAX])
{
    struct txn_node **next = buffer->head;
    for (unsigned level = buffer->height; level-- > 0;) {
        while (next[level] != NULL && node_compare(next[level], space, key) < 0)
            next = next[level]->next;
        if (links != NULL)
            links[level] = &next[level];
    }
    return next[0];
}

static unsigned height_draw(struct txn_buffer *buffer)
{
    uint64_t x = buffer->random; /* xorshift64 (Marsaglia, 2003) */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    buffer->random = x;
    unsigned height = 1 + (unsigned)__builtin_ctzll(x | (1ull << 24)) / 2; /* one in four */
    return height < TXN_HEIGHT_MAX ? height : TXN_HEIGHT_MAX;
}

static struct txn_node *node_insert(struct txn_buffer *buffer, kv_space *space, kv_slice key,
                                    struct txn_node **links[TXN_HEIGHT_MAX])
{
    unsigned height = height_draw(buffer);
    struct txn_node *node = arena_alloc(buffer, sizeof(*node) + height * sizeof(void *));
    char *bytes = node == NULL ? NULL : arena_alloc(buffer, key.size);
    if (bytes == NULL)
        return NULL;
    memcpy(bytes, key.data, key.size);
    *node = (struct txn_node){ .space = space, .key = kv_bytes(bytes, key.size) };
    for (; buffer->height < height; buffer->height++)
        links[buffer->height] = &buffer->head[buffer->height];
    for (unsigned level = 0; level < height; level++) {
        node->next[level] = *links[level];
        *links[level] = node;
    }
    return node;
}

kv_code txn_buffer_set(struct txn_buffer *buffer, kv_space *space, kv_slice key,
                       enum txn_kind kind, kv_slice value, kv_status *status)
{
    kv_code code = txn_grow(&buffer->undo, buffer->undo_count, &buffer->undo_room,
                            sizeof(buffer->undo[0]), status);
    if (code != KV_OK)
        return code;

    struct txn_node **links[TXN_HEIGHT_MAX];
    struct txn_node *node = skip_find(buffer, space, key, links);
    char *bytes = arena_alloc(buffer, value.size);
    if (bytes != NULL && (node == NULL || node_compare(node, space, key) != 0))
        node = node_insert(buffer, space, key, links);
    if (bytes == NULL || node == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a transaction's write of %zu bytes",
                       key.size + value.size);

    buffer->undo[buffer->undo_count++] = (struct txn_undo){ node, node->kind, node->value };
    if (value.size > 0)
        memcpy(bytes, value.data, value.size);
    node->kind = kind;
    node->value = kv_bytes(bytes, value.size);
    buffer->size += key.size + value.size;
    return KV_OK;
}

void txn_buffer_rollback(struct txn_buffer *buffer, size_t undo_count)
{
    while (buffer->undo_count > undo_count) {
        struct txn_undo *undo = &buffer->undo[--buffer->undo_count];
        buffer->size -= undo->node->key.size + undo->node->value.size;
        undo->node->kind = undo->kind;
        undo->node->value = undo->value;
    }
}

struct txn_node *txn_buffer_find(struct txn_buffer *buffer, const kv_space *space, kv_slice key)
{
    struct txn_node *node = skip_find(buffer, space, key, NULL);
    return node != NULL && node_compare(node, space, key) == 0 ? node : NULL;
}

struct txn_node *txn_buffer_seek(struct txn_buffer *buffer, const kv_space *space, kv_slice key)
{
    struct txn_node *node = skip_find(buffer, space, key, NULL);
    return node != NULL && node->space == space ? node : NULL;
}

/* The last node for which `node_compare` is below zero, or (with `whole`) the last
 * of `space`. */
static struct txn_node *skip_last(struct txn_buffer *buffer, const kv_space *space,
                                  kv_slice key, bool whole)
{
    struct txn_node **next = buffer->head;
    struct txn_node *last = NULL;
    for (unsigned level = buffer->height; level-- > 0;) {
        while (next[level] != NULL && (node_compare(next[level], space, key) < 0 ||
                                       (whole && next[level]->space == space))) {
            last = next[level];
            next = last->next;
        }
    }
    return last != NULL && last->space == space ? last : NULL;
}

struct txn_node *txn_buffer_before(struct txn_buffer *buffer, const kv_space *space,
                                   kv_slice key)
{
    return skip_last(buffer, space, key, false);
}

struct txn_node *txn_buffer_last(struct txn_buffer *buffer, const kv_space *space)
{
    return skip_last(buffer, space, kv_bytes(NULL, 0), true);
}
