/* export.c - statekv export: a map as lines of hex. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"
#include "tools/text.h"

struct export
{
    const char *map;
    uint64_t version;
};

static const struct argp_option options[] = {
    { "version", 'v', "V", 0, STATE_PLACE_VERSION_HELP, 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct export *export = parser->input;
    switch (key) {
    case 'v':
        export->version = command_number(parser, "--version", argument, 1, UINT64_MAX);
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        export->map = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        command_usage(parser, "no MAP given");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "MAP",
    "Print every pair of a map in key order, one a line: hex key, tab, hex value. statekv "
    "import reads it back to the same root.\v"
    "Example: statekv export --db rocksdb:data bank > bank.tsv",
    NULL,
    NULL,
    NULL
};

static void print(struct text *line, bool json, kv_slice key, kv_slice value)
{
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_bytes(&out, "key", key, true);
        json_bytes(&out, "value", value, true);
        json_end(&out);
        return;
    }
    line->size = 0;
    text_encode(line, key, true);
    text_append_byte(line, '\t');
    text_encode(line, value, true);
    text_append_byte(line, '\n');
    fwrite(line->data, 1, line->size, stdout);
}

static kv_code export_all(state_view *view, const char *map, bool json, kv_status *status)
{
    vmap_iter *iter = NULL;
    struct text line = TEXT_INIT;
    struct progress progress;
    uint64_t done = 0;
    kv_code code = state_view_iter_open(view, map, NULL, &iter, status);
    if (code != KV_OK)
        return state_place_named(code, status);
    progress_start_beside(&progress, "exporting");
    for (bool on = vmap_iter_first(iter); on && ferror(stdout) == 0;
         on = vmap_iter_next(iter)) {
        print(&line, json, vmap_iter_key(iter), vmap_iter_value(iter));
        progress_show(&progress, ++done, 0);
    }
    progress_end(&progress);
    code = vmap_iter_status(iter, status);
    vmap_iter_close(iter);
    text_clear(&line);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct export export = { 0 };
    command_parse(&argp, &export, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    kv_code code = state_place_view(&place, globals, export.version, &status);
    if (code == KV_OK)
        code = export_all(place.view, export.map, globals->json, &status);
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_export = { "export", "print a map as lines of hex", run };
