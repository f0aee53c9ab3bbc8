/* proof.c - ICS23 proofs as they go over the wire. */
#include "vmap/proof.h"

#include "ics23.pb-c.h"
#include "vmap/digest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_SIZE_MAX = VMAP_INNER_HEADER_SIZE_MAX + 1 + VMAP_DIGEST_SIZE + 1 };

/* An existence proof laid out for the packer: nothing in it is allocated. */
struct wire_proof {
    Ics23__ExistenceProof proof;
    Ics23__LeafOp leaf;
    Ics23__InnerOp steps[PROOF_STEPS_MAX];
    Ics23__InnerOp *path[PROOF_STEPS_MAX];
    uint8_t prefixes[PROOF_STEPS_MAX][PREFIX_SIZE_MAX];
    uint8_t suffixes[PROOF_STEPS_MAX][1 + VMAP_DIGEST_SIZE];
};

static uint8_t iavl_leaf_prefix[] = { 0x00, 0x02, 0x00 };
static uint8_t simple_leaf_prefix[] = { 0x00 };

static ProtobufCBinaryData wire_bytes(kv_slice bytes)
{
    /* The packer only reads. */
    ProtobufCBinaryData data = { bytes.size, NULL };
    memcpy(&data.data, &bytes.data, sizeof(data.data));
    return data;
}

static void wire_begin(struct wire_proof *wire, kv_slice key, kv_slice value)
{
    ics23__existence_proof__init(&wire->proof);
    ics23__leaf_op__init(&wire->leaf);
    wire->leaf.hash = ICS23__HASH_OP__SHA256;
    wire->leaf.prehash_value = ICS23__HASH_OP__SHA256;
    wire->leaf.length = ICS23__LENGTH_OP__VAR_PROTO;
    wire->proof.key = wire_bytes(key);
    wire->proof.value = wire_bytes(value);
    wire->proof.leaf = &wire->leaf;
    wire->proof.path = wire->path;
    wire->proof.n_path = 0;
}

/* Add a step; its prefix and suffix are filled by the caller. */
static Ics23__InnerOp *wire_step(struct wire_proof *wire, uint8_t **prefix, uint8_t **suffix)
{
    size_t i = wire->proof.n_path++;
    assert(i < PROOF_STEPS_MAX);
    Ics23__InnerOp *step = &wire->steps[i];
    ics23__inner_op__init(step);
    step->hash = ICS23__HASH_OP__SHA256;
    wire->path[i] = step;
    *prefix = wire->prefixes[i];
    *suffix = wire->suffixes[i];
    return step;
}

static void wire_iavl(struct wire_proof *wire, const struct proof_leaf *leaf)
{
    wire_begin(wire, leaf->key, leaf->value);
    wire->leaf.prefix.data = iavl_leaf_prefix;
    wire->leaf.prefix.len = sizeof(iavl_leaf_prefix);
    for (size_t i = 0; i < leaf->count; i++) {
        const struct proof_step *from = &leaf->steps[i];
        uint8_t *prefix, *suffix;
        Ics23__InnerOp *step = wire_step(wire, &prefix, &suffix);
        size_t used = vmap_inner_header(prefix, from->height, from->size);
        prefix[used++] = VMAP_DIGEST_SIZE;
        if (from->left) {
            memcpy(prefix + used, from->sibling.bytes, VMAP_DIGEST_SIZE);
            used += VMAP_DIGEST_SIZE;
            prefix[used++] = VMAP_DIGEST_SIZE;
        } else {
            suffix[0] = VMAP_DIGEST_SIZE;
            memcpy(suffix + 1, from->sibling.bytes, VMAP_DIGEST_SIZE);
            step->suffix.data = suffix;
            step->suffix.len = 1 + VMAP_DIGEST_SIZE;
        }
        step->prefix.data = prefix;
        step->prefix.len = used;
    }
}

/* Add the steps from map `index` up to the app hash, lowest first. */
static void wire_app_path(struct wire_proof *wire, const vmap_named_root *maps, size_t count,
                          size_t index)
{
    if (count == 1)
        return;
    size_t split = vmap_app_split(count);
    bool right = index >= split;
    if (right)
        wire_app_path(wire, maps + split, count - split, index - split);
    else
        wire_app_path(wire, maps, split, index);

    uint8_t *prefix, *suffix;
    Ics23__InnerOp *step = wire_step(wire, &prefix, &suffix);
    prefix[0] = 0x01;
    step->prefix.data = prefix;
    step->prefix.len = 1;
    if (right) {
        vmap_digest sibling = vmap_app_hash(maps, split);
        memcpy(prefix + 1, sibling.bytes, VMAP_DIGEST_SIZE);
        step->prefix.len += VMAP_DIGEST_SIZE;
    } else {
        vmap_digest sibling = vmap_app_hash(maps + split, count - split);
        memcpy(suffix, sibling.bytes, VMAP_DIGEST_SIZE);
        step->suffix.data = suffix;
        step->suffix.len = VMAP_DIGEST_SIZE;
    }
}

