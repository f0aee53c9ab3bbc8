/*
 * page_memory.h - memory for pages. Private.
 *
 * A commit makes pages anew for keys that come and go, and frees as many of about the same
 * size. What is freed is kept for the next one, a little of it: it is in the processor's
 * caches, and the system's allocator would join it with its neighbours and cut it again.
 */
#ifndef VMAP_PAGE_MEMORY_H
#define VMAP_PAGE_MEMORY_H

#include <stddef.h>

/* A block of `*size` bytes or more, which `*size` then tells; NULL when out of memory. */
void *vtree_page_memory_take(size_t *size);
/* `size` is what taking it told. */
void vtree_page_memory_give(void *block, size_t size);

#endif /* VMAP_PAGE_MEMORY_H */
