/*
 * query_table.c - the table that started this: its request at 10, 100 and 1000 connections on
 * two engines, beside the bare loop of this machine and the seed's own numbers.
 */
#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>

/* Requests a second in the seed: a CometBFT node of sifchain, 3 minutes with plow. */
static const struct {
    const char *backend; /* its goleveldb stands for leveldb */
    unsigned connections;
    double rate;
} seed_rows[] = {
    { "leveldb", 10, 10245 }, { "leveldb", 100, 19366 }, { "leveldb", 1000, 23175 },
    { "rocksdb", 10, 9652 },  { "rocksdb", 100, 17606 }, { "rocksdb", 1000, 21409 },
};

static double metric(const json_t *row, const char *name)
{
    return bench_json_number(json_object_get(json_object_get(row, "metrics"), name), "mean");
}

static const char *parameter(const json_t *row, const char *name)
{
    return bench_json_text(json_object_get(row, "parameters"), name);
}

/* The row of another workload beside `like`, measured in the same minutes, or NULL. */
static const json_t *find(const json_t *rows, const char *workload, const json_t *like)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(bench_json_text(row, "workload"), workload) == 0 &&
            json_object_get(row, "error") == NULL &&
            strcmp(bench_json_text(row, "backend"), bench_json_text(like, "backend")) == 0 &&
            json_equal(json_object_get(row, "parameters"), json_object_get(like, "parameters")))
            return row;
    }
    return NULL;
}

static double seed_rate(const json_t *row)
{
    unsigned connections = (unsigned)strtoul(parameter(row, "connections"), NULL, 10);
    if (strcmp(bench_json_text(row, "workload"), "seed") != 0)
        return 0;
    for (size_t i = 0; i < sizeof(seed_rows) / sizeof(seed_rows[0]); i++)
        if (seed_rows[i].connections == connections &&
            strcmp(seed_rows[i].backend, bench_json_text(row, "backend")) == 0)
            return seed_rows[i].rate;
    return 0;
}

static void print_ratio(double number, double base, FILE *out)
{
    if (base > 0)
        fprintf(out, " %6.2f", number / base);
    else
        fprintf(out, " %6s", "");
}

static void print_load(const json_t *rows, const json_t *row, FILE *out)
{
    const json_t *bare = find(rows, "bare", row);
    bool is_bare = bare == row;
    double rate = metric(row, "throughput"), seed = seed_rate(row);
    fprintf(out, "%-13s %-8s %5s %9.0f", bench_json_text(row, "workload"),
            bench_json_text(row, "backend"), parameter(row, "connections"), rate);
    bare = is_bare ? NULL : bare;
    print_ratio(rate, bare == NULL ? 0 : metric(bare, "throughput"), out);
    fprintf(out, " %8.3f %8.3f", metric(row, "latency_mean_ns") / 1e6,
            metric(row, "latency_p50_ns") / 1e6);
    fprintf(out, " %8.3f", metric(row, "latency_p99_ns") / 1e6);
    print_ratio(metric(row, "latency_p99_ns"),
                bare == NULL ? 0 : metric(bare, "latency_p99_ns"), out);
    fprintf(out, " %8.3f %7.2f", metric(row, "latency_p999_ns") / 1e6,
            metric(row, "server_cpu_ns") / 1e3);
    print_ratio(metric(row, "server_cpu_ns"), bare == NULL ? 0 : metric(bare, "server_cpu_ns"),
                out);
    fprintf(out, " %7.3f %6.0f", metric(row, "server_allocations"),
            metric(row, "connections_served"));
    if (seed > 0)
        fprintf(out, " %7.0f %5.2f", seed, rate / seed);
    fputc('\n', out);
}

static void print_commits(const json_t *rows, const json_t *row, FILE *out)
{
    const json_t *idle = find(rows, "writer-idle", row);
    fprintf(out, "%-13s %-8s %5s commit ms: mean %.2f p50 %.2f p99 %.2f",
            bench_json_text(row, "workload"), bench_json_text(row, "backend"),
            parameter(row, "connections"), metric(row, "latency_mean_ns") / 1e6,
            metric(row, "latency_p50_ns") / 1e6, metric(row, "latency_p99_ns") / 1e6);
    if (idle != NULL && idle != row)
        fprintf(out, ", %.2f of idle",
                metric(row, "latency_p99_ns") / metric(idle, "latency_p99_ns"));
    fputc('\n', out);
}

void bench_query_table_print(const json_t *document, FILE *out)
{
    const json_t *rows = json_object_get(document, "rows");
    bool header = false;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(bench_json_text(row, "suite"), "query") != 0 ||
            json_object_get(row, "error") != NULL)
            continue;
        if (!header)
            fprintf(
                out,
                "\nThe seed's table; /bare: to the bare loop of this run; seed: what the "
                "seed tells of its node\n%-13s %-8s %5s %9s %6s %8s %8s %8s %6s %8s %7s %6s "
                "%7s %6s %7s %5s\n",
                "request", "engine", "conns", "req/s", "/bare", "mean ms", "p50 ms", "p99 ms",
                "/bare", "p99.9 ms", "CPU us", "/bare", "mallocs", "served", "seed", "/seed");
        header = true;
        if (strncmp(bench_json_text(row, "workload"), "writer", 6) == 0)
            print_commits(rows, row, out);
        else
            print_load(rows, row, out);
    }
}
