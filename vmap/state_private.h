/* state_private.h - a state from the inside. Private. */
#ifndef VMAP_STATE_PRIVATE_H
#define VMAP_STATE_PRIVATE_H

#include "vmap/meta.h"
#include "vmap/update.h"

#include <pthread.h>

enum {
    STATE_STEP_RECORDS = 2048,   /* records that one bounded step looks at */
    STATE_WRITEBACK_PAGES = 64,  /* level-1 pages a commit writes for the cache */
    STATE_SWEEP_SHARE = 4,       /* history is swept when 1/4 of it is garbage, */
    STATE_SWEEP_RECORDS = 100000 /* or this many records are */
};

/* What views of the newest version share. Counted under state->lock. */
struct state_moment {
    struct meta_version *info;
    kv_snapshot *snapshot; /* taken when first needed */
    unsigned references;
};

struct vmap {
    struct state *self;
    struct vtree_top top; /* as committed */
    char name[STATE_MAP_NAME_SIZE_MAX + 1];
    bool made;    /* not committed yet */
    bool staged;  /* some of its changes are in state.staged */
    bool spilled; /* no version has it, and its pairs are in state.values */
    struct vtree_changes changes;
};

/* One change since a savepoint, to take back. */
struct state_undo {
    vmap *map;
    struct vtree_change *change; /* NULL: the map was made */
    kv_slice value;              /* as they were */
    bool present;
    bool made; /* the change was */
};

struct state_mark { /* of a savepoint */
    size_t undo_count;
    uint64_t serial;
};

struct dropped_map {
    uint32_t map;
    uint64_t last; /* the last version that has it */
};

struct state_options {
    unsigned page_bits;
    uint64_t keep_recent;
    uint64_t cache_size;
    uint64_t batch_size;
    unsigned threads;
};

struct state {
    struct vtree_store store;
    struct vtree_pool *pool;
    struct state_options options;
    bool read_only;
    struct state *next_open; /* all open states */

    /* The working set: one thread's. */
    vmap **maps; /* in byte order of their names */
    size_t map_count, map_capacity;
    vmap **gone; /* dropped since the last commit */
    size_t gone_count, gone_capacity;
    uint32_t map_next;
    bool staged;             /* some changes are in state.staged */
    struct state_undo *undo; /* while savepoints are open: what to take back */
    size_t undo_count, undo_capacity;
    struct state_mark *marks; /* the open savepoints, outermost first */
    size_t mark_count, mark_capacity;
    uint64_t mark_serial;
    bool broken; /* a half-applied change must be finished by opening anew */
    struct vtree_buffer scratch;

    /* Under the lock. */
    pthread_mutex_t lock;
    struct meta_head head;
    struct state_moment *newest;
    size_t view_count;
    struct dropped_map *dropped;
    size_t dropped_count, dropped_capacity;

    /* Upkeep: a thread that takes bounded steps. */
    pthread_t upkeep;
    pthread_cond_t upkeep_wake, upkeep_idle;
    bool upkeep_runs, upkeep_stop, upkeep_due, upkeep_busy, upkeep_all;
    uint64_t upkeep_faults;
    uint64_t removed; /* history records that upkeep has removed, ever */
};

/* ---- state.c ------------------------------------------------------------ */

kv_code state_no_memory(kv_status *status);
/* KV_BAD_STATE when a change is half applied. */
KV_MUST_CHECK kv_code state_usable(const struct state *self, kv_status *status);
/* Read one version's record as of `read`; KV_NOT_FOUND. */
KV_MUST_CHECK kv_code state_version_read(const struct state *self, const kv_read *read,
                                         uint64_t version, struct meta_version **out,
                                         kv_status *status);
/* KV_TOO_OLD or KV_TOO_NEW outside the kept versions. */
KV_MUST_CHECK kv_code state_check_kept(const struct state *self, uint64_t version,
                                       kv_status *status);
/* Make `info` (taken over) what new views see, and the maps' committed trees. */
KV_MUST_CHECK kv_code state_publish(struct state *self, const struct meta_head *head,
                                    struct meta_version *info, kv_status *status);
/* Make sure that views opened from now on see the newest version as it is now. */
KV_MUST_CHECK kv_code state_pin_newest(struct state *self, kv_status *status);
void state_moment_release(struct state *self, struct state_moment *moment);
/* Forget all changes in memory; maps made since the commit go, dropped ones
 * come back. */
void state_forget_changes(struct state *self);
vmap *state_map_new(struct state *self, const char *name, uint32_t id, unsigned page_bits);
void state_map_free(vmap *map);
KV_MUST_CHECK kv_code state_map_insert(struct state *self, vmap *map, kv_status *status);
size_t state_map_place(const struct state *self, const char *name, bool *exact);
bool state_has_views(struct state *self);
bool state_push_dropped(struct state *self, uint32_t map, uint64_t last);

/* ---- savepoint.c -------------------------------------------------------- */

/* Make room to note one more change, before it is made; nothing where no savepoint
 * is open. */
KV_MUST_CHECK kv_code state_undo_reserve(struct state *self, kv_status *status);
/* Note what a change replaced, once it is made. */
void state_undo_note(struct state *self, struct state_undo undo);
void state_savepoints_end(struct state *self);

