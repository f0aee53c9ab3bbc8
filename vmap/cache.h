/*
 * cache.h - pages in memory under a byte budget, found by level and digest.
 * Private. Thread-safe. When room is needed, retired pages go first, then those
 * of level 0, unless the others take three quarters of the room. Those of level 0 leave
 * their brief form behind, which goes once it leaves whole pages less than a sixteenth.
 */
#ifndef VMAP_CACHE_H
#define VMAP_CACHE_H

#include "vmap/page.h"

struct vtree_cache;

struct vtree_cache_figures {
    uint64_t hits, misses, pages, size;
};

struct vtree_cache *vtree_cache_new(uint64_t budget); /* NULL: out of memory */
void vtree_cache_free(struct vtree_cache *cache);

/* A reference to the page, or NULL. `brief`: its brief form will do. */
struct vtree_page *vtree_cache_get(struct vtree_cache *cache, unsigned level,
                                   const vmap_digest *digest, bool brief);

/* Have the processor fetch what looking for that page reads first; and, once that has
 * come, how the page itself begins. */
void vtree_cache_expect(const struct vtree_cache *cache, unsigned level,
                        const vmap_digest *digest);
void vtree_cache_fetch(struct vtree_cache *cache, unsigned level, const vmap_digest *digest);

/* Keep `page` while there is room. Dirty: its entries should reach the store
 * when it has to leave. Out of memory just means that it is not kept. */
void vtree_cache_put(struct vtree_cache *cache, struct vtree_page *page, bool dirty);

/* The page belongs to no newest version any more: clean it, and let it go soon.
 */
void vtree_cache_retire(struct vtree_cache *cache, unsigned level, const vmap_digest *digest);

/* No page here needs to be written any more: trees were given up, and which pages were
 * only theirs is not known. What is lost can be rebuilt. */
void vtree_cache_forget_dirty(struct vtree_cache *cache);

/* Take `page` out, if the caller is the only one beside the cache who holds it:
 * then it is the caller's alone, to change, and true is answered. */
bool vtree_cache_claim(struct vtree_cache *cache, struct vtree_page *page);

/* A dirty page that had to leave the cache (with its reference, now clean), or
 * NULL. With `all`, dirty pages that are still inside are given too. */
struct vtree_page *vtree_cache_take_dirty(struct vtree_cache *cache, bool all);

struct vtree_cache_figures vtree_cache_look(struct vtree_cache *cache);

#endif /* VMAP_CACHE_H */
