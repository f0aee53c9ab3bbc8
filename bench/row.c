/* row.c - gathers the iterations of all processes of one row, and sums them up. */
#include "bench/harness.h"
#include "bench/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SERIES_THROUGHPUT,
    SERIES_COUNTERS,
    SERIES_METRICS = SERIES_COUNTERS + BENCH_COUNTERS,
    SERIES = SERIES_METRICS + BENCH_METRICS_MAX
};

struct sample {
    unsigned fork;
    double values[SERIES];
};

struct bench_row {
    const bench_suite *suite;
    const bench_workload *workload;
    json_t *identity; /* suite, workload, backend, threads, parameters */
    struct sample *samples;
    size_t count, capacity;
    struct bench_histogram latency;
    uint64_t operations, every, asked, found;
    json_t *peaks; /* one per process */
    double latest;
    char error[KV_MESSAGE_SIZE + 64];
};

static const struct {
    const char *name, *unit;
    bool exact;
    double floor;
} counter_table[] = {
#define XX(id, name, unit, gated, floor) { name, unit, gated, floor },
    BENCH_COUNTER_MAP(XX)
#undef XX
};

struct bench_row *bench_row_new(const struct bench_cell *cell, const bench_workload *workload,
                                const char *filesystem)
{
    const bench_suite *suite = cell->plan->suite;
    struct bench_row *row = calloc(1, sizeof(*row));
    if (row == NULL)
        return NULL;
    json_t *parameters = json_object();
    for (unsigned i = 0; suite->parameters != NULL && suite->parameters[i].name != NULL; i++)
        json_object_set_new(parameters, suite->parameters[i].name,
                            json_string(bench_cell_value(cell, i)));
    row->suite = suite;
    row->workload = workload;
    row->peaks = json_array();
    row->identity = json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:o}", "suite", suite->name, "workload",
                              workload->name, "unit", workload->unit, "backend",
                              cell->database->backend, "filesystem", filesystem, "threads",
                              (int)bench_cell_threads(cell), "parameters", parameters);
    return row;
}

void bench_row_free(struct bench_row *row)
{
    if (row == NULL)
        return;
    json_decref(row->identity);
    json_decref(row->peaks);
    free(row->samples);
    free(row);
}

void bench_row_fail(struct bench_row *row, const char *reason)
{
    if (row->error[0] == '\0')
        snprintf(row->error, sizeof(row->error), "%s", reason);
}

double bench_row_latest(const struct bench_row *row)
{
    return row->latest;
}

static struct sample *row_sample(struct bench_row *row)
{
    if (row->count == row->capacity) {
        size_t capacity = row->capacity == 0 ? 64 : 2 * row->capacity;
        struct sample *samples = realloc(row->samples, capacity * sizeof(*samples));
        if (samples == NULL)
            return NULL;
        row->samples = samples;
        row->capacity = capacity;
    }
    return &row->samples[row->count++];
}

static bool merge_latency(struct bench_histogram *into, const json_t *latency)
{
    struct bench_histogram from = { 0 };
    size_t index;
    json_t *bucket;
    from.min = (uint64_t)json_integer_value(json_object_get(latency, "min"));
    from.max = (uint64_t)json_integer_value(json_object_get(latency, "max"));
    json_array_foreach(json_object_get(latency, "buckets"), index, bucket)
    {
        json_int_t at = json_integer_value(json_array_get(bucket, 0));
        if (at < 0 || at >= BENCH_HISTOGRAM_BUCKETS)
            return false;
        from.buckets[at] = (uint64_t)json_integer_value(json_array_get(bucket, 1));
        from.count += from.buckets[at];
    }
    bench_histogram_merge(into, &from);
    return true;
}

