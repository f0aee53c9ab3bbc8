/*
 * leveldb_iter.h - the driver's iterator, and its one step that is C++.
 *
 * Through its C interface a step costs LevelDB four calls that do little else than
 * call again. The step forward, by far the most common call, makes the inner ones.
 */
#ifndef DRIVERS_LEVELDB_ITER_H
#define DRIVERS_LEVELDB_ITER_H

#include "kv/driver.h"

#include <leveldb/c.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct level_iter {
    kv_iter base;
    leveldb_iterator_t *cursor;
    kv_range range; /* its bytes in `bounds` */
    char *bounds;
    const char *end;     /* of the value last taken, for level_iter_is_same_block */
    uint64_t limit_head; /* the limit's first bytes as a number, all ones for none */
};

/*
 * In a block an entry's value follows the one before after three numbers of at
 * most 5 bytes each and no more than its own key, which has 8 bytes more inside
 * LevelDB. Another block is further off, for each ends with 13 bytes or more of
 * other things. So a value as near as that was read from the same block.
 */
enum { BLOCK_ENTRY_HEAD_MAX = 15, BLOCK_KEY_TAIL = 8 };

static inline bool level_iter_is_same_block(const struct level_iter *self)
{
    size_t distance = (size_t)((const char *)self->base.value.data - self->end);
    return distance <= self->base.key.size + BLOCK_KEY_TAIL + BLOCK_ENTRY_HEAD_MAX;
}

static inline void level_iter_remember_end(struct level_iter *self)
{
    self->end = (const char *)self->base.value.data + self->base.value.size;
}

bool level_iter_next(kv_iter *iter); /* the driver's iter_next */

/* Whether LevelDB has met no error on the way, passed over in silence or not. */
bool level_iter_is_fine(const struct level_iter *self);

/* The rest of a step, in leveldb.c: off every entry, near the limit, in a new block. */
bool level_iter_leave(struct level_iter *self);
bool level_iter_near_limit(struct level_iter *self);
bool level_iter_enter_block(struct level_iter *self);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DRIVERS_LEVELDB_ITER_H */
