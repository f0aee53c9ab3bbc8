/* kv_stats.c - statekv kv stats: the figures of a database. */
#include "tools/commands.h"
#include "tools/output.h"

static const struct argp argp = {
    NULL,
    NULL,
    NULL,
    "Print the figures of a database, one a line: those every engine gives first, then the "
    "engine's own. Prose of an engine spans several lines.\v"
    "Example: statekv kv stats --db rocksdb:data --json",
    NULL,
    NULL,
    NULL
};

static int run(struct globals *globals, int argc, char **argv)
{
    command_parse(&argp, NULL, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    kv_db *db = NULL;
    if (command_open(globals, KV_OPEN_READ, &db, &status) != KV_OK)
        return command_fail(&status);
    struct json out;
    if (globals->json)
        json_start(&out, stdout);
    kv_code code = kv_stats(db, output_stat, globals->json ? &out : NULL, &status);
    if (globals->json)
        json_end(&out);
    kv_code closed = kv_close(db, &status);
    return code == KV_OK && closed == KV_OK ? EXIT_DONE : command_fail(&status);
}

const struct command command_kv_stats = { "kv stats", "print a database's figures", run };
