/*
 * counters.h - what the process under measurement did, counted exactly.
 *
 * interpose.c defines malloc, write, fsync and their like in the program
 * itself, so that calls from every linked library, the engines included, are
 * counted in the thread that makes them. Reading the counters adds the threads
 * up; the difference of two readings is what happened in between.
 */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include <stdint.h>

/* name in results, unit per operation, compared by the 2 % gate,
 * the smallest change per operation that counts as one */
#define BENCH_COUNTER_MAP(XX)                               \
    XX(ALLOCATIONS, "allocations", "count", 1, 0.01)        \
    XX(ALLOCATED_BYTES, "allocated_bytes", "bytes", 1, 4.0) \
    XX(READS, "reads", "count", 1, 0.01)                    \
    XX(READ_BYTES, "read_bytes", "bytes", 1, 16.0)          \
    XX(WRITES, "writes", "count", 1, 0.01)                  \
    XX(WRITTEN_BYTES, "written_bytes", "bytes", 1, 16.0)    \
    XX(FSYNCS, "fsyncs", "count", 1, 0.01)                  \
    XX(FDATASYNCS, "fdatasyncs", "count", 1, 0.01)          \
    XX(UNLINKS, "unlinks", "count", 1, 0.01)                \
    XX(RENAMES, "renames", "count", 1, 0.01)                \
    XX(MINOR_FAULTS, "minor_faults", "count", 0, 0.0)       \
    XX(SWITCHES, "context_switches", "count", 0, 0.0)       \
    XX(CPU, "cpu_ns", "ns", 0, 0.0)

enum bench_counter {
#define XX(id, name, unit, gated, floor) BENCH_##id,
    BENCH_COUNTER_MAP(XX)
#undef XX
        BENCH_COUNTERS,
    BENCH_COUNTERS_CALLS = BENCH_MINOR_FAULTS /* the first ones are counted by interposition */
};

struct bench_counts {
    uint64_t values[BENCH_COUNTERS];
};

/* Called once at the start of the program. */
void bench_counters_init(void);

/* Everything counted so far, in all threads. */
void bench_counters_read(struct bench_counts *out);

#endif /* BENCH_COUNTERS_H */
