/* cache.c - pages in memory under a byte budget. */
#include "vmap/cache.h"

#include "kv/mutex.h"
#include "vmap/brief.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETIRED,  /* of no newest version any more */
    LEAVES,   /* level 0 */
    BRIEFS,   /* what they left behind */
    BRANCHES, /* level >= 1: fewer, dearer to rebuild */
    LISTS
};
enum { SLOTS_FIRST = 64, LEAVING_MAX = 256, SHARDS = 16 };

/* Pages from the newest to the oldest. A page that was used since it came gets
 * a second round instead of going: a use then leaves its neighbours in the list
 * alone. */
struct page_list {
    struct vtree_page *newest, *oldest;
    uint64_t size;
};

struct slot {
    uint64_t hash;
    struct vtree_page *page; /* NULL: free */
};

/* The pages whose digests begin alike, under a lock of their own: threads of a
 * commit would wait for each other at a single one. */
struct shard {
    pthread_mutex_t lock;
    _Atomic(struct slot *) slots; /* atomic for vtree_cache_expect, which does not lock */
    atomic_size_t slot_count;     /* a power of two, more than twice the pages */
    struct page_list lists[LISTS];
    uint64_t hits, misses, pages, size;
};

struct vtree_cache {
    uint64_t budget;
    atomic_uint_fast64_t size; /* of all shards */
    struct shard shards[SHARDS];
    pthread_mutex_t leaving_lock;            /* taken under a shard's */
    struct vtree_page *leaving[LEAVING_MAX]; /* dirty pages that were dropped */
    size_t leaving_count;
};

static uint64_t hash_of(unsigned level, const vmap_digest *digest)
{
    uint64_t hash;
    memcpy(&hash, digest->bytes, sizeof(hash));
    return hash ^ level;
}

static uint64_t hash_of_page(const struct vtree_page *page)
{
    return hash_of(page->level, vtree_page_digest(page));
}

static struct shard *shard_of(struct vtree_cache *cache, uint64_t hash)
{
    return &cache->shards[hash >> 60];
}

static bool page_is(const struct vtree_page *page, unsigned level, const vmap_digest *digest)
{
    return page->level == level &&
           memcmp(vtree_page_digest(page)->bytes, digest->bytes, VMAP_DIGEST_SIZE) == 0;
}

static void list_remove(struct shard *shard, struct vtree_page *page)
{
    struct page_list *list = &shard->lists[page->list];
    if (page->newer != NULL)
        page->newer->older = page->older;
    else
        list->newest = page->older;
    if (page->older != NULL)
        page->older->newer = page->newer;
    else
        list->oldest = page->newer;
    page->newer = page->older = NULL;
    list->size -= page->size;
}

static void list_add(struct shard *shard, struct vtree_page *page, unsigned which)
{
    struct page_list *list = &shard->lists[which];
    page->list = (uint8_t)which;
    page->older = list->newest;
    if (list->newest != NULL)
        list->newest->newer = page;
    else
        list->oldest = page;
    list->newest = page;
    list->size += page->size;
}

static unsigned live_list(const struct vtree_page *page)
{
    if (page->level > 0)
        return BRANCHES;
    return vtree_page_is_brief(page) ? BRIEFS : LEAVES;
}

static struct slot *slots_of(const struct shard *shard, size_t *mask)
{
    *mask = atomic_load_explicit(&shard->slot_count, memory_order_relaxed) - 1;
    return atomic_load_explicit(&shard->slots, memory_order_relaxed);
}

static struct vtree_page *find(const struct shard *shard, uint64_t hash, unsigned level,
                               const vmap_digest *digest)
{
    size_t mask;
    const struct slot *slots = slots_of(shard, &mask);
    for (size_t i = (size_t)hash & mask; slots[i].page != NULL; i = (i + 1) & mask) {
        if (slots[i].hash == hash && page_is(slots[i].page, level, digest))
            return slots[i].page;
    }
    return NULL;
}

static void slot_add(struct slot *slots, size_t mask, struct slot slot)
{
    size_t i = (size_t)slot.hash & mask;
    while (slots[i].page != NULL)
        i = (i + 1) & mask;
    slots[i] = slot;
}

