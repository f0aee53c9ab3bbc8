/*
 * session_property.c - whatever the network does, every block arrives if a living
 * peer has it, none is delivered twice, and all counters end at zero.
 *
 * SESSION_CASES=N in the environment runs N cases from case SESSION_FIRST on.
 */
#include "bench/session_sim.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { CASES = 150 };

TestSuite(session_property, .timeout = 3000);

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static uint32_t draw(uint64_t *bits, uint32_t limit)
{
    *bits = (*bits ^ *bits >> 31) * 0xbf58476d1ce4e5b9u + 1;
    return (uint32_t)(*bits >> 33) % limit;
}

/* In half the cases, something up to `limit`. */
static double draw_maybe(uint64_t *bits, uint32_t limit)
{
    return draw(bits, 2) == 0 ? 0 : draw(bits, limit);
}

/* One case: everything about it follows from its number. */
static void case_make(uint64_t number, struct sim_row *row, struct sim_run *run)
{
    uint64_t bits = (number + 1) * 0x9e3779b97f4a7c15u;

    *row = (struct sim_row){ .name = "property" };
    row->peers = 1 + draw(&bits, 30);
    row->blocks = 1 + draw(&bits, 400);
    row->block_size = 1 + draw(&bits, 20000);
    row->placement = (enum sim_placement)draw(&bits, 6);
    row->order = (enum sim_order)draw(&bits, 5);
    row->network = (enum sim_network)draw(&bits, 4);
    row->bandwidth = draw(&bits, 2) == 1;
    row->trouble = (enum sim_trouble)draw(&bits, 4);
    if (row->placement == PLACE_OVERLAP1 || row->placement == PLACE_OVERLAP3)
        row->peers = 2; /* these divide the blocks between two */
    if (row->trouble == TROUBLE_LIAR)
        row->placement = PLACE_ALL; /* the first peer lies: the others have what it has */
    if ((row->placement == PLACE_LAST_PEER || row->trouble == TROUBLE_LIAR) && row->peers == 1)
        row->peers = 2;

    *run = (struct sim_run){ .row = row, .seed = number + 1 };
    run->greeting = (enum sim_greeting)draw(&bits, 2);
    run->jitter_us = draw_maybe(&bits, 200000);
    run->loss_share = draw_maybe(&bits, 10) / 100;
    run->duplicate_share = draw_maybe(&bits, 20) / 100;
    run->disconnects = draw_maybe(&bits, 20);
}

Test(session_property, every_block_once_and_counters_at_zero)
{
    uint64_t first = number_of("SESSION_FIRST", 0);
    uint64_t count = number_of("SESSION_CASES", CASES);

    for (uint64_t number = first; number < first + count; number++) {
        struct sim_row row;
        struct sim_run run;

        case_make(number, &row, &run);

        struct sim_result result = sim_run(&run);

        cr_assert(result.finished, "case %llu: %u of %u blocks are missing",
                  (unsigned long long)number, result.figures.wants, row.blocks);
        cr_assert_eq(result.twice, 0, "case %llu", (unsigned long long)number);
        cr_assert_eq(result.figures.blocks, row.blocks);
        cr_assert_eq(result.figures.wants, 0);
        cr_assert_eq(result.figures.queued, 0);
        cr_assert_eq(result.figures.starved, 0);
        cr_assert_eq(result.figures.in_flight, 0, "case %llu", (unsigned long long)number);
    }
}
