/*
 * state.h - a state: named merkle maps, committed together, kept in a database.
 *
 * A state has one working set (the next version, seen only through the maps'
 * handles) and committed versions 1, 2, ... (0 is the empty beginning). A
 * commit turns the working set into version v+1 of all maps in one atomic
 * batch: at no moment, and after no crash, do two maps stand at different
 * versions. The last `vmap.keep_recent` versions stay readable, with proofs.
 *
 *     state_open(db, options, KV_CREATE, &state, &status)
 *     state_map_open(state, "bank", KV_CREATE, &bank, &status)
 *     vmap_put(bank, key, value, &status)
 *     state_commit(state, KV_SYNC, &version, &status)
 *     state_view_open(state, 0, &view, &status)
 *     state_view_prove(view, "bank", key, &proof, &status)
 *
 * Threads: one thread at a time uses the working set (state_map_*, vmap_*,
 * state_commit, state_rollback, state_load_version, state_prune). Any number of
 * threads open and use views meanwhile; one view may be shared by threads.
 *
 * Conventions are kv.h's. KV_TOO_OLD (pruned) and KV_TOO_NEW (not committed
 * yet) name the kept range in their message.
 */
#ifndef VMAP_STATE_H
#define VMAP_STATE_H

#include "vmap/vmap.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STATE_MAP_NAME_SIZE_MAX 128u /* bytes; printable ASCII without '/', at least 1 */
#define STATE_MAPS_MAX 1024u

typedef struct state state;           /* an open state */
typedef struct vmap vmap;             /* a map's working set; owned by its state */
typedef struct state_view state_view; /* all maps at one version */
typedef struct vmap_iter vmap_iter;   /* a cursor over one map */

/* The options of [vmap]: page_bits, keep_recent, cache_size, threads, ... */
KV_API extern const kv_option_table state_option_table;

/* ---- Opening ------------------------------------------------------------ */

/*
 * Open the state kept in `db`, which must outlive it; KV_NOT_FOUND where there
 * is none and no KV_CREATE; KV_BUSY if `db` holds an open state already.
 * `options` (NULL: defaults) were made with state_option_table.
 */
KV_API KV_MUST_CHECK kv_code state_open(kv_db *db, const kv_options *options, unsigned flags,
                                        state **out, kv_status *status);

/* KV_BUSY over live views. Uncommitted changes are dropped. */
KV_API KV_MUST_CHECK kv_code state_close(state *state, kv_status *status);

/* The database it is kept in. */
KV_API kv_db *state_database(const state *state);

/* The newest committed version, the oldest kept one (0, 0 before the first
 * commit) and the newest app hash. Thread-safe. */
KV_API uint64_t state_version(const state *state);
KV_API uint64_t state_version_oldest(const state *state);
KV_API vmap_digest state_app_hash(const state *state);

/* ---- The working set ---------------------------------------------------- */

/* Find a map, or make it with KV_CREATE; the handle lasts until state_close,
 * state_map_drop or a rollback of its making. KV_INVALID: not a map's name. */
KV_API KV_MUST_CHECK kv_code state_map_open(state *state, const char *name, unsigned flags,
                                            vmap **out, kv_status *status);
/* Remove a map with all its pairs from the working set. */
KV_API KV_MUST_CHECK kv_code state_map_drop(state *state, const char *name, kv_status *status);
/* Visit the names of the working set's maps in byte order. */
KV_API KV_MUST_CHECK kv_code state_map_list(state *state,
                                            bool (*visit)(void *context, const char *name),
                                            void *context, kv_status *status);
KV_API const char *vmap_name(const vmap *map);

/* KV_INVALID: empty key or value. KV_TOO_BIG: over vmap.h's limits. */
KV_API KV_MUST_CHECK kv_code vmap_put(vmap *map, kv_slice key, kv_slice value,
                                      kv_status *status);
/* Deleting an absent key succeeds. */
KV_API KV_MUST_CHECK kv_code vmap_delete(vmap *map, kv_slice key, kv_status *status);
/* Read the working set: own changes first. KV_NOT_FOUND. */
KV_API KV_MUST_CHECK kv_code vmap_get(vmap *map, kv_slice key, kv_value *out,
                                      kv_status *status);
