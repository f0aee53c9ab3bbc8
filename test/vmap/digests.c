/* digests.c - digests computed many at a time against those computed one by one. */
#include "vmap/digest.h"

#include <criterion/criterion.h>
#include <string.h>

enum { SIZE_MAX_TRIED = 400, PAIRS = 37 };

TestSuite(digests, .timeout = 100);

static uint8_t bytes[PAIRS + SIZE_MAX_TRIED];

static void fill_bytes(void)
{
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 131 + i / 7);
}

static void expect_same(const vmap_digest *a, const vmap_digest *b, size_t size)
{
    cr_assert_arr_eq(a->bytes, b->bytes, sizeof(a->bytes), "%zu bytes", size);
}

/* Every size, beside neighbours of every other number of blocks. */
Test(digests, many_are_as_one, .init = fill_bytes)
{
    kv_slice messages[PAIRS];
    vmap_digest out[PAIRS];
    for (size_t first = 0; first < SIZE_MAX_TRIED; first++) {
        for (size_t i = 0; i < PAIRS; i++)
            messages[i] = kv_bytes(bytes + i, (first + i * 53) % SIZE_MAX_TRIED);
        vmap_sha256_many(messages, out, first % (PAIRS + 1));
        for (size_t i = 0; i < first % (PAIRS + 1); i++) {
            vmap_digest one = vmap_digest_of(messages[i]);
            expect_same(&out[i], &one, messages[i].size);
        }
    }
}

/* Keys on both sides of the size that is computed one by one. */
Test(digests, leaves_are_as_one, .init = fill_bytes)
{
    kv_slice keys[PAIRS], values[PAIRS];
    vmap_node out[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        keys[i] = kv_bytes(bytes + i, 1 + (i * 29) % 300);
        values[i] = kv_bytes(bytes + 2 * i, 1 + (i * 71) % 350);
    }
    for (size_t count = 0; count <= PAIRS; count++) {
        vmap_leaves(keys, values, out, count);
        for (size_t i = 0; i < count; i++) {
            vmap_node one = vmap_leaf(keys[i], values[i]);
            expect_same(&out[i].digest, &one.digest, keys[i].size);
            cr_assert(out[i].size == 1 && out[i].height == 0);
        }
    }
}

/* Folds of every width, against the recursion that vmap.h describes. */
static vmap_node fold_plainly(const vmap_node *nodes, size_t count)
{
    vmap_node next[PAIRS];
    size_t half = 0;
    if (count == 1)
        return nodes[0];
    for (size_t i = 0; i + 1 < count; i += 2)
        next[half++] = vmap_inner(&nodes[i], &nodes[i + 1]);
    if (count % 2 != 0)
        next[half++] = nodes[count - 1];
    return fold_plainly(next, half);
}

Test(digests, folds_are_as_one_by_one, .init = fill_bytes)
{
    for (size_t count = 1; count <= PAIRS; count++) {
        vmap_node nodes[PAIRS];
        for (size_t i = 0; i < count; i++)
            nodes[i] = vmap_leaf(kv_bytes(bytes, 1 + i), kv_bytes(bytes + i, 40));
        vmap_node plain = fold_plainly(nodes, count);
        vmap_node quick = vmap_fold(nodes, count);
        expect_same(&quick.digest, &plain.digest, count);
        cr_assert(quick.size == count && quick.height == plain.height);
    }
}
