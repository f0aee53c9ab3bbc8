/* prove.c - statekv prove: a proof of presence or absence, as JSON. */
#include "tools/base64.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"
#include "tools/text.h"

struct prove {
    const char *map;
    const char *key;
    uint64_t version;
    bool hex;
};

static const struct argp_option options[] = {
    { "version", 'v', "V", 0, STATE_PLACE_VERSION_HELP, 0 },
    { "hex", 'x', NULL, 0, "KEY is hex instead of text", 0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct prove *prove = parser->input;
    switch (key) {
    case 'v':
        prove->version = command_number(parser, "--version", argument, 1, UINT64_MAX);
        return 0;
    case 'x':
        prove->hex = true;
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 1)
            return ARGP_ERR_UNKNOWN;
        *(parser->arg_num == 0 ? &prove->map : &prove->key) = argument;
        return 0;
    case ARGP_KEY_END:
        if (parser->arg_num < 2)
            command_usage(parser, "give MAP and KEY");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "MAP KEY",
    "Print a proof that MAP holds KEY with its value, or that it does not, as one JSON object: "
    "app_hash, version, map, key, value (null where absent; both in hex) and proofOps as "
    "abci_query gives them. The ops are ICS23 proofs that stock verifiers accept.\v"
    "Example: statekv prove --db rocksdb:data bank alice | statekv verify-proof APPHASH bank "
    "alice VALUE",
    NULL,
    NULL,
    NULL
};

static void print(const struct prove *prove, const state_view *view, kv_slice key,
                  const kv_slice *value, const vmap_proof *proof)
{
    struct json out;
    vmap_digest app_hash = state_view_app_hash(view);
    json_start(&out, stdout);
    json_digest(&out, "app_hash", kv_bytes(app_hash.bytes, sizeof(app_hash.bytes)));
    json_number(&out, "version", state_view_version(view));
    json_text(&out, "map", prove->map);
    json_bytes(&out, "key", key, true);
    if (value != NULL)
        json_bytes(&out, "value", *value, true);
    else
        json_null(&out, "value");
    json_object(&out, "proofOps");
    json_array(&out, "ops");
    for (size_t i = 0; i < proof->count; i++) {
        struct text form = TEXT_INIT;
        json_element(&out);
        json_text(&out, "type", proof->ops[i].type);
        base64_encode(&form, proof->ops[i].key);
        json_text(&out, "key", form.data);
        form.size = 0;
        base64_encode(&form, proof->ops[i].data);
        json_text(&out, "data", form.data);
        json_close(&out, '}');
        text_clear(&form);
    }
    json_close(&out, ']');
    json_close(&out, '}');
    json_end(&out);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct prove prove = { 0 };
    command_parse(&argp, &prove, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    struct text key = TEXT_INIT;
    kv_value value = KV_VALUE_INIT;
    vmap_proof proof = VMAP_PROOF_INIT;
    kv_code code = text_decode(&key, kv_text(prove.key), prove.hex, "KEY", &status);
    if (code == KV_OK)
        code = state_place_view(&place, globals, prove.version, &status);
    if (code == KV_OK) {
        code =
            state_view_prove(place.view, prove.map, text_bytes(&key), &value, &proof, &status);
        if (code == KV_OK || code == KV_NOT_FOUND) {
            print(&prove, place.view, text_bytes(&key), code == KV_OK ? &value.bytes : NULL,
                  &proof);
            code = KV_OK;
        }
    }
    vmap_proof_clear(&proof);
    kv_value_release(&value);
    text_clear(&key);
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_prove = { "prove", "prove that a key is there, or is not", run };
