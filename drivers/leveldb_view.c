/* leveldb_view.c - links and copies. */
#include "drivers/leveldb_view.h"
#include "drivers/engine_damage.h"
#include "kv/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VIEW_COPY_SIZE = 1 << 16 };

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);
    return size >= end_size && strcmp(name + size - end_size, end) == 0;
}

static bool is_rewritten(const char *name)
{
    return strcmp(name, "CURRENT") == 0 || strncmp(name, "MANIFEST-", 9) == 0 ||
           ends_with(name, ".log");
}

static bool copy_bytes(int from, int to)
{
    char buffer[VIEW_COPY_SIZE];
    ssize_t size;
    while ((size = TEMP_FAILURE_RETRY(read(from, buffer, sizeof(buffer)))) > 0)
        for (ssize_t done = 0; done < size;) {
            ssize_t wrote = TEMP_FAILURE_RETRY(write(to, buffer + done, (size_t)(size - done)));
            if (wrote < 0)
                return false;
            done += wrote;
        }
    return size == 0;
}

static bool copy_file(const char *from, const char *to)
{
    int source = open(from, O_RDONLY | O_CLOEXEC);
    if (source < 0)
        return false;
    int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool copied = target >= 0 && copy_bytes(source, target);
    int error = errno;
    if (target >= 0 && close(target) != 0 && copied) {
        copied = false;
        error = errno;
    }
    close(source);
    errno = error;
    return copied;
}

static kv_code show_file(const char *dir, const char *view, const char *name, kv_status *status)
{
    char *from = NULL, *to = NULL;
    kv_code code = KV_OK;
    if (asprintf(&from, "%s/%s", dir, name) < 0 || asprintf(&to, "%s/%s", view, name) < 0)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for the path %s/%s", dir, name);
    else if (engine_is_table(name) ? symlink(from, to) != 0 : !copy_file(from, to))
        code = kv_fail(status, errno == ENOSPC ? KV_NO_SPACE : KV_IO,
                       "cannot make a view of %s in %s: %s", from, view, strerror(errno));
    free(to);
    free(from);
    return code;
}

static kv_code show_files(const char *dir, const char *view, kv_status *status)
{
    DIR *stream = opendir(dir);
    if (stream == NULL)
        return kv_fail(status, KV_IO, "cannot read folder %s: %s", dir, strerror(errno));
    kv_code code = KV_OK;
    const struct dirent *entry;
    errno = 0;
    while (code == KV_OK && (entry = readdir(stream)) != NULL) {
        if (engine_is_table(entry->d_name) || is_rewritten(entry->d_name))
            code = show_file(dir, view, entry->d_name, status);
        errno = 0;
    }
    if (code == KV_OK && errno != 0) /* a log left out would be data left out */
        code = kv_fail(status, KV_IO, "cannot read folder %s: %s", dir, strerror(errno));
    closedir(stream);
    return code;
}

kv_code level_view_make(const char *dir, char **out, kv_status *status)
{
    *out = NULL;
    const char *temporary = getenv("TMPDIR");
    char *view = NULL;
    if (asprintf(&view, "%s/statekv-view-XXXXXX",
                 temporary == NULL || temporary[0] == '\0' ? "/tmp" : temporary) < 0)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a view of %s", dir);
    if (mkdtemp(view) == NULL) {
        kv_fail(status, KV_IO, "cannot make the folder %s to read %s: %s", view, dir,
                strerror(errno));
        free(view);
        return KV_IO;
    }
    kv_code code = show_files(dir, view, status);
    if (code != KV_OK) {
        level_view_remove(view);
        return code;
    }
    *out = view;
    return KV_OK;
}

void level_view_remove(char *view)
{
    if (view == NULL)
        return;
    kv_folder_remove(view);
    free(view);
}
