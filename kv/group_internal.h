/*
 * group_internal.h - a group's parts: operations as bytes (group_ops.c), members and
 * what is in doubt (group_members.c), commits (group.c), opening (group_open.c).
 */
#ifndef KV_GROUP_INTERNAL_H
#define KV_GROUP_INTERNAL_H

#include "kv/driver.h"
#include "kv/journal.h"

#include <pthread.h>

#define MARKER_SPACE "kv.group"
#define MARKER_KEY "marker"

enum { MARKER_SIZE = JOURNAL_UUID_SIZE + 4 + 8 };

/* What a record's body begins with. */
enum body_kind { BODY_COMMIT = 1, BODY_PREPARE, BODY_RESOLVE_COMMIT, BODY_RESOLVE_ABORT };
enum op_kind { OP_PUT = 1, OP_DELETE };

struct bytes {
    unsigned char *data;
    size_t size, room;
};

/* A batch in doubt. Its keys' hashes are sorted, to refuse them to others. */
struct prepared {
    struct bytes body; /* as its record */
    uint64_t *keys;
    size_t key_count;
};

struct member {
    char name[KV_GROUP_NAME_SIZE_MAX];
    kv_db *db;
    kv_space *marker;
    kv_batch *batch; /* kept for reuse */
    kv_space *last;  /* the space applied to last */
    bool durable, touched;
};

struct request; /* group.c */

/* A leader waits for those who are on their way back from the group before: no
 * longer than a sync takes, and rarely once that was in vain; and not at all where a
 * sync costs less than to sleep and be woken. */
enum { GATHER_NS_MIN = 50000, GATHER_NS_MAX = 1000000 };
enum { GATHER_PAUSE_MAX = 64 }; /* groups that go at once after waits in vain */

struct gather {
    pthread_cond_t full;   /* the leader waits here */
    size_t queued;         /* requests in the queue */
    size_t away;           /* of the last group, not back yet */
    size_t wanted;         /* in the queue before the leader goes; 0: none waits */
    uint64_t sync_ns;      /* what a sync takes, a moving mean; the leader's */
    unsigned pause, quiet; /* groups that go at once: after the next wait in vain, now */
};

struct kv_group {
    struct journal journal;
    struct member members[KV_GROUP_MEMBERS_MAX];
    size_t member_count;
    struct bytes resolved; /* ids since the last checkpoint, each with a size byte */
    kv_status harm;        /* what made the group useless */
    kv_group_counts work;  /* copied to `counts` when the leader is done */
    /* The leader alone uses what stands above. The mutex guards what follows; the
     * leader alone changes `prepared`, so it may read that without. */
    pthread_mutex_t mutex;
    struct request *queue, **queue_end;
    struct gather gather;
    bool led;
    size_t live_batches;
    struct prepared prepared[KV_GROUP_PREPARED_MAX];
    size_t prepared_count;
    kv_group_counts counts;
};

/* ---- Operations as bytes -------------------------------------------------- */

bool group_bytes_append(struct bytes *bytes, const void *data, size_t size);
bool group_bytes_append_number(struct bytes *bytes, uint64_t number);
bool group_bytes_append_slice(struct bytes *bytes, kv_slice slice);

/* A reader of the same; `bad` sticks. */
struct reader {
    const unsigned char *at, *end;
    bool bad;
};

/* Member, kind, space ("" as in the operation before), key, value of a put. */
struct op {
    size_t member;
    enum op_kind kind;
    kv_slice space, key, value;
};

struct reader group_reader(kv_slice ops);
/* Read the next operation; false at the end or, with `bad` set, where it does not read. */
bool group_read_op(struct reader *reader, struct op *op);
kv_code group_ops_bad(const struct kv_group *group, kv_status *status);

/* A body is its kind, the size of its id, the id, the operations. */
kv_slice group_body_id(kv_slice body);
kv_slice group_body_ops(kv_slice body);

/* ---- Members and what is in doubt ----------------------------------------- */

void group_marker_encode(const kv_group *group, size_t index, uint64_t sequence,
                         unsigned char marker[MARKER_SIZE]);
/* Gather operations for the members; group_members_commit hands them over. */
KV_MUST_CHECK kv_code group_members_gather(kv_group *group, kv_slice ops, kv_status *status);
KV_MUST_CHECK kv_code group_members_commit(kv_group *group, uint64_t sequence,
                                           kv_status *status);
/* Make every member durable, its marker at the journal's end. */
KV_MUST_CHECK kv_code group_members_sync(kv_group *group, kv_status *status);

kv_slice group_prepared_body(const struct prepared *prepared);
struct prepared *group_prepared_find(kv_group *group, kv_slice id);
KV_MUST_CHECK kv_code group_prepared_add(kv_group *group, kv_slice body, kv_status *status);
void group_prepared_remove(kv_group *group, struct prepared *prepared);
/* Does a batch in doubt hold a key of these operations? */
bool group_ops_in_doubt(const kv_group *group, kv_slice ops);

/* ---- For opening and closing ---------------------------------------------- */

KV_MUST_CHECK kv_code group_checkpoint(kv_group *group, kv_status *status);

#endif /* KV_GROUP_INTERNAL_H */
