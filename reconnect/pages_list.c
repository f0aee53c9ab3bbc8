/* pages_list.c - a page as a list of lower pages: read, folded, settled. */
#include "reconnect/pages.h"

#include <stdlib.h>
#include <string.h>

/* Read the steps of a list of pages into pages->all. */
static kv_code read_list(reconnect_learner *learner, const struct want *want,
                         struct wire_in *in, kv_status *status)
{
    struct pages *pages = learner->pages;
    size_t own = 0, have = want->have_count;
    enum wire_step step;
    uint64_t count;
    learner->key->size = 0;
    while (wire_get_step(in, &step, &count)) {
        if (step != WIRE_STEP_NEW && count > have - own) {
            in->bad = true;
            break;
        }
        if (step == WIRE_STEP_SKIP)
            own += (size_t)count;
        for (uint64_t i = 0; i < count && step != WIRE_STEP_SKIP && !in->bad; i++) {
            struct entry *entry;
            vmap_node node;
            if (step == WIRE_STEP_COPY) {
                struct entry from = pages->own.list[own];
                entry = pages_add(pages, &pages->all, kv_bytes(NULL, 0), &from.node);
                if (entry != NULL) {
                    entry->key = from.key;
                    entry->own = own++;
                }
            } else {
                if (!wire_get_entry(in, want->tier, learner->key, &node))
                    break;
                entry = pages_add(pages, &pages->all,
                                  kv_bytes(learner->key->bytes, learner->key->size), &node);
            }
            if (entry == NULL)
                return pages_no_memory(status);
        }
    }
    if (in->bad || own != have) {
        in->bad = true;
        return pages_unproven(learner, want, "list that does not decode", status);
    }
    learner->figures.pages++;
    return KV_OK;
}

/* Whether keys ascend inside the range, start where they must, and are cut
 * where they must be. Fills pages->ranks. */
static kv_code check_keys(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range range = want_range(want);
    kv_slice first = want_first(want);
    size_t count = pages->all.count;
    unsigned page_bits = learner->maps[want->map].page_bits;
    unsigned char *ranks = realloc(pages->ranks, count + 1);
    if (ranks == NULL)
        return pages_no_memory(status);
    pages->ranks = ranks;
    if (count == 0)
        return pages_unproven(learner, want, "empty list", status);
    for (size_t i = 0; i < count; i++) {
        kv_slice key = pages_key(pages, &pages->all.list[i]);
        ranks[i] = (unsigned char)vmap_rank(key, page_bits);
        bool right = i == 0 ? first.size == 0 || kv_compare(key, first) == 0
                            : kv_compare(pages_key(pages, &pages->all.list[i - 1]), key) < 0 &&
                                  ranks[i] >= want->tier && ranks[i] <= want->level;
        if (!right || kv_compare(key, range.first) < 0 ||
            (range.limit.size > 0 && kv_compare(key, range.limit) >= 0))
            return pages_unproven(learner, want, "keys out of place", status);
    }
    return KV_OK;
}

/* Fold a list of tier `tier` up to one page of `level`, cutting as the rules say. */
static kv_code fold_pages(reconnect_learner *learner, const struct want *want, vmap_node *out,
                          kv_status *status)
{
    struct pages *pages = learner->pages;
    size_t count = pages->all.count;
    for (size_t i = 0; i < count; i++)
        if (pages_add_node(pages, i, &pages->all.list[i].node) != KV_OK)
            return pages_no_memory(status);
    for (unsigned level = want->tier; level <= want->level; level++) {
        size_t made = 0;
        for (size_t begin = 0; begin < count;) {
            size_t end = begin + 1;
            while (end < count && (level == want->level || pages->ranks[end] <= level))
                end++;
            vmap_node node = vmap_fold(pages->nodes + begin, end - begin);
            pages->ranks[made] = pages->ranks[begin];
            pages->nodes[made++] = node;
            begin = end;
        }
        count = made;
    }
    *out = pages->nodes[0];
    return KV_OK;
}

/* pages->all is read: prove it. */
kv_code pages_prove_list(reconnect_learner *learner, const struct want *want, kv_status *status)
{
    kv_code code = check_keys(learner, want, status);
    vmap_node node = { { { 0 } }, 0, 0 };
    if (code == KV_OK)
        code = fold_pages(learner, want, &node, status);
    if (code == KV_OK && !pages_same_node(&node, &want->node))
        code = pages_unproven(learner, want, "does not fold to its digest", status);
    return code;
}

/* Our entry that is this one, by key and digest; both lists ascend. */
void pages_match(struct pages *pages)
{
    size_t own = 0;
    for (size_t i = 0; i < pages->all.count; i++) {
        struct entry *entry = &pages->all.list[i];
        int order = -1;
        while (own < pages->own.count && order < 0) {
            order =
                kv_compare(pages_key(pages, &pages->own.list[own]), pages_key(pages, entry));
            if (order < 0)
                own++;
        }
        bool equal = order == 0 && pages_same_node(&pages->own.list[own].node, &entry->node);
        entry->own = equal ? own : SIZE_MAX;
    }
}