KV_API KV_MUST_CHECK kv_code vmap_has(vmap *map, kv_slice key, bool *out, kv_status *status);

/* Make the working set version state_version() + 1 of every map; without
 * changes too. `flags` may have KV_SYNC. KV_BAD_STATE: a savepoint is open. On failure nothing
 * is committed and the working set stands as it was. */
KV_API KV_MUST_CHECK kv_code state_commit(state *state, unsigned flags, uint64_t *version,
                                          kv_status *status);
/*
 * As state_commit, for a state that catches up with its peers: the working set
 * becomes `version`, which is above state_version() and may leave a gap, and
 * only if its app hash is then `expected`. KV_UNPROVEN: it is another, which the
 * message gives; KV_BAD_STATE: `version` is not above. Versions kept before stay
 * readable; those in the gap never were, and are KV_TOO_OLD.
 */
KV_API KV_MUST_CHECK kv_code state_commit_as(state *state, uint64_t version,
                                             const vmap_digest *expected, unsigned flags,
                                             kv_status *status);
/* Drop every uncommitted change. */
KV_API void state_rollback(state *state);

/*
 * Savepoints of the working set, for the nested execution of a block's transactions:
 * rolling one back undoes every put, delete and map made since, exactly. They nest;
 * naming an outer one ends the inner ones, and so does state_rollback. While one is
 * open the changes since stay in memory, and maps cannot be dropped (KV_BAD_STATE).
 */
typedef struct state_savepoint {
    uint32_t depth;
    uint64_t serial;
} state_savepoint;

#define STATE_SAVEPOINTS_MAX 256u

/* KV_TOO_BIG: STATE_SAVEPOINTS_MAX deep. */
KV_API KV_MUST_CHECK kv_code state_savepoint_take(state *state, state_savepoint *out,
                                                  kv_status *status);
/* Undo all since, and end the savepoint. KV_BAD_STATE: ended already. */
KV_API KV_MUST_CHECK kv_code state_savepoint_rollback(state *state, state_savepoint savepoint,
                                                      kv_status *status);
/* Keep all since, and end the savepoint. KV_BAD_STATE: ended already. */
KV_API KV_MUST_CHECK kv_code state_savepoint_release(state *state, state_savepoint savepoint,
                                                     kv_status *status);

/* Go back to the kept version `version` for good: newer ones are removed. */
KV_API KV_MUST_CHECK kv_code state_load_version(state *state, uint64_t version,
                                                kv_status *status);
/* Let go of all but the newest `keep` >= 1 versions now, whatever keep_recent
 * says. Versions pinned by a view stay until it closes. */
KV_API KV_MUST_CHECK kv_code state_prune(state *state, uint64_t keep, kv_status *status);

/* What no kept version needs is removed by a thread of the state, in bounded
 * steps. Return once that is done; KV_IO: it met a fault and will try again. */
KV_API KV_MUST_CHECK kv_code state_settle(state *state, kv_status *status);

/* ---- Views -------------------------------------------------------------- */

/* See all maps at `version` (0: the newest). KV_TOO_OLD, KV_TOO_NEW. */
KV_API KV_MUST_CHECK kv_code state_view_open(state *state, uint64_t version, state_view **out,
                                             kv_status *status);
KV_API void state_view_close(state_view *view);
KV_API uint64_t state_view_version(const state_view *view);
KV_API vmap_digest state_view_app_hash(const state_view *view);

/* The maps and their roots, sorted by name; owned by the view. */
KV_API const vmap_named_root *state_view_maps(const state_view *view, size_t *count);
/* The root of one map. KV_NOT_FOUND: no such map (with a message, here and in
 * every call below that names a map). */
KV_API KV_MUST_CHECK kv_code state_view_root(state_view *view, const char *map,
                                             vmap_digest *out, kv_status *status);
KV_API KV_MUST_CHECK kv_code state_view_get(state_view *view, const char *map, kv_slice key,
                                            kv_value *out, kv_status *status);

