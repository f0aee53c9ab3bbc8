/* reconnect_data.c - java.util.Random and the states of ReconnectBench. */
#include "bench/reconnect_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MULTIPLIER UINT64_C(0x5deece66d)
#define MASK ((UINT64_C(1) << 48) - 1)

void java_random_init(struct java_random *random, int64_t seed)
{
    random->seed = ((uint64_t)seed ^ MULTIPLIER) & MASK;
}

static uint64_t next(struct java_random *random, unsigned bits)
{
    random->seed = (random->seed * MULTIPLIER + 0xb) & MASK;
    return random->seed >> (48 - bits);
}

double java_random_double(struct java_random *random)
{
    uint64_t high = next(random, 26);
    return (double)((high << 27) + next(random, 27)) * 0x1.0p-53;
}

int64_t java_random_long(struct java_random *random)
{
    uint64_t high = next(random, 32);
    /* The low half is a signed int there. */
    return (int64_t)((high << 32) + (uint64_t)(int64_t)(int32_t)next(random, 32));
}

int64_t java_random_long_below(struct java_random *random, int64_t bound)
{
    uint64_t mask = (uint64_t)bound - 1;
    uint64_t drawn = (uint64_t)java_random_long(random);
    if (((uint64_t)bound & mask) == 0)
        return (int64_t)(drawn & mask);
    uint64_t half = drawn >> 1, rest = half % (uint64_t)bound;
    while ((int64_t)(half + mask - rest) < 0) {
        half = (uint64_t)java_random_long(random) >> 1;
        rest = half % (uint64_t)bound;
    }
    return (int64_t)rest;
}

/* ---- Keys and values ---------------------------------------------------- */

kv_slice reconnect_data_key(const struct reconnect_data *data, uint64_t number,
                            uint8_t bytes[RECONNECT_DATA_KEY_SIZE_MAX])
{
    memset(bytes, 0, data->key_size);
    for (unsigned i = 0; i < 8 && i < data->key_size; i++) {
        unsigned at = data->little_endian ? i : data->key_size - 1 - i;
        bytes[at] = (uint8_t)(number >> (8 * i));
    }
    return kv_bytes(bytes, data->key_size);
}

kv_slice reconnect_data_value(const struct reconnect_data *data, uint64_t number,
                              uint8_t bytes[RECONNECT_DATA_RECORD_SIZE_MAX])
{
    unsigned size = data->record_size - data->key_size;
    uint64_t mixed = number;
    for (unsigned i = 0; i < size; i += 8) {
        uint64_t word = mixed += UINT64_C(0x9e3779b97f4a7c15);
        word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        word ^= word >> 27;
        for (unsigned k = 0; k < 8 && i + k < size; k++)
            bytes[i + k] = (uint8_t)(word >> (8 * k));
    }
    return kv_bytes(bytes, size);
}

/* ---- The states --------------------------------------------------------- */

/* What the teacher has at a key in the end, where it is not what it began with. */
#define UNTOUCHED 0u
#define REMOVED UINT32_MAX

struct filling {
    const struct reconnect_data *data;
    state *sides[2]; /* learner, teacher */
    vmap **maps[2];
    uint32_t *touched; /* by key: REMOVED, or the number of its value */
    struct reconnect_drawn *drawn;
    kv_status *status;
    uint8_t key[RECONNECT_DATA_KEY_SIZE_MAX];
    uint8_t value[RECONNECT_DATA_RECORD_SIZE_MAX];
};

static kv_code change(struct filling *filling, unsigned side, uint64_t key, uint64_t value)
{
    const struct reconnect_data *data = filling->data;
    kv_slice name = reconnect_data_key(data, key, filling->key);
    kv_code code = KV_OK;
    for (unsigned i = 0; i < data->maps && code == KV_OK; i++) {
        if (filling->maps[side] == NULL)
            break;
        vmap *map = filling->maps[side][i];
        code = value == REMOVED
                   ? vmap_delete(map, name, filling->status)
                   : vmap_put(map, name, reconnect_data_value(data, value, filling->value),
                              filling->status);
    }
    return code;
}

static kv_code teach(struct filling *filling, uint64_t key, uint64_t value)
{
    filling->touched[key] = (uint32_t)value;
    return change(filling, 1, key, value);
}

static kv_code commit(struct filling *filling, unsigned side)
{
    uint64_t version;
    return filling->sides[side] == NULL
               ? KV_OK
               : state_commit(filling->sides[side], 0, &version, filling->status);
}

