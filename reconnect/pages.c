/* pages.c - scratch for one page, what we have of it, and which list an answer is. */
#include "reconnect/pages.h"

#include "reconnect/align.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_MIN = 64 };

kv_code pages_new(struct pages **out)
{
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return KV_NO_MEMORY;
    (*out)->marks = malloc(WIRE_HAVES_MAX * sizeof(*(*out)->marks));
    if ((*out)->marks == NULL) {
        free(*out);
        *out = NULL;
        return KV_NO_MEMORY;
    }
    return KV_OK;
}

void pages_free(struct pages *pages)
{
    if (pages == NULL)
        return;
    wire_out_clear(&pages->text);
    wire_out_clear(&pages->last);
    free(pages->own.list);
    free(pages->all.list);
    free(pages->nodes);
    free(pages->marks);
    free(pages->ranks);
    free(pages);
}

void pages_reset(struct pages *pages)
{
    pages->text.size = pages->last.size = 0;
    pages->own.count = pages->all.count = 0;
    pages->mark_count = 0;
}

kv_slice pages_key(const struct pages *pages, const struct entry *entry)
{
    return kv_bytes(pages->text.data + entry->key.at, entry->key.size);
}

struct entry *pages_add(struct pages *pages, struct entries *entries, kv_slice key,
                        const vmap_node *node)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? LIST_MIN : 2 * entries->capacity;
        struct entry *list = realloc(entries->list, capacity * sizeof(*list));
        if (list == NULL)
            return NULL;
        entries->list = list;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->list[entries->count];
    *entry = (struct entry){ .key = { pages->text.size, key.size }, .own = SIZE_MAX };
    if (node != NULL)
        entry->node = *node;
    wire_put(&pages->text, key.data, key.size);
    if (pages->text.failed)
        return NULL;
    entries->count++;
    return entry;
}

kv_code pages_add_node(struct pages *pages, size_t at, const vmap_node *node)
{
    if (at >= pages->node_capacity) {
        size_t capacity = at < LIST_MIN ? LIST_MIN : 2 * at;
        vmap_node *nodes = realloc(pages->nodes, capacity * sizeof(*nodes));
        if (nodes == NULL)
            return KV_NO_MEMORY;
        pages->nodes = nodes;
        pages->node_capacity = capacity;
    }
    pages->nodes[at] = *node;
    return KV_OK;
}

int pages_order(const struct pages *pages, size_t own, size_t all)
{
    if (own == pages->own.count)
        return 1;
    if (all == pages->all.count)
        return -1;
    return kv_compare(pages_key(pages, &pages->own.list[own]),
                      pages_key(pages, &pages->all.list[all]));
}

kv_range pages_range_of(const struct pages *pages, size_t i, const kv_range *whole)
{
    const struct entries *all = &pages->all;
    kv_range range = *whole;
    if (i > 0)
        range.first = pages_key(pages, &all->list[i]);
    if (i + 1 < all->count)
        range.limit = pages_key(pages, &all->list[i + 1]);
    return range;
}

bool pages_same_node(const vmap_node *a, const vmap_node *b)
{
    return a->size == b->size && a->height == b->height &&
           memcmp(a->digest.bytes, b->digest.bytes, sizeof(a->digest.bytes)) == 0;
}

kv_code pages_no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a page");
}

