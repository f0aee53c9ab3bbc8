/* child.c - one measured process: set up, warm up, measure, report each iteration as a line. */
#include "bench/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    CLOCK_SHARE_PERCENT = 1, /* of the time of an operation may go into timing it */
    EVERY_MAX = 127,         /* at least one operation in this many is timed */
    HEAP_BLOCKS = 512,       /* blocks of the heap touched before the start */
    HEAP_BLOCK_SIZE = 64 << 10
};

struct bench_clock {
    uint64_t left;    /* turns not yet begun */
    uint64_t granted; /* of those, turns that bench_next may begin without us */
    uint64_t every;   /* one turn in this many is timed */
    uint64_t units;
    uint64_t start_ns;
    bool timing;
    uint64_t asked, found;
    uint64_t metrics[BENCH_METRICS_MAX];
    struct bench_histogram latency;
};

struct runner {
    bench_thread thread;
    struct bench_clock clock;
    pthread_t id;
    struct child *child;
    kv_code code;
    kv_status status;
};

struct child {
    bench_process process;
    struct runner *runners; /* one per thread */
    pthread_barrier_t ready, start, finish;
    uint64_t every; /* for the next iteration */
    uint64_t clock_cost_ns;
    FILE *out;
};

struct interval {
    uint64_t ns;
    struct bench_counts counts;
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- The loop -------------------------------------------------------------- */

/*
 * Called at the end of a timed turn, at the start of one, and at the end of the
 * loop. With `every` above one, a timed turn is followed by every - 1 others;
 * `granted` of the turns that follow begin in bench_next itself.
 */
bool bench_next_timed(bench_thread *thread)
{
    struct bench_clock *clock = thread->clock;
    clock->left -= clock->granted;
    clock->granted = 0;
    bool after_timed = clock->timing;
    uint64_t now = 0;
    if (after_timed) {
        now = now_ns();
        bench_histogram_record(&clock->latency, now - clock->start_ns);
        clock->timing = false;
    }
    if (clock->left == 0)
        return false;

    clock->left--;
    thread->countdown = 1;
    if (after_timed && clock->every > 1) {
        uint64_t untimed = clock->every - 2;
        clock->granted = untimed < clock->left ? untimed : clock->left;
        thread->countdown = clock->granted + 1;
    } else {
        clock->timing = true;
        clock->start_ns = after_timed ? now : now_ns();
    }
    return true;
}

void bench_units(bench_thread *thread, uint64_t units)
{
    thread->clock->units = units;
    thread->clock->left = thread->operations / units;
    thread->operations = thread->clock->left * units;
}

void bench_lookup(bench_thread *thread, bool found)
{
    thread->clock->asked++;
    thread->clock->found += found;
}

void bench_count(bench_thread *thread, unsigned metric, uint64_t amount)
{
    if (metric >= BENCH_METRICS_MAX)
        abort();
    thread->clock->metrics[metric] += amount;
}

uint64_t bench_random_seed(const bench_thread *thread)
{
    const bench_process *process = thread->process;
    uint64_t state =
        process->seed ^ ((uint64_t)process->iteration << 32) ^ ((uint64_t)thread->index << 16);
    return bench_random(&state);
}

static uint64_t clock_cost(void)
{
    enum { READINGS = 20000 };
    uint64_t start = now_ns(), last = start;
    for (int i = 0; i < READINGS; i++)
        last = now_ns();
    return (last - start) / READINGS + 1;
}

/* ---- Iterations ------------------------------------------------------------ */

static void run_one(struct runner *runner)
{
    runner->code = runner->child->process.workload->run(&runner->thread, &runner->status);
    if (runner->code == KV_OK && (runner->clock.left != 0 || runner->clock.timing))
        runner->code =
            kv_fail(&runner->status, KV_INTERNAL, "workload %s left its loop before the end",
                    runner->child->process.workload->name);
}

static void *run_thread(void *context)
{
    struct runner *runner = context;
    pthread_barrier_wait(&runner->child->ready);
    pthread_barrier_wait(&runner->child->start);
    run_one(runner);
    pthread_barrier_wait(&runner->child->finish);
    return NULL;
}

static void reset_runners(struct child *child, uint64_t operations)
{
    for (unsigned i = 0; i < child->process.threads; i++) {
        struct runner *runner = &child->runners[i];
        memset(runner, 0, sizeof(*runner));
        runner->child = child;
        runner->thread =
            (bench_thread){ &child->process, i, operations / child->process.threads, NULL, 1,
                            &runner->clock };
        runner->clock.left = runner->thread.operations;
        runner->clock.units = 1;
        runner->clock.every = child->every;
    }
}

/* The part that is measured, alone in a function so that a profiler can be
 * told to look at nothing else. */
static __attribute__((noinline)) void bench_measured(struct child *child)
{
    if (child->process.threads > 1)
        pthread_barrier_wait(&child->start);
    run_one(&child->runners[0]);
    if (child->process.threads > 1)
        pthread_barrier_wait(&child->finish);
}

static kv_code run_threads(struct child *child, struct interval *out, kv_status *status)
{
    unsigned threads = child->process.threads;
    pthread_barrier_init(&child->ready, NULL, threads);
    pthread_barrier_init(&child->start, NULL, threads);
    pthread_barrier_init(&child->finish, NULL, threads);
    for (unsigned i = 1; i < threads; i++) {
        int error = pthread_create(&child->runners[i].id, NULL, run_thread, &child->runners[i]);
        if (error != 0) /* the others wait at the barrier: the process ends with us */
            return kv_fail(status, KV_INTERNAL, "thread %u does not start: %s", i,
                           strerror(error));
    }
    if (threads > 1) /* what a thread's start allocates comes before */
        pthread_barrier_wait(&child->ready);

    struct bench_counts before, after;
    bench_counters_read(&before);
    uint64_t start = now_ns();
    bench_measured(child);
    uint64_t end = now_ns();
    bench_counters_read(&after);

    for (unsigned i = 1; i < threads; i++)
        pthread_join(child->runners[i].id, NULL);
    pthread_barrier_destroy(&child->ready);
    pthread_barrier_destroy(&child->start);
    pthread_barrier_destroy(&child->finish);
    out->ns = end > start ? end - start : 1;
    for (int i = 0; i < BENCH_COUNTERS; i++)
        out->counts.values[i] = after.values[i] - before.values[i];
    for (unsigned i = 0; i < threads; i++)
        if (child->runners[i].code != KV_OK)
            return kv_fail(status, child->runners[i].code, "%s",
                           child->runners[i].status.message);
    return KV_OK;
}

/* Time every operation when that costs little, else one in a few. */
static void choose_every(struct child *child, uint64_t ns, uint64_t operations)
{
    uint64_t turns = operations / child->runners[0].clock.units;
    uint64_t turn_ns = turns == 0 ? 1 : ns * child->process.threads / turns + 1;
    uint64_t every = 2 * child->clock_cost_ns * 100 / (turn_ns * CLOCK_SHARE_PERCENT);
    child->every = every < 2 ? 1 : every > EVERY_MAX ? EVERY_MAX : every | 1;
}

static json_t *histogram_json(const struct bench_histogram *histogram)
{
    json_t *buckets = json_array();
    for (unsigned i = 0; i < BENCH_HISTOGRAM_BUCKETS; i++)
        if (histogram->buckets[i] != 0)
            json_array_append_new(buckets,
                                  json_pack("[iI]", (int)i, (json_int_t)histogram->buckets[i]));
    return json_pack("{s:I,s:I,s:o}", "min", (json_int_t)histogram->min, "max",
                     (json_int_t)histogram->max, "buckets", buckets);
}

static kv_code write_line(FILE *out, json_t *line, kv_status *status)
{
    kv_code code = KV_OK;
    if (line == NULL || json_dumpf(line, out, JSON_COMPACT) != 0 || fputc('\n', out) == EOF ||
        fflush(out) != 0)
        code = kv_fail(status, KV_IO, "result line is not written: %s", strerror(errno));
    json_decref(line);
    return code;
}

static kv_code report_iteration(const struct child *child, bool measured,
                                const struct interval *interval, kv_status *status)
{
    struct bench_histogram latency = { 0 };
    uint64_t operations = 0, asked = 0, found = 0, metrics[BENCH_METRICS_MAX] = { 0 };
    for (unsigned i = 0; i < child->process.threads; i++) {
        const struct bench_clock *clock = &child->runners[i].clock;
        operations += child->runners[i].thread.operations;
        bench_histogram_merge(&latency, &clock->latency);
        asked += clock->asked;
        found += clock->found;
        for (unsigned j = 0; j < BENCH_METRICS_MAX; j++)
            metrics[j] += clock->metrics[j];
    }
    if (operations == 0)
        return kv_fail(status, KV_INVALID, "workload %s has less than one turn for each thread",
                       child->process.workload->name);
    json_t *counts = json_array(), *own = json_array();
    for (int i = 0; i < BENCH_COUNTERS; i++)
        json_array_append_new(counts, json_integer((json_int_t)interval->counts.values[i]));
    for (unsigned i = 0; i < BENCH_METRICS_MAX; i++)
        json_array_append_new(own, json_integer((json_int_t)metrics[i]));
    json_t *line = json_pack(
        "{s:b,s:I,s:I,s:o,s:o,s:I,s:I,s:I,s:o}", "measured", (int)measured, "ns",
        (json_int_t)interval->ns, "operations", (json_int_t)operations, "counts", counts,
        "metrics", own, "asked", (json_int_t)asked, "found", (json_int_t)found, "every",
        (json_int_t)child->runners[0].clock.every, "latency", histogram_json(&latency));
    return write_line(child->out, line, status);
}

static kv_code run_iteration(struct child *child, bool measured, kv_status *status)
{
    bench_process *process = &child->process;
    const bench_workload *workload = process->workload;
    uint64_t operations = workload->operations(process);
    if (operations < process->threads)
        return kv_fail(status, KV_INVALID, "workload %s has no operations for %u threads",
                       workload->name, process->threads);

    struct interval interval = { 0 };
    kv_code code = KV_OK;
    if (workload->prepare != NULL)
        code = workload->prepare(process, status);
    if (code == KV_OK) {
        reset_runners(child, operations);
        code = run_threads(child, &interval, status);
    }
    if (code == KV_OK && workload->check != NULL)
        code = workload->check(process, status);
    if (code != KV_OK)
        return code;
    code = report_iteration(child, measured, &interval, status);
    if (!measured)
        choose_every(child, interval.ns, operations);
    return code;
}

/* ---- The process ----------------------------------------------------------- */

/* Have the heap in memory before the clock runs, and keep it there. */
static void touch_heap(void)
{
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    void **blocks = calloc(HEAP_BLOCKS, sizeof(*blocks));
    for (int i = 0; blocks != NULL && i < HEAP_BLOCKS; i++) {
        blocks[i] = malloc(HEAP_BLOCK_SIZE);
        if (blocks[i] != NULL)
            memset(blocks[i], 1, HEAP_BLOCK_SIZE);
    }
    for (int i = 0; blocks != NULL && i < HEAP_BLOCKS; i++)
        free(blocks[i]);
    free(blocks);
}

static int touch_file(const char *path, const struct stat *about, int type, struct FTW *where)
{
    static char buffer[1 << 16];
    (void)about;
    (void)where;
    int file = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        while (read(file, buffer, sizeof(buffer)) > 0)
            ;
        close(file);
    }
    return 0;
}

