/* kv_place.c - a space of the database, for the kv commands. */
#include "tools/kv_place.h"

#include <string.h>

static const struct argp_option options[] = {
    { "space", 's', "SPACE", 0, "Work on this space of the database (default: \"default\")",
      0 },
    { "hex", 'x', NULL, 0, "Read and print keys and values as hex instead of text", 0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct place *place = parser->input;
    switch (key) {
    case 's':
        place->space_name = argument;
        return 0;
    case 'x':
        place->hex = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp place_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };

static error_t parse_key(int key, char *argument, struct argp_state *parser)
{
    struct place *place = parser->input;
    switch (key) {
    case ARGP_KEY_INIT:
        parser->child_inputs[0] = place;
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        place->key = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        command_usage(parser, "no KEY given");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child key_children[] = { { &place_argp, 0, NULL, 0 }, { 0 } };
const struct argp place_key_argp = { NULL, parse_key, NULL, NULL, key_children, NULL, NULL };

kv_code place_space(kv_db *db, const char *name, unsigned flags, kv_space **out,
                    kv_status *status)
{
    struct text plain = TEXT_INIT;
    text_append(&plain, "", 0);
    kv_code code = text_decode(&plain, kv_text(name), false, "--space", status);
    if (code == KV_OK && strlen(plain.data) != plain.size)
        code = kv_fail(status, KV_INVALID, "--space %s: a space's name has no NUL", name);
    if (code == KV_OK)
        code = kv_space_open(db, plain.data, flags & KV_CREATE, out, status);
    if (code == KV_NOT_FOUND) /* a bad input, and no fault of the store */
        code =
            kv_fail(status, KV_INVALID, "%s: no space called %s; statekv kv check lists them",
                    kv_db_dir(db), name);
    text_clear(&plain);
    return code;
}

kv_code place_open(struct place *place, const struct globals *globals, unsigned flags,
                   kv_status *status)
{
    kv_code code = command_open(globals, flags, &place->db, status);
    return code != KV_OK
               ? code
               : place_space(place->db, place->space_name, flags, &place->space, status);
}

int place_close(struct place *place, kv_code code, kv_status *status, int done)
{
    if (place->db != NULL) {
        kv_code closed = kv_close(place->db, status);
        if (code == KV_OK)
            code = closed;
    }
    return code == KV_OK ? done : command_fail(status);
}
