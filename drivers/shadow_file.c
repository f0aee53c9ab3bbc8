/* shadow_file.c - reading and writing the files of the shadow driver. */
#include "drivers/shadow_file.h"

#include "kv/little_endian.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#define RECORDS "records"
#define ASIDE "aside"
#define INTENT "intent"
#define NEW ".new"
#define ACCEPTED ".accepted"

enum {
    HEADER_SIZE = 32,  /* of a record, and of an intent */
    CHECKED_FROM = 16, /* the checksum covers what comes after itself */
    CHANGE_SIZE = 16,  /* before each change in an intent */
    VERSION = 1,
    PATH_SIZE = 96 /* of a path inside the database */
};

static const unsigned char record_magic[8] = { 's', 'h', 'a', 'd', 'o', 'w', 'r', '\n' };
static const unsigned char intent_magic[8] = { 's', 'h', 'a', 'd', 'o', 'w', 'i', '\n' };

/* ---- Small things ------------------------------------------------------------ */

/* `name` is in the folder `dir`, one of the two that are open. */
static kv_code fail_at(const struct shadow_files *files, int dir, const char *what,
                       const char *name, kv_status *status)
{
    const char *folder = dir == files->records && dir != files->dir ? RECORDS "/" : "";
    kv_code code = KV_IO;
    if (errno == ENOSPC || errno == EDQUOT)
        code = KV_NO_SPACE;
    else if (errno == ENOMEM)
        code = KV_NO_MEMORY;
    return kv_fail(status, code, "cannot %s %s/%s%s: %s", what, files->path, folder, name,
                   strerror(errno));
}

static kv_code fail_errno(const struct shadow_files *files, const char *what, const char *name,
                          kv_status *status)
{
    return fail_at(files, files->dir, what, name, status);
}

static uint32_t checksum(uint32_t sum, kv_slice bytes)
{
    return (uint32_t)crc32_z(sum, bytes.data, bytes.size);
}

struct shadow_name shadow_name_of(const char *space, kv_slice key)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char size[4];
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx hash;
    struct shadow_name name;
    size_t space_size = strlen(space);
    put_u32(size, (uint32_t)space_size);
    sha256_init(&hash);
    sha256_update(&hash, sizeof(size), size);
    sha256_update(&hash, space_size, (const uint8_t *)space);
    if (key.size > 0)
        sha256_update(&hash, key.size, key.data);
    sha256_digest(&hash, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        name.text[2 * i] = digits[digest[i] >> 4];
        name.text[2 * i + 1] = digits[digest[i] & 15];
    }
    name.text[SHADOW_NAME_SIZE] = '\0';
    return name;
}

static int digit_of(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *at = digit == '\0' ? NULL : strchr(digits, digit);
    return at == NULL ? -1 : (int)(at - digits);
}

static bool is_name(const char *text)
{
    size_t size = 0;
    while (digit_of(text[size]) >= 0)
        size++;
    return size == SHADOW_NAME_SIZE && text[size] == '\0';
}

/* "ab/abcd...", with an ending. */
static void record_path(char path[PATH_SIZE], const struct shadow_name *name,
                        const char *ending)
{
    snprintf(path, PATH_SIZE, "%.2s/%s%s", name->text, name->text, ending);
}

/* ---- Opening ------------------------------------------------------------------ */

kv_code shadow_files_open(struct shadow_files *files, const char *path, unsigned flags,
                          kv_status *status)
{
    *files = (struct shadow_files){ path, -1, -1, (flags & KV_OPEN_READ) != 0 };
    files->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files->dir < 0)
        return fail_errno(files, "open folder", "", status);

    bool make = (flags & KV_CREATE) != 0 && !files->read_only;
    if (make && mkdirat(files->dir, RECORDS, 0755) != 0 && errno != EEXIST) {
        kv_code code = fail_errno(files, "make folder", RECORDS, status);
        shadow_files_close(files);
        return code;
    }
    files->records = openat(files->dir, RECORDS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kv_code code = KV_OK;
    if (files->records < 0)
        code = errno == ENOENT
                   ? kv_fail(status, KV_CORRUPT, "folder %s/" RECORDS " is missing", path)
                   : fail_errno(files, "open folder", RECORDS, status);
    else if (make && fsync(files->dir) != 0)
        code = fail_errno(files, "sync folder", "", status);
    if (code != KV_OK)
        shadow_files_close(files);
    return code;
}