/* Keys 1 .. size - 1 on both sides. */
static kv_code fill_both(struct filling *filling, uint64_t size)
{
    kv_code code = KV_OK;
    for (uint64_t i = 1; i < size && code == KV_OK; i++) {
        code = change(filling, 0, i, i);
        if (code == KV_OK)
            code = change(filling, 1, i, i);
    }
    if (code == KV_OK)
        code = commit(filling, 0);
    return code == KV_OK ? commit(filling, 1) : code;
}

static kv_code draw(struct filling *filling, uint64_t size)
{
    const struct reconnect_data *data = filling->data;
    struct java_random random;
    uint64_t current = size;
    kv_code code = KV_OK;
    java_random_init(&random, data->seed);
    for (uint64_t i = 1; i < size && code == KV_OK; i++) {
        bool add = java_random_double(&random) < data->add;
        bool modify = java_random_double(&random) < data->modify;
        bool remove = java_random_double(&random) < data->remove;
        if (add) {
            filling->drawn->adds++;
            code = teach(filling, i + size, i + size);
            current++;
        }
        uint64_t modified = (uint64_t)java_random_long_below(&random, (int64_t)current) + 1;
        uint64_t removed = (uint64_t)java_random_long_below(&random, (int64_t)current) + 1;
        if (modify && code == KV_OK) {
            filling->drawn->modifies++;
            code = teach(filling, modified, modified + 2 * size);
        }
        if (remove && code == KV_OK) {
            filling->drawn->removes++;
            code = teach(filling, removed, REMOVED);
            current--;
        }
        if (code == KV_OK && i % data->records == 0)
            code = commit(filling, 1);
    }
    return code == KV_OK ? commit(filling, 1) : code;
}

/* A key differs unless it was removed where the learner has it not either. */
static void count_differing(const struct filling *filling, uint64_t size)
{
    for (uint64_t key = 1; key < 2 * size; key++) {
        uint32_t value = filling->touched[key];
        if (value == UNTOUCHED || (value == REMOVED && key >= size))
            continue;
        filling->drawn->differing += filling->data->maps;
        filling->drawn->differing_bytes +=
            (uint64_t)filling->data->maps *
            (value == REMOVED ? filling->data->key_size : filling->data->record_size);
    }
}

static kv_code open_maps(struct filling *filling, unsigned side)
{
    if (filling->sides[side] == NULL)
        return KV_OK;
    unsigned count = filling->data->maps;
    filling->maps[side] = calloc(count, sizeof(vmap *));
    if (filling->maps[side] == NULL)
        return KV_NO_MEMORY;
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "map%u", i);
        kv_code code = state_map_open(filling->sides[side], name, KV_CREATE,
                                      &filling->maps[side][i], filling->status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

kv_code reconnect_data_fill(const struct reconnect_data *data, state *learner, state *teacher,
                            struct reconnect_drawn *drawn, kv_status *status)
{
    uint64_t size = data->records * data->files;
    memset(drawn, 0, sizeof(*drawn));
    if (size < 2 || size > UINT32_MAX / 4 || data->key_size < 1 ||
        data->key_size > RECONNECT_DATA_KEY_SIZE_MAX || data->record_size <= data->key_size ||
        data->record_size > RECONNECT_DATA_RECORD_SIZE_MAX || data->maps < 1)
        return kv_fail(status, KV_INVALID, "records, files, key or record size out of range");
    struct filling *filling = calloc(1, sizeof(*filling));
    uint32_t *touched = calloc(2 * size + 2, sizeof(*touched));
    kv_code code = filling == NULL || touched == NULL
                       ? kv_fail(status, KV_NO_MEMORY, "no memory for the states' keys")
                       : KV_OK;
    if (code == KV_OK) {
        *filling = (struct filling){ .data = data,
                                     .sides = { learner, teacher },
                                     .touched = touched,
                                     .drawn = drawn,
                                     .status = status };
        code = open_maps(filling, 0);
    }
    if (code == KV_OK)
        code = open_maps(filling, 1);
    if (code == KV_OK)
        code = fill_both(filling, size);
    if (code == KV_OK)
        code = draw(filling, size);
    if (code == KV_OK)
        count_differing(filling, size);
    if (filling != NULL) {
        free(filling->maps[0]);
        free(filling->maps[1]);
    }
    free(filling);
    free(touched);
    return code;
}