/* Have the data files in the page cache before the clock runs. */
static void touch_files(const char *dir)
{
    if (dir != NULL && dir[0] != '\0' && nftw(dir, touch_file, 16, FTW_PHYS) != 0)
        fprintf(stderr, "statekv-bench: %s: not all of it is in memory before the start\n",
                dir);
}

static uint64_t peak_resident(void)
{
    uint64_t kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

/* Make the peak count from now on, where the kernel allows it. */
static void peak_resident_reset(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (file == NULL)
        return;
    fputs("5", file);
    fclose(file);
}

static kv_code measure(struct child *child, const struct bench_plan *plan, kv_status *status)
{
    bench_process *process = &child->process;
    kv_code code = KV_OK;
    if (process->workload->setup != NULL)
        code = process->workload->setup(process, status);
    if (code != KV_OK)
        return code;

    touch_files(process->dir);
    touch_files(process->shared_dir);
    child->clock_cost_ns = clock_cost();
    unsigned total = plan->warmup + plan->iterations;
    for (process->iteration = 0; code == KV_OK && process->iteration < total;
         process->iteration++) {
        if (process->iteration == plan->warmup)
            peak_resident_reset();
        code = run_iteration(child, process->iteration >= plan->warmup, status);
    }
    if (code == KV_OK)
        code = write_line(
            child->out, json_pack("{s:I}", "peak_resident_bytes", (json_int_t)peak_resident()),
            status);
    return code;
}

int bench_child_run(const struct bench_plan *plan)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no measurement outlives the program */
    touch_heap();
    struct bench_cell cell = { plan, &plan->databases[0], { 0 }, 0 };
    struct child child = { .every = 1, .out = fdopen(plan->child_file, "w") };
    kv_status status = KV_STATUS_INIT;
    kv_options *options = NULL;
    kv_code code = KV_OK;
    const bench_workload *workload = bench_workload_find(plan->suite, plan->workloads[0]);
    if (child.out == NULL || workload == NULL)
        return BENCH_USAGE;

    bench_cell_describe(&cell, workload, &child.process);
    child.process.dir = plan->child_dir;
    child.process.shared_dir = plan->child_shared_dir;
    if ((plan->suite->flags & BENCH_NO_DATABASE) == 0)
        code =
            bench_plan_options(plan, child.process.backend, plan->child_dir, &options, &status);
    child.process.options = options;
    child.runners = calloc(child.process.threads, sizeof(*child.runners));
    if (child.runners == NULL)
        code =
            kv_fail(&status, KV_NO_MEMORY, "no memory for %u threads", child.process.threads);
    if (code == KV_OK) {
        code = measure(&child, plan, &status);
        if (workload->teardown != NULL)
            workload->teardown(&child.process);
    }
    if (code != KV_OK) {
        json_t *line =
            json_pack("{s:i,s:s,s:i}", "code", (int)code, "error",
                      status.message[0] != '\0' ? status.message : kv_code_text(code),
                      "iteration", (int)child.process.iteration);
        if (write_line(child.out, line, NULL) != KV_OK)
            fprintf(stderr, "statekv-bench: %s\n", status.message);
    }
    free(child.runners);
    kv_options_free(options);
    fclose(child.out);
    return code == KV_OK ? BENCH_DONE : BENCH_NO;
}