static kv_code take_iteration(struct bench_row *row, const json_t *line, unsigned fork,
                              kv_status *status)
{
    double ns = (double)json_integer_value(json_object_get(line, "ns"));
    json_int_t operations = json_integer_value(json_object_get(line, "operations"));
    json_t *counts = json_object_get(line, "counts"), *own = json_object_get(line, "metrics");
    if (ns <= 0.0 || operations <= 0 || json_array_size(counts) != BENCH_COUNTERS ||
        json_array_size(own) != BENCH_METRICS_MAX)
        return kv_fail(status, KV_CORRUPT, "a measured process wrote an unusable result");

    row->latest = (double)operations / ns * 1e9;
    if (!json_is_true(json_object_get(line, "measured")))
        return KV_OK;
    struct sample *sample = row_sample(row);
    if (sample == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the samples of a row");
    sample->fork = fork;
    sample->values[SERIES_THROUGHPUT] = row->latest;
    for (size_t i = 0; i < BENCH_COUNTERS; i++)
        sample->values[SERIES_COUNTERS + i] =
            (double)json_integer_value(json_array_get(counts, i)) / (double)operations;
    for (size_t i = 0; i < BENCH_METRICS_MAX; i++)
        sample->values[SERIES_METRICS + i] =
            (double)json_integer_value(json_array_get(own, i)) / (double)operations;
    row->operations = (uint64_t)operations;
    row->every = (uint64_t)json_integer_value(json_object_get(line, "every"));
    row->asked += (uint64_t)json_integer_value(json_object_get(line, "asked"));
    row->found += (uint64_t)json_integer_value(json_object_get(line, "found"));
    if (!merge_latency(&row->latency, json_object_get(line, "latency")))
        return kv_fail(status, KV_CORRUPT, "a measured process wrote an unusable histogram");
    return KV_OK;
}

kv_code bench_row_take(struct bench_row *row, const char *text, unsigned fork,
                       kv_status *status)
{
    json_error_t error;
    json_t *line = json_loads(text, 0, &error);
    if (line == NULL)
        return kv_fail(status, KV_CORRUPT, "a measured process wrote no JSON: %s", error.text);

    kv_code code = KV_OK;
    json_t *reason = json_object_get(line, "error");
    json_t *peak = json_object_get(line, "peak_resident_bytes");
    if (reason != NULL) {
        code = (kv_code)json_integer_value(json_object_get(line, "code"));
        code = kv_fail(status, code == KV_OK ? KV_INTERNAL : code, "%s",
                       json_string_value(reason));
        bench_row_fail(row, json_string_value(reason));
    } else if (peak != NULL) {
        json_array_append(row->peaks, peak);
    } else {
        code = take_iteration(row, line, fork, status);
    }
    json_decref(line);
    return code;
}

/* ---- The sum ---------------------------------------------------------------- */

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *series_json(const struct bench_row *row, unsigned series, const char *unit,
                           bool higher, const char *gate, double floor)
{
    double *values = calloc(row->count, sizeof(*values));
    json_t *forks = json_array();
    if (values == NULL)
        return NULL;
    for (size_t i = 0; i < row->count; i++) {
        values[i] = row->samples[i].values[series];
        while (json_array_size(forks) <= row->samples[i].fork)
            json_array_append_new(forks, json_array());
        json_array_append_new(json_array_get(forks, row->samples[i].fork),
                              json_real(values[i]));
    }
    struct bench_estimate estimate = bench_estimate_of(values, row->count);
    free(values);
    return json_pack("{s:s,s:s,s:s,s:f,s:o,s:I,s:f,s:o}", "unit", unit, "better",
                     higher ? "higher" : "lower", "gate", gate, "mean", estimate.mean, "error",
                     real_or_null(estimate.error), "n", (json_int_t)row->count, "floor", floor,
                     "samples", forks);
}

static json_t *metrics_json(const struct bench_row *row)
{
    bool loose = (row->workload->flags & BENCH_LOOSE) != 0;
    json_t *metrics = json_object();
    json_object_set_new(metrics, "throughput",
                        series_json(row, SERIES_THROUGHPUT, "op/s", true, "time", 0.0));
    for (unsigned i = 0; i < BENCH_COUNTERS; i++) {
        const char *gate = counter_table[i].exact && !loose ? "exact" : "none";
        json_object_set_new(metrics, counter_table[i].name,
                            series_json(row, SERIES_COUNTERS + i, counter_table[i].unit, false,
                                        gate, counter_table[i].floor));
    }
    const bench_metric *own = row->suite->metrics;
    for (unsigned i = 0; own != NULL && own[i].name != NULL && i < BENCH_METRICS_MAX; i++)
        json_object_set_new(metrics, own[i].name,
                            series_json(row, SERIES_METRICS + i, own[i].unit,
                                        own[i].higher_is_better,
                                        own[i].exact && !loose ? "exact" : "none", 0.0));
    return metrics;
}

static json_t *latency_json(const struct bench_row *row)
{
    static const struct {
        const char *name;
        double percent;
    } named[] = {
        { "p50", 50.0 }, { "p90", 90.0 }, { "p99", 99.0 }, { "p99.9", 99.9 }, { "max", 100.0 }
    };
    json_t *latency = json_object();
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        json_object_set_new(latency, named[i].name,
                            json_integer((json_int_t)bench_histogram_percentile(
                                &row->latency, named[i].percent)));

    /* Three points to each halving of what is left: 0, 20.6, 37, 50, ..., 99.9.. */
    json_t *curve = json_array();
    double rest = 1.0;
    while (rest * (double)row->latency.count >= 1.0) {
        double percent = 100.0 * (1.0 - rest);
        json_array_append_new(
            curve, json_pack("[fI]", percent,
                             (json_int_t)bench_histogram_percentile(&row->latency, percent)));
        rest *= 0.7937005259840998; /* the cube root of one half */
    }
    json_object_set_new(latency, "count", json_integer((json_int_t)row->latency.count));
    json_object_set_new(latency, "timed_one_in", json_integer((json_int_t)row->every));
    json_object_set_new(latency, "curve", curve);
    return latency;
}

json_t *bench_row_json(const struct bench_row *row)
{
    json_t *json = json_deep_copy(row->identity);
    if (row->error[0] != '\0') {
        json_object_set_new(json, "error", json_string(row->error));
        return json;
    }
    if (row->count == 0) {
        json_decref(json);
        return NULL;
    }
    json_object_set_new(json, "operations", json_integer((json_int_t)row->operations));
    json_object_set_new(json, "metrics", metrics_json(row));
    json_object_set_new(json, "latency_ns", latency_json(row));
    if (row->asked > 0) {
        json_object_set_new(json, "asked", json_integer((json_int_t)row->asked));
        json_object_set_new(json, "found", json_integer((json_int_t)row->found));
    }
    json_object_set(json, "peak_resident_bytes", row->peaks);
    return json;
}
