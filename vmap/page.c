/* page.c - one page in memory. */
#include "vmap/page.h"

#include "vmap/digest.h"
#include "vmap/page_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_PER_LINE = 16, PREFETCH_LINES = 8 };

/* ---- Gathering ---------------------------------------------------------- */

bool vtree_entries_add(struct vtree_entries *entries, kv_slice key, const vmap_node *node)
{
    void *keys = entries->keys;
    void *nodes = entries->nodes;
    bool grown =
        vtree_grow(&keys, &entries->key_capacity, entries->count + 1, sizeof(*entries->keys));
    entries->keys = keys;
    grown = grown && vtree_grow(&nodes, &entries->node_capacity, entries->count + 1,
                                sizeof(*entries->nodes));
    entries->nodes = nodes;
    if (!grown)
        return false;
    entries->keys[entries->count] = key;
    entries->nodes[entries->count] = *node;
    entries->count++;
    return true;
}

void vtree_entries_clear(struct vtree_entries *entries)
{
    free(entries->keys);
    free(entries->nodes);
    *entries = (struct vtree_entries){ NULL, NULL, 0, 0, 0 };
}

/* ---- Slots -------------------------------------------------------------- */

static size_t slot_count(size_t count)
{
    size_t slots = count;
    while (count > 1) {
        count = (count + 1) / 2;
        slots += count;
    }
    return slots;
}

/* ---- The parts behind the digests --------------------------------------- */

static size_t sizes_at(const struct vtree_page *page)
{
    return sizeof(*page) + page->slots * sizeof(vmap_digest);
}

static size_t heights_at(const struct vtree_page *page)
{
    return sizes_at(page) + page->slots * sizeof(uint64_t);
}

static size_t heads_at(const struct vtree_page *page)
{
    return page->level == 0 ? sizes_at(page)
                            : heights_at(page) + page->slots * sizeof(uint32_t);
}

static size_t offsets_at(const struct vtree_page *page)
{
    return heads_at(page) + page->count * sizeof(uint32_t);
}

static size_t keys_at(const struct vtree_page *page)
{
    return offsets_at(page) + (page->key_size > 0 ? 0 : (page->count + 1) * sizeof(uint32_t));
}

static const uint64_t *sizes_of(const struct vtree_page *page)
{
    return (const void *)((const uint8_t *)page + sizes_at(page));
}

static const uint32_t *heights_of(const struct vtree_page *page)
{
    return (const void *)((const uint8_t *)page + heights_at(page));
}

static const uint32_t *heads_of(const struct vtree_page *page)
{
    return (const void *)((const uint8_t *)page + heads_at(page));
}

/* [count + 1]: where each key begins, and the last one ends. */
static const uint32_t *offsets_of(const struct vtree_page *page)
{
    return (const void *)((const uint8_t *)page + offsets_at(page));
}

static const uint8_t *keys_of(const struct vtree_page *page)
{
    return (const uint8_t *)page + keys_at(page);
}

/* The four bytes of `key` behind `shared`, as a number; zeros past its end. */
static uint32_t head_of(kv_slice key, size_t shared)
{
    uint32_t head = 0;
    size_t left = key.size - shared;
    memcpy(&head, (const uint8_t *)key.data + shared,
           left < sizeof(head) ? left : sizeof(head));
    return __builtin_bswap32(head);
}

/* How `key` compares with the bytes that all keys begin with: 0, it begins so, too. */
static int compare_shared(const struct vtree_page *page, kv_slice key)
{
    size_t size = key.size < page->shared ? key.size : page->shared;
    return kv_compare(kv_bytes(key.data, size), kv_bytes(keys_of(page), page->shared));
}

/* ---- Nodes -------------------------------------------------------------- */

/* The node in place `index` of fold round `round`, whose slots start at `base`.
 */
static vmap_node slot_node(const struct vtree_page *page, size_t base, unsigned round,
                           size_t index)
{
    vmap_node node;
    node.digest = page->digests[base + index];
    if (page->level > 0) {
        node.size = sizes_of(page)[base + index];
        node.height = heights_of(page)[base + index];
    } else {
        uint64_t left = page->count - ((uint64_t)index << round);
        node.size = left < (UINT64_C(1) << round) ? left : UINT64_C(1) << round;
        node.height = vtree_fold_height(node.size);
    }
    return node;
}

