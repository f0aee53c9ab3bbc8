/*
 * cursor.h - walk the records of one map and level, both ways, as they stood
 * at a version or as they will stand when changes are applied. Private.
 *
 * A cursor merges sources; where two have a key, the one added first wins. So
 * history hides what is newer, and changes hide what they replace.
 */
#ifndef VMAP_CURSOR_H
#define VMAP_CURSOR_H

#include "vmap/changes.h"
#include "vmap/record.h"

enum { CURSOR_SOURCES_MAX = 3, CURSOR_PREFIX_SIZE_MAX = RECORD_MAP_SIZE + 1 };

enum cursor_kind {
    CURSOR_PLAIN,   /* prefix | key -> value */
    CURSOR_STAGED,  /* prefix | key -> a mark, then the value */
    CURSOR_HISTORY, /* prefix | ordered key | until -> a mark, then the value */
    CURSOR_CHANGES  /* memory */
};

/* The mark before a staged or historic value. */
enum { RECORD_ABSENT = 0, RECORD_PRESENT = 1 };

struct cursor_source {
    enum cursor_kind kind;
    kv_iter *iter; /* borrowed */
    uint8_t prefix[CURSOR_PREFIX_SIZE_MAX];
    size_t prefix_size;
    uint64_t version; /* of CURSOR_HISTORY */
    const struct vtree_changes *changes;
    size_t position;
    bool on, absent;
    kv_slice key, value;
    struct vtree_buffer scratch, decoded;
};

struct vtree_cursor {
    struct cursor_source sources[CURSOR_SOURCES_MAX];
    size_t count;
    bool backward;
    bool on;
    size_t winner;
    struct vtree_buffer here;
    kv_code fault;                      /* KV_NO_MEMORY, KV_CORRUPT: the cursor's own, */
    const struct cursor_source *faulty; /* then this source's iterator is on the record */
};

/* Make `cursor` empty, keeping its memory; it must have been zeroed once. */
void vtree_cursor_reset(struct vtree_cursor *cursor);
void vtree_cursor_clear(struct vtree_cursor *cursor);

/* Add a source over `iter`, an iterator of the whole space. `level` is left
 * out of the prefix when negative. */
void vtree_cursor_add(struct vtree_cursor *cursor, enum cursor_kind kind, kv_iter *iter,
                      uint32_t map, int level, uint64_t version);
/* Add sorted changes. */
void vtree_cursor_add_changes(struct vtree_cursor *cursor, const struct vtree_changes *changes);

bool vtree_cursor_first(struct vtree_cursor *cursor);
bool vtree_cursor_last(struct vtree_cursor *cursor);
bool vtree_cursor_seek(struct vtree_cursor *cursor, kv_slice key);      /* the first >= key */
bool vtree_cursor_seek_back(struct vtree_cursor *cursor, kv_slice key); /* the last <= key */
bool vtree_cursor_next(struct vtree_cursor *cursor);
bool vtree_cursor_prev(struct vtree_cursor *cursor);
kv_slice vtree_cursor_key(const struct vtree_cursor *cursor);
kv_slice vtree_cursor_value(const struct vtree_cursor *cursor);

/* Why a move answered false: KV_OK at an end. */
KV_MUST_CHECK kv_code vtree_cursor_status(const struct vtree_cursor *cursor, kv_status *status);

#endif /* VMAP_CURSOR_H */
