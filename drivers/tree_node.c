/* tree_node.c - searching one node, and making one out of others. */
#include "drivers/tree_node.h"

#include <string.h>

size_t tree_node_bytes(unsigned level, unsigned capacity)
{
    return offsetof(struct tree_node, head) + (level == 0 ? 16u : 24u) * (size_t)capacity;
}

static uint64_t head_of(kv_slice key, size_t skip)
{
    unsigned char bytes[8] = { 0 };
    if (key.size > skip) {
        size_t size = key.size - skip;
        memcpy(bytes, (const unsigned char *)key.data + skip, size < 8 ? size : 8);
    }
    uint64_t head;
    memcpy(&head, bytes, sizeof(head));
    return __builtin_bswap64(head);
}

static size_t common_size(kv_slice a, kv_slice b)
{
    const unsigned char *left = a.data;
    const unsigned char *right = b.data;
    size_t size = a.size < b.size ? a.size : b.size;
    size_t same = 0;
    while (same < size && left[same] == right[same])
        same++;
    return same;
}

/* An inner node's first key is not there. */
static unsigned keys_from(const struct tree_node *node)
{
    return node->item.level == 0 ? 0 : 1;
}

/* The first of head[from, to) that is >= head. */
static unsigned heads_lower(const uint64_t *heads, unsigned from, unsigned to, uint64_t head)
{
    unsigned left = to - from;
    if (left == 0)
        return from;
    while (left > 1) {
        unsigned half = left / 2;
        from += heads[from + half - 1] < head ? half : 0;
        left -= half;
    }
    return from + (heads[from] < head ? 1 : 0);
}

/* The first entry >= key among those whose head is the same, from `from` on. */
static unsigned ties_lower(const struct tree_node *node, unsigned from, uint64_t head,
                           kv_slice key, bool *equal)
{
    unsigned to = from;
    while (to < node->item.size && node->head[to] == head)
        to++;
    while (from < to) {
        unsigned middle = from + (to - from) / 2;
        int order = kv_compare(key, tree_record_key(tree_node_key(node, middle)));
        if (order == 0) {
            *equal = true;
            return middle;
        }
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

unsigned tree_node_find(const struct tree_node *node, kv_slice key, bool *equal)
{
    unsigned from = keys_from(node);
    unsigned count = node->item.size;
    size_t skip = node->skip;
    *equal = false;
    if (from == count)
        return count;
    if (skip > 0) {
        size_t size = key.size < skip ? key.size : skip;
        int order = memcmp(key.data, tree_node_key(node, from)->bytes, size);
        if (order < 0 || (order == 0 && key.size < skip))
            return from;
        if (order > 0)
            return count;
    }
    uint64_t head = head_of(key, skip);
    unsigned at = heads_lower(node->head, from, count, head);
    if (at < count && node->head[at] == head)
        at = ties_lower(node, at, head, key, equal);
    return at;
}

struct tree_record *tree_node_get(const struct tree_node *leaf, kv_slice key)
{
    /* A key that does not begin like the others matches no record in full. */
    uint64_t head = head_of(key, leaf->skip);
    unsigned at = heads_lower(leaf->head, 0, leaf->item.size, head);
    if (at == leaf->item.size || leaf->head[at] != head)
        return NULL;

    bool equal = false;
    if (at + 1 < leaf->item.size && leaf->head[at + 1] == head)
        at = ties_lower(leaf, at, head, key, &equal);
    if (at == leaf->item.size)
        return NULL;
    struct tree_record *record = tree_node_key(leaf, at);
    __builtin_prefetch((const char *)record + TREE_CACHE_LINE); /* of the key or value */
    return record->item.size == key.size && memcmp(record->bytes, key.data, key.size) == 0
               ? record
               : NULL;
}

unsigned tree_node_route(const struct tree_node *inner, kv_slice key)
{
    bool equal;
    unsigned at = tree_node_find(inner, key, &equal);
    return equal ? at : at - 1;
}

/* Set `skip` anew, and the heads if it changed. */
static void heads_renew(struct tree_node *node)
{
    unsigned from = keys_from(node);
    size_t skip = 0;
    if (node->item.size > from + 1u)
        skip = common_size(tree_record_key(tree_node_key(node, from)),
                           tree_record_key(tree_node_key(node, node->item.size - 1u)));
    if (skip == node->skip)
        return;
    node->skip = (uint16_t)skip;
    for (unsigned i = from; i < node->item.size; i++)
        node->head[i] = head_of(tree_record_key(tree_node_key(node, i)), skip);
}

/* Copy entries; the nodes may be one and the ranges overlap. Only the writer
 * that owns `to` is here, and nobody changes `from` meanwhile. */
static void entries_move(struct tree_node *to, unsigned to_at, const struct tree_node *from,
                         unsigned from_at, unsigned count)
{
    unsigned arrays = to->item.level == 0 ? 2 : 3;
    for (unsigned i = 0; i < arrays && count > 0; i++)
        memmove(&to->head[i * to->capacity + to_at], &from->head[i * from->capacity + from_at],
                count * sizeof(uint64_t));
}

static void key_store(struct tree_node *node, unsigned at, struct tree_record *key)
{
    atomic_store_explicit(tree_node_key_slot(node, at), (struct tree_item *)key,
                          memory_order_relaxed);
}

static void entry_set(struct tree_node *node, unsigned at, const struct tree_entry *entry)
{
    node->head[at] = entry->key == NULL ? 0 : head_of(tree_record_key(entry->key), node->skip);
    key_store(node, at, entry->key);
    if (node->item.level > 0)
        atomic_store_explicit(tree_node_child_slot(node, at), (struct tree_item *)entry->child,
                              memory_order_relaxed);
}

void tree_node_compose(struct tree_node *to, const struct tree_node *from, unsigned at,
                       unsigned remove, const struct tree_entry *add, unsigned add_count)
{
    unsigned count = from->item.size;
    unsigned total = count - remove + add_count;
    unsigned lowest = keys_from(from);
    bool at_end = at <= lowest || at + remove == count;
    assert(total <= to->capacity);
    to->skip = from->skip;
    if (to != from)
        entries_move(to, 0, from, 0, at);
    entries_move(to, at + add_count, from, at + remove, count - at - remove);
    for (unsigned i = 0; i < add_count; i++)
        entry_set(to, at + i, &add[i]);
    to->item.size = (uint16_t)total;
    if (to->item.level > 0 && total > 0)
        key_store(to, 0, NULL);
    if (at_end && add_count > 0 && total > 0)
        heads_renew(to);
}

void tree_node_slice(struct tree_node *to, const struct tree_node *from, unsigned begin,
                     unsigned end)
{
    assert(end - begin <= to->capacity);
    to->skip = from->skip;
    to->item.size = (uint16_t)(end - begin);
    entries_move(to, 0, from, begin, end - begin);
    if (to->item.level > 0)
        key_store(to, 0, NULL);
    heads_renew(to);
}

void tree_node_append(struct tree_node *to, const struct tree_node *from,
                      struct tree_record *key)
{
    unsigned count = to->item.size;
    entries_move(to, count, from, 0, from->item.size);
    to->item.size = (uint16_t)(count + from->item.size);
    if (to->item.level > 0)
        key_store(to, count, key);
    to->skip = UINT16_MAX; /* no two keys have this in common: renewed for certain */
    heads_renew(to);
}
