/*
 * chart.h - pictures of results, drawn by gnuplot as SVG.
 *
 * A chart is series of points; the text of an SVG element comes back. gnuplot
 * is a program of its own: without it charts are KV_NOT_FOUND.
 */
#ifndef BENCH_CHART_H
#define BENCH_CHART_H

#include "kv/kv.h"

#include <stdio.h>

#define BENCH_SERIES_MAX 24u

enum bench_chart_kind {
    BENCH_CHART_BARS,  /* groups named by text, one bar per series, error bars */
    BENCH_CHART_LINES, /* log x, log y, error bars */
    BENCH_CHART_NINES  /* x is -log10(1 - percentile / 100); log y */
};

struct bench_point {
    char group[64]; /* BARS: the name under it */
    double x, y, error;
};

struct bench_series {
    char name[96];
    struct bench_point *points;
    size_t count;
};

struct bench_chart {
    enum bench_chart_kind kind;
    char title[128], x_label[64], y_label[64];
    struct bench_series series[BENCH_SERIES_MAX];
    unsigned series_count;
};

/* Add a point to the series called `name`, which is made if it is new. */
KV_MUST_CHECK kv_code bench_chart_add(struct bench_chart *chart, const char *name,
                                      const struct bench_point *point, kv_status *status);

/* Draw; `*out` is the SVG's text, to be freed. */
KV_MUST_CHECK kv_code bench_chart_draw(const struct bench_chart *chart, char **out,
                                       kv_status *status);

/* Free the points, and forget all. */
void bench_chart_clear(struct bench_chart *chart);

#endif /* BENCH_CHART_H */
