/*
 * migrate.c - statekv migrate: copy a database to another engine and prove it.
 *
 * The target carries a mark (a space of its own) from before the first pair
 * until both sides were compared, so that an interrupted copy is known as one.
 * Pairs are written in key order, so the last key of a target's space tells
 * where to go on.
 */
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/spaces.h"
#include "tools/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    BATCH_SIZE_MAX = 4 << 20, /* bytes to a batch */
    BATCH_COUNT_MAX = 10000,  /* pairs to a batch */
    ROOM_SPARE = 64 << 20     /* bytes to leave free beside the copy */
};

#define MARK_SPACE "statekv.migrate"
#define MARK_KEY "from"

struct migrate {
    const char *from_name, *to_name;
    bool json;
    kv_options *from_options, *to_options;
    kv_db *from, *to;
    kv_snapshot *snapshot;
    struct spaces spaces; /* the source's */
    uint64_t size_disk, keys_estimate;
    uint64_t copied; /* pairs */
    struct progress progress;
};

struct digest {
    uint64_t pairs, bytes;
    uint8_t sha256[SHA256_DIGEST_SIZE];
};

enum { OPTION_FROM = 0x200, OPTION_TO };

static const struct argp_option options[] = {
    { "from", OPTION_FROM, "BACKEND:DIR", 0, "The database to copy; it is only read", 0 },
    { "to", OPTION_TO, "BACKEND:DIR", 0,
      "Where the copy goes: nothing yet, or an interrupted "
      "copy of the same source",
      0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct migrate *migrate = parser->input;
    switch (key) {
    case OPTION_FROM:
        migrate->from_name = argument;
        return 0;
    case OPTION_TO:
        migrate->to_name = argument;
        return 0;
    case ARGP_KEY_END:
        if (migrate->from_name == NULL || strchr(migrate->from_name, ':') == NULL ||
            migrate->to_name == NULL || strchr(migrate->to_name, ':') == NULL)
            command_usage(parser, "give --from and --to, each BACKEND:DIR");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Copy every space of a database to another folder or engine, then read both sides whole "
    "and compare them by a digest of all pairs per space. The source is never changed. An "
    "interrupted copy carries a mark and goes on where it stood when the same command is run "
    "again. Room on the target's disk is checked first. The tables of --config and --set tune "
    "both sides.\v"
    "Point db_backend and db_dir at the copy only after this ended with status 0.\n\n"
    "Example: statekv migrate --from leveldb:data --to rocksdb:data.rocksdb",
    NULL,
    NULL,
    NULL
};

static void take_figure(void *context, const kv_stat *stat)
{
    struct migrate *migrate = context;
    if (strcmp(stat->name, "size_disk_bytes") == 0)
        migrate->size_disk = stat->number;
    else if (strcmp(stat->name, "keys_estimate") == 0)
        migrate->keys_estimate = stat->number;
}

/* The free room where `dir` is or will be. */
static kv_code free_room(const char *dir, uint64_t *out, kv_status *status)
{
    char path[PATH_MAX];
    struct statvfs room;
    if ((size_t)snprintf(path, sizeof(path), "%s", dir) >= sizeof(path))
        return kv_fail(status, KV_INVALID, "%.100s...: path too long", dir);
    while (statvfs(path[0] != '\0' ? path : ".", &room) != 0) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || path[0] == '\0')
            return kv_fail(status, KV_IO, "%s: %s", dir, strerror(errno));
        if (slash == NULL)
            path[0] = '\0';
        else
            slash[slash == path && slash[1] != '\0' ? 1 : 0] = '\0';
    }
    *out = (uint64_t)room.f_bavail * room.f_frsize;
    return KV_OK;
}

