/* table.c - results for people. */
#include "bench/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256, CELL_SIZE = 32 };

static void format_count(double value, char *out)
{
    if (!isfinite(value))
        snprintf(out, CELL_SIZE, "n/a");
    else if (value >= 1e7)
        snprintf(out, CELL_SIZE, "%.4gM", value / 1e6);
    else if (value >= 1000.0)
        snprintf(out, CELL_SIZE, "%.0f", value);
    else
        snprintf(out, CELL_SIZE, "%.3g", value);
}

static void format_time(double ns, char *out)
{
    if (!isfinite(ns))
        snprintf(out, CELL_SIZE, "n/a");
    else if (ns < 1e3)
        snprintf(out, CELL_SIZE, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(out, CELL_SIZE, "%.3g us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(out, CELL_SIZE, "%.3g ms", ns / 1e6);
    else
        snprintf(out, CELL_SIZE, "%.3g s", ns / 1e9);
}

/* A parameter is shown in a row's name only where rows differ in it. */
static bool varies(const json_t *rows, const char *parameter)
{
    const json_t *first = json_object_get(json_array_get(rows, 0), "parameters");
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *parameters = json_object_get(row, "parameters");
        if (strcmp(bench_json_text(parameters, parameter), bench_json_text(first, parameter)) !=
            0)
            return true;
    }
    return false;
}

static bool threads_vary(const json_t *rows)
{
    double first = bench_json_number(json_array_get(rows, 0), "threads");
    size_t i;
    json_t *row;
    json_array_foreach(rows, i,
                       row) if (bench_json_number(row, "threads") != first) return true;
    return false;
}

static bool filesystems_vary(const json_t *rows)
{
    const char *first = bench_json_text(json_array_get(rows, 0), "filesystem");
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) if (strcmp(bench_json_text(row, "filesystem"), first) !=
                                         0) return true;
    return false;
}

static void short_name(const json_t *rows, const json_t *row, char *out)
{
    int at = snprintf(out, NAME_SIZE, "%s %s", bench_json_text(row, "workload"),
                      bench_json_text(row, "backend"));
    if (filesystems_vary(rows))
        at += snprintf(out + at, (size_t)(NAME_SIZE - at), "/%s",
                       bench_json_text(row, "filesystem"));
    if (threads_vary(rows))
        at += snprintf(out + at, (size_t)(NAME_SIZE - at), " threads=%.0f",
                       bench_json_number(row, "threads"));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(row, "parameters"), key,
                        value) if (at < NAME_SIZE && varies(rows, key)) at +=
        snprintf(out + at, (size_t)(NAME_SIZE - at), " %s=%s", key, json_string_value(value));
}

static void print_header(const json_t *document, FILE *out)
{
    const json_t *program = json_object_get(document, "program");
    const json_t *machine = json_object_get(document, "machine");
    const json_t *plan = json_object_get(document, "plan");
    fprintf(out, "commit %s%s, %s, %s%s\n", bench_json_text(program, "commit"),
            json_is_true(json_object_get(program, "modified")) ? " (modified)" : "",
            bench_json_text(program, "compiler"), bench_json_text(program, "build_type"),
            json_is_true(json_object_get(program, "sanitized"))
                ? " with sanitizers: times mean nothing"
                : "");
    fprintf(out, "%s, %.0f cores, kernel %s\n", bench_json_text(machine, "cpu"),
            bench_json_number(machine, "cores"), bench_json_text(machine, "kernel"));
    size_t i;
    json_t *database;
    json_array_foreach(json_object_get(document, "databases"), i, database)
    {
        const json_t *folder = json_object_get(database, "folder");
        const json_t *probe = json_object_get(folder, "fsync_probe");
        const char *engine = bench_json_text(json_object_get(program, "engines"),
                                             bench_json_text(database, "backend"));
        fprintf(out, "%s%s%s%s in %s (%s on %s, fsync p50 %.0f us p99 %.0f us)%s\n",
                bench_json_text(database, "backend"), engine[0] != '\0' ? " (" : "", engine,
                engine[0] != '\0' ? ")" : "", bench_json_text(folder, "dir"),
                bench_json_text(folder, "filesystem"), bench_json_text(folder, "device"),
                bench_json_number(probe, "p50_us"), bench_json_number(probe, "p99_us"),
                json_is_true(json_object_get(folder, "volatile"))
                    ? ": volatile, durability figures mean nothing"
                    : "");
    }
    fprintf(out, "%.0f processes x %.0f iterations after %.0f to warm up; +- is 99.9 %%\n",
            bench_json_number(plan, "forks"), bench_json_number(plan, "iterations"),
            bench_json_number(plan, "warmup"));
    const char *key;
    json_t *value;
    const json_t *rows = json_object_get(document, "rows");
    json_object_foreach(json_object_get(json_array_get(rows, 0), "parameters"), key,
                        value) if (!varies(rows, key))
        fprintf(out, "%s=%s ", key, json_string_value(value));
    fprintf(out, "\n\n");
}

