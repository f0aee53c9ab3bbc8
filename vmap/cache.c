/* cache.c - pages in memory under a byte budget. */
#include "vmap/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETIRED,  /* of no newest version any more */
    LEAVES,   /* level 0 */
    BRANCHES, /* level >= 1: fewer, dearer to rebuild */
    LISTS
};
enum { BUCKETS_FIRST = 1024, LEAVING_MAX = 256 };

/* Pages from newest to oldest use. */
struct page_list {
    struct vtree_page *newest, *oldest;
    uint64_t size;
};

struct vtree_cache {
    pthread_mutex_t lock;
    struct vtree_page **buckets;
    size_t bucket_count; /* a power of two */
    struct page_list lists[LISTS];
    struct vtree_page *leaving[LEAVING_MAX]; /* dirty pages that were dropped */
    size_t leaving_count;
    uint64_t budget;
    struct vtree_cache_figures figures;
};

static size_t bucket_of(const struct vtree_cache *cache, unsigned level,
                        const vmap_digest *digest)
{
    uint64_t hash;
    memcpy(&hash, digest->bytes, sizeof(hash));
    return (size_t)(hash ^ level) & (cache->bucket_count - 1);
}

static const vmap_digest *page_digest(const struct vtree_page *page)
{
    return &page->digests[page->slots - 1];
}

static void list_remove(struct vtree_cache *cache, struct vtree_page *page)
{
    struct page_list *list = &cache->lists[page->list];
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

static void list_add(struct vtree_cache *cache, struct vtree_page *page, unsigned which)
{
    struct page_list *list = &cache->lists[which];
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
    return page->level == 0 ? LEAVES : BRANCHES;
}

static struct vtree_page **slot_of(struct vtree_cache *cache, unsigned level,
                                   const vmap_digest *digest)
{
    struct vtree_page **slot = &cache->buckets[bucket_of(cache, level, digest)];
    while (*slot != NULL &&
           ((*slot)->level != level ||
            memcmp(page_digest(*slot)->bytes, digest->bytes, VMAP_DIGEST_SIZE) != 0))
        slot = &(*slot)->hash_next;
    return slot;
}

/* More buckets than pages, as far as memory allows. */
static void buckets_grow(struct vtree_cache *cache)
{
    if (cache->figures.pages < cache->bucket_count)
        return;
    size_t old_count = cache->bucket_count;
    struct vtree_page **old = cache->buckets;
    struct vtree_page **grown = calloc(old_count * 2, sizeof(struct vtree_page *));
    if (grown == NULL)
        return;
    cache->buckets = grown;
    cache->bucket_count = old_count * 2;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct vtree_page *page = old[i];
            old[i] = page->hash_next;
            size_t bucket = bucket_of(cache, page->level, page_digest(page));
            page->hash_next = grown[bucket];
            grown[bucket] = page;
        }
    }
    free(old);
}

/* Take a page out, with the cache's reference to it. */
static void page_remove(struct vtree_cache *cache, struct vtree_page *page)
{
    *slot_of(cache, page->level, page_digest(page)) = page->hash_next;
    list_remove(cache, page);
    cache->figures.pages--;
    cache->figures.size -= page->size;
}

static void page_drop(struct vtree_cache *cache, struct vtree_page *page)
{
    page_remove(cache, page);
    /* A dirty page past the limit is only dearer to read: it can be rebuilt. */
    if (page->dirty && cache->leaving_count < LEAVING_MAX)
        cache->leaving[cache->leaving_count++] = page;
    else
        vtree_page_release(page);
}

static void make_room(struct vtree_cache *cache)
{
    while (cache->figures.size > cache->budget) {
        struct vtree_page *page = cache->lists[RETIRED].oldest;
        bool branches = cache->lists[BRANCHES].size > cache->budget / 2;
        if (page == NULL)
            page = cache->lists[branches ? BRANCHES : LEAVES].oldest;
        if (page == NULL)
            page = cache->lists[branches ? LEAVES : BRANCHES].oldest;
        if (page == NULL)
            return;
        page_drop(cache, page);
    }
}

struct vtree_cache *vtree_cache_new(uint64_t budget)
{
    struct vtree_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL)
        return NULL;
    cache->buckets = calloc(BUCKETS_FIRST, sizeof(struct vtree_page *));
    if (cache->buckets == NULL || pthread_mutex_init(&cache->lock, NULL) != 0) {
        free(cache->buckets);
        free(cache);
        return NULL;
    }
    cache->bucket_count = BUCKETS_FIRST;
    cache->budget = budget;
    return cache;
}

