/* kv_delete.c - statekv kv delete: remove one pair. */
#include "tools/commands.h"
#include "tools/kv_place.h"

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    (void)argument;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    parser->child_inputs[0] = parser->input;
    return 0;
}

static const struct argp_child children[] = { { &place_key_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
    NULL,
    parse,
    "KEY",
    "Remove one pair, durably. Removing a key that is not there is no fault.\v"
    "Example: statekv kv delete --db rocksdb:data --space blocks height",
    children,
    NULL,
    NULL
};

static int run(struct globals *globals, int argc, char **argv)
{
    struct place place = PLACE_INIT;
    command_parse(&argp, &place, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct text key = TEXT_INIT;
    kv_code code = text_decode(&key, kv_text(place.key), place.hex, "KEY", &status);
    if (code == KV_OK)
        code = place_open(&place, globals, 0, &status);
    if (code == KV_OK)
        code = kv_delete(place.space, text_bytes(&key), KV_SYNC, &status);
    text_clear(&key);
    return place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_kv_delete = { "kv delete", "remove one pair", run };
