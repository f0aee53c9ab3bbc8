/* harness.h - what the parts of the harness share; suites need only bench.h. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "bench/bench.h"
#include "bench/counters.h"
#include "bench/histogram.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

#define BENCH_DATABASES_MAX 16u
#define BENCH_SETS_MAX 64u /* --set options on one command line */
#define BENCH_THREADS_LIST_MAX 8u
#define BENCH_FORKS_MAX 100u
#define BENCH_ITERATIONS_MAX 10000u

enum bench_exit {
    BENCH_DONE = 0,
    BENCH_NO = 1,
    BENCH_USAGE = 2,
    BENCH_FAILED = 3,
    BENCH_INTERRUPTED = 130
};

/* ---- suites.c ------------------------------------------------------------ */

extern const bench_suite *const bench_suites[]; /* ended by NULL */

const bench_suite *bench_suite_find(const char *name);
const bench_workload *bench_workload_find(const bench_suite *suite, const char *name);

/* ---- plan.c: what the command line asks for ------------------------------- */

struct bench_values {
    unsigned count;
    char texts[BENCH_VALUES_MAX][BENCH_TEXT_SIZE];
};

struct bench_database {
    char backend[BENCH_TEXT_SIZE];
    char dir[PATH_MAX]; /* where scratch folders are made; "" for the default */
};

struct bench_plan {
    const bench_suite *suite;
    const char *workloads[BENCH_SETS_MAX]; /* asked for by name; none: all */
    unsigned workloads_count;
    struct bench_database databases[BENCH_DATABASES_MAX];
    unsigned databases_count;
    struct bench_values parameters[BENCH_PARAMETERS_MAX];
    struct bench_values threads;
    const char *config;
    const char *sets[BENCH_SETS_MAX]; /* "name=value" */
    unsigned sets_count;
    unsigned forks, warmup, iterations;
    uint64_t seed;
    bool quick;
    const char *json_path;
    /* A child's own. */
    int child_file; /* -1 in the parent */
    unsigned fork;
    const char *child_dir, *child_shared_dir;
};

/* Fill `plan` from the arguments after the program's name; argv[0] is the
 * suite. Wrong usage ends the program with BENCH_USAGE, as --help does with 0. */
void bench_plan_parse(struct bench_plan *plan, const bench_suite *suite, int argc, char **argv);

/* The options of a backend as the command line set them, with folder `dir`. */
KV_MUST_CHECK kv_code bench_plan_options(const struct bench_plan *plan, const char *backend,
                                         const char *dir, kv_options **out, kv_status *status);

/* Read "1e5", "64KiB", "100000" as a whole number; false if it is none. */
bool bench_number_parse(const char *text, uint64_t *out);

/* One combination: a database, one value per parameter, a number of threads. */
struct bench_cell {
    const struct bench_plan *plan;
    const struct bench_database *database;
    unsigned choice[BENCH_PARAMETERS_MAX];
    unsigned threads_choice;
};

/* Step to the next combination of values; false after the last. Start from zeros. */
bool bench_cell_next(struct bench_cell *cell);

const char *bench_cell_value(const struct bench_cell *cell, unsigned parameter);
unsigned bench_cell_threads(const struct bench_cell *cell);

/* The process as `applies` may see it. */
void bench_cell_describe(const struct bench_cell *cell, const bench_workload *workload,
                         bench_process *out);

/* ---- child.c: one measured process --------------------------------------- */

/* Run the plan's one workload and write one JSON object per line to
 * plan->child_file. The exit status of the process. */
int bench_child_run(const struct bench_plan *plan);

/* ---- parent.c: all measurements of a plan --------------------------------- */

int bench_parent_run(const struct bench_plan *plan, int argc, char **argv);

/* ---- row.c: from iterations to a result ----------------------------------- */

struct bench_row;

struct bench_row *bench_row_new(const struct bench_cell *cell, const bench_workload *workload,
                                const char *filesystem);
void bench_row_free(struct bench_row *row);

/* Take in one line of a child. KV_CORRUPT: not a line a child writes. */
KV_MUST_CHECK kv_code bench_row_take(struct bench_row *row, const char *line, unsigned fork,
                                     kv_status *status);

/* The measured throughput of the newest iteration, for the progress line. */
double bench_row_latest(const struct bench_row *row);

void bench_row_fail(struct bench_row *row, const char *reason);

/* A new JSON object, schema in docs/bench.md; NULL when nothing was measured. */
json_t *bench_row_json(const struct bench_row *row);

/* ---- facts.c: where and with what it was measured -------------------------- */

json_t *bench_facts_program(void);
json_t *bench_facts_machine(void);
json_t *bench_facts_folder(const char *dir); /* filesystem, device, volatile, fsync probe */

/* ---- table.c, document.c ---------------------------------------------------- */

/* The text table of a result document. */
void bench_table_print(const json_t *document, FILE *out);
/* The seed's table beside the seed's numbers; nothing where no row is of the suite query. */
void bench_query_table_print(const json_t *document, FILE *out);

/* Load a result document and check that it is one. */
KV_MUST_CHECK kv_code bench_document_load(const char *path, json_t **out, kv_status *status);

/* "kv.readrandom rocksdb/ext4 threads=1 count=1000 ...": the same in every document. */
void bench_row_name(const json_t *row, char *out, size_t size);

/* The text at `key`, or "". */
const char *bench_json_text(const json_t *object, const char *key);

/* The number at `key`, or not a number. */
double bench_json_number(const json_t *object, const char *key);

/* ---- compare.c, compare_run.c, report.c -------------------------------------- */

enum { BENCH_PAIRS_MAX = 100, BENCH_ROW_NAME_SIZE = 2048 };

/* What one metric of one row did from A to B. */
struct bench_change {
    const char *metric, *unit;
    double before, after;
    bool worse, better; /* neither: no change */
};

/* What became of a comparison so far. */
struct bench_verdict {
    unsigned rows, changed_rows;
    unsigned worse, better, missing, failed, added;
};

/* Judge metric by metric. `change` is filled; false when the metric is no gate. */
typedef bool bench_judge(void *context, const json_t *row_a, const char *metric,
                         struct bench_change *change);

/* Hold the rows of `a` against those of `b`, print every change, add to `verdict`. */
void bench_compare_rows(const json_t *a, const json_t *b, bench_judge *judge, void *context,
                        struct bench_verdict *verdict);

/* Print each way in which two documents are not alike; true when there is none. */
bool bench_compare_alike(const json_t *a, const json_t *b);

/* Print the closing line and give the exit status. */
int bench_compare_conclude(const struct bench_verdict *verdict);

/* The row of `document` that is called as `row` is, or NULL. */
const json_t *bench_row_find(const json_t *document, const json_t *row);

int bench_compare_run(const char *command_a, const char *command_b, unsigned count, bool force);

int bench_compare_main(int argc, char **argv);
int bench_report_main(int argc, char **argv);

#endif /* BENCH_HARNESS_H */