/*
 * Prove that `map` holds `key`, or that it does not: `value` (may be NULL)
 * receives the value and the answer tells which, KV_OK or KV_NOT_FOUND; both
 * fill `out`. An unknown map is KV_INVALID.
 */
KV_API KV_MUST_CHECK kv_code state_view_prove(state_view *view, const char *map, kv_slice key,
                                              kv_value *value, vmap_proof *out,
                                              kv_status *status);

/*
 * Prove the pairs of `map` in `range` (NULL: all), at most `count_max` >= 1 of
 * them and about `size_max` bytes: with them come the digests that lead to the
 * map's root, and the pairs next to the run on either side. Release `out`.
 */
KV_API KV_MUST_CHECK kv_code state_view_prove_range(state_view *view, const char *map,
                                                    const kv_range *range, size_t count_max,
                                                    size_t size_max, kv_value *out,
                                                    kv_status *status);

/* Recompute every digest of every map from the pairs, on all cores, and look for records
 * that belong to nothing. KV_CORRUPT names the first map and key or page that differs, with
 * what was expected and what was found. `progress` may be NULL. */
KV_API KV_MUST_CHECK kv_code state_view_verify(state_view *view,
                                               void (*progress)(void *context, uint64_t done,
                                                                uint64_t total),
                                               void *context, kv_status *status);

/* ---- Walking a map ------------------------------------------------------ */

/* Walk a range (NULL: all) of the working set, or of a view. As kv_iter: moves
 * return true on an entry, faults stick. A working-set iterator ends with
 * KV_BAD_STATE if the map is changed under it. */
KV_API KV_MUST_CHECK kv_code vmap_iter_open(vmap *map, const kv_range *range, vmap_iter **out,
                                            kv_status *status);
KV_API KV_MUST_CHECK kv_code state_view_iter_open(state_view *view, const char *map,
                                                  const kv_range *range, vmap_iter **out,
                                                  kv_status *status);
KV_API bool vmap_iter_first(vmap_iter *iter);
KV_API bool vmap_iter_last(vmap_iter *iter);
KV_API bool vmap_iter_seek(vmap_iter *iter, kv_slice key);
KV_API bool vmap_iter_next(vmap_iter *iter);
KV_API bool vmap_iter_prev(vmap_iter *iter);
KV_API kv_slice vmap_iter_key(const vmap_iter *iter);
KV_API kv_slice vmap_iter_value(const vmap_iter *iter);
KV_API KV_MUST_CHECK kv_code vmap_iter_status(const vmap_iter *iter, kv_status *status);
KV_API void vmap_iter_close(vmap_iter *iter);

/* ---- Pages, for those who move a state ---------------------------------- */

/* A page, lent: what is told of it lasts until it is cleared, whatever becomes of the view
 * or the cache. Start from all zeros. */
typedef struct vmap_page {
    unsigned level;
    size_t count; /* entries */
    void *held;   /* private */
} vmap_page;

KV_API void vmap_page_clear(vmap_page *page);

/* Entry `index`: of level >= 1 the page below it that starts at that key, of level 0 the
 * leaf of that key. */
KV_API kv_slice vmap_page_key(const vmap_page *page, size_t index);
KV_API vmap_node vmap_page_node(const vmap_page *page, size_t index);
KV_API const vmap_digest *vmap_page_digest(const vmap_page *page, size_t index);
/* The first entry with a key >= `key`, or count; `exact` tells equality. */
KV_API size_t vmap_page_find(const vmap_page *page, kv_slice key, bool *exact);
/* As vmap_fold, of leaves, but what `like`, of level 0, has in the same places is not
 * hashed again. */
KV_API vmap_node vmap_page_fold(const vmap_page *like, vmap_node *nodes, size_t count);

/* The map's root page: its level (0 when the one page holds leaves), its node.
 * An empty map answers level 0 and a node of size 0. */
KV_API KV_MUST_CHECK kv_code state_view_top(state_view *view, const char *map, unsigned *level,
                                            vmap_node *node, unsigned *page_bits,
                                            kv_status *status);

/* The page of `level` that starts at the key `first` (the page's first entry's first
 * key). KV_NOT_FOUND: no page of that level starts there. A page of level 0 tells its
 * leaves' keys and digests; their values are read by an iterator. */