static void shape_set(struct vtree_page *page, size_t slot, uint64_t size, uint32_t height)
{
    uint64_t *sizes = (void *)((uint8_t *)page + sizes_at(page));
    uint32_t *heights = (void *)((uint8_t *)page + heights_at(page));
    sizes[slot] = size;
    heights[slot] = height;
}

static void slot_set(struct vtree_page *page, size_t slot, const vmap_node *node)
{
    page->digests[slot] = node->digest;
    if (page->level > 0)
        shape_set(page, slot, node->size, node->height);
}

/* Have place `index` of the round above `round` folded from its two children.
 */
static void slot_fold(struct vtree_page *page, size_t base, size_t above, unsigned round,
                      size_t index, struct vmap_inner_queue *queue)
{
    size_t left = base + 2 * index;
    uint64_t size;
    uint32_t height;
    if (page->level > 0) {
        const uint64_t *sizes = sizes_of(page) + left;
        const uint32_t *heights = heights_of(page) + left;
        size = sizes[0] + sizes[1];
        height = 1 + (heights[0] > heights[1] ? heights[0] : heights[1]);
        shape_set(page, above + index, size, height);
    } else {
        uint64_t rest = page->count - ((uint64_t)index << (round + 1));
        size = rest < (UINT64_C(2) << round) ? rest : UINT64_C(2) << round;
        height = vtree_fold_height(size);
    }
    vmap_inner_queue_add(queue, height, size, &page->digests[left], &page->digests[left + 1],
                         &page->digests[above + index]);
}

/* Whether slot `slot` of `page` holds what `old_slot` of `old` holds. */
static bool slot_same(const struct vtree_page *page, size_t slot, const struct vtree_page *old,
                      size_t old_slot)
{
    return memcmp(page->digests[slot].bytes, old->digests[old_slot].bytes, VMAP_DIGEST_SIZE) ==
           0;
}

/*
 * Fold round by round. `old` gives what it can: an inner digest is a function
 * of its two children, so equal children in equal places mean an equal parent.
 */
static uint64_t fold_slots(struct vtree_page *page, const struct vtree_page *old)
{
    struct vmap_inner_queue queue;
    uint64_t computed = 0;
    size_t base = vtree_page_base(page), count = page->count;
    size_t old_base = old != NULL ? vtree_page_base(old) : 0;
    size_t old_count = old != NULL ? old->count : 0;
    queue.count = 0;
    for (unsigned round = 0; count > 1; round++) {
        size_t above = base - (count + 1) / 2;
        size_t old_above = old_count > 1 ? old_base - (old_count + 1) / 2 : 0;
        for (size_t i = 0; i < count / 2; i++) {
            if (2 * i + 1 < old_count && slot_same(page, base + 2 * i, old, old_base + 2 * i) &&
                slot_same(page, base + 2 * i + 1, old, old_base + 2 * i + 1)) {
                vmap_node node = slot_node(old, old_above, round + 1, i);
                slot_set(page, above + i, &node);
                continue;
            }
            slot_fold(page, base, above, round, i, &queue);
            computed++;
        }
        vmap_inner_queue_flush(&queue);
        if (count % 2 != 0) {
            vmap_node node = slot_node(page, base, round, count - 1);
            slot_set(page, above + count / 2, &node);
        }
        base = above;
        count = (count + 1) / 2;
        old_base = old_above;
        old_count = old_count > 1 ? (old_count + 1) / 2 : 0;
    }
    return computed;
}

/* ---- Making ------------------------------------------------------------- */

static struct vtree_page *page_allocate(unsigned level, size_t count, size_t keys_size,
                                        size_t key_size)
{
    if (count > PAGE_COUNT_MAX || keys_size > PAGE_KEYS_SIZE_MAX)
        return NULL;
    size_t slots = slot_count(count);
    struct vtree_page head = { .count = (uint32_t)count,
                               .slots = (uint32_t)slots,
                               .level = (uint8_t)level,
                               .key_size = (uint16_t)key_size };
    size_t size = keys_at(&head) + keys_size;
    if (size > UINT32_MAX)
        return NULL;
    struct vtree_page *page = vtree_page_memory_take(&size);
    if (page == NULL)
        return NULL;
    memcpy(page, &head, sizeof(head));
    atomic_init(&page->references, 1);
    page->size = (uint32_t)size;
    return page;
}