/* ---- write.c ------------------------------------------------------------ */

/* What a commit keeps of the version that it replaces. */
struct state_keep {
    bool history; /* keep what was there, until `until` */
    bool check;   /* nodes may have been kept already, by an earlier part */
    uint64_t until;
    uint64_t records; /* out: history records written */
};

/* Add to `batch` that a key of a map has a value, or (NULL) none. */
KV_MUST_CHECK kv_code state_write_value(struct state *self, kv_batch *batch, uint32_t map,
                                        kv_slice key, const kv_slice *value, kv_status *status);
/* Run an update, and add to `batch` what it finds. */
KV_MUST_CHECK kv_code state_write_update(struct state *self, kv_batch *batch,
                                         struct vtree_update *update, struct state_keep *keep,
                                         kv_status *status);
/* Add head and, if not NULL, a version's record. */
KV_MUST_CHECK kv_code state_write_meta(struct state *self, kv_batch *batch,
                                       const struct meta_head *head,
                                       const struct meta_version *version, kv_status *status);
/* Add the entries of level-1 pages that left the cache, or of all dirty ones. */
KV_MUST_CHECK kv_code state_write_back(struct state *self, kv_batch *batch, bool all,
                                       size_t *written, kv_status *status);
/* Add the end of a commit: the maps that are gone, the versions that go, head
 * and `info`; `head` is brought to its version. */
KV_MUST_CHECK kv_code state_write_end(struct state *self, kv_batch *batch,
                                      struct meta_head *head, const struct meta_version *info,
                                      kv_status *status);

/* ---- commit.c ----------------------------------------------------------- */

struct meta_head state_head_copy(struct state *self);

/* ---- build.c ------------------------------------------------------------- */

/* All pages are listed: what is above them. Of a map with none the tree is empty. */
KV_MUST_CHECK kv_code state_build_top(state_build *build, kv_batch *batch,
                                      struct vtree_top *top, kv_status *status);

/* ---- spill.c -------------------------------------------------------------- */

/* Whether a map has no tree at all: no version has it, and none was made for it. */
bool state_map_is_new(const vmap *map);
/* Add the changes of a new map to `batch`, to stay; once that is committed they are done. */
KV_MUST_CHECK kv_code state_spill(struct state *self, vmap *map, kv_batch *batch,
                                  kv_status *status);
void state_spill_done(struct state *self, vmap *map);
/* Make the tree of a new map whose pairs were spilled, or are to be, since the commit is
 * staged. */
KV_MUST_CHECK kv_code state_spill_end(struct state *self, vmap *map, kv_status *status);
/* Free a map that no version has, and have its pairs removed. */
void state_map_discard(struct state *self, vmap *map);
/* Have the pairs removed that a working set of an earlier process spilled. */
KV_MUST_CHECK kv_code state_spill_clear(struct state *self, kv_status *status);

/* ---- staged.c ----------------------------------------------------------- */

/* Move the working set's changes from memory to state.staged. */
KV_MUST_CHECK kv_code state_stage(struct state *self, kv_status *status);
/* Commit a working set that is staged; `info` is the new version as it begins,
 * and is taken over. */
KV_MUST_CHECK kv_code state_commit_staged(struct state *self, struct meta_version *info,
                                          const vmap_digest *expected, unsigned flags,
                                          kv_status *status);
/* Finish the change that the stored head says is pending. */
KV_MUST_CHECK kv_code state_finish_pending(struct state *self, kv_status *status);
/* Remove all staged records. */
KV_MUST_CHECK kv_code state_clear_staged(struct state *self, kv_status *status);

/* ---- history.c ---------------------------------------------------------- */

/* Let go of all but `keep` versions in `head`, adding the removals to `batch`;
 * `incoming` (may be NULL) is the newest and not stored yet. */
KV_MUST_CHECK kv_code state_head_prune(struct state *self, struct meta_head *head,
                                       uint64_t keep, const struct meta_version *incoming,
                                       kv_batch *batch, kv_status *status);
/* Bring back head.target, which head says is pending, and publish it. */
KV_MUST_CHECK kv_code state_finish_load(struct state *self, struct meta_head *head,
                                        unsigned flags, kv_status *status);

/* ---- upkeep.c ----------------------------------------------------------- */

void state_upkeep_start(struct state *self);
void state_upkeep_stop(struct state *self);
void state_upkeep_wake(struct state *self);

/* ---- view.c ------------------------------------------------------------- */

struct state_view {
    struct state *self;
    struct state_moment *moment;
    struct meta_version *info; /* the moment's, or own */
    bool historic;
    pthread_mutex_t lock;
    struct vtree_reader *readers; /* free ones */
};

void state_view_reader_init(const state_view *view, struct vtree_reader *reader);
KV_MUST_CHECK kv_code state_view_reader_take(state_view *view, struct vtree_reader **out,
                                             kv_status *status);
void state_view_reader_give(state_view *view, struct vtree_reader *reader);
/* KV_NOT_FOUND with a message. */
KV_MUST_CHECK kv_code state_view_find(const state_view *view, const char *name,
                                      const struct meta_map **out, kv_status *status);

#endif /* VMAP_STATE_PRIVATE_H */
