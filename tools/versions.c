/* versions.c - statekv versions: the kept versions and their app hashes. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"
#include "tools/text.h"

#include <inttypes.h>

static const struct argp argp = {
    NULL,
    NULL,
    NULL,
    "Print every kept version with its app hash, the oldest first.\v"
    "vmap.keep_recent says how many are kept.",
    NULL,
    NULL,
    NULL
};

static void print(const state_view *view, bool json)
{
    vmap_digest app_hash = state_view_app_hash(view);
    kv_slice bytes = kv_bytes(app_hash.bytes, sizeof(app_hash.bytes));
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_number(&out, "version", state_view_version(view));
        json_digest(&out, "app_hash", bytes);
        json_end(&out);
        return;
    }
    struct text hex = TEXT_INIT;
    text_encode_digest(&hex, bytes);
    printf("%" PRIu64 " %s\n", state_view_version(view), hex.data);
    text_clear(&hex);
}

static int run(struct globals *globals, int argc, char **argv)
{
    command_parse(&argp, NULL, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    kv_code code = state_place_open(&place, globals, KV_OPEN_READ, &status);
    uint64_t newest = code == KV_OK ? state_version(place.state) : 0;
    uint64_t version = code == KV_OK ? state_version_oldest(place.state) : 1;
    for (; code == KV_OK && newest > 0 && version <= newest; version++) {
        code = state_view_open(place.state, version, &place.view, &status);
        if (code == KV_OK)
            print(place.view, globals->json);
        state_view_close(place.view);
        place.view = NULL;
    }
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_versions = { "versions", "print the kept versions", run };
