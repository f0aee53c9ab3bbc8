/* report.c - result documents as one self-contained HTML file. */
#include "bench/chart.h"
#include "bench/harness.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DOCUMENTS_MAX = 32, LABEL_SIZE = 96 };

struct report {
    const char *paths[DOCUMENTS_MAX];
    json_t *documents[DOCUMENTS_MAX];
    unsigned count;
    const char *output;
    const char *pictures; /* a folder for the charts as files, or NULL */
    unsigned drawn;
    FILE *out;
};

/* ---- Which rows, under which name ------------------------------------------------ */

static bool is_x_axis(const char *parameter)
{
    return strcmp(parameter, "count") == 0;
}

static bool parameter_varies(const struct report *report, const char *suite, const char *name)
{
    const char *first = NULL;
    for (unsigned i = 0; i < report->count; i++) {
        size_t j;
        json_t *row;
        json_array_foreach(json_object_get(report->documents[i], "rows"), j, row)
        {
            if (strcmp(bench_json_text(row, "suite"), suite) != 0)
                continue;
            const char *value = bench_json_text(json_object_get(row, "parameters"), name);
            if (first != NULL && strcmp(first, value) != 0)
                return true;
            first = value;
        }
    }
    return false;
}

/* A series is a database, and what else rows of the suite differ in, except what
 * stands on the x axis. */
static void series_label(const struct report *report, const json_t *row, bool with_count,
                         char *out)
{
    const char *suite = bench_json_text(row, "suite");
    const char *filesystem = bench_json_text(row, "filesystem");
    int at = snprintf(out, LABEL_SIZE, "%s%s%s", bench_json_text(row, "backend"),
                      filesystem[0] != '\0' ? " " : "", filesystem);
    if (bench_json_number(row, "threads") != 1.0)
        at += snprintf(out + at, (size_t)(LABEL_SIZE - at), " %.0f threads",
                       bench_json_number(row, "threads"));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(row, "parameters"), key,
                        value) if (at < LABEL_SIZE && (with_count || !is_x_axis(key)) &&
                                   parameter_varies(report, suite, key)) at +=
        snprintf(out + at, (size_t)(LABEL_SIZE - at), " %s=%s", key, json_string_value(value));
}

/* ---- HTML ------------------------------------------------------------------------ */

static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fputc(*text, out);
    }
}

static void put_head(FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'; img-src data:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n"
          "<title>statekv-bench</title>\n<style>\n"
          "body { font: 15px/1.5 sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 "
          "1em; }\n"
          "table { border-collapse: collapse; font-size: 13px; margin: 1em 0; }\n"
          "td, th { padding: 2px 10px 2px 0; text-align: right; border-bottom: 1px solid #ddd; "
          "}\n"
          "td:first-child, th:first-child { text-align: left; }\n"
          "svg { width: 100%; height: auto; }\n.warning { color: #a00; font-weight: bold; }\n"
          "</style>\n</head>\n<body>\n<h1>statekv-bench</h1>\n",
          out);
}

static void put_facts(FILE *out, const json_t *document, const char *path)
{
    const json_t *program = json_object_get(document, "program");
    const json_t *machine = json_object_get(document, "machine");
    const char *slash = strrchr(path, '/');
    fprintf(out, "<p><b>");
    put_text(out, slash != NULL ? slash + 1 : path);
    fprintf(out, "</b>: commit ");
    put_text(out, bench_json_text(program, "commit"));
    fprintf(out, ", ");
    put_text(out, bench_json_text(program, "compiler"));
    fprintf(out, " ");
    put_text(out, bench_json_text(program, "flags"));
    fprintf(out, ", ");
    put_text(out, bench_json_text(machine, "cpu"));
    fprintf(out, ", %.0f cores, kernel ", bench_json_number(machine, "cores"));
    put_text(out, bench_json_text(machine, "kernel"));
    fprintf(out, ", ");
    put_text(out, bench_json_text(document, "ended"));
    size_t i;
    json_t *each;
    fprintf(out, "<br><code>");
    json_array_foreach(json_object_get(document, "command"), i, each)
    {
        put_text(out, json_string_value(each));
        fputc(' ', out);
    }
    fprintf(out, "</code></p>\n");
    if (json_is_true(json_object_get(program, "sanitized")))
        fprintf(out, "<p class=\"warning\">Built with sanitizers: times mean nothing.</p>\n");
    json_array_foreach(json_object_get(document, "databases"), i, each)
    {
        const json_t *folder = json_object_get(each, "folder");
        if (!json_is_true(json_object_get(folder, "volatile")))
            continue;
        fprintf(out, "<p class=\"warning\">");
        put_text(out, bench_json_text(each, "backend"));
        fprintf(out, " on ");
        put_text(out, bench_json_text(folder, "filesystem"));
        fprintf(out, " is volatile: its durability figures mean nothing.</p>\n");
    }
}

