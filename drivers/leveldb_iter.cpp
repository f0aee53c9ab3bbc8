/* leveldb_iter.cpp - a step forward, straight on LevelDB's iterator. */
#include "drivers/leveldb_iter.h"

#include <cstring>
#include <endian.h>
#include <leveldb/db.h>
#include <leveldb/iterator.h>

static_assert(leveldb::kMajorVersion == 1, "look how db/c.cc of this LevelDB defines handles");

/* As db/c.cc of every LevelDB 1.x defines it. */
struct leveldb_iterator_t {
    leveldb::Iterator *rep;
};

bool level_iter_is_fine(const struct level_iter *self)
{
    return self->cursor->rep->status().ok();
}

bool level_iter_next(kv_iter *iter)
{
    auto *self = reinterpret_cast<struct level_iter *>(iter);
    leveldb::Iterator *cursor = self->cursor->rep;
    cursor->Next();
    if (!cursor->Valid())
        return level_iter_leave(self);
    const leveldb::Slice key = cursor->key();
    iter->key = { key.data(), key.size() };
    /* Stepping forward LevelDB lends the key with its tail of 8 bytes behind, so these
     * can be read of any key. Where they stand for missing ones they hide no limit. */
    uint64_t head;
    memcpy(&head, key.data(), sizeof(head));
    if (be64toh(head) >= self->limit_head)
        return level_iter_near_limit(self);
    const leveldb::Slice value = cursor->value();
    iter->value = { value.data(), value.size() };
    if (!level_iter_is_same_block(self))
        return level_iter_enter_block(self);
    level_iter_remember_end(self);
    return true;
}
