/* brief.c - what a level-0 page leaves behind in the cache when it has to go. */
#include "vmap/brief.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BRIEF_ROUNDS = 3 };
static_assert(BRIEF_GROUP == 1 << BRIEF_ROUNDS, "a group is a node of the fold");

/* Behind the digests, for each group but the first: a byte of size, and so many bytes. */
static const uint8_t *betweens(const struct vtree_page *page)
{
    return (const uint8_t *)(page->digests + page->slots);
}

static size_t group_count(const struct vtree_page *page)
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

struct vtree_page *vtree_brief_make(const struct vtree_page *page)
{
    size_t groups = (page->count + BRIEF_GROUP - 1) / BRIEF_GROUP, width;
    if (page->level != 0 || groups < BRIEF_GROUPS_MIN || groups > BRIEF_GROUPS_MAX)
        return NULL;
    size_t between = betweens_size(page);
    size_t size = sizeof(*page) + (1 + groups) * sizeof(vmap_digest) + between;
    struct vtree_page *brief = between > 0 ? malloc(size) : NULL;
    if (brief == NULL)
        return NULL;
    memset(brief, 0, sizeof(*brief));
    atomic_init(&brief->references, 1);
    brief->count = page->count;
    brief->slots = (uint32_t)(1 + groups);
    brief->size = (uint32_t)size;
    brief->map = page->map;
    brief->digests[0] = *vtree_page_digest(page);
    uint8_t *end = (uint8_t *)(brief->digests + brief->slots);
    for (size_t group = 0; group < groups; group++) {
        brief->digests[1 + group] = vtree_page_slot(page, BRIEF_ROUNDS, group, &width).digest;
        if (group == 0)
            continue;
        kv_slice key = vtree_page_key(page, group * BRIEF_GROUP);
        size_t telling = telling_size(vtree_page_key(page, group * BRIEF_GROUP - 1), key);
        *end++ = (uint8_t)telling;
        memcpy(end, key.data, telling);
        end += telling;
    }
    return brief;
}

size_t vtree_brief_find(const struct vtree_page *page, kv_slice key, kv_slice *from)
{
    const uint8_t *end = betweens(page);
    size_t group = 0;
    *from = kv_bytes(NULL, 0);
    while (group + 1 < group_count(page)) {
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

/* Rounds that fold `leaves` of height 0 into one. */
static uint32_t fold_height(size_t leaves)
{
    return leaves <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(leaves - 1);
}

uint64_t vtree_brief_refold(struct vtree_page *page)
{
    vmap_node nodes[BRIEF_GROUPS_MAX];
    size_t groups = group_count(page);
    for (size_t group = 0; group < groups; group++) {
        size_t size = vtree_brief_group_size(page, group);
        nodes[group] = (vmap_node){ page->digests[1 + group], size, fold_height(size) };
    }
    page->digests[0] = vmap_fold(nodes, groups).digest;
    return groups - 1;
}
