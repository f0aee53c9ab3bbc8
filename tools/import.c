/* import.c - statekv import: fill maps from lines or JSON. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/pairs.h"
#include "tools/state_place.h"

#include <inttypes.h>
#include <string.h>

enum { OPTION_BATCH = 0x200 };

struct import {
    bool json;
    const char *map; /* NULL: each member is a map */
    const char *file;
    uint64_t batch; /* pairs to a commit; 0 all */

    struct state_place place;
    struct progress progress;
    uint64_t pairs, done; /* in the input; put so far */
    uint64_t pending;     /* put since the last commit */
    vmap *open;           /* the map of the last pair */
};

static const struct argp_option options[] = {
    { "format", 'f', "FORMAT", 0, "tsv or json (default: json for a FILE called *.json)", 0 },
    { "batch", OPTION_BATCH, "N", 0, "Commit after every N pairs (default: one commit for all)",
      0 },
    { 0 }
};

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct import *import = parser->input;
    switch (key) {
    case 'f':
        if (strcmp(argument, "tsv") != 0 && strcmp(argument, "json") != 0)
            command_usage(parser, "--format %s: neither tsv nor json", argument);
        import->json = strcmp(argument, "json") == 0;
        return 0;
    case OPTION_BATCH:
        import->batch = command_number(parser, "--batch", argument, 1, UINT64_MAX);
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 1)
            return ARGP_ERR_UNKNOWN;
        *(parser->arg_num == 0 ? &import->map : &import->file) = argument;
        return 0;
    case ARGP_KEY_END:
        if (parser->arg_num < 2)
            command_usage(parser, "give MAP and FILE; - for each is possible");
        import->json = import->json || ends_with(import->file, ".json");
        if (strcmp(import->map, "-") == 0)
            import->map = NULL;
        if (import->map == NULL && !import->json)
            command_usage(parser, "tsv lines need the name of a MAP");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "MAP|- FILE|-",
    "Put pairs into the maps of a state and commit them; the state and its maps are made where "
    "they are missing. Prints version, app hash and the root of each map. The input is checked "
    "whole first: where it has a fault, file and line are named and nothing is changed.\v"
    "tsv: lines of `<hex key> TAB <hex value>' for MAP; a line with no tab deletes its key.\n"
    "json: a genesis or other object. Each member of app_state, or of the top level where "
    "there is none, becomes a map (with MAP, only that one). Every scalar and every empty "
    "array or object in it becomes a pair: the key is its JSON Pointer inside the member "
    "without the leading slash, the value its compact JSON with numbers as written.\n\n"
    "Examples:\n"
    "  statekv import --db rocksdb:data - genesis.json\n"
    "  statekv import --db rocksdb:data --batch 10000 bank balances.tsv",
    NULL,
    NULL,
    NULL
};

static kv_code read_pairs(const struct import *import, const struct input *input,
                          pairs_visit *visit, void *context, kv_status *status)
{
    return (import->json ? pairs_of_json : pairs_of_tsv)(input, import->map, visit, context,
                                                         status);
}

/* The first reading: what a map would refuse is found before anything is put. */
static kv_code check_pair(void *context, const char *map, kv_slice key, const kv_slice *value,
                          kv_status *status)
{
    struct import *import = context;
    import->pairs++;
    size_t name_size = strlen(map);
    if (name_size == 0 || name_size > STATE_MAP_NAME_SIZE_MAX || strchr(map, '/') != NULL)
        return kv_fail(status, KV_INVALID,
                       "\"%s\" cannot name a map: 1 to %u characters with no slash", map,
                       STATE_MAP_NAME_SIZE_MAX);
    if (key.size == 0)
        return kv_fail(status, KV_INVALID, "map %s: empty key", map);
    if (key.size > VMAP_KEY_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG, "map %s: key of %zu bytes, %u at most", map,
                       key.size, VMAP_KEY_SIZE_MAX);
    if (value != NULL && value->size == 0)
        return kv_fail(status, KV_INVALID, "map %s: empty value, which cannot be proven", map);
    if (value != NULL && value->size > VMAP_VALUE_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG, "map %s: value of %zu bytes, %u at most", map,
                       value->size, VMAP_VALUE_SIZE_MAX);
    return KV_OK;
}

static kv_code commit(struct import *import, kv_status *status)
{
    uint64_t version = 0;
    import->pending = 0;
    return state_commit(import->place.state, KV_SYNC, &version, status);
}

static kv_code put_pair(void *context, const char *map, kv_slice key, const kv_slice *value,
                        kv_status *status)
{
    struct import *import = context;
    kv_code code = KV_OK;
    if (import->open == NULL || strcmp(vmap_name(import->open), map) != 0)
        code = state_map_open(import->place.state, map, KV_CREATE, &import->open, status);
    if (code == KV_OK)
        code = value == NULL ? vmap_delete(import->open, key, status)
                             : vmap_put(import->open, key, *value, status);
    if (code != KV_OK)
        return code;
    import->pending++;
    import->done++;
    progress_show(&import->progress, import->done, import->pairs);
    return import->pending == import->batch ? commit(import, status) : KV_OK;
}

static kv_code import_all(struct import *import, const struct globals *globals,
                          kv_status *status)
{
    struct input input;
    kv_code code = input_open(&input, import->file, status);
    if (code == KV_OK)
        code = read_pairs(import, &input, check_pair, import, status);
    if (code == KV_OK)
        code = state_place_open(&import->place, globals, KV_CREATE, status);
    if (code == KV_OK) {
        progress_start(&import->progress, "importing");
        code = read_pairs(import, &input, put_pair, import, status);
        if (code == KV_OK && (import->pending > 0 || import->done == 0))
            code = commit(import, status);
        progress_end(&import->progress);
    }
    if (code == KV_OK)
        code = state_view_open(import->place.state, 0, &import->place.view, status);
    input_close(&input);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct import import = { 0 };
    command_parse(&argp, &import, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    kv_code code = import_all(&import, globals, &status);
    if (code == KV_OK)
        state_place_print(import.place.view, globals->json);
    return state_place_close(&import.place, code, &status, EXIT_DONE);
}

const struct command command_import = { "import", "fill maps from lines or JSON, and commit",
                                        run };
