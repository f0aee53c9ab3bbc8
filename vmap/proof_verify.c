/*
 * proof_verify.c - the strict verifier.
 *
 * An op is unpacked, packed again and compared with what came: so there is one
 * encoding, and no byte that is not looked at below. Then every field either
 * must hold the one value that our specs allow or enters a hash.
 */
#include "ics23.pb-c.h"
#include "vmap/digest.h"
#include "vmap/proof.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

enum tree_kind { TREE_IAVL, TREE_SIMPLE };

/* Which child an inner step's own digest is. */
enum side { SIDE_LEFT, SIDE_RIGHT, SIDE_BAD };

static kv_code unproven(kv_status *status, const char *what)
{
    return kv_fail(status, KV_UNPROVEN, "proof refused: %s", what);
}

static kv_slice proof_bytes(ProtobufCBinaryData data)
{
    return kv_bytes(data.data, data.len);
}

static bool bytes_equal(kv_slice a, kv_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Read a canonical varint; 0 bytes used means that there is none. */
static size_t varint_decode(kv_slice bytes, uint64_t *out)
{
    const uint8_t *data = bytes.data;
    uint64_t number = 0;
    for (size_t i = 0; i < bytes.size && i < VMAP_VARINT_SIZE_MAX; i++) {
        uint64_t low = data[i] & 0x7f;
        if (i == VMAP_VARINT_SIZE_MAX - 1 && low > 1)
            return 0;
        number |= low << (7 * i);
        if ((data[i] & 0x80) == 0) {
            *out = number;
            return i > 0 && data[i] == 0 ? 0 : i + 1;
        }
    }
    return 0;
}

/* The side of an IAVL step: zigzag height, zigzag size, 00, 20 [left 20], and
 * the suffix 20 right when there is no left. */
static enum side iavl_side(const Ics23__InnerOp *step, size_t layer)
{
    kv_slice prefix = proof_bytes(step->prefix);
    uint64_t height = 0, size = 0;
    size_t used = varint_decode(prefix, &height);
    if (used == 0 || height % 2 != 0 || height / 2 < layer || height / 2 > UINT32_MAX)
        return SIDE_BAD;
    prefix = kv_bytes(step->prefix.data + used, prefix.size - used);
    size_t size_used = varint_decode(prefix, &size);
    if (size_used == 0 || size % 2 != 0 || size / 2 <= layer)
        return SIDE_BAD;
    used += size_used;

    const uint8_t *rest = step->prefix.data + used;
    size_t rest_size = step->prefix.len - used;
    if (rest_size < 2 || rest[0] != 0 || rest[1] != VMAP_DIGEST_SIZE)
        return SIDE_BAD;
    if (rest_size == 2)
        return step->suffix.len == 1 + VMAP_DIGEST_SIZE &&
                       step->suffix.data[0] == VMAP_DIGEST_SIZE
                   ? SIDE_LEFT
                   : SIDE_BAD;
    return rest_size == 2 + VMAP_DIGEST_SIZE + 1 && step->suffix.len == 0 &&
                   rest[2 + VMAP_DIGEST_SIZE] == VMAP_DIGEST_SIZE
               ? SIDE_RIGHT
               : SIDE_BAD;
}

static enum side simple_side(const Ics23__InnerOp *step)
{
    if (step->prefix.len == 0 || step->prefix.data[0] != 0x01)
        return SIDE_BAD;
    if (step->prefix.len == 1)
        return step->suffix.len == VMAP_DIGEST_SIZE ? SIDE_LEFT : SIDE_BAD;
    return step->prefix.len == 1 + VMAP_DIGEST_SIZE && step->suffix.len == 0 ? SIDE_RIGHT
                                                                             : SIDE_BAD;
}

static enum side step_side(enum tree_kind kind, const Ics23__InnerOp *step, size_t layer)
{
    if (step->hash != ICS23__HASH_OP__SHA256)
        return SIDE_BAD;
    return kind == TREE_IAVL ? iavl_side(step, layer) : simple_side(step);
}

static kv_code check_leaf_op(enum tree_kind kind, const Ics23__LeafOp *leaf, kv_status *status)
{
    static const uint8_t iavl[] = { 0x00, 0x02, 0x00 };
    static const uint8_t simple[] = { 0x00 };
    kv_slice prefix =
        kind == TREE_IAVL ? kv_bytes(iavl, sizeof(iavl)) : kv_bytes(simple, sizeof(simple));
    if (leaf == NULL || leaf->hash != ICS23__HASH_OP__SHA256 ||
        leaf->prehash_key != ICS23__HASH_OP__NO_HASH ||
        leaf->prehash_value != ICS23__HASH_OP__SHA256 ||
        leaf->length != ICS23__LENGTH_OP__VAR_PROTO ||
        !bytes_equal(proof_bytes(leaf->prefix), prefix))
        return unproven(status, "its leaf is not hashed as the map's leaves are");
    return KV_OK;
}

/* Compute the root that an existence proof leads to. */
static kv_code existence_root(enum tree_kind kind, const Ics23__ExistenceProof *proof,
                              vmap_digest *root, kv_status *status)
{
    kv_code code = check_leaf_op(kind, proof->leaf, status);
    if (code != KV_OK)
        return code;
    if (proof->key.len == 0 || proof->value.len == 0)
        return unproven(status, "it has an empty key or value");
    if (proof->n_path > PROOF_STEPS_MAX)
        return unproven(status, "it has too many steps");

    if (kind == TREE_IAVL) {
        *root = vmap_leaf(proof_bytes(proof->key), proof_bytes(proof->value)).digest;
    } else {
        char name[256];
        vmap_named_root map = { name, { { 0 } } };
        if (proof->key.len >= sizeof(name) || proof->value.len != sizeof(map.root.bytes) ||
            memchr(proof->key.data, 0, proof->key.len) != NULL)
            return unproven(status, "its second op is not about a map");
        memcpy(name, proof->key.data, proof->key.len);
        name[proof->key.len] = 0;
        memcpy(map.root.bytes, proof->value.data, sizeof(map.root.bytes));
        *root = vmap_app_leaf(&map);
    }
    for (size_t i = 0; i < proof->n_path; i++) {
        const Ics23__InnerOp *step = proof->path[i];
        if (step_side(kind, step, i + 1) == SIDE_BAD)
            return unproven(status, "a step is not of the map's form");
        struct sha256_ctx context;
        sha256_init(&context);
        sha256_update(&context, step->prefix.len, step->prefix.data);
        sha256_update(&context, sizeof(root->bytes), root->bytes);
        sha256_update(&context, step->suffix.len, step->suffix.data);
        sha256_digest(&context, sizeof(root->bytes), root->bytes);
    }
    return KV_OK;
}

/* Whether steps [0, count) all keep to one side of their subtree. */
static bool steps_keep_to(const Ics23__ExistenceProof *proof, size_t count, enum side side)
{
    for (size_t i = 0; i < count; i++) {
        if (step_side(TREE_IAVL, proof->path[i], i + 1) != side)
            return false;
    }
    return true;
}

/* Whether `left` and `right` are neighbours: their paths part at one node, to
 * its left and its right, and below it the one keeps right and the other left. */
static bool leaves_adjoin(const Ics23__ExistenceProof *left, const Ics23__ExistenceProof *right)
{
    size_t left_count = left->n_path, right_count = right->n_path;
    while (left_count > 0 && right_count > 0) {
        const Ics23__InnerOp *a = left->path[left_count - 1];
        const Ics23__InnerOp *b = right->path[right_count - 1];
        if (!bytes_equal(proof_bytes(a->prefix), proof_bytes(b->prefix)) ||
            !bytes_equal(proof_bytes(a->suffix), proof_bytes(b->suffix)))
            break;
        left_count--;
        right_count--;
    }
    if (left_count == 0 || right_count == 0)
        return false;
    left_count--;
    right_count--;
    return step_side(TREE_IAVL, left->path[left_count], left_count + 1) == SIDE_LEFT &&
           step_side(TREE_IAVL, right->path[right_count], right_count + 1) == SIDE_RIGHT &&
           steps_keep_to(left, left_count, SIDE_RIGHT) &&
           steps_keep_to(right, right_count, SIDE_LEFT);
}

static kv_code check_absence(const Ics23__NonExistenceProof *proof, kv_slice key,
                             const vmap_digest *root, kv_status *status)
{
    const Ics23__ExistenceProof *sides[2] = { proof->left, proof->right };
    if (!bytes_equal(proof_bytes(proof->key), key))
        return unproven(status, "it is about another key");
    if (proof->left == NULL && proof->right == NULL)
        return unproven(status, "it shows no neighbour");
    for (size_t i = 0; i < 2; i++) {
        if (sides[i] == NULL)
            continue;
        vmap_digest reached;
        kv_code code = existence_root(TREE_IAVL, sides[i], &reached, status);
        if (code != KV_OK)
            return code;
        if (memcmp(reached.bytes, root->bytes, sizeof(root->bytes)) != 0)
            return unproven(status, "a neighbour does not lead to the map's root");
        int order = kv_compare(proof_bytes(sides[i]->key), key);
        if ((i == 0 && order >= 0) || (i == 1 && order <= 0))
            return unproven(status, "a neighbour stands on the wrong side of the key");
    }
    if (proof->left == NULL)
        return steps_keep_to(proof->right, proof->right->n_path, SIDE_LEFT)
                   ? KV_OK
                   : unproven(status, "its right neighbour is not the first leaf");
    if (proof->right == NULL)
        return steps_keep_to(proof->left, proof->left->n_path, SIDE_RIGHT)
                   ? KV_OK
                   : unproven(status, "its left neighbour is not the last leaf");
    return leaves_adjoin(proof->left, proof->right)
               ? KV_OK
               : unproven(status, "its neighbours do not adjoin");
}

/* Unpack an op's proof; NULL unless it is the canonical encoding of itself. */
static Ics23__CommitmentProof *unpack_op(const vmap_proof_op *op)
{
    if (op->data.size == 0 || op->data.size > VMAP_PROOF_SIZE_MAX)
        return NULL;
    Ics23__CommitmentProof *proof =
        ics23__commitment_proof__unpack(NULL, op->data.size, op->data.data);
    if (proof == NULL)
        return NULL;
    bool canonical = false;
    if (ics23__commitment_proof__get_packed_size(proof) == op->data.size) {
        uint8_t *again = malloc(op->data.size);
        canonical = again != NULL &&
                    ics23__commitment_proof__pack(proof, again) == op->data.size &&
                    memcmp(again, op->data.data, op->data.size) == 0 &&
                    proof->base.n_unknown_fields == 0;
        free(again);
    }
    if (!canonical) {
        ics23__commitment_proof__free_unpacked(proof, NULL);
        return NULL;
    }
    return proof;
}

static kv_code check_map_op(const vmap_proof_op *op, const vmap_digest *app_hash,
                            const char *map, vmap_digest *root, kv_status *status)
{
    if (op->type == NULL || strcmp(op->type, "ics23:simple") != 0 ||
        !bytes_equal(op->key, kv_text(map)))
        return unproven(status, "its last op is not ics23:simple for the map");
    Ics23__CommitmentProof *proof = unpack_op(op);
    if (proof == NULL)
        return unproven(status, "its last op is not a canonical ICS23 proof");

    vmap_digest reached;
    kv_code code;
    if (proof->proof_case != ICS23__COMMITMENT_PROOF__PROOF_EXIST ||
        !bytes_equal(proof_bytes(proof->exist->key), kv_text(map)) ||
        proof->exist->value.len != sizeof(root->bytes)) {
        code = unproven(status, "its last op does not show the map's root");
        goto out;
    }
    code = existence_root(TREE_SIMPLE, proof->exist, &reached, status);
    if (code == KV_OK && memcmp(reached.bytes, app_hash->bytes, sizeof(reached.bytes)) != 0)
        code = unproven(status, "it does not lead to the app hash");
    if (code == KV_OK)
        memcpy(root->bytes, proof->exist->value.data, sizeof(root->bytes));
out:
    ics23__commitment_proof__free_unpacked(proof, NULL);
    return code;
}

static kv_code check_key_op(const vmap_proof_op *op, const vmap_digest *root, kv_slice key,
                            const kv_slice *value, kv_status *status)
{
    if (op->type == NULL || strcmp(op->type, "ics23:iavl") != 0 || !bytes_equal(op->key, key))
        return unproven(status, "its first op is not ics23:iavl for the key");
    Ics23__CommitmentProof *proof = unpack_op(op);
    if (proof == NULL)
        return unproven(status, "its first op is not a canonical ICS23 proof");

    vmap_digest reached;
    kv_code code;
    if (value == NULL) {
        code =
            proof->proof_case == ICS23__COMMITMENT_PROOF__PROOF_NONEXIST
                ? check_absence(proof->nonexist, key, root, status)
                : unproven(status,
                           "it is of a value, not of an absence; give the value to check it");
        goto out;
    }
    if (proof->proof_case != ICS23__COMMITMENT_PROOF__PROOF_EXIST) {
        code = unproven(status, "it is of an absence, not of a value");
        goto out;
    }
    if (!bytes_equal(proof_bytes(proof->exist->key), key) ||
        !bytes_equal(proof_bytes(proof->exist->value), *value)) {
        code = unproven(status, "it shows another key or value");
        goto out;
    }
    code = existence_root(TREE_IAVL, proof->exist, &reached, status);
    if (code == KV_OK && memcmp(reached.bytes, root->bytes, sizeof(reached.bytes)) != 0)
        code = unproven(status, "it does not lead to the map's root");
out:
    ics23__commitment_proof__free_unpacked(proof, NULL);
    return code;
}

kv_code vmap_proof_verify(const vmap_proof *proof, const vmap_digest *app_hash, const char *map,
                          kv_slice key, const kv_slice *value, kv_status *status)
{
    if (key.size == 0)
        return unproven(status, "an empty key has no proof");
    if (proof->count == 0 || proof->count > VMAP_PROOF_OPS_MAX)
        return unproven(status, "it does not have one or two ops");

    vmap_digest root;
    kv_code code = check_map_op(&proof->ops[proof->count - 1], app_hash, map, &root, status);
    if (code != KV_OK)
        return code;
    if (proof->count == 2)
        return check_key_op(&proof->ops[0], &root, key, value, status);

    vmap_digest empty = vmap_empty_root();
    if (value != NULL)
        return unproven(status, "it lacks the op for the key");
    if (memcmp(root.bytes, empty.bytes, sizeof(root.bytes)) != 0)
        return unproven(status, "it lacks the op for the key, and the map is not empty");
    return KV_OK;
}