void shadow_files_close(struct shadow_files *files)
{
    if (files->records >= 0)
        close(files->records);
    if (files->dir >= 0)
        close(files->dir);
    files->records = files->dir = -1;
}

/* ---- Writing ------------------------------------------------------------------ */

static kv_code write_all(const struct shadow_files *files, int dir, int file, const char *name,
                         struct iovec *parts, int count, kv_status *status)
{
    while (count > 0) {
        if (parts->iov_len == 0) {
            parts++;
            count--;
            continue;
        }
        ssize_t written = writev(file, parts, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail_at(files, dir, "write", name, status);
        for (size_t left = (size_t)written; left > 0 && count > 0;) {
            size_t some = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + some;
            parts->iov_len -= some;
            left -= some;
            if (parts->iov_len == 0) {
                parts++;
                count--;
            }
        }
    }
    return KV_OK;
}

static struct iovec part_of(kv_slice bytes)
{
    union {
        const void *given;
        void *taken; /* writev only reads */
    } data = { bytes.data };
    return (struct iovec){ data.taken, bytes.size };
}

/* Write a file beside and sync it. `dir` is files->dir or files->records. */
static kv_code write_beside(struct shadow_files *files, int dir, const char *name,
                            struct iovec *parts, int count, kv_status *status)
{
    int file = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        return fail_at(files, dir, "make", name, status);

