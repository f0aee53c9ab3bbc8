/*
 * txn_iter.c - a walk over the database with a transaction's own writes on top:
 * the smaller (backwards the larger) of two cursors, own writes hiding what the
 * database has under the same key.
 */
#include "kv/txn_internal.h"

#include <stdlib.h>
#include <string.h>

enum turn { TURN_FORWARD, TURN_BACK };

struct kv_txn_iter {
    kv_txn *txn;
    struct txn_range range;
    kv_iter *base;
    const struct txn_node *own; /* NULL off the own writes */
    bool base_on, on;
    bool on_own; /* the entry under the cursor is an own write */
    enum turn turn;
    kv_status status;
};

kv_code kv_txn_iter_open(kv_txn *txn, kv_space *space, const kv_range *range, kv_txn_iter **out,
                         kv_status *status)
{
    *out = NULL;
    kv_code code = txn_check_active(txn, status);
    if (code != KV_OK)
        return code;
    kv_txn_iter *iter = calloc(1, sizeof(*iter));
    if (iter == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for an iterator");
    iter->txn = txn;
    code = txn_range_copy(&iter->range, space, range, status);
    if (code == KV_OK)
        code = txn_guard_range(txn, space, range, status);
    if (code == KV_OK) {
        kv_read read = { .snapshot = txn->snapshot };
        code = kv_iter_open(space, &read, range, &iter->base, status);
    }
    if (code != KV_OK) {
        free(iter->range.bytes);
        free(iter);
        return code;
    }
    txn->iterators++;
    *out = iter;
    return KV_OK;
}

void kv_txn_iter_close(kv_txn_iter *iter)
{
    if (iter == NULL)
        return;
    iter->txn->iterators--;
    kv_iter_close(iter->base);
    free(iter->range.bytes);
    free(iter);
}

/* ---- Own writes inside the range ------------------------------------------ */

static bool below_first(const kv_txn_iter *iter, kv_slice key)
{
    return kv_compare(key, iter->range.keys.first) < 0;
}

static bool past_limit(const kv_txn_iter *iter, kv_slice key)
{
    return iter->range.keys.limit.size > 0 && kv_compare(key, iter->range.keys.limit) >= 0;
}

/* The own write at or after `node` that stands; undone ones are passed over. */
static const struct txn_node *own_forward(const kv_txn_iter *iter, const struct txn_node *node)
{
    while (node != NULL && node->space == iter->range.space && node->kind == TXN_NONE)
        node = node->next[0];
    if (node == NULL || node->space != iter->range.space || past_limit(iter, node->key))
        return NULL;
    return node;
}

static const struct txn_node *own_back(const kv_txn_iter *iter, const struct txn_node *node)
{
    while (node != NULL && node->kind == TXN_NONE)
        node = txn_buffer_before(&iter->txn->buffer, iter->range.space, node->key);
    return node == NULL || below_first(iter, node->key) ? NULL : node;
}

static const struct txn_node *own_seek(const kv_txn_iter *iter, kv_slice key)
{
    return own_forward(iter, txn_buffer_seek(&iter->txn->buffer, iter->range.space, key));
}

static const struct txn_node *own_before(const kv_txn_iter *iter, kv_slice key)
{
    return own_back(iter, txn_buffer_before(&iter->txn->buffer, iter->range.space, key));
}

/* The own write next to `key`, not at it, in the direction of travel. Looked up anew
 * at each step, since writes may have been made in between. */
static const struct txn_node *own_beside(const kv_txn_iter *iter, kv_slice key)
{
    if (iter->turn == TURN_BACK)
        return own_before(iter, key);
    const struct txn_node *node = txn_buffer_seek(&iter->txn->buffer, iter->range.space, key);
    if (node != NULL && kv_compare(node->key, key) == 0)
        node = node->next[0];
    return own_forward(iter, node);
}

/* ---- Merging -------------------------------------------------------------- */

/* How own and base compare in the direction of travel: < 0, own comes first. */
static int order(const kv_txn_iter *iter)
{
    if (iter->own == NULL || !iter->base_on)
        return iter->own != NULL ? -1 : 1;
    int order = kv_compare(iter->own->key, kv_iter_key(iter->base));
    return iter->turn == TURN_FORWARD ? order : -order;
}

/* A fault of the base ends the whole walk. */
static void base_moved(kv_txn_iter *iter, bool on)
{
    iter->base_on = on;
    if (!on && kv_iter_status(iter->base, &iter->status) != KV_OK)
        iter->own = NULL;
}

static void base_step(kv_txn_iter *iter)
{
    base_moved(iter, iter->turn == TURN_FORWARD ? kv_iter_next(iter->base)
                                                : kv_iter_prev(iter->base));
}

/* Stand on the entry both cursors lead to, passing over deleted keys. */
static bool settle(kv_txn_iter *iter)
{
    for (;;) {
        iter->on = iter->status.code == KV_OK && (iter->own != NULL || iter->base_on);
        if (!iter->on)
            return false;
        int first = order(iter);
        iter->on_own = first <= 0;
        if (!iter->on_own || iter->own->kind == TXN_PUT)
            return true;
        const struct txn_node *deleted = iter->own;
        iter->own = own_beside(iter, deleted->key);
        if (first == 0)
            base_step(iter);
    }
}

static bool can_move(kv_txn_iter *iter)
{
    if (iter->status.code == KV_OK && txn_check_active(iter->txn, &iter->status) == KV_OK)
        return true;
    iter->on = false;
    return false;
}

bool kv_txn_iter_seek(kv_txn_iter *iter, kv_slice key)
{
    if (!can_move(iter))
        return false;
    if (below_first(iter, key))
        key = iter->range.keys.first;
    iter->turn = TURN_FORWARD;
    iter->own = own_seek(iter, key);
    base_moved(iter, key.size == 0 ? kv_iter_first(iter->base) : kv_iter_seek(iter->base, key));
    return settle(iter);
}

bool kv_txn_iter_first(kv_txn_iter *iter)
{
    return kv_txn_iter_seek(iter, iter->range.keys.first);
}

bool kv_txn_iter_last(kv_txn_iter *iter)
{
    if (!can_move(iter))
        return false;
    iter->turn = TURN_BACK;
    iter->own = iter->range.keys.limit.size > 0
                    ? own_before(iter, iter->range.keys.limit)
                    : own_back(iter, txn_buffer_last(&iter->txn->buffer, iter->range.space));
    base_moved(iter, kv_iter_last(iter->base));
    return settle(iter);
}

/* Bring the base to the entry beside `key`, not at it, in the direction of travel. */
static void base_turn(kv_txn_iter *iter, kv_slice key)
{
    bool forward = iter->turn == TURN_FORWARD;
    base_moved(iter, forward ? kv_iter_seek(iter->base, key)
                             : kv_iter_seek_for_prev(iter->base, key));
    if (iter->base_on && kv_compare(kv_iter_key(iter->base), key) == 0)
        base_step(iter);
}

static bool move(kv_txn_iter *iter, enum turn turn)
{
    if (!iter->on || !can_move(iter))
        return false;
    bool turned = iter->turn != turn;
    bool both = iter->on_own && iter->base_on && order(iter) == 0;
    iter->turn = turn;
    if (!iter->on_own) {
        iter->own = own_beside(iter, kv_iter_key(iter->base));
        base_step(iter);
        return settle(iter);
    }
    const struct txn_node *own = iter->own; /* its key outlives the moves */
    iter->own = own_beside(iter, own->key);
    if (both)
        base_step(iter);
    else if (turned)
        base_turn(iter, own->key);
    return settle(iter);
}

bool kv_txn_iter_next(kv_txn_iter *iter)
{
    return move(iter, TURN_FORWARD);
}

bool kv_txn_iter_prev(kv_txn_iter *iter)
{
    return move(iter, TURN_BACK);
}

kv_slice kv_txn_iter_key(const kv_txn_iter *iter)
{
    if (!iter->on)
        return kv_bytes(NULL, 0);
    return iter->on_own ? iter->own->key : kv_iter_key(iter->base);
}

kv_slice kv_txn_iter_value(const kv_txn_iter *iter)
{
    if (!iter->on)
        return kv_bytes(NULL, 0);
    return iter->on_own ? iter->own->value : kv_iter_value(iter->base);
}

kv_code kv_txn_iter_status(const kv_txn_iter *iter, kv_status *status)
{
    if (iter->status.code != KV_OK)
        return kv_fail(status, iter->status.code, "%s", iter->status.message);
    return kv_iter_status(iter->base, status);
}
