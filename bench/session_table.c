/*
 * session_table.c - the table of docs/benchmarks/session.md: every row in every
 * mode, medians over seeds, beside the columns of 2018. The same each time.
 *
 *     session-table [SEEDS]
 */
#include "bench/session_sim.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEEDS_MAX = 1000 };

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

struct series {
    double values[SEEDS_MAX];
};

static double median(struct series *series, int count)
{
    qsort(series->values, (size_t)count, sizeof series->values[0], by_size);
    return (series->values[(count - 1) / 2] + series->values[count / 2]) / 2;
}

static void print_time(double time_ms)
{
    if (time_ms < 10000)
        printf("%.0f", time_ms);
    else
        printf("%.1f s", time_ms / 1000);
}

static void print_column(const char *name, const char *kind, const struct sim_figures *column)
{
    if (column->dups < 0)
        return;
    printf("| | %s (%s) | %g | ", name, kind, column->dups);
    if (column->sent >= 0)
        printf("%g | %g | ", column->sent, column->recd);
    else
        printf("- | - | ");
    if (column->time_ms >= 0)
        print_time(column->time_ms);
    else
        printf("cut off");
    printf(" | | |\n");
}

static void print_mode(const struct sim_row *row, const char *name, session_mode mode,
                       enum sim_greeting greeting, int seeds)
{
    static struct series dups, sent, recd, time_ms, late;

    for (int i = 0; i < seeds; i++) {
        struct sim_run run = {
            .row = row, .mode = mode, .greeting = greeting, .seed = (uint64_t)i + 1
        };
        struct sim_result result = sim_run(&run);

        if (!result.finished || result.twice != 0)
            abort();
        dups.values[i] = (double)result.dups;
        sent.values[i] = (double)result.sent;
        recd.values[i] = (double)result.recd;
        time_ms.values[i] = (double)result.time_us / 1000;
        late.values[i] = (double)result.dups_late;
    }

    double dups_middle = median(&dups, seeds), time_middle = median(&time_ms, seeds);

    printf("| | **%s** | %.0f | %.0f | %.0f | ", name, dups_middle, median(&sent, seeds),
           median(&recd, seeds));
    print_time(time_middle);
    printf(" | %.0f..%.0f, ", dups.values[0], dups.values[seeds - 1]);
    print_time(time_ms.values[0]);
    printf("..");
    print_time(time_ms.values[seeds - 1]);
    printf(" | %.0f |\n", median(&late, seeds));
}

int main(int argc, char **argv)
{
    int seeds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 20;

    if (seeds < 1 || seeds > SEEDS_MAX) {
        fprintf(stderr, "session-table: SEEDS is 1 to %d, not %s\n", SEEDS_MAX, argv[1]);
        return 2;
    }
    printf("| row | column | Dups | MsgSent | MsgRecd | Time, ms | spread of Dups and Time | "
           "Dups, all "
           "answers in |\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sim_row_count; i++) {
        const struct sim_row *row = &sim_rows[i];
        const char *kind = row->published ? "2018" : "model";

        printf("| %s | | | | | | | |\n", row->name);
        print_column("master", kind, &row->master);
        print_column("Jeremy", kind, &row->jeremy);
        print_column(row->published ? "New" : "merged", kind, &row->fresh);
        print_mode(row, "broadcast", SESSION_BROADCAST, GREETING_NOTHING, seeds);
        print_mode(row, "round1", SESSION_ROUND1, GREETING_NOTHING, seeds);
        print_mode(row, "default, told nothing", SESSION_DEFAULT, GREETING_NOTHING, seeds);
        print_mode(row, "default", SESSION_DEFAULT, GREETING_FULL, seeds);
    }
    return 0;
}