static void put_table(const struct report *report, const char *suite)
{
    static const char *const metrics[] = { "allocations", "allocated_bytes", "writes",
                                           "written_bytes", "fdatasyncs" };
    FILE *out = report->out;
    fprintf(out, "<table><tr><th>row</th><th>op/s</th><th>&plusmn; 99.9 %%</th><th>n</th>"
                 "<th>p50 us</th><th>p99 us</th><th>CPU us</th>");
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
        fprintf(out, "<th>%s</th>", metrics[i]);
    fprintf(out, "</tr>\n");
    for (unsigned d = 0; d < report->count; d++) {
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(report->documents[d], "rows"), i, row)
        {
            char label[LABEL_SIZE];
            const json_t *own = json_object_get(row, "metrics");
            const json_t *throughput = json_object_get(own, "throughput");
            const json_t *latency = json_object_get(row, "latency_ns");
            if (strcmp(bench_json_text(row, "suite"), suite) != 0)
                continue;
            series_label(report, row, true, label);
            fprintf(out, "<tr><td>");
            put_text(out, bench_json_text(row, "workload"));
            fputc(' ', out);
            put_text(out, label);
            fprintf(out, "</td>");
            if (json_object_get(row, "error") != NULL) {
                fprintf(out, "<td class=\"warning\">failed</td></tr>\n");
                continue;
            }
            fprintf(out,
                    "<td>%.0f</td><td>%.3g</td><td>%.0f</td><td>%.3g</td><td>%.3g</td>"
                    "<td>%.3g</td>",
                    bench_json_number(throughput, "mean"),
                    bench_json_number(throughput, "error"), bench_json_number(throughput, "n"),
                    bench_json_number(latency, "p50") / 1e3,
                    bench_json_number(latency, "p99") / 1e3,
                    bench_json_number(json_object_get(own, "cpu_ns"), "mean") / 1e3);
            for (size_t j = 0; j < sizeof(metrics) / sizeof(metrics[0]); j++)
                fprintf(out, "<td>%.4g</td>",
                        bench_json_number(json_object_get(own, metrics[j]), "mean"));
            fprintf(out, "</tr>\n");
        }
    }
    fprintf(out, "</table>\n");
}

/* ---- Charts ----------------------------------------------------------------------- */

static kv_code put_chart(struct report *report, struct bench_chart *chart, kv_status *status)
{
    char *svg = NULL;
    kv_code code = chart->series_count > 0 ? bench_chart_draw(chart, &svg, status) : KV_OK;
    if (svg != NULL) {
        fprintf(report->out, "<figure>%s</figure>\n", svg);
        report->drawn++;
    }
    if (svg != NULL && report->pictures != NULL) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/%02u.svg", report->pictures, report->drawn);
        if (mkdir(report->pictures, 0777) != 0 && errno != EEXIST)
            code = kv_fail(status, KV_IO, "%s: %s", report->pictures, strerror(errno));
        FILE *file = fopen(path, "we");
        if (file == NULL || fputs(svg, file) == EOF)
            code = kv_fail(status, KV_IO, "%s: is not written: %s", path, strerror(errno));
        if (file != NULL && fclose(file) != 0)
            code = kv_fail(status, KV_IO, "%s: is not written: %s", path, strerror(errno));
    }
    free(svg);
    bench_chart_clear(chart);
    return code;
}

typedef kv_code add_row(const struct report *report, struct bench_chart *chart,
                        const json_t *row, kv_status *status);

/* Offer each row of the suite, of one workload if that is not NULL, to `add`. */
static kv_code chart_rows(struct report *report, struct bench_chart *chart, const char *suite,
                          const char *workload, add_row *add, kv_status *status)
{
    kv_code code = KV_OK;
    for (unsigned d = 0; d < report->count; d++) {
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(report->documents[d], "rows"), i, row)
        {
            if (code == KV_OK && strcmp(bench_json_text(row, "suite"), suite) == 0 &&
                json_object_get(row, "error") == NULL &&
                (workload == NULL || strcmp(bench_json_text(row, "workload"), workload) == 0))
                code = add(report, chart, row, status);
        }
    }
    return code == KV_OK ? put_chart(report, chart, status) : code;
}

static kv_code add_throughput(const struct report *report, struct bench_chart *chart,
                              const json_t *row, kv_status *status)
{
    char label[LABEL_SIZE];
    const json_t *metric = json_object_get(json_object_get(row, "metrics"), "throughput");
    struct bench_point point = {
        { 0 }, 0.0, bench_json_number(metric, "mean"), bench_json_number(metric, "error")
    };
    snprintf(point.group, sizeof(point.group), "%s", bench_json_text(row, "workload"));
    series_label(report, row, true, label);
    return bench_chart_add(chart, label, &point, status);
}

