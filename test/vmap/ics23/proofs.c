/*
 * proofs.c - write proofs of a state's map for another verifier to check.
 *
 *     vmap_ics23_proofs BACKEND DIR COUNT [KEYS]
 *
 * Without KEYS every map of the state in DIR is drawn from; with it a map of so
 * many made keys is built first, in memory. COUNT lines of present keys and COUNT
 * of absent ones: kind, map, key, value, both ops in hex, the app hash, the root.
 */
#include "vmap/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

static uint64_t random_next(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void need(kv_code code, const kv_status *status, const char *what)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, kv_code_name(code), status->message);
    exit(1);
}

static void print_hex(kv_slice bytes)
{
    const uint8_t *data = bytes.data;
    for (size_t i = 0; i < bytes.size; i++)
        printf("%02x", data[i]);
    putchar('\t');
}

/* `next` is the key behind a present one, empty at the end. */
static void print_proof(state_view *view, const char *map, kv_slice key, kv_slice next)
{
    vmap_proof proof;
    kv_value value;
    vmap_digest root;
    kv_status status = KV_STATUS_INIT;
    vmap_digest app_hash = state_view_app_hash(view);
    kv_code code = state_view_prove(view, map, key, &value, &proof, &status);
    if (code != KV_NOT_FOUND)
        need(code, &status, "state_view_prove");
    need(state_view_root(view, map, &root, &status), &status, "state_view_root");
    if (proof.count == 2) {
        printf("%s\t%s\t", code == KV_OK ? "present" : "absent", map);
        print_hex(key);
        print_hex(value.bytes);
        print_hex(proof.ops[0].data);
        print_hex(proof.ops[1].data);
        print_hex(kv_bytes(app_hash.bytes, sizeof(app_hash.bytes)));
        print_hex(kv_bytes(root.bytes, sizeof(root.bytes)));
        print_hex(next);
        putchar('\n');
    }
    vmap_proof_clear(&proof);
    kv_value_release(&value);
}

/* A present key near a random place, and an absent one beside it. */
static void print_pair(state_view *view, const char *map)
{
    vmap_iter *iter;
    kv_status status = KV_STATUS_INIT;
    uint64_t place = random_next();
    uint8_t other[VMAP_KEY_SIZE_MAX];
    need(state_view_iter_open(view, map, NULL, &iter, &status), &status, "iter_open");
    if (vmap_iter_seek(iter, kv_bytes(&place, sizeof(place))) || vmap_iter_first(iter)) {
        for (uint64_t steps = random_next() % 400; steps > 0 && vmap_iter_next(iter); steps--) {
        }
        if (vmap_iter_key(iter).size == 0 && !vmap_iter_last(iter))
            exit(1);
        size_t size = vmap_iter_key(iter).size;
        memcpy(other, vmap_iter_key(iter).data, size);
        kv_slice next = vmap_iter_next(iter) ? vmap_iter_key(iter) : kv_bytes("", 0);
        print_proof(view, map, kv_bytes(other, size), next);
        if (random_next() % 2 == 0 && size < sizeof(other))
            other[size++] = (uint8_t)random_next();
        else
            other[size - 1] ^= (uint8_t)(1 + random_next() % 255);
        print_proof(view, map, kv_bytes(other, size), kv_bytes("", 0));
    }
    vmap_iter_close(iter);
}

static void build(state *built, uint64_t keys)
{
    vmap *map;
    kv_status status = KV_STATUS_INIT;
    need(state_map_open(built, "made", KV_CREATE, &map, &status), &status, "state_map_open");
    for (uint64_t i = 0; i < keys; i++) {
        uint64_t words[4] = { random_next(), random_next(), random_next(), i };
        need(
            vmap_put(map, kv_bytes(words, sizeof(words)), kv_bytes(words, 8 + i % 24), &status),
            &status, "vmap_put");
    }
    need(state_commit(built, 0, NULL, &status), &status, "state_commit");
}

int main(int count, char **arguments)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    kv_options *options;
    kv_db *db;
    state *opened;
    state_view *view;
    kv_status status = KV_STATUS_INIT;
    size_t map_count;
    if (count < 4) {
        fprintf(stderr, "usage: vmap_ics23_proofs BACKEND DIR COUNT [KEYS]\n");
        return 2;
    }
    need(kv_options_new(arguments[1], arguments[2], tables, &options, &status), &status,
         "options");
    need(kv_open(options, KV_CREATE, &db, &status), &status, "kv_open");
    need(state_open(db, options, KV_CREATE, &opened, &status), &status, "state_open");
    if (count > 4)
        build(opened, strtoull(arguments[4], NULL, 10));
    need(state_view_open(opened, 0, &view, &status), &status, "state_view_open");
    const vmap_named_root *maps = state_view_maps(view, &map_count);
    for (uint64_t i = strtoull(arguments[3], NULL, 10); i > 0 && map_count > 0; i--)
        print_pair(view, maps[random_next() % map_count].name);
    state_view_close(view);
    need(state_close(opened, &status), &status, "state_close");
    need(kv_close(db, &status), &status, "kv_close");
    kv_options_free(options);
    return 0;
}
