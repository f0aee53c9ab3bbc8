/* pages_pushed.c - pages that the teacher pushes: whole lists, nothing asked. */
#include "reconnect/pages.h"

#include <string.h>

/* The list of a page of level >= 1. */
static kv_code read_pushed_pages(reconnect_learner *learner, const struct want *want,
                                 struct wire_in *in, kv_status *status)
{
    struct pages *pages = learner->pages;
    uint64_t count = wire_get_number(in, UINT32_MAX);
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        vmap_node node;
        if (wire_get_entry(in, want->level, learner->key, &node) &&
            pages_add(pages, &pages->all, kv_bytes(learner->key->bytes, learner->key->size),
                      &node) == NULL)
            return pages_no_memory(status);
    }
    if (in->bad || in->at != in->end)
        return pages_unproven(learner, want, "list that does not decode", status);
    kv_code code = pages_prove_list(learner, want, status);
    return code == KV_OK ? pages_gather(learner, want, status) : code;
}

static kv_code take_pushed_pages(reconnect_learner *learner, const struct want *want,
                                 struct wire_in *in, pages_visit visit, kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range whole = want_range(want);
    kv_code code = read_pushed_pages(learner, want, in, status);
    if (code != KV_OK)
        return code;
    pages_match(pages);
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        kv_slice first = pages_key(pages, entry);
        kv_range range = pages_range_of(pages, i, &whole);
        bool have = entry->own != SIZE_MAX;
        code = visit(learner, want, first, &range, &entry->node, have, status);
        if (code == KV_OK && have)
            code = pages_keep(learner, want, entry, &range, status);
    }
    return code;
}

/* The list of a page of level 0: keys and leaf digests. */
static kv_code read_pushed_leaves(struct reading *reading)
{
    reconnect_learner *learner = reading->learner;
    struct pages *pages = learner->pages;
    struct wire_in *in = reading->in;
    uint64_t count = wire_get_number(in, UINT32_MAX);
    reading->ordered = true;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        kv_slice key = wire_get_key(in, learner->key, false);
        vmap_node node = { wire_get_digest(in), 1, 0 };
        if (in->bad)
            break;
        if (pages_add(pages, &pages->all, key, &node) == NULL ||
            reading_add(reading, key, &node) != KV_OK)
            return pages_no_memory(reading->status);
    }
    if (in->bad || in->at != in->end)
        return pages_unproven(learner, reading->want, "list that does not decode",
                              reading->status);
    return reading_prove(reading);
}

static kv_code take_pushed_leaves(reconnect_learner *learner, const struct want *want,
                                  struct wire_in *in, pages_visit visit, kv_status *status)
{
    struct pages *pages = learner->pages;
    struct reading reading = { .learner = learner, .want = want, .in = in, .status = status };
    kv_code code = read_pushed_leaves(&reading);
    if (code == KV_OK)
        code = leaves_open(&reading.leaves, learner, want, status);
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        kv_slice key = pages_key(pages, entry);
        while (code == KV_OK && reading.leaves.on && kv_compare(reading.leaves.key, key) < 0) {
            code = stage_remove(&learner->stage, learner->maps[want->map].stage,
                                reading.leaves.key, status);
            learner->figures.leaves_removed++;
            if (code == KV_OK)
                code = leaves_next(&reading.leaves);
        }
        if (code != KV_OK)
            break;
        bool have = reading.leaves.on && kv_compare(reading.leaves.key, key) == 0;
        if (have) {
            have = pages_same_node(&reading.leaves.node, &entry->node);
            code = leaves_next(&reading.leaves);
        }
        kv_range none = { key, key };
        if (code == KV_OK)
            code = visit(learner, want, key, &none, &entry->node, have, status);
    }
    while (code == KV_OK && reading.leaves.on) {
        code = stage_remove(&learner->stage, learner->maps[want->map].stage, reading.leaves.key,
                            status);
        learner->figures.leaves_removed++;
        if (code == KV_OK)
            code = leaves_next(&reading.leaves);
    }
    return leaves_close(&reading.leaves, code);
}

kv_code pages_take_pushed(reconnect_learner *learner, const struct want *want, kv_slice body,
                          pages_visit visit, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    pages_reset(learner->pages);
    learner->key->size = 0;
    return want->level == 0 ? take_pushed_leaves(learner, want, &in, visit, status)
                            : take_pushed_pages(learner, want, &in, visit, status);
}
