/* proofs.c - every edge of existence and absence, and what must be refused. */
#include "../state/scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(proofs, .timeout = 100);

struct fixture {
    struct scratch scratch;
    vmap *map;
    state_view *view;
    vmap_digest app_hash;
};

static void fixture_open(struct fixture *fixture)
{
    vmap *other;
    scratch_open(&fixture->scratch, "memory");
    need(state_map_open(fixture->scratch.state, "bank", KV_CREATE, &fixture->map, NULL));
    need(state_map_open(fixture->scratch.state, "acc", KV_CREATE, &other, NULL));
    need(vmap_put(other, kv_text("x"), kv_text("y"), NULL));
    need(state_map_open(fixture->scratch.state, "zz", KV_CREATE, &other, NULL));
    fixture->view = NULL;
}

static void fixture_commit(struct fixture *fixture)
{
    state_view_close(fixture->view);
    need(state_commit(fixture->scratch.state, 0, NULL, NULL));
    need(state_view_open(fixture->scratch.state, 0, &fixture->view, NULL));
    fixture->app_hash = state_view_app_hash(fixture->view);
}

static void fixture_close(struct fixture *fixture)
{
    state_view_close(fixture->view);
    scratch_close(&fixture->scratch);
}

/* Prove `key`, check that the answer is `there` and that it verifies. */
static vmap_proof prove(const struct fixture *fixture, kv_slice key, bool there,
                        kv_value *value)
{
    vmap_proof proof;
    kv_status status = KV_STATUS_INIT;
    kv_code code = state_view_prove(fixture->view, "bank", key, value, &proof, &status);
    cr_assert_eq(code, there ? KV_OK : KV_NOT_FOUND, "%s %s", kv_code_name(code),
                 status.message);
    code = vmap_proof_verify(&proof, &fixture->app_hash, "bank", key,
                             there ? &value->bytes : NULL, &status);
    cr_assert_eq(code, KV_OK, "%s", status.message);
    return proof;
}

static void expect(const struct fixture *fixture, kv_slice key, bool there)
{
    kv_value value;
    vmap_proof proof = prove(fixture, key, there, &value);
    vmap_proof_clear(&proof);
    kv_value_release(&value);
}

static void put(struct fixture *fixture, kv_slice key)
{
    need(vmap_put(fixture->map, key, kv_text("value"), NULL));
}

Test(proofs, every_gap_of_small_maps)
{
    struct fixture fixture;
    fixture_open(&fixture);
    for (unsigned count = 0; count <= 40; count++) {
        fixture_commit(&fixture);
        for (unsigned i = 0; i < count; i++) {
            char key[8];
            snprintf(key, sizeof(key), "k%03u", i);
            expect(&fixture, kv_text(key), true);
        }
        for (unsigned i = 0; i <= count; i++) {
            char key[8];
            snprintf(key, sizeof(key), "k%03u!", i);
            expect(&fixture, kv_text(key), false);
        }
        expect(&fixture, kv_text("a"), false);
        expect(&fixture, kv_text("z"), false);
        char key[8];
        snprintf(key, sizeof(key), "k%03u", count);
        put(&fixture, kv_text(key));
    }
    fixture_close(&fixture);
}

Test(proofs, odd_keys)
{
    uint8_t ones[300], zeros[300], longest[VMAP_KEY_SIZE_MAX];
    struct fixture fixture;
    memset(ones, 0xff, sizeof(ones));
    memset(zeros, 0, sizeof(zeros));
    memset(longest, 0xff, sizeof(longest));
    const kv_slice keys[] = {
        kv_bytes(zeros, 1),   kv_bytes(zeros, 2),
        kv_bytes(zeros, 256), kv_bytes(zeros, 257),
        kv_text("a"),         kv_text("ab"),
        kv_text("abc"),       kv_bytes(ones, 1),
        kv_bytes(ones, 2),    kv_bytes(ones, 32),
        kv_bytes(ones, 127),  kv_bytes(ones, 128),
        kv_bytes(ones, 300),  kv_bytes(longest, sizeof(longest)),
    };
    const kv_slice absent[] = {
        kv_bytes(zeros, 3),      kv_text("aa"),     kv_text("abcd"),     kv_bytes("\xff\0", 2),
        kv_bytes("\xff\xfe", 2), kv_bytes(ones, 3), kv_bytes(ones, 299),
    };
    size_t count = sizeof(keys) / sizeof(keys[0]);
    fixture_open(&fixture);
    for (size_t i = 0; i < count; i++)
        put(&fixture, keys[i]);
    fixture_commit(&fixture);
    for (size_t i = 0; i < count; i++)
        expect(&fixture, keys[i], true);
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
        expect(&fixture, absent[i], false);
    fixture_close(&fixture);
}

