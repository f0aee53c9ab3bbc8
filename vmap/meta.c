/* meta.c - what a state keeps about itself. */
#include "vmap/meta.h"

#include <stdlib.h>
#include <string.h>

static const char version_prefix[] = "version/";

kv_slice meta_key_head(void)
{
    return kv_text("head");
}

kv_slice meta_key_removed(void)
{
    return kv_text("removed");
}

kv_slice meta_key_version(uint8_t key[META_KEY_SIZE], uint64_t version)
{
    uint64_t big = __builtin_bswap64(version);
    memcpy(key, version_prefix, sizeof(version_prefix) - 1);
    memcpy(key + sizeof(version_prefix) - 1, &big, sizeof(big));
    return kv_bytes(key, sizeof(version_prefix) - 1 + sizeof(big));
}

static kv_slice key_of_map(uint8_t key[META_KEY_SIZE], kv_slice prefix, uint32_t map)
{
    uint32_t big = __builtin_bswap32(map);
    memcpy(key, prefix.data, prefix.size);
    memcpy(key + prefix.size, &big, sizeof(big));
    return kv_bytes(key, prefix.size + sizeof(big));
}

kv_slice meta_key_building(uint8_t key[META_KEY_SIZE], uint32_t map)
{
    return key_of_map(key, kv_text("building/"), map);
}

kv_slice meta_key_dropped(uint8_t key[META_KEY_SIZE], uint32_t map)
{
    return key_of_map(key, kv_text("dropped/"), map);
}

bool meta_key_map(kv_slice key, size_t prefix_size, uint32_t *map)
{
    uint32_t big;
    if (key.size != prefix_size + sizeof(big))
        return false;
    memcpy(&big, (const uint8_t *)key.data + prefix_size, sizeof(big));
    *map = __builtin_bswap32(big);
    return true;
}

/* ---- Head --------------------------------------------------------------- */

bool meta_head_encode(const struct meta_head *head, struct vtree_buffer *out)
{
    out->size = 0;
    return vtree_buffer_add_varint(out, META_FORMAT) &&
           vtree_buffer_add_varint(out, head->newest) &&
           vtree_buffer_add_varint(out, head->oldest) &&
           vtree_buffer_add_varint(out, head->versions) &&
           vtree_buffer_add_varint(out, head->map_next) &&
           vtree_buffer_add_varint(out, head->history_records) &&
           vtree_buffer_add_varint(out, head->history_garbage) &&
           vtree_buffer_add_varint(out, (uint64_t)head->pending) &&
           (head->pending == META_PENDING_NONE ||
            (vtree_buffer_add_varint(out, head->target) &&
             vtree_buffer_add_varint(out, head->expects ? 1 : 0) &&
             vtree_buffer_add(out, head->expected.bytes, sizeof(head->expected.bytes))));
}

bool meta_head_decode(kv_slice record, struct meta_head *head)
{
    uint64_t format, map_next, pending, expects;
    const uint8_t *expected;
    memset(head, 0, sizeof(*head));
    if (!record_take_varint(&record, &format) || format != META_FORMAT ||
        !record_take_varint(&record, &head->newest) ||
        !record_take_varint(&record, &head->oldest) ||
        !record_take_varint(&record, &head->versions) ||
        !record_take_varint(&record, &map_next) || map_next > UINT32_MAX ||
        !record_take_varint(&record, &head->history_records) ||
        !record_take_varint(&record, &head->history_garbage) ||
        !record_take_varint(&record, &pending) || pending > META_PENDING_LOAD)
        return false;
    head->map_next = (uint32_t)map_next;
    head->pending = (enum meta_pending)pending;
    if (head->pending != META_PENDING_NONE) {
        if (!record_take_varint(&record, &head->target) ||
            !record_take_varint(&record, &expects) ||
            !record_take_bytes(&record, sizeof(head->expected.bytes), &expected))
            return false;
        head->expects = expects != 0;
        memcpy(head->expected.bytes, expected, sizeof(head->expected.bytes));
    }
    return record.size == 0;
}

/* ---- Versions ----------------------------------------------------------- */

struct meta_version *meta_version_new(size_t count)
{
    struct meta_version *version = calloc(1, sizeof(*version));
    if (version == NULL)
        return NULL;
    version->count = count;
    version->maps = calloc(count + 1, sizeof(*version->maps));
    version->roots = calloc(count + 1, sizeof(*version->roots));
    if (version->maps == NULL || version->roots == NULL) {
        meta_version_free(version);
        return NULL;
    }
    return version;
}