static void slot_remove(struct shard *shard, const struct vtree_page *page)
{
    size_t mask;
    struct slot *slots = slots_of(shard, &mask);
    size_t hole = (size_t)hash_of_page(page) & mask;
    while (slots[hole].page != page)
        hole = (hole + 1) & mask;
    /* Close the hole: what probed past it moves into it (Knuth, 6.4, algorithm
     * R). */
    for (size_t at = (hole + 1) & mask; slots[at].page != NULL; at = (at + 1) & mask) {
        size_t home = (size_t)slots[at].hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        slots[hole] = slots[at];
        hole = at;
    }
    slots[hole].page = NULL;
}

/* Room for one more page; false when out of memory. */
static bool slots_grow(struct shard *shard)
{
    size_t mask, grown_count;
    struct slot *slots = slots_of(shard, &mask);
    if ((shard->pages + 1) * 2 <= mask)
        return true;
    grown_count = (mask + 1) * 2;
    struct slot *grown = calloc(grown_count, sizeof(*grown));
    if (grown == NULL)
        return shard->pages < mask;
    for (size_t i = 0; i <= mask; i++) {
        if (slots[i].page != NULL)
            slot_add(grown, grown_count - 1, slots[i]);
    }
    atomic_store_explicit(&shard->slots, grown, memory_order_relaxed);
    atomic_store_explicit(&shard->slot_count, grown_count, memory_order_relaxed);
    free(slots);
    return true;
}

/* Take a page out, with the cache's reference to it. */
static void page_remove(struct vtree_cache *cache, struct shard *shard, struct vtree_page *page)
{
    slot_remove(shard, page);
    list_remove(shard, page);
    shard->pages--;
    shard->size -= page->size;
    atomic_fetch_sub_explicit(&cache->size, page->size, memory_order_relaxed);
}

/* Put a page in, with a reference, where there is room for it. */
static void page_insert(struct vtree_cache *cache, struct shard *shard, struct vtree_page *page)
{
    size_t mask;
    struct slot *slots = slots_of(shard, &mask);
    slot_add(slots, mask, (struct slot){ hash_of_page(page), page });
    list_add(shard, page, live_list(page));
    shard->pages++;
    shard->size += page->size;
    atomic_fetch_add_explicit(&cache->size, page->size, memory_order_relaxed);
}

static void page_drop(struct vtree_cache *cache, struct shard *shard, struct vtree_page *page)
{
    page_remove(cache, shard, page);
    /* A dirty page past the limit is only dearer to read: it can be rebuilt. */
    if (page->dirty) {
        pthread_mutex_lock(&cache->leaving_lock);
        if (cache->leaving_count < LEAVING_MAX) {
            cache->leaving[cache->leaving_count++] = page;
            page = NULL;
        }
        pthread_mutex_unlock(&cache->leaving_lock);
    }
    vtree_page_release(page);
}

/* The page that this shard lets go first; NULL when it has not even its share,
 * for then another has more, and will let go at its next page. */
static struct vtree_page *next_to_go(const struct vtree_cache *cache, const struct shard *shard)
{
    const struct page_list *lists = shard->lists;
    unsigned which = BRANCHES;
    if (lists[RETIRED].oldest != NULL)
        return lists[RETIRED].oldest;
    if (shard->size <= cache->budget / SHARDS)
        return NULL;
    if (lists[BRANCHES].size <= shard->size / 4 * 3)
        which = lists[LEAVES].size > shard->size / 16 ? LEAVES : BRIEFS;
    if (which == BRIEFS && lists[BRIEFS].oldest == NULL)
        which = lists[LEAVES].oldest != NULL ? LEAVES : BRANCHES;
    return lists[which].oldest;
}

static void make_room(struct vtree_cache *cache, struct shard *shard)
{
    while (atomic_load_explicit(&cache->size, memory_order_relaxed) > cache->budget) {
        struct vtree_page *page = next_to_go(cache, shard);
        if (page == NULL)
            return;
        if (page->used && page->list != RETIRED) {
            page->used = false;
            list_remove(shard, page);
            list_add(shard, page, page->list);
        } else {
            struct vtree_page *brief = page->list == LEAVES ? vtree_brief_make(page) : NULL;
            page_drop(cache, shard, page);
            if (brief != NULL)
                page_insert(cache, shard, brief);
        }
    }
}

