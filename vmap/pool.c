/* pool.c - worker threads for independent loop rounds. */
#include "vmap/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct vtree_pool {
    pthread_mutex_t use; /* held by the caller whose loop has the workers */
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    uint64_t loop; /* raised at each new loop */
    unsigned busy; /* workers inside the current loop */
    bool stop;
    void (*run)(void *context, size_t index);
    void *context;
    size_t count;
    atomic_size_t next;
    unsigned worker_count;
    pthread_t workers[POOL_THREADS_MAX];
};

static void work(struct vtree_pool *pool, void (*run)(void *, size_t), void *context,
                 size_t count)
{
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= count)
            return;
        run(context, index);
    }
}

static void *worker_main(void *argument)
{
    struct vtree_pool *pool = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->loop == seen)
            pthread_cond_wait(&pool->begun, &pool->lock);
        if (pool->stop)
            break;
        seen = pool->loop;
        if (pool->run == NULL)
            continue; /* woke after that loop's end */
        void (*run)(void *, size_t) = pool->run;
        void *context = pool->context;
        size_t count = pool->count;
        pool->busy++;
        pthread_mutex_unlock(&pool->lock);
        work(pool, run, context, count);
        pthread_mutex_lock(&pool->lock);
        pool->busy--;
        if (pool->busy == 0)
            pthread_cond_signal(&pool->ended);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct vtree_pool *vtree_pool_new(unsigned threads)
{
    struct vtree_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->use, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->ended, NULL);
    if (threads == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        threads = cores < 1 ? 1 : (unsigned)cores;
    }
    if (threads > POOL_THREADS_MAX)
        threads = POOL_THREADS_MAX;
    while (pool->worker_count + 1 < threads &&
           pthread_create(&pool->workers[pool->worker_count], NULL, worker_main, pool) == 0)
        pool->worker_count++;
    return pool;
}

void vtree_pool_free(struct vtree_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->worker_count; i++)
        pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->begun);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->use);
    free(pool);
}

unsigned vtree_pool_threads(const struct vtree_pool *pool)
{
    return pool->worker_count + 1;
}

void vtree_pool_run(struct vtree_pool *pool, void (*run)(void *context, size_t index),
                    void *context, size_t count)
{
    if (count <= 1 || pool->worker_count == 0 || pthread_mutex_trylock(&pool->use) != 0) {
        for (size_t i = 0; i < count; i++)
            run(context, i);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->run = run;
    pool->context = context;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->loop++;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);

    work(pool, run, context, count);

    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->ended, &pool->lock);
    pool->run = NULL;
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->use);
}
