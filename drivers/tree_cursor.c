/* tree_cursor.c - walking a space of a moment. */
#include "drivers/tree_private.h"

void tree_cursor_init(struct tree_cursor *cursor, const struct tree_moment *moment,
                      uint32_t space)
{
    const struct tree_roots *roots = moment->roots;
    cursor->depth = 0;
    cursor->root = NULL;
    if (space < roots->item.size)
        cursor->root = (const struct tree_node *)atomic_load_explicit(&roots->root[space],
                                                                      memory_order_acquire);
}

static const struct tree_record *here(const struct tree_cursor *cursor)
{
    if (cursor->depth == 0)
        return NULL;
    return tree_node_key(cursor->path[cursor->depth - 1].node,
                         cursor->path[cursor->depth - 1].index);
}

static void step_down(struct tree_cursor *cursor, const struct tree_node *node, unsigned index)
{
    cursor->path[cursor->depth].node = node;
    cursor->path[cursor->depth].index = index;
    cursor->depth++;
}

/* Go down from `node` along its first or last entries. */
static const struct tree_record *edge(struct tree_cursor *cursor, const struct tree_node *node,
                                      bool last)
{
    while (node != NULL) {
        unsigned index = last ? node->item.size - 1u : 0;
        step_down(cursor, node, index);
        node = node->item.level > 0 ? tree_node_child(node, index) : NULL;
    }
    return here(cursor);
}

const struct tree_record *tree_cursor_first(struct tree_cursor *cursor)
{
    cursor->depth = 0;
    return edge(cursor, cursor->root, false);
}

const struct tree_record *tree_cursor_last(struct tree_cursor *cursor)
{
    cursor->depth = 0;
    return edge(cursor, cursor->root, true);
}

const struct tree_record *tree_cursor_next(struct tree_cursor *cursor)
{
    while (cursor->depth > 0) {
        const struct tree_node *node = cursor->path[cursor->depth - 1].node;
        unsigned index = ++cursor->path[cursor->depth - 1].index;
        if (index < node->item.size)
            return edge(cursor, node->item.level > 0 ? tree_node_child(node, index) : NULL,
                        false);
        cursor->depth--;
    }
    return NULL;
}

const struct tree_record *tree_cursor_prev(struct tree_cursor *cursor)
{
    while (cursor->depth > 0) {
        const struct tree_node *node = cursor->path[cursor->depth - 1].node;
        if (cursor->path[cursor->depth - 1].index > 0) {
            unsigned index = --cursor->path[cursor->depth - 1].index;
            return edge(cursor, node->item.level > 0 ? tree_node_child(node, index) : NULL,
                        true);
        }
        cursor->depth--;
    }
    return NULL;
}

/* Come to the first entry >= key of the leaf that would hold it, perhaps one
 * past its last. */
static bool descend(struct tree_cursor *cursor, kv_slice key)
{
    const struct tree_node *node = cursor->root;
    cursor->depth = 0;
    if (node == NULL)
        return false;
    while (node->item.level > 0) {
        unsigned index = tree_node_route(node, key);
        step_down(cursor, node, index);
        node = tree_node_child(node, index);
    }
    bool equal;
    step_down(cursor, node, tree_node_find(node, key, &equal));
    return true;
}

const struct tree_record *tree_cursor_seek(struct tree_cursor *cursor, kv_slice key)
{
    if (!descend(cursor, key))
        return NULL;
    const struct tree_node *leaf = cursor->path[cursor->depth - 1].node;
    if (cursor->path[cursor->depth - 1].index < leaf->item.size)
        return here(cursor);
    return tree_cursor_next(cursor);
}

const struct tree_record *tree_cursor_below(struct tree_cursor *cursor, kv_slice key)
{
    if (!descend(cursor, key))
        return NULL;
    return tree_cursor_prev(cursor);
}
