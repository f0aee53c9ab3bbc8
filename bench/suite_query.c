/*
 * suite_query.c - the query service under load: requests a second, latencies, and the
 * server's own CPU time and allocations for each, beside a bare event loop that answers
 * constant bytes. The load generator shares the machine and tires first, so the figure to
 * compare is server_cpu_ns.
 */
#include "bench/load.h"
#include "bench/query_server.h"
#include "bench/suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum metric { SERVER_CPU, SERVER_ALLOCATIONS, LATENCY_P50, LATENCY_P99, CONNECTIONS_SERVED };

enum { WARM_REQUESTS = 2000, WIRE_SIZE = 1024, TIMEOUT_S = 20 };

struct query_run {
    struct query_bench_server server;
    struct load_config config;
    struct load_result *result;
    struct load_json *checker;
    bench_thread *thread; /* NULL: warming up */
    uint64_t left, random, keys;
    bool random_keys, prove, bare;
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

/* The bare loop needs no engine: once is enough. */
static bool applies_bare(const bench_process *process)
{
    return strcmp(process->backend, "rocksdb") == 0;
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
    if (run->thread != NULL ? !bench_next(run->thread) : run->left-- == 0)
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
    if (run->bare)
        return response->body.size > 600 ? NULL : "short answer";
    if (memmem(response->body.data, response->body.size, "\"value\":\"", 9) == NULL)
        return "no value";
    if (run->prove &&
        memmem(response->body.data, response->body.size, "\"ics23:simple\"", 14) == NULL)
        return "no proof";
    return load_json_check(run->checker, response->body, true, run->text);
}

static kv_code ask(struct query_run *run, kv_status *status)
{
    struct load_source source = { run, next, check };
    kv_code code = load_run(&run->config, &source, NULL, NULL, NULL, run->result, status);
    if (code == KV_OK && run->result->good != run->result->count)
        code = kv_fail(status, KV_INTERNAL, "%llu of %llu requests failed: %s",
                       (unsigned long long)(run->result->count - run->result->good),
                       (unsigned long long)run->result->count,
                       run->result->kind_count > 0 ? run->result->kinds[0].text : "");
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
    run->random_keys = is(process, "random") || is(process, "random-proof");
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
    bench_count(thread, LATENCY_P50, (uint64_t)(p50 * requests));
    bench_count(thread, LATENCY_P99, (uint64_t)(p99 * requests));
    bench_count(thread, CONNECTIONS_SERVED,
                run->result->connections_served * thread->operations);
    return KV_OK;
}

static void teardown(bench_process *process)
{
    struct query_run *run = process->state;
    if (run == NULL)
        return;
    query_bench_stop(&run->server);
    load_json_free(run->checker);
    free(run->result);
    free(run);
}

static const bench_workload workloads[] = {
    { "bare", "A bare libuv loop that answers constant bytes: the yardstick", "request",
      BENCH_LOOSE, operations, run, applies_bare, setup, NULL, NULL, teardown },
    { "seed", "The seed's request: one hot key", "request", BENCH_LOOSE, operations, run, NULL,
      setup, NULL, NULL, teardown },
    { "random", "A random key each time", "request", BENCH_LOOSE, operations, run, NULL, setup,
      NULL, NULL, teardown },
    { "seed-proof", "The seed's key with its proof", "request", BENCH_LOOSE, operations, run,
      NULL, setup, NULL, NULL, teardown },
    { "random-proof", "A random key each time, with its proof", "request", BENCH_LOOSE,
      operations, run, NULL, setup, NULL, NULL, teardown },
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
    { "latency_p50_ns", "ns", false, false },
    { "latency_p99_ns", "ns", false, false },
    { "connections_served", "count", true, false },
    { 0 },
};

const bench_suite bench_suite_query = {
    "query",    "The query service under load, beside a bare event loop.",
    0,          workloads,
    parameters, metrics,
    NULL
};