static bool shard_init(struct shard *shard)
{
    struct slot *slots = calloc(SLOTS_FIRST, sizeof(*slots));
    atomic_init(&shard->slots, NULL);
    atomic_init(&shard->slot_count, SLOTS_FIRST);
    if (slots == NULL || kv_mutex_init(&shard->lock) != 0) {
        free(slots);
        return false;
    }
    atomic_init(&shard->slots, slots);
    return true;
}

static void shard_clear(struct vtree_cache *cache, struct shard *shard)
{
    size_t mask;
    struct slot *slots = slots_of(shard, &mask);
    if (slots == NULL)
        return;
    for (size_t i = 0; i < LISTS; i++) {
        while (shard->lists[i].newest != NULL) {
            struct vtree_page *page = shard->lists[i].newest;
            page->dirty = false;
            page_drop(cache, shard, page);
        }
    }
    pthread_mutex_destroy(&shard->lock);
    free(slots);
}

struct vtree_cache *vtree_cache_new(uint64_t budget)
{
    struct vtree_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL)
        return NULL;
    pthread_mutex_init(&cache->leaving_lock, NULL);
    atomic_init(&cache->size, 0);
    cache->budget = budget;
    for (size_t i = 0; i < SHARDS; i++) {
        if (!shard_init(&cache->shards[i])) {
            vtree_cache_free(cache);
            return NULL;
        }
    }
    return cache;
}

void vtree_cache_free(struct vtree_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < SHARDS; i++)
        shard_clear(cache, &cache->shards[i]);
    for (size_t i = 0; i < cache->leaving_count; i++)
        vtree_page_release(cache->leaving[i]);
    pthread_mutex_destroy(&cache->leaving_lock);
    free(cache);
}

struct vtree_page *vtree_cache_get(struct vtree_cache *cache, unsigned level,
                                   const vmap_digest *digest, bool brief)
{
    uint64_t hash = hash_of(level, digest);
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    struct vtree_page *page = find(shard, hash, level, digest);
    if (page != NULL && !brief && vtree_page_is_brief(page))
        page = NULL;
    if (page != NULL) {
        page->used = true;
        vtree_page_hold(page);
        shard->hits++;
        /* What claiming it will have to touch. */
        __builtin_prefetch(page->newer);
        __builtin_prefetch(page->older);
    } else {
        shard->misses++;
    }
    pthread_mutex_unlock(&shard->lock);
    return page;
}

void vtree_cache_put(struct vtree_cache *cache, struct vtree_page *page, bool dirty)
{
    uint64_t hash = hash_of_page(page);
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    struct vtree_page *there = find(shard, hash, page->level, vtree_page_digest(page));
    if (there != NULL && vtree_page_is_brief(there) && !vtree_page_is_brief(page)) {
        page_drop(cache, shard, there);
        there = NULL;
    }
    if (there == NULL && slots_grow(shard)) {
        page->used = false;
        page->dirty = dirty;
        page_insert(cache, shard, vtree_page_hold(page));
        make_room(cache, shard);
    } else if (there != NULL) {
        if (dirty) { /* of two maps that share the page the later one's record is written */
            there->dirty = true;
            there->map = page->map;
        }
        list_remove(shard, there);
        list_add(shard, there, live_list(there));
    }
    pthread_mutex_unlock(&shard->lock);
}

void vtree_cache_expect(const struct vtree_cache *cache, unsigned level,
                        const vmap_digest *digest)
{
    uint64_t hash = hash_of(level, digest);
    size_t mask;
    const struct slot *slots = slots_of(&cache->shards[hash >> 60], &mask);
    /* Where that points is of no matter if the table has just moved. */
    __builtin_prefetch(
        (const void *)((uintptr_t)slots + ((size_t)hash & mask) * sizeof(*slots)));
}

void vtree_cache_fetch(struct vtree_cache *cache, unsigned level, const vmap_digest *digest)
{
    uint64_t hash = hash_of(level, digest);
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    size_t mask;
    const struct slot *slots = slots_of(shard, &mask);
    for (size_t i = (size_t)hash & mask; slots[i].page != NULL; i = (i + 1) & mask) {
        if (slots[i].hash == hash) {
            __builtin_prefetch(slots[i].page, 1);
            __builtin_prefetch(&slots[i].page->digests[1], 1);
            break;
        }
    }
    pthread_mutex_unlock(&shard->lock);
}

