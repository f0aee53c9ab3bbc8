/*
 * mutex.h - a mutex that is held for moments: who finds it taken looks for a while, and only
 * then sleeps. Private, also to vmap.
 */
#ifndef KV_MUTEX_H
#define KV_MUTEX_H

#include "kv/kv.h"

#include <pthread.h>

/* 0, or what pthread_mutex_init answers. */
KV_MUST_CHECK int kv_mutex_init(pthread_mutex_t *mutex);

#endif /* KV_MUTEX_H */
