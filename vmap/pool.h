/* pool.h - worker threads for loops whose rounds do not depend on each other.
 * Private. */
#ifndef VMAP_POOL_H
#define VMAP_POOL_H

#include "kv/kv.h"

enum { POOL_THREADS_MAX = 256 };

struct vtree_pool;

/* `threads` at work on a loop, the caller among them; 0: one per core. Fewer
 * when the system refuses. NULL: out of memory. */
struct vtree_pool *vtree_pool_new(unsigned threads);
void vtree_pool_free(struct vtree_pool *pool);
unsigned vtree_pool_threads(const struct vtree_pool *pool);

/*
 * Call run(context, 0) ... run(context, count - 1), each once, and return when
 * all are done. Any thread may call; while another's loop has the workers, the
 * caller does its own alone.
 */
void vtree_pool_run(struct vtree_pool *pool, void (*run)(void *context, size_t index),
                    void *context, size_t count);

#endif /* VMAP_POOL_H */
