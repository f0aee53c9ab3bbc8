/* kv_get.c - statekv kv get: read one value. */
#include "tools/commands.h"
#include "tools/kv_place.h"
#include "tools/output.h"

struct get {
    struct place place;
    bool raw;
};

static const struct argp_option options[] = {
    { "raw", 'r', NULL, 0, "Print the value's bytes as they are, with no line end", 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    (void)argument;
    struct get *get = parser->input;
    switch (key) {
    case ARGP_KEY_INIT:
        parser->child_inputs[0] = &get->place;
        return 0;
    case 'r':
        get->raw = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &place_key_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
    options,
    parse,
    "KEY",
    "Print the value of one key. Exit status 1, and nothing printed, where the key is "
    "absent.\v"
    "Example: statekv kv get --db rocksdb:data --space blocks height",
    children,
    NULL,
    NULL
};

static void print(const struct get *get, bool json, kv_slice key, kv_slice value)
{
    if (get->raw && !json) {
        fwrite(value.data, 1, value.size, stdout);
        return;
    }
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_bytes(&out, "key", key, get->place.hex);
        json_bytes(&out, "value", value, get->place.hex);
        json_end(&out);
        return;
    }
    struct text form = TEXT_INIT;
    text_encode(&form, value, get->place.hex);
    puts(form.size > 0 ? form.data : "");
    text_clear(&form);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct get get = { .place = PLACE_INIT };
    command_parse(&argp, &get, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct text key = TEXT_INIT;
    kv_value value = KV_VALUE_INIT;
    int done = EXIT_DONE;
    kv_code code = text_decode(&key, kv_text(get.place.key), get.place.hex, "KEY", &status);
    if (code == KV_OK)
        code = place_open(&get.place, globals, KV_OPEN_READ, &status);
    if (code == KV_OK) {
        code = kv_get(get.place.space, NULL, text_bytes(&key), &value, &status);
        if (code == KV_OK) {
            print(&get, globals->json, text_bytes(&key), value.bytes);
        } else if (code == KV_NOT_FOUND) {
            done = EXIT_NO;
            code = KV_OK;
        }
    }
    kv_value_release(&value);
    text_clear(&key);
    return place_close(&get.place, code, &status, done);
}

const struct command command_kv_get = { "kv get", "print one value", run };
