/* pages_leaves.c - a page as a list of leaves: read, folded, staged. */
#include "reconnect/pages.h"

#include <stdlib.h>
#include <string.h>

/* The next leaf of the page. */
kv_code reading_add(struct reading *reading, kv_slice key, const vmap_node *node)
{
    struct pages *pages = reading->learner->pages;
    kv_slice first = want_first(reading->want);
    if (reading->count == 0)
        reading->placed = first.size == 0 || kv_compare(first, key) == 0;
    else if (kv_compare(kv_bytes(pages->last.data, pages->last.size), key) >= 0)
        reading->ordered = false;
    pages->last.size = 0;
    wire_put(&pages->last, key.data, key.size);
    return pages->last.failed ? KV_NO_MEMORY : pages_add_node(pages, reading->count++, node);
}

/* Of `count` leaves that the page has, too: those in one piece. */
static kv_code copy_run(struct reading *reading, uint64_t count, uint64_t *done)
{
    struct pages *pages = reading->learner->pages;
    struct leaves *leaves = &reading->leaves;
    const vmap_page *page = &leaves->walk->pages[0].page;
    size_t at = leaves->walk->leaf_at, run = leaves_run(leaves);
    *done = run < count ? run : count;
    if (run == 0)
        return KV_OK;
    kv_code code = reading_add(reading, leaves->key, &leaves->node);
    for (size_t i = 1; i < *done && code == KV_OK; i++) {
        vmap_node node = vmap_page_node(page, at + i);
        code = pages_add_node(pages, reading->count++, &node);
    }
    kv_slice last = vmap_page_key(page, at + (size_t)*done - 1);
    pages->last.size = 0;
    wire_put(&pages->last, last.data, last.size);
    if (code != KV_OK || pages->last.failed)
        return pages_no_memory(reading->status);
    reading->own += (size_t)*done;
    return leaves_pass(leaves, (size_t)*done);
}

static kv_code read_own(struct reading *reading, enum wire_step step)
{
    struct pages *pages = reading->learner->pages;
    struct leaves *leaves = &reading->leaves;
    if (!leaves->on) /* we told of more than there is now: cannot be */
        return kv_fail(reading->status, KV_INTERNAL, "own leaves changed under a learner");
    kv_code code = KV_OK;
    struct entry *entry = NULL;
    if (step == WIRE_STEP_COPY)
        code = reading_add(reading, leaves->key, &leaves->node);
    if (code == KV_OK && (step != WIRE_STEP_COPY || leaves->from_guess)) {
        /* What was guessed is new to us all the same. */
        struct entries *to = step == WIRE_STEP_COPY ? &pages->all : &pages->own;
        entry = pages_add(pages, to, leaves->key, &leaves->node);
        if (entry == NULL)
            code = KV_NO_MEMORY;
        else
            entry->value = leaves->value;
    }
    reading->own++;
    if (code != KV_OK)
        return pages_no_memory(reading->status);
    return leaves_next(leaves);
}

static kv_code read_new(struct reading *reading)
{
    struct pages *pages = reading->learner->pages;
    struct wire_key *key = reading->learner->key;
    kv_slice value;
    if (!wire_get_leaf(reading->in, key, &value))
        return KV_OK;
    kv_slice name = kv_bytes(key->bytes, key->size);
    vmap_node node = vmap_leaf(name, value);
    struct entry *entry = pages_add(pages, &pages->all, name, &node);
    kv_code code = entry == NULL ? KV_NO_MEMORY : KV_OK;
    if (entry != NULL)
        entry->value = value;
    if (code == KV_OK)
        code = reading_add(reading, name, &node);
    reading->learner->figures.leaves++;
    reading->learner->figures.leaf_bytes += name.size + value.size;
    return code == KV_OK ? KV_OK : pages_no_memory(reading->status);
}

static kv_code read_leaves(struct reading *reading)
{
    struct wire_in *in = reading->in;
    size_t have = reading->want->have_count;
    enum wire_step step;
    uint64_t count;
    kv_code code = KV_OK;
    reading->learner->key->size = 0;
    reading->ordered = true;
    while (code == KV_OK && wire_get_step(in, &step, &count)) {
        if (step != WIRE_STEP_NEW && count > have - reading->own)
            in->bad = true;
        for (uint64_t i = 0, run = 0; i < count && code == KV_OK && !in->bad; i += run) {
            run = 0;
            if (step == WIRE_STEP_COPY)
                code = copy_run(reading, count - i, &run);
            if (code == KV_OK && run == 0) {
                run = 1;
                code = step == WIRE_STEP_NEW ? read_new(reading) : read_own(reading, step);
            }
        }
    }
    if (code == KV_OK && (in->bad || reading->own != have)) {
        in->bad = true;
        code = pages_unproven(reading->learner, reading->want, "list that does not decode",
                              reading->status);
    }
    return code;
}

