/*
 * record.h - the keys and values of everything a state stores. Private;
 * docs/vmap.md has the byte layouts.
 *
 *     state.values    map | key                          the newest value
 *     state.pages     map | level >= 1 | first           a page's node
 *                     map | 0 | first                    entries of a level-1 page
 *     state.history   map | level | ordered key | until  what stood there before
 *     state.staged    map | key                          a change not applied yet
 */
#ifndef VMAP_RECORD_H
#define VMAP_RECORD_H

#include "vmap/memory.h"
#include "vmap/vmap.h"

enum {
    RECORD_MAP_SIZE = 4,
    RECORD_LEVEL_VALUES = 0, /* in state.history: level 0 are the values */
    RECORD_LEVEL_ENTRIES = 0 /* in state.pages: the entries of a level-1 page */
};

/* A record's key on the stack, in the heap if long. */
struct record_key {
    uint8_t *data;
    size_t size;
    uint8_t local[232];
};

static inline kv_slice record_slice(const struct record_key *key)
{
    return kv_bytes(key->data, key->size);
}

/* False when out of memory. Clear every key that was made. */
bool record_key_value(struct record_key *key, uint32_t map, kv_slice name);
bool record_key_page(struct record_key *key, uint32_t map, unsigned level, kv_slice first);
bool record_key_history(struct record_key *key, uint32_t map, unsigned level, kv_slice name,
                        uint64_t until);
void record_key_clear(struct record_key *key);

/* Append the order-keeping, prefix-free form of `key`. */
bool record_ordered_add(struct vtree_buffer *buffer, kv_slice key);
/* Read it back: the bytes used, 0 when it is damaged or out of memory. */
size_t record_ordered_read(kv_slice bytes, struct vtree_buffer *key);

/* Cut a varint, or `size` bytes, off the front; false when there is none. */
bool record_take_varint(kv_slice *bytes, uint64_t *number);
bool record_take_bytes(kv_slice *bytes, size_t size, const uint8_t **out);

/* varint size | varint height | digest */
bool record_node_add(struct vtree_buffer *buffer, const vmap_node *node);
bool record_take_node(kv_slice *bytes, vmap_node *node);

#endif /* VMAP_RECORD_H */
