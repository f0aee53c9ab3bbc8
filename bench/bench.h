/*
 * bench.h - how a suite of statekv-bench is written.
 *
 * A suite is one file, bench/suite_<name>.c, that defines one
 * `const bench_suite bench_suite_<name>`; list it in bench/suites.c and in
 * bench/CMakeLists.txt. It is a table of workloads and a table of parameters;
 * everything else is the harness: command line, processes, warm-up, repeats,
 * threads, timing, counters, errors, JSON, tables, comparison, pictures.
 *
 *     static kv_code hash_run(bench_thread *thread, kv_status *status)
 *     {
 *         const struct hash_state *state = thread->process->state;
 *         while (bench_next(thread))              <- one operation per turn
 *             if (!hash_once(state))
 *                 return kv_fail(status, KV_INTERNAL, "wrong digest");
 *         return KV_OK;
 *     }
 *
 * Each measurement is a new process of the program (fork and exec). In it:
 *
 *     setup                                once, not measured: open, load
 *     prepare, run, check                  per warm-up iteration, thrown away
 *     prepare, run, check                  per measured iteration; only run is
 *     teardown                             timed and counted
 *
 * run is called once per thread (all at once, from a barrier) and must loop on
 * bench_next until it says no: that fixed number of operations, the same in
 * every iteration, is what makes the counters exact. Everything it reads must
 * be checked: a wrong answer is a failure (return kv_fail), never a fast result.
 * Where a look-up can miss, tell bench_lookup whether it found something, and
 * the result says "found N of M".
 *
 * Rows: one per database (--db), parameter combination (each parameter takes a
 * comma list) and workload. A row's counters are divided by its operations.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "kv/kv.h"

/* ---- Limits -------------------------------------------------------------- */

#define BENCH_PARAMETERS_MAX 16u /* parameters of a suite */
#define BENCH_VALUES_MAX 16u     /* values in one parameter's list */
#define BENCH_METRICS_MAX 16u    /* metrics of a suite's own */
#define BENCH_THREADS_MAX 256u
#define BENCH_TEXT_SIZE 64u /* bytes in a parameter's value, end mark included */

/* ---- Suites -------------------------------------------------------------- */

/* One parameter: the long option --<name>, and part of every row's name. */
typedef struct bench_parameter {
    const char *name;     /* "value-size"; the table ends with a NULL name */
    const char *fallback; /* default: "100000", or a list "1000,100000" */
    const char *quick;    /* default under --quick; NULL: the same */
    const char *choices;  /* "ours,raw": one of these texts; NULL: a number */
    const char *help;     /* a few words, no full stop */
} bench_parameter;

/* A figure that the suite counts itself with bench_count; reported per
 * operation. Counted exactly means compared by the 2 % gate. */
typedef struct bench_metric {
    const char *name; /* "bytes_sent"; the table ends with a NULL name */
    const char *unit; /* "bytes" */
    bool higher_is_better;
    bool exact;
} bench_metric;

typedef struct bench_process bench_process;
typedef struct bench_thread bench_thread;

enum bench_workload_flags {
    BENCH_LOOSE = 1u << 0 /* other threads work beside it: counters are context, not a gate */
};

typedef struct bench_workload {
    const char *name; /* "readrandom"; the table ends with a NULL name */
    const char *help; /* one sentence, no full stop */
    const char *unit; /* what one operation is: "get", "block" */
    unsigned flags;

    /* Operations of one iteration, all threads together. Required. */
    uint64_t (*operations)(const bench_process *process);
    /* Required. */
    kv_code (*run)(bench_thread *thread, kv_status *status);

    /* NULL where there is nothing to do; `applies` NULL means always. The
     * parent process asks `applies`, and only about parameters and backend. */
    bool (*applies)(const bench_process *process);
    kv_code (*setup)(bench_process *process, kv_status *status);
    kv_code (*prepare)(bench_process *process, kv_status *status);
    kv_code (*check)(bench_process *process, kv_status *status);
    void (*teardown)(bench_process *process); /* also after a failed setup */
} bench_workload;