Test(proofs, an_empty_map_proves_any_absence)
{
    struct fixture fixture;
    fixture_open(&fixture);
    fixture_commit(&fixture);
    kv_value value;
    vmap_proof proof = prove(&fixture, kv_text("any"), false, &value);
    cr_assert_eq(proof.count, 1u);
    kv_slice claim = kv_text("value");
    cr_assert_eq(
        vmap_proof_verify(&proof, &fixture.app_hash, "bank", kv_text("any"), &claim, NULL),
        KV_UNPROVEN);
    /* The same op of a map that is not empty proves nothing. */
    vmap_proof_clear(&proof);
    put(&fixture, kv_text("b"));
    fixture_commit(&fixture);
    proof = prove(&fixture, kv_text("any"), false, &value);
    vmap_proof second = { 1, { proof.ops[1] }, NULL };
    cr_assert_eq(
        vmap_proof_verify(&second, &fixture.app_hash, "bank", kv_text("any"), NULL, NULL),
        KV_UNPROVEN);
    vmap_proof_clear(&proof);
    fixture_close(&fixture);
}

Test(proofs, answers_to_bad_input)
{
    struct fixture fixture;
    vmap_proof proof;
    fixture_open(&fixture);
    fixture_commit(&fixture);
    cr_assert_eq(state_view_prove(fixture.view, "none", kv_text("k"), NULL, &proof, NULL),
                 KV_INVALID);
    cr_assert_eq(state_view_prove(fixture.view, "bank", kv_bytes("", 0), NULL, &proof, NULL),
                 KV_INVALID);
    cr_assert_eq(vmap_put(fixture.map, kv_bytes("", 0), kv_text("v"), NULL), KV_INVALID);
    cr_assert_eq(vmap_put(fixture.map, kv_text("k"), kv_bytes("", 0), NULL), KV_INVALID);
    static uint8_t big[VMAP_KEY_SIZE_MAX + 1];
    cr_assert_eq(vmap_put(fixture.map, kv_bytes(big, sizeof(big)), kv_text("v"), NULL),
                 KV_TOO_BIG);
    fixture_close(&fixture);
}

/* ---- Forgeries ----------------------------------------------------------- */

enum { FORGE_KEYS = 90 };

static void fill(struct fixture *fixture)
{
    fixture_open(fixture);
    for (unsigned i = 0; i < FORGE_KEYS; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%03u", 2 * i);
        put(fixture, kv_text(key));
    }
    fixture_commit(fixture);
}

/* Every byte of every op of `proof`, changed, dropped, doubled. */
static void refuse_variants(const struct fixture *fixture, const vmap_proof *proof,
                            kv_slice key, const kv_slice *value)
{
    for (size_t op = 0; op < proof->count; op++) {
        kv_slice data = proof->ops[op].data;
        uint8_t *bytes = malloc(data.size + 16);
        vmap_proof forged = *proof;
        for (size_t i = 0; i < data.size; i++) {
            static const uint8_t masks[] = { 0x01, 0x80, 0xff };
            for (size_t m = 0; m < sizeof(masks); m++) {
                memcpy(bytes, data.data, data.size);
                bytes[i] ^= masks[m];
                forged.ops[op].data = kv_bytes(bytes, data.size);
                cr_assert_eq(
                    vmap_proof_verify(&forged, &fixture->app_hash, "bank", key, value, NULL),
                    KV_UNPROVEN, "op %zu byte %zu mask %x", op, i, masks[m]);
            }
            forged.ops[op].data = kv_bytes(data.data, i);
            cr_assert_eq(
                vmap_proof_verify(&forged, &fixture->app_hash, "bank", key, value, NULL),
                KV_UNPROVEN);
        }
        /* Fields that ICS23 has or might have, appended: unknown, empty, repeated. */
        static const char *const tails[] = { "\x1a\x00", "\x22\x00", "\x0a\x00", "\x12\x00",
                                             "\x38\x01" };
        for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
            memcpy(bytes, data.data, data.size);
            memcpy(bytes + data.size, tails[i], 2);
            forged.ops[op].data = kv_bytes(bytes, data.size + 2);
            cr_assert_eq(
                vmap_proof_verify(&forged, &fixture->app_hash, "bank", key, value, NULL),
                KV_UNPROVEN);
        }
        free(bytes);
    }
}

Test(proofs, no_byte_may_change)
{
    struct fixture fixture;
    kv_value value;
    fill(&fixture);
    vmap_proof proof = prove(&fixture, kv_text("k040"), true, &value);
    refuse_variants(&fixture, &proof, kv_text("k040"), &value.bytes);
    vmap_proof_clear(&proof);
    kv_value_release(&value);
    static const char *const absent[] = { "a", "k041", "z" };
    for (size_t i = 0; i < 3; i++) {
        proof = prove(&fixture, kv_text(absent[i]), false, &value);
        refuse_variants(&fixture, &proof, kv_text(absent[i]), NULL);
        vmap_proof_clear(&proof);
    }
    fixture_close(&fixture);
}

