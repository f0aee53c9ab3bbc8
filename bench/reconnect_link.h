/*
 * reconnect_link.h - two threads, a teacher and a learner, and a modelled network
 * between them in real time.
 *
 * Two models. Per-message sleeps, as the original benchmark has them: whoever
 * sends sleeps the storage delay, and its writer thread sleeps the network delay
 * before each message; there is no latency and no bandwidth, so messages cost and
 * bytes do not. Or a wire: bytes leave at the bandwidth and arrive a latency later,
 * messages cost nothing.
 */
#ifndef BENCH_RECONNECT_LINK_H
#define BENCH_RECONNECT_LINK_H

#include "reconnect/reconnect.h"

struct link_model {
    unsigned storage_us, network_us; /* sleeps per message */
    double storage_fuzz, network_fuzz;
    double
        learner_share; /* of these sleeps that the learner's messages cost; the teacher's: 1 */
    int64_t seed;
    int64_t latency_us;   /* one way */
    uint64_t bits_second; /* each way; 0: no limit */
};

/* Catch `learner` up from `teacher` and switch. */
KV_MUST_CHECK kv_code link_run(const struct link_model *model, kv_db *learner_db,
                               state *learner, state *teacher, const reconnect_goal *goal,
                               reconnect_figures *figures, kv_status *status);

#endif /* BENCH_RECONNECT_LINK_H */
