/*
 * suite_self.c - the harness measured by itself: what an empty operation costs,
 * and workloads whose counters are known beforehand. Also the smallest example
 * of a suite.
 */
#include "bench/suites.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALLOCATION_SIZE = 100, WRITE_SIZE = 4096, METRIC_TURNS = 0 };

static uint64_t operations(const bench_process *process)
{
    return bench_number(process, "count");
}

/* An operation of no work at all: the floor under every other figure. */
static kv_code empty_run(bench_thread *thread, kv_status *status)
{
    (void)status;
    while (bench_next(thread))
        __asm__ volatile("" ::: "memory");
    return KV_OK;
}

static kv_code allocate_run(bench_thread *thread, kv_status *status)
{
    while (bench_next(thread)) {
        void *volatile data = malloc(ALLOCATION_SIZE);
        bool got = data != NULL;
        free(data);
        if (!got)
            return kv_fail(status, KV_NO_MEMORY, "no memory for %d bytes", ALLOCATION_SIZE);
        bench_count(thread, METRIC_TURNS, 2);
        bench_lookup(thread, true);
    }
    return KV_OK;
}

static kv_code write_run(bench_thread *thread, kv_status *status)
{
    static const char block[WRITE_SIZE];
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/file-%u", thread->process->dir, thread->index);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return kv_fail(status, KV_IO, "%s: %s", path, strerror(errno));
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread))
        if (write(file, block, sizeof(block)) != WRITE_SIZE || fdatasync(file) != 0)
            code = kv_fail(status, KV_IO, "%s: %s", path, strerror(errno));
    close(file);
    return code;
}

/* A workload whose answer is wrong half way: must never become a figure. */
static kv_code fail_run(bench_thread *thread, kv_status *status)
{
    uint64_t turns = 0;
    while (bench_next(thread))
        if (++turns > thread->operations / 2)
            return kv_fail(status, KV_INTERNAL, "wrong answer in turn %llu",
                           (unsigned long long)turns);
    return KV_OK;
}

static kv_code die_run(bench_thread *thread, kv_status *status)
{
    (void)thread;
    (void)status;
    abort();
}

static kv_code sleep_run(bench_thread *thread, kv_status *status)
{
    (void)status;
    while (bench_next(thread))
        usleep(1000);
    return KV_OK;
}

/* Only on request: `die` and `fail` are there to fail. */
static bool applies_when_named(const bench_process *process)
{
    return bench_number(process, "faults") != 0;
}

static const bench_workload workloads[] = {
    { "empty", "Nothing at all: what the loop itself costs", "turn", 0, operations, empty_run,
      NULL, NULL, NULL, NULL, NULL },
    { "allocate", "One malloc of 100 bytes, freed again", "malloc", 0, operations, allocate_run,
      NULL, NULL, NULL, NULL, NULL },
    { "write", "One write of 4 KiB and one fdatasync", "write", 0, operations, write_run, NULL,
      NULL, NULL, NULL, NULL },
    { "sleep", "One sleep of a millisecond", "sleep", BENCH_LOOSE, operations, sleep_run, NULL,
      NULL, NULL, NULL, NULL },
    { "fail", "A wrong answer half way (with --faults 1)", "turn", 0, operations, fail_run,
      applies_when_named, NULL, NULL, NULL, NULL },
    { "die", "A crash (with --faults 1)", "turn", 0, operations, die_run, applies_when_named,
      NULL, NULL, NULL, NULL },
    { 0 },
};

static const bench_parameter parameters[] = {
    { "count", "1000", "100", NULL, "operations in an iteration" },
    { "faults", "0", NULL, NULL, "1: run the workloads that fail, too" },
    { 0 },
};

static const bench_metric metrics[] = {
    { "turns", "count", false, true },
    { 0 },
};

const bench_suite bench_suite_self = { "self",
                                       "Measure the harness itself.",
                                       BENCH_NO_DATABASE,
                                       workloads,
                                       parameters,
                                       metrics,
                                       NULL,
                                       NULL };
