/* compare_run.c - two commands run in turn, A B A B, and judged pair by pair. */
#include "bench/harness.h"
#include "bench/statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct pairs {
    json_t *a[BENCH_PAIRS_MAX];
    json_t *b[BENCH_PAIRS_MAX];
    unsigned count;
};

/* Run `command --json FILE` by the shell; its table goes to standard error, ours to
 * standard output. */
static json_t *run_command(const char *command, const char *dir)
{
    char path[PATH_MAX], line[PATH_MAX];
    kv_status status = KV_STATUS_INIT;
    json_t *document = NULL;
    snprintf(path, sizeof(path), "%s/result.json", dir);
    int size = snprintf(line, sizeof(line), "%s --json '%s' >&2", command, path);
    int state = size >= (int)sizeof(line) ? -1 : system(line); /* NOLINT(cert-env33-c) */
    if (state == -1)
        kv_fail(&status, KV_INVALID, "%s: is not run: %s", command, strerror(errno));
    else if (WIFSIGNALED(state) || WEXITSTATUS(state) > BENCH_NO)
        kv_fail(&status, KV_INVALID, "%s: ended with status %d", command,
                WIFSIGNALED(state) ? WTERMSIG(state) + 128 : WEXITSTATUS(state));
    else if (bench_document_load(path, &document, &status) != KV_OK)
        document = NULL;
    if (document == NULL)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    unlink(path);
    return document;
}

static double mean_of(const json_t *document, const json_t *row, const char *metric)
{
    const json_t *metrics = json_object_get(bench_row_find(document, row), "metrics");
    return bench_json_number(json_object_get(metrics, metric), "mean");
}

/*
 * Each pair gives one difference, of logarithms for throughput, so that drift
 * from pair to pair falls out. A change counts when their 99.9 % interval leaves
 * out zero and it is large enough.
 */
static bool judge_pairs(void *context, const json_t *row, const char *name,
                        struct bench_change *change)
{
    const struct pairs *pairs = context;
    const json_t *metric = json_object_get(json_object_get(row, "metrics"), name);
    const char *gate = bench_json_text(metric, "gate");
    bool exact = strcmp(gate, "exact") == 0;
    if (!exact && strcmp(gate, "time") != 0)
        return false;

    double differences[BENCH_PAIRS_MAX];
    for (unsigned i = 0; i < pairs->count; i++) {
        double a = mean_of(pairs->a[i], row, name), b = mean_of(pairs->b[i], row, name);
        if (!isfinite(a) || !isfinite(b))
            return false; /* a row that failed once is reported by the caller */
        change->before += a / pairs->count;
        change->after += b / pairs->count;
        differences[i] = exact ? b - a : log(b / a);
    }
    struct bench_estimate estimate = bench_estimate_of(differences, pairs->count);
    double size = fabs(estimate.mean);
    double enough =
        exact ? fmax(0.02 * change->before, bench_json_number(metric, "floor")) : -log(0.9);
    if (size < enough || size <= estimate.error || size == 0.0)
        return true;
    bool higher_is_better = strcmp(bench_json_text(metric, "better"), "higher") == 0;
    change->better = (estimate.mean > 0.0) == higher_is_better;
    change->worse = !change->better;
    return true;
}

/* A row that is missing or failed in any of the runs counts as that. */
static const json_t *worst_of(json_t *const *documents, unsigned count)
{
    const json_t *worst = documents[0];
    size_t fewest = SIZE_MAX;
    for (unsigned i = 0; i < count; i++) {
        size_t good = 0, j;
        json_t *row;
        json_array_foreach(json_object_get(documents[i], "rows"), j, row) good +=
            json_object_get(row, "error") == NULL;
        if (good < fewest) {
            fewest = good;
            worst = documents[i];
        }
    }
    return worst;
}

int bench_compare_run(const char *command_a, const char *command_b, unsigned count, bool force)
{
    struct pairs pairs = { { NULL }, { NULL }, 0 };
    char dir[] = "/tmp/statekv-bench-compare-XXXXXX";
    kv_status status = KV_STATUS_INIT;
    struct bench_verdict verdict = { 0 };
    int result = BENCH_USAGE;
    if (mkdtemp(dir) == NULL) {
        fprintf(stderr, "statekv-bench: %s: %s\n", dir, strerror(errno));
        return BENCH_FAILED;
    }
    while (pairs.count < count) {
        json_t *a = run_command(command_a, dir);
        json_t *b = a != NULL ? run_command(command_b, dir) : NULL;
        if (b == NULL) {
            json_decref(a);
            goto out;
        }
        pairs.a[pairs.count] = a;
        pairs.b[pairs.count++] = b;
        if (pairs.count == 1 && !bench_compare_alike(a, b) && !force)
            goto out;
    }
    bench_compare_rows(pairs.a[0], worst_of(pairs.b, count), judge_pairs, &pairs, &verdict);
    result = bench_compare_conclude(&verdict);
out:
    for (unsigned i = 0; i < pairs.count; i++) {
        json_decref(pairs.a[i]);
        json_decref(pairs.b[i]);
    }
    if (bench_remove(dir, &status) != KV_OK)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    return result;
}
