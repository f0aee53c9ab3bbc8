/*
 * suite_query.c - the query service under load: requests a second, latencies, and the
 * server's own CPU time and allocations for each, beside a bare event loop that answers
 * constant bytes. The load generator shares the machine and tires first, so the figure to
 * compare is server_cpu_ns.
 */
#include "bench/load.h"
#include "bench/query_server.h"
#include "bench/suites.h"

#include "vmap/state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

enum metric {
    SERVER_CPU,
    SERVER_ALLOCATIONS,
    LATENCY_MEAN,
    LATENCY_P50,
    LATENCY_P99,
    LATENCY_P999,
    CONNECTIONS_SERVED
};

enum {
    WARM_REQUESTS = 2000,
    WIRE_SIZE = 1024,
    TIMEOUT_S = 20,
    COMMITS = 60, /* in an iteration of a writer's workload */
    COMMITS_QUICK = 3,
    COMMIT_KEYS = 1000,
    COMMIT_EVERY_NS = 100 * 1000 * 1000
};

struct query_run {
    struct query_bench_server server;
    struct load_config config;
    struct load_result *result;
    struct load_json *checker;
    struct query_buffer good; /* the last good answer: its like needs no other check */
    bench_thread *thread;     /* NULL: warming up */
    uint64_t left, random, keys;
    bool random_keys, prove, bare, busy;
    volatile bool stop; /* the load of a writer's workload */
    char wire[WIRE_SIZE], text[LOAD_KIND_SIZE];
};

static uint64_t operations(const bench_process *process)
{
    return bench_number(process, "requests");
}

static bool is(const bench_process *process, const char *workload)
{
    return strcmp(process->workload->name, workload) == 0;
}

