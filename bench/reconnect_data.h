/*
 * reconnect_data.h - the two states of ReconnectBench, drawn as it draws them.
 *
 * Keys 1 .. size - 1 go into both sides, size being records x files. Then, once
 * for each of them, java.util.Random decides with three nextDouble whether the
 * teacher adds, modifies and removes a key, and with two nextLong which; the
 * draws come in that order and are made whether used or not. The same seed gives
 * the same states as there: size 100,000 and 0.01 draw 960, 1,000 and 1,034.
 */
#ifndef BENCH_RECONNECT_DATA_H
#define BENCH_RECONNECT_DATA_H

#include "vmap/state.h"

/* java.util.Random. */
struct java_random {
    uint64_t seed;
};

void java_random_init(struct java_random *random, int64_t seed);
double java_random_double(struct java_random *random);
int64_t java_random_long(struct java_random *random);
int64_t java_random_long_below(struct java_random *random, int64_t bound);

#define RECONNECT_DATA_SEED INT64_C(9823452658)
#define RECONNECT_DATA_KEY_SIZE_MAX 256u
#define RECONNECT_DATA_RECORD_SIZE_MAX 65536u

struct reconnect_data {
    uint64_t records, files; /* numRecords, numFiles */
    unsigned key_size, record_size;
    bool little_endian; /* keys: their numbers' low byte first */
    double add, modify, remove;
    int64_t seed;
    unsigned maps; /* mapCount: the same in each */
};

struct reconnect_drawn {
    uint64_t adds, modifies, removes;
    uint64_t differing;       /* keys that differ at the end, */
    uint64_t differing_bytes; /* and the bytes of the teacher's keys and values there */
};

/* Fill the learner's and the teacher's state, newest version 1 and above on the
 * teacher's side, and tell what was drawn. Either state may be NULL. */
KV_MUST_CHECK kv_code reconnect_data_fill(const struct reconnect_data *data, state *learner,
                                          state *teacher, struct reconnect_drawn *drawn,
                                          kv_status *status);

/* The `number`th key; and the value number `number`, record_size - key_size bytes. */
kv_slice reconnect_data_key(const struct reconnect_data *data, uint64_t number,
                            uint8_t bytes[RECONNECT_DATA_KEY_SIZE_MAX]);
kv_slice reconnect_data_value(const struct reconnect_data *data, uint64_t number,
                              uint8_t bytes[RECONNECT_DATA_RECORD_SIZE_MAX]);

#endif /* BENCH_RECONNECT_DATA_H */
