/* kv_repair.c - statekv kv repair: let an engine salvage what it can. */
#include "tools/commands.h"
#include "tools/output.h"

static const struct argp argp = {
    NULL,
    NULL,
    NULL,
    "Let the engine salvage what can be read of a damaged database that nobody has open. "
    "What cannot be read is lost: copy the folder first, and run `statekv kv check' "
    "afterwards. Not every engine can.\v"
    "Example: statekv kv repair --db leveldb:data",
    NULL,
    NULL,
    NULL
};

static int run(struct globals *globals, int argc, char **argv)
{
    command_parse(&argp, NULL, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    kv_options *options = NULL;
    kv_code code = command_all_options(globals, &options, &status);
    if (code == KV_OK)
        code = kv_repair(options, &status);
    if (code == KV_OK && globals->json) {
        struct json out;
        json_start(&out, stdout);
        json_text(&out, "repaired", kv_options_dir(options));
        json_end(&out);
    }
    kv_options_free(options);
    return code == KV_OK ? EXIT_DONE : command_fail(&status);
}

const struct command command_kv_repair = { "kv repair", "salvage a damaged database", run };
