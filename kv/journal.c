/* journal.c - the file of a group's redo journal. */
#include "kv/journal.h"
#include "kv/little_endian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const char header_magic[8] = { 's', 'k', 'v', 'g', 'r', 'p', '0', '1' };
enum { RECORD_MAGIC = 0x52564b53 }; /* "SKVR" */
enum {
    HEADER_BODY_SIZE = 8 + JOURNAL_UUID_SIZE + 8 + 8 + 8 + 4 +
                       (int)(KV_GROUP_MEMBERS_MAX * KV_GROUP_NAME_SIZE_MAX)
};

static uint32_t checksum(const unsigned char *bytes, size_t size)
{
    return (uint32_t)crc32_z(0, bytes, size);
}

/* ---- Reading and writing whole runs --------------------------------------- */

static kv_code file_fail(const struct journal *journal, const char *what, kv_status *status)
{
    int error = errno;
    return kv_fail(status, error == ENOSPC || error == EDQUOT ? KV_NO_SPACE : KV_IO,
                   "%s: %s: %s", journal->path, what, strerror(error));
}

static kv_code write_at(const struct journal *journal, const void *bytes, size_t size,
                        uint64_t offset, kv_status *status)
{
    const unsigned char *at = bytes;
    while (size > 0) {
        ssize_t done = pwrite(journal->fd, at, size, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return file_fail(journal, "write", status);
        at += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
    }
    return KV_OK;
}

static kv_code read_at(const struct journal *journal, void *bytes, size_t size, uint64_t offset,
                       kv_status *status)
{
    unsigned char *at = bytes;
    while (size > 0) {
        ssize_t done = pread(journal->fd, at, size, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return file_fail(journal, "read", status);
        if (done == 0)
            return kv_fail(status, KV_CORRUPT, "%s: ends at byte %llu: cut short",
                           journal->path, (unsigned long long)offset);
        at += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
    }
    return KV_OK;
}

static uint64_t region_offset(const struct journal_header *header)
{
    return 2 * (uint64_t)JOURNAL_HEADER_SIZE + (header->epoch % 2) * header->size;
}

/* ---- Headers -------------------------------------------------------------- */

static void header_encode(const struct journal_header *header, unsigned char *block)
{
    memset(block, 0, JOURNAL_HEADER_SIZE);
    unsigned char *at = block;
    memcpy(at, header_magic, sizeof(header_magic));
    memcpy(at + 8, header->uuid, JOURNAL_UUID_SIZE);
    put_u64(at + 24, header->epoch);
    put_u64(at + 32, header->sequence);
    put_u64(at + 40, header->size);
    put_u32(at + 48, header->member_count);
    memcpy(at + 52, header->names, sizeof(header->names));
    put_u32(block + HEADER_BODY_SIZE, checksum(block, HEADER_BODY_SIZE));
}

static bool header_decode(const unsigned char *block, unsigned slot,
                          struct journal_header *header)
{
    if (memcmp(block, header_magic, sizeof(header_magic)) != 0 ||
        get_u32(block + HEADER_BODY_SIZE) != checksum(block, HEADER_BODY_SIZE))
        return false;
    memcpy(header->uuid, block + 8, JOURNAL_UUID_SIZE);
    header->epoch = get_u64(block + 24);
    header->sequence = get_u64(block + 32);
    header->size = get_u64(block + 40);
    header->member_count = get_u32(block + 48);
    memcpy(header->names, block + 52, sizeof(header->names));
    return header->epoch % 2 == slot && header->size >= KV_GROUP_JOURNAL_SIZE_MIN &&
           header->size <= KV_GROUP_JOURNAL_SIZE_MAX && header->member_count >= 1 &&
           header->member_count <= KV_GROUP_MEMBERS_MAX;
}

static kv_code header_write(const struct journal *journal, const struct journal_header *header,
                            kv_status *status)
{
    unsigned char block[JOURNAL_HEADER_SIZE];
    header_encode(header, block);
    return write_at(journal, block, sizeof(block),
                    (header->epoch % 2) * (uint64_t)JOURNAL_HEADER_SIZE, status);
}

static kv_code header_read(struct journal *journal, kv_status *status)
{
    struct stat file;
    if (fstat(journal->fd, &file) != 0)
        return file_fail(journal, "stat", status);
    bool found = false;
    for (unsigned slot = 0; slot < 2; slot++) {
        unsigned char block[JOURNAL_HEADER_SIZE];
        struct journal_header header;
        kv_code code = read_at(journal, block, sizeof(block),
                               slot * (uint64_t)JOURNAL_HEADER_SIZE, status);
        if (code != KV_OK)
            return code;
        if (header_decode(block, slot, &header) &&
            (!found || header.epoch > journal->header.epoch)) {
            journal->header = header;
            found = true;
        }
    }
    if (!found)
        return kv_fail(status, KV_CORRUPT, "%s: neither header is whole", journal->path);
    uint64_t size = 2 * (JOURNAL_HEADER_SIZE + journal->header.size);
    if ((uint64_t)file.st_size != size)
        return kv_fail(status, KV_CORRUPT, "%s: is %lld bytes, not %llu", journal->path,
                       (long long)file.st_size, (unsigned long long)size);
    journal->sequence = journal->header.sequence;
    journal->synced = journal->header.sequence;
    return KV_OK;
}

/* ---- Opening -------------------------------------------------------------- */

static kv_code folder_lock(struct journal *journal, const char *dir, kv_status *status)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/journal", dir) >= (int)sizeof(path))
        return kv_fail(status, KV_INVALID, "the path of the journal's folder is too long");
    journal->path = strdup(path);
    if (journal->path == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a path");
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return kv_fail(status, KV_IO, "%s: %s", dir, strerror(errno));
    journal->lock_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal->lock_fd < 0)
        return kv_fail(status, KV_IO, "%s: %s", dir, strerror(errno));
    if (flock(journal->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return kv_fail(status, KV_BUSY, "%s: in use by another group", dir);
    return KV_OK;
}

kv_code journal_open(struct journal *journal, const char *dir, kv_status *status)
{
    journal->fd = -1;
    journal->lock_fd = -1;
    kv_code code = folder_lock(journal, dir, status);
    if (code != KV_OK)
        return code;
    journal->fd = open(journal->path, O_RDWR | O_CLOEXEC);
    if (journal->fd < 0 && errno == ENOENT)
        return KV_NOT_FOUND;
    if (journal->fd < 0)
        return file_fail(journal, "open", status);
    return header_read(journal, status);
}

static kv_code zero_fill(const struct journal *journal, uint64_t size, kv_status *status)
{
    static const unsigned char zeros[1 << 16];
    int failed = posix_fallocate(journal->fd, 0, (off_t)size);
    if (failed != 0) {
        errno = failed;
        return file_fail(journal, "reserve space", status);
    }
    kv_code code = KV_OK;
    for (uint64_t at = 0; at < size && code == KV_OK; at += sizeof(zeros)) {
        size_t step = size - at < sizeof(zeros) ? (size_t)(size - at) : sizeof(zeros);
        code = write_at(journal, zeros, step, at, status);
    }
    return code;
}

kv_code journal_create(struct journal *journal, const struct journal_header *header,
                       kv_status *status)
{
    char path[4096 + 8];
    snprintf(path, sizeof(path), "%s.new", journal->path);
    journal->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (journal->fd < 0)
        return file_fail(journal, "create", status);
    kv_code code = zero_fill(journal, 2 * (JOURNAL_HEADER_SIZE + header->size), status);
    if (code == KV_OK)
        code = header_write(journal, header, status);
    if (code == KV_OK && fsync(journal->fd) != 0)
        code = file_fail(journal, "sync", status);
    if (code == KV_OK && rename(path, journal->path) != 0)
        code = file_fail(journal, "rename", status);
    if (code == KV_OK && fsync(journal->lock_fd) != 0)
        code = file_fail(journal, "sync folder", status);
    if (code != KV_OK) {
        unlink(path);
        return code;
    }
    journal->header = *header;
    journal->sequence = header->sequence;
    journal->synced = header->sequence;
    return KV_OK;
}

void journal_close(struct journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    if (journal->lock_fd >= 0)
        close(journal->lock_fd);
    free(journal->path);
    free(journal->write);
    *journal = (struct journal){ .fd = -1, .lock_fd = -1 };
}

/* ---- Records -------------------------------------------------------------- */

size_t journal_record_size(size_t body_size)
{
    return (JOURNAL_RECORD_HEAD_SIZE + body_size + 7) & ~(size_t)7;
}

bool journal_has_room(const struct journal *journal, size_t bytes)
{
    return bytes <= journal->header.size - journal->position - journal->write_size;
}

/*
 *  0 u32 magic     8 u64 epoch      24 u64 synced: the last record durable when
 *  4 u32 size     16 u64 sequence      this one was written
 * 32 u32 crc32 of the whole record with this field zero      36 u32 body size
 */
static void record_encode(unsigned char *at, uint64_t epoch, uint64_t sequence, uint64_t synced,
                          kv_slice body)
{
    size_t size = journal_record_size(body.size);
    memset(at, 0, JOURNAL_RECORD_HEAD_SIZE);
    put_u32(at, RECORD_MAGIC);
    put_u32(at + 4, (uint32_t)size);
    put_u64(at + 8, epoch);
    put_u64(at + 16, sequence);
    put_u64(at + 24, synced);
    put_u32(at + 36, (uint32_t)body.size);
    memcpy(at + JOURNAL_RECORD_HEAD_SIZE, body.data, body.size);
    memset(at + JOURNAL_RECORD_HEAD_SIZE + body.size, 0,
           size - JOURNAL_RECORD_HEAD_SIZE - body.size);
    put_u32(at + 32, checksum(at, size));
}

struct record {
    uint64_t sequence, synced;
    size_t size;
    kv_slice body;
};

static bool record_decode(unsigned char *at, size_t left, uint64_t epoch, struct record *record)
{
    if (left < JOURNAL_RECORD_HEAD_SIZE || get_u32(at) != RECORD_MAGIC ||
        get_u64(at + 8) != epoch)
        return false;
    size_t size = get_u32(at + 4), body_size = get_u32(at + 36);
    if (size > left || body_size > size || journal_record_size(body_size) != size)
        return false;
    uint32_t stored = get_u32(at + 32);
    put_u32(at + 32, 0);
    bool whole = checksum(at, size) == stored;
    put_u32(at + 32, stored);
    *record = (struct record){ get_u64(at + 16), get_u64(at + 24), size,
                               kv_bytes(at + JOURNAL_RECORD_HEAD_SIZE, body_size) };
    return whole;
}

/*
 * The records end at `end`. That is a torn end, or plain emptiness, unless a record
 * beyond it says that what should stand here had been durable before it was written.
 */
static kv_code end_check(const struct journal *journal, unsigned char *region, size_t end,
                         kv_status *status)
{
    size_t size = (size_t)journal->header.size;
    for (size_t at = end; at + JOURNAL_RECORD_HEAD_SIZE <= size; at += 8) {
        struct record record;
        if (record_decode(region + at, size - at, journal->header.epoch, &record) &&
            record.synced > journal->sequence)
            return kv_fail(status, KV_CORRUPT,
                           "%s: record %llu at byte %llu is damaged, and later ones are whole: "
                           "restore the group from a backup",
                           journal->path, (unsigned long long)journal->sequence + 1,
                           (unsigned long long)region_offset(&journal->header) + end);
    }
    return KV_OK;
}

kv_code journal_replay(struct journal *journal,
                       kv_code (*visit)(void *context, uint64_t sequence, kv_slice body,
                                        kv_status *status),
                       void *context, kv_status *status)
{
    size_t size = (size_t)journal->header.size;
    unsigned char *region = malloc(size);
    if (region == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to read the journal of %zu bytes",
                       size);
    journal->sequence = journal->header.sequence;
    kv_code code = read_at(journal, region, size, region_offset(&journal->header), status);

    size_t at = 0;
    struct record record;
    while (code == KV_OK &&
           record_decode(region + at, size - at, journal->header.epoch, &record) &&
           record.sequence == journal->sequence + 1) {
        code = visit(context, record.sequence, record.body, status);
        journal->sequence = record.sequence;
        at += record.size;
    }
    if (code == KV_OK)
        code = end_check(journal, region, at, status);
    journal->position = at;
    free(region);
    return code;
}

kv_code journal_gather(struct journal *journal, kv_slice body, kv_status *status)
{
    size_t size = journal_record_size(body.size);
    if (journal->write_room - journal->write_size < size) {
        size_t room = 2 * journal->write_room + size;
        unsigned char *write = realloc(journal->write, room);
        if (write == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for a record of %zu bytes", size);
        journal->write = write;
        journal->write_room = room;
    }
    record_encode(journal->write + journal->write_size, journal->header.epoch,
                  journal->sequence + 1, journal->synced, body);
    journal->write_size += size;
    journal->sequence++;
    return KV_OK;
}

kv_code journal_write(struct journal *journal, bool sync, kv_status *status)
{
    size_t size = journal->write_size;
    journal->write_size = 0;
    kv_code code = write_at(journal, journal->write, size,
                            region_offset(&journal->header) + journal->position, status);
    if (code == KV_OK && sync && fdatasync(journal->fd) != 0)
        code = file_fail(journal, "sync", status);
    if (code != KV_OK)
        return code;
    journal->position += size;
    if (sync)
        journal->synced = journal->sequence;
    return KV_OK;
}

kv_code journal_advance(struct journal *journal, const kv_slice *bodies, size_t count,
                        kv_status *status)
{
    /* The new region is written and durable before the header that names it. */
    struct journal_header header = journal->header;
    header.epoch++;
    header.sequence = journal->sequence;
    journal->header = header;
    journal->position = 0;
    kv_code code = KV_OK;
    for (size_t i = 0; i < count && code == KV_OK; i++)
        code = journal_gather(journal, bodies[i], status);
    if (code == KV_OK && count > 0)
        code = journal_write(journal, true, status);
    if (code == KV_OK)
        code = header_write(journal, &header, status);
    if (code == KV_OK && fdatasync(journal->fd) != 0)
        code = file_fail(journal, "sync", status);
    return code;
}