/* A page that is replaced must not be written, also where it was dropped while dirty. */
static void forget_leaving(struct vtree_cache *cache, unsigned level, const vmap_digest *digest)
{
    if (level != 1)
        return;
    pthread_mutex_lock(&cache->leaving_lock);
    for (size_t i = 0; i < cache->leaving_count; i++) {
        if (page_is(cache->leaving[i], level, digest))
            cache->leaving[i]->dirty = false;
    }
    pthread_mutex_unlock(&cache->leaving_lock);
}

void vtree_cache_retire(struct vtree_cache *cache, unsigned level, const vmap_digest *digest)
{
    uint64_t hash = hash_of(level, digest);
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    struct vtree_page *page = find(shard, hash, level, digest);
    if (page != NULL) {
        page->dirty = false;
        list_remove(shard, page);
        list_add(shard, page, RETIRED);
    }
    pthread_mutex_unlock(&shard->lock);
    forget_leaving(cache, level, digest);
}

void vtree_cache_forget_dirty(struct vtree_cache *cache)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        for (size_t list = 0; list < LISTS; list++) {
            for (struct vtree_page *page = shard->lists[list].oldest; page != NULL;
                 page = page->newer)
                page->dirty = false;
        }
        pthread_mutex_unlock(&shard->lock);
    }
    pthread_mutex_lock(&cache->leaving_lock);
    for (size_t i = 0; i < cache->leaving_count; i++)
        cache->leaving[i]->dirty = false;
    pthread_mutex_unlock(&cache->leaving_lock);
}

bool vtree_cache_claim(struct vtree_cache *cache, struct vtree_page *page)
{
    struct shard *shard = shard_of(cache, hash_of_page(page));
    bool claimed = false;
    pthread_mutex_lock(&shard->lock);
    /* New holders come by way of the cache only, so these two stay the only ones.
     * A page that is in no list is not in the cache. */
    if (atomic_load_explicit(&page->references, memory_order_acquire) == 2 &&
        (page->newer != NULL || shard->lists[page->list].newest == page)) {
        page_remove(cache, shard, page);
        page->dirty = false;
        vtree_page_release(page);
        claimed = true;
    }
    pthread_mutex_unlock(&shard->lock);
    if (claimed)
        forget_leaving(cache, page->level, vtree_page_digest(page));
    return claimed;
}

/* A dirty page that was dropped and not retired since, or NULL. */
static struct vtree_page *take_leaving(struct vtree_cache *cache)
{
    struct vtree_page *taken = NULL;
    pthread_mutex_lock(&cache->leaving_lock);
    while (taken == NULL && cache->leaving_count > 0) {
        taken = cache->leaving[--cache->leaving_count];
        if (!taken->dirty) {
            vtree_page_release(taken);
            taken = NULL;
        }
    }
    if (taken != NULL)
        taken->dirty = false;
    pthread_mutex_unlock(&cache->leaving_lock);
    return taken;
}

static struct vtree_page *take_inside(struct shard *shard)
{
    pthread_mutex_lock(&shard->lock);
    struct vtree_page *taken = shard->lists[BRANCHES].oldest;
    while (taken != NULL && !taken->dirty)
        taken = taken->newer;
    if (taken != NULL) {
        /* Found again from the old end only once. */
        list_remove(shard, taken);
        list_add(shard, taken, BRANCHES);
        vtree_page_hold(taken);
        taken->dirty = false;
    }
    pthread_mutex_unlock(&shard->lock);
    return taken;
}

struct vtree_page *vtree_cache_take_dirty(struct vtree_cache *cache, bool all)
{
    struct vtree_page *taken = take_leaving(cache);
    for (size_t i = 0; all && taken == NULL && i < SHARDS; i++)
        taken = take_inside(&cache->shards[i]);
    return taken;
}

struct vtree_cache_figures vtree_cache_look(struct vtree_cache *cache)
{
    struct vtree_cache_figures figures = { 0, 0, 0, 0 };
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        figures.hits += shard->hits;
        figures.misses += shard->misses;
        figures.pages += shard->pages;
        figures.size += shard->size;
        pthread_mutex_unlock(&shard->lock);
    }
    return figures;
}
