/*
 * kv_data.h - the keys and values of suite kv, made from numbers.
 *
 * Key i is the number 2^63 + 2 i in eight bytes, most significant first, and then
 * filler up to the key size; the odd numbers between are the keys that are not
 * there. (The high bit keeps keys that are written past our layer clear of what
 * it keeps at the start of an engine that has no spaces.) Value (i, generation) is a piece of a
 * common pool of bytes, so that it is made, and checked in full, without copying anything.
 */
#ifndef BENCH_KV_DATA_H
#define BENCH_KV_DATA_H

#include "bench/bench.h"

#include <endian.h>
#include <string.h>

enum {
    KV_DATA_KEY_SIZE_MIN = 8,
    KV_DATA_KEY_SIZE_MAX = 1024,
    KV_DATA_POOL_SIZE = 1 << 18, /* a power of two; small enough for a processor's cache */
    KV_DATA_PREFIX_SIZE = 7,     /* prefixscan: 256 numbers, of which every other is a key */
    KV_DATA_PREFIX_KEYS = 128
};

#define KV_DATA_KEY_BASE (UINT64_C(1) << 63)

struct kv_data {
    uint64_t count; /* keys that there are: 0 .. count - 1 */
    size_t key_size, value_size;
    unsigned order_bits; /* see kv_data_order */
    uint64_t seed;
    unsigned char *pool; /* KV_DATA_POOL_SIZE + value_size bytes */
};

/* `compressible`: percent of a value that repeats itself. */
KV_MUST_CHECK kv_code kv_data_init(struct kv_data *data, uint64_t count, size_t key_size,
                                   size_t value_size, unsigned compressible, uint64_t seed,
                                   kv_status *status);
void kv_data_clear(struct kv_data *data);

static inline uint64_t kv_data_mix(uint64_t z)
{
    return bench_random(&z);
}

struct kv_data_key {
    unsigned char bytes[KV_DATA_KEY_SIZE_MAX];
};

/* Ready a key: fill what does not depend on the number. */
static inline void kv_data_key_init(struct kv_data_key *key)
{
    memset(key->bytes, 'k', sizeof(key->bytes));
}

static inline kv_slice kv_data_key_of(const struct kv_data *data, struct kv_data_key *key,
                                      uint64_t index, bool there)
{
    uint64_t number = htobe64(KV_DATA_KEY_BASE | (2 * index + !there));
    memcpy(key->bytes, &number, sizeof(number));
    return kv_bytes(key->bytes, data->key_size);
}

/* The index of a key that was read; UINT64_MAX if it is none of ours. */
static inline uint64_t kv_data_index_of(const struct kv_data *data, kv_slice key)
{
    uint64_t number;
    if (key.size != data->key_size)
        return UINT64_MAX;
    memcpy(&number, key.data, sizeof(number));
    number = be64toh(number) ^ KV_DATA_KEY_BASE;
    return number % 2 == 0 && number / 2 < data->count ? number / 2 : UINT64_MAX;
}

static inline kv_slice kv_data_value_of(const struct kv_data *data, uint64_t index,
                                        uint64_t generation)
{
    uint64_t offset = kv_data_mix(index ^ (generation << 48)) % KV_DATA_POOL_SIZE;
    return kv_bytes(data->pool + offset, data->value_size);
}

static inline bool kv_data_value_is(const struct kv_data *data, kv_slice value, uint64_t index,
                                    uint64_t generation)
{
    kv_slice right = kv_data_value_of(data, index, generation);
    return value.size == right.size &&
           (right.size == 0 || memcmp(value.data, right.data, right.size) == 0);
}

/*
 * The `turn`-th key in a random order in which each comes once: a Feistel
 * network over the next even number of bits, walked until it lands in range.
 */
static inline uint64_t kv_data_order(const struct kv_data *data, uint64_t turn)
{
    unsigned half = data->order_bits / 2;
    uint64_t mask = (UINT64_C(1) << half) - 1, at = turn;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (unsigned round = 0; round < 3; round++) {
            uint64_t next = left ^ (kv_data_mix(right + data->seed + round) & mask);
            left = right;
            right = next;
        }
        at = (left << half) | right;
    } while (at >= data->count);
    return at;
}

#endif /* BENCH_KV_DATA_H */