void meta_version_free(struct meta_version *version)
{
    if (version == NULL)
        return;
    free(version->maps);
    free(version->roots);
    free(version);
}

void meta_version_seal(struct meta_version *version)
{
    for (size_t i = 0; i < version->count; i++) {
        const struct meta_map *map = &version->maps[i];
        version->roots[i] =
            (vmap_named_root){ map->name, map->top.node.size == 0 ? vmap_empty_root()
                                                                  : map->top.node.digest };
    }
    version->app_hash = vmap_app_hash(version->roots, version->count);
}

static bool encode_map(const struct meta_map *map, struct vtree_buffer *out)
{
    const struct vtree_top *top = &map->top;
    size_t name_size = strlen(map->name);
    if (!vtree_buffer_add_varint(out, name_size) ||
        !vtree_buffer_add(out, map->name, name_size) ||
        !vtree_buffer_add_varint(out, top->map) ||
        !vtree_buffer_add_varint(out, top->page_bits) ||
        !vtree_buffer_add_varint(out, top->level) || !record_node_add(out, &top->node) ||
        !vtree_buffer_add_varint(out, top->longest))
        return false;
    for (unsigned level = 0; level <= top->level; level++) {
        if (!vtree_buffer_add_varint(out, top->page_counts[level]))
            return false;
    }
    return true;
}

static bool decode_map(kv_slice *record, struct meta_map *map)
{
    uint64_t name_size, id, page_bits, level;
    const uint8_t *name;
    struct vtree_top *top = &map->top;
    if (!record_take_varint(record, &name_size) || name_size > STATE_MAP_NAME_SIZE_MAX ||
        !record_take_bytes(record, (size_t)name_size, &name) ||
        !record_take_varint(record, &id) || id > UINT32_MAX ||
        !record_take_varint(record, &page_bits) || page_bits < VMAP_PAGE_BITS_MIN ||
        page_bits > VMAP_PAGE_BITS_MAX || !record_take_varint(record, &level) ||
        level >= VMAP_LEVELS_MAX || !record_take_node(record, &top->node) ||
        !record_take_varint(record, &top->longest))
        return false;
    memcpy(map->name, name, (size_t)name_size);
    top->map = (uint32_t)id;
    top->page_bits = (unsigned)page_bits;
    top->level = (unsigned)level;
    for (unsigned i = 0; i <= top->level; i++) {
        if (!record_take_varint(record, &top->page_counts[i]))
            return false;
    }
    return true;
}

bool meta_version_encode(const struct meta_version *version, struct vtree_buffer *out)
{
    out->size = 0;
    if (!vtree_buffer_add(out, version->app_hash.bytes, sizeof(version->app_hash.bytes)) ||
        !vtree_buffer_add_varint(out, version->history_records) ||
        !vtree_buffer_add_varint(out, version->count))
        return false;
    for (size_t i = 0; i < version->count; i++) {
        if (!encode_map(&version->maps[i], out))
            return false;
    }
    return true;
}

struct meta_version *meta_version_decode(kv_slice record, uint64_t number)
{
    const uint8_t *app_hash;
    uint64_t history_records, count;
    if (!record_take_bytes(&record, VMAP_DIGEST_SIZE, &app_hash) ||
        !record_take_varint(&record, &history_records) ||
        !record_take_varint(&record, &count) || count > STATE_MAPS_MAX)
        return NULL;
    struct meta_version *version = meta_version_new((size_t)count);
    if (version == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!decode_map(&record, &version->maps[i])) {
            meta_version_free(version);
            return NULL;
        }
    }
    meta_version_seal(version);
    memcpy(version->app_hash.bytes, app_hash, sizeof(version->app_hash.bytes));
    version->version = number;
    version->history_records = history_records;
    if (record.size != 0) {
        meta_version_free(version);
        return NULL;
    }
    return version;
}

const struct meta_map *meta_version_find(const struct meta_version *version, const char *name)
{
    size_t low = 0, high = version->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(version->maps[middle].name, name);
        if (order == 0)
            return &version->maps[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct meta_map *meta_version_find_id(const struct meta_version *version, uint32_t map)
{
    for (size_t i = 0; i < version->count; i++) {
        if (version->maps[i].top.map == map)
            return &version->maps[i];
    }
    return NULL;
}
