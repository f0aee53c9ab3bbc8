/* counter.h - figures that one thread adds to and any thread reads. */
#ifndef ABCI_QUERY_COUNTER_H
#define ABCI_QUERY_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

typedef atomic_uint_least64_t query_counter;

/* For the one thread that writes: no bus lock. */
static inline void query_count(query_counter *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static inline uint64_t query_counter_read(const query_counter *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif /* ABCI_QUERY_COUNTER_H */
