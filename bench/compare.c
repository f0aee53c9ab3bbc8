/* compare.c - two result documents held against each other. */
#include "bench/harness.h"

#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_SHARE 0.02 /* a counter may change by less than this share */
#define TIME_SHARE 0.10  /* throughput by less than this */

/* ---- Are they comparable? ----------------------------------------------------- */

static bool differ(const char *what, const json_t *a, const json_t *b)
{
    if (a == b || (a != NULL && b != NULL && json_equal(a, b)))
        return false;
    char *text_a = a != NULL ? json_dumps(a, JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
    char *text_b = b != NULL ? json_dumps(b, JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
    fprintf(stderr, "statekv-bench: not alike in %s: %s and %s\n", what,
            text_a != NULL ? text_a : "nothing", text_b != NULL ? text_b : "nothing");
    free(text_a);
    free(text_b);
    return true;
}

static const json_t *database_of(const json_t *document, const json_t *like)
{
    const char *filesystem = bench_json_text(json_object_get(like, "folder"), "filesystem");
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(document, "databases"), i, each)
    {
        const json_t *folder = json_object_get(each, "folder");
        if (strcmp(bench_json_text(each, "backend"), bench_json_text(like, "backend")) == 0 &&
            strcmp(bench_json_text(folder, "filesystem"), filesystem) == 0)
            return each;
    }
    return NULL;
}

/* The commit may differ, the folder's name too; what decides the figures may not. */
bool bench_compare_alike(const json_t *a, const json_t *b)
{
    static const char *const program[] = { "compiler", "flags", "build_type", "sanitized",
                                           "engines" };
    static const char *const machine[] = { "kernel", "architecture", "cpu",
                                           "cores",  "huge_pages",   "governor" };
    const json_t *program_a = json_object_get(a, "program");
    const json_t *program_b = json_object_get(b, "program");
    const json_t *machine_a = json_object_get(a, "machine");
    const json_t *machine_b = json_object_get(b, "machine");
    bool different = differ("suite", json_object_get(a, "suite"), json_object_get(b, "suite"));
    for (size_t i = 0; i < sizeof(program) / sizeof(program[0]); i++)
        different |= differ(program[i], json_object_get(program_a, program[i]),
                            json_object_get(program_b, program[i]));
    for (size_t i = 0; i < sizeof(machine) / sizeof(machine[0]); i++)
        different |= differ(machine[i], json_object_get(machine_a, machine[i]),
                            json_object_get(machine_b, machine[i]));
    different |= differ("seed", json_object_get(json_object_get(a, "plan"), "seed"),
                        json_object_get(json_object_get(b, "plan"), "seed"));
    size_t i;
    json_t *database;
    json_array_foreach(json_object_get(a, "databases"), i, database)
    {
        const json_t *other = database_of(b, database);
        if (other == NULL) /* its rows are missing, which is told apart */
            continue;
        different |= differ("options", json_object_get(database, "options"),
                            json_object_get(other, "options"));
        different |=
            differ("device", json_object_get(json_object_get(database, "folder"), "device"),
                   json_object_get(json_object_get(other, "folder"), "device"));
    }
    return !different;
}

/* ---- Row by row ---------------------------------------------------------------- */

static void print_change(const char *word, const char *name, const struct bench_change *change)
{
    double share =
        change->before != 0.0 ? (change->after / change->before - 1.0) * 100.0 : INFINITY;
    printf("%-11s %s: %s %.6g -> %.6g %s (%+.1f %%)\n", word, name, change->metric,
           change->before, change->after, change->unit, share);
}

static void compare_row(const json_t *row, const char *name, bench_judge *judge, void *context,
                        struct bench_verdict *verdict)
{
    bool changed = false;
    const char *key;
    json_t *metric;
    json_object_foreach(json_object_get(row, "metrics"), key, metric)
    {
        struct bench_change change = {
            key, bench_json_text(metric, "unit"), 0, 0, false, false
        };
        if (!judge(context, row, key, &change) || !(change.worse || change.better))
            continue;
        print_change(change.worse ? "WORSE" : "better", name, &change);
        verdict->worse += change.worse;
        verdict->better += change.better;
        changed = true;
    }
    verdict->changed_rows += changed;
}

void bench_compare_rows(const json_t *a, const json_t *b, bench_judge *judge, void *context,
                        struct bench_verdict *verdict)
{
    char name[BENCH_ROW_NAME_SIZE];
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(a, "rows"), i, row)
    {
        const json_t *other = bench_row_find(b, row);
        bench_row_name(row, name, sizeof(name));
        verdict->rows++;
        if (other == NULL) {
            printf("%-11s %s\n", "MISSING", name);
            verdict->missing++;
        } else if (json_object_get(other, "error") != NULL) {
            printf("%-11s %s: %s\n", "FAILED", name, bench_json_text(other, "error"));
            verdict->failed++;
        } else if (json_object_get(row, "error") != NULL) {
            printf("%-11s %s: failed before, works now\n", "better", name);
            verdict->better++;
            verdict->changed_rows++;
        } else {
            compare_row(row, name, judge, context, verdict);
        }
    }
    json_array_foreach(json_object_get(b, "rows"), i, row) if (bench_row_find(a, row) == NULL)
    {
        bench_row_name(row, name, sizeof(name));
        printf("%-11s %s\n", "new row", name);
        verdict->added++;
    }
}

