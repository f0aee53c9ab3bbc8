/* state_stats.c - statekv state stats: the figures of a state. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"

static const struct argp argp = {
    NULL,
    NULL,
    NULL,
    "Print the figures of a state and of each map, one a line: keys, pages per level, the "
    "longest page, bytes by kind, cache hits.\v"
    "Example: statekv state stats --db rocksdb:data --json",
    NULL,
    NULL,
    NULL
};

static int run(struct globals *globals, int argc, char **argv)
{
    command_parse(&argp, NULL, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    struct json out;
    kv_code code = state_place_open(&place, globals, KV_OPEN_READ, &status);
    if (code == KV_OK) {
        if (globals->json)
            json_start(&out, stdout);
        code = state_stats(place.state, output_stat, globals->json ? &out : NULL, &status);
        if (globals->json)
            json_end(&out);
    }
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_state_stats = { "state stats", "print a state's figures", run };
