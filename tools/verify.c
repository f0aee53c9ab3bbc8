/* verify.c - statekv verify: recompute every digest of a state. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"

#include <inttypes.h>

struct verify {
    uint64_t version;
};

static const struct argp_option options[] = {
    { "version", 'v', "V", 0, STATE_PLACE_VERSION_HELP, 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct verify *verify = parser->input;
    if (key != 'v')
        return ARGP_ERR_UNKNOWN;
    verify->version = command_number(parser, "--version", argument, 1, UINT64_MAX);
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Recompute every digest of every map from the values, on all cores, and compare with what "
    "is stored. Exit status 1, and the first map and key or page that differs, where one "
    "does.\v"
    "Example: statekv verify --db rocksdb:data",
    NULL,
    NULL,
    NULL
};

static void show(void *context, uint64_t done, uint64_t total)
{
    progress_show(context, done, total);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct verify verify = { 0 };
    command_parse(&argp, &verify, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    struct progress progress;
    progress_start(&progress, "verifying");
    kv_code code = state_place_view(&place, globals, verify.version, &status);
    if (code == KV_OK)
        code = state_view_verify(place.view, show, &progress, &status);
    progress_end(&progress);
    if (code == KV_OK)
        state_place_print(place.view, globals->json);
    int exit_status = state_place_close(&place, code, &status, EXIT_DONE);
    return code == KV_CORRUPT ? EXIT_NO : exit_status;
}

const struct command command_verify = { "verify", "recompute every digest from the values",
                                        run };