int bench_compare_conclude(const struct bench_verdict *verdict)
{
    if (verdict->worse + verdict->better + verdict->missing + verdict->failed == 0)
        printf("no change in %u row%s", verdict->rows, verdict->rows == 1 ? "" : "s");
    else
        printf("%u rows: %u figures worse, %u better, %u rows missing, %u failed",
               verdict->rows, verdict->worse, verdict->better, verdict->missing,
               verdict->failed);
    printf(verdict->added > 0 ? ", %u rows new\n" : "\n", verdict->added);
    if (verdict->rows == 0) {
        fprintf(stderr, "statekv-bench: the base has no rows\n");
        return BENCH_USAGE;
    }
    return verdict->worse + verdict->missing + verdict->failed > 0 ? BENCH_NO : BENCH_DONE;
}

/* ---- Two documents -------------------------------------------------------------- */

struct spread {
    double low, high;
};

/* The lowest and the highest of the processes' means. */
static struct spread forks_spread(const json_t *metric)
{
    struct spread spread = { INFINITY, -INFINITY };
    size_t i, j;
    json_t *fork, *sample;
    json_array_foreach(json_object_get(metric, "samples"), i, fork)
    {
        double sum = 0.0;
        json_array_foreach(fork, j, sample) sum += json_number_value(sample);
        if (json_array_size(fork) == 0)
            continue;
        sum /= (double)json_array_size(fork);
        spread.low = fmin(spread.low, sum);
        spread.high = fmax(spread.high, sum);
    }
    return spread;
}

static bool apart(struct spread a, struct spread b)
{
    return a.high < b.low || b.high < a.low;
}

/*
 * A change counts when it is large enough, the 99.9 % intervals are apart, and
 * no process of the one measured what a process of the other did: iterations
 * within a process resemble each other, so their interval alone is too narrow.
 */
static bool judge_documents(void *context, const json_t *row, const char *name,
                            struct bench_change *change)
{
    const json_t *document_b = context;
    const json_t *other = bench_row_find(document_b, row);
    const json_t *a = json_object_get(json_object_get(row, "metrics"), name);
    const json_t *b = json_object_get(json_object_get(other, "metrics"), name);
    const char *gate = bench_json_text(a, "gate");
    bool exact = strcmp(gate, "exact") == 0;
    if (b == NULL || (!exact && strcmp(gate, "time") != 0))
        return false;

