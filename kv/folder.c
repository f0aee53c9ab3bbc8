/* folder.c - marker, lock and recognition of database folders. */
#include "kv/folder.h"
#include "kv/core.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOLDER_MARKER_SIZE_MAX = 128,
    FOLDER_STATE_SIZE = 5, /* "made\n", the file's last bytes */
    FOLDER_WALK_FDS = 16
};

static kv_code fail_errno(kv_status *status, const char *what, const char *path)
{
    kv_code code = KV_IO;
    if (errno == ENOENT)
        code = KV_NOT_FOUND;
    else if (errno == ENOSPC || errno == EDQUOT)
        code = KV_NO_SPACE;
    else if (errno == ENOMEM)
        code = KV_NO_MEMORY;
    else if (errno == ENOTDIR)
        code = KV_INVALID;
    return kv_fail(status, code, "cannot %s %s: %s", what, path, strerror(errno));
}

static char *path_join(const char *dir, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return NULL;
    return path;
}

kv_code kv_folder_sync(const char *dir, kv_status *status)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(status, "open folder", dir);

    kv_code code = KV_OK;
    if (fsync(fd) != 0)
        code = fail_errno(status, "sync folder", dir);
    close(fd);
    return code;
}

/* ---- Making folders ------------------------------------------------------ */

