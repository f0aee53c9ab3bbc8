/*
 * session_sim.h - a session fetching over simnet, and the scenarios of the table.
 *
 * The scenarios are those of the bitswap benchmarks of December 2018: how many
 * peers hold which blocks, in what order blocks are asked for, how slow the
 * network is. Peers answer a message with one message (split at 16 KiB for the
 * default mode, at 512 KiB for the others); a block takes 15 us to take in, and
 * a request 4 us to be sent, which decides what goes out together.
 */
#ifndef BENCH_SESSION_SIM_H
#define BENCH_SESSION_SIM_H

#include "reconnect/session.h"

enum sim_placement {
    PLACE_ALL,       /* every peer holds every block */
    PLACE_OVERLAP1,  /* the first three quarters, the last three quarters */
    PLACE_OVERLAP3,  /* every third both, of the others the odd and the even */
    PLACE_ONE_PEER,  /* each block at one peer, at random */
    PLACE_LAST_PEER, /* everything at every peer but the last block, which only the
                        slowest peer has */
    PLACE_RANDOM     /* each block at each peer with probability one half, at least one */
};

enum sim_order {
    ORDER_ONE_AT_A_TIME,
    ORDER_BY_10,
    ORDER_ALL,
    ORDER_CONCURRENT, /* one request for each block, in random order */
    ORDER_UNIXFS      /* the first, ten, the rest */
};

enum sim_network { NETWORK_FIXED, NETWORK_FAST, NETWORK_AVERAGE, NETWORK_SLOW };

enum sim_trouble {
    TROUBLE_NONE,
    TROUBLE_CHURN, /* peers die and come back all the time */
    TROUBLE_LIAR,  /* one peer answers with other bytes */
    TROUBLE_SLOW   /* one peer is 20 times as far away */
};

/* What is told of a peer before the clock starts. */
enum sim_greeting {
    GREETING_FULL,   /* its latency and an inventory filter, as in our handshake */
    GREETING_NOTHING /* nothing: peers are found out by asking */
};

/* A row's figures in one column; negative: not known. */
struct sim_figures {
    double dups, sent, recd, time_ms;
};

struct sim_row {
    const char *name;
    uint32_t peers, blocks, block_size;
    enum sim_placement placement;
    enum sim_order order;
    enum sim_network network;
    bool bandwidth;
    enum sim_trouble trouble;
    /* The columns of the table of 2018: as published where `published` says so,
     * else from a model of the same harness that reproduced the published rows. */
    bool published;
    struct sim_figures master, jeremy, fresh;
};

extern const struct sim_row sim_rows[];
extern const size_t sim_row_count;
const struct sim_row *sim_row_find(const char *name);

struct sim_run {
    const struct sim_row *row;
    session_mode mode;
    enum sim_greeting greeting;
    uint64_t seed;
    /* For property tests. */
    double jitter_us, loss_share, duplicate_share;
    double disconnects; /* a second, spread over the peers */
};

struct sim_result {
    bool finished;             /* every block arrived */
    uint32_t twice;            /* blocks delivered more than once: must be 0 */
    uint64_t dups, sent, recd; /* at the hub when the last block arrived */
    int64_t time_us;
    uint64_t dups_late; /* and when all answers under way had come too */
    size_t memory_peak;
    session_figures figures; /* at the end of all */
};

/* Run one. Deterministic: the same run gives the same result. */
struct sim_result sim_run(const struct sim_run *run);

/* The least of the columns of 2018 for one figure. */
double sim_least(const struct sim_row *row, size_t offset);

#endif /* BENCH_SESSION_SIM_H */