void vtree_cache_free(struct vtree_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < LISTS; i++) {
        while (cache->lists[i].newest != NULL) {
            struct vtree_page *page = cache->lists[i].newest;
            page->dirty = false;
            page_drop(cache, page);
        }
    }
    for (size_t i = 0; i < cache->leaving_count; i++)
        vtree_page_release(cache->leaving[i]);
    pthread_mutex_destroy(&cache->lock);
    free(cache->buckets);
    free(cache);
}

struct vtree_page *vtree_cache_get(struct vtree_cache *cache, unsigned level,
                                   const vmap_digest *digest)
{
    pthread_mutex_lock(&cache->lock);
    struct vtree_page *page = *slot_of(cache, level, digest);
    if (page != NULL) {
        unsigned list = page->list;
        list_remove(cache, page);
        list_add(cache, page, list);
        vtree_page_hold(page);
        cache->figures.hits++;
    } else {
        cache->figures.misses++;
    }
    pthread_mutex_unlock(&cache->lock);
    return page;
}

void vtree_cache_put(struct vtree_cache *cache, struct vtree_page *page, bool dirty)
{
    pthread_mutex_lock(&cache->lock);
    struct vtree_page **slot = slot_of(cache, page->level, page_digest(page));
    if (*slot == NULL) {
        buckets_grow(cache);
        slot = &cache->buckets[bucket_of(cache, page->level, page_digest(page))];
        page->hash_next = *slot;
        *slot = vtree_page_hold(page);
        page->dirty = dirty;
        list_add(cache, page, live_list(page));
        cache->figures.pages++;
        cache->figures.size += page->size;
        make_room(cache);
    } else {
        page = *slot;
        page->dirty = page->dirty || dirty;
        list_remove(cache, page);
        list_add(cache, page, live_list(page));
    }
    pthread_mutex_unlock(&cache->lock);
}

void vtree_cache_retire(struct vtree_cache *cache, unsigned level, const vmap_digest *digest)
{
    pthread_mutex_lock(&cache->lock);
    struct vtree_page *page = *slot_of(cache, level, digest);
    if (page != NULL) {
        page->dirty = false;
        list_remove(cache, page);
        list_add(cache, page, RETIRED);
    }
    for (size_t i = 0; i < cache->leaving_count; i++) {
        struct vtree_page *leaving = cache->leaving[i];
        if (leaving->level == level &&
            memcmp(page_digest(leaving)->bytes, digest->bytes, VMAP_DIGEST_SIZE) == 0)
            leaving->dirty = false;
    }
    pthread_mutex_unlock(&cache->lock);
}

bool vtree_cache_claim(struct vtree_cache *cache, struct vtree_page *page)
{
    bool claimed = false;
    pthread_mutex_lock(&cache->lock);
    /* New holders come by way of the cache only, so these two stay the only ones. */
    if (atomic_load_explicit(&page->references, memory_order_acquire) == 2 &&
        *slot_of(cache, page->level, page_digest(page)) == page) {
        page_remove(cache, page);
        page->hash_next = NULL;
        page->dirty = false;
        vtree_page_release(page);
        claimed = true;
    }
    pthread_mutex_unlock(&cache->lock);
    return claimed;
}

struct vtree_page *vtree_cache_take_dirty(struct vtree_cache *cache, bool all)
{
    struct vtree_page *taken = NULL;
    pthread_mutex_lock(&cache->lock);
    while (taken == NULL && cache->leaving_count > 0) {
        taken = cache->leaving[--cache->leaving_count];
        if (!taken->dirty) { /* retired meanwhile */
            vtree_page_release(taken);
            taken = NULL;
        }
    }
    if (taken == NULL && all) {
        taken = cache->lists[BRANCHES].oldest;
        while (taken != NULL && !taken->dirty)
            taken = taken->newer;
        if (taken != NULL) {
            /* Found again from the old end only once. */
            list_remove(cache, taken);
            list_add(cache, taken, BRANCHES);
            vtree_page_hold(taken);
        }
    }
    if (taken != NULL)
        taken->dirty = false;
    pthread_mutex_unlock(&cache->lock);
    return taken;
}

struct vtree_cache_figures vtree_cache_look(struct vtree_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    struct vtree_cache_figures figures = cache->figures;
    pthread_mutex_unlock(&cache->lock);
    return figures;
}
