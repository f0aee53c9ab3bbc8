/* chart.c - see chart.h: writes a script for gnuplot and takes its answer. */
#include "bench/chart.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDTH = 960, HEIGHT = 460, SVG_SIZE_MAX = 8 << 20 };

/* Colours that stay apart for colour-blind readers (Okabe and Ito). */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#e69f00", "#56b4e9", "#000000", "#8b7500" };
enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

static struct bench_series *find_series(struct bench_chart *chart, const char *name)
{
    for (unsigned i = 0; i < chart->series_count; i++)
        if (strcmp(chart->series[i].name, name) == 0)
            return &chart->series[i];
    if (chart->series_count == BENCH_SERIES_MAX)
        return NULL;
    struct bench_series *series = &chart->series[chart->series_count++];
    *series = (struct bench_series){ { 0 }, NULL, 0 };
    snprintf(series->name, sizeof(series->name), "%s", name);
    return series;
}

kv_code bench_chart_add(struct bench_chart *chart, const char *name,
                        const struct bench_point *point, kv_status *status)
{
    struct bench_series *series = find_series(chart, name);
    if (series == NULL)
        return kv_fail(status, KV_TOO_BIG, "chart '%s' has more than %u series", chart->title,
                       BENCH_SERIES_MAX);
    struct bench_point *points = realloc(series->points, (series->count + 1) * sizeof(*points));
    if (points == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a chart");
    series->points = points;
    series->points[series->count++] = *point;
    return KV_OK;
}

void bench_chart_clear(struct bench_chart *chart)
{
    for (unsigned i = 0; i < chart->series_count; i++)
        free(chart->series[i].points);
    *chart = (struct bench_chart){ 0 };
}

/* Names come from files: only what cannot be a command reaches the script. */
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++)
        fputc(isalnum((unsigned char)*text) || strchr(" .,:=/+-()%", *text) != NULL ? *text
                                                                                    : '?',
              out);
    fputc('"', out);
}

static void put_data(FILE *out, const struct bench_chart *chart)
{
    for (unsigned i = 0; i < chart->series_count; i++) {
        const struct bench_series *series = &chart->series[i];
        fprintf(out, "$s%u << EOD\n", i);
        for (size_t j = 0; j < series->count; j++) {
            const struct bench_point *point = &series->points[j];
            double error = isfinite(point->error) ? point->error : 0.0;
            put_text(out, point->group);
            fprintf(out, " %.9g %.9g %.9g %.9g\n", point->x, point->y,
                    fmax(point->y - error, point->y * 0.05), point->y + error);
        }
        fprintf(out, "EOD\n");
    }
}

static void put_plot(FILE *out, const struct bench_chart *chart)
{
    static const char *const styles[] = {
        [BENCH_CHART_BARS] = "using 3:4:5:xtic(1) fill solid 0.85 border -1",
        [BENCH_CHART_LINES] =
            "using 2:3:4:5 with yerrorlines pointtype 7 pointsize 0.6 linewidth 2",
        [BENCH_CHART_NINES] = "using 2:3 with lines linewidth 2"
    };
    fprintf(out, "plot ");
    for (unsigned i = 0; i < chart->series_count; i++) {
        fprintf(out, "%s$s%u %s linecolor rgb \"%s\" title ", i > 0 ? ", " : "", i,
                styles[chart->kind], colours[i % COLOURS]);
        put_text(out, chart->series[i].name);
    }
    fprintf(out, "\n");
}

/* The marks of the percentiles that the points reach: 0, 50, 90, 99, ... */
static void put_nines(FILE *out, const struct bench_chart *chart)
{
    static const char *const nines[] = { "90", "99", "99.9", "99.99", "99.999", "99.9999" };
    double most = 0.0;
    for (unsigned i = 0; i < chart->series_count; i++)
        for (size_t j = 0; j < chart->series[i].count; j++)
            most = fmax(most, chart->series[i].points[j].x);
    fprintf(out, "set autoscale xfix\nset xtics (\"0\" 0, \"50\" 0.30103");
    for (size_t i = 0; i < sizeof(nines) / sizeof(nines[0]) && (double)(i + 1) <= most; i++)
        fprintf(out, ", \"%s\" %zu", nines[i], i + 1);
    fprintf(out, ")\n");
}

static void put_script(FILE *out, const struct bench_chart *chart, const char *path)
{
    fprintf(out,
            "set terminal svg size %d,%d dynamic font \"sans-serif,13\" background \"white\"\n"
            "set output \"%s\"\nset encoding utf8\nset border 3\nset tics nomirror\n"
            "set grid ytics linecolor rgb \"#dddddd\" linewidth 1\n"
            "set key outside top center horizontal\nset lmargin 11\nset rmargin 8\nset "
            "logscale y\nset format y \"%%.0s%%c\"\n",
            WIDTH, HEIGHT, path);
    fprintf(out, "set title ");
    put_text(out, chart->title);
    fprintf(out, "\nset ylabel ");
    put_text(out, chart->y_label);
    fprintf(out, "\nset xlabel ");
    put_text(out, chart->x_label);
    fprintf(out, "\n");
    if (chart->kind == BENCH_CHART_BARS)
        fprintf(out, "set style data histograms\nset style histogram errorbars gap 2 lw 1\n"
                     "set errorbars linecolor rgb \"black\"\n"
                     "set xtics rotate by -35\nset bmargin 6\n");
    else if (chart->kind == BENCH_CHART_LINES)
        fprintf(out, "set logscale x\nset format x \"%%.0s%%c\"\nset offsets graph 0.05,graph "
                     "0.05,0,0\n");
    else
        put_nines(out, chart);
    put_data(out, chart);
    put_plot(out, chart);
}

/* The file's text from its <svg on: what stands before is for files of its own. */
static kv_code read_svg(const char *path, char **out, kv_status *status)
{
    char *text = calloc(1, SVG_SIZE_MAX);
    FILE *file = text != NULL ? fopen(path, "re") : NULL;
    size_t size = file != NULL ? fread(text, 1, SVG_SIZE_MAX - 1, file) : 0;
    char *start = size > 0 ? strstr(text, "<svg") : NULL;
    if (file != NULL)
        fclose(file);
    if (start == NULL || size == SVG_SIZE_MAX - 1) {
        free(text);
        return kv_fail(status, KV_INTERNAL, "gnuplot drew no usable SVG");
    }
    memmove(text, start, size - (size_t)(start - text) + 1);
    *out = text;
    return KV_OK;
}

kv_code bench_chart_draw(const struct bench_chart *chart, char **out, kv_status *status)
{
    char path[] = "/tmp/statekv-bench-chart-XXXXXX";
    *out = NULL;
    int file = mkstemp(path);
    if (file < 0)
        return kv_fail(status, KV_IO, "%s: %s", path, strerror(errno));
    close(file);

    kv_code code = KV_OK;
    FILE *pipe = popen("gnuplot", "we"); /* NOLINT(cert-env33-c): a fixed command */
    if (pipe != NULL)
        put_script(pipe, chart, path);
    int state = pipe != NULL ? pclose(pipe) : -1;
    if (state != -1 && WIFEXITED(state) && WEXITSTATUS(state) == 127)
        code = kv_fail(status, KV_NOT_FOUND, "gnuplot is not installed (package gnuplot-nox)");
    else if (state != 0)
        code = kv_fail(status, KV_INTERNAL, "gnuplot ended with status %d", state);
    else
        code = read_svg(path, out, status);
    unlink(path);
    return code;
}
