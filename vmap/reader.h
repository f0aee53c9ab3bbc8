/*
 * reader.h - read a map's records and pages, at the newest version or at an
 * older one. Private. A reader belongs to one thread at a time; it opens its
 * iterators when first needed and sees one moment for as long as it is used.
 */
#ifndef VMAP_READER_H
#define VMAP_READER_H

#include "vmap/cache.h"
#include "vmap/cursor.h"

/* What all readers and the writer of a state share. */
struct vtree_store {
    kv_db *db;
    kv_space *meta, *values, *pages, *history, *staged;
    struct vtree_cache *cache;
    atomic_uint_fast64_t leaf_digests, inner_digests, rank_digests;
};

/* The tree of one map: where its root page is and what is in it. */
struct vtree_top {
    uint32_t map;
    unsigned page_bits;
    unsigned level;                        /* the lowest level that is one page */
    vmap_node node;                        /* size 0: the map is empty */
    uint64_t page_counts[VMAP_LEVELS_MAX]; /* of levels 0 to level */
    uint64_t longest;                      /* leaves in the longest page there has been */
};

struct vtree_reader {
    struct vtree_store *store;
    kv_read read;
    uint64_t version; /* of the history to look at; 0: the newest version */
    kv_iter *values, *pages, *history;
    struct vtree_cursor cursor;
    struct vtree_arena arena;     /* scratch for keys and values */
    struct vtree_entries entries; /* of a page being gathered */
    struct vtree_reader *next;    /* free readers of a view */
};

void vtree_reader_init(struct vtree_reader *reader, struct vtree_store *store,
                       const kv_snapshot *snapshot, uint64_t version);
void vtree_reader_clear(struct vtree_reader *reader);

/* The value of `key` at the reader's version. KV_NOT_FOUND. */
KV_MUST_CHECK kv_code vtree_reader_get(struct vtree_reader *reader, uint32_t map, kv_slice key,
                                       kv_value *out, kv_status *status);

/* A cursor over values (level 0) or nodes of pages of `level`, at the reader's
 * version. It lasts until the next call with this reader. */
KV_MUST_CHECK kv_code vtree_reader_cursor(struct vtree_reader *reader, uint32_t map,
                                          unsigned level, struct vtree_cursor **out,
                                          kv_status *status);

/* The page of `level` that begins at `first` and has `node`, from the cache or
 * made again from records; checked against the node's digest. An empty `first`
 * stands for the map's first page of that level. */
KV_MUST_CHECK kv_code vtree_reader_page(struct vtree_reader *reader,
                                        const struct vtree_top *top, unsigned level,
                                        kv_slice first, const vmap_node *node,
                                        struct vtree_page **out, kv_status *status);

/* The same, but of a level-0 page its brief form will do. */
KV_MUST_CHECK kv_code vtree_reader_page_or_brief(struct vtree_reader *reader,
                                                 const struct vtree_top *top, unsigned level,
                                                 kv_slice first, const vmap_node *node,
                                                 struct vtree_page **out, kv_status *status);

/* The leaves of `count` groups of a brief page from `group` on, which begins at the first key
 * >= `from`, checked against the groups' digests. They last until the next call with this
 * reader. */
KV_MUST_CHECK kv_code vtree_reader_groups(struct vtree_reader *reader,
                                          const struct vtree_top *top,
                                          const struct vtree_page *page, size_t group,
                                          size_t count, kv_slice from,
                                          struct vtree_entries **out, kv_status *status);

/* The level-0 pages that up to `count` pairs make, from `first` on, which begins one; an
 * empty one stands for the map's first key. Unless `end` says that the map ends there the
 * last of them may go on. Their keys last until the next call with this reader. */
KV_MUST_CHECK kv_code vtree_reader_cut(struct vtree_reader *reader, const struct vtree_top *top,
                                       kv_slice first, size_t count,
                                       struct vtree_entries *pages, bool *end,
                                       kv_status *status);

/* A level-1 page from the record of its entries alone; KV_NOT_FOUND when that
 * is absent or stale. */
KV_MUST_CHECK kv_code vtree_reader_entries(struct vtree_reader *reader,
                                           const struct vtree_top *top, kv_slice first,
                                           const vmap_node *node, struct vtree_page **out,
                                           kv_status *status);

/* Descend to the page of `level` that holds `key`, or the first one. The map is
 * not empty and has that level. */
KV_MUST_CHECK kv_code vtree_reader_descend(struct vtree_reader *reader,
                                           const struct vtree_top *top, unsigned level,
                                           kv_slice key, struct vtree_page **out,
                                           kv_status *status);

/* A way from the top page down to one leaf: pages[level], index[level]. */
struct vtree_path {
    unsigned level;
    struct vtree_page *pages[VMAP_LEVELS_MAX];
    size_t index[VMAP_LEVELS_MAX];
};

/* Descend to the last leaf <= `key`; KV_NOT_FOUND when there is none (then the
 * path leads to the first leaf). The map is not empty. */
KV_MUST_CHECK kv_code vtree_path_find(struct vtree_reader *reader, const struct vtree_top *top,
                                      kv_slice key, struct vtree_path *out, kv_status *status);
/* To the next leaf; KV_NOT_FOUND at the last, and the path stays. */
KV_MUST_CHECK kv_code vtree_path_next(struct vtree_reader *reader, const struct vtree_top *top,
                                      struct vtree_path *path, kv_status *status);
kv_slice vtree_path_key(const struct vtree_path *path);
/* Fill key and steps of `leaf`; false: deeper than proofs may be. */
bool vtree_path_steps(const struct vtree_path *path, struct proof_leaf *leaf);
void vtree_path_clear(struct vtree_path *path);

/* "level 1 page of map 3 at key 0a0b" for messages; bytes past a limit are cut.
 */
enum { READER_NAME_SIZE = 128 };
void vtree_page_name(uint32_t map, unsigned level, kv_slice first, char name[READER_NAME_SIZE]);

#endif /* VMAP_READER_H */