struct vtree_page *vtree_page_copy(const struct vtree_page *page)
{
    size_t size = page->size;
    struct vtree_page *copy = vtree_page_memory_take(&size);
    if (copy == NULL)
        return NULL;
    memcpy(copy + 1, page + 1, page->size - sizeof(*page));
    memset(copy, 0, sizeof(*copy));
    atomic_init(&copy->references, 1);
    copy->level = page->level;
    copy->shared = page->shared;
    copy->key_size = page->key_size;
    copy->count = page->count;
    copy->slots = page->slots;
    copy->size = page->size;
    return copy;
}

void vtree_page_set(struct vtree_page *page, size_t index, const vmap_node *node)
{
    slot_set(page, vtree_page_base(page) + index, node);
}

/* The parents of one round's changed nodes. */
static uint64_t refold_round(struct vtree_refold *refold, unsigned round,
                             struct vmap_inner_queue *queue)
{
    struct vtree_page *page = refold->page;
    size_t above = refold->base - (refold->width + 1) / 2, parents = 0;
    uint64_t computed = 0;
    for (size_t i = 0; i < refold->count; i++) {
        uint32_t parent = refold->indices[i] / 2;
        if (parents > 0 && refold->indices[parents - 1] == parent)
            continue;
        refold->indices[parents++] = parent;
        size_t left = 2 * (size_t)parent;
        if (left + 1 < refold->width) {
            slot_fold(page, refold->base, above, round, parent, queue);
            computed++;
        } else {
            vmap_node node = slot_node(page, refold->base, round, left);
            slot_set(page, above + parent, &node);
        }
    }
    refold->count = parents;
    refold->base = above;
    refold->width = (refold->width + 1) / 2;
    return computed;
}

uint64_t vtree_pages_refold(struct vtree_refold *refolds, size_t count)
{
    struct vmap_inner_queue queue;
    uint64_t computed = 0;
    size_t left = count;
    queue.count = 0;
    for (size_t i = 0; i < count; i++) {
        refolds[i].base = vtree_page_base(refolds[i].page);
        refolds[i].width = refolds[i].page->count;
    }
    /* Round by round, so that the digests of one round can go two at a time. */
    for (unsigned round = 0; left > 0; round++) {
        left = 0;
        for (size_t i = 0; i < count; i++) {
            if (refolds[i].width > 1)
                computed += refold_round(&refolds[i], round, &queue);
            left += refolds[i].width > 1;
        }
        vmap_inner_queue_flush(&queue);
    }
    return computed;
}

/* The bytes that the keys, which ascend, all begin with. */
static size_t shared_size(const struct vtree_entries *entries)
{
    kv_slice first = entries->keys[0], last = entries->keys[entries->count - 1];
    const uint8_t *a = first.data, *b = last.data;
    size_t least = first.size < last.size ? first.size : last.size, same = 0;
    while (same < least && a[same] == b[same])
        same++;
    return same;
}

static void place_keys(struct vtree_page *page, const struct vtree_entries *entries)
{
    uint32_t *heads = (void *)((uint8_t *)page + heads_at(page));
    uint32_t *offsets = (void *)((uint8_t *)page + offsets_at(page));
    uint8_t *keys = (uint8_t *)page + keys_at(page);
    uint32_t offset = 0;
    page->shared = (uint16_t)shared_size(entries);
    for (size_t i = 0; i < entries->count; i++) {
        kv_slice key = entries->keys[i];
        heads[i] = head_of(key, page->shared);
        if (page->key_size == 0)
            offsets[i] = offset;
        memcpy(keys + offset, key.data, key.size);
        offset += (uint32_t)key.size;
    }
    if (page->key_size == 0)
        offsets[entries->count] = offset;
}

struct vtree_page *vtree_page_make(unsigned level, const struct vtree_entries *entries,
                                   const struct vtree_page *old, uint64_t *inner_count)
{
    assert(entries->count > 0);
    size_t keys_size = 0, key_size = entries->keys[0].size;
    for (size_t i = 0; i < entries->count; i++) {
        keys_size += entries->keys[i].size;
        if (entries->keys[i].size != key_size)
            key_size = 0;
    }
    struct vtree_page *page = page_allocate(level, entries->count, keys_size, key_size);
    if (page == NULL)
        return NULL;
    for (size_t i = 0; i < entries->count; i++)
        vtree_page_set(page, i, &entries->nodes[i]);
    place_keys(page, entries);
    *inner_count += fold_slots(page, old);
    return page;
}

