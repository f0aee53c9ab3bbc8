/* kv_data.c - see kv_data.h. */
#include "bench/kv_data.h"

#include <stdlib.h>

enum { CHUNK = 64 }; /* bytes within which part is random and the rest repeats it */

kv_code kv_data_init(struct kv_data *data, uint64_t count, size_t key_size, size_t value_size,
                     unsigned compressible, uint64_t seed, kv_status *status)
{
    *data = (struct kv_data){ count, key_size, value_size, 2, seed, NULL };
    if (count < 1 || count > UINT64_C(1) << 40 || key_size < KV_DATA_KEY_SIZE_MIN ||
        key_size > KV_DATA_KEY_SIZE_MAX || value_size > 1 << 28 || compressible > 100)
        return kv_fail(status, KV_INVALID,
                       "count is 1 to 2^40, key-size %d to %d, value-size up to 256MiB, "
                       "compressible 0 to 100",
                       KV_DATA_KEY_SIZE_MIN, KV_DATA_KEY_SIZE_MAX);
    while ((UINT64_C(1) << data->order_bits) < count)
        data->order_bits += 2;

    size_t size = KV_DATA_POOL_SIZE + value_size;
    data->pool = malloc(size);
    if (data->pool == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for %zu bytes of values", size);
    uint64_t random = seed;
    size_t unique = CHUNK - CHUNK * compressible / 100;
    for (size_t i = 0; i < size; i++) {
        size_t within = i % CHUNK;
        data->pool[i] = unique == 0       ? 'v'
                        : within < unique ? (unsigned char)bench_random(&random)
                                          : data->pool[i - within + within % unique];
    }
    return KV_OK;
}

void kv_data_clear(struct kv_data *data)
{
    free(data->pool);
    data->pool = NULL;
}
