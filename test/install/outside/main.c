/* main.c - a program outside the tree: keeps a state and proves a key. */
#include <inttypes.h>
#include <kv/driver.h>
#include <stdio.h>
#include <vmap/state.h>

static kv_code prove(kv_db *db, kv_status *status)
{
    state *state = NULL;
    state_view *view = NULL;
    vmap *bank = NULL;
    vmap_proof proof = VMAP_PROOF_INIT;
    uint64_t version = 0;
    kv_slice key = kv_text("alice");
    kv_slice value = kv_text("100");
    kv_code code = state_open(db, NULL, KV_CREATE, &state, status);
    if (code == KV_OK)
        code = state_map_open(state, "bank", KV_CREATE, &bank, status);
    if (code == KV_OK)
        code = vmap_put(bank, key, value, status);
    if (code == KV_OK)
        code = state_commit(state, KV_SYNC, &version, status);
    if (code == KV_OK)
        code = state_view_open(state, version, &view, status);
    if (code == KV_OK)
        code = state_view_prove(view, "bank", key, NULL, &proof, status);
    if (code == KV_OK) {
        vmap_digest app_hash = state_view_app_hash(view);
        code = vmap_proof_verify(&proof, &app_hash, "bank", key, &value, status);
    }
    vmap_proof_clear(&proof);
    state_view_close(view);
    if (state != NULL && state_close(state, status) != KV_OK)
        code = status->code;
    return code;
}

int main(int argc, char **argv)
{
    kv_status status = KV_STATUS_INIT;
    kv_options *options = NULL;
    kv_db *db = NULL;
    if (argc != 3)
        return 2;
    kv_code code = kv_options_new(argv[1], argv[2], NULL, &options, &status);
    if (code == KV_OK)
        code = kv_open(options, KV_CREATE, &db, &status);
    if (code == KV_OK)
        code = prove(db, &status);
    if (db != NULL && kv_close(db, &status) != KV_OK)
        code = status.code;
    kv_options_free(options);
    if (code != KV_OK) {
        fprintf(stderr, "%s: %s\n", kv_code_name(code), status.message);
        return 1;
    }
    puts("proven");
    return 0;
}
