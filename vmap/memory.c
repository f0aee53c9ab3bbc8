/* memory.c - growing byte buffers and arenas. */
#include "vmap/memory.h"

#include "vmap/digest.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 64 * 1024, CHUNK_SIZE_FIRST = 4 * 1024 };

struct vtree_arena_chunk {
    struct vtree_arena_chunk *next;
    max_align_t bytes[];
};

bool vtree_grow(void **data, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity)
        return true;
    size_t grown = *capacity < 16 ? 16 : *capacity;
    while (grown < count)
        grown *= 2;
    void *moved = reallocarray(*data, grown, size);
    if (moved == NULL)
        return false;
    *data = moved;
    *capacity = grown;
    return true;
}

bool vtree_buffer_add(struct vtree_buffer *buffer, const void *bytes, size_t size)
{
    void *data = buffer->data;
    if (!vtree_grow(&data, &buffer->capacity, buffer->size + size, 1))
        return false;
    buffer->data = data;
    if (size > 0)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    return true;
}

bool vtree_buffer_add_varint(struct vtree_buffer *buffer, uint64_t number)
{
    uint8_t bytes[VMAP_VARINT_SIZE_MAX];
    return vtree_buffer_add(buffer, bytes, vmap_varint_encode(bytes, number));
}

bool vtree_buffer_add_be64(struct vtree_buffer *buffer, uint64_t number)
{
    uint64_t big = __builtin_bswap64(number);
    return vtree_buffer_add(buffer, &big, sizeof(big));
}

void vtree_buffer_clear(struct vtree_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct vtree_buffer){ NULL, 0, 0 };
}

void *vtree_arena_take(struct vtree_arena *arena, size_t size)
{
    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (arena->chunks == NULL || arena->capacity - arena->used < size) {
        size_t capacity = arena->chunks == NULL ? CHUNK_SIZE_FIRST : CHUNK_SIZE;
        if (capacity < size)
            capacity = size;
        struct vtree_arena_chunk *chunk = malloc(sizeof(*chunk) + capacity);
        if (chunk == NULL)
            return NULL;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->capacity = capacity;
        arena->used = 0;
        arena->size += capacity;
    }
    void *bytes = (uint8_t *)arena->chunks->bytes + arena->used;
    arena->used += size;
    return bytes;
}

kv_slice vtree_arena_copy(struct vtree_arena *arena, kv_slice bytes)
{
    if (bytes.size == 0)
        return kv_bytes("", 0);
    void *copy = vtree_arena_take(arena, bytes.size);
    if (copy == NULL)
        return kv_bytes(NULL, 0);
    memcpy(copy, bytes.data, bytes.size);
    return kv_bytes(copy, bytes.size);
}

static void free_chunks(struct vtree_arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct vtree_arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void vtree_arena_clear(struct vtree_arena *arena)
{
    free_chunks(arena->chunks);
    *arena = (struct vtree_arena){ NULL, 0, 0, 0 };
}

void vtree_arena_reset(struct vtree_arena *arena)
{
    if (arena->chunks == NULL || arena->capacity > CHUNK_SIZE) {
        vtree_arena_clear(arena);
        return;
    }
    free_chunks(arena->chunks->next);
    arena->chunks->next = NULL;
    arena->used = 0;
    arena->size = arena->capacity;
}
