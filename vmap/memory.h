/* memory.h - growing byte buffers and arenas. Private. */
#ifndef VMAP_MEMORY_H
#define VMAP_MEMORY_H

#include "kv/kv.h"

/* Bytes that grow. Start from all zeros; free with vtree_buffer_clear. */
struct vtree_buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

/* Append; false when out of memory, and then nothing changed. */
bool vtree_buffer_add(struct vtree_buffer *buffer, const void *bytes, size_t size);
bool vtree_buffer_add_varint(struct vtree_buffer *buffer, uint64_t number);
bool vtree_buffer_add_be64(struct vtree_buffer *buffer, uint64_t number);
void vtree_buffer_clear(struct vtree_buffer *buffer);

static inline kv_slice vtree_buffer_slice(const struct vtree_buffer *buffer)
{
    return kv_bytes(buffer->data, buffer->size);
}

/* Make room for `count` elements of `size` bytes; false when out of memory. */
bool vtree_grow(void **data, size_t *capacity, size_t count, size_t size);

/* Memory freed all at once. Start from all zeros. */
struct vtree_arena {
    struct vtree_arena_chunk *chunks;
    size_t used, capacity; /* of the newest chunk */
    size_t size;           /* bytes taken from the system */
};

/* Aligned for any type; NULL when out of memory. */
void *vtree_arena_take(struct vtree_arena *arena, size_t size);
/* A copy of `bytes`; its data is NULL when out of memory (never for size 0). */
kv_slice vtree_arena_copy(struct vtree_arena *arena, kv_slice bytes);
void vtree_arena_clear(struct vtree_arena *arena);
/* Forget all that was taken, but keep memory for what comes next. */
void vtree_arena_reset(struct vtree_arena *arena);

#endif /* VMAP_MEMORY_H */