static void print_time_row(const json_t *rows, const json_t *row, int width, FILE *out)
{
    static const char *const points[] = { "p50", "p90", "p99", "p99.9", "max" };
    char name[NAME_SIZE], mean[CELL_SIZE], error[CELL_SIZE], cell[CELL_SIZE];
    short_name(rows, row, name);
    if (json_object_get(row, "error") != NULL) {
        fprintf(out, "%-*s  FAILED: %s\n", width, name, bench_json_text(row, "error"));
        return;
    }
    const json_t *metrics = json_object_get(row, "metrics");
    const json_t *throughput = json_object_get(metrics, "throughput");
    format_count(bench_json_number(throughput, "mean"), mean);
    format_count(bench_json_number(throughput, "error"), error);
    fprintf(out, "%-*s %11s +- %-9s %3.0f", width, name, mean, error,
            bench_json_number(throughput, "n"));
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        format_time(bench_json_number(json_object_get(row, "latency_ns"), points[i]), cell);
        fprintf(out, " %9s", cell);
    }
    format_time(bench_json_number(json_object_get(metrics, "cpu_ns"), "mean"), cell);
    fprintf(out, " %9s", cell);
    if (json_object_get(row, "asked") != NULL)
        fprintf(out, "  found %.0f of %.0f", bench_json_number(row, "found"),
                bench_json_number(row, "asked"));
    fprintf(out, "\n");
}

static void print_counter_row(const json_t *rows, const json_t *row, int width, FILE *out)
{
    static const char *const names[] = { "allocations", "allocated_bytes", "reads",
                                         "read_bytes",  "writes",          "written_bytes",
                                         "fsyncs",      "fdatasyncs",      "unlinks",
                                         "renames",     "minor_faults",    "context_switches" };
    char name[NAME_SIZE], cell[CELL_SIZE];
    if (json_object_get(row, "error") != NULL)
        return;
    short_name(rows, row, name);
    fprintf(out, "%-*s", width, name);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *metric = json_object_get(json_object_get(row, "metrics"), names[i]);
        format_count(bench_json_number(metric, "mean"), cell);
        fprintf(out, " %8s", cell);
    }
    format_count(
        json_number_value(json_array_get(json_object_get(row, "peak_resident_bytes"), 0)) /
            1048576.0,
        cell);
    fprintf(out, " %8s\n", cell);
}

static void print_own_row(const json_t *rows, const json_t *row, int width, FILE *out)
{
    /* The suite's own metrics are the ones after the harness's. */
    char name[NAME_SIZE], cell[CELL_SIZE];
    const char *key;
    json_t *metric;
    size_t index = 0;
    short_name(rows, row, name);
    fprintf(out, "%-*s", width, name);
    json_object_foreach(json_object_get(row, "metrics"), key, metric)
    {
        if (index++ < 1 + BENCH_COUNTERS)
            continue;
        format_count(bench_json_number(metric, "mean"), cell);
        fprintf(out, "  %s %s %s", key, cell, bench_json_text(metric, "unit"));
    }
    fprintf(out, "\n");
}

void bench_table_print(const json_t *document, FILE *out)
{
    const json_t *rows = json_object_get(document, "rows");
    int width = 8;
    bool own = false;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        char name[NAME_SIZE];
        short_name(rows, row, name);
        int length = (int)strlen(name);
        width = length > width ? length : width;
        own = own || json_object_size(json_object_get(row, "metrics")) > 1 + BENCH_COUNTERS;
    }
    print_header(document, out);
    fprintf(out, "%-*s %11s    %-9s %3s %9s %9s %9s %9s %9s %9s\n", width, "row", "op/s",
            "error", "n", "p50", "p90", "p99", "p99.9", "max", "CPU/op");
    json_array_foreach(rows, i, row) print_time_row(rows, row, width, out);
    fprintf(out, "\n%-*s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s\n", width,
            "per operation", "mallocs", "bytes", "reads", "bytes", "writes", "bytes", "fsyncs",
            "fdatasyn", "unlinks", "renames", "faults", "switches", "peak MiB");
    json_array_foreach(rows, i, row) print_counter_row(rows, row, width, out);
    if (own)
        fprintf(out, "\n");
    json_array_foreach(rows, i, row) if (own && json_object_get(row, "error") == NULL)
        print_own_row(rows, row, width, out);
    bench_query_table_print(document, out);
    if (json_is_true(json_object_get(document, "interrupted")))
        fprintf(out, "\ninterrupted: only what was measured so far\n");
}
