/* tree_node.h - the shape of a node, and what is done to one node alone. */
#ifndef DRIVERS_TREE_NODE_H
#define DRIVERS_TREE_NODE_H

#include "drivers/tree.h"

#include <assert.h>

/*
 * All keys of a node begin with the same `skip` bytes; head[i] holds the eight
 * bytes after them, big-endian, so that most comparisons read no record. An
 * inner node's entry i leads to keys >= its key, entry 0 to all below entry 1:
 * its key is NULL. In memory, each array `capacity` long:
 *
 *     header | head: uint64_t | key: record * | child: node * (inner nodes)
 *
 * Once published only key[] of a leaf (by a record with the same key) and
 * child[] change, each by one atomic store.
 */
struct tree_node {
    struct tree_item item; /* level, and size: the entries */
    uint16_t capacity;
    uint16_t skip;
    uint32_t unused;
    uint64_t head[];
};

typedef _Atomic(struct tree_item *) tree_slot;

static_assert(sizeof(tree_slot) == 8, "the arrays of a node lie one behind the other");

struct tree_entry {
    struct tree_record *key; /* the first key, of a leaf's record or that leads to `child` */
    struct tree_node *child; /* of an inner node */
};

/* The slots of entry `index`; the word arrays follow one another. */
static inline tree_slot *tree_node_key_slot(struct tree_node *node, unsigned index)
{
    return (tree_slot *)(void *)&node->head[node->capacity + index];
}

static inline tree_slot *tree_node_child_slot(struct tree_node *node, unsigned index)
{
    return (tree_slot *)(void *)&node->head[2u * node->capacity + index];
}

static inline struct tree_item *tree_slot_load(const void *slot)
{
    return atomic_load_explicit((const tree_slot *)slot, memory_order_acquire);
}

static inline struct tree_record *tree_node_key(const struct tree_node *node, unsigned index)
{
    return (struct tree_record *)tree_slot_load(&node->head[node->capacity + index]);
}

static inline struct tree_node *tree_node_child(const struct tree_node *node, unsigned index)
{
    return (struct tree_node *)tree_slot_load(&node->head[2u * node->capacity + index]);
}

size_t tree_node_bytes(unsigned level, unsigned capacity);

/* The first entry >= key, or the number of entries; *equal when it is that key. */
unsigned tree_node_find(const struct tree_node *node, kv_slice key, bool *equal);

/* The record of exactly `key` in a leaf, or NULL; reads fewer records than find. */
struct tree_record *tree_node_get(const struct tree_node *leaf, kv_slice key);

/* The entry of an inner node that leads to `key`. */
unsigned tree_node_route(const struct tree_node *inner, kv_slice key);

/* Write to `to` the entries of `from` with `remove` of them from `at` replaced
 * by `add`. `to` may be `from`. It has the room. */
void tree_node_compose(struct tree_node *to, const struct tree_node *from, unsigned at,
                       unsigned remove, const struct tree_entry *add, unsigned add_count);

/* Write to the empty node `to` the entries [begin, end) of `from`. */
void tree_node_slice(struct tree_node *to, const struct tree_node *from, unsigned begin,
                     unsigned end);

/* Append all entries of `from` to `to`; `key` parts them in an inner node. */
void tree_node_append(struct tree_node *to, const struct tree_node *from,
                      struct tree_record *key);

#endif /* DRIVERS_TREE_NODE_H */