/* The same as the time of one operation, which is how others publish it. */
static kv_code add_seconds(const struct report *report, struct bench_chart *chart,
                           const json_t *row, kv_status *status)
{
    char label[LABEL_SIZE];
    const json_t *metric = json_object_get(json_object_get(row, "metrics"), "throughput");
    double mean = bench_json_number(metric, "mean"), error = bench_json_number(metric, "error");
    if (!(mean > 0.0))
        return KV_OK;
    struct bench_point point = { { 0 }, 0.0, 1.0 / mean, error / mean / mean };
    snprintf(point.group, sizeof(point.group), "%s", bench_json_text(row, "workload"));
    series_label(report, row, true, label);
    return bench_chart_add(chart, label, &point, status);
}

static bool has_workload(const struct report *report, const char *suite, const char *workload)
{
    for (unsigned d = 0; d < report->count; d++) {
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(report->documents[d], "rows"), i, row)
        {
            if (strcmp(bench_json_text(row, "suite"), suite) == 0 &&
                strcmp(bench_json_text(row, "workload"), workload) == 0)
                return true;
        }
    }
    return false;
}

/* Series by who published: a point for each workload that there are rows of, empty where
 * nothing was, for bars are matched by their place. */
static kv_code add_published(const struct report *report, struct bench_chart *chart,
                             const bench_suite *suite, kv_status *status)
{
    kv_code code = KV_OK;
    for (const bench_workload *each = suite->workloads; each->name != NULL; each++) {
        const bench_published *found = suite->published;
        while (found->who != NULL && strcmp(found->workload, each->name) != 0)
            found++;
        struct bench_point point = { { 0 }, 0.0, NAN, 0.0 };
        if (found->who != NULL) {
            point.y = found->seconds;
            point.error = found->error;
        }
        snprintf(point.group, sizeof(point.group), "%s", each->name);
        if (code == KV_OK && has_workload(report, suite->name, each->name))
            code = bench_chart_add(chart, suite->published->who, &point, status);
    }
    return code;
}

static kv_code add_cpu(const struct report *report, struct bench_chart *chart,
                       const json_t *row, kv_status *status)
{
    char label[LABEL_SIZE];
    const json_t *metric = json_object_get(json_object_get(row, "metrics"), "cpu_ns");
    struct bench_point point = { { 0 },
                                 0.0,
                                 bench_json_number(metric, "mean") * 1e-9,
                                 bench_json_number(metric, "error") * 1e-9 };
    snprintf(point.group, sizeof(point.group), "%s", bench_json_text(row, "workload"));
    series_label(report, row, true, label);
    return bench_chart_add(chart, label, &point, status);
}

static kv_code add_latency(const struct report *report, struct bench_chart *chart,
                           const json_t *row, kv_status *status)
{
    char label[LABEL_SIZE];
    kv_code code = KV_OK;
    size_t i;
    json_t *pair;
    series_label(report, row, true, label);
    json_array_foreach(json_object_get(json_object_get(row, "latency_ns"), "curve"), i, pair)
    {
        double percent = json_number_value(json_array_get(pair, 0));
        double ns = json_number_value(json_array_get(pair, 1));
        struct bench_point point = {
            { 0 }, -log10(1.0 - percent / 100.0), (ns > 1.0 ? ns : 1.0) * 1e-9, 0.0
        };
        if (code == KV_OK)
            code = bench_chart_add(chart, label, &point, status);
    }
    return code;
}

static kv_code add_size(const struct report *report, struct bench_chart *chart,
                        const json_t *row, kv_status *status)
{
    char label[LABEL_SIZE];
    uint64_t count = 0;
    const json_t *metric = json_object_get(json_object_get(row, "metrics"), "throughput");
    double mean = bench_json_number(metric, "mean"), error = bench_json_number(metric, "error");
    if (!bench_number_parse(bench_json_text(json_object_get(row, "parameters"), "count"),
                            &count) ||
        !(mean > 0.0))
        return KV_OK;
    struct bench_point point = { { 0 }, (double)count, 1.0 / mean, error / mean / mean };
    series_label(report, row, false, label);
    return bench_chart_add(chart, label, &point, status);
}

static void name_chart(struct bench_chart *chart, enum bench_chart_kind kind, const char *title,
                       const char *workload, const char *x, const char *y)
{
    *chart = (struct bench_chart){ .kind = kind };
    snprintf(chart->title, sizeof(chart->title), "%s%s%s", workload, workload[0] ? ": " : "",
             title);
    snprintf(chart->x_label, sizeof(chart->x_label), "%s", x);
    snprintf(chart->y_label, sizeof(chart->y_label), "%s", y);
}

