/* root.c - statekv root: the roots and the app hash of a version. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"
#include "tools/text.h"

struct root {
    const char *map;
    uint64_t version;
};

static const struct argp_option options[] = {
    { "version", 'v', "V", 0, STATE_PLACE_VERSION_HELP, 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct root *root = parser->input;
    switch (key) {
    case 'v':
        root->version = command_number(parser, "--version", argument, 1, UINT64_MAX);
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        root->map = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "[MAP]",
    "Print version, app hash and the root of each map; with MAP, that root alone.\v"
    "The app hash is what `status' of the query service shows at the height after.",
    NULL,
    NULL,
    NULL
};

static void print_one(const vmap_digest *digest, const struct root *root, uint64_t version,
                      bool json)
{
    kv_slice bytes = kv_bytes(digest->bytes, sizeof(digest->bytes));
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_number(&out, "version", version);
        json_text(&out, "map", root->map);
        json_digest(&out, "root", bytes);
        json_end(&out);
        return;
    }
    struct text hex = TEXT_INIT;
    text_encode_digest(&hex, bytes);
    puts(hex.data);
    text_clear(&hex);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct root root = { 0 };
    command_parse(&argp, &root, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    vmap_digest digest;
    kv_code code = state_place_view(&place, globals, root.version, &status);
    if (code == KV_OK && root.map != NULL) {
        code = state_view_root(place.view, root.map, &digest, &status);
        code = state_place_named(code, &status);
        if (code == KV_OK)
            print_one(&digest, &root, state_view_version(place.view), globals->json);
    } else if (code == KV_OK) {
        state_place_print(place.view, globals->json);
    }
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_root = { "root", "print the app hash and the roots", run };
