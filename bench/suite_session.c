/*
 * suite_session.c - one learner and many peers in virtual time: the rows of the
 * bitswap table of 2018, and ours. An operation is one fetch with a seed of its
 * own; its metrics are medians over the seeds, with the least and the most. The
 * time of an operation is what the simulation takes, not what it simulates.
 */
#include "bench/session_sim.h"
#include "bench/suites.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000, MILLION = 1000000 };

enum metric {
    METRIC_DUPS,
    METRIC_DUPS_LEAST,
    METRIC_DUPS_MOST,
    METRIC_SENT,
    METRIC_RECD,
    METRIC_TIME,
    METRIC_TIME_LEAST,
    METRIC_TIME_MOST,
    METRIC_DUPS_LATE,
    METRIC_MEMORY
};

static const bench_metric metrics[] = {
    { "dups", "blocks", false, true },
    { "dups_least", "blocks", false, true },
    { "dups_most", "blocks", false, true },
    { "messages_sent", "messages", false, true },
    { "messages_recd", "messages", false, true },
    { "fetch_time", "us", false, true },
    { "fetch_time_least", "us", false, true },
    { "fetch_time_most", "us", false, true },
    { "dups_late", "blocks", false, true },
    { "memory_per_want", "bytes", false, true },
    { 0 },
};

static const bench_parameter parameters[] = {
    { "mode", "default,untold,round1,broadcast", NULL, "default,untold,round1,broadcast",
      "default; the same told nothing of its peers; the two algorithms of 2018" },
    { "seeds", "20", "3", NULL, "fetches, each with a seed of its own" },
    { 0 },
};

static struct sim_run run_of(const bench_process *process, const struct sim_row *row)
{
    const char *mode = bench_text(process, "mode");
    struct sim_run run = { .row = row, .mode = SESSION_DEFAULT, .greeting = GREETING_NOTHING };

    if (strcmp(mode, "default") == 0)
        run.greeting = GREETING_FULL;
    else if (strcmp(mode, "round1") == 0)
        run.mode = SESSION_ROUND1;
    else if (strcmp(mode, "broadcast") == 0)
        run.mode = SESSION_BROADCAST;
    return run;
}

