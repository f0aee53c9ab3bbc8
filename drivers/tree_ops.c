/* tree_ops.c - operations gathered in a batch, each a record made in advance. */
#include "drivers/tree.h"

#include <stdlib.h>

static bool ops_grow(struct tree_ops *ops)
{
    if (ops->count < ops->capacity)
        return true;
    size_t capacity = ops->capacity == 0 ? 8 : 2 * ops->capacity;
    struct tree_op *items = realloc(ops->items, capacity * sizeof(*items));
    if (items == NULL)
        return false;
    ops->items = items;
    ops->capacity = capacity;
    return true;
}

void tree_ops_add(struct tree_ops *ops, enum tree_op_kind kind, uint32_t space, kv_slice key,
                  kv_slice value, kv_status *status)
{
    struct tree_record *record = ops_grow(ops) ? tree_record_new(key, value) : NULL;
    if (record != NULL)
        ops->items[ops->count++] = (struct tree_op){ record, space, kind };
    else
        kv_fail(status, KV_NO_MEMORY, "out of memory for a batch of %zu operations",
                ops->count + 1);
}

void tree_ops_clear(struct tree_ops *ops)
{
    for (size_t i = 0; i < ops->count; i++)
        tree_record_release(ops->items[i].record);
    ops->count = 0;
}

void tree_ops_free(struct tree_ops *ops)
{
    tree_ops_clear(ops);
    free(ops->items);
    *ops = (struct tree_ops){ NULL, 0, 0 };
}

static kv_code draft_one(const struct tree_op *op, struct tree *tree, kv_status *status)
{
    struct tree_record *record = op->record;
    switch (op->kind) {
    case TREE_OP_PUT:
        return tree_draft_put(tree, op->space, record, status);
    case TREE_OP_DELETE:
        return tree_draft_delete(tree, op->space, tree_record_key(record), status);
    case TREE_OP_DELETE_RANGE:
        return tree_draft_delete_range(tree, op->space, tree_record_key(record),
                                       tree_record_value(record), status);
    }
    return KV_INTERNAL;
}

kv_code tree_ops_draft(const struct tree_ops *ops, struct tree *tree, kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; i < ops->count && code == KV_OK; i++)
        code = draft_one(&ops->items[i], tree, status);
    return code;
}

kv_code tree_ops_commit(const struct tree_ops *ops, struct tree *tree, kv_status *status)
{
    if (ops->count == 0)
        return KV_OK;
    const struct tree_op *first = &ops->items[0];
    if (ops->count == 1 && first->kind == TREE_OP_DELETE)
        return tree_delete(tree, first->space, tree_record_key(first->record), status);
    if (ops->count == 1 && first->kind == TREE_OP_PUT) {
        kv_code code = tree_put(tree, first->space, tree_record_take(first->record), status);
        if (code != KV_OK)
            tree_record_release(first->record);
        return code;
    }

    kv_code code = tree_draft_begin(tree, status);
    if (code != KV_OK)
        return code;
    code = tree_ops_draft(ops, tree, status);
    if (code == KV_OK)
        tree_draft_publish(tree);
    else
        tree_draft_abandon(tree);
    return code;
}
