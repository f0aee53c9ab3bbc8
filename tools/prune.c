/* prune.c - statekv prune: let go of old versions. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

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
    "Let go of all but the newest versions, whatever vmap.keep_recent says, and remove what "
    "only they needed. Prints the oldest and the newest version left.\v"
    "When it was interrupted, run it again. `statekv kv compact' gives the room back to the "
    "disk.\n\n"
    "Example: statekv prune --db rocksdb:data --keep 100",
    NULL,
    NULL,
    NULL
};

/* state_settle on a thread of its own, so that this one can show how far it is. */
struct settling {
    state *pruned;
    struct progress progress;
    uint64_t garbage, most; /* records to remove: now, at first */
    kv_code code;
    kv_status status;
};

static void *settle(void *argument)
{
    struct settling *settling = argument;
    settling->code = state_settle(settling->pruned, &settling->status);
    return NULL;
}

static void find_garbage(void *context, const kv_stat *stat)
{
    struct settling *settling = context;
    if (strcmp(stat->name, "history_garbage") == 0)
        settling->garbage = stat->number;
}

/* Remove what no kept version needs, so that the room is free when this ends. */
static kv_code remove_history(state *pruned, kv_status *status)
{
    struct settling settling = { .pruned = pruned };
    pthread_t thread;
    if (pthread_create(&thread, NULL, settle, &settling) != 0)
        return state_settle(pruned, status);
    progress_start(&settling.progress, "removing history");
    for (;;) {
        struct timespec pause;
        clock_gettime(CLOCK_MONOTONIC, &pause);
        pause.tv_sec += (pause.tv_nsec + 100000000) / 1000000000;
        pause.tv_nsec = (pause.tv_nsec + 100000000) % 1000000000;
        if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &pause) == 0)
            break;
        if (state_stats(pruned, find_garbage, &settling, NULL) == KV_OK) {
            settling.most = settling.most < settling.garbage ? settling.garbage : settling.most;
            progress_show(&settling.progress, settling.most - settling.garbage, settling.most);
        }
    }
    progress_end(&settling.progress);
    return settling.code == KV_OK
               ? KV_OK
               : kv_fail(status, settling.code, "%s", settling.status.message);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct prune prune = { 0 };
    command_parse(&argp, &prune, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    kv_code code = state_place_open(&place, globals, 0, &status);
    if (code == KV_OK)
        code = state_prune(place.state, prune.keep, &status);
    if (code == KV_OK)
        code = remove_history(place.state, &status);
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
