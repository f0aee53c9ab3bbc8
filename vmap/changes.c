/* changes.c - a map's changes that are not committed yet. */
#include "vmap/changes.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 64, PASSES_MIN = 512 /* changes for which the passes pay */ };

/* A change with the first bytes of its key as a number, which settles most
 * comparisons without a look at the key. */
struct sort_item {
    uint64_t prefix;
    struct vtree_change *change;
};

/* Not keyed against chosen collisions: changes come from our own process, and
 * a probe chain is bounded by one commit. FNV-1a over words. */
static uint64_t hash_key(kv_slice key)
{
    const uint8_t *bytes = key.data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ key.size;
    size_t i = 0;
    for (; i + 8 <= key.size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; i < key.size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    /* A product carries upwards only, and big-endian counters differ in the highest
     * bytes of a word: once more, or they share their low bits. */
    hash = (hash ^ (hash >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

static struct vtree_change **slot_of(const struct vtree_changes *changes, kv_slice key,
                                     uint64_t hash)
{
    size_t mask = changes->slot_count - 1;
    size_t slot = (size_t)hash & mask;
    while (changes->slots[slot] != NULL) {
        const struct vtree_change *change = changes->slots[slot];
        if (change->hash == hash && change->key.size == key.size &&
            memcmp(change->key.data, key.data, key.size) == 0)
            break;
        slot = (slot + 1) & mask;
    }
    return &changes->slots[slot];
}

static bool slots_grow(struct vtree_changes *changes)
{
    if ((changes->count + 1) * 2 <= changes->slot_count)
        return true;
    size_t count = changes->slot_count == 0 ? SLOTS_FIRST : changes->slot_count * 2;
    struct vtree_change **grown = calloc(count, sizeof(*grown));
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < changes->slot_count; i++) {
        struct vtree_change *change = changes->slots[i];
        if (change == NULL)
            continue;
        size_t slot = (size_t)change->hash & (count - 1);
        while (grown[slot] != NULL)
            slot = (slot + 1) & (count - 1);
        grown[slot] = change;
    }
    free(changes->slots);
    changes->slots = grown;
    changes->slot_count = count;
    return true;
}

bool vtree_changes_set(struct vtree_changes *changes, kv_slice key, bool present,
                       kv_slice value)
{
    if (!slots_grow(changes))
        return false;
    uint64_t hash = hash_key(key);
    struct vtree_change **slot = slot_of(changes, key, hash);
    struct vtree_change *change = *slot;
    if (change == NULL) {
        /* One block: the change, its key, its value. */
        uint8_t *block =
            vtree_arena_take(&changes->arena, sizeof(*change) + key.size + value.size);
        if (block == NULL)
            return false;
        change = (struct vtree_change *)(void *)block;
        uint8_t *bytes = block + sizeof(*change);
        memcpy(bytes, key.data, key.size);
        if (value.size > 0)
            memcpy(bytes + key.size, value.data, value.size);
        *change =
            (struct vtree_change){ kv_bytes(bytes, key.size),
                                   kv_bytes(bytes + key.size, value.size), present, hash };
        *slot = change;
        changes->count++;
    } else {
        kv_slice copy = vtree_arena_copy(&changes->arena, value);
        if (copy.data == NULL)
            return false;
        changes->waste += change->value.size;
        change->value = copy;
        change->present = present;
    }
    changes->generation++;
    return true;
}

void vtree_changes_restore(struct vtree_changes *changes, struct vtree_change *change,
                           bool present, kv_slice value)
{
    change->present = present;
    change->value = value;
    changes->generation++;
}

void vtree_changes_remove(struct vtree_changes *changes, const struct vtree_change *change)
{
    size_t mask = changes->slot_count - 1;
    size_t hole = (size_t)(slot_of(changes, change->key, change->hash) - changes->slots);
    /* Close the hole: what probed past it moves into it (Knuth, 6.4, algorithm R). */
    for (size_t at = (hole + 1) & mask; changes->slots[at] != NULL; at = (at + 1) & mask) {
        size_t home = (size_t)changes->slots[at]->hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        changes->slots[hole] = changes->slots[at];
        hole = at;
    }
    changes->slots[hole] = NULL;
    changes->count--;
    changes->sorted_count = 0;
    changes->generation++;
}

struct vtree_change *vtree_changes_find(const struct vtree_changes *changes, kv_slice key)
{
    return changes->count == 0 ? NULL : *slot_of(changes, key, hash_key(key));
}

static int compare_items(const void *a, const void *b)
{
    const struct sort_item *left = a, *right = b;
    if (left->prefix != right->prefix)
        return left->prefix < right->prefix ? -1 : 1;
    return kv_compare(left->change->key, right->change->key);
}

static uint64_t key_prefix(kv_slice key)
{
    uint64_t prefix = 0;
    memcpy(&prefix, key.data, key.size < sizeof(prefix) ? key.size : sizeof(prefix));
    return __builtin_bswap64(prefix);
}

/* One pass over a byte of the prefixes, lowest first; false where all are the same. */
static bool sort_pass(const struct sort_item *items, struct sort_item *out, size_t count,
                      const size_t counts[256], unsigned shift)
{
    size_t places[256], place = 0;
    if (counts[(items[0].prefix >> shift) & 255] == count)
        return false;
    for (size_t i = 0; i < 256; i++) {
        places[i] = place;
        place += counts[i];
    }
    for (size_t i = 0; i < count; i++)
        out[places[(items[i].prefix >> shift) & 255]++] = items[i];
    return true;
}

/* Sort `items`; `spare` has room for as many. Answers which of them has the result. */
static struct sort_item *sort_items(struct sort_item *items, struct sort_item *spare,
                                    size_t count)
{
    size_t counts[8][256] = { { 0 } };
    if (count < PASSES_MIN) {
        qsort(items, count, sizeof(*items), compare_items);
        return items;
    }
    for (size_t i = 0; i < count; i++) {
        for (unsigned byte = 0; byte < 8; byte++)
            counts[byte][(items[i].prefix >> (8 * byte)) & 255]++;
    }
    for (unsigned byte = 0; byte < 8; byte++) {
        if (sort_pass(items, spare, count, counts[byte], 8 * byte)) {
            struct sort_item *sorted = spare;
            spare = items;
            items = sorted;
        }
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && items[end].prefix == items[begin].prefix;)
            end++;
        if (end - begin > 1)
            qsort(items + begin, end - begin, sizeof(*items), compare_items);
    }
    return items;
}

bool vtree_changes_sort(struct vtree_changes *changes)
{
    if (changes->sorted_count == changes->count)
        return true;
    void *sorted = changes->sorted;
    bool grown = vtree_grow(&sorted, &changes->sorted_capacity, changes->count,
                            sizeof(struct vtree_change *));
    changes->sorted = sorted;
    struct sort_item *items = grown ? malloc(2 * changes->count * sizeof(*items)) : NULL;
    if (items == NULL)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < changes->slot_count; i++) {
        if (changes->slots[i] != NULL)
            items[count++] =
                (struct sort_item){ key_prefix(changes->slots[i]->key), changes->slots[i] };
    }
    const struct sort_item *in_order = sort_items(items, items + count, count);
    for (size_t i = 0; i < count; i++)
        changes->sorted[i] = in_order[i].change;
    changes->sorted_count = count;
    free(items);
    return true;
}

void vtree_changes_clear(struct vtree_changes *changes)
{
    uint64_t generation = changes->generation + 1;
    vtree_arena_clear(&changes->arena);
    free(changes->slots);
    free(changes->sorted);
    memset(changes, 0, sizeof(*changes));
    changes->generation = generation;
}
