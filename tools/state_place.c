/* state_place.c - opening a state, and showing where it stands. */
#include "tools/state_place.h"

#include "tools/output.h"
#include "tools/text.h"

#include <inttypes.h>

kv_code state_place_open(struct state_place *place, const struct globals *globals,
                         unsigned flags, kv_status *status)
{
    kv_code code = command_all_options(globals, &place->options, status);
    if (code == KV_OK)
        code = kv_open(place->options, flags, &place->db, status);
    if (code != KV_OK)
        return code;
    kv_status why = KV_STATUS_INIT;
    code = state_open(place->db, place->options, flags, &place->state, &why);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, code, "%s:%s: holds no state; statekv import makes one",
                       kv_options_backend(place->options), kv_options_dir(place->options));
    return code == KV_OK ? KV_OK : kv_fail(status, code, "%s", why.message);
}

kv_code state_place_view(struct state_place *place, const struct globals *globals,
                         uint64_t version, kv_status *status)
{
    kv_code code = state_place_open(place, globals, KV_OPEN_READ, status);
    if (code == KV_OK)
        code = state_view_open(place->state, version, &place->view, status);
    return code;
}

kv_code state_place_named(kv_code code, kv_status *status)
{
    return code == KV_NOT_FOUND ? (status->code = KV_INVALID) : code;
}

int state_place_close(struct state_place *place, kv_code code, kv_status *status, int done)
{
    state_view_close(place->view);
    if (place->state != NULL) {
        kv_code closed = state_close(place->state, status);
        code = code == KV_OK ? closed : code;
    }
    if (place->db != NULL) {
        kv_code closed = kv_close(place->db, status);
        code = code == KV_OK ? closed : code;
    }
    kv_options_free(place->options);
    return code == KV_OK ? done : command_fail(status);
}

static kv_slice digest_bytes(const vmap_digest *digest)
{
    return kv_bytes(digest->bytes, sizeof(digest->bytes));
}

void state_place_print(const state_view *view, bool json)
{
    size_t count = 0;
    const vmap_named_root *maps = state_view_maps(view, &count);
    vmap_digest app_hash = state_view_app_hash(view);
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_number(&out, "version", state_view_version(view));
        json_digest(&out, "app_hash", digest_bytes(&app_hash));
        json_object(&out, "roots");
        for (size_t i = 0; i < count; i++)
            json_digest(&out, maps[i].name, digest_bytes(&maps[i].root));
        json_close(&out, '}');
        json_end(&out);
        return;
    }
    struct text hex = TEXT_INIT;
    text_encode_digest(&hex, digest_bytes(&app_hash));
    printf("version  %" PRIu64 "\napp hash %s\n", state_view_version(view), hex.data);
    for (size_t i = 0; i < count; i++) {
        hex.size = 0;
        text_encode_digest(&hex, digest_bytes(&maps[i].root));
        printf("root     %s %s\n", hex.data, maps[i].name);
    }
    text_clear(&hex);
}