static kv_code check_room(const struct migrate *migrate, kv_status *status)
{
    const char *dir = kv_options_dir(migrate->to_options);
    if (strcmp(kv_options_backend(migrate->to_options), "memory") == 0)
        return kv_fail(
            status, KV_INVALID,
            "--to %s: memory keeps nothing when this ends; name an engine with a folder",
            migrate->to_name);
    uint64_t room = 0;
    kv_code code = free_room(dir, &room, status);
    uint64_t needed = migrate->size_disk + migrate->size_disk / 5 + ROOM_SPARE;
    if (code == KV_OK && room < needed)
        return kv_fail(status, KV_NO_SPACE,
                       "%s: the copy needs about %" PRIu64 " MiB, %" PRIu64 " are free", dir,
                       needed >> 20, room >> 20);
    return code;
}

static kv_code open_source(struct migrate *migrate, const struct globals *globals,
                           kv_status *status)
{
    kv_code code =
        command_db_options(globals, migrate->from_name, &migrate->from_options, status);
    if (code == KV_OK)
        code = command_db_options(globals, migrate->to_name, &migrate->to_options, status);
    if (code == KV_OK)
        code = kv_open(migrate->from_options, KV_OPEN_READ, &migrate->from, status);
    if (code == KV_OK)
        code = kv_stats(migrate->from, take_figure, migrate, status);
    if (code == KV_OK)
        code = kv_snapshot_take(migrate->from, &migrate->snapshot, status);
    if (code == KV_OK)
        code = spaces_list(&migrate->spaces, migrate->from, status);
    for (size_t i = 0; code == KV_OK && i < migrate->spaces.count; i++)
        if (strcmp(migrate->spaces.names[i], MARK_SPACE) == 0)
            code = kv_fail(status, KV_INVALID, "%s: is itself an unfinished copy; finish it",
                           migrate->from_name);
    return code;
}

