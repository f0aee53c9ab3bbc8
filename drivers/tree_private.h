/* tree_private.h - what tree.c and tree_moment.c share. */
#ifndef DRIVERS_TREE_PRIVATE_H
#define DRIVERS_TREE_PRIVATE_H

#include "drivers/tree_node.h"

#include <pthread.h>

enum {
    TREE_STRIPES = 16,     /* counters of readers: threads beyond share them */
    TREE_EPOCHS = 3,       /* ages of what was unlinked: now, before, ripe */
    TREE_LIMBO_ITEMS = 32, /* unlinked items that make a write look for ripe ones */
    TREE_RESERVE = 3 * (TREE_HEIGHT_MAX + 2) /* nodes one change can need, at most */
};

/* The roots of all spaces: the top of the tree. */
struct tree_roots {
    struct tree_item item; /* size: the spaces ever made */
    tree_slot root[];      /* nodes, NULL for an empty space */
};

/* Readers inside tree_get, by the epoch they entered in. */
struct tree_stripe {
    _Alignas(TREE_CACHE_LINE) _Atomic uint32_t inside[TREE_EPOCHS];
};

struct tree_chain {
    struct tree_item *head, *tail;
    size_t count;
};

struct tree_moment {
    uint64_t version;         /* it sees items born up to here */
    uint64_t refs;            /* under tree->publish */
    struct tree_roots *roots; /* kept by the moment's own sight of them */
    struct tree_moment *older, *newer;
    struct tree_item *dead; /* heap, latest born on top: what was unlinked
                               while this was the newest moment */
};

struct tree {
    struct tree_stripe stripes[TREE_STRIPES];
    tree_slot roots;
    _Atomic uint64_t epoch;
    _Atomic uint64_t newest_version; /* of the newest moment alive, 0 for none */
    _Atomic uint64_t keys;
    _Atomic uint64_t bytes_freed;
    _Atomic uint64_t bytes_made; /* stored by the writer alone */

    pthread_mutex_t publish; /* short: guards what follows */
    uint64_t version;        /* of the newest published write */
    struct tree_moment *newest;
    uint64_t moments;
    struct tree_chain limbo[TREE_EPOCHS]; /* unlinked, but readers may be inside */

    pthread_mutex_t writer; /* long: guards what follows */
    uint64_t now;           /* the number of the write being made */
    uint64_t floor;         /* nodes born later are edited where they stand */
    struct tree_roots *draft;
    tree_slot *slot; /* the one store that will publish a single change, */
    struct tree_item *value;
    struct tree_chain dead;    /* what it unlinks, */
    int64_t keys_added;        /* and how many keys it adds */
    char **names;              /* of spaces by index; NULL where dropped */
    struct tree_item *reserve; /* nodes of full size, so that no change fails half way */
    unsigned reserved;
    struct tree_node *scratch; /* a node with room for two too many */
};

void tree_chain_push(struct tree_chain *chain, struct tree_item *item);

/* Free an item nobody can see; what a node refers to is left alone. */
void tree_item_free(struct tree *tree, struct tree_item *item);
size_t tree_item_bytes(const struct tree_item *item);

/* Make tree->value visible through tree->slot, and retire tree->dead; false if
 * a moment came or went that the change was not made for, and then nothing is
 * done. With `force` the answer is always true. */
bool tree_publish(struct tree *tree, bool force);

/* Enter and leave the part in which the newest state is read unlocked. */
_Atomic uint32_t *tree_reader_enter(struct tree *tree);
void tree_reader_leave(_Atomic uint32_t *inside);

/* Free all that waits, with no reader and no moment left. */
void tree_limbo_drain(struct tree *tree);

#endif /* DRIVERS_TREE_PRIVATE_H */
