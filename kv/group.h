/*
 * group.h - several databases, one commit point.
 *
 * A group joins up to KV_GROUP_MEMBERS_MAX open databases, of any mix of drivers,
 * behind a redo journal. A batch over them is committed by one write and one
 * fdatasync of the journal, shared by all who commit at that moment, and only then
 * handed to the databases, which need no sync of their own. Opening the group again
 * replays what the databases may have missed, before anybody can write.
 *
 *     kv_group_member members[] = { { "blocks", blocks_db }, { "state", state_db } };
 *     kv_group_open("data/journal", members, 2, NULL, &group, &status)
 *     kv_group_batch_new(group, &batch, &status)
 *     kv_group_batch_put(batch, blocks, height, block)
 *     kv_group_batch_put(batch, balances, alice, less)
 *     kv_group_batch_commit(batch, KV_SYNC, &status)
 *
 * Promises, for batches committed with KV_SYNC: after any crash or power cut, all
 * members hold the same prefix of the group's history. A torn end of the journal is
 * cut back to a whole record; damage before it, a member that was swapped, restored
 * from a backup or left behind, and a lost journal are refused at open with
 * KV_CORRUPT, naming file and offset or member. Without KV_SYNC the same holds for
 * the death of the process, not for a power cut.
 *
 * A member that is not durable (the memory driver) starts empty each time and takes
 * no part in recovery.
 *
 * All writes to a member's spaces go through the group while it is a member, also
 * those to one member alone: a replay would undo what went around it. Each member
 * gets a space "kv.group" with a marker of its place. docs/group.md has every byte.
 *
 * An outside coordinator can split the commit in two: kv_group_batch_prepare under a
 * global id, then kv_group_resolve. What was prepared and not resolved is in doubt,
 * also after a restart, and its keys are refused to others with KV_BUSY until then.
 * An id the group does not know was not prepared here: presume abort.
 *
 * Conventions are kv.h's. Threads: a group may be used by many; a batch belongs to
 * one at a time.
 */
#ifndef KV_GROUP_H
#define KV_GROUP_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KV_GROUP_MEMBERS_MAX 16u
#define KV_GROUP_NAME_SIZE_MAX 32u  /* bytes of a member's name */
#define KV_GROUP_ID_SIZE_MAX 64u    /* bytes of a global id; at least 1 */
#define KV_GROUP_PREPARED_MAX 1024u /* batches in doubt at one time */
#define KV_GROUP_JOURNAL_SIZE_DEFAULT ((uint64_t)64 << 20) /* bytes; twice that on disk */
#define KV_GROUP_JOURNAL_SIZE_MIN ((uint64_t)1 << 16)
#define KV_GROUP_JOURNAL_SIZE_MAX ((uint64_t)4 << 30)

typedef struct kv_group kv_group;
typedef struct kv_group_batch kv_group_batch;

typedef struct kv_group_member {
    const char *name; /* printable; the same at every open */
    kv_db *db;        /* outlives the group */
} kv_group_member;

/* NULL, or all zeros, means the defaults. */
typedef struct kv_group_options {
    uint64_t journal_size; /* bytes between checkpoints; fixed when the group is made */
} kv_group_options;

/*
 * Open, or make, the group whose journal is in the folder `dir`, and bring all
 * members to the same point. KV_BUSY: another process has it. KV_INVALID: not the
 * members it was made with. KV_CORRUPT: see above; nothing was changed.
 */
KV_API KV_MUST_CHECK kv_code kv_group_open(const char *dir, const kv_group_member *members,
                                           size_t count, const kv_group_options *options,
                                           kv_group **out, kv_status *status);

/* Checkpoint and close; KV_BUSY over live batches. The members stay open. */
KV_API KV_MUST_CHECK kv_code kv_group_close(kv_group *group, kv_status *status);

/* Make every member durable, and the journal empty. Done by itself when it fills. */
KV_API KV_MUST_CHECK kv_code kv_group_checkpoint(kv_group *group, kv_status *status);

/* As kv_batch, over the spaces of all members. A space of another database is
 * KV_INVALID at commit; more than fits the journal is KV_TOO_BIG. */
KV_API KV_MUST_CHECK kv_code kv_group_batch_new(kv_group *group, kv_group_batch **out,
                                                kv_status *status);
KV_API void kv_group_batch_put(kv_group_batch *batch, kv_space *space, kv_slice key,
                               kv_slice value);
KV_API void kv_group_batch_delete(kv_group_batch *batch, kv_space *space, kv_slice key);
KV_API void kv_group_batch_clear(kv_group_batch *batch);
KV_API size_t kv_group_batch_count(const kv_group_batch *batch);
KV_API void kv_group_batch_free(kv_group_batch *batch);

/*
 * Commit. KV_OK: committed, visible in every member. KV_READ_ONLY: the group took
 * harm before (a failed sync, a member that refused) and must be opened anew; the
 * message has the first reason. The call in which it takes harm answers that reason
 * itself, and then its batch may or may not be there after the next open, whole.
 */
KV_API KV_MUST_CHECK kv_code kv_group_batch_commit(kv_group_batch *batch, unsigned flags,
                                                   kv_status *status);

/* Make the batch durable under `id`, visible to nobody. The batch is empty after.
 * KV_CONFLICT: the id is in doubt already, or was resolved since the last checkpoint. */
KV_API KV_MUST_CHECK kv_code kv_group_batch_prepare(kv_group_batch *batch, kv_slice id,
                                                    kv_status *status);
/* Commit or abort what was prepared under `id`, durably. KV_NOT_FOUND. */
KV_API KV_MUST_CHECK kv_code kv_group_resolve(kv_group *group, kv_slice id, bool commit,
                                              kv_status *status);
/* Visit the ids in doubt, oldest first; `visit` returns false to stop, and may not
 * use the group. */
KV_API void kv_group_in_doubt(kv_group *group, bool (*visit)(void *context, kv_slice id),
                              void *context);

typedef struct kv_group_counts {
    uint64_t commits, syncs, checkpoints, replayed;
    uint64_t journal_bytes; /* written since open */
} kv_group_counts;

KV_API kv_group_counts kv_group_counts_of(kv_group *group);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KV_GROUP_H */