    kv_code code = write_all(files, dir, file, name, parts, count, status);
    if (code == KV_OK && fsync(file) != 0)
        code = fail_at(files, dir, "sync", name, status);
    if (close(file) != 0 && code == KV_OK)
        code = fail_at(files, dir, "close", name, status);
    if (code != KV_OK)
        unlinkat(dir, name, 0);
    return code;
}

static unsigned folder_of(const struct shadow_name *name)
{
    return (unsigned)(digit_of(name->text[0]) * 16 + digit_of(name->text[1]));
}

static kv_code sync_folder(struct shadow_files *files, const char *name, kv_status *status)
{
    int folder = openat(files->records, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return fail_at(files, files->records, "open folder", name, status);
    kv_code code = fsync(folder) == 0
                       ? KV_OK
                       : fail_at(files, files->records, "sync folder", name, status);
    close(folder);
    return code;
}

static kv_code make_folder(struct shadow_files *files, const char *name, kv_status *status)
{
    if (mkdirat(files->records, name, 0755) != 0)
        return errno == EEXIST ? KV_OK
                               : fail_at(files, files->records, "make folder", name, status);
    return fsync(files->records) == 0 ? KV_OK
                                      : fail_errno(files, "sync folder", RECORDS, status);
}

static kv_code put_file(struct shadow_files *files, const struct shadow_change *change,
                        kv_status *status)
{
    char path[PATH_SIZE];
    char beside[PATH_SIZE];
    char folder[3] = { change->name.text[0], change->name.text[1], '\0' };
    unsigned char header[HEADER_SIZE] = { 0 };
    kv_slice space = kv_text(change->space);
    memcpy(header, record_magic, sizeof(record_magic));
    put_u32(header + 8, VERSION);
    put_u32(header + 16, (uint32_t)space.size);
    put_u32(header + 20, (uint32_t)change->key.size);
    put_u64(header + 24, change->value.size);
    uint32_t sum = checksum(0, kv_bytes(header + CHECKED_FROM, HEADER_SIZE - CHECKED_FROM));
    sum = checksum(sum, space);
    sum = checksum(sum, change->key);
    put_u32(header + 12, checksum(sum, change->value));

    struct iovec parts[] = { part_of(kv_bytes(header, sizeof(header))), part_of(space),
                             part_of(change->key), part_of(change->value) };
    record_path(path, &change->name, "");
    record_path(beside, &change->name, NEW);
    kv_code code = make_folder(files, folder, status);
    if (code == KV_OK)
        code = write_beside(files, files->records, beside, parts, 4, status);
    if (code == KV_OK && renameat(files->records, beside, files->records, path) != 0) {
        code = fail_at(files, files->records, "rename", beside, status);
        unlinkat(files->records, beside, 0);
    }
    return code;
}

static kv_code apply(struct shadow_files *files, const struct shadow_change *change,
                     kv_status *status)
{
    if (change->put)
        return put_file(files, change, status);
    char path[PATH_SIZE];
    record_path(path, &change->name, "");
    if (unlinkat(files->records, path, 0) != 0 && errno != ENOENT)
        return fail_at(files, files->records, "remove", path, status);
    return KV_OK;
}

/* Sync every folder that the changes touched, once. */
static kv_code sync_touched(struct shadow_files *files, const struct shadow_touched *touched,
                            kv_status *status)
{
    for (unsigned i = 0; i < SHADOW_FOLDERS; i++) {
        char folder[3];
        snprintf(folder, sizeof(folder), "%02x", i);
        if ((touched->bits[i / 64] >> (i % 64) & 1) == 0)
            continue;
        if (faccessat(files->records, folder, F_OK, 0) != 0 && errno == ENOENT)
            continue; /* only deletions, of what was never there */
        kv_code code = sync_folder(files, folder, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

static kv_code apply_all(struct shadow_files *files, const struct shadow_change *changes,
                         size_t count, kv_status *status)
{
    struct shadow_touched touched = { { 0 } };
    for (size_t i = 0; i < count; i++) {
        unsigned folder = folder_of(&changes[i].name);
        kv_code code = apply(files, &changes[i], status);
        if (code != KV_OK)
            return code;
        touched.bits[folder / 64] |= UINT64_C(1) << (folder % 64);
    }
    return sync_touched(files, &touched, status);
}

/* ---- Intents ------------------------------------------------------------------- */

/* The bytes of an intent, in one piece; NULL when out of memory. */
static unsigned char *intent_encode(const struct shadow_change *changes, size_t count,
                                    size_t *size)
{
    size_t total = HEADER_SIZE;
    for (size_t i = 0; i < count; i++)
        total += CHANGE_SIZE + strlen(changes[i].space) + changes[i].key.size +
                 changes[i].value.size;
    unsigned char *bytes = calloc(1, total);
    if (bytes == NULL)
        return NULL;

    unsigned char *at = bytes + HEADER_SIZE;
    for (size_t i = 0; i < count; i++) {
        kv_slice parts[] = { kv_text(changes[i].space), changes[i].key, changes[i].value };
        at[0] = changes[i].put ? 1 : 2;
        at[1] = (unsigned char)parts[0].size; /* a space's name has at most 255 bytes */
        put_u32(at + 4, (uint32_t)parts[1].size);
        put_u64(at + 8, parts[2].size);
        at += CHANGE_SIZE;
        for (unsigned p = 0; p < 3; p++) {
            if (parts[p].size > 0)
                memcpy(at, parts[p].data, parts[p].size);
            at += parts[p].size;
        }
    }
    memcpy(bytes, intent_magic, sizeof(intent_magic));
    put_u32(bytes + 8, VERSION);
    put_u64(bytes + 16, count);
    put_u64(bytes + 24, total);
    put_u32(bytes + 12, checksum(0, kv_bytes(bytes + CHECKED_FROM, total - CHECKED_FROM)));
    *size = total;
    return bytes;
}

static int change_order(const void *a, const void *b)
{
    const struct shadow_change *left = a;
    const struct shadow_change *right = b;
    int order = strcmp(left->name.text, right->name.text);
    if (order != 0)
        return order;
    return (left->order > right->order) - (left->order < right->order);
}

/* Keep the last change of each name. */
static size_t changes_settle(struct shadow_change *changes, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(changes, count, sizeof(*changes), change_order);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && strcmp(changes[i].name.text, changes[i + 1].name.text) == 0)
            continue;
        changes[kept++] = changes[i];
    }
    return kept;
}

/* Once the intent is in place the change counts as made. */
static kv_code intent_write(struct shadow_files *files, const struct shadow_change *changes,
                            size_t count, kv_status *status)
{
    size_t size = 0;
    unsigned char *bytes = intent_encode(changes, count, &size);
    if (bytes == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a change of %zu records",
                       count);
    struct iovec part = { bytes, size };
    kv_code code = write_beside(files, files->dir, INTENT NEW, &part, 1, status);
    free(bytes);
    if (code != KV_OK)
        return code;
    if (renameat(files->dir, INTENT NEW, files->dir, INTENT) != 0) {
        code = fail_errno(files, "rename", INTENT NEW, status);
        unlinkat(files->dir, INTENT NEW, 0);
        return code;
    }
    return fsync(files->dir) == 0 ? KV_OK : fail_errno(files, "sync folder", "", status);
}

static kv_code intent_finish(struct shadow_files *files, kv_status *status)
{
    if (unlinkat(files->dir, INTENT, 0) != 0)
        return fail_errno(files, "remove", INTENT, status);
    return fsync(files->dir) == 0 ? KV_OK : fail_errno(files, "sync folder", "", status);
}

kv_code shadow_change(struct shadow_files *files, struct shadow_change *changes, size_t count,
                      kv_status *status)
{
    count = changes_settle(changes, count);
    if (count < 2)
        return apply_all(files, changes, count, status);

    kv_code code = intent_write(files, changes, count, status);
    if (code == KV_OK)
        code = apply_all(files, changes, count, status);
    if (code == KV_OK)
        code = intent_finish(files, status);
    return code;
}

/* ---- Reading ------------------------------------------------------------------- */

/* Read a whole file. KV_NOT_FOUND; KV_IO is not damage. The bytes are freed by
 * the caller. */
static kv_code read_file(const struct shadow_files *files, int dir, const char *name,
                         unsigned char **out, size_t *size, kv_status *status)
{
    struct stat info;
    *out = NULL;
    *size = 0;
    int file = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno == ENOENT ? KV_NOT_FOUND : fail_at(files, dir, "open", name, status);
    kv_code code = KV_OK;
    unsigned char *bytes = NULL;
    size_t got = 0;
    if (fstat(file, &info) != 0)
        code = fail_at(files, dir, "read", name, status);
    else if ((bytes = malloc((size_t)info.st_size + 1)) == NULL)
        code = kv_fail(status, KV_NO_MEMORY, "out of memory for file %s/%s", files->path, name);
    while (code == KV_OK && got < (size_t)info.st_size) {
        ssize_t some = read(file, bytes + got, (size_t)info.st_size - got);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            code = fail_at(files, dir, "read", name, status);
        if (some <= 0)
            break;
        got += (size_t)some;
    }
    close(file);
    if (code != KV_OK) {
        free(bytes);
        return code;
    }
    *out = bytes;
    *size = got;
    return KV_OK;
}

static bool all_zero(const unsigned char *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && bytes[i] == 0)
        i++;
    return i == size;
}

/* The first check every file must pass; the fault, or NULL. */
static const char *header_fault(const unsigned char *bytes, size_t size,
                                const unsigned char magic[8])
{
    if (size == 0)
        return "it is empty";
    if (all_zero(bytes, size))
        return "it holds only NULs";
    if (size < HEADER_SIZE)
        return "it is cut short";
    if (memcmp(bytes, magic, 8) != 0 || get_u32(bytes + 8) != VERSION)
        return "it does not begin as it should";
    if (checksum(0, kv_bytes(bytes + CHECKED_FROM, size - CHECKED_FROM)) != get_u32(bytes + 12))
        return "its checksum differs";
    return NULL;
}

/* `space` gets the name; KEY and VALUE point into `bytes`. */
static const char *record_fault(const unsigned char *bytes, size_t size,
                                const struct shadow_name *name, struct shadow_seen *seen,
                                char space[KV_SPACE_NAME_SIZE_MAX + 1])
{
    const char *fault = header_fault(bytes, size, record_magic);
    if (fault != NULL)
        return fault;
    uint32_t space_size = get_u32(bytes + 16);
    uint32_t key_size = get_u32(bytes + 20);
    uint64_t value_size = get_u64(bytes + 24);
    if (space_size < 1 || space_size > KV_SPACE_NAME_SIZE_MAX || key_size > KV_KEY_SIZE_MAX ||
        value_size > KV_VALUE_SIZE_MAX ||
        HEADER_SIZE + (uint64_t)space_size + key_size + value_size != size)
        return "its sizes do not fit";
    memcpy(space, bytes + HEADER_SIZE, space_size);
    space[space_size] = '\0';
    seen->key = kv_bytes(bytes + HEADER_SIZE + space_size, key_size);
    seen->value = kv_bytes(bytes + HEADER_SIZE + space_size + key_size, value_size);
    struct shadow_name expected = shadow_name_of(space, seen->key);
    if (strcmp(expected.text, name->text) != 0)
        return "it holds another record than its name says";
    seen->space = space;
    return NULL;
}

/* Move a bad file to aside/, where the next opening finds it again. */
static kv_code put_aside(struct shadow_files *files, const struct shadow_name *name,
                         kv_status *status)
{
    char path[PATH_SIZE];
    char aside[PATH_SIZE];
    record_path(path, name, "");
    snprintf(aside, sizeof(aside), ASIDE "/%s", name->text);
    if (files->read_only)
        return KV_OK;
    if (mkdirat(files->dir, ASIDE, 0755) != 0 && errno != EEXIST)
        return fail_errno(files, "make folder", ASIDE, status);
    if (renameat(files->records, path, files->dir, aside) != 0)
        return fail_at(files, files->records, "put aside", path, status);
    return KV_OK;
}

static kv_code visit_one(struct shadow_files *files, const char *text, shadow_visit *visit,
                         void *context, kv_status *status)
{
    struct shadow_seen seen = { .space = NULL };
    char space[KV_SPACE_NAME_SIZE_MAX + 1];
    char path[PATH_SIZE];
    unsigned char *bytes = NULL;
    size_t size = 0;
    memcpy(seen.name.text, text, sizeof(seen.name.text));
    record_path(path, &seen.name, "");
    kv_code code = read_file(files, files->records, path, &bytes, &size, status);
    if (code != KV_OK)
        return code;
    assert(bytes != NULL);
    seen.fault = record_fault(bytes, size, &seen.name, &seen, space);
    if (seen.fault != NULL)
        code = put_aside(files, &seen.name, status);
    if (code == KV_OK)
        code = visit(context, &seen, status);
    free(bytes);
    return code;
}

static DIR *open_list(const struct shadow_files *files, int dir, const char *name,
                      kv_status *status)
{
    int folder = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = folder < 0 ? NULL : fdopendir(folder);
    if (list == NULL && errno != ENOENT)
        kv_fail(status, KV_IO, "cannot read folder %s/%s: %s", files->path, name,
                strerror(errno));
    if (list == NULL && folder >= 0)
        close(folder);
    return list;
}

/* The next record's file; NULL at the end, with errno set where the folder cannot be read. */
static const struct dirent *next_record(DIR *list)
{
    const struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(list);
    } while (entry != NULL && !is_name(entry->d_name));
    return entry;
}

static kv_code visit_folder(struct shadow_files *files, const char *name, shadow_visit *visit,
                            void *context, kv_status *status)
{
    kv_status fault = KV_STATUS_INIT;
    DIR *list = open_list(files, files->records, name, &fault);
    if (list == NULL)
        return fault.code == KV_OK ? KV_OK : kv_fail(status, fault.code, "%s", fault.message);

    kv_code code = KV_OK;
    struct dirent *entry;
    errno = 0;
    while (code == KV_OK && (entry = readdir(list)) != NULL) {
        size_t size = strlen(entry->d_name);
        if (is_name(entry->d_name)) {
            code = visit_one(files, entry->d_name, visit, context, status);
        } else if (size == SHADOW_NAME_SIZE + strlen(NEW) &&
                   strcmp(entry->d_name + SHADOW_NAME_SIZE, NEW) == 0 && !files->read_only) {
            /* Never acknowledged: its write did not come to the rename. */
            if (unlinkat(dirfd(list), entry->d_name, 0) != 0)
                code = fail_errno(files, "remove", entry->d_name, status);
        }
        errno = 0;
    }
    if (code == KV_OK && errno != 0)
        code = fail_at(files, files->records, "read folder", name, status);
    closedir(list);
    return code;
}

static kv_code visit_aside(struct shadow_files *files, shadow_visit *visit, void *context,
                           kv_status *status)
{
    kv_status fault = KV_STATUS_INIT;
    DIR *list = open_list(files, files->dir, ASIDE, &fault);
    if (list == NULL)
        return fault.code == KV_OK ? KV_OK : kv_fail(status, fault.code, "%s", fault.message);
    kv_code code = KV_OK;
    const struct dirent *entry;
    while (code == KV_OK && (entry = next_record(list)) != NULL) {
        struct shadow_seen seen = { .space = NULL, .fault = "it was put aside earlier" };
        memcpy(seen.name.text, entry->d_name, sizeof(seen.name.text));
        code = visit(context, &seen, status);
    }
    if (code == KV_OK && errno != 0)
        code = fail_errno(files, "read folder", ASIDE, status);
    closedir(list);
    return code;
}

kv_code shadow_records_visit(struct shadow_files *files, shadow_visit *visit, void *context,
                             kv_status *status)
{
    kv_code code = visit_aside(files, visit, context, status);
    for (unsigned i = 0; i < SHADOW_FOLDERS && code == KV_OK; i++) {
        char folder[3];
        snprintf(folder, sizeof(folder), "%02x", i);
        code = visit_folder(files, folder, visit, context, status);
    }
    return code;
}

/* ---- Intents again -------------------------------------------------------------- */

/* Decode one change at `at`; the bytes it takes, or 0 when they do not fit. */
static size_t change_decode(const unsigned char *at, size_t left, struct shadow_change *change,
                            char space[KV_SPACE_NAME_SIZE_MAX + 1])
{
    if (left < CHANGE_SIZE)
        return 0;
    size_t space_size = at[1];
    uint32_t key_size = get_u32(at + 4);
    uint64_t value_size = get_u64(at + 8);
    if ((at[0] != 1 && at[0] != 2) || space_size < 1 || key_size > KV_KEY_SIZE_MAX ||
        value_size > KV_VALUE_SIZE_MAX ||
        CHANGE_SIZE + space_size + key_size + value_size > left)
        return 0;
    memcpy(space, at + CHANGE_SIZE, space_size);
    space[space_size] = '\0';
    change->put = at[0] == 1;
    change->space = space;
    change->key = kv_bytes(at + CHANGE_SIZE + space_size, key_size);
    change->value = kv_bytes(at + CHANGE_SIZE + space_size + key_size, value_size);
    change->name = shadow_name_of(space, change->key);
    return CHANGE_SIZE + space_size + key_size + value_size;
}

kv_code shadow_intent_visit(struct shadow_files *files,
                            kv_code (*visit)(void *context, const struct shadow_change *change,
                                             kv_status *status),
                            void *context, kv_status *status)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    kv_code code = read_file(files, files->dir, INTENT, &bytes, &size, status);
    if (code != KV_OK)
        return code;
    assert(bytes != NULL);
    const char *fault = header_fault(bytes, size, intent_magic);
    if (fault == NULL && get_u64(bytes + 24) != size)
        fault = "its sizes do not fit";
    uint64_t count = fault == NULL ? get_u64(bytes + 16) : 0;
    size_t at = HEADER_SIZE;
    for (uint64_t i = 0; i < count && code == KV_OK && fault == NULL; i++) {
        struct shadow_change change = { .order = 0 };
        char space[KV_SPACE_NAME_SIZE_MAX + 1];
        size_t used = change_decode(bytes + at, size - at, &change, space);
        if (used == 0)
            fault = "its sizes do not fit";
        else
            code = visit(context, &change, status);
        at += used;
    }
    free(bytes);
    if (fault != NULL)
        return kv_fail(status, KV_CORRUPT,
                       "%s/" INTENT " is damaged (%s): the last change may be half made; "
                       "repair keeps what is there",
                       files->path, fault);
    return code;
}

