/* verify.c - statekv verify: recompute every digest of a state. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"

#include <inttypes.h>

struct verify {
    uint64_t version;
    bool all;
    const struct globals *globals;
    struct state_place place;
};

static const struct argp_option options[] = {
    { "version", 'v', "V", 0, STATE_PLACE_VERSION_HELP, 0 },
    { "all", 'a', NULL, 0, "Every kept version, the oldest first", 0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct verify *verify = parser->input;
    switch (key) {
    case 'v':
        verify->version = command_number(parser, "--version", argument, 1, UINT64_MAX);
        return 0;
    case 'a':
        verify->all = true;
        return 0;
    case ARGP_KEY_END:
        if (verify->all && verify->version != 0)
            command_usage(parser, "--all and --version exclude each other");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Recompute every digest of every map from the values, on all cores, and compare with what "
    "is stored; look for records that belong to nothing. Exit status 1, and the first map and "
    "key or page that differs with what was expected, where one does.\v"
    "It begins anew when it was interrupted. A pair of digests names a page by its first key; "
    "records of old versions are looked at only with --version or --all.\n\n"
    "Example: statekv verify --db rocksdb:data",
    NULL,
    NULL,
    NULL
};

static void show(void *context, uint64_t done, uint64_t total)
{
    progress_show(context, done, total);
}

/* Verify one version, and print it. */
static kv_code verify_one(struct verify *verify, uint64_t version, kv_status *status)
{
    struct progress progress;
    struct state_place *place = &verify->place;
    char what[48] = "verifying";
    if (verify->all)
        snprintf(what, sizeof(what), "verifying version %" PRIu64, version);
    kv_code code = state_view_open(place->state, version, &place->view, status);
    if (code != KV_OK)
        return code;
    progress_start(&progress, what);
    code = state_view_verify(place->view, show, &progress, status);
    progress_end(&progress);
    if (code == KV_OK)
        state_place_print(place->view, verify->globals->json);
    state_view_close(place->view);
    place->view = NULL;
    return code;
}

/* The kept versions; where commits left a gap there is nothing to verify. */
static kv_code verify_all(struct verify *verify, kv_status *status)
{
    const state *self = verify->place.state;
    uint64_t newest = state_version(self);
    kv_code code = KV_OK;
    for (uint64_t version = state_version_oldest(self);
         version > 0 && version <= newest && code == KV_OK; version++) {
        code = verify_one(verify, version, status);
        if (code == KV_TOO_OLD)
            code = KV_OK;
    }
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct verify verify = { .globals = globals };
    command_parse(&argp, &verify, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    kv_code code = state_place_open(&verify.place, globals, KV_OPEN_READ, &status);
    if (code == KV_OK)
        code = verify.all ? verify_all(&verify, &status)
                          : verify_one(&verify, verify.version, &status);
    int exit_status = state_place_close(&verify.place, code, &status, EXIT_DONE);
    return code == KV_CORRUPT ? EXIT_NO : exit_status;
}

const struct command command_verify = { "verify", "recompute every digest from the values",
                                        run };
