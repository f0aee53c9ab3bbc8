/* statistics.h - a mean and how far to trust it. */
#ifndef BENCH_STATISTICS_H
#define BENCH_STATISTICS_H

#include <stddef.h>

/* The confidence of every interval printed or compared. */
#define BENCH_CONFIDENCE 0.999

struct bench_estimate {
    size_t count;
    double mean;
    double error; /* half of the 99.9 % interval; infinite below 3 samples */
};

/* Mean and error of `count` samples: t(0.9995, count - 1) * s / sqrt(count). */
struct bench_estimate bench_estimate_of(const double *samples, size_t count);

/* The t for which a two-sided interval with `freedom` degrees has `confidence`. */
double bench_student_t(double confidence, size_t freedom);

#endif /* BENCH_STATISTICS_H */
