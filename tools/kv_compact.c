/* kv_compact.c - statekv kv compact: give back the room of what was deleted. */
#include "tools/commands.h"
#include "tools/kv_place.h"
#include "tools/output.h"
#include "tools/spaces.h"

struct compact {
    const char *space;
};

static const struct argp_option options[] = {
    { "space", 's', "SPACE", 0, "Only this space (default: all of them)", 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct compact *compact = parser->input;
    if (key != 's')
        return ARGP_ERR_UNKNOWN;
    compact->space = argument;
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Rewrite the storage without what was deleted or overwritten. Needs room for a second "
    "copy while it works.\v"
    "Example: statekv kv compact --db rocksdb:data",
    NULL,
    NULL,
    NULL
};

/* The figure "size_disk_bytes". */
static void find_size(void *context, const kv_stat *stat)
{
    static const char wanted[] = "size_disk_bytes";
    uint64_t *size = context;
    if (kv_compare(kv_text(stat->name), kv_text(wanted)) == 0)
        *size = stat->number;
}

static kv_code compact_one(kv_db *db, const char *name, kv_status *status)
{
    kv_space *space = NULL;
    kv_code code = place_space(db, name, 0, &space, status);
    return code == KV_OK ? kv_compact(space, NULL, status) : code;
}

static kv_code compact_all(kv_db *db, kv_status *status)
{
    static struct spaces spaces;
    struct progress progress;
    kv_code code = spaces_list(&spaces, db, status);
    progress_start(&progress, "compacting");
    for (size_t i = 0; code == KV_OK && i < spaces.count; i++) {
        kv_space *space = NULL;
        progress_show(&progress, i, spaces.count);
        code = kv_space_open(db, spaces.names[i], 0, &space, status);
        if (code == KV_OK)
            code = kv_compact(space, NULL, status);
    }
    progress_end(&progress);
    spaces_clear(&spaces);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct compact compact = { NULL };
    command_parse(&argp, &compact, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    kv_db *db = NULL;
    uint64_t before = 0;
    uint64_t after = 0;
    if (command_open(globals, 0, &db, &status) != KV_OK)
        return command_fail(&status);
    kv_code code = kv_stats(db, find_size, &before, &status);
    if (code == KV_OK)
        code = compact.space != NULL ? compact_one(db, compact.space, &status)
                                     : compact_all(db, &status);
    if (code == KV_OK)
        code = kv_stats(db, find_size, &after, &status);
    kv_code closed = kv_close(db, &status);
    if (code != KV_OK || closed != KV_OK)
        return command_fail(&status);

    if (globals->json) {
        struct json out;
        json_start(&out, stdout);
        json_number(&out, "size_before_bytes", before);
        json_number(&out, "size_after_bytes", after);
        json_end(&out);
    } else {
        printf("%llu bytes before, %llu after\n", (unsigned long long)before,
               (unsigned long long)after);
    }
    return EXIT_DONE;
}

const struct command command_kv_compact = { "kv compact", "give back the room of deleted pairs",
                                            run };