    change->before = bench_json_number(a, "mean");
    change->after = bench_json_number(b, "mean");
    double error_a = bench_json_number(a, "error"), error_b = bench_json_number(b, "error");
    double difference = change->after - change->before;
    double share = exact ? EXACT_SHARE : TIME_SHARE;
    struct spread interval_a = { change->before - error_a, change->before + error_a };
    struct spread interval_b = { change->after - error_b, change->after + error_b };
    if (fabs(difference) < share * fabs(change->before) ||
        fabs(difference) <= bench_json_number(a, "floor") || difference == 0.0 ||
        !apart(interval_a, interval_b) || !apart(forks_spread(a), forks_spread(b)))
        return true;
    bool up = difference > 0.0;
    bool higher_is_better = strcmp(bench_json_text(a, "better"), "higher") == 0;
    change->better = up == higher_is_better;
    change->worse = !change->better;
    return true;
}

static int compare_files(const char *path_a, const char *path_b, bool force)
{
    kv_status status = KV_STATUS_INIT;
    struct bench_verdict verdict = { 0 };
    json_t *a = NULL, *b = NULL;
    int result = BENCH_USAGE;
    if (bench_document_load(path_a, &a, &status) != KV_OK ||
        bench_document_load(path_b, &b, &status) != KV_OK) {
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    } else if (!bench_compare_alike(a, b) && !force) {
        fprintf(stderr,
                "statekv-bench: %s and %s were not measured alike; --force compares "
                "them all the same\n",
                path_a, path_b);
    } else {
        bench_compare_rows(a, b, judge_documents, b, &verdict);
        result = bench_compare_conclude(&verdict);
    }
    json_decref(a);
    json_decref(b);
    return result;
}

/* ---- The command ------------------------------------------------------------------ */

struct arguments {
    const char *sides[2];
    unsigned count;
    unsigned pairs;
    bool run, force;
};

enum option_key { KEY_RUN = 0x1000, KEY_PAIRS, KEY_FORCE };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    uint64_t number;
    switch (key) {
    case KEY_RUN:
        arguments->run = true;
        return 0;
    case KEY_PAIRS:
        if (!bench_number_parse(text, &number) || number < 3 || number > BENCH_PAIRS_MAX)
            argp_error(state, "--pairs takes a number from 3 to %d, not '%s'", BENCH_PAIRS_MAX,
                       text);
        else
            arguments->pairs = (unsigned)number;
        return 0;
    case KEY_FORCE:
        arguments->force = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->count == 2)
            argp_error(state, "compare takes two sides, not a third: '%s'", text);
        else
            arguments->sides[arguments->count++] = text;
        return 0;
    case ARGP_KEY_END:
        if (arguments->count != 2)
            argp_error(state, "compare takes two sides");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int bench_compare_main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        { "run", KEY_RUN, NULL, 0,
          "The sides are commands: run them in turn, A B A B, and judge pair by pair", 0 },
        { "pairs", KEY_PAIRS, "N", 0, "With --run: how many pairs (5)", 0 },
        { "force", KEY_FORCE, NULL, 0, "Compare what was not measured alike", 0 },
        { 0 },
    };
    static const struct argp argp = {
        options,
        parse_option,
        "BASE.json NEW.json\n--run \"COMMAND A\" \"COMMAND B\"",
        "Compare two sets of results.\vA counter is a change from 2 % on, throughput from "
        "10 % on, both only where the 99.9 % intervals and all processes are apart. The exit "
        "status is 0 when nothing is worse, 1 when a figure is worse or a row is missing or "
        "failed, 2 when the two cannot be compared.",
        NULL,
        NULL,
        NULL
    };
    struct arguments arguments = { .pairs = 5 };
    char name[] = "statekv-bench compare";
    argv[0] = name;
    if (argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0)
        return BENCH_USAGE;
    if (arguments.run)
        return bench_compare_run(arguments.sides[0], arguments.sides[1], arguments.pairs,
                                 arguments.force);
    return compare_files(arguments.sides[0], arguments.sides[1], arguments.force);
}