/* Make one folder and sync its parent; note the highest one we made. */
static kv_code make_one(struct kv_folder *folder, const char *path, kv_status *status)
{
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST ? KV_OK : fail_errno(status, "make folder", path);
    if (folder->made_top == NULL && (folder->made_top = strdup(path)) == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", path);

    char *parent = path_join(path, "..");
    if (parent == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", path);
    kv_code code = kv_folder_sync(parent, status);
    free(parent);
    return code;
}

static kv_code make_all(struct kv_folder *folder, const char *dir, kv_status *status)
{
    char *path = strdup(dir);
    if (path == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", dir);

    kv_code code = KV_OK;
    for (char *end = path + 1; code == KV_OK; end++) {
        if (*end != '/' && *end != '\0')
            continue;
        char rest = *end;
        *end = '\0';
        code = make_one(folder, path, status);
        *end = rest;
        if (rest == '\0')
            break;
    }
    free(path);
    return code;
}

/* Remove the folders from `path` up to `top`, while they are empty. */
static void unmake(char *path, const char *top)
{
    while (rmdir(path) == 0 && strcmp(path, top) != 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path)
            return;
        *slash = '\0';
    }
}

static kv_code find_folder(struct kv_folder *folder, const char *dir, unsigned flags,
                           kv_status *status)
{
    if (dir[0] == '\0')
        return kv_fail(status, KV_INVALID, "no folder given: set db_dir");

    struct stat info;
    if (stat(dir, &info) != 0) {
        if (errno != ENOENT)
            return fail_errno(status, "open folder", dir);
        if ((flags & KV_CREATE) == 0)
            return kv_fail(status, KV_NOT_FOUND, "no database in %s: there is no such folder",
                           dir);
        kv_code code = make_all(folder, dir, status);
        if (code != KV_OK)
            return code;
    } else if (!S_ISDIR(info.st_mode)) {
        return kv_fail(status, KV_INVALID, "%s is not a folder", dir);
    }

    folder->path = realpath(dir, NULL);
    if (folder->path == NULL)
        return fail_errno(status, "open folder", dir);
    return KV_OK;
}

/* ---- The marker ---------------------------------------------------------- */

static int marker_text(char text[FOLDER_MARKER_SIZE_MAX], const char *engine, bool made)
{
    return snprintf(text, FOLDER_MARKER_SIZE_MAX, "statekv database 1\nengine %s\nstate %s\n",
                    engine, made ? "made" : "new ");
}

static kv_code marker_write(int fd, const char *path, const char *engine, bool made,
                            kv_status *status)
{
    char text[FOLDER_MARKER_SIZE_MAX];
    int size = marker_text(text, engine, made);
    if (pwrite(fd, text, (size_t)size, 0) != size || fsync(fd) != 0)
        return fail_errno(status, "write the marker in", path);
    return KV_OK;
}

/* The engine that made an unmarked folder, or NULL. */
static const kv_driver *recognise(const char *dir)
{
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        if (driver->recognise != NULL && driver->recognise(dir))
            return driver;
    return NULL;
}

/* Open the marker; where there is none, make it if the folder may be taken. */
static kv_code marker_open(struct kv_folder *folder, const char *marker, unsigned flags,
                           kv_status *status)
{
    int mode = (flags & KV_OPEN_READ) != 0 ? O_RDONLY : O_RDWR;
    folder->marker = open(marker, mode | O_CLOEXEC);
    if (folder->marker >= 0)
        return KV_OK;
    if (errno != ENOENT)
        return fail_errno(status, "open", marker);

    const kv_driver *holder = recognise(folder->path);
    if (holder != NULL)
        return kv_fail(status, KV_INVALID,
                       "folder %s holds a %s database that statekv did not make: name a new "
                       "folder, and bring the pairs over by statekv import (docs/import.md)",
                       folder->path, holder->name);
    if ((flags & KV_CREATE) == 0 || (flags & KV_OPEN_READ) != 0)
        return kv_fail(status, KV_NOT_FOUND, "no database in %s", folder->path);

    folder->marker = open(marker, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->marker < 0)
        return errno == ENOENT ? kv_fail(status, KV_IO, "folder %s vanished", folder->path)
                               : fail_errno(status, "make", marker);
    return KV_OK;
}

static kv_code marker_lock(const struct kv_folder *folder, unsigned flags, kv_status *status)
{
    int mode = (flags & KV_OPEN_READ) != 0 ? LOCK_SH : LOCK_EX;
    bool locked = flock(folder->marker, mode | LOCK_NB) == 0;
    struct stat info;
    if (locked && fstat(folder->marker, &info) == 0 && info.st_nlink > 0)
        return KV_OK;
    if (locked || errno == EWOULDBLOCK) /* locked: its maker gave up and removed it */
        return kv_fail(status, KV_BUSY,
                       "database %s is open already, here or in another process", folder->path);
    return fail_errno(status, "lock", folder->path);
}

/* Check whose the locked marker is; an empty one was cut short by a crash
 * before any engine saw the folder, and is written anew. */
static kv_code marker_check(struct kv_folder *folder, const kv_driver *driver, unsigned flags,
                            kv_status *status)
{
    char text[FOLDER_MARKER_SIZE_MAX + 1];
    ssize_t size = pread(folder->marker, text, FOLDER_MARKER_SIZE_MAX, 0);
    if (size < 0)
        return fail_errno(status, "read the marker in", folder->path);
    text[size] = '\0';

    if (text[0] == '\0') {
        if ((flags & KV_CREATE) == 0)
            return kv_fail(status, KV_NOT_FOUND, "no database in %s", folder->path);
        folder->fresh = true;
        kv_code code = marker_write(folder->marker, folder->path, driver->name, false, status);
        return code == KV_OK ? kv_folder_sync(folder->path, status) : code;
    }

    char engine[FOLDER_MARKER_SIZE_MAX + 1], state[FOLDER_STATE_SIZE + 1];
    if (sscanf(text, "statekv database 1\nengine %128s\nstate %5s", engine, state) != 2 ||
        (strcmp(state, "made") != 0 && strcmp(state, "new") != 0) || !kv_driver_is_name(engine))
        return kv_fail(status, KV_CORRUPT, "%s/" KV_FOLDER_MARKER " is not a statekv marker",
                       folder->path);
    if (strcmp(engine, driver->name) != 0 && kv_driver_find(engine) == NULL)
        return kv_fail(status, KV_INVALID,
                       "%s/" KV_FOLDER_MARKER " names the engine %s, which is not built in",
                       folder->path, engine);
    if (strcmp(engine, driver->name) != 0)
        return kv_fail(status, KV_INVALID, "folder %s holds %s, config says %s", folder->path,
                       engine, driver->name);
    folder->fresh = state[0] == 'n';
    if (folder->fresh && (flags & KV_CREATE) == 0)
        return kv_fail(status, KV_NOT_FOUND, "no database in %s: making it was cut short",
                       folder->path);
    return KV_OK;
}

kv_code kv_folder_open(struct kv_folder *folder, const char *dir, const kv_driver *driver,
                       unsigned flags, kv_status *status)
{
    *folder = (struct kv_folder)KV_FOLDER_INIT;
    char *marker = NULL;
    kv_code code = find_folder(folder, dir, flags, status);
    if (code != KV_OK)
        goto out;
    marker = path_join(folder->path, KV_FOLDER_MARKER);
    if (marker == NULL) {
        code = kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", dir);
        goto out;
    }
    code = marker_open(folder, marker, flags, status);
    if (code == KV_OK)
        code = marker_lock(folder, flags, status);
    if (code == KV_OK)
        code = marker_check(folder, driver, flags, status);
out:
    free(marker);
    if (code != KV_OK)
        kv_folder_close(folder);
    return code;
}

kv_code kv_folder_finish(struct kv_folder *folder, kv_status *status)
{
    if (!folder->fresh)
        return KV_OK;

    struct stat info;
    if (fstat(folder->marker, &info) != 0 ||
        pwrite(folder->marker, "made\n", FOLDER_STATE_SIZE, info.st_size - FOLDER_STATE_SIZE) !=
            FOLDER_STATE_SIZE ||
        fsync(folder->marker) != 0)
        return fail_errno(status, "write the marker in", folder->path);
    folder->fresh = false;
    return KV_OK;
}

void kv_folder_undo(struct kv_folder *folder, const kv_driver *driver)
{
    bool ours = folder->fresh && folder->path != NULL &&
                (driver->recognise == NULL || !driver->recognise(folder->path));
    char *marker = ours ? path_join(folder->path, KV_FOLDER_MARKER) : NULL;
    if (marker != NULL) {
        unlink(marker);
        if (folder->made_top != NULL) {
            char *top = realpath(folder->made_top, NULL);
            if (top != NULL)
                unmake(folder->path, top);
            free(top);
        }
    }
    free(marker);
}

void kv_folder_close(struct kv_folder *folder)
{
    if (folder->marker >= 0)
        close(folder->marker);
    free(folder->path);
    free(folder->made_top);
    *folder = (struct kv_folder)KV_FOLDER_INIT;
}

kv_code kv_folder_mark(const char *dir, const kv_driver *driver, kv_status *status)
{
    char *marker = path_join(dir, KV_FOLDER_MARKER);
    if (marker == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the path %s", dir);

    kv_code code;
    int fd = open(marker, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        code = fail_errno(status, "make", marker);
    } else {
        code = marker_write(fd, dir, driver->name, true, status);
        close(fd);
    }
    if (code == KV_OK)
        code = kv_folder_sync(dir, status);
    free(marker);
    return code;
}

/* nftw passes no context; the sum is this thread's own. */
static _Thread_local uint64_t walk_size;

static int add_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)path;
    (void)walk;
    if (kind == FTW_F)
        walk_size += (uint64_t)info->st_blocks * 512; /* the unit of st_blocks */
    return 0;
}

uint64_t kv_folder_size(const char *dir)
{
    walk_size = 0;
    nftw(dir, add_entry, FOLDER_WALK_FDS, FTW_PHYS);
    return walk_size;
}

bool kv_folder_has(const char *dir, const char *prefix)
{
    DIR *stream = opendir(dir);
    if (stream == NULL)
        return false;
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(stream)) != NULL)
        found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(stream);
    return found;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    if (remove(path) != 0) {
        /* what cannot be removed stays; the folder above then stays too */
    }
    return 0;
}

void kv_folder_remove(const char *dir)
{
    nftw(dir, remove_entry, FOLDER_WALK_FDS, FTW_DEPTH | FTW_PHYS);
}
