/* changes.c - uncommitted changes: found in few steps, and sorted, whatever their keys. */
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

/* Keys of 1 to 20 bytes of few different ones, behind `shared` equal bytes. */
static void check_sorted(size_t count, size_t shared)
{
    struct vtree_changes changes = { 0 };
    uint64_t random = 1;
    for (size_t i = 0; i < count; i++) {
        uint8_t key[64];
        memset(key, 0xfe, sizeof(key));
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        size_t size = 1 + (random >> 33) % 20;
        for (size_t at = 0; at < size; at++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            key[shared + at] = (uint8_t)("\0\1\x7f\xff"[(random >> 33) % 4]);
        }
        cr_assert(
            vtree_changes_set(&changes, kv_bytes(key, shared + size), true, kv_text("v")));
    }
    cr_assert(vtree_changes_sort(&changes));
    cr_assert_eq(changes.sorted_count, changes.count);
    for (size_t i = 1; i < changes.count; i++)
        cr_assert_lt(kv_compare(changes.sorted[i - 1]->key, changes.sorted[i]->key), 0,
                     "%zu changes, %zu bytes shared: number %zu", count, shared, i);
    vtree_changes_clear(&changes);
}

Test(changes, come_in_key_order)
{
    static const size_t counts[] = { 1, 2, 100, 511, 512, 5000, 40000 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_sorted(counts[i], 0);
        check_sorted(counts[i], 5);
        check_sorted(counts[i], 40);
    }
}
