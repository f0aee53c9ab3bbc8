/* tree_iter.h - the iterator that the drivers over a tree share. */
#ifndef DRIVERS_TREE_ITER_H
#define DRIVERS_TREE_ITER_H

#include "drivers/tree.h"
#include "kv/driver.h"

/* A cursor kept within a range. */
struct tree_iter {
    kv_iter base;
    struct tree *tree;
    struct tree_moment *moment; /* its own, NULL when a snapshot's is read */
    struct tree_cursor cursor;
    kv_slice first, limit; /* in one allocation, `first.data` */
};

/* Open over `moment`, or over now when it is NULL. */
kv_code tree_iter_open(struct tree_iter *iter, struct tree *tree,
                       const struct tree_moment *moment, uint32_t space, const kv_range *range,
                       kv_status *status);

/* The bytes of the keys and values of a range; reads them all. */
kv_code tree_size(struct tree *tree, uint32_t space, const kv_range *range, uint64_t *out,
                  kv_status *status);

/* The slots of the driver's table. */
void tree_iter_close(kv_iter *base);
bool tree_iter_first(kv_iter *base);
bool tree_iter_last(kv_iter *base);
bool tree_iter_seek(kv_iter *base, kv_slice key);
bool tree_iter_seek_for_prev(kv_iter *base, kv_slice key);
bool tree_iter_next(kv_iter *base);
bool tree_iter_prev(kv_iter *base);

#endif /* DRIVERS_TREE_ITER_H */
