/*
 * interpose.c - counts calls by standing in for libc's functions.
 *
 * A symbol that the executable defines wins over the same symbol in any shared
 * library, for calls from anywhere. Allocations go on to glibc's own names,
 * files to the system call. Under a sanitizer the allocator is the
 * sanitizer's, and its hook does the counting.
 */
#include "bench/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define EXPORTED __attribute__((visibility("default")))

/* Threads that get counters of their own; the rest share the last slot. */
enum { SLOTS = 1024 };

struct slot {
    _Alignas(128) _Atomic uint64_t values[BENCH_COUNTERS_CALLS];
};

static struct slot slots[SLOTS];
static _Atomic unsigned slots_taken;
static _Thread_local struct slot *own_slot;

static struct slot *take_slot(void)
{
    unsigned index = atomic_fetch_add(&slots_taken, 1);
    own_slot = &slots[index < SLOTS ? index : SLOTS - 1];
    return own_slot;
}

/* Only its owner writes a slot, so a plain addition loses nothing and costs no
 * locked instruction; the last slot may be shared. */
static inline void count(enum bench_counter counter, uint64_t amount)
{
    struct slot *slot = own_slot;
    if (slot == NULL)
        slot = take_slot();
    _Atomic uint64_t *value = &slot->values[counter];
    if (slot == &slots[SLOTS - 1])
        atomic_fetch_add_explicit(value, amount, memory_order_relaxed);
    else
        atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + amount,
                              memory_order_relaxed);
}

static inline void count_allocation(size_t size)
{
    count(BENCH_ALLOCATIONS, 1);
    count(BENCH_ALLOCATED_BYTES, size);
}

void bench_counters_read(struct bench_counts *out)
{
    *out = (struct bench_counts){ { 0 } };
    for (int i = 0; i < SLOTS; i++)
        for (int j = 0; j < BENCH_COUNTERS_CALLS; j++)
            out->values[j] += atomic_load_explicit(&slots[i].values[j], memory_order_relaxed);

    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        out->values[BENCH_MINOR_FAULTS] = (uint64_t)usage.ru_minflt;
        out->values[BENCH_SWITCHES] = (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
    }
    struct timespec cpu;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        out->values[BENCH_CPU] = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

/* ---- Memory -------------------------------------------------------------- */

#if SANITIZED

/* From sanitizer/allocator_interface.h, which Debian's gcc does not install. */
int __sanitizer_install_malloc_and_free_hooks(/* NOLINT(bugprone-reserved-identifier) */
                                              void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void hook_malloc(const volatile void *data, size_t size)
{
    (void)data;
    count_allocation(size);
}

static void hook_free(const volatile void *data)
{
    (void)data;
}

void bench_counters_init(void)
{
    if (__sanitizer_install_malloc_and_free_hooks(hook_malloc, hook_free) == 0)
        abort();
}

#else

void bench_counters_init(void)
{
}

/* glibc's own allocator, under the names it keeps for those who stand in. */
void *__libc_malloc(size_t size);                     /* NOLINT(bugprone-reserved-identifier) */
void *__libc_calloc(size_t count, size_t size);       /* NOLINT(bugprone-reserved-identifier) */
void *__libc_realloc(void *data, size_t size);        /* NOLINT(bugprone-reserved-identifier) */
void *__libc_memalign(size_t alignment, size_t size); /* NOLINT(bugprone-reserved-identifier) */

EXPORTED void *malloc(size_t size)
{
    count_allocation(size);
    return __libc_malloc(size);
}

EXPORTED void *calloc(size_t number, size_t size)
{
    count_allocation(number * size);
    return __libc_calloc(number, size);
}

EXPORTED void *realloc(void *data, size_t size)
{
    count_allocation(size);
    return __libc_realloc(data, size);
}

EXPORTED void *memalign(size_t alignment, size_t size);
EXPORTED void *memalign(size_t alignment, size_t size)
{
    count_allocation(size);
    return __libc_memalign(alignment, size);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    void *data = memalign(alignment, size);
    if (data == NULL)
        return ENOMEM;
    *out = data;
    return 0;
}

#endif

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): not libc's names */

/* ---- Files --------------------------------------------------------------- */

static inline ssize_t count_read(long size)
{
    count(BENCH_READS, 1);
    if (size > 0)
        count(BENCH_READ_BYTES, (uint64_t)size);
    return size;
}

static inline ssize_t count_write(long size)
{
    count(BENCH_WRITES, 1);
    if (size > 0)
        count(BENCH_WRITTEN_BYTES, (uint64_t)size);
    return size;
}

EXPORTED ssize_t read(int file, void *data, size_t size)
{
    return count_read(syscall(SYS_read, file, data, size));
}

EXPORTED ssize_t pread(int file, void *data, size_t size, off_t offset)
{
    return count_read(syscall(SYS_pread64, file, data, size, offset));
}

EXPORTED ssize_t pread64(int file, void *data, size_t size, off64_t offset)
{
    return count_read(syscall(SYS_pread64, file, data, size, offset));
}

EXPORTED ssize_t readv(int file, const struct iovec *parts, int number)
{
    return count_read(syscall(SYS_readv, file, parts, number));
}

EXPORTED ssize_t write(int file, const void *data, size_t size)
{
    return count_write(syscall(SYS_write, file, data, size));
}

EXPORTED ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    return count_write(syscall(SYS_pwrite64, file, data, size, offset));
}

EXPORTED ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset)
{
    return count_write(syscall(SYS_pwrite64, file, data, size, offset));
}

EXPORTED ssize_t writev(int file, const struct iovec *parts, int number)
{
    return count_write(syscall(SYS_writev, file, parts, number));
}

EXPORTED int fsync(int file)
{
    count(BENCH_FSYNCS, 1);
    return (int)syscall(SYS_fsync, file);
}

EXPORTED int fdatasync(int file)
{
    count(BENCH_FDATASYNCS, 1);
    return (int)syscall(SYS_fdatasync, file);
}

EXPORTED int unlink(const char *path)
{
    count(BENCH_UNLINKS, 1);
    return (int)syscall(SYS_unlink, path);
}

EXPORTED int unlinkat(int folder, const char *path, int flags)
{
    count(BENCH_UNLINKS, 1);
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

EXPORTED int rename(const char *from, const char *to)
{
    count(BENCH_RENAMES, 1);
    return (int)syscall(SYS_rename, from, to);
}

EXPORTED int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    count(BENCH_RENAMES, 1);
    return (int)syscall(SYS_renameat, from_folder, from, to_folder, to);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