KV_API KV_MUST_CHECK kv_code state_view_page(state_view *view, const char *map, unsigned level,
                                             kv_slice first, vmap_page *out, kv_status *status);

/* The page under entry `index` of `above`, a page of level >= 1 of that map and view. */
KV_API KV_MUST_CHECK kv_code state_view_page_below(state_view *view, const char *map,
                                                   const vmap_page *above, size_t index,
                                                   vmap_page *out, kv_status *status);

/* ---- Maps made beforehand, for those who move a state ------------------- */

/*
 * A map that no version has, whose pairs are written once, where they will stay. Its
 * number tells it from all other maps: store that before the first pair, to go on after
 * a crash. Calls add to a batch of the caller's, which is committed whenever it likes.
 * With all pairs in place the pages of level 0 are listed, from left to right; then the
 * working set takes the map, and the next commit makes it one like any other, reading
 * none of its pairs: that they make these pages is the caller's word. One that is not
 * wanted any more is dropped, or its pairs stay for ever.
 *
 *     state_build_open(state, page_bits, &number, &build, &status)
 *     state_build_put(build, batch, key, value, &status)         for each pair
 *     state_build_page(build, batch, first, &node, &status)      for each page of leaves
 *     state_build_take(build, batch, "bank", &root, &status)
 *     kv_batch_commit(batch, 0, &status), kv_sync(db, &status)
 *     state_commit_as(state, version, &app_hash, KV_SYNC, &status)
 *
 * Opening, taking and dropping are uses of the working set.
 */
typedef struct state_build state_build;

/* Bytes before the key in what state_build_iter_open walks. */
#define STATE_BUILD_PREFIX 4u

/* Begin a map (*number 0, which is set) or go on with one. KV_CONFLICT: that number is
 * no map's, or one's that a version has or had. */
KV_API KV_MUST_CHECK kv_code state_build_open(state *state, unsigned page_bits,
                                              uint32_t *number, state_build **out,
                                              kv_status *status);
/* Before state_close. Its pairs stay. */
KV_API void state_build_close(state_build *build);
KV_API KV_MUST_CHECK kv_code state_build_put(state_build *build, kv_batch *batch, kv_slice key,
                                             kv_slice value, kv_status *status);
KV_API KV_MUST_CHECK kv_code state_build_delete(state_build *build, kv_batch *batch,
                                                kv_slice key, kv_status *status);
KV_API KV_MUST_CHECK kv_code state_build_delete_range(state_build *build, kv_batch *batch,
                                                      const kv_range *range, kv_status *status);
/* Walk its pairs, as they were committed. */
KV_API KV_MUST_CHECK kv_code state_build_iter_open(state_build *build, const kv_range *range,
                                                   kv_iter **out, kv_status *status);

/* The next page of leaves; of the only one `first` may be empty. KV_INVALID: not behind
 * the one before. */
KV_API KV_MUST_CHECK kv_code state_build_page(state_build *build, kv_batch *batch,
                                              kv_slice first, const vmap_node *node,
                                              kv_status *status);
/* All pages are listed: the working set's map `name` is this one from here on, in place
 * of another of that name. KV_UNPROVEN: they do not make `root`. */
KV_API KV_MUST_CHECK kv_code state_build_take(state_build *build, kv_batch *batch,
                                              const char *name, const vmap_digest *root,
                                              kv_status *status);
/* Have its records removed in the background. One that became a version's map stays. */
KV_API KV_MUST_CHECK kv_code state_build_drop(state *state, uint32_t number, kv_status *status);

/* ---- Figures ------------------------------------------------------------ */

/* Visit figures of the state ("maps", "keys", "cache_hits", "cache_misses",
 * "cache_size_bytes", "history_records", ...) and of each map
 * ("<map>.keys", "<map>.pages.<level>", "<map>.page_longest"). */
KV_API KV_MUST_CHECK kv_code state_stats(state *state,
                                         void (*visit)(void *context, const kv_stat *stat),
                                         void *context, kv_status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* VMAP_STATE_H */