static uint64_t seeds(const bench_process *process)
{
    uint64_t count = bench_number(process, "seeds");

    return count < SEEDS_MAX ? count : SEEDS_MAX;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Metrics are reported for each operation: count `value` as often as there are. */
static void report(bench_thread *thread, enum metric metric, uint64_t value, uint64_t count)
{
    bench_count(thread, metric, value * count);
}

static uint64_t middle(uint64_t *values, uint64_t count)
{
    qsort(values, count, sizeof values[0], by_size);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static kv_code fetch_run(bench_thread *thread, kv_status *status)
{
    const struct sim_row *row = sim_row_find(thread->process->workload->name);
    struct sim_run run = run_of(thread->process, row);
    static uint64_t dups[SEEDS_MAX], sent[SEEDS_MAX], recd[SEEDS_MAX], time_us[SEEDS_MAX],
        late[SEEDS_MAX];
    uint64_t count = 0;

    while (bench_next(thread)) {
        run.seed = ++count;

        struct sim_result result = sim_run(&run);

        if (!result.finished || result.twice != 0)
            return kv_fail(status, KV_INTERNAL,
                           "%s, seed %llu: a block is missing or came twice", row->name,
                           (unsigned long long)run.seed);
        dups[count - 1] = result.dups;
        sent[count - 1] = result.sent;
        recd[count - 1] = result.recd;
        time_us[count - 1] = (uint64_t)result.time_us;
        late[count - 1] = result.dups_late;
    }
    report(thread, METRIC_DUPS, middle(dups, count), count);
    report(thread, METRIC_DUPS_LEAST, dups[0], count);
    report(thread, METRIC_DUPS_MOST, dups[count - 1], count);
    report(thread, METRIC_SENT, middle(sent, count), count);
    report(thread, METRIC_RECD, middle(recd, count), count);
    report(thread, METRIC_TIME, middle(time_us, count), count);
    report(thread, METRIC_TIME_LEAST, time_us[0], count);
    report(thread, METRIC_TIME_MOST, time_us[count - 1], count);
    report(thread, METRIC_DUPS_LATE, middle(late, count), count);
    return KV_OK;
}

/* ---- A million wants ---------------------------------------------------- */

static uint64_t million(const bench_process *process)
{
    (void)process;
    return MILLION;
}

static bool default_only(const bench_process *process)
{
    return strcmp(bench_text(process, "mode"), "default") == 0 ||
           strcmp(bench_text(process, "mode"), "untold") == 0;
}

static kv_code million_run(bench_thread *thread, kv_status *status)
{
    static const struct sim_row row = { .name = "million",
                                        .peers = 300,
                                        .blocks = MILLION,
                                        .block_size = 100,
                                        .order = ORDER_ALL };
    struct sim_run run = run_of(thread->process, &row);

    bench_units(thread, MILLION);
    run.seed = 1;
    while (bench_next(thread)) {
        struct sim_result result = sim_run(&run);

        if (!result.finished || result.twice != 0)
            return kv_fail(status, KV_INTERNAL, "a block is missing or came twice");
        bench_count(thread, METRIC_DUPS, result.dups);
        bench_count(thread, METRIC_SENT, result.sent);
        bench_count(thread, METRIC_RECD, result.recd);
        bench_count(thread, METRIC_MEMORY, result.memory_peak);
    }
    return KV_OK;
}

#define ROW(name)                                                                         \
    {                                                                                     \
        name, "See docs/benchmarks/session.md", "fetch", 0, seeds, fetch_run, NULL, NULL, \
            NULL, NULL, NULL                                                              \
    }

static const bench_workload workloads[] = {
    ROW("AllToAll-OneAtATime"),
    ROW("AllToAll-BigBatch"),
    ROW("Overlap1-OneAtATime"),
    ROW("Overlap2-BatchBy10"),
    ROW("Overlap3-OneAtATime"),
    ROW("Overlap3-BatchBy10"),
    ROW("Overlap3-AllConcurrent"),
    ROW("Overlap3-BigBatch"),
    ROW("Overlap3-UnixfsFetch"),
    ROW("10Nodes-AllToAll-OneAtATime"),
    ROW("10Nodes-AllToAll-BatchFetchBy10"),
    ROW("10Nodes-AllToAll-BigBatch"),
    ROW("10Nodes-AllToAll-AllConcurrent"),
    ROW("10Nodes-AllToAll-UnixfsFetch"),
    ROW("10Nodes-OnePeerPerBlock-OneAtATime"),
    ROW("10Nodes-OnePeerPerBlock-BigBatch"),
    ROW("10Nodes-OnePeerPerBlock-UnixfsFetch"),
    ROW("200Nodes-AllToAll-BigBatch"),
    ROW("RealWorld-FastNetwork"),
    ROW("RealWorld-AverageVariableSpeedNetwork"),
    ROW("RealWorld-SlowVariableSpeedNetwork"),
    ROW("RealWorld-FastNetwork-bandwidth"),
    ROW("RealWorld-AverageVariableSpeedNetwork-bandwidth"),
    ROW("RealWorld-SlowVariableSpeedNetwork-bandwidth"),
    ROW("Churn-9Peers-BigBatch"),
    ROW("Liar-9Peers-BigBatch"),
    ROW("SlowSoleHolder-9Peers-BigBatch"),
    ROW("1000Peers-AllToAll-BigBatch"),
    { "million-wants-300-peers", "A million wants of 100 bytes over 300 peers, 10 ms away",
      "want", 0, million, million_run, default_only, NULL, NULL, NULL, NULL },
    { 0 },
};

const bench_suite bench_suite_session = {
    "session",
    "One learner fetching from many peers, in virtual time.",
    BENCH_NO_DATABASE,
    workloads,
    parameters,
    metrics,
    NULL,
    NULL
};
