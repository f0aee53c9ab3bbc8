/*
 * histogram.h - a log-linear histogram of durations in nanoseconds.
 *
 * Each power of two is cut into 128 equal buckets, and a bucket answers with
 * its middle: percentiles are within 1/256 (0.4 %) of the truth, the smallest
 * and largest values are exact. Values above 2^42 ns (73 minutes) count as the
 * last bucket. Plain data of a fixed size: no allocation while recording.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    BENCH_HISTOGRAM_BITS = 7, /* 128 buckets to a power of two */
    BENCH_HISTOGRAM_LIMIT_BITS = 42,
    BENCH_HISTOGRAM_BUCKETS = (BENCH_HISTOGRAM_LIMIT_BITS - BENCH_HISTOGRAM_BITS + 1)
                              << BENCH_HISTOGRAM_BITS
};

struct bench_histogram {
    uint64_t count;
    uint64_t min, max;
    uint64_t buckets[BENCH_HISTOGRAM_BUCKETS];
};

/* All zeros is an empty histogram. */
void bench_histogram_clear(struct bench_histogram *histogram);
void bench_histogram_record(struct bench_histogram *histogram, uint64_t value);
void bench_histogram_merge(struct bench_histogram *into, const struct bench_histogram *from);

/* The value that `percent` percent of the values do not exceed; 0 when empty. */
uint64_t bench_histogram_percentile(const struct bench_histogram *histogram, double percent);

/* The bucket that counts `value`, and the middle of a bucket. */
unsigned bench_histogram_bucket(uint64_t value);
uint64_t bench_histogram_middle(unsigned bucket);

#endif /* BENCH_HISTOGRAM_H */
