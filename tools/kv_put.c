/* kv_put.c - statekv kv put: write one pair. */
#include "tools/commands.h"
#include "tools/kv_place.h"

enum { READ_SIZE = 1 << 16 };

struct put {
    struct place place;
    const char *key;
    const char *value;
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct put *put = parser->input;
    switch (key) {
    case ARGP_KEY_INIT:
        parser->child_inputs[0] = &put->place;
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 1)
            return ARGP_ERR_UNKNOWN;
        *(parser->arg_num == 0 ? &put->key : &put->value) = argument;
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
    "KEY [VALUE]",
    "Write one pair, durably, in place of what the key held. The database and the space are "
    "made where they are missing. Without VALUE, the bytes of standard input are the value, "
    "as they are.\v"
    "In text a backslash is written \\\\ and any byte may be written \\xNN.\n\n"
    "Example: statekv kv put --db rocksdb:data --space blocks height 1200",
    children,
    NULL,
    NULL
};

static kv_code read_value(struct text *value, kv_status *status)
{
    char bytes[READ_SIZE];
    size_t size = 0;
    while ((size = fread(bytes, 1, sizeof(bytes), stdin)) > 0) {
        text_append(value, bytes, size);
        if (value->size > KV_VALUE_SIZE_MAX)
            return kv_fail(status, KV_TOO_BIG, "standard input: a value has at most %u bytes",
                           KV_VALUE_SIZE_MAX);
    }
    if (ferror(stdin) != 0)
        return kv_fail(status, KV_IO, "standard input: cannot be read");
    return KV_OK;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct put put = { .place = PLACE_INIT };
    command_parse(&argp, &put, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct text key = TEXT_INIT;
    struct text value = TEXT_INIT;
    kv_code code = text_decode(&key, kv_text(put.key), put.place.hex, "KEY", &status);
    if (code == KV_OK && put.value == NULL)
        code = read_value(&value, &status);
    else if (code == KV_OK)
        code = text_decode(&value, kv_text(put.value), put.place.hex, "VALUE", &status);
    if (code == KV_OK)
        code = place_open(&put.place, globals, KV_CREATE, &status);
    if (code == KV_OK)
        code = kv_put(put.place.space, text_bytes(&key), text_bytes(&value), KV_SYNC, &status);
    text_clear(&key);
    text_clear(&value);
    return place_close(&put.place, code, &status, EXIT_DONE);
}

const struct command command_kv_put = { "kv put", "write one pair", run };
