/*
 * tree.h - the ordered copy-on-write tree behind the memory and shadow drivers.
 *
 * A tree holds numbered spaces, each an ordered map of records. A record is one
 * allocation with key and value; it never changes once it is in the tree.
 *
 *  - Writers take turns. A single put or delete becomes visible by one store; a
 *    batch is drafted in nodes nobody else sees and becomes visible by one store.
 *  - A get takes no lock and waits for nobody. It lends the record's own bytes.
 *  - A moment is the whole tree at one instant, taken in constant time: nodes a
 *    moment can see are copied before they are changed, all others are edited
 *    where they stand. Taking one waits at most for the few instructions in
 *    which a writer publishes, never for its work.
 *  - What no moment sees any more is freed as the last one that saw it goes.
 *
 * A space index is valid between tree_space_open and tree_space_drop.
 */
#ifndef DRIVERS_TREE_H
#define DRIVERS_TREE_H

#include "kv/kv.h"

#include <stdatomic.h>

enum {
    TREE_FAN = 64,        /* entries in a node, at most */
    TREE_CACHE_LINE = 64, /* bytes */
    TREE_HEIGHT_MAX = 16  /* levels; each further one takes 32 times the keys */
};

/* What records, nodes and tables of roots have in common: they are born by one
 * write, die by a later one, and wait in between lists until nobody looks. */
struct tree_item {
    uint64_t birth;                 /* the number of the write that made it */
    struct tree_item *next, *child; /* among the dead */
    _Atomic uint32_t refs;          /* of a record: the tree, batches, lent values */
    uint8_t kind;                   /* enum tree_kind */
    uint8_t level;                  /* of a node; leaves are 0 */
    uint16_t size;                  /* of a record's key; entries of a node */
};

enum tree_kind { TREE_RECORD, TREE_NODE, TREE_ROOTS };

struct tree_record {
    struct tree_item item;
    uint32_t value_size;
    unsigned char bytes[]; /* key, then value */
};

static inline kv_slice tree_record_key(const struct tree_record *record)
{
    return kv_bytes(record->bytes, record->item.size);
}

static inline kv_slice tree_record_value(const struct tree_record *record)
{
    return kv_bytes(record->bytes + record->item.size, record->value_size);
}

/* A record with one reference, the caller's; NULL when out of memory. */
struct tree_record *tree_record_new(kv_slice key, kv_slice value);
struct tree_record *tree_record_take(struct tree_record *record);
void tree_record_release(struct tree_record *record);

/* Lend the value of `record`, whose reference passes to `out`. */
void tree_record_lend(struct tree_record *record, kv_value *out);

struct tree;
struct tree_moment;
struct tree_node;

kv_code tree_new(struct tree **out, kv_status *status);
void tree_free(struct tree *tree); /* over no moment, cursor or call */

/* ---- Spaces ---- */

/* Find, or with KV_CREATE make; KV_NOT_FOUND. */
kv_code tree_space_open(struct tree *tree, const char *name, unsigned flags, uint32_t *out,
                        kv_status *status);
kv_code tree_space_drop(struct tree *tree, uint32_t space, kv_status *status);
/* In byte order. Stops when `visit` says false. */
kv_code tree_space_list(struct tree *tree, bool (*visit)(void *context, const char *name),
                        void *context, kv_status *status);

/* ---- Reading ---- */

/* The record of `key`, now (NULL) or at a moment, with a reference; or NULL. */
struct tree_record *tree_get(struct tree *tree, const struct tree_moment *moment,
                             uint32_t space, kv_slice key);

struct tree_moment *tree_moment_take(struct tree *tree); /* NULL: out of memory */
void tree_moment_release(struct tree *tree, struct tree_moment *moment);

/* A cursor over one space of a moment, which must outlast it. */
struct tree_cursor {
    const struct tree_node *root;
    unsigned depth; /* of `path`; 0 off an entry */
    struct {
        const struct tree_node *node;
        unsigned index;
    } path[TREE_HEIGHT_MAX];
};

void tree_cursor_init(struct tree_cursor *cursor, const struct tree_moment *moment,
                      uint32_t space);
/* Each gives the record it comes to, or NULL off either end. The moves by one
 * are legal only on an entry. */
const struct tree_record *tree_cursor_first(struct tree_cursor *cursor);
const struct tree_record *tree_cursor_last(struct tree_cursor *cursor);
const struct tree_record *tree_cursor_seek(struct tree_cursor *cursor, kv_slice key);  /* >= */
const struct tree_record *tree_cursor_below(struct tree_cursor *cursor, kv_slice key); /* < */
const struct tree_record *tree_cursor_next(struct tree_cursor *cursor);
const struct tree_record *tree_cursor_prev(struct tree_cursor *cursor);

/* ---- Writing ---- */

/* Put a record, whose reference passes to the tree when the answer is KV_OK. */
kv_code tree_put(struct tree *tree, uint32_t space, struct tree_record *record,
                 kv_status *status);
kv_code tree_delete(struct tree *tree, uint32_t space, kv_slice key, kv_status *status);

/*
 * Several changes at once: begin, any number of changes, then publish or
 * abandon. Other writers wait from begin to the end; readers do not. After a
 * failed change only abandon is legal. Records are taken by reference.
 */
kv_code tree_draft_begin(struct tree *tree, kv_status *status);
kv_code tree_draft_put(struct tree *tree, uint32_t space, struct tree_record *record,
                       kv_status *status);
kv_code tree_draft_delete(struct tree *tree, uint32_t space, kv_slice key, kv_status *status);
/* Delete [first, limit), an empty limit meaning to the end. */
kv_code tree_draft_delete_range(struct tree *tree, uint32_t space, kv_slice first,
                                kv_slice limit, kv_status *status);
/* The first record >= key in the draft, or NULL; lives until the next change. */
const struct tree_record *tree_draft_seek(struct tree *tree, uint32_t space, kv_slice key);
void tree_draft_publish(struct tree *tree);
void tree_draft_abandon(struct tree *tree);

/* ---- Gathered operations ---- */

enum tree_op_kind { TREE_OP_PUT, TREE_OP_DELETE, TREE_OP_DELETE_RANGE };

struct tree_op {
    struct tree_record *record; /* of a range: first as key, limit as value */
    uint32_t space;
    enum tree_op_kind kind;
};

/* Starts as all zeros. */
struct tree_ops {
    struct tree_op *items;
    size_t count, capacity;
};

void tree_ops_add(struct tree_ops *ops, enum tree_op_kind kind, uint32_t space, kv_slice key,
                  kv_slice value, kv_status *status);
void tree_ops_clear(struct tree_ops *ops);
void tree_ops_free(struct tree_ops *ops);
/* Make the changes in the open draft. */
kv_code tree_ops_draft(const struct tree_ops *ops, struct tree *tree, kv_status *status);
/* Make them visible, all at once. */
kv_code tree_ops_commit(const struct tree_ops *ops, struct tree *tree, kv_status *status);

struct tree_figures {
    uint64_t keys;    /* in all spaces, now */
    uint64_t bytes;   /* held by records and nodes, those of moments included */
    uint64_t spaces;  /* by name */
    uint64_t moments; /* distinct ones alive */
};

void tree_figures(struct tree *tree, struct tree_figures *out);

#endif /* DRIVERS_TREE_H */
