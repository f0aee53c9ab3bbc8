/*
 * transport.h - the sockets of the query service: every call to libuv is in
 * transport.c. A worker is one thread with one loop, its own listeners, and the
 * connections it accepted.
 */
#ifndef ABCI_QUERY_TRANSPORT_H
#define ABCI_QUERY_TRANSPORT_H

#include "abci_query/service.h"

struct query_tls; /* a server's certificate and key; tls.h */

struct query_timeouts {
    uint64_t header_ms, body_ms, write_ms, idle_ms, drain_ms;
};

/* What all workers of a server share. */
struct query_transport {
    struct query_timeouts timeouts;
    size_t connections_max;
    struct query_tls *tls; /* NULL: plain */
    struct query_log *log; /* NULL: nothing is told */
    atomic_size_t connections;
    atomic_uint_least64_t accepted, turned_away, timed_out;
};

/* A bound socket, not yet listening. */
struct query_listener {
    int fd;
    bool local;     /* a unix socket */
    bool metrics;   /* served by the second handler */
    char name[256]; /* as given, with the real port */
};

struct query_worker;

/* What a worker asks of its owner, on its own thread. */
struct query_worker_hooks {
    void *context;
    /* Several times a second, and after a notification; true: tell subscribers. */
    bool (*refresh)(void *context);
    void (*tell)(void *context, const struct query_subscriber *subscriber,
                 struct query_buffer *out);
    void (*told)(void *context);
};

/*
 * Bind one address, tcp://HOST:PORT or unix://PATH. With `shared`, each of several
 * workers binds its own socket to one port; without, a taken port is found out.
 */
KV_MUST_CHECK kv_code query_listener_bind(const char *address, bool shared,
                                          struct query_listener *out, kv_status *status);
void query_listener_close(struct query_listener *listener, bool unlink_path);

/* A worker over `listeners`, whose sockets it takes; `http` answers, `metrics` answers
 * where a listener is for metrics. Both must outlive it. */
KV_MUST_CHECK kv_code query_worker_new(struct query_transport *transport,
                                       struct query_listener *listeners, size_t listener_count,
                                       struct query_http *http, struct query_http *metrics,
                                       const struct query_worker_hooks *hooks,
                                       struct query_worker **out, kv_status *status);
/* Serve until stopped: the thread's main. */
void query_worker_run(struct query_worker *worker);
/* From any thread. */
void query_worker_stop(struct query_worker *worker);
void query_worker_notify(struct query_worker *worker);
/* After run has returned, or without a run. */
void query_worker_free(struct query_worker *worker);

/* How long requests took, from their last byte to the answer's first: counts by
 * upper bound in microseconds, each twice the last. */
enum { QUERY_LATENCY_BUCKETS = 24 };
struct query_latency {
    atomic_uint_least64_t buckets[QUERY_LATENCY_BUCKETS];
    atomic_uint_least64_t sum_ns;
};
const struct query_latency *query_worker_latency(const struct query_worker *worker);

#endif /* ABCI_QUERY_TRANSPORT_H */
