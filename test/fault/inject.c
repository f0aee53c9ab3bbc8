/* inject.c - the wrappers that fail. */
#include "test/fault/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>

const char *const inject_names[INJECT_KINDS] = { "allocation", "open", "read",
                                                 "write",      "sync", "rename" };

static atomic_int wanted_kind = -1;
static atomic_ulong wanted, seen;
static atomic_int wanted_error;
static atomic_bool wanted_stays;

void inject_start(enum inject_kind kind, unsigned long nth, int error, int stay)
{
    atomic_store(&seen, 0);
    atomic_store(&wanted, nth);
    atomic_store(&wanted_error, error);
    atomic_store(&wanted_stays, stay != 0);
    atomic_store(&wanted_kind, (int)kind);
}

unsigned long inject_stop(void)
{
    atomic_store(&wanted_kind, -1);
    return atomic_load(&seen);
}

static bool fails(enum inject_kind kind)
{
    if (atomic_load_explicit(&wanted_kind, memory_order_relaxed) != (int)kind)
        return false;
    unsigned long number = atomic_fetch_add(&seen, 1) + 1;
    unsigned long nth = atomic_load(&wanted);
    if (nth == 0 || number < nth || (number > nth && !atomic_load(&wanted_stays)))
        return false;
    errno = atomic_load(&wanted_error);
    return true;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the names are the linker's. */
#define WRAP(type, name, parameters, arguments, kind, failed)    \
    type __real_##name parameters;                               \
    type __wrap_##name parameters;                               \
    type __wrap_##name parameters                                \
    {                                                            \
        return fails(kind) ? (failed) : __real_##name arguments; \
    }

WRAP(void *, malloc, (size_t size), (size), INJECT_ALLOCATION, NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), INJECT_ALLOCATION, NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), INJECT_ALLOCATION, NULL)
WRAP(void *, aligned_alloc, (size_t align, size_t size), (align, size), INJECT_ALLOCATION, NULL)
WRAP(char *, strdup, (const char *text), (text), INJECT_ALLOCATION, NULL)
WRAP(char *, strndup, (const char *text, size_t size), (text, size), INJECT_ALLOCATION, NULL)
WRAP(int, vasprintf, (char **out, const char *format, va_list list), (out, format, list),
     INJECT_ALLOCATION, -1)

int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int size = fails(INJECT_ALLOCATION) ? -1 : __real_vasprintf(out, format, list);
    va_end(list);
    return size;
}

WRAP(ssize_t, read, (int file, void *to, size_t size), (file, to, size), INJECT_READ, -1)
WRAP(ssize_t, pread, (int file, void *to, size_t size, off_t at), (file, to, size, at),
     INJECT_READ, -1)
WRAP(ssize_t, pread64, (int file, void *to, size_t size, off_t at), (file, to, size, at),
     INJECT_READ, -1)
WRAP(ssize_t, write, (int file, const void *from, size_t size), (file, from, size),
     INJECT_WRITE, -1)
WRAP(ssize_t, pwrite, (int file, const void *from, size_t size, off_t at),
     (file, from, size, at), INJECT_WRITE, -1)
WRAP(ssize_t, pwrite64, (int file, const void *from, size_t size, off_t at),
     (file, from, size, at), INJECT_WRITE, -1)
WRAP(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count),
     INJECT_WRITE, -1)
WRAP(int, fsync, (int file), (file), INJECT_SYNC, -1)
WRAP(int, fdatasync, (int file), (file), INJECT_SYNC, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), INJECT_RENAME, -1)
WRAP(int, renameat, (int from_dir, const char *from, int to_dir, const char *to),
     (from_dir, from, to_dir, to), INJECT_RENAME, -1)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), INJECT_OPEN, NULL)
WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode), INJECT_OPEN, NULL)

/* The mode of open is there only with O_CREAT. */
static mode_t mode_of(int flags, va_list list)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

#define WRAP_OPEN(name)                                                    \
    int __real_##name(const char *path, int flags, ...);                   \
    int __wrap_##name(const char *path, int flags, ...);                   \
    int __wrap_##name(const char *path, int flags, ...)                    \
    {                                                                      \
        va_list list;                                                      \
        va_start(list, flags);                                             \
        mode_t mode = mode_of(flags, list);                                \
        va_end(list);                                                      \
        return fails(INJECT_OPEN) ? -1 : __real_##name(path, flags, mode); \
    }
#define WRAP_OPENAT(name)                                                       \
    int __real_##name(int dir, const char *path, int flags, ...);               \
    int __wrap_##name(int dir, const char *path, int flags, ...);               \
    int __wrap_##name(int dir, const char *path, int flags, ...)                \
    {                                                                           \
        va_list list;                                                           \
        va_start(list, flags);                                                  \
        mode_t mode = mode_of(flags, list);                                     \
        va_end(list);                                                           \
        return fails(INJECT_OPEN) ? -1 : __real_##name(dir, path, flags, mode); \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)
/* NOLINTEND(bugprone-reserved-identifier) */