Test(proofs, another_question_is_not_answered)
{
    struct fixture fixture;
    kv_value value;
    kv_slice key = kv_text("k040");
    fill(&fixture);
    vmap_digest app_hash = fixture.app_hash, other = app_hash;
    other.bytes[31] ^= 1;
    vmap_proof proof = prove(&fixture, key, true, &value);
    kv_slice wrong = kv_text("other");
    cr_assert_eq(vmap_proof_verify(&proof, &other, "bank", key, &value.bytes, NULL),
                 KV_UNPROVEN);
    cr_assert_eq(vmap_proof_verify(&proof, &app_hash, "acc", key, &value.bytes, NULL),
                 KV_UNPROVEN);
    cr_assert_eq(
        vmap_proof_verify(&proof, &app_hash, "bank", kv_text("k042"), &value.bytes, NULL),
        KV_UNPROVEN);
    cr_assert_eq(vmap_proof_verify(&proof, &app_hash, "bank", key, &wrong, NULL), KV_UNPROVEN);
    cr_assert_eq(vmap_proof_verify(&proof, &app_hash, "bank", key, NULL, NULL), KV_UNPROVEN);
    vmap_proof swapped = { 2, { proof.ops[1], proof.ops[0] }, NULL };
    cr_assert_eq(vmap_proof_verify(&swapped, &app_hash, "bank", key, &value.bytes, NULL),
                 KV_UNPROVEN);
    /* Another version's app hash. */
    put(&fixture, kv_text("later"));
    fixture_commit(&fixture);
    cr_assert_eq(vmap_proof_verify(&proof, &fixture.app_hash, "bank", key, &value.bytes, NULL),
                 KV_UNPROVEN);
    vmap_proof_clear(&proof);
    kv_value_release(&value);
    fixture_close(&fixture);
}

/* One length-delimited field of a protobuf message. */
static size_t add_field(uint8_t *out, uint8_t field, const uint8_t *bytes, size_t size)
{
    size_t used = 0;
    out[used++] = (uint8_t)(field << 3 | 2);
    for (size_t rest = size; rest > 0 || used == 1; rest >>= 7)
        out[used++] = (uint8_t)((rest & 0x7f) | (rest >= 0x80 ? 0x80 : 0));
    memcpy(out + used, bytes, size);
    return used + size;
}

/* The existence proof inside an encoded CommitmentProof of one. */
static kv_slice existence_of(const vmap_proof *proof)
{
    const uint8_t *bytes = proof->ops[0].data.data;
    size_t used = 1;
    cr_assert_eq(bytes[0], 0x0a);
    while ((bytes[used++] & 0x80) != 0) {
    }
    return kv_bytes(bytes + used, proof->ops[0].data.size - used);
}

/* Absence proofs put together from true existence proofs: of all pairs of
 * leaves only neighbours may show that the keys between them are absent. */
Test(proofs, only_neighbours_show_an_absence)
{
    enum { KEYS = 24, SIZE = 1 << 14 };
    struct fixture fixture;
    static uint8_t nonexist[2 * SIZE], message[2 * SIZE];
    vmap_proof proofs[KEYS];
    kv_value values[KEYS];
    fill(&fixture);
    for (unsigned i = 0; i < KEYS; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%03u", 2 * i);
        proofs[i] = prove(&fixture, kv_text(key), true, &values[i]);
    }
    for (unsigned left = 0; left < KEYS; left++) {
        for (unsigned right = left; right < KEYS; right++) {
            char key[8];
            snprintf(key, sizeof(key), "k%03u", left + right);
            if ((left + right) % 2 == 0)
                strcat(key, "!");
            kv_slice a = existence_of(&proofs[left]), b = existence_of(&proofs[right]);
            size_t size = add_field(nonexist, 1, (const uint8_t *)key, strlen(key));
            size += add_field(nonexist + size, 2, a.data, a.size);
            if (right > left)
                size += add_field(nonexist + size, 3, b.data, b.size);
            size = add_field(message, 2, nonexist, size);
            vmap_proof forged = proofs[left];
            forged.ops[0].key = kv_text(key);
            forged.ops[0].data = kv_bytes(message, size);
            kv_code code =
                vmap_proof_verify(&forged, &fixture.app_hash, "bank", kv_text(key), NULL, NULL);
            cr_assert_eq(code, right == left + 1 ? KV_OK : KV_UNPROVEN, "%u and %u: %s", left,
                         right, kv_code_name(code));
        }
    }
    for (unsigned i = 0; i < KEYS; i++) {
        vmap_proof_clear(&proofs[i]);
        kv_value_release(&values[i]);
    }
    fixture_close(&fixture);
}

