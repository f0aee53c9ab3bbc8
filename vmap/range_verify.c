/*
 * range_verify.c - range proofs, checked.
 *
 * One pass over the bytes computes the root and checks the run: stubs may stand
 * before its first leaf and after its last, never between, so that no pair is
 * left out. A second pass, over bytes that are then known to be true, visits.
 */
#include "vmap/digest.h"
#include "vmap/proof.h"
#include "vmap/range.h"
#include "vmap/record.h"

#include <string.h>

/* More leaves than there can be, and far from where sizes would wrap around. */
#define LEAVES_MAX (UINT64_C(1) << 56)

struct range_check {
    kv_slice rest;
    const kv_range *range;
    bool leaf_seen, stub_after; /* a stub behind the run's first leaf */
    kv_slice first_key, last_key;
    bool stub_before;
    kv_status *status;
};

static bool refuse(struct range_check *check, const char *what)
{
    return kv_fail(check->status, KV_UNPROVEN, "range proof refused: %s", what) == KV_OK;
}

/* A varint of the one shortest form, within a limit: no byte is without effect. */
static bool take_number(kv_slice *rest, uint64_t max, uint64_t *number)
{
    uint8_t again[VMAP_VARINT_SIZE_MAX];
    size_t before = rest->size;
    return record_take_varint(rest, number) && *number <= max &&
           before - rest->size == vmap_varint_encode(again, *number);
}

static bool take_stub(kv_slice *rest, vmap_node *node)
{
    const uint8_t *digest;
    if (!take_number(rest, LEAVES_MAX, &node->size) || node->size == 0 ||
        !record_take_bytes(rest, VMAP_DIGEST_SIZE, &digest))
        return false;
    memcpy(node->digest.bytes, digest, VMAP_DIGEST_SIZE);
    return true;
}

static bool take_text(kv_slice *rest, size_t size_max, kv_slice *out)
{
    uint64_t size;
    const uint8_t *bytes;
    if (!take_number(rest, size_max, &size) || size == 0 ||
        !record_take_bytes(rest, (size_t)size, &bytes))
        return false;
    *out = kv_bytes(bytes, (size_t)size);
    return true;
}

static bool check_leaf(struct range_check *check, vmap_node *node)
{
    kv_slice key, value;
    if (!take_text(&check->rest, VMAP_KEY_SIZE_MAX, &key) ||
        !take_text(&check->rest, VMAP_VALUE_SIZE_MAX, &value))
        return refuse(check, "a pair is cut short");
    if (check->stub_after)
        return refuse(check, "it leaves out pairs in the middle");
    if (check->leaf_seen && kv_compare(key, check->last_key) <= 0)
        return refuse(check, "its keys do not ascend");
    if (!check->leaf_seen)
        check->first_key = key;
    check->leaf_seen = true;
    check->last_key = key;
    *node = vmap_leaf(key, value);
    return true;
}

/* NOLINTNEXTLINE(misc-no-recursion): at most PROOF_STEPS_MAX deep */
static bool check_node(struct range_check *check, unsigned depth, vmap_node *node)
{
    const uint8_t *mark;
    if (!record_take_bytes(&check->rest, 1, &mark))
        return refuse(check, "it is cut short");
    if (*mark == RANGE_LEAF)
        return check_leaf(check, node);
    if (*mark == RANGE_STUB) {
        if (!take_stub(&check->rest, node))
            return refuse(check, "a digest is cut short");
        if (check->leaf_seen)
            check->stub_after = true;
        else
            check->stub_before = true;
        return true;
    }
    vmap_node left, right;
    uint64_t height;
    if (*mark != RANGE_INNER || depth == PROOF_STEPS_MAX ||
        !take_number(&check->rest, PROOF_STEPS_MAX, &height))
        return refuse(check, "it has an unknown mark or is too deep");
    if (!check_node(check, depth + 1, &left) || !check_node(check, depth + 1, &right))
        return false;
    node->size = left.size + right.size;
    vmap_inner_digest((uint32_t)height, node->size, &left.digest, &right.digest, &node->digest);
    return true;
}

/* Whether the run reaches from the range's beginning, and to its end. */
static bool check_ends(const struct range_check *check, bool *more)
{
    const kv_range *range = check->range;
    bool whole_left = !check->stub_before || (range->first.size > 0 && check->leaf_seen &&
                                              kv_compare(check->first_key, range->first) < 0);
    *more = check->stub_after &&
            !(range->limit.size > 0 && kv_compare(check->last_key, range->limit) >= 0);
    return check->leaf_seen && whole_left;
}

/* Visit the pairs of bytes that have been checked. */
static void visit_pairs(kv_slice rest, const kv_range *range,
                        bool (*visit)(void *, kv_slice, kv_slice), void *context)
{
    const uint8_t *mark;
    while (record_take_bytes(&rest, 1, &mark)) {
        vmap_node node;
        kv_slice key, value;
        uint64_t height;
        if ((*mark == RANGE_STUB && !take_stub(&rest, &node)) ||
            (*mark == RANGE_INNER && !take_number(&rest, PROOF_STEPS_MAX, &height)))
            return;
        if (*mark != RANGE_LEAF)
            continue;
        if (!take_text(&rest, VMAP_KEY_SIZE_MAX, &key) ||
            !take_text(&rest, VMAP_VALUE_SIZE_MAX, &value))
            return;
        if ((range->first.size > 0 && kv_compare(key, range->first) < 0) ||
            (range->limit.size > 0 && kv_compare(key, range->limit) >= 0))
            continue;
        if (!visit(context, key, value))
            return;
    }
}

kv_code vmap_range_proof_verify(kv_slice proof, const vmap_digest *root, const kv_range *range,
                                bool (*visit)(void *context, kv_slice key, kv_slice value),
                                void *context, bool *more, kv_status *status)
{
    static const kv_range all = { { NULL, 0 }, { NULL, 0 } };
    struct range_check check;
    vmap_node top;
    *more = false;
    memset(&check, 0, sizeof(check));
    check.rest = proof;
    check.range = range != NULL ? range : &all;
    check.status = status;
    if (proof.size == 0) {
        vmap_digest empty = vmap_empty_root();
        if (memcmp(empty.bytes, root->bytes, sizeof(empty.bytes)) == 0)
            return KV_OK;
        refuse(&check, "it is empty, the map is not");
        return KV_UNPROVEN;
    }
    if (proof.size > VMAP_RANGE_PROOF_SIZE_MAX) {
        refuse(&check, "it is too big");
        return KV_UNPROVEN;
    }
    if (!check_node(&check, 0, &top))
        return KV_UNPROVEN;
    if (check.rest.size != 0)
        refuse(&check, "bytes follow it");
    else if (memcmp(top.digest.bytes, root->bytes, sizeof(root->bytes)) != 0)
        refuse(&check, "it does not lead to the root");
    else if (!check_ends(&check, more))
        refuse(&check, "it does not begin where the range does");
    else {
        visit_pairs(proof, check.range, visit, context);
        return KV_OK;
    }
    *more = false;
    return KV_UNPROVEN;
}