enum bench_suite_flags {
    BENCH_NO_DATABASE = 1u << 0 /* there is no --db; backend is "none" */
};

/* What somebody else published of a workload, for reports to draw beside our own:
 * seconds of one operation. Ended by one without a name. */
typedef struct bench_published {
    const char *who;
    const char *workload;
    double seconds, error;
} bench_published;

typedef struct bench_suite {
    const char *name;
    const char *help;
    unsigned flags;
    const bench_workload *workloads;
    const bench_parameter *parameters; /* NULL for none */
    const bench_metric *metrics;       /* NULL for none */
    /* Option tables that --config and --set may name beside the drivers' own,
     * ended by NULL, as kv_options_load takes them; NULL for none. */
    const kv_option_table *const *tables;
    const bench_published *published; /* NULL for none */
} bench_suite;

/* ---- The measured process ------------------------------------------------ */

struct bench_process {
    const bench_suite *suite;
    const bench_workload *workload;
    const char *backend;       /* "rocksdb" */
    const kv_options *options; /* of that backend; its folder is not `dir`: use bench_open */
    const char *dir;           /* an empty folder of this process's own, removed afterwards */
    const char *shared_dir;    /* one for all processes with this --db, in turn */
    unsigned threads;
    uint64_t seed;
    bool quick;
    unsigned iteration;            /* 0, 1, ...: warm-ups first */
    void *state;                   /* the workload's own */
    const struct bench_cell *cell; /* private */
};

/* The value of a parameter. Asking for one that the suite does not have, or
 * for the number of a text, is a programmer's error and aborts. */
uint64_t bench_number(const bench_process *process, const char *parameter);
const char *bench_text(const bench_process *process, const char *parameter);

/* Open a database of the row's backend and options in the folder `dir`. */
KV_MUST_CHECK kv_code bench_open(const bench_process *process, const char *dir, unsigned flags,
                                 kv_db **out, kv_status *status);

/* Remove a folder and all in it; absence is fine. */
KV_MUST_CHECK kv_code bench_remove(const char *dir, kv_status *status);

/* ---- The loop ------------------------------------------------------------ */

struct bench_thread {
    bench_process *process;
    unsigned index;      /* 0 .. threads - 1 */
    uint64_t operations; /* this thread's share of the iteration */
    void *state;         /* the workload's own, empty at the start of each iteration */

    uint64_t countdown;        /* private */
    struct bench_clock *clock; /* private */
};

/* The slow half of bench_next. */
bool bench_next_timed(bench_thread *thread);

/*
 * Begin the next operation, or say that there are no more. It ends when
 * bench_next is called again. Short operations are not all timed one by one
 * (reading the clock would be a good part of them): the result says which.
 */
static inline bool bench_next(bench_thread *thread)
{
    if (__builtin_expect(--thread->countdown != 0, 1))
        return true;
    return bench_next_timed(thread);
}

/* One turn of the loop stands for `units` operations, as a batch of 100 keys
 * does: call before the loop. The thread's share is rounded down to a multiple. */
void bench_units(bench_thread *thread, uint64_t units);

/* A look-up was made, and found its key or not. */
void bench_lookup(bench_thread *thread, bool found);

/* Add to a metric of the suite, by its index in the table. */
void bench_count(bench_thread *thread, unsigned metric, uint64_t amount);

/* ---- Repeatable randomness ----------------------------------------------- */

/* splitmix64: any state will do as a seed. */
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 <= answer < limit. */
static inline uint64_t bench_random_below(uint64_t *state, uint64_t limit)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)bench_random(state) * limit) >> 64);
}

/* A seed for this thread and iteration, from the process's. */
uint64_t bench_random_seed(const bench_thread *thread);

#endif /* BENCH_BENCH_H */