/* The seed's request, or one for a random key. */
static size_t write_request(struct query_run *run)
{
    char hex[2 * sizeof(QUERY_BENCH_SEED_KEY) + 1], key[QUERY_BENCH_KEY_SIZE], body[512];
    const char *bytes = QUERY_BENCH_SEED_KEY;
    size_t size = sizeof(QUERY_BENCH_SEED_KEY) - 1;
    if (run->random_keys) {
        query_bench_key(bench_random_below(&run->random, run->keys), key);
        bytes = key;
        size = sizeof(key);
    }
    for (size_t i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02X", (unsigned char)bytes[i]);
    int count = snprintf(body, sizeof(body),
                         "{\"jsonrpc\":\"2.0\",\"id\":\"2229fc7c-534a-462d-9c90-fefad1726e24\","
                         "\"method\":\"abci_query\",\"params\":{\"path\":\"store/ibc/key\","
                         "\"data\":\"%s\",\"prove\":%s}}",
                         hex, run->prove ? "true" : "false");
    int all = snprintf(run->wire, sizeof(run->wire),
                       "POST / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: application/json"
                       "\r\nContent-Length: %d\r\n\r\n%s",
                       run->server.port, count, body);
    return (size_t)all;
}

static bool next(void *context, struct load_request *out)
{
    struct query_run *run = context;
    if (!run->busy && (run->thread != NULL ? !bench_next(run->thread) : run->left-- == 0))
        return false;
    size_t size =
        run->random_keys || run->wire[0] == '\0' ? write_request(run) : strlen(run->wire);
    *out = (struct load_request){ .wire = kv_bytes(run->wire, size) };
    return true;
}

static const char *check(void *context, uint64_t token, const struct load_response *response)
{
    struct query_run *run = context;
    (void)token;
    if (response->status != 200)
        return "status";
    if (kv_compare(response->body, kv_bytes(run->good.data, run->good.size)) == 0)
        return NULL;
    if (memmem(response->body.data, response->body.size, "\"value\":\"", 9) == NULL)
        return "no value";
    if (run->prove &&
        memmem(response->body.data, response->body.size, "\"ics23:simple\"", 14) == NULL)
        return "no proof";
    const char *fault = load_json_check(run->checker, response->body, true, run->text);
    query_buffer_reset(&run->good, SIZE_MAX);
    if (fault == NULL && !run->random_keys)
        query_buffer_slice(&run->good, response->body);
    return fault;
}

static kv_code ask(struct query_run *run, kv_status *status)
{
    struct load_source source = { run, next, check };
    kv_code code = load_run(&run->config, &source, &run->stop, NULL, NULL, run->result, status);
    if (code == KV_OK && run->result->good != run->result->count)
        code = kv_fail(status, KV_INTERNAL, "%llu of %llu requests failed: %s",
                       (unsigned long long)(run->result->count - run->result->good),
                       (unsigned long long)run->result->count,
                       run->result->kind_count > 0 ? run->result->kinds[0].text : "");
    if (code == KV_OK && run->result->still_ns > 0)
        code = kv_fail(status, KV_INTERNAL,
                       "this process was stopped for %.1f s: measure again on a quiet machine",
                       (double)run->result->still_ns / 1e9);
    return code;
}

static kv_code setup(bench_process *process, kv_status *status)
{
    struct query_run *run = calloc(1, sizeof(*run));
    process->state = run;
    if (run == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a load");
    run->result = calloc(1, sizeof(*run->result));
    run->checker = load_json_new(kv_bytes(NULL, 0));
    run->bare = is(process, "bare");
    run->random_keys =
        is(process, "random") || is(process, "random-proof") || is(process, "writer-busy");
    run->prove = is(process, "random-proof") || is(process, "seed-proof");
    run->keys = bench_number(process, "keys");
    run->random = process->seed;
    kv_code code = query_bench_start(process, run->bare ? QUERY_BENCH_BARE : QUERY_BENCH_OURS,
                                     &run->server, status);
    if (code != KV_OK || run->result == NULL || run->checker == NULL)
        return code == KV_OK ? kv_fail(status, KV_NO_MEMORY, "no memory for a load") : code;
    run->config.connections = (size_t)bench_number(process, "connections");
    run->config.timeout_ns = (uint64_t)TIMEOUT_S * 1000000000;
    run->config.url.port = run->server.port;
    snprintf(run->config.url.name, sizeof(run->config.url.name), "127.0.0.1");
    run->left = WARM_REQUESTS;
    return ask(run, status);
}

static kv_code run(bench_thread *thread, kv_status *status)
{
    struct query_run *run = thread->process->state;
    struct bench_counts before, after;
    double requests = (double)thread->operations;
    run->thread = thread;
    kv_code code = query_bench_counts(&run->server, &before, status);
    if (code == KV_OK)
        code = ask(run, status);
    if (code == KV_OK)
        code = query_bench_counts(&run->server, &after, status);
    run->thread = NULL;
    if (code != KV_OK)
        return code;
    double p50 = (double)bench_histogram_percentile(&run->result->latency, 50);
    double p99 = (double)bench_histogram_percentile(&run->result->latency, 99);
    bench_count(thread, SERVER_CPU, after.values[BENCH_CPU] - before.values[BENCH_CPU]);
    bench_count(thread, SERVER_ALLOCATIONS,
                after.values[BENCH_ALLOCATIONS] - before.values[BENCH_ALLOCATIONS]);
    bench_count(thread, LATENCY_MEAN, (uint64_t)run->result->latency_sum_ns);
    bench_count(thread, LATENCY_P50, (uint64_t)(p50 * requests));
    bench_count(thread, LATENCY_P99, (uint64_t)(p99 * requests));
    bench_count(
        thread, LATENCY_P999,
        (uint64_t)((double)bench_histogram_percentile(&run->result->latency, 99.9) * requests));
    bench_count(thread, CONNECTIONS_SERVED,
                run->result->connections_served * thread->operations);
    return KV_OK;
}

/* ---- A writer beside it --------------------------------------------------- */

static uint64_t commits(const bench_process *process)
{
    return process->quick ? COMMITS_QUICK : COMMITS;
}

struct load_thread {
    struct query_run *run;
    kv_code code;
    kv_status status;
};

static void *load_main(void *context)
{
    struct load_thread *load = context;
    load->code = ask(load->run, &load->status);
    return NULL;
}

/* An operation is a commit; one begins every COMMIT_EVERY_NS, or as soon as the last ends. */
static kv_code commit_all(bench_thread *thread, struct query_run *run, kv_status *status)
{
    struct bench_histogram took = { 0 };
    kv_code code = KV_OK;
    uint64_t due = uv_hrtime(), sum = 0;
    while (code == KV_OK && bench_next(thread)) {
        uint64_t now = uv_hrtime(), ns = 0;
        if (now < due) {
            struct timespec rest = { .tv_nsec = (long)(due - now) };
            nanosleep(&rest, NULL);
        }
        due += COMMIT_EVERY_NS;
        code = query_bench_commit(&run->server, COMMIT_KEYS, &ns, status);
        bench_histogram_record(&took, ns);
        sum += ns;
    }
    double count = (double)thread->operations;
    bench_count(thread, LATENCY_MEAN, sum);
    bench_count(thread, LATENCY_P50,
                (uint64_t)((double)bench_histogram_percentile(&took, 50) * count));
    bench_count(thread, LATENCY_P99,
                (uint64_t)((double)bench_histogram_percentile(&took, 99) * count));
    return code;
}

static kv_code run_writer(bench_thread *thread, kv_status *status)
{
    struct query_run *run = thread->process->state;
    struct load_thread load = { .run = run, .status = KV_STATUS_INIT };
    pthread_t loader;
    bool busy = is(thread->process, "writer-busy");
    run->stop = false;
    run->busy = busy;
    if (busy && pthread_create(&loader, NULL, load_main, &load) != 0)
        return kv_fail(status, KV_NO_MEMORY, "no thread for a load");
    kv_code code = commit_all(thread, run, status);
    run->stop = true;
    if (busy) {
        pthread_join(loader, NULL);
        if (code == KV_OK && load.code != KV_OK)
            code = kv_fail(status, load.code, "%s", load.status.message);
    }
    run->busy = run->stop = false;
    return code;
}

static void teardown(bench_process *process)
{
    struct query_run *run = process->state;
    if (run == NULL)
        return;
    query_bench_stop(&run->server);
    load_json_free(run->checker);
    query_buffer_clear(&run->good);
    free(run->result);
    free(run);
}

static const bench_workload workloads[] = {
    { "bare", "A bare libuv loop that answers constant bytes: the yardstick", "request",
      BENCH_LOOSE, operations, run, NULL, setup, NULL, NULL, teardown },
    { "seed", "The seed's request: one hot key", "request", BENCH_LOOSE, operations, run, NULL,
      setup, NULL, NULL, teardown },
    { "random", "A random key each time", "request", BENCH_LOOSE, operations, run, NULL, setup,
      NULL, NULL, teardown },
    { "seed-proof", "The seed's key with its proof", "request", BENCH_LOOSE, operations, run,
      NULL, setup, NULL, NULL, teardown },
    { "random-proof", "A random key each time, with its proof", "request", BENCH_LOOSE,
      operations, run, NULL, setup, NULL, NULL, teardown },
    { "writer-idle", "1,000 keys committed every 100 ms, no query", "commit", BENCH_LOOSE,
      commits, run_writer, NULL, setup, NULL, NULL, teardown },
    { "writer-busy", "The same while all connections ask for random keys", "commit",
      BENCH_LOOSE, commits, run_writer, NULL, setup, NULL, NULL, teardown },
    { 0 },
};

static const bench_parameter parameters[] = {
    { "keys", "1000000", "2000", NULL, "keys in the state" },
    { "requests", "100000", "2000", NULL, "requests in an iteration" },
    { "connections", "100", "10", NULL, "connections at once: the seed has 10,100,1000" },
    { "server-threads", "1", NULL, NULL, "threads of the server" },
    { 0 },
};

static const bench_metric metrics[] = {
    { "server_cpu_ns", "ns", false, false },
    { "server_allocations", "count", false, false },
    { "latency_mean_ns", "ns", false, false },
    { "latency_p50_ns", "ns", false, false },
    { "latency_p99_ns", "ns", false, false },
    { "latency_p999_ns", "ns", false, false },
    { "connections_served", "count", true, false },
    { 0 },
};

static const kv_option_table *const tables[] = { &state_option_table, NULL };

const bench_suite bench_suite_query = {
    "query",    "The query service under load, beside a bare event loop.",
    0,          workloads,
    parameters, metrics,
    tables,     NULL
};
