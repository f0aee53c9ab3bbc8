/* fresh.c - the changes that are staged, in memory, too: the switch reads them here. */
#include "reconnect/stage.h"

#include <stdlib.h>

enum {
    FRESH_SIZE_MAX = 16u << 20, /* bytes of keys and values; beyond, the switch reads records */
    FRESH_COUNT_MAX = 1u << 19,
    FRESH_COUNT_MIN = 256
};

void fresh_clear(struct stage_fresh *fresh)
{
    wire_out_clear(&fresh->bytes);
    free(fresh->list);
    *fresh = (struct stage_fresh){ .lost = true };
}

static bool grow(struct stage_fresh *fresh)
{
    size_t capacity = fresh->capacity == 0 ? FRESH_COUNT_MIN : 2 * fresh->capacity;
    if (fresh->count < fresh->capacity)
        return true;
    struct fresh_change *list = realloc(fresh->list, capacity * sizeof(*list));
    if (list == NULL)
        return false;
    fresh->list = list;
    fresh->capacity = capacity;
    return true;
}

bool fresh_add(struct stage_fresh *fresh, unsigned map, kv_slice key, kv_slice value)
{
    if (fresh->lost || fresh->count == FRESH_COUNT_MAX ||
        fresh->bytes.size + key.size + value.size > FRESH_SIZE_MAX || !grow(fresh))
        return false;
    struct fresh_change *change = &fresh->list[fresh->count];
    *change = (struct fresh_change){ fresh->bytes.size, map, (uint32_t)key.size,
                                     (uint32_t)value.size };
    wire_put(&fresh->bytes, key.data, key.size);
    wire_put(&fresh->bytes, value.data, value.size);
    if (fresh->bytes.failed)
        return false;
    fresh->count++;
    return true;
}

kv_slice fresh_key(const struct stage_fresh *fresh, const struct fresh_change *change)
{
    return kv_bytes(fresh->bytes.data + change->at, change->key_size);
}

kv_slice fresh_value(const struct stage_fresh *fresh, const struct fresh_change *change)
{
    return kv_bytes(fresh->bytes.data + change->at + change->key_size, change->value_size);
}

size_t fresh_unwritten(const struct stage_fresh *fresh)
{
    return fresh->written == fresh->count ? 0
                                          : fresh->bytes.size - fresh->list[fresh->written].at;
}

kv_code fresh_apply(const struct stage_fresh *fresh, unsigned number, vmap *map,
                    kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; i < fresh->count && code == KV_OK; i++) {
        const struct fresh_change *change = &fresh->list[i];
        if (change->map != number)
            continue;
        kv_slice key = fresh_key(fresh, change);
        code = change->value_size == 0 ? vmap_delete(map, key, status)
                                       : vmap_put(map, key, fresh_value(fresh, change), status);
    }
    return code;
}
