/* metrics.h - the server's figures: as a list, and as Prometheus text. */
#ifndef ABCI_QUERY_METRICS_H
#define ABCI_QUERY_METRICS_H

#include "abci_query/transport.h"

enum { QUERY_METRICS_THREADS_MAX = 64 };

/* Where the figures are; the counters belong to the threads. */
struct query_metrics {
    const struct query_transport *transport;
    const query_app *app; /* its figures are told too */
    size_t count;
    const struct query_service *services[QUERY_METRICS_THREADS_MAX];
    const struct query_latency *latencies[QUERY_METRICS_THREADS_MAX];
};

void query_metrics_visit(const struct query_metrics *metrics,
                         void (*visit)(void *context, const kv_stat *stat), void *context);

/* A query_http_handler's answer: GET /metrics. `context` is a struct query_metrics. */
void query_metrics_answer(void *context, const struct query_http_request *request,
                          struct query_http_answer *answer);

#endif /* ABCI_QUERY_METRICS_H */