/* The last key of a space into `out`, which stays empty where there is none. */
static kv_code last_key(kv_space *space, struct text *out, kv_status *status)
{
    kv_iter *iter = NULL;
    kv_code code = kv_iter_open(space, NULL, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    if (kv_iter_last(iter))
        text_append(out, kv_iter_key(iter).data, kv_iter_key(iter).size);
    code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

/* A target with any pair and no mark is somebody's data. */
static kv_code refuse_data(const struct migrate *migrate, kv_status *status)
{
    static struct spaces spaces;
    kv_code code = spaces_list(&spaces, migrate->to, status);
    for (size_t i = 0; code == KV_OK && i < spaces.count; i++) {
        kv_space *space = NULL;
        struct text key = TEXT_INIT;
        code = kv_space_open(migrate->to, spaces.names[i], 0, &space, status);
        if (code == KV_OK)
            code = last_key(space, &key, status);
        if (code == KV_OK && key.size > 0)
            code = kv_fail(status, KV_INVALID,
                           "%s: holds data, and no mark of an interrupted copy; give an empty "
                           "or new folder",
                           migrate->to_name);
        text_clear(&key);
    }
    spaces_clear(&spaces);
    return code;
}

static kv_code set_mark(const struct migrate *migrate, kv_space **mark, kv_status *status)
{
    kv_value from = KV_VALUE_INIT;
    kv_slice name = kv_text(migrate->from_name);
    kv_code code = kv_space_open(migrate->to, MARK_SPACE, 0, mark, status);
    if (code == KV_NOT_FOUND) {
        code = refuse_data(migrate, status);
        if (code == KV_OK)
            code = kv_space_open(migrate->to, MARK_SPACE, KV_CREATE, mark, status);
    }
    if (code != KV_OK)
        return code;
    code = kv_get(*mark, NULL, kv_text(MARK_KEY), &from, status);
    if (code == KV_NOT_FOUND)
        code = kv_put(*mark, kv_text(MARK_KEY), name, KV_SYNC, status);
    else if (code == KV_OK && kv_compare(from.bytes, name) != 0)
        code = kv_fail(status, KV_INVALID, "%s: is an interrupted copy of %.*s, not of %s",
                       migrate->to_name, (int)from.bytes.size, (const char *)from.bytes.data,
                       migrate->from_name);
    kv_value_release(&from);
    return code;
}

static kv_code copy_pairs(struct migrate *migrate, kv_iter *iter, bool on, kv_space *to,
                          kv_batch *batch, kv_status *status)
{
    kv_code code = KV_OK;
    for (; on && code == KV_OK; on = kv_iter_next(iter)) {
        kv_batch_put(batch, to, kv_iter_key(iter), kv_iter_value(iter));
        migrate->copied++;
        progress_show(&migrate->progress, migrate->copied, migrate->keys_estimate);
        if (kv_batch_size(batch) >= BATCH_SIZE_MAX || kv_batch_count(batch) >= BATCH_COUNT_MAX)
            code = kv_batch_commit(batch, 0, status);
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    if (code == KV_OK && kv_batch_count(batch) > 0)
        code = kv_batch_commit(batch, 0, status);
    return code;
}

static kv_code copy_space(struct migrate *migrate, const char *name, kv_status *status)
{
    const kv_read read = { .snapshot = migrate->snapshot, .verify = true, .no_cache = true };
    kv_space *from = NULL;
    kv_space *to = NULL;
    kv_iter *iter = NULL;
    kv_batch *batch = NULL;
    struct text last = TEXT_INIT;
    kv_code code = kv_space_open(migrate->from, name, 0, &from, status);
    if (code == KV_OK)
        code = kv_space_open(migrate->to, name, KV_CREATE, &to, status);
    if (code == KV_OK)
        code = last_key(to, &last, status);
    if (code == KV_OK)
        code = kv_iter_open(from, &read, NULL, &iter, status);
    if (code == KV_OK)
        code = kv_batch_new(migrate->to, &batch, status);
    if (code == KV_OK) {
        bool resumed = last.size > 0;
        bool on = resumed ? kv_iter_seek(iter, text_bytes(&last)) : kv_iter_first(iter);
        if (on && resumed && kv_compare(kv_iter_key(iter), text_bytes(&last)) == 0)
            on = kv_iter_next(iter);
        code = copy_pairs(migrate, iter, on, to, batch, status);
    }
    kv_batch_free(batch);
    kv_iter_close(iter);
    text_clear(&last);
    return code;
}

static void digest_slice(struct sha256_ctx *context, kv_slice bytes)
{
    uint8_t size[8];
    for (unsigned i = 0; i < sizeof(size); i++)
        size[i] = (uint8_t)((uint64_t)bytes.size >> (56 - 8 * i));
    sha256_update(context, sizeof(size), size);
    sha256_update(context, bytes.size, bytes.data);
}

/* SHA-256 over each key and value, each after its size in eight bytes. */
static kv_code digest_space(struct progress *progress, kv_db *db, const char *name,
                            const kv_read *read, struct digest *out, kv_status *status)
{
    kv_space *space = NULL;
    kv_iter *iter = NULL;
    struct sha256_ctx context;
    *out = (struct digest){ 0 };
    kv_code code = kv_space_open(db, name, 0, &space, status);
    if (code == KV_OK)
        code = kv_iter_open(space, read, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    sha256_init(&context);
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        digest_slice(&context, kv_iter_key(iter));
        digest_slice(&context, kv_iter_value(iter));
        out->pairs++;
        out->bytes += kv_iter_key(iter).size + kv_iter_value(iter).size;
        progress_show(progress, out->pairs, 0);
    }
    sha256_digest(&context, sizeof(out->sha256), out->sha256);
    code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

static void print_digest(bool json, const char *name, const struct digest *digest)
{
    kv_slice sha256 = kv_bytes(digest->sha256, sizeof(digest->sha256));
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_text(&out, "space", spaces_shown(name));
        json_number(&out, "pairs", digest->pairs);
        json_number(&out, "bytes", digest->bytes);
        json_digest(&out, "sha256", sha256);
        json_end(&out);
        return;
    }
    struct text hex = TEXT_INIT;
    text_encode_digest(&hex, sha256);
    printf("%s %12" PRIu64 " pairs %16" PRIu64 " bytes  %s\n", hex.data, digest->pairs,
           digest->bytes, spaces_shown(name));
    text_clear(&hex);
}

static kv_code compare_space(const struct migrate *migrate, struct progress *progress,
                             const char *name, kv_status *status)
{
    struct digest from;
    struct digest to;
    const kv_read read_from = { .snapshot = migrate->snapshot, .no_cache = true };
    const kv_read read_to = { .verify = true, .no_cache = true };
    kv_code code = digest_space(progress, migrate->from, name, &read_from, &from, status);
    if (code == KV_OK)
        code = digest_space(progress, migrate->to, name, &read_to, &to, status);
    progress_end(progress);
    if (code != KV_OK)
        return code;
    if (from.pairs != to.pairs || memcmp(from.sha256, to.sha256, sizeof(from.sha256)) != 0)
        return kv_fail(status, KV_CORRUPT,
                       "space %s: the copy differs (%" PRIu64 " pairs, %" PRIu64
                       " copied); remove %s and copy again",
                       spaces_shown(name), from.pairs, to.pairs, migrate->to_name);
    print_digest(migrate->json, name, &from);
    return KV_OK;
}

static void print_summary(const struct migrate *migrate)
{
    double seconds = progress_seconds(&migrate->progress);
    if (migrate->json) {
        struct json out;
        json_start(&out, stdout);
        json_text(&out, "from", migrate->from_name);
        json_text(&out, "to", migrate->to_name);
        json_number(&out, "pairs_copied", migrate->copied);
        json_real(&out, "seconds", seconds);
        json_end(&out);
        return;
    }
    printf("%" PRIu64 " pairs copied, both sides equal, %.1f s\n", migrate->copied, seconds);
}

static kv_code copy_all(struct migrate *migrate, kv_status *status)
{
    kv_space *mark = NULL;
    struct progress comparing;
    kv_code code = set_mark(migrate, &mark, status);
    progress_start(&migrate->progress, "copying");
    for (size_t i = 0; code == KV_OK && i < migrate->spaces.count; i++)
        code = copy_space(migrate, migrate->spaces.names[i], status);
    if (code == KV_OK)
        code = kv_sync(migrate->to, status);
    progress_end(&migrate->progress);
    progress_start(&comparing, "comparing");
    for (size_t i = 0; code == KV_OK && i < migrate->spaces.count; i++)
        code = compare_space(migrate, &comparing, migrate->spaces.names[i], status);
    if (code == KV_OK)
        code = kv_space_drop(mark, status);
    if (code == KV_OK)
        code = kv_sync(migrate->to, status);
    return code;
}

static kv_code close_db(kv_db *db, kv_code code, kv_status *status)
{
    if (db == NULL)
        return code;
    kv_code closed = kv_close(db, status);
    return code == KV_OK ? closed : code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    static struct migrate migrate;
    command_parse(&argp, &migrate, globals, argc, argv);
    migrate.json = globals->json;

    kv_status status = KV_STATUS_INIT;
    if (globals->db != NULL)
        return command_fail_with(KV_INVALID, "migrate takes --from and --to, not --db");
    kv_code code = open_source(&migrate, globals, &status);
    if (code == KV_OK)
        code = check_room(&migrate, &status);
    if (code == KV_OK)
        code = kv_open(migrate.to_options, KV_CREATE, &migrate.to, &status);
    if (code == KV_OK)
        code = copy_all(&migrate, &status);
    code = close_db(migrate.to, code, &status);
    kv_snapshot_release(migrate.snapshot);
    code = close_db(migrate.from, code, &status);
    spaces_clear(&migrate.spaces);
    kv_options_free(migrate.from_options);
    kv_options_free(migrate.to_options);
    if (code == KV_OK) {
        print_summary(&migrate);
        return EXIT_DONE;
    }
    int failed = command_fail(&status);
    return code == KV_CORRUPT ? EXIT_NO : failed;
}

const struct command command_migrate = { "migrate", "copy a database to another engine", run };
