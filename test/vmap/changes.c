/* changes.c - uncommitted changes are found in few steps whatever their keys look like. */
#include "vmap/changes.h"

#include <criterion/criterion.h>
#include <string.h>

enum { CHANGES = 100000 };

/* Slots between where a change belongs and where it stands, on average. */
static double mean_distance(const struct vtree_changes *changes)
{
    size_t mask = changes->slot_count - 1, sum = 0;
    for (size_t i = 0; i < changes->slot_count; i++)
        if (changes->slots[i] != NULL)
            sum += (i - ((size_t)changes->slots[i]->hash & mask)) & mask;
    return (double)sum / (double)changes->count;
}

/* Keys of `size` bytes whose number stands at `at`, its low byte first or last. */
static void check_spread(size_t size, size_t at, bool little_endian)
{
    struct vtree_changes changes = { 0 };
    uint8_t key[32] = { 0 };
    for (uint64_t i = 0; i < CHANGES; i++) {
        uint64_t number = little_endian ? i : __builtin_bswap64(i);
        memcpy(key + at, &number, sizeof(number));
        cr_assert(vtree_changes_set(&changes, kv_bytes(key, size), true, kv_text("v")));
    }
    cr_assert_eq(changes.count, CHANGES);
    cr_assert_lt(mean_distance(&changes), 2, "%zu bytes, number at %zu, %s endian: %f", size,
                 at, little_endian ? "little" : "big", mean_distance(&changes));
    vtree_changes_clear(&changes);
}

Test(changes, counters_spread)
{
    check_spread(8, 0, false);
    check_spread(8, 0, true);
    check_spread(32, 24, false);
    check_spread(32, 0, true);
    check_spread(11, 3, false);
    check_spread(11, 3, true);
}
