/*
 * model.h - what a state must hold, kept the simplest way, and an oracle that
 * builds roots from scratch by the rules alone.
 *
 * Keys come from a fixed universe and values from numbers, so a version of the
 * model is an array of numbers and copying it is all that history takes.
 */
#ifndef TEST_STATE_MODEL_H
#define TEST_STATE_MODEL_H

#include "vmap/state.h"

enum { MODEL_MAPS = 3, MODEL_KEY_SIZE_MAX = 700, MODEL_VALUE_SIZE_MAX = 400 };

struct pair {
    kv_slice key, value;
};

/* The root of `pairs`, in key order: nothing of ours has a part in it. */
vmap_digest oracle_root(const struct pair *pairs, size_t count, unsigned page_bits);

struct random {
    uint64_t state;
};
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit);

/* All keys there are, in byte order. */
struct universe {
    size_t count;
    kv_slice *keys;
};
void universe_make(struct universe *universe, size_t count, uint64_t seed);
void universe_free(struct universe *universe);

/* The value that a number stands for; `buffer` has MODEL_VALUE_SIZE_MAX bytes. */
kv_slice model_value(uint32_t number, uint8_t *buffer);
extern const char *const model_names[MODEL_MAPS];

struct model {
    uint64_t version;
    bool exists[MODEL_MAPS];
    uint32_t *numbers[MODEL_MAPS]; /* by key; 0: absent */
};
void model_init(struct model *model, const struct universe *universe);
void model_free(struct model *model);
void model_copy(struct model *to, const struct model *from, const struct universe *universe);
vmap_digest model_root(const struct model *model, size_t map, const struct universe *universe,
                       unsigned page_bits);
vmap_digest model_app_hash(const struct model *model, const struct universe *universe,
                           unsigned page_bits);

#endif /* TEST_STATE_MODEL_H */