static kv_code put_suite(struct report *report, const bench_suite *suite, kv_status *status)
{
    struct bench_chart chart;
    kv_code code;
    fprintf(report->out, "<h2>%s</h2>\n", suite->name);
    name_chart(&chart, BENCH_CHART_BARS, "operations per second, with the 99.9 % interval", "",
               "", "op/s");
    code = chart_rows(report, &chart, suite->name, NULL, add_throughput, status);
    name_chart(&chart, BENCH_CHART_BARS, "processor time of one operation, all threads", "", "",
               "seconds");
    if (code == KV_OK)
        code = chart_rows(report, &chart, suite->name, NULL, add_cpu, status);
    name_chart(&chart, BENCH_CHART_BARS, "time of one operation, with the 99.9 % interval", "",
               "", "seconds");
    if (code == KV_OK && suite->published != NULL) {
        code = add_published(report, &chart, suite, status);
        if (code == KV_OK)
            code = chart_rows(report, &chart, suite->name, NULL, add_seconds, status);
    }
    bool sizes = parameter_varies(report, suite->name, "count");
    for (const bench_workload *each = suite->workloads; code == KV_OK && each->name != NULL;
         each++) {
        name_chart(&chart, BENCH_CHART_NINES, "latency by percentile", each->name, "percentile",
                   "seconds");
        code = chart_rows(report, &chart, suite->name, each->name, add_latency, status);
        if (code != KV_OK || !sizes)
            continue;
        name_chart(&chart, BENCH_CHART_LINES,
                   "cost of one operation against the size of the data", each->name, "keys",
                   "seconds");
        code = chart_rows(report, &chart, suite->name, each->name, add_size, status);
    }
    bench_chart_clear(&chart);
    if (code == KV_OK)
        put_table(report, suite->name);
    return code;
}

static bool has_suite(const struct report *report, const char *name)
{
    for (unsigned i = 0; i < report->count; i++)
        if (strcmp(bench_json_text(report->documents[i], "suite"), name) == 0)
            return true;
    return false;
}

static kv_code write_report(struct report *report, kv_status *status)
{
    kv_code code = KV_OK;
    for (unsigned i = 0; i < report->count; i++) {
        code = bench_document_load(report->paths[i], &report->documents[i], status);
        if (code != KV_OK)
            return code;
    }
    report->out = fopen(report->output, "we");
    if (report->out == NULL)
        return kv_fail(status, KV_IO, "%s: %s", report->output, strerror(errno));
    put_head(report->out);
    for (unsigned i = 0; i < report->count; i++)
        put_facts(report->out, report->documents[i], report->paths[i]);
    for (const bench_suite *const *each = bench_suites; code == KV_OK && *each != NULL; each++)
        if (has_suite(report, (*each)->name))
            code = put_suite(report, *each, status);
    fprintf(report->out, "</body>\n</html>\n");
    if (fclose(report->out) != 0 && code == KV_OK)
        code = kv_fail(status, KV_IO, "%s: %s", report->output, strerror(errno));
    return code;
}

/* ---- The command -------------------------------------------------------------------- */

enum option_key { KEY_PICTURES = 0x1000 };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct report *report = state->input;
    switch (key) {
    case 'o':
        report->output = text;
        return 0;
    case KEY_PICTURES:
        report->pictures = text;
        return 0;
    case ARGP_KEY_ARG:
        if (report->count == DOCUMENTS_MAX)
            argp_error(state, "more than %d files", DOCUMENTS_MAX);
        else
            report->paths[report->count++] = text;
        return 0;
    case ARGP_KEY_END:
        if (report->count == 0 || report->output == NULL)
            argp_error(state, "report takes result files, and -o for its own");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int bench_report_main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        { "output", 'o', "FILE", 0, "The HTML file to write", 0 },
        { "pictures", KEY_PICTURES, "DIR", 0, "Write each chart to DIR, too, as 01.svg, ...",
          0 },
        { 0 },
    };
    static const struct argp argp = {
        options,
        parse_option,
        "FILE.json...",
        "Draw results as one HTML file with nothing outside it. Needs gnuplot.",
        NULL,
        NULL,
        NULL
    };
    struct report report = { .count = 0 };
    kv_status status = KV_STATUS_INIT;
    char name[] = "statekv-bench report";
    argv[0] = name;
    if (argp_parse(&argp, argc, argv, 0, NULL, &report) != 0)
        return BENCH_USAGE;
    kv_code code = write_report(&report, &status);
    if (code != KV_OK)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    for (unsigned i = 0; i < report.count; i++)
        json_decref(report.documents[i]);
    return code == KV_OK ? BENCH_DONE : code == KV_INVALID ? BENCH_USAGE : BENCH_FAILED;
}
