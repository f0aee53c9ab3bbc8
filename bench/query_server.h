/*
 * query_server.h - the server a load is measured against, in a process of its own, so that
 * its CPU time and allocations are its alone.
 */
#ifndef BENCH_QUERY_SERVER_H
#define BENCH_QUERY_SERVER_H

#include "bench/bench.h"
#include "bench/counters.h"

#include <sys/types.h>

enum query_bench_kind {
    QUERY_BENCH_BARE, /* a libuv loop that answers constant bytes: the yardstick */
    QUERY_BENCH_OURS
};

struct query_bench_server {
    pid_t pid;
    int ask, tell; /* pipes to it and from it */
    uint16_t port;
};

/* Fork a server; call before the process has threads. */
KV_MUST_CHECK kv_code query_bench_start(const bench_process *process,
                                        enum query_bench_kind kind,
                                        struct query_bench_server *out, kv_status *status);
/* What it used so far. */
KV_MUST_CHECK kv_code query_bench_counts(struct query_bench_server *server,
                                         struct bench_counts *out, kv_status *status);
/* Commit `keys` new values in the server's state, beside what it serves; how long it took. */
KV_MUST_CHECK kv_code query_bench_commit(struct query_bench_server *server, uint64_t keys,
                                         uint64_t *out_ns, kv_status *status);
void query_bench_stop(struct query_bench_server *server);

/* The state's keys: the seed's own, and `keys` more by number. */
#define QUERY_BENCH_SEED_KEY "clients/07-tendermint-92/clientState"
enum { QUERY_BENCH_KEY_SIZE = 16, QUERY_BENCH_VALUE_SIZE = 446 };
void query_bench_key(uint64_t index, char out[QUERY_BENCH_KEY_SIZE]);

#endif /* BENCH_QUERY_SERVER_H */
