/* statistics.c - see statistics.h. */
#include "bench/statistics.h"

#include <math.h>

/*
 * The probability that |T| < t with a whole number of degrees of freedom: the
 * finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
 */
static double student_inside(double t, size_t freedom)
{
    double theta = atan2(t, sqrt((double)freedom));
    double sine = sin(theta), cosine = cos(theta);
    double square = cosine * cosine;
    int odd = freedom % 2 == 1;
    double term = odd ? cosine : 1.0, sum = 0.0;
    if (freedom > 1) {
        sum = term;
        for (size_t k = odd ? 3 : 2; k + 2 <= freedom; k += 2) {
            term *= square * (double)(k - 1) / (double)k;
            sum += term;
        }
    }
    return odd ? 2.0 / M_PI * (theta + sine * sum) : sine * sum;
}

double bench_student_t(double confidence, size_t freedom)
{
    double low = 0.0, high = 1.0;
    while (student_inside(high, freedom) < confidence)
        high *= 2.0;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2.0;
        if (student_inside(middle, freedom) < confidence)
            low = middle;
        else
            high = middle;
    }
    return high;
}

struct bench_estimate bench_estimate_of(const double *samples, size_t count)
{
    struct bench_estimate estimate = { count, 0.0, INFINITY };
    for (size_t i = 0; i < count; i++)
        estimate.mean += samples[i] / (double)count;
    if (count < 3)
        return estimate;

    double squares = 0.0;
    for (size_t i = 0; i < count; i++)
        squares += (samples[i] - estimate.mean) * (samples[i] - estimate.mean);
    double deviation = sqrt(squares / (double)(count - 1));
    estimate.error =
        bench_student_t(BENCH_CONFIDENCE, count - 1) * deviation / sqrt((double)count);
    return estimate;
}
