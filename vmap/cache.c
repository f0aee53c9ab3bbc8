/* cache.c - pages in memory under a byte budget. */
#include "vmap/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAVES,   /* level 0 */
    BRANCHES, /* level >= 1: fewer, dearer to rebuild */
    LISTS
};
enum { BUCKETS_FIRST = 1024, LEAVING_MAX = 256 };

/* Pages from newest to oldest use. */
struct page_list {
    struct vtree_page *newest, *oldest;
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

static struct page_list *list_of(struct vtree_cache *cache, const struct vtree_page *page)
{
    return &cache->lists[page->level == 0 ? LEAVES : BRANCHES];
}

static void list_remove(struct page_list *list, struct vtree_page *page)
{
    if (page->newer != NULL)
        page->newer->older = page->older;
    else
        list->newest = page->older;
    if (page->older != NULL)
        page->older->newer = page->newer;
    else
        list->oldest = page->newer;
    page->newer = page->older = NULL;
}

static void list_add_newest(struct page_list *list, struct vtree_page *page)
{
    page->older = list->newest;
    if (list->newest != NULL)
        list->newest->newer = page;
    else
        list->oldest = page;
    list->newest = page;
}

static void list_add_oldest(struct page_list *list, struct vtree_page *page)
{
    page->newer = list->oldest;
    if (list->oldest != NULL)
        list->oldest->older = page;
    else
        list->newest = page;
    list->oldest = page;
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

static void page_drop(struct vtree_cache *cache, struct vtree_page *page)
{
    *slot_of(cache, page->level, page_digest(page)) = page->hash_next;
    list_remove(list_of(cache, page), page);
    cache->figures.pages--;
    cache->figures.size -= page->size;
    /* A dirty page past the limit is only dearer to read: it can be rebuilt. */
    if (page->dirty && cache->leaving_count < LEAVING_MAX)
        cache->leaving[cache->leaving_count++] = page;
    else
        vtree_page_release(page);
}

static void make_room(struct vtree_cache *cache)
{
    while (cache->figures.size > cache->budget) {
        struct vtree_page *page = cache->lists[LEAVES].oldest;
        if (page == NULL)
            page = cache->lists[BRANCHES].oldest;
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
        struct page_list *list = list_of(cache, page);
        list_remove(list, page);
        list_add_newest(list, page);
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
        list_add_newest(list_of(cache, page), page);
        cache->figures.pages++;
        cache->figures.size += page->size;
        make_room(cache);
    } else if (dirty) {
        (*slot)->dirty = true;
    }
    pthread_mutex_unlock(&cache->lock);
}

void vtree_cache_retire(struct vtree_cache *cache, unsigned level, const vmap_digest *digest)
{
    pthread_mutex_lock(&cache->lock);
    struct vtree_page *page = *slot_of(cache, level, digest);
    if (page != NULL) {
        page->dirty = false;
        struct page_list *list = list_of(cache, page);
        list_remove(list, page);
        list_add_oldest(list, page);
    }
    for (size_t i = 0; i < cache->leaving_count; i++) {
        struct vtree_page *leaving = cache->leaving[i];
        if (leaving->level == level &&
            memcmp(page_digest(leaving)->bytes, digest->bytes, VMAP_DIGEST_SIZE) == 0)
            leaving->dirty = false;
    }
    pthread_mutex_unlock(&cache->lock);
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
            list_remove(&cache->lists[BRANCHES], taken);
            list_add_newest(&cache->lists[BRANCHES], taken);
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
