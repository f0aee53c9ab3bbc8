/* histogram.c - see histogram.h. */
#include "bench/histogram.h"

#include <math.h>
#include <string.h>

enum { BITS = BENCH_HISTOGRAM_BITS };

/*
 * Values below 2 * 2^BITS have a bucket each. Above, the top BITS + 1 bits of a
 * value are its bucket within its power of two, so the index is
 * (shift << BITS) + (value >> shift), which continues where the exact ones end.
 */
unsigned bench_histogram_bucket(uint64_t value)
{
    const uint64_t limit = (UINT64_C(1) << BENCH_HISTOGRAM_LIMIT_BITS) - 1;
    if (value > limit)
        value = limit;
    if (value < (2u << BITS))
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - BITS;
    return (shift << BITS) + (unsigned)(value >> shift);
}

uint64_t bench_histogram_middle(unsigned bucket)
{
    if (bucket < (2u << BITS))
        return bucket;
    unsigned shift = (bucket >> BITS) - 1;
    uint64_t low = (uint64_t)(bucket - (shift << BITS)) << shift;
    return low + (UINT64_C(1) << shift) / 2;
}

void bench_histogram_clear(struct bench_histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

void bench_histogram_record(struct bench_histogram *histogram, uint64_t value)
{
    if (histogram->count == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->count++;
    histogram->buckets[bench_histogram_bucket(value)]++;
}

void bench_histogram_merge(struct bench_histogram *into, const struct bench_histogram *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    for (unsigned i = 0; i < BENCH_HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t bench_histogram_percentile(const struct bench_histogram *histogram, double percent)
{
    if (histogram->count == 0)
        return 0;
    double wanted = ceil((double)histogram->count * percent / 100.0);
    uint64_t rank = wanted < 1.0 ? 1 : (uint64_t)wanted;
    if (rank >= histogram->count)
        return histogram->max;

    uint64_t seen = 0;
    unsigned bucket = 0;
    while (bucket < BENCH_HISTOGRAM_BUCKETS - 1) {
        seen += histogram->buckets[bucket];
        if (seen >= rank)
            break;
        bucket++;
    }
    uint64_t value = bench_histogram_middle(bucket);
    if (value < histogram->min)
        return histogram->min;
    return value > histogram->max ? histogram->max : value;
}
