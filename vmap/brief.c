/* brief.c - what a level-0 page leaves behind in the cache when it has to go. */
#include "vmap/brief.h"

#include "vmap/page_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BRIEF_ROUNDS = 3, BRIEF_TOO_LONG = 1 << 30 };
static_assert(BRIEF_GROUP == 1 << BRIEF_ROUNDS, "a group is a node of the fold");

/* Behind the digests, for each group but the first: a byte of size, and so many bytes. */
static const uint8_t *betweens(const struct vtree_page *page)
{
    return (const uint8_t *)(page->digests + page->slots);
}

size_t vtree_brief_groups(const struct vtree_page *page)
{
    return page->slots - 1;
}

/* As many bytes of `key` as tell it from the lesser key before it. */
static size_t telling_size(kv_slice before, kv_slice key)
{
    const uint8_t *a = before.data, *b = key.data;
    size_t same = 0;
    while (same < before.size && a[same] == b[same])
        same++;
    return same + 1;
}

static uint8_t *put_between(uint8_t *end, kv_slice before, kv_slice key)
{
    size_t telling = telling_size(before, key);
    *end++ = (uint8_t)telling;
    memcpy(end, key.data, telling);
    return end + telling;
}

/* The bytes for all betweens; 0: too many for one of them. */
static size_t betweens_size(const struct vtree_page *page)
{
    size_t size = 0;
    for (size_t i = BRIEF_GROUP; i < page->count; i += BRIEF_GROUP) {
        size_t telling = telling_size(vtree_page_key(page, i - 1), vtree_page_key(page, i));
        if (telling > BRIEF_BETWEEN_MAX)
            return 0;
        size += 1 + telling;
    }
    return size;
}

/* A brief page with nothing behind its header yet. NULL: out of memory. */
static struct vtree_page *brief_allocate(size_t count, size_t groups, size_t betweens_size)
{
    size_t size =
        sizeof(struct vtree_page) + (1 + groups) * sizeof(vmap_digest) + betweens_size;
    struct vtree_page *page = vtree_page_memory_take(&size);
    if (page == NULL)
        return NULL;
    memset(page, 0, sizeof(*page));
    atomic_init(&page->references, 1);
    page->count = (uint32_t)count;
    page->slots = (uint32_t)(1 + groups);
    page->size = (uint32_t)size;
    return page;
}

struct vtree_page *vtree_brief_make(const struct vtree_page *page)
{
    size_t groups = (page->count + BRIEF_GROUP - 1) / BRIEF_GROUP, width;
    if (page->level != 0 || groups < BRIEF_GROUPS_MIN || groups > BRIEF_GROUPS_MAX)
        return NULL;
    size_t between = betweens_size(page);
    struct vtree_page *brief =
        between > 0 ? brief_allocate(page->count, groups, between) : NULL;
    if (brief == NULL)
        return NULL;
    brief->map = page->map;
    brief->digests[0] = *vtree_page_digest(page);
    uint8_t *end = (uint8_t *)(brief->digests + brief->slots);
    for (size_t group = 0; group < groups; group++) {
        brief->digests[1 + group] = vtree_page_slot(page, BRIEF_ROUNDS, group, &width).digest;
        if (group == 0)
            continue;
        end = put_between(end, vtree_page_key(page, group * BRIEF_GROUP - 1),
                          vtree_page_key(page, group * BRIEF_GROUP));
    }
    return brief;
}

size_t vtree_brief_find(const struct vtree_page *page, kv_slice key, kv_slice *from)
{
    const uint8_t *end = betweens(page);
    size_t group = 0;
    *from = kv_bytes(NULL, 0);
    while (group + 1 < vtree_brief_groups(page)) {
        kv_slice next = kv_bytes(end + 1, *end);
        if (kv_compare(key, next) < 0)
            break;
        *from = next;
        end += 1 + next.size;
        group++;
    }
    return group;
}

size_t vtree_brief_group_size(const struct vtree_page *page, size_t group)
{
    size_t left = page->count - group * BRIEF_GROUP;
    return left < BRIEF_GROUP ? left : BRIEF_GROUP;
}

const vmap_digest *vtree_brief_group(const struct vtree_page *page, size_t group)
{
    return &page->digests[1 + group];
}

void vtree_brief_set(struct vtree_page *page, size_t group, const vmap_digest *digest)
{
    page->digests[1 + group] = *digest;
}

uint64_t vtree_brief_refold(struct vtree_page *page)
{
    vmap_node nodes[BRIEF_GROUPS_MAX];
    size_t groups = vtree_brief_groups(page);
    for (size_t group = 0; group < groups; group++) {
        size_t size = vtree_brief_group_size(page, group);
        nodes[group] = (vmap_node){ page->digests[1 + group], size, vtree_fold_height(size) };
    }
    page->digests[0] = vmap_fold(nodes, groups).digest;
    return groups - 1;
}

/* The bytes for the betweens of groups of `leaves` but the first; BRIEF_TOO_LONG. */
static size_t leaves_size(const struct vtree_entries *leaves)
{
    size_t size = 0;
    for (size_t i = BRIEF_GROUP; i < leaves->count; i += BRIEF_GROUP) {
        size_t telling = telling_size(leaves->keys[i - 1], leaves->keys[i]);
        if (telling > BRIEF_BETWEEN_MAX)
            return BRIEF_TOO_LONG;
        size += 1 + telling;
    }
    return size;
}

/* Bytes of the betweens of groups 1 to `last`. */
static size_t betweens_until(const struct vtree_page *page, size_t last)
{
    const uint8_t *end = betweens(page);
    for (size_t group = 1; group <= last; group++)
        end += 1 + *end;
    return (size_t)(end - betweens(page));
}

struct vtree_page *vtree_brief_change(const struct vtree_page *old, size_t group,
                                      const struct vtree_entries *leaves, uint64_t *inner_count)
{
    size_t groups = group + (leaves->count + BRIEF_GROUP - 1) / BRIEF_GROUP;
    size_t kept = betweens_until(old, leaves->count > 0 ? group : group - 1);
    size_t more = leaves_size(leaves);
    if (groups > BRIEF_GROUPS_MAX || more == BRIEF_TOO_LONG)
        return NULL;
    struct vtree_page *page =
        brief_allocate(group * BRIEF_GROUP + leaves->count, groups, kept + more);
    if (page == NULL)
        return NULL;
    page->map = old->map;
    memcpy(page->digests + 1, old->digests + 1, group * sizeof(vmap_digest));
    uint8_t *end = (uint8_t *)(page->digests + page->slots);
    memcpy(end, betweens(old), kept);
    end += kept;
    for (size_t i = 0; i < leaves->count; i += BRIEF_GROUP) {
        vmap_node nodes[BRIEF_GROUP];
        size_t some = vtree_brief_group_size(page, group + i / BRIEF_GROUP);
        memcpy(nodes, leaves->nodes + i, some * sizeof(*nodes));
        page->digests[1 + group + i / BRIEF_GROUP] = vmap_fold(nodes, some).digest;
        *inner_count += some - 1;
        if (i > 0)
            end = put_between(end, leaves->keys[i - 1], leaves->keys[i]);
    }
    *inner_count += vtree_brief_refold(page);
    return page;
}
