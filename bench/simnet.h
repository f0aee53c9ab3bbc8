/*
 * simnet.h - a network of one hub and many peers in virtual time.
 *
 * A discrete-event simulation: nothing sleeps, the same seed gives the same
 * run. It is the virtual network of the 2018 bitswap benchmarks:
 *
 *   - the latency of each directed pair is drawn at its first message and kept;
 *   - a token bucket for each directed pair limits its bytes: rate r, at most
 *     one second's worth saved up, none at the start; what is short delays the
 *     message (a backlog in order);
 *   - each receiver takes messages from one queue by due time, one at a time. A
 *     head due in under 100 ms is taken and waited for; otherwise the receiver
 *     sleeps 100 ms, so that a message may come up to 100 ms late.
 *
 * Beyond that, for tests: jitter, loss, duplication and reordering.
 *
 * Node 0 is the hub; peers are 1 .. peers. Messages run between the hub and a
 * peer only. A message is a run of words whose meaning is the caller's.
 */
#ifndef BENCH_SIMNET_H
#define BENCH_SIMNET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct simnet simnet;

struct simnet_message {
    struct simnet_message *next; /* private */
    uint32_t from, to;
    uint32_t count, capacity;
    uint64_t size; /* bytes on the wire, for the bandwidth */
    uint32_t words[];
};

/* How latencies and rates are drawn. Latency: normal(base, spread), plus `medium`
 * with probability medium_share, or plus `large` with probability large_share. */
struct simnet_config {
    uint32_t peers;
    uint64_t seed;
    double base_us, spread_us;
    double medium_us, large_us, medium_share, large_share;
    double rate, rate_spread;           /* bytes a second; 0: unlimited */
    double jitter_us;                   /* uniform, added to each message: reorders */
    double loss_share, duplicate_share; /* of messages */
    bool prompt;                        /* receivers never sleep 100 ms */

    /* A message has come; returns how long the node is busy with it. */
    int64_t (*deliver)(void *context, uint32_t node, const struct simnet_message *message);
    /* A timer set with simnet_timer has run out. */
    void (*timer)(void *context, uint64_t what);
    void *context;
};

simnet *simnet_new(const struct simnet_config *config);
void simnet_free(simnet *net);

int64_t simnet_now_us(const simnet *net);
uint64_t simnet_random(simnet *net);
double simnet_chance(simnet *net); /* 0 <= x < 1 */

/* Latency between hub and peer, there and back: what a handshake measures. */
int64_t simnet_round_trip_us(simnet *net, uint32_t peer);

/* A message to fill; it belongs to the network once it is sent. */
struct simnet_message *simnet_message_new(simnet *net, uint32_t from, uint32_t to);
struct simnet_message *simnet_message_add(simnet *net, struct simnet_message *message,
                                          uint32_t word);
void simnet_send(simnet *net, struct simnet_message *message, int64_t delay_us);
void simnet_drop(simnet *net, struct simnet_message *message); /* instead of sending */

/* Drop what is under way to and from a peer: its connection broke. */
void simnet_cut(simnet *net, uint32_t peer);

void simnet_timer(simnet *net, int64_t at_us, uint64_t what);

/* Run until nothing is left to happen, `until_us`, or simnet_stop. Returns whether
 * it was stopped. */
bool simnet_run(simnet *net, int64_t until_us);
void simnet_stop(simnet *net);

uint64_t simnet_sent(const simnet *net, uint32_t node);
uint64_t simnet_received(const simnet *net, uint32_t node);

#endif /* BENCH_SIMNET_H */
