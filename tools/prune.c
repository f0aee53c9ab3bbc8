/* prune.c - statekv prune: let go of old versions. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"

#include <inttypes.h>

struct prune {
    uint64_t keep;
};

static const struct argp_option options[] = {
    { "keep", 'k', "N", 0, "Keep the newest N versions, at least 1", 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct prune *prune = parser->input;
    switch (key) {
    case 'k':
        prune->keep = command_number(parser, "--keep", argument, 1, UINT64_MAX);
        return 0;
    case ARGP_KEY_END:
        if (prune->keep == 0)
            command_usage(parser, "give --keep N");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Let go of all but the newest versions, whatever vmap.keep_recent says. Prints the oldest "
    "and the newest version left.\v"
    "Example: statekv prune --db rocksdb:data --keep 100",
    NULL,
    NULL,
    NULL
};

static int run(struct globals *globals, int argc, char **argv)
{
    struct prune prune = { 0 };
    command_parse(&argp, &prune, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    kv_code code = state_place_open(&place, globals, 0, &status);
    if (code == KV_OK)
        code = state_prune(place.state, prune.keep, &status);
    if (code == KV_OK && globals->json) {
        struct json out;
        json_start(&out, stdout);
        json_number(&out, "oldest", state_version_oldest(place.state));
        json_number(&out, "newest", state_version(place.state));
        json_end(&out);
    } else if (code == KV_OK) {
        printf("versions %" PRIu64 " to %" PRIu64 "\n", state_version_oldest(place.state),
               state_version(place.state));
    }
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_prune = { "prune", "let go of old versions", run };