kv_code reading_prove(struct reading *reading)
{
    reconnect_learner *learner = reading->learner;
    struct pages *pages = learner->pages;
    const struct want *want = reading->want;
    kv_range range = want_range(want);
    kv_slice last = kv_bytes(pages->last.data, pages->last.size);
    if (!reading->ordered)
        return pages_unproven(learner, want, "keys out of place", reading->status);
    if (reading->count != want->node.size)
        return pages_unproven(learner, want, "wrong number of leaves", reading->status);
    /* Most of it is as in our own page, if that is at hand. */
    vmap_page none = { 0 };
    const struct walk *walk = reading->leaves.walk;
    const vmap_page *like = walk != NULL ? &walk->pages[0].page : &none;
    vmap_node node = vmap_page_fold(like, pages->nodes, reading->count);
    if (!pages_same_node(&node, &want->node))
        return pages_unproven(learner, want, "does not fold to its digest", reading->status);
    /* These are the leaves of that digest. Where they stand was told with the
     * list above, whose digest does not cover it: then that was the lie. */
    if (!reading->placed || (range.limit.size > 0 && kv_compare(last, range.limit) >= 0)) {
        learner->misled = true;
        return pages_unproven(learner, want, "is not where the list above it said",
                              reading->status);
    }
    return KV_OK;
}

/* Stage what came and is new; `skipped` are ours that the page has not. */
static kv_code settle_leaves(reconnect_learner *learner, const struct want *want,
                             kv_status *status)
{
    struct pages *pages = learner->pages;
    unsigned map = learner->maps[want->map].stage;
    size_t own = 0, all = 0;
    kv_code code = KV_OK;
    while (code == KV_OK && (own < pages->own.count || all < pages->all.count)) {
        const struct entry *old = &pages->own.list[own], *new = &pages->all.list[all];
        int order = pages_order(pages, own, all);
        if (order < 0) {
            code = stage_remove(&learner->stage, map, pages_key(pages, old), status);
            learner->figures.leaves_removed++;
        } else if (order == 0 && pages_same_node(&old->node, &new->node)) {
            learner->figures.leaves_clean++;
        } else {
            code = stage_put(&learner->stage, map, pages_key(pages, new), new->value, status);
            learner->figures.leaves_changed++;
        }
        own += order <= 0;
        all += order >= 0;
    }
    return code;
}

/* Without fingerprints the whole page came: pass over all of ours. Longer runs
 * of ours than of the page's are removed as they are met. */
static kv_code skip_all_own(struct reading *reading)
{
    reconnect_learner *learner = reading->learner;
    struct pages *pages = learner->pages;
    size_t all = 0;
    kv_code code = KV_OK;
    while (code == KV_OK && reading->leaves.on) {
        kv_slice key = reading->leaves.key;
        while (all < pages->all.count &&
               kv_compare(pages_key(pages, &pages->all.list[all]), key) < 0)
            all++;
        if (all < pages->all.count &&
            kv_compare(pages_key(pages, &pages->all.list[all]), key) == 0) {
            if (pages_add(pages, &pages->own, key, &reading->leaves.node) == NULL)
                code = pages_no_memory(reading->status);
        } else {
            code = stage_remove(&learner->stage, learner->maps[reading->want->map].stage, key,
                                reading->status);
            learner->figures.leaves_removed++;
        }
        if (code == KV_OK)
            code = leaves_next(&reading->leaves);
    }
    return code;
}

kv_code pages_take_leaves(reconnect_learner *learner, const struct want *want,
                          struct wire_in *in, kv_status *status)
{
    struct reading reading = { .learner = learner, .want = want, .in = in, .status = status };
    kv_code code = leaves_open(&reading.leaves, learner, want, status);
    if (code == KV_OK)
        code = read_leaves(&reading);
    if (code == KV_OK)
        code = reading_prove(&reading);
    if (code == KV_OK && want->have_count == 0)
        code = skip_all_own(&reading);
    code = leaves_close(&reading.leaves, code);
    learner->pages->guessable = reading.ordered;
    if (code == KV_OK && want->guess != NULL)
        code = guess_skip(learner, want->guess, status);
    if (code == KV_OK)
        code = settle_leaves(learner, want, status);
    if (code == KV_OK)
        learner->figures.leaves_done += want->node.size;
    return code;
}

/* Whether what we have, with what is staged, is the page already. */
kv_code pages_take_staged_leaves(reconnect_learner *learner, const struct want *want,
                                 kv_status *status)
{
    struct pages *pages = learner->pages;
    struct leaves leaves;
    size_t count = 0;
    kv_code code = leaves_open(&leaves, learner, want, status);
    while (code == KV_OK && leaves.on && count < want->node.size) {
        code = pages_add_node(pages, count++, &leaves.node);
        if (code == KV_OK)
            code = leaves_next(&leaves);
    }
    bool whole = code == KV_OK && !leaves.on && count == want->node.size;
    code = leaves_close(&leaves, code);
    if (code == KV_NO_MEMORY)
        return pages_no_memory(status);
    if (code != KV_OK)
        return code;
    if (!whole)
        return KV_NOT_FOUND;
    vmap_node node = vmap_fold(pages->nodes, count);
    if (!pages_same_node(&node, &want->node))
        return KV_NOT_FOUND;
    learner->figures.leaves_done += want->node.size;
    return KV_OK;
}