/* ---- Changing ----------------------------------------------------------- */

/* The parts of a level-0 page whose keys are of one size. */
struct page_parts {
    vmap_digest *digests; /* the entries' */
    uint32_t *heads;
    uint8_t *keys;
};

static struct page_parts parts_of(struct vtree_page *page)
{
    return (struct page_parts){ page->digests + vtree_page_base(page),
                                (void *)((uint8_t *)page + heads_at(page)),
                                (uint8_t *)page + keys_at(page) };
}

/* Entries [from, end) of `old` become those from `to` on. */
static void copy_entries(struct vtree_page *page, size_t to, const struct vtree_page *old,
                         size_t from, size_t end)
{
    struct page_parts parts = parts_of(page);
    size_t count = end - from, size = page->key_size;
    memcpy(parts.digests + to, old->digests + vtree_page_base(old) + from,
           count * sizeof(*parts.digests));
    memcpy(parts.heads + to, heads_of(old) + from, count * sizeof(*parts.heads));
    memcpy(parts.keys + to * size, keys_of(old) + from * size, count * size);
}

/* Fold a level-0 page that is as `old` before entry `first`. */
static uint64_t fold_from(struct vtree_page *page, const struct vtree_page *old, size_t first)
{
    struct vmap_inner_queue queue;
    uint64_t computed = 0;
    size_t base = vtree_page_base(page), count = page->count;
    size_t old_base = vtree_page_base(old), old_count = old->count;
    queue.count = 0;
    for (unsigned round = 0; count > 1; round++) {
        size_t above = base - (count + 1) / 2, same = first >> (round + 1);
        old_count = (old_count + 1) / 2;
        old_base -= old_count;
        if (same > 0)
            memcpy(page->digests + above, old->digests + old_base, same * sizeof(vmap_digest));
        for (size_t i = same; i < count / 2; i++) {
            slot_fold(page, base, above, round, i, &queue);
            computed++;
        }
        vmap_inner_queue_flush(&queue);
        if (count % 2 != 0)
            page->digests[above + count / 2] = page->digests[base + count - 1];
        base = above;
        count = (count + 1) / 2;
    }
    return computed;
}

bool vtree_page_takes(const struct vtree_page *page, kv_slice key)
{
    return key.size == page->key_size && compare_shared(page, key) == 0;
}

struct vtree_page *vtree_page_change(const struct vtree_page *old,
                                     const struct vtree_page_change *changes, size_t count,
                                     uint64_t *inner_count)
{
    size_t entries = old->count, from = 0, to = 0;
    for (size_t i = 0; i < count; i++) {
        entries += changes[i].what == PAGE_INSERT;
        entries -= changes[i].what == PAGE_DELETE;
    }
    assert(old->level == 0 && old->key_size > 0 && entries > 0);
    struct vtree_page *page = page_allocate(0, entries, entries * old->key_size, old->key_size);
    if (page == NULL)
        return NULL;
    page->shared = old->shared;
    struct page_parts parts = parts_of(page);
    for (size_t i = 0; i < count; i++) {
        const struct vtree_page_change *change = &changes[i];
        copy_entries(page, to, old, from, change->index);
        to += change->index - from;
        from = change->index;
        if (change->what == PAGE_INSERT) {
            parts.heads[to] = head_of(change->key, page->shared);
            memcpy(parts.keys + to * page->key_size, change->key.data, page->key_size);
        } else {
            if (change->what == PAGE_REPLACE)
                copy_entries(page, to, old, from, from + 1);
            from++;
        }
        if (change->what != PAGE_DELETE)
            parts.digests[to++] = change->node->digest;
    }
    copy_entries(page, to, old, from, old->count);
    *inner_count += fold_from(page, old, changes[0].index);
    return page;
}

struct vtree_page *vtree_page_hold(struct vtree_page *page)
{
    atomic_fetch_add_explicit(&page->references, 1, memory_order_relaxed);
    return page;
}

