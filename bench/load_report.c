/* load_report.c - plow's report of a load, as text and as JSON. */
#include "bench/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BINS = 8, DURATION_SIZE = 32 };

static const double percents[] = { 50, 75, 90, 95, 99, 99.9, 99.99 };
static const char *const percent_names[] = { "P50", "P75",   "P90",   "P95",
                                             "P99", "P99.9", "P99.99" };
enum { PERCENTS = sizeof(percents) / sizeof(*percents) };

/* A duration as Go prints it, cut to microseconds: "87µs", "1.234ms", "2.5s". */
static const char *duration(double ns, char out[DURATION_SIZE])
{
    double value = floor(ns / 1000) / 1000; /* milliseconds */
    const char *unit = "ms";
    if (value < 1) {
        snprintf(out, DURATION_SIZE, "%.0f\xc2\xb5s", value * 1000);
        return out;
    }
    if (value >= 1000) {
        value /= 1000;
        unit = "s";
    }
    int size = snprintf(out, DURATION_SIZE, unit[0] == 's' ? "%.6f" : "%.3f", value);
    while (size > 0 && out[size - 1] == '0')
        size--;
    if (size > 0 && out[size - 1] == '.')
        size--;
    snprintf(out + size, (size_t)(DURATION_SIZE - size), "%s", unit);
    return out;
}

size_t load_bins(const struct bench_histogram *histogram, struct load_bin *out, size_t limit)
{
    struct load_bin *bins = calloc(BENCH_HISTOGRAM_BUCKETS, sizeof(*bins));
    size_t count = 0;
    if (bins == NULL)
        return 0;
    for (unsigned i = 0; i < BENCH_HISTOGRAM_BUCKETS; i++)
        if (histogram->buckets[i] > 0)
            bins[count++] =
                (struct load_bin){ bench_histogram_middle(i), histogram->buckets[i] };
    while (count > limit) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (bins[i + 1].mean_ns - bins[i].mean_ns <
                bins[best + 1].mean_ns - bins[best].mean_ns)
                best = i;
        struct load_bin *a = &bins[best], *b = &bins[best + 1];
        double sum =
            (double)a->mean_ns * (double)a->count + (double)b->mean_ns * (double)b->count;
        a->count += b->count;
        a->mean_ns = (uint64_t)(sum / (double)a->count);
        memmove(b, b + 1, (count - best - 2) * sizeof(*bins));
        count--;
    }
    memcpy(out, bins, count * sizeof(*bins));
    free(bins);
    return count;
}

struct spread {
    double min, mean, deviation, max;
};

static struct spread latency_spread(const struct load_result *result)
{
    struct spread out = { 0, 0, 0, 0 };
    double n = (double)result->good;
    if (result->good == 0)
        return out;
    out.min = (double)result->latency.min;
    out.max = (double)result->latency.max;
    out.mean = result->latency_sum_ns / n;
    double variance =
        result->good > 1 ? (result->latency_squares - n * out.mean * out.mean) / (n - 1) : 0;
    out.deviation = variance > 0 ? sqrt(variance) : 0;
    return out;
}

static double per_second(const struct load_result *result, uint64_t what)
{
    return result->elapsed_ns == 0 ? 0 : (double)what * 1e9 / (double)result->elapsed_ns;
}

static struct spread rate_spread(const struct load_result *result)
{
    double whole = per_second(result, result->good);
    struct spread out = { whole, whole, 0, whole };
    size_t n = result->sample_count;
    if (n < 2)
        return out;
    double sum = 0, squares = 0;
    out.min = out.max = (double)result->samples[0];
    for (size_t i = 0; i < n; i++) {
        double sample = (double)result->samples[i];
        out.min = sample < out.min ? sample : out.min;
        out.max = sample > out.max ? sample : out.max;
        sum += sample;
        squares += sample * sample;
    }
    out.mean = sum / (double)n;
    double variance = (squares - (double)n * out.mean * out.mean) / (double)(n - 1);
    out.deviation = variance > 0 ? sqrt(variance) : 0;
    return out;
}

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

