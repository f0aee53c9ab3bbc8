/* leaves.c - our own leaves of a page: the walk, what is staged over it, a guess over both. */
#include "reconnect/leaves.h"

static kv_slice staged_key(const struct leaves *leaves)
{
    kv_slice key = kv_iter_key(leaves->staged);
    return kv_bytes((const uint8_t *)key.data + leaves->prefix, key.size - leaves->prefix);
}

static bool guess_on(const struct leaves *leaves)
{
    return leaves->guess != NULL && leaves->guess_at < leaves->guess->count;
}

/* Take `key` if it is the least so far: of equal ones the last taken counts. */
static bool take_least(struct leaves *leaves, kv_slice key, kv_slice value, bool others)
{
    if (others && kv_compare(key, leaves->key) > 0)
        return false;
    leaves->key = key;
    leaves->value = value;
    leaves->from_walk = false;
    return true;
}

/* Step past the leaf in every source that it is in. */
static kv_code pass_leaf(struct leaves *leaves)
{
    leaves->guess_at += leaves->from_guess;
    if (leaves->from_stage)
        leaves->staged_on = kv_iter_next(leaves->staged);
    return leaves->from_walk ? walk_leaf_pass(leaves->walk, 1, leaves->status) : KV_OK;
}

/* Stand on the walk's leaf. */
static kv_code settle_plain(struct leaves *leaves)
{
    leaves->on = leaves->from_walk = leaves->walk->leaf_on;
    if (leaves->on) {
        leaves->key = walk_leaf_key(leaves->walk);
        leaves->node = walk_leaf_node(leaves->walk);
    }
    return KV_OK;
}

/* Stand on the first leaf at or after all cursors, passing over removals. */
static kv_code settle_leaf(struct leaves *leaves)
{
    if (leaves->plain)
        return settle_plain(leaves);
    for (;;) {
        bool walk_on = leaves->walk->leaf_on;
        bool any = walk_on;
        leaves->from_stage = leaves->from_guess = false;
        if (walk_on)
            take_least(leaves, walk_leaf_key(leaves->walk), kv_bytes(NULL, 0), false);
        leaves->from_walk = walk_on;
        if (leaves->staged_on) {
            leaves->from_stage =
                take_least(leaves, staged_key(leaves), kv_iter_value(leaves->staged), any);
            any = true;
        }
        if (guess_on(leaves)) {
            leaves->from_guess = take_least(leaves, guess_key(leaves->guess, leaves->guess_at),
                                            guess_value(leaves->guess, leaves->guess_at), any);
            any = true;
        }
        leaves->on = any;
        if (!any)
            return KV_OK;
        bool own = leaves->from_walk;
        /* A source that was taken over is in it too if its key is the same. */
        leaves->from_walk =
            walk_on && (own || kv_compare(walk_leaf_key(leaves->walk), leaves->key) == 0);
        leaves->from_stage =
            leaves->staged_on && kv_compare(staged_key(leaves), leaves->key) == 0;
        if (own || leaves->value.size > 0) {
            leaves->node =
                own ? walk_leaf_node(leaves->walk) : vmap_leaf(leaves->key, leaves->value);
            return KV_OK;
        }
        kv_code code = pass_leaf(leaves);
        if (code != KV_OK)
            return code;
    }
}

kv_code leaves_open(struct leaves *leaves, reconnect_learner *learner, const struct want *want,
                    kv_status *status)
{
    kv_range range = want_range(want);
    *leaves = (struct leaves){ .guess = want->guess,
                               .status = status,
                               .plain = want->guess == NULL && !learner->stage.found };
    kv_code code = learner_walk(learner, want->map, &leaves->walk, status);
    if (code == KV_OK)
        code = walk_leaf_seek(leaves->walk, range.first, range.limit, status);
    if (code == KV_OK && learner->stage.found) {
        code = stage_changes(&learner->stage, learner->maps[want->map].stage, &range,
                             &leaves->staged, &leaves->prefix, status);
        leaves->staged_on = code == KV_OK && kv_iter_first(leaves->staged);
    }
    return code == KV_OK ? settle_leaf(leaves) : code;
}

kv_code leaves_next(struct leaves *leaves)
{
    kv_code code = pass_leaf(leaves);
    return code == KV_OK ? settle_leaf(leaves) : code;
}

kv_code leaves_pass(struct leaves *leaves, size_t count)
{
    kv_code code = walk_leaf_pass(leaves->walk, count, leaves->status);
    return code == KV_OK ? settle_plain(leaves) : code;
}

/* `code` unless the walk over what is staged ended in a fault. */
kv_code leaves_close(struct leaves *leaves, kv_code code)
{
    if (leaves->staged != NULL && code == KV_OK)
        code = kv_iter_status(leaves->staged, leaves->status);
    kv_iter_close(leaves->staged);
    leaves->staged = NULL;
    return code;
}
