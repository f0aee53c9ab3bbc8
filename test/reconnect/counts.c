/*
 * counts.c - ReconnectBench's states: what is drawn, and what each traversal moves
 * for them. Counts, not times: the same on every machine.
 */
#include "bench/reconnect_data.h"
#include "pair.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

Test(counts, java_random_is_javas)
{
    /* The first values of new java.util.Random(42), as any Java prints them. */
    struct java_random random;
    java_random_init(&random, 42);
    cr_expect_eq(java_random_long(&random), INT64_C(-5025562857975149833));
    java_random_init(&random, 42);
    cr_expect_float_eq(java_random_double(&random), 0.7275636800328681, 1e-16);
}

static struct reconnect_data sample(uint64_t size, double share)
{
    return (struct reconnect_data){ .records = size / 100,
                                    .files = 100,
                                    .key_size = 8,
                                    .record_size = 128,
                                    .add = share,
                                    .modify = share,
                                    .remove = share,
                                    .seed = RECONNECT_DATA_SEED,
                                    .maps = 1 };
}

enum { LATENCY_US = 40000 };

struct outcome {
    struct reconnect_drawn drawn;
    reconnect_figures figures;
    int64_t elapsed_us;
    unsigned levels;
};

static void run_sample(struct reconnect_data data, reconnect_traversal traversal, bool told,
                       struct outcome *out)
{
    struct side learner, teacher;
    kv_status status = KV_STATUS_INIT;
    side_open(&learner, "memory", NULL);
    side_open(&teacher, "memory", NULL);
    cr_assert_eq(reconnect_data_fill(&data, learner.state, teacher.state, &out->drawn, &status),
                 KV_OK, "%s", status.message);
    struct wire wire = WIRE(&learner, &teacher);
    wire.goal.traversal = traversal;
    wire.latency_us = LATENCY_US;
    if (told)
        wire_tell(&wire);
    cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
    out->elapsed_us = wire.elapsed_us;
    vmap_digest a = state_app_hash(learner.state), b = state_app_hash(teacher.state);
    cr_assert_arr_eq(a.bytes, b.bytes, VMAP_DIGEST_SIZE);
    out->figures = wire.figures;
    state_view *view;
    vmap_node node;
    unsigned page_bits;
    cr_assert_eq(state_view_open(teacher.state, 0, &view, &status), KV_OK);
    cr_assert_eq(state_view_top(view, "map0", &out->levels, &node, &page_bits, &status), KV_OK);
    out->levels++;
    state_view_close(view);
    sides_at_rest(&learner, &teacher, traversal);
    side_close(&learner);
    side_close(&teacher);
    fprintf(
        stderr,
        "%s: %llu differ, %llu bytes; in %llu out %llu (%.3f), messages %llu/%llu, pages "
        "%llu (%llu clean), leaves %llu (%llu clean), again %llu, trips %llu, levels %u\n",
        reconnect_traversal_name(traversal), (unsigned long long)out->drawn.differing,
        (unsigned long long)out->drawn.differing_bytes,
        (unsigned long long)out->figures.bytes_in, (unsigned long long)out->figures.bytes_out,
        (double)(out->figures.bytes_in + out->figures.bytes_out) /
            (double)out->drawn.differing_bytes,
        (unsigned long long)out->figures.messages_in,
        (unsigned long long)out->figures.messages_out, (unsigned long long)out->figures.pages,
        (unsigned long long)out->figures.pages_clean, (unsigned long long)out->figures.leaves,
        (unsigned long long)out->figures.leaves_clean,
        (unsigned long long)out->figures.asked_again,
        (unsigned long long)out->figures.round_trips, out->levels);
}

static double overhead(const struct outcome *outcome)
{
    return (double)(outcome->figures.bytes_in + outcome->figures.bytes_out) /
           (double)outcome->drawn.differing_bytes;
}

Test(counts, draws_and_bytes_at_one_hundredth)
{
    struct outcome outcome;
    run_sample(sample(100000, 0.01), RECONNECT_DIFF, false, &outcome);
    cr_expect_eq(outcome.drawn.adds, 960);
    cr_expect_eq(outcome.drawn.modifies, 1000);
    cr_expect_eq(outcome.drawn.removes, 1034);
    cr_expect_leq(overhead(&outcome), 1.5);
    cr_expect_leq(outcome.figures.round_trips, outcome.levels + 2);
    /* Whole levels are asked for at once: time is round trips and nothing else. */
    cr_expect_leq(outcome.elapsed_us,
                  (int64_t)(outcome.figures.round_trips + 1) * 2 * LATENCY_US + 1000, "%d us",
                  (int)outcome.elapsed_us);
}

/* What it is told saves a round trip: the first question goes with HELLO. */
Test(counts, told_the_hash_it_asks_at_once)
{
    struct outcome outcome;
    run_sample(sample(100000, 0.01), RECONNECT_DIFF, true, &outcome);
    cr_expect_leq(overhead(&outcome), 1.5);
    cr_expect_leq(outcome.figures.round_trips, outcome.levels - 1);
    cr_expect_leq(outcome.elapsed_us,
                  (int64_t)(outcome.figures.round_trips + 1) * 2 * LATENCY_US + 1000, "%d us",
                  (int)outcome.elapsed_us);
}

Test(counts, bytes_at_one_twentieth)
{
    struct outcome outcome;
    run_sample(sample(20000, 0.05), RECONNECT_DIFF, false, &outcome);
    cr_expect_leq(overhead(&outcome), 1.2);
    cr_expect_leq(outcome.figures.round_trips, outcome.levels + 2);
}

Test(counts, strict_sends_no_page_that_the_learner_has)
{
    struct outcome strict, push, pull;
    run_sample(sample(10000, 0.01), RECONNECT_LEVEL, false, &strict);
    run_sample(sample(10000, 0.01), RECONNECT_PUSH, false, &push);
    run_sample(sample(10000, 0.01), RECONNECT_PULL, false, &pull);
    cr_expect_eq(strict.figures.pages_clean, 0);
    cr_expect_eq(strict.figures.leaves_clean, 0);
    cr_expect_eq(pull.figures.pages_clean, 0);
    cr_expect_leq(strict.figures.pages, push.figures.pages);
}
