/* checkpoint_folder.c - names, and the writer's side: a new one in, old ones out. */
#include "abci_query/checkpoint_folder.h"

#include "abci_query/query.h"
#include "kv/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char dropped_end[] = ".dropped";

/* ---- Names -------------------------------------------------------------- */

kv_code query_checkpoint_path(const char *dir, uint64_t number,
                              char path[QUERY_CHECKPOINT_PATH_MAX], kv_status *status)
{
    int size = snprintf(path, QUERY_CHECKPOINT_PATH_MAX, "%s/%0*llu", dir,
                        QUERY_CHECKPOINT_DIGITS, (unsigned long long)number);
    if (size < 0 || (size_t)size >= QUERY_CHECKPOINT_PATH_MAX)
        return kv_fail(status, KV_INVALID, "%.64s...: the path is too long", dir);
    return KV_OK;
}

static size_t digits(const char *name)
{
    return strspn(name, "0123456789");
}

uint64_t query_checkpoint_number(const char *name)
{
    bool whole = digits(name) == QUERY_CHECKPOINT_DIGITS && name[QUERY_CHECKPOINT_DIGITS] == 0;
    return whole ? strtoull(name, NULL, 10) : 0;
}

/* What a writer that was killed has left: a number with an ending. */
static bool is_remnant(const char *name)
{
    return digits(name) == QUERY_CHECKPOINT_DIGITS && name[QUERY_CHECKPOINT_DIGITS] == '.';
}

static kv_code open_folder(const char *dir, DIR **out, kv_status *status)
{
    *out = opendir(dir);
    if (*out != NULL)
        return KV_OK;
    return kv_fail(status, errno == ENOENT ? KV_NOT_FOUND : KV_IO,
                   "cannot read the folder of checkpoints %s: %s", dir, strerror(errno));
}

kv_code query_checkpoint_newest(const char *dir, uint64_t *out, kv_status *status)
{
    DIR *stream;
    const struct dirent *entry;
    *out = 0;
    kv_code code = open_folder(dir, &stream, status);
    if (code != KV_OK)
        return code;
    errno = 0;
    while ((entry = readdir(stream)) != NULL) {
        uint64_t number = query_checkpoint_number(entry->d_name);
        *out = number > *out ? number : *out;
    }
    if (errno != 0)
        code = kv_fail(status, KV_IO, "cannot read the folder of checkpoints %s: %s", dir,
                       strerror(errno));
    closedir(stream);
    return code;
}

/* ---- Removing ----------------------------------------------------------- */

/* Remove a checkpoint unless somebody has it open. It loses its name first, so that what a
 * kill leaves of it is taken for no checkpoint. */
static void drop(const char *path)
{
    char marker[QUERY_CHECKPOINT_PATH_MAX + sizeof(KV_FOLDER_MARKER)];
    char dropped[QUERY_CHECKPOINT_PATH_MAX + sizeof(dropped_end)];
    snprintf(marker, sizeof(marker), "%s/" KV_FOLDER_MARKER, path);
    snprintf(dropped, sizeof(dropped), "%s%s", path, dropped_end);
    int lock = open(marker, O_RDONLY | O_CLOEXEC);
    if (lock < 0)
        return;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0 && rename(path, dropped) == 0)
        kv_folder_remove(dropped);
    close(lock);
}

/* Remove what was left half made or half removed, and checkpoints up to `last`. */
static kv_code clean(const char *dir, uint64_t last, kv_status *status)
{
    DIR *stream;
    const struct dirent *entry;
    char path[QUERY_CHECKPOINT_PATH_MAX];
    kv_code code = open_folder(dir, &stream, status);
    if (code != KV_OK)
        return code;
    while ((entry = readdir(stream)) != NULL) {
        uint64_t number = query_checkpoint_number(entry->d_name);
        int size = snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (size < 0 || (size_t)size >= sizeof(path))
            continue; /* none of ours */
        if (is_remnant(entry->d_name))
            kv_folder_remove(path);
        else if (number > 0 && number <= last)
            drop(path);
    }
    closedir(stream);
    return KV_OK;
}

/* ---- Writing ------------------------------------------------------------ */

static kv_code publish(state *source, const char *dir, size_t keep, kv_status *status)
{
    char path[QUERY_CHECKPOINT_PATH_MAX];
    uint64_t newest = 0;
    kv_code code = query_checkpoint_newest(dir, &newest, status);
    if (code == KV_OK)
        code = clean(dir, 0, status);
    if (code == KV_OK)
        code = query_checkpoint_path(dir, ++newest, path, status);
    if (code == KV_OK)
        code = kv_checkpoint(state_database(source), path, status);
    if (code != KV_OK || newest <= keep)
        return code;
    return clean(dir, newest - keep, status);
}

kv_code query_checkpoint_write(state *source, const char *dir, size_t keep, kv_status *status)
{
    if (keep == 0)
        return kv_fail(status, KV_INVALID, "at least the newest checkpoint is kept");
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return kv_fail(status, KV_IO, "cannot make the folder of checkpoints %s: %s", dir,
                       strerror(errno));
    int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return kv_fail(status, KV_IO, "cannot open the folder of checkpoints %s: %s", dir,
                       strerror(errno));
    kv_code code = flock(lock, LOCK_EX | LOCK_NB) == 0
                       ? publish(source, dir, keep, status)
                       : kv_fail(status, KV_BUSY, "another writes checkpoints to %s", dir);
    close(lock);
    return code;
}
