/* input.c - files mapped whole. */
#include "tools/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_SIZE = 1 << 16 };

/* What cannot be mapped in a temporary file, since it is read more than once. */
static kv_code spool(const char *name, int from, FILE **out, kv_status *status)
{
    char bytes[COPY_SIZE];
    FILE *file = tmpfile();
    if (file == NULL)
        return kv_fail(status, KV_IO, "no temporary file for %s: %s", name, strerror(errno));
    ssize_t size = 0;
    do {
        size = read(from, bytes, sizeof(bytes));
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 || fwrite(bytes, 1, (size_t)size, file) != (size_t)size)
            break;
    } while (size != 0);
    if (size != 0 || fflush(file) != 0) {
        int reason = errno;
        fclose(file);
        return kv_fail(status, KV_IO, "%s, copied to a temporary file: %s", name,
                       strerror(reason));
    }
    *out = file;
    return KV_OK;
}

/* The file's pages, over reserved ones that also hold the padding. */
static kv_code map_file(struct input *input, int fd, kv_status *status)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return kv_fail(status, KV_IO, "%s: %s", input->name, strerror(errno));
    size_t size = (size_t)facts.st_size;
    size_t map_size = size + INPUT_PADDING;
    void *map = mmap(NULL, map_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return kv_fail(status, KV_NO_MEMORY, "%s: no room to map %zu bytes", input->name, size);
    input->map = map;
    input->map_size = map_size;
    input->bytes = kv_bytes(map, size);
    if (size > 0 && mmap(map, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        kv_fail(status, KV_IO, "%s: %s", input->name, strerror(errno));
        input_close(input);
        return KV_IO;
    }
    return KV_OK;
}

/* A file is mapped as it is; a pipe, a device or the rest of a file is copied first. */
static kv_code map_any(struct input *input, int fd, kv_status *status)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return kv_fail(status, KV_IO, "%s: %s", input->name, strerror(errno));
    if (S_ISREG(facts.st_mode) && lseek(fd, 0, SEEK_CUR) == 0)
        return map_file(input, fd, status);
    if (S_ISDIR(facts.st_mode))
        return kv_fail(status, KV_INVALID, "%s: is a folder", input->name);
    FILE *file = NULL;
    kv_code code = spool(input->name, fd, &file, status);
    if (code != KV_OK)
        return code;
    code = map_file(input, fileno(file), status);
    fclose(file);
    return code;
}

kv_code input_open(struct input *input, const char *path, kv_status *status)
{
    bool standard = strcmp(path, "-") == 0;
    *input = (struct input){ .name = standard ? "standard input" : path };
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kv_fail(status, KV_INVALID, "%s: %s", path, strerror(errno));
    kv_code code = map_any(input, fd, status);
    if (!standard)
        close(fd);
    return code;
}

void input_close(struct input *input)
{
    if (input->map != NULL)
        munmap(input->map, input->map_size);
    input->map = NULL;
    input->bytes = kv_bytes(NULL, 0);
}

size_t input_line(const struct input *input, size_t at)
{
    const char *text = input->bytes.data;
    const char *end = text + (at < input->bytes.size ? at : input->bytes.size);
    size_t line = 1;
    while (text < end && (text = memchr(text, '\n', (size_t)(end - text))) != NULL) {
        text++;
        line++;
    }
    return line;
}
