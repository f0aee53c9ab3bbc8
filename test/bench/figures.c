/* figures.c - the arithmetic under every result: percentiles and intervals. */
#include "bench/histogram.h"
#include "bench/statistics.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* ---- histogram -------------------------------------------------------------- */

Test(histogram, buckets_cover_every_value_once_and_in_order)
{
    unsigned last = bench_histogram_bucket(0);
    cr_assert_eq(last, 0);
    for (uint64_t value = 1; value < 3000000; value++) {
        unsigned bucket = bench_histogram_bucket(value);
        cr_assert(bucket == last || bucket == last + 1, "value %lu", (unsigned long)value);
        last = bucket;
    }
    cr_assert_eq(bench_histogram_bucket((UINT64_C(1) << 42) - 1), BENCH_HISTOGRAM_BUCKETS - 1);
    cr_assert_eq(bench_histogram_bucket(UINT64_MAX), BENCH_HISTOGRAM_BUCKETS - 1);
}

Test(histogram, a_bucket_answers_within_its_promised_error)
{
    for (double value = 1.0; value < 4.0e12; value *= 1.0007) {
        uint64_t truth = (uint64_t)value;
        uint64_t answer = bench_histogram_middle(bench_histogram_bucket(truth));
        double error = fabs((double)answer - (double)truth) / (double)truth;
        cr_assert_leq(error, 1.0 / 256.0, "%lu answered %lu", (unsigned long)truth,
                      (unsigned long)answer);
    }
}

static int compare_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

Test(histogram, percentiles_agree_with_sorting)
{
    enum { COUNT = 10007 };
    static uint64_t values[COUNT];
    static struct bench_histogram histogram;
    uint64_t state = 1;
    for (int i = 0; i < COUNT; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[i] = (state >> 33) >> (i % 29);
        bench_histogram_record(&histogram, values[i]);
    }
    qsort(values, COUNT, sizeof(values[0]), compare_values);

    static const double percents[] = { 0.001, 1, 25, 50, 75, 90, 99, 99.9, 99.99, 100 };
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        size_t rank = (size_t)ceil(COUNT * percents[i] / 100.0);
        double truth = (double)values[rank - 1];
        double answer = (double)bench_histogram_percentile(&histogram, percents[i]);
        cr_assert_leq(fabs(answer - truth), truth / 256.0, "p%g: %g, not %g", percents[i],
                      answer, truth);
    }
    cr_assert_eq(histogram.min, values[0]);
    cr_assert_eq(histogram.max, values[COUNT - 1]);
}

Test(histogram, merging_is_the_same_as_recording_in_one)
{
    static struct bench_histogram one, two, both;
    for (uint64_t i = 0; i < 5000; i++) {
        bench_histogram_record(i % 3 == 0 ? &one : &two, i * i);
        bench_histogram_record(&both, i * i);
    }
    bench_histogram_merge(&one, &two);
    cr_assert_arr_eq(&one, &both, sizeof(one));
}

Test(histogram, an_empty_one_answers_zero)
{
    static struct bench_histogram histogram, other;
    cr_assert_eq(bench_histogram_percentile(&histogram, 50), 0);
    bench_histogram_record(&other, 7);
    bench_histogram_merge(&histogram, &other);
    cr_assert_eq(bench_histogram_percentile(&histogram, 50), 7);
    bench_histogram_clear(&histogram);
    cr_assert_eq(histogram.count, 0);
}

/* ---- statistics -------------------------------------------------------------- */

/* Two-sided 99.9 % points from printed tables of Student's distribution. */
Test(statistics, student_t_agrees_with_tables)
{
    static const struct {
        size_t freedom;
        double t;
    } table[] = { { 1, 636.619 }, { 2, 31.599 }, { 3, 12.924 }, { 4, 8.610 },  { 5, 6.869 },
                  { 9, 4.781 },   { 14, 4.140 }, { 19, 3.883 }, { 29, 3.659 }, { 120, 3.373 } };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        cr_assert_float_eq(bench_student_t(0.999, table[i].freedom), table[i].t, 0.0006,
                           "%zu degrees of freedom", table[i].freedom);
    cr_assert_float_eq(bench_student_t(0.95, 10), 2.228, 0.0006);
    cr_assert_float_eq(bench_student_t(0.999, 100000), 3.291, 0.0006);
}

Test(statistics, an_estimate_is_mean_and_error)
{
    static const double samples[] = { 10, 12, 11, 13, 9 };
    struct bench_estimate estimate = bench_estimate_of(samples, 5);
    cr_assert_float_eq(estimate.mean, 11.0, 1e-12);
    cr_assert_float_eq(estimate.error, 8.6103 * sqrt(2.5) / sqrt(5.0), 1e-3);
    cr_assert_eq(estimate.count, 5);
}

Test(statistics, two_samples_say_nothing_about_the_error)
{
    static const double samples[] = { 1, 3, 2 };
    cr_assert(isinf(bench_estimate_of(samples, 2).error));
    cr_assert_float_eq(bench_estimate_of(samples, 2).mean, 2.0, 1e-12);
    cr_assert(isfinite(bench_estimate_of(samples, 3).error));
    cr_assert(isinf(bench_estimate_of(NULL, 0).error));
}

Test(statistics, equal_samples_have_no_error)
{
    static const double samples[] = { 4, 4, 4, 4 };
    cr_assert_eq(bench_estimate_of(samples, 4).error, 0.0);
}