void load_report_text(const struct load_config *config, const struct load_result *result,
                      struct query_buffer *out)
{
    char a[DURATION_SIZE], b[DURATION_SIZE], c[DURATION_SIZE], d[DURATION_SIZE];
    struct spread latency = latency_spread(result), rate = rate_spread(result);
    struct load_bin bins[BINS];
    query_buffer_format(out, "Summary:\n  Elapsed      %10.1fs\n  Count        %11llu\n",
                        (double)result->elapsed_ns / 1e9, (unsigned long long)result->count);
    if (result->still_ns > 0)
        query_buffer_format(out, "  Stood still  %10.1fs\n", (double)result->still_ns / 1e9);
    for (int i = 1; i < 6; i++)
        if (result->statuses[i] > 0)
            query_buffer_format(out, "    %dxx        %11llu\n", i,
                                (unsigned long long)result->statuses[i]);
    query_buffer_format(out,
                        "  Good         %11llu\n  RPS          %11.3f\n  Concurrency  %11zu\n"
                        "  Served       %11llu\n  Reads        %11.3fMB/s\n"
                        "  Writes       %11.3fMB/s\n",
                        (unsigned long long)result->good, per_second(result, result->good),
                        config->connections, (unsigned long long)result->connections_served,
                        mib(per_second(result, result->bytes_read)),
                        mib(per_second(result, result->bytes_written)));
    if (result->kind_count > 0) {
        query_buffer_literal(out, "\nError:\n");
        for (size_t i = 0; i < result->kind_count; i++)
            query_buffer_format(out, "  %9llu  \"%s\"\n",
                                (unsigned long long)result->kinds[i].count,
                                result->kinds[i].text);
    }
    if (result->good == 0) {
        query_buffer_literal(out, "\nNo request succeeded: there are no latencies\n");
        return;
    }
    query_buffer_format(out,
                        "\nStatistics   %12s %12s %12s %12s\n"
                        "  Latency    %12s %12s %12s %12s\n"
                        "  RPS        %12.2f %12.2f %12.2f %12.2f\n\nLatency Percentile:\n  ",
                        "Min", "Mean", "StdDev", "Max", duration(latency.min, a),
                        duration(latency.mean, b), duration(latency.deviation, c),
                        duration(latency.max, d), rate.min, rate.mean, rate.deviation,
                        rate.max);
    for (size_t i = 0; i < PERCENTS; i++)
        query_buffer_format(out, "%-11s", percent_names[i]);
    query_buffer_literal(out, "\n  ");
    for (size_t i = 0; i < PERCENTS; i++)
        query_buffer_format(
            out, "%-11s",
            duration((double)bench_histogram_percentile(&result->latency, percents[i]), a));
    query_buffer_literal(out, "\n\nLatency Histogram:\n");
    size_t count = load_bins(&result->latency, bins, BINS);
    for (size_t i = 0; i < count; i++)
        query_buffer_format(out, "  %-12s %11llu  %5.2f%%\n",
                            duration((double)bins[i].mean_ns, a),
                            (unsigned long long)bins[i].count,
                            100.0 * (double)bins[i].count / (double)result->good);
}

static void json_spread(struct query_buffer *out, const char *name, const struct spread *spread,
                        bool time)
{
    char a[DURATION_SIZE], b[DURATION_SIZE], c[DURATION_SIZE], d[DURATION_SIZE];
    if (time)
        query_buffer_format(
            out, "\"%s\":{\"Min\":\"%s\",\"Mean\":\"%s\",\"StdDev\":\"%s\",\"Max\":\"%s\"}",
            name, duration(spread->min, a), duration(spread->mean, b),
            duration(spread->deviation, c), duration(spread->max, d));
    else
        query_buffer_format(out,
                            "\"%s\":{\"Min\":%.2f,\"Mean\":%.2f,\"StdDev\":%.2f,\"Max\":%.2f}",
                            name, spread->min, spread->mean, spread->deviation, spread->max);
}

void load_report_json(const struct load_config *config, const struct load_result *result,
                      struct query_buffer *out)
{
    char a[DURATION_SIZE];
    struct spread latency = latency_spread(result), rate = rate_spread(result);
    struct load_bin bins[BINS];
    bool first = true;
    query_buffer_format(
        out, "{\"Summary\":{\"Elapsed\":\"%s\",\"Count\":%llu,\"Good\":%llu,\"Counts\":{",
        duration((double)result->elapsed_ns, a), (unsigned long long)result->count,
        (unsigned long long)result->good);
    for (int i = 1; i < 6; i++)
        if (result->statuses[i] > 0) {
            query_buffer_format(out, "%s\"%dxx\":%llu", first ? "" : ",", i,
                                (unsigned long long)result->statuses[i]);
            first = false;
        }
    query_buffer_format(out,
                        "},\"RPS\":%.3f,\"Concurrency\":%zu,\"Served\":%llu,"
                        "\"Reads\":\"%.3fMB/s\",\"Writes\":\"%.3fMB/s\"},\"Error\":{",
                        per_second(result, result->good), config->connections,
                        (unsigned long long)result->connections_served,
                        mib(per_second(result, result->bytes_read)),
                        mib(per_second(result, result->bytes_written)));
    for (size_t i = 0; i < result->kind_count; i++) {
        query_buffer_text(out, i == 0 ? "" : ",");
        query_buffer_json(out, kv_text(result->kinds[i].text));
        query_buffer_format(out, ":%llu", (unsigned long long)result->kinds[i].count);
    }
    query_buffer_literal(out, "},\"Statistics\":{");
    if (result->good > 0) {
        json_spread(out, "Latency", &latency, true);
        query_buffer_literal(out, ",");
        json_spread(out, "RPS", &rate, false);
    }
    query_buffer_literal(out, "},\"Percentiles\":{");
    for (size_t i = 0; i < PERCENTS && result->good > 0; i++)
        query_buffer_format(
            out, "%s\"%s\":\"%s\"", i == 0 ? "" : ",", percent_names[i],
            duration((double)bench_histogram_percentile(&result->latency, percents[i]), a));
    query_buffer_literal(out, "},\"Histograms\":[");
    size_t count = result->good > 0 ? load_bins(&result->latency, bins, BINS) : 0;
    for (size_t i = 0; i < count; i++)
        query_buffer_format(out, "%s[\"%s\",%llu]", i == 0 ? "" : ",",
                            duration((double)bins[i].mean_ns, a),
                            (unsigned long long)bins[i].count);
    query_buffer_literal(out, "]}");
}