void vtree_page_release(struct vtree_page *page)
{
    if (page != NULL &&
        atomic_fetch_sub_explicit(&page->references, 1, memory_order_acq_rel) == 1)
        vtree_page_memory_give(page, page->size);
}

/* ---- Reading ------------------------------------------------------------ */

kv_slice vtree_page_key(const struct vtree_page *page, size_t index)
{
    if (page->key_size > 0)
        return kv_bytes(keys_of(page) + index * page->key_size, page->key_size);
    const uint32_t *offsets = offsets_of(page);
    return kv_bytes(keys_of(page) + offsets[index], offsets[index + 1] - offsets[index]);
}

vmap_node vtree_page_entry(const struct vtree_page *page, size_t index)
{
    return slot_node(page, vtree_page_base(page), 0, index);
}

vmap_node vtree_page_node(const struct vtree_page *page)
{
    return slot_node(page, 0, vtree_fold_height(page->count), 0);
}

unsigned vtree_page_rounds(const struct vtree_page *page)
{
    return vtree_fold_height(page->count);
}

vmap_node vtree_page_slot(const struct vtree_page *page, unsigned round, size_t index,
                          size_t *width)
{
    size_t base = vtree_page_base(page);
    *width = page->count;
    for (unsigned i = 0; i < round; i++) {
        *width = (*width + 1) / 2;
        base -= *width;
    }
    return slot_node(page, base, round, index);
}

void vtree_page_prefetch(const struct vtree_page *page)
{
    const uint32_t *heads = heads_of(page);
    size_t step = page->count / PREFETCH_LINES < HEADS_PER_LINE ? HEADS_PER_LINE
                                                                : page->count / PREFETCH_LINES;
    for (size_t i = 0; i < page->count; i += step)
        __builtin_prefetch(heads + i);
    __builtin_prefetch(heads + page->count - 1);
    __builtin_prefetch(keys_of(page));
}

/* The first entry whose head is >= `head` (or, `past`, greater). */
static size_t find_head(const struct vtree_page *page, uint32_t head, bool past)
{
    const uint32_t *heads = heads_of(page);
    size_t low = 0, left = page->count;
    while (left > 0) {
        size_t half = left / 2;
        bool right = past ? heads[low + half] <= head : heads[low + half] < head;
        low += right ? half + 1 : 0;
        left = right ? left - half - 1 : half;
    }
    return low;
}

void vtree_page_prefetch_entry(const struct vtree_page *page, kv_slice key)
{
    size_t base = vtree_page_base(page), width = page->count;
    if (compare_shared(page, key) != 0)
        return;
    size_t index = find_head(page, head_of(key, page->shared), false);
    if (index == width)
        return;
    if (page->key_size > 0)
        __builtin_prefetch(keys_of(page) + index * page->key_size);
    else
        __builtin_prefetch(offsets_of(page) + index);
    while (width > 1) {
        const vmap_digest *pair = page->digests + base + (index & ~(size_t)1);
        __builtin_prefetch(pair, 1);
        __builtin_prefetch(pair + 1, 1);
        width = (width + 1) / 2;
        base -= width;
        index /= 2;
    }
}

size_t vtree_page_find(const struct vtree_page *page, kv_slice key, bool *exact)
{
    int order = compare_shared(page, key);
    *exact = false;
    if (order != 0)
        return order < 0 ? 0 : page->count;
    uint32_t head = head_of(key, page->shared);
    size_t low = find_head(page, head, false), high = low;
    if (low < page->count && heads_of(page)[low] == head)
        high = find_head(page, head, true);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        order = kv_compare(vtree_page_key(page, middle), key);
        if (order == 0) {
            *exact = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool vtree_page_path(const struct vtree_page *page, size_t index, struct proof_leaf *leaf)
{
    size_t base = vtree_page_base(page), count = page->count;
    for (unsigned round = 0; count > 1; round++) {
        size_t sibling = index ^ 1u;
        size_t above = base - (count + 1) / 2;
        if (sibling < count) {
            if (leaf->count == PROOF_STEPS_MAX)
                return false;
            vmap_node parent = slot_node(page, above, round + 1, index / 2);
            leaf->steps[leaf->count++] =
                (struct proof_step){ page->digests[base + sibling], parent.size, parent.height,
                                     sibling < index };
        }
        index /= 2;
        base = above;
        count = (count + 1) / 2;
    }
    return true;
}