/* Pack `message` into fresh memory with room for `key` behind it. */
static kv_code pack_op(Ics23__CommitmentProof *message, const char *type, kv_slice key,
                       vmap_proof *out, kv_status *status)
{
    size_t size = ics23__commitment_proof__get_packed_size(message);
    if (size > VMAP_PROOF_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG,
                       "a proof of %zu bytes is over the limit of %u: its values are too big",
                       size, (unsigned)VMAP_PROOF_SIZE_MAX);

    uint8_t **storage = out->storage;
    uint8_t *bytes = malloc(size + key.size);
    if (bytes == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a proof of %zu bytes", size);
    storage[out->count] = bytes;
    ics23__commitment_proof__pack(message, bytes);
    memcpy(bytes + size, key.data, key.size);
    out->ops[out->count++] =
        (vmap_proof_op){ type, kv_bytes(bytes + size, key.size), kv_bytes(bytes, size) };
    return KV_OK;
}

static kv_code encode_subject(const struct proof_subject *subject, struct wire_proof *wires,
                              vmap_proof *out, kv_status *status)
{
    Ics23__CommitmentProof message = ICS23__COMMITMENT_PROOF__INIT;
    Ics23__NonExistenceProof absence = ICS23__NON_EXISTENCE_PROOF__INIT;
    if (subject->left != NULL)
        wire_iavl(&wires[0], subject->left);
    if (subject->right != NULL)
        wire_iavl(&wires[1], subject->right);
    if (subject->exists) {
        message.proof_case = ICS23__COMMITMENT_PROOF__PROOF_EXIST;
        message.exist = &wires[0].proof;
    } else {
        absence.key = wire_bytes(subject->key);
        absence.left = subject->left != NULL ? &wires[0].proof : NULL;
        absence.right = subject->right != NULL ? &wires[1].proof : NULL;
        message.proof_case = ICS23__COMMITMENT_PROOF__PROOF_NONEXIST;
        message.nonexist = &absence;
    }
    return pack_op(&message, "ics23:iavl", subject->key, out, status);
}

static kv_code encode_map(const vmap_named_root *maps, size_t count, size_t map,
                          struct wire_proof *wire, vmap_proof *out, kv_status *status)
{
    kv_slice name = kv_text(maps[map].name);
    Ics23__CommitmentProof message = ICS23__COMMITMENT_PROOF__INIT;
    wire_begin(wire, name, kv_bytes(maps[map].root.bytes, sizeof(maps[map].root.bytes)));
    wire->leaf.prefix.data = simple_leaf_prefix;
    wire->leaf.prefix.len = sizeof(simple_leaf_prefix);
    wire_app_path(wire, maps, count, map);
    message.proof_case = ICS23__COMMITMENT_PROOF__PROOF_EXIST;
    message.exist = &wire->proof;
    return pack_op(&message, "ics23:simple", name, out, status);
}

kv_code vmap_proof_encode(const struct proof_subject *subject, const vmap_named_root *maps,
                          size_t map_count, size_t map, vmap_proof *out, kv_status *status)
{
    *out = (vmap_proof)VMAP_PROOF_INIT;
    kv_code code = KV_OK;
    struct wire_proof *wires = malloc(2 * sizeof(*wires));
    out->storage = calloc(VMAP_PROOF_OPS_MAX, sizeof(uint8_t *));
    if (wires == NULL || out->storage == NULL) {
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a proof");
        goto out;
    }
    if (subject != NULL)
        code = encode_subject(subject, wires, out, status);
    if (code != KV_OK)
        goto out;

    code = encode_map(maps, map_count, map, &wires[0], out, status);
out:
    free(wires);
    if (code != KV_OK)
        vmap_proof_clear(out);
    return code;
}

void vmap_proof_clear(vmap_proof *proof)
{
    if (proof == NULL)
        return;
    uint8_t **storage = proof->storage;
    for (size_t i = 0; storage != NULL && i < VMAP_PROOF_OPS_MAX; i++)
        free(storage[i]);
    free(storage);
    *proof = (vmap_proof)VMAP_PROOF_INIT;
}
