/* suites.h - every suite there is; each in its own suite_<name>.c. */
#ifndef BENCH_SUITES_H
#define BENCH_SUITES_H

#include "bench/bench.h"

extern const bench_suite bench_suite_kv;
extern const bench_suite bench_suite_reconnect;
extern const bench_suite bench_suite_query;
extern const bench_suite bench_suite_self;
extern const bench_suite bench_suite_session;
extern const bench_suite bench_suite_txn;
extern const bench_suite bench_suite_vmap;

#endif /* BENCH_SUITES_H */
