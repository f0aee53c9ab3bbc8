/*
 * journal.h - the redo journal of a group: one preallocated file of records.
 *
 *     0        header slot 0 | 4096  header slot 1
 *     8192     region 0, `size` bytes of records
 *     8192+size region 1
 *
 * Epoch e stands in slot and region e % 2; the valid header of the highest epoch is
 * the one in force, so starting an epoch never touches the one before. Records carry
 * their epoch, so what an older epoch left in a region never counts. Numbers are
 * little-endian. docs/group.md has every byte.
 */
#ifndef KV_JOURNAL_H
#define KV_JOURNAL_H

#include "kv/group.h"

enum { JOURNAL_UUID_SIZE = 16 };
enum { JOURNAL_HEADER_SIZE = 4096 };
enum { JOURNAL_RECORD_HEAD_SIZE = 40 };

/* What the header says. */
struct journal_header {
    uint8_t uuid[JOURNAL_UUID_SIZE];
    uint64_t epoch;
    uint64_t sequence; /* of the last record before this epoch */
    uint64_t size;     /* of a region */
    uint32_t member_count;
    char names[KV_GROUP_MEMBERS_MAX][KV_GROUP_NAME_SIZE_MAX];
};

struct journal {
    int lock_fd, fd;
    char *path;
    struct journal_header header;
    uint64_t position;    /* in the region, where the next record goes */
    uint64_t sequence;    /* of the last record written */
    uint64_t synced;      /* of the last record known to be durable */
    unsigned char *write; /* records gathered for one write */
    size_t write_size, write_room;
};

/*
 * Open the journal in `dir`, KV_NOT_FOUND where there is none. Takes the lock of the
 * folder (KV_BUSY). `journal` comes zeroed; after any failure journal_close is due.
 */
KV_MUST_CHECK kv_code journal_open(struct journal *journal, const char *dir, kv_status *status);
/* Make the journal, durably, after journal_open said KV_NOT_FOUND. */
KV_MUST_CHECK kv_code journal_create(struct journal *journal,
                                     const struct journal_header *header, kv_status *status);
void journal_close(struct journal *journal);

/*
 * Visit the bodies of the epoch's records in order. A torn end is passed over;
 * KV_CORRUPT for damage before it. Leaves `position` and `sequence` at the end.
 */
KV_MUST_CHECK kv_code journal_replay(struct journal *journal,
                                     kv_code (*visit)(void *context, uint64_t sequence,
                                                      kv_slice body, kv_status *status),
                                     void *context, kv_status *status);

/* Bytes that a record with a body of `size` takes; is there room for `bytes` more? */
size_t journal_record_size(size_t body_size);
bool journal_has_room(const struct journal *journal, size_t bytes);

/* Gather a record; journal_write writes all gathered ones by one pwrite and, when
 * asked, one fdatasync. After a failure the journal is of no more use. */
KV_MUST_CHECK kv_code journal_gather(struct journal *journal, kv_slice body, kv_status *status);
KV_MUST_CHECK kv_code journal_write(struct journal *journal, bool sync, kv_status *status);

/* Begin the next epoch: `bodies` are its first records (what is in doubt still). */
KV_MUST_CHECK kv_code journal_advance(struct journal *journal, const kv_slice *bodies,
                                      size_t count, kv_status *status);

#endif /* KV_JOURNAL_H */
