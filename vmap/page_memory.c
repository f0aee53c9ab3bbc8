/* page_memory.c - memory for pages. */
#include "vmap/page_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(block, size) ((void)(block), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(block, size) ((void)(block), (void)(size))
#endif

/* Blocks of 2^n bytes and up to twice that come in 16 sizes. */
enum {
    STEPS_BITS = 4,
    EXPONENT_MIN = 9,
    EXPONENT_MAX = 16, /* larger ones are not kept */
    CLASSES = (EXPONENT_MAX - EXPONENT_MIN) << STEPS_BITS,
    KEPT_MAX = 16, /* of each size */
};

static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static void *kept[CLASSES][KEPT_MAX];
static unsigned kept_counts[CLASSES];

/* The class of `*size`, which is rounded up to what its blocks have; CLASSES: none. */
static size_t class_of(size_t *size)
{
    if (*size <= (size_t)1 << EXPONENT_MIN || *size > (size_t)1 << EXPONENT_MAX)
        return CLASSES;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(*size - 1);
    unsigned shift = exponent - STEPS_BITS;
    size_t steps = (*size - 1) >> shift; /* 16 to 31 */
    *size = (steps + 1) << shift;
    return ((size_t)(exponent - EXPONENT_MIN) << STEPS_BITS) + steps - (1u << STEPS_BITS);
}

void *vtree_page_memory_take(size_t *size)
{
    size_t class = class_of(size);
    void *block = NULL;
    if (class < CLASSES) {
        pthread_mutex_lock(&lock);
        if (kept_counts[class] > 0)
            block = kept[class][--kept_counts[class]];
        pthread_mutex_unlock(&lock);
    }
    if (block == NULL)
        return malloc(*size);
    ASAN_UNPOISON_MEMORY_REGION(block, *size);
    return block;
}

void vtree_page_memory_give(void *block, size_t size)
{
    size_t class = class_of(&size);
    if (class < CLASSES) {
        ASAN_POISON_MEMORY_REGION(block, size);
        pthread_mutex_lock(&lock);
        if (kept_counts[class] < KEPT_MAX) {
            kept[class][kept_counts[class]++] = block;
            block = NULL;
        }
        pthread_mutex_unlock(&lock);
        if (block != NULL)
            ASAN_UNPOISON_MEMORY_REGION(block, size);
    }
    free(block);
}