struct redo {
    struct shadow_files *files;
    struct shadow_touched touched;
};

static kv_code redo_one(void *context, const struct shadow_change *change, kv_status *status)
{
    struct redo *redo = context;
    unsigned folder = folder_of(&change->name);
    redo->touched.bits[folder / 64] |= UINT64_C(1) << (folder % 64);
    return apply(redo->files, change, status);
}

kv_code shadow_intent_redo(struct shadow_files *files, kv_status *status)
{
    struct redo redo = { files, { { 0 } } };
    if (unlinkat(files->dir, INTENT NEW, 0) != 0 && errno != ENOENT)
        return fail_errno(files, "remove", INTENT NEW, status);
    kv_code code = shadow_intent_visit(files, redo_one, &redo, status);
    if (code == KV_NOT_FOUND)
        return KV_OK;
    if (code == KV_OK)
        code = sync_touched(files, &redo.touched, status);
    if (code == KV_OK)
        code = intent_finish(files, status);
    return code;
}

/* ---- What was put aside ---------------------------------------------------------- */

void shadow_aside_remove(struct shadow_files *files, const struct shadow_name *name)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), ASIDE "/%s", name->text);
    unlinkat(files->dir, path, 0);
}

/* Rename every file in aside/, and a damaged intent, so that opening passes over
 * them; they stay for whoever wants to look. */
kv_code shadow_aside_accept(struct shadow_files *files, kv_status *status)
{
    kv_status fault = KV_STATUS_INIT;
    DIR *list = open_list(files, files->dir, ASIDE, &fault);
    const struct dirent *entry;
    kv_code code = fault.code;
    while (code == KV_OK && list != NULL && (entry = next_record(list)) != NULL) {
        char path[PATH_SIZE];
        snprintf(path, sizeof(path), "%.*s" ACCEPTED, SHADOW_NAME_SIZE, entry->d_name);
        if (renameat(dirfd(list), entry->d_name, dirfd(list), path) != 0)
            code = fail_errno(files, "rename", entry->d_name, &fault);
    }
    if (code == KV_OK && list != NULL && errno != 0)
        code = fail_errno(files, "read folder", ASIDE, &fault);
    if (list != NULL)
        closedir(list);
    if (code == KV_OK && renameat(files->dir, INTENT, files->dir, INTENT ACCEPTED) != 0 &&
        errno != ENOENT)
        code = fail_errno(files, "rename", INTENT, &fault);
    return code == KV_OK ? KV_OK : kv_fail(status, code, "%s", fault.message);
}
