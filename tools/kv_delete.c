/* kv_delete.c - statekv kv delete: remove one pair. */
#include "tools/commands.h"
#include "tools/kv_place.h"

struct delete
{
    struct place place;
    const char *key;
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct delete *delete = parser->input;
    switch (key) {
    case ARGP_KEY_INIT:
        parser->child_inputs[0] = &delete->place;
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        delete->key = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        command_usage(parser, "no KEY given");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &place_argp, 0, NULL, 0 }, { 0 } };
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
    struct delete delete = { .place = PLACE_INIT };
    command_parse(&argp, &delete, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct text key = TEXT_INIT;
    kv_code code = text_decode(&key, kv_text(delete.key), delete.place.hex, "KEY", &status);
    if (code == KV_OK)
        code = place_open(&delete.place, globals, 0, &status);
    if (code == KV_OK)
        code = kv_delete(delete.place.space, text_bytes(&key), KV_SYNC, &status);
    text_clear(&key);
    return place_close(&delete.place, code, &status, EXIT_DONE);
}

const struct command command_kv_delete = { "kv delete", "remove one pair", run };
