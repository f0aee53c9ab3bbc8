/* kv_check.c - statekv kv check: read everything and verify it. */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/spaces.h"
#include "tools/text.h"

#include <inttypes.h>

static const struct argp argp = {
    NULL,
    NULL,
    NULL,
    "Read every pair of every space, verify the engine's checksums also where blocks are "
    "cached, and read each key once more by itself: both ways must agree. Prints pairs and "
    "bytes per space. Exit status 1 where something is damaged; the message says what.\v"
    "Example: statekv kv check --db rocksdb:data",
    NULL,
    NULL,
    NULL
};

struct figures {
    uint64_t pairs;
    uint64_t bytes;
};

/* The value that a get finds must be the one the walk is on. */
static kv_code check_pair(kv_space *space, const kv_read *read, kv_slice key, kv_slice value,
                          kv_status *status)
{
    kv_value found = KV_VALUE_INIT;
    kv_code code = kv_get(space, read, key, &found, status);
    if (code == KV_NOT_FOUND || (code == KV_OK && kv_compare(found.bytes, value) != 0)) {
        struct text hex = TEXT_INIT;
        text_encode(&hex, key, true);
        code = kv_fail(status, KV_CORRUPT, "space %s, key %s: a walk finds it, a get finds %s",
                       spaces_shown(kv_space_name(space)), hex.data,
                       code == KV_OK ? "another value" : "nothing");
        text_clear(&hex);
    }
    kv_value_release(&found);
    return code;
}

static kv_code check_space(kv_space *space, const kv_snapshot *snapshot,
                           struct progress *progress, struct figures *figures,
                           kv_status *status)
{
    const kv_read read = { .snapshot = snapshot, .verify = true, .no_cache = true };
    kv_iter *iter = NULL;
    kv_code code = kv_iter_open(space, &read, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); on && code == KV_OK; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        kv_slice value = kv_iter_value(iter);
        figures->pairs++;
        figures->bytes += key.size + value.size;
        code = check_pair(space, &read, key, value, status);
        progress_show(progress, figures->pairs, 0);
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

static void print(bool json, const char *space, const struct figures *figures)
{
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_text(&out, "space", spaces_shown(space));
        json_number(&out, "pairs", figures->pairs);
        json_number(&out, "bytes", figures->bytes);
        json_end(&out);
    } else {
        printf("%-24s %12" PRIu64 " pairs %16" PRIu64 " bytes\n", spaces_shown(space),
               figures->pairs, figures->bytes);
    }
}

static kv_code check_all(kv_db *db, bool json, kv_status *status)
{
    static struct spaces spaces;
    kv_snapshot *snapshot = NULL;
    struct progress progress;
    progress_start(&progress, "checking");
    kv_code code = spaces_list(&spaces, db, status);
    if (code == KV_OK)
        code = kv_snapshot_take(db, &snapshot, status);
    for (size_t i = 0; code == KV_OK && i < spaces.count; i++) {
        struct figures figures = { 0 };
        kv_space *space = NULL;
        code = kv_space_open(db, spaces.names[i], 0, &space, status);
        if (code == KV_OK)
            code = check_space(space, snapshot, &progress, &figures, status);
        progress_end(&progress);
        if (code == KV_OK)
            print(json, spaces.names[i], &figures);
    }
    kv_snapshot_release(snapshot);
    spaces_clear(&spaces);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    command_parse(&argp, NULL, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    kv_db *db = NULL;
    kv_code code = command_open(globals, KV_OPEN_READ, &db, &status);
    if (code == KV_OK)
        code = check_all(db, globals->json, &status);
    if (db != NULL) {
        kv_code closed = kv_close(db, &status);
        if (code == KV_OK)
            code = closed;
    }
    if (code == KV_OK)
        return EXIT_DONE;
    int failed = command_fail(&status);
    return code == KV_CORRUPT ? EXIT_NO : failed;
}

const struct command command_kv_check = { "kv check", "read everything and verify it", run };