kv_code pages_remove(reconnect_learner *learner, uint32_t map, const kv_range *range,
                     kv_status *status)
{
    struct walk *walk;
    kv_code code = learner_walk(learner, map, &walk, status);
    if (code == KV_OK)
        code = walk_seek(walk, range->first, status);
    while (code == KV_OK && walk_below(walk, range->limit)) {
        code = stage_remove(&learner->stage, learner->maps[map].stage, walk_key(walk), status);
        learner->figures.leaves_removed++;
        if (code == KV_OK)
            code = walk_next(walk, status);
    }
    return code;
}

/* An entry that is a page of ours: what else we have in its range goes. */
kv_code pages_keep(reconnect_learner *learner, const struct want *want,
                   const struct entry *entry, const kv_range *range, kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_slice first = pages_key(pages, entry);
    kv_code code = KV_OK;
    learner->figures.leaves_done += entry->node.size;
    if (learner->stage.found)
        code = stage_forget(&learner->stage, learner->maps[want->map].stage, range, status);
    if (code == KV_OK && kv_compare(range->first, first) < 0) {
        kv_range before = { range->first, first };
        code = pages_remove(learner, want->map, &before, status);
    }
    if (code == KV_OK && entry->own + 1 < pages->own.count) {
        kv_slice next = pages_key(pages, &pages->own.list[entry->own + 1]);
        kv_range after = { next, range->limit };
        if (range->limit.size == 0 || kv_compare(next, range->limit) < 0)
            code = pages_remove(learner, want->map, &after, status);
    }
    return code;
}

/* Want the pages that we have not: those that begin where none of ours does, if `bare`, or
 * the others. */
static kv_code want_pages(reconnect_learner *learner, const struct want *want, uint32_t teller,
                          bool bare, kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range whole = want_range(want);
    kv_code code = KV_OK;
    size_t own = 0;
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        size_t before = own;
        while (own < pages->own.count &&
               (i + 1 == pages->all.count || pages_order(pages, own, i + 1) < 0))
            own++;
        if (entry->own != SIZE_MAX || (own == before) != bare)
            continue;
        kv_range range = pages_range_of(pages, i, &whole);
        code = diff_want(learner, want->map, want->tier - 1u, &entry->node,
                         pages_key(pages, entry), &range, want->trip + 1, teller, status);
    }
    return code;
}

/* Keep what we have, want the rest. What we have nothing of is much to send and little to
 * look at: it is wanted first, so that it is on its way while we look at the rest. */
static kv_code settle_list(reconnect_learner *learner, const struct want *want, uint32_t teller,
                           kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range whole = want_range(want);
    pages_match(pages);
    kv_code code = want_pages(learner, want, teller, true, status);
    if (code == KV_OK)
        code = want_pages(learner, want, teller, false, status);
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        kv_range range = pages_range_of(pages, i, &whole);
        if (entry->own != SIZE_MAX)
            code = pages_keep(learner, want, entry, &range, status);
    }
    return code;
}

static kv_code stage_list(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    struct pages *pages = learner->pages;
    struct wire_out list = { 0 };
    kv_slice before = kv_bytes(NULL, 0);
    wire_put_number(&list, pages->all.count);
    for (size_t i = 0; i < pages->all.count; i++) {
        kv_slice first = pages_key(pages, &pages->all.list[i]);
        wire_put_entry(&list, want->tier, before, first, &pages->all.list[i].node);
        before = first;
    }
    kv_code code = list.failed ? pages_no_memory(status)
                               : stage_put_page(&learner->stage, want->tier, &want->node.digest,
                                                kv_bytes(list.data, list.size), status);
    wire_out_clear(&list);
    return code;
}

kv_code pages_take_list(reconnect_learner *learner, const struct want *want, struct wire_in *in,
                        uint32_t teller, kv_status *status)
{
    kv_code code = pages_gather(learner, want, status);
    if (code == KV_OK)
        code = read_list(learner, want, in, status);
    if (code == KV_OK)
        code = pages_prove_list(learner, want, status);
    if (code == KV_OK)
        code = stage_list(learner, want, status);
    return code == KV_OK ? settle_list(learner, want, teller, status) : code;
}

kv_code pages_take_staged_list(reconnect_learner *learner, const struct want *want,
                               kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_value list = KV_VALUE_INIT;
    kv_code code =
        stage_get_page(&learner->stage, want->tier, &want->node.digest, &list, status);
    if (code != KV_OK)
        return code;

    struct wire_in in = wire_in_of(list.bytes);
    uint64_t count = wire_get_number(&in, UINT32_MAX);
    pages->key.size = 0;
    for (uint64_t i = 0; i < count && code == KV_OK; i++) {
        vmap_node node;
        if (!wire_get_entry(&in, want->tier, &pages->key, &node))
            code = KV_NOT_FOUND;
        else if (pages_add(pages, &pages->all, kv_bytes(pages->key.bytes, pages->key.size),
                           &node) == NULL)
            code = pages_no_memory(status);
    }
    kv_value_release(&list);
    if (code == KV_OK && pages_prove_list(learner, want, NULL) != KV_OK)
        code = KV_NOT_FOUND; /* it is fetched again */
    if (code == KV_OK)
        code = pages_gather(learner, want, status);
    return code == KV_OK ? settle_list(learner, want, LEARNER_NO_PEER, status) : code;
}