kv_code pages_unproven(const reconnect_learner *learner, const struct want *want,
                       const char *what, kv_status *status)
{
    char key[33];
    kv_slice first = want_first(want);
    const uint8_t *bytes = first.data;
    size_t size = first.size < 16 ? first.size : 16;
    for (size_t i = 0; i < size; i++) {
        key[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        key[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    key[2 * size] = '\0';
    return kv_fail(status, KV_UNPROVEN, "map %s, page of level %u at key %s%s: %s",
                   learner->maps[want->map].name, want->level, size == 0 ? "(first)" : key,
                   first.size > size ? "..." : "", what);
}

/* ---- What we have ------------------------------------------------------- */

struct gathering {
    struct pages *pages;
    size_t max;
};

static kv_code gather_page(void *context, kv_slice first, const vmap_node *node)
{
    struct gathering *gathering = context;
    struct pages *pages = gathering->pages;
    if (pages->own.count >= gathering->max)
        return KV_TOO_BIG;
    return pages_add(pages, &pages->own, first, node) == NULL ? KV_NO_MEMORY : KV_OK;
}

/* Our pages that start in the want's range, or none where there are too many
 * to be worth telling. */
kv_code pages_gather(reconnect_learner *learner, const struct want *want, kv_status *status)
{
    struct walk *walk;
    kv_code code = learner_walk(learner, want->map, &walk, status);
    if (code != KV_OK)
        return code;
    struct gathering gathering = { learner->pages, WIRE_HAVES_MAX };
    kv_range range = want_range(want);
    code = walk_pages(walk, want->tier - 1u, &range, gather_page, &gathering, status);
    if (code == KV_TOO_BIG) {
        learner->pages->own.count = 0;
        return KV_OK;
    }
    return code == KV_NO_MEMORY ? pages_no_memory(status) : code;
}

kv_code pages_put_own(reconnect_learner *learner, struct walk *walk, unsigned tier,
                      unsigned bits, struct wire_out *out, uint32_t *count, kv_status *status)
{
    struct pages *pages = learner->pages;
    struct gathering gathering = { pages, WIRE_HAVES_MAX };
    kv_range all = { { NULL, 0 }, { NULL, 0 } };
    pages_reset(pages);
    kv_code code = walk_pages(walk, tier - 1u, &all, gather_page, &gathering, status);
    if (code == KV_TOO_BIG) {
        pages->own.count = 0;
        code = KV_OK;
    }
    if (code != KV_OK)
        return code == KV_NO_MEMORY ? pages_no_memory(status) : code;
    for (size_t i = 0; i < pages->own.count; i++)
        pages->marks[i] = align_of_page(&pages->own.list[i].node.digest);
    *count = (uint32_t)pages->own.count;
    wire_put_number(out, pages->own.count);
    wire_put_bits(out, pages->marks, pages->own.count, bits);
    return out->failed ? pages_no_memory(status) : KV_OK;
}

/* A have list longer than this costs more than it can save. */
static size_t haves_worth(const struct want *want)
{
    uint64_t worth =
        want->node.size < WIRE_HAVES_MAX / 4 ? 4 * want->node.size + 64 : WIRE_HAVES_MAX;
    return worth < WIRE_HAVES_MAX ? (size_t)worth : WIRE_HAVES_MAX;
}

static kv_code mark_leaves(reconnect_learner *learner, const struct want *want,
                           kv_status *status)
{
    struct pages *pages = learner->pages;
    struct leaves leaves;
    size_t worth = haves_worth(want);
    kv_code code = leaves_open(&leaves, learner, want, status);
    while (code == KV_OK && leaves.on) {
        size_t run = leaves_run(&leaves);
        if (pages->mark_count == worth || run > worth - pages->mark_count) {
            pages->mark_count = 0;
            break;
        }
        uint64_t *marks = pages->marks + pages->mark_count;
        pages->mark_count += run > 0 ? run : 1;
        for (size_t i = 0; i < run; i++)
            marks[i] =
                align_of_leaf(learner->salt, vmap_page_digest(&leaves.walk->pages[0].page,
                                                              leaves.walk->leaf_at + i));
        if (run == 0)
            marks[0] = align_of_leaf(learner->salt, &leaves.node.digest);
        code = run > 0 ? leaves_pass(&leaves, run) : leaves_next(&leaves);
    }
    return leaves_close(&leaves, code);
}

kv_code pages_put_haves(reconnect_learner *learner, struct want *want, unsigned bits,
                        struct wire_out *out, kv_status *status)
{
    struct pages *pages = learner->pages;
    pages_reset(pages);
    kv_code code = KV_OK;
    if (bits > 0 && want->tier == 0) {
        code = mark_leaves(learner, want, status);
    } else if (bits > 0) {
        code = pages_gather(learner, want, status);
        for (size_t i = 0; i < pages->own.count && code == KV_OK; i++)
            pages->marks[pages->mark_count++] = align_of_page(&pages->own.list[i].node.digest);
    }
    if (code != KV_OK)
        return code;
    want->have_count = (uint32_t)pages->mark_count;
    wire_put_number(out, pages->mark_count);
    wire_put_bits(out, pages->marks, pages->mark_count, bits);
    return out->failed ? pages_no_memory(status) : KV_OK;
}

/* ---- Either list -------------------------------------------------------- */

kv_code pages_take(reconnect_learner *learner, const struct want *want, struct wire_in *in,
                   uint32_t teller, kv_status *status)
{
    pages_reset(learner->pages);
    return want->tier == 0 ? pages_take_leaves(learner, want, in, status)
                           : pages_take_list(learner, want, in, teller, status);
}

kv_code pages_take_staged(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    if (!learner->stage.found)
        return KV_NOT_FOUND;
    pages_reset(learner->pages);
    kv_code code = want->tier == 0 ? pages_take_staged_leaves(learner, want, status)
                                   : pages_take_staged_list(learner, want, status);
    if (code == KV_OK)
        learner->figures.resumed_pages++;
    return code;
}

void pages_skip(reconnect_learner *learner, unsigned tier, struct wire_in *in)
{
    enum wire_step step;
    uint64_t count;
    learner->key->size = 0;
    while (wire_get_step(in, &step, &count)) {
        for (uint64_t i = 0; i < count && step == WIRE_STEP_NEW && !in->bad; i++) {
            vmap_node node;
            kv_slice value;
            if (!(tier == 0 ? wire_get_leaf(in, learner->key, &value)
                            : wire_get_entry(in, tier, learner->key, &node)))
                return;
        }
    }
}
