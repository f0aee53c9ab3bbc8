/* changes.h - a map's changes that are not committed yet. Private. */
#ifndef VMAP_CHANGES_H
#define VMAP_CHANGES_H

#include "vmap/memory.h"

struct vtree_change {
    kv_slice key;
    kv_slice value; /* when present */
    bool present;   /* else the key is deleted */
    uint64_t hash;
};

/* Start from all zeros. One thread at a time. */
struct vtree_changes {
    struct vtree_arena arena; /* keys and values, as long as the changes last */
    struct vtree_change **slots;
    size_t slot_count;            /* 0 or a power of two */
    struct vtree_change **sorted; /* in key order while sorted_count == count */
    size_t sorted_count, sorted_capacity;
    size_t count;
    uint64_t generation; /* raised at each change */
    size_t waste;        /* bytes of replaced values */
};

/* The last change of a key counts. False: out of memory, nothing changed. */
bool vtree_changes_set(struct vtree_changes *changes, kv_slice key, bool present,
                       kv_slice value);
/* Put a change back as it was, or out of the table again. */
void vtree_changes_restore(struct vtree_changes *changes, struct vtree_change *change,
                           bool present, kv_slice value);
void vtree_changes_remove(struct vtree_changes *changes, const struct vtree_change *change);
struct vtree_change *vtree_changes_find(const struct vtree_changes *changes, kv_slice key);
/* Bring `sorted` up to date; false when out of memory. */
bool vtree_changes_sort(struct vtree_changes *changes);
void vtree_changes_clear(struct vtree_changes *changes);

#endif /* VMAP_CHANGES_H */
