/* metrics.c - sums over the threads. */
#include "abci_query/metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/resource.h>

enum { FIGURES_MAX = 24, ENGINE_NAME_SIZE = 256 };

struct figure {
    const char *name, *type, *help;
    uint64_t number;
};

static void add(struct figure *figures, size_t *count, const char *name, const char *type,
                const char *help, uint64_t number)
{
    figures[(*count)++] = (struct figure){ name, type, help, number };
}

static size_t gather(const struct query_metrics *metrics, struct figure *out)
{
    uint64_t requests = 0, refused = 0, messages = 0, calls = 0, errors = 0, notifications = 0;
    uint64_t batches = 0, hits = 0, misses = 0, cached = 0, statuses[6] = { 0 };
    size_t count = 0;
    for (size_t i = 0; i < metrics->count; i++) {
        const struct query_service *service = metrics->services[i];
        const struct query_cache_counts *cache = query_cache_counts(service->node.cache);
        requests += query_counter_read(&service->http.counts.requests);
        refused += query_counter_read(&service->http.counts.refused);
        messages += query_counter_read(&service->http.counts.messages);
        for (int s = 0; s < 6; s++)
            statuses[s] += query_counter_read(&service->http.counts.statuses[s]);
        calls += query_counter_read(&service->rpc.counts.calls);
        errors += query_counter_read(&service->rpc.counts.errors);
        notifications += query_counter_read(&service->rpc.counts.notifications);
        batches += query_counter_read(&service->rpc.counts.batches);
        if (cache == NULL)
            continue;
        hits += query_counter_read(&cache->hits);
        misses += query_counter_read(&cache->misses);
        cached += query_counter_read(&cache->size_bytes);
    }
    const struct query_transport *transport = metrics->transport;
    add(out, &count, "requests", "counter", "HTTP requests answered", requests);
    add(out, &count, "refused", "counter", "HTTP requests refused as malformed or too large",
        refused);
    add(out, &count, "responses_2xx", "counter", "Answers with a status of 200 to 299",
        statuses[2]);
    add(out, &count, "responses_4xx", "counter", "Answers with a status of 400 to 499",
        statuses[4]);
    add(out, &count, "responses_5xx", "counter", "Answers with a status of 500 to 599",
        statuses[5]);
    add(out, &count, "websocket_messages", "counter", "WebSocket messages", messages);
    add(out, &count, "calls", "counter", "JSON-RPC methods run", calls);
    add(out, &count, "errors", "counter", "JSON-RPC errors answered", errors);
    add(out, &count, "notifications", "counter", "JSON-RPC notifications", notifications);
    add(out, &count, "batches", "counter", "JSON-RPC batches", batches);
    add(out, &count, "cache_hits", "counter", "Queries answered from kept answers", hits);
    add(out, &count, "cache_misses", "counter", "Queries that asked the state", misses);
    add(out, &count, "cache_size_bytes", "gauge", "Memory of kept answers", cached);
    add(out, &count, "connections", "gauge", "Connections open",
        atomic_load(&transport->connections));
    add(out, &count, "connections_max", "gauge", "Connections allowed",
        transport->connections_max);
    add(out, &count, "accepted", "counter", "Connections accepted",
        atomic_load(&transport->accepted));
    add(out, &count, "turned_away", "counter", "Connections over the limit",
        atomic_load(&transport->turned_away));
    add(out, &count, "timed_out", "counter", "Connections closed at a deadline",
        atomic_load(&transport->timed_out));
    return count;
}

void query_metrics_visit(const struct query_metrics *metrics,
                         void (*visit)(void *context, const kv_stat *stat), void *context)
{
    struct figure figures[FIGURES_MAX];
    size_t count = gather(metrics, figures);
    for (size_t i = 0; i < count; i++) {
        kv_stat stat = { figures[i].name, NULL, figures[i].number };
        visit(context, &stat);
    }
}

/* "rocksdb.block_cache_bytes" becomes statekv_rocksdb_block_cache_bytes. */
static void write_engine(void *context, const kv_stat *stat)
{
    struct query_buffer *out = context;
    char name[ENGINE_NAME_SIZE];
    size_t size = 0;
    if (stat->text != NULL)
        return; /* Prometheus has numbers only */
    for (const char *at = stat->name; *at != '\0' && size < sizeof(name) - 1; at++)
        name[size++] = (char)(isalnum((unsigned char)*at) ? *at : '_');
    name[size] = '\0';
    query_buffer_format(out, "# TYPE statekv_%s gauge\nstatekv_%s %llu\n", name, name,
                        (unsigned long long)stat->number);
}

static void write_latency(const struct query_metrics *metrics, struct query_buffer *out)
{
    uint64_t total = 0, sum_ns = 0;
    query_buffer_text(out, "# HELP statekv_query_latency_seconds Time to answer a request\n"
                           "# TYPE statekv_query_latency_seconds histogram\n");
    for (size_t bucket = 0; bucket < QUERY_LATENCY_BUCKETS; bucket++) {
        for (size_t i = 0; i < metrics->count; i++)
            total += query_counter_read(&metrics->latencies[i]->buckets[bucket]);
        if (bucket + 1 < QUERY_LATENCY_BUCKETS)
            query_buffer_format(
                out, "statekv_query_latency_seconds_bucket{le=\"%u.%06u\"} %llu\n",
                (1u << bucket) / 1000000, (1u << bucket) % 1000000, (unsigned long long)total);
    }
    for (size_t i = 0; i < metrics->count; i++)
        sum_ns += query_counter_read(&metrics->latencies[i]->sum_ns);
    query_buffer_format(out,
                        "statekv_query_latency_seconds_bucket{le=\"+Inf\"} %llu\n"
                        "statekv_query_latency_seconds_sum %llu.%09llu\n"
                        "statekv_query_latency_seconds_count %llu\n",
                        (unsigned long long)total, (unsigned long long)(sum_ns / 1000000000),
                        (unsigned long long)(sum_ns % 1000000000), (unsigned long long)total);
}

void query_metrics_answer(void *context, const struct query_http_request *request,
                          struct query_http_answer *answer)
{
    const struct query_metrics *metrics = context;
    struct figure figures[FIGURES_MAX];
    struct rusage usage;
    if (request->path.size != 8 || memcmp(request->path.data, "/metrics", 8) != 0) {
        answer->status = 404;
        answer->content_type = "text/plain; charset=utf-8";
        query_buffer_literal(answer->body, "404 page not found; the figures are at /metrics\n");
        return;
    }
    answer->content_type = "text/plain; version=0.0.4; charset=utf-8";
    size_t count = gather(metrics, figures);
    for (size_t i = 0; i < count; i++)
        query_buffer_format(answer->body,
                            "# HELP statekv_query_%s %s\n# TYPE statekv_query_%s %s\n"
                            "statekv_query_%s %llu\n",
                            figures[i].name, figures[i].help, figures[i].name, figures[i].type,
                            figures[i].name, (unsigned long long)figures[i].number);
    write_latency(metrics, answer->body);
    if (metrics->app != NULL && metrics->app->figures != NULL)
        metrics->app->figures(metrics->app->context, write_engine, answer->body);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        query_buffer_format(answer->body,
                            "# HELP process_cpu_seconds_total CPU time used\n"
                            "# TYPE process_cpu_seconds_total counter\n"
                            "process_cpu_seconds_total %lld.%06ld\n",
                            (long long)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                                (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000000,
                            (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) % 1000000);
}