/* ---- Ranges -------------------------------------------------------------- */

struct seen {
    unsigned count;
    unsigned next; /* the number of the key that must come next */
};

static bool see(void *context, kv_slice key, kv_slice value)
{
    struct seen *seen = context;
    char expected[8];
    snprintf(expected, sizeof(expected), "k%03u", seen->next);
    cr_assert_eq(kv_compare(key, kv_text(expected)), 0, "%.*s is not %s", (int)key.size,
                 (const char *)key.data, expected);
    cr_assert_eq(value.size, 5u);
    seen->next += 2;
    seen->count++;
    return true;
}

Test(proofs, ranges_in_parts)
{
    struct fixture fixture;
    vmap_digest root;
    fill(&fixture);
    need(state_view_root(fixture.view, "bank", &root, NULL));
    for (unsigned low = 0; low < 2 * FORGE_KEYS; low += 7) {
        for (unsigned high = low; high <= 2 * FORGE_KEYS + 4; high += 13) {
            char first[8], limit[8];
            struct seen seen = { 0, low + low % 2 };
            bool more = true;
            snprintf(first, sizeof(first), "k%03u", low);
            snprintf(limit, sizeof(limit), "k%03u", high);
            while (more) {
                kv_value proof;
                kv_range range = { kv_text(first), kv_text(limit) };
                kv_status status = KV_STATUS_INIT;
                need(state_view_prove_range(fixture.view, "bank", &range, 11, 1 << 20, &proof,
                                            NULL));
                cr_assert_eq(vmap_range_proof_verify(proof.bytes, &root, &range, see, &seen,
                                                     &more, &status),
                             KV_OK, "%s", status.message);
                kv_value_release(&proof);
                snprintf(first, sizeof(first), "k%03u", seen.next);
            }
            unsigned last = high < 2 * FORGE_KEYS ? high : 2 * FORGE_KEYS;
            unsigned expected = last > low ? (last + 1) / 2 - (low + 1) / 2 : 0;
            cr_assert_eq(seen.count, expected, "[%u, %u) gave %u", low, high, seen.count);
        }
    }
    fixture_close(&fixture);
}

static bool ignore(void *context, kv_slice key, kv_slice value)
{
    (void)context;
    (void)key;
    (void)value;
    return true;
}

Test(proofs, no_byte_of_a_range_may_change)
{
    struct fixture fixture;
    vmap_digest root, other;
    kv_value proof, empty;
    bool more;
    fill(&fixture);
    kv_range range = { kv_text("k050"), kv_text("k090") };
    kv_range wider = { kv_text("k010"), kv_text("k090") };
    need(state_view_root(fixture.view, "bank", &root, NULL));
    need(state_view_root(fixture.view, "acc", &other, NULL));
    need(state_view_prove_range(fixture.view, "bank", &range, 100, 1 << 20, &proof, NULL));
    need(vmap_range_proof_verify(proof.bytes, &root, &range, ignore, NULL, &more, NULL));
    cr_assert_eq(
        vmap_range_proof_verify(proof.bytes, &other, &range, ignore, NULL, &more, NULL),
        KV_UNPROVEN);
    cr_assert_eq(vmap_range_proof_verify(proof.bytes, &root, &wider, ignore, NULL, &more, NULL),
                 KV_UNPROVEN);
    cr_assert_eq(
        vmap_range_proof_verify(kv_bytes("", 0), &root, &range, ignore, NULL, &more, NULL),
        KV_UNPROVEN);
    uint8_t *bytes = malloc(proof.bytes.size + 1);
    for (size_t i = 0; i < proof.bytes.size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(bytes, proof.bytes.data, proof.bytes.size);
            bytes[i] ^= (uint8_t)(1u << bit);
            cr_assert_eq(vmap_range_proof_verify(kv_bytes(bytes, proof.bytes.size), &root,
                                                 &range, ignore, NULL, &more, NULL),
                         KV_UNPROVEN, "byte %zu bit %u", i, bit);
        }
        cr_assert_eq(vmap_range_proof_verify(kv_bytes(proof.bytes.data, i), &root, &range,
                                             ignore, NULL, &more, NULL),
                     KV_UNPROVEN);
    }
    free(bytes);
    kv_value_release(&proof);
    need(state_view_prove_range(fixture.view, "zz", NULL, 10, 1 << 20, &empty, NULL));
    root = vmap_empty_root();
    need(vmap_range_proof_verify(empty.bytes, &root, NULL, ignore, NULL, &more, NULL));
    fixture_close(&fixture);
}
