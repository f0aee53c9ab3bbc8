/* cache.c - encoded answers of the newest moment, in a fixed table. */
#include "abci_query/node.h"

#include <stdlib.h>

enum {
    SLOTS = 8192,             /* a power of two */
    ENTRY_SIZE_MAX = 64 << 10 /* longer answers are not kept */
};

/* path | data | answer, one after the other in `bytes`. */
struct entry {
    uint64_t hash;
    uint32_t path_size, data_size, answer_size, capacity;
    int64_t height;
    bool prove, has_data;
    char *bytes;
};

/* What tells nearly every miss without a look at the entry: these few stay near, of the
 * entries each is far away. */
struct tag {
    uint64_t moment; /* 0: nothing is kept here */
    uint32_t held;   /* the hash's upper half */
    uint32_t wanted; /* that of who was last refused this slot */
};

struct query_cache {
    size_t size_max;
    struct query_cache_counts counts;
    struct tag tags[SLOTS];
    struct entry slots[SLOTS];
};

struct query_cache *query_cache_new(size_t size_max)
{
    struct query_cache *cache = calloc(1, sizeof(*cache));
    if (cache != NULL)
        cache->size_max = size_max;
    return cache;
}

void query_cache_free(struct query_cache *cache)
{
    for (size_t i = 0; cache != NULL && i < SLOTS; i++)
        free(cache->slots[i].bytes);
    free(cache);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, kv_slice bytes)
{
    const char *in = bytes.data;
    size_t left = bytes.size;
    uint64_t word;
    for (; left >= 8; left -= 8, in += 8) {
        memcpy(&word, in, 8);
        hash = mix(hash, word);
    }
    word = bytes.size;
    for (; left > 0; left--)
        word = word << 8 | (uint8_t)in[left - 1];
    return mix(hash, word);
}

uint64_t query_cache_hash(const query_request *request)
{
    uint64_t hash = mix((uint64_t)request->height, request->prove ? 1 : 2);
    return mix_bytes(mix_bytes(hash, request->path), request->data);
}

static uint32_t upper(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static bool holds(const struct entry *entry, uint64_t hash, const query_request *request)
{
    return entry->hash == hash && entry->height == request->height &&
           entry->prove == request->prove && entry->has_data == (request->data.data != NULL) &&
           entry->path_size == request->path.size && entry->data_size == request->data.size &&
           memcmp(entry->bytes, request->path.data == NULL ? "" : request->path.data,
                  entry->path_size) == 0 &&
           memcmp(entry->bytes + entry->path_size,
                  request->data.data == NULL ? "" : request->data.data, entry->data_size) == 0;
}

kv_slice query_cache_get(struct query_cache *cache, uint64_t hash, uint64_t moment,
                         const query_request *request)
{
    const struct entry *entry = &cache->slots[hash % SLOTS];
    const struct tag *tag = &cache->tags[hash % SLOTS];
    if (tag->moment != moment || tag->held != upper(hash) || !holds(entry, hash, request)) {
        query_count(&cache->counts.misses, 1);
        return kv_bytes(NULL, 0);
    }
    query_count(&cache->counts.hits, 1);
    return kv_bytes(entry->bytes + entry->path_size + entry->data_size, entry->answer_size);
}

/* Room for `size` bytes in `entry`, within the budget. */
static bool make_room(struct query_cache *cache, struct entry *entry, size_t size)
{
    if (size <= entry->capacity)
        return true;
    size_t capacity = (size + 1023) / 1024 * 1024;
    if (query_counter_read(&cache->counts.size_bytes) - entry->capacity + capacity >
        cache->size_max)
        return false;
    char *bytes = realloc(entry->bytes, capacity);
    if (bytes == NULL)
        return false;
    query_count(&cache->counts.size_bytes, capacity - entry->capacity);
    entry->bytes = bytes;
    entry->capacity = (uint32_t)capacity;
    return true;
}

static void append(struct entry *entry, size_t *at, kv_slice bytes)
{
    if (bytes.size > 0)
        memcpy(entry->bytes + *at, bytes.data, bytes.size);
    *at += bytes.size;
}

void query_cache_put(struct query_cache *cache, uint64_t hash, uint64_t moment,
                     const query_request *request, kv_slice answer)
{
    struct entry *entry = &cache->slots[hash % SLOTS];
    struct tag *tag = &cache->tags[hash % SLOTS];
    size_t size = request->path.size + request->data.size + answer.size, at = 0;
    /* Who is asked for once does not turn out who may be asked for again. */
    if (tag->moment == moment && tag->wanted != upper(hash)) {
        tag->wanted = upper(hash);
        return;
    }
    if (size > ENTRY_SIZE_MAX || !make_room(cache, entry, size))
        return;
    append(entry, &at, request->path);
    append(entry, &at, request->data);
    append(entry, &at, answer);
    tag->moment = moment;
    tag->held = upper(hash);
    entry->hash = hash;
    entry->height = request->height;
    entry->prove = request->prove;
    entry->has_data = request->data.data != NULL;
    entry->path_size = (uint32_t)request->path.size;
    entry->data_size = (uint32_t)request->data.size;
    entry->answer_size = (uint32_t)answer.size;
}

const struct query_cache_counts *query_cache_counts(const struct query_cache *cache)
{
    return cache == NULL ? NULL : &cache->counts;
}
