/* scenario.c - a small life of a database, in which anything may fail. */
#include "test/fault/scenario.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    return remove(path);
}

void scenario_init(struct scenario *scenario, const char *driver)
{
    const char *base = getenv("TMPDIR");
    if (base == NULL)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    memset(scenario, 0, sizeof(*scenario));
    scenario->driver = driver;
    scenario->durable = (kv_driver_find(driver)->caps & KV_CAP_DURABLE) != 0;
    snprintf(scenario->root, sizeof(scenario->root), "%.200s/statekv-fault-XXXXXX", base);
    if (mkdtemp(scenario->root) == NULL)
        abort();
    snprintf(scenario->dir, sizeof(scenario->dir), "%.240s/db", scenario->root);
    snprintf(scenario->copy, sizeof(scenario->copy), "%.240s/copy", scenario->root);
}

void scenario_free(struct scenario *scenario)
{
    nftw(scenario->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Note a failed call; false for anything but KV_OK. A fault must say something. */
static bool went_well(struct scenario *scenario, kv_code code, const kv_status *status)
{
    if (code == KV_OK || code == KV_NOT_FOUND)
        return code == KV_OK;
    scenario->errors++;
    if (status->message[0] == '\0' || status->code != code) {
        fprintf(stderr, "%s without a message of its own\n", kv_code_name(code));
        abort();
    }
    if (scenario->first.code == KV_OK)
        scenario->first = *status;
    return false;
}

#define TRY(call)                            \
    do {                                     \
        kv_status tried_ = KV_STATUS_INIT;   \
        kv_status *status = &tried_;         \
        went_well(scenario, (call), status); \
    } while (0)

static kv_db *open_db(struct scenario *scenario, unsigned flags)
{
    kv_options *options = NULL;
    kv_db *db = NULL;
    kv_status status = KV_STATUS_INIT;
    kv_code code = kv_options_new(scenario->driver, scenario->dir, NULL, &options, &status);
    if (code == KV_OK)
        code = kv_open(options, flags, &db, &status);
    went_well(scenario, code, &status);
    kv_options_free(options);
    return db;
}

static kv_slice key_of(char text[32], const char *kind, unsigned number)
{
    int size = snprintf(text, 32, "%s-%06u", kind, number);
    return kv_bytes(text, (size_t)size);
}

/* Long enough that a table has several blocks. */
static kv_slice value_of(char text[400], const char *kind, unsigned number)
{
    int size = snprintf(text, 400, "%s value of %u ", kind, number);
    memset(text + size, 'a' + (int)(number % 26), (size_t)(399 - size));
    return kv_bytes(text, 300 + number % 90);
}

void scenario_prepare(struct scenario *scenario)
{
    kv_db *db = open_db(scenario, KV_CREATE);
    kv_space *space = NULL;
    if (db == NULL || kv_space_open(db, "first", KV_CREATE, &space, NULL) != KV_OK)
        abort();
    for (unsigned i = 0; i < SCENARIO_OLD; i++) {
        char key[32];
        char value[400];
        if (kv_put(space, key_of(key, "old", i), value_of(value, "old", i),
                   i % 8 == 7 ? KV_SYNC : 0, NULL) != KV_OK)
            abort();
        if (i == SCENARIO_OLD / 2 && kv_compact(space, NULL, NULL) != KV_OK)
            abort();
    }
    if (kv_space_open(db, "second", KV_CREATE, &space, NULL) != KV_OK ||
        kv_sync(db, NULL) != KV_OK || kv_close(db, NULL) != KV_OK)
        abort();
}

/* Write number `i`: alone, or together in both spaces. */
static void write_new(struct scenario *scenario, kv_db *db, kv_space *spaces[2], unsigned i)
{
    char key_bytes[32];
    char value_bytes[400];
    kv_slice key = key_of(key_bytes, "new", i);
    kv_slice value = value_of(value_bytes, "new", i);
    kv_status status = KV_STATUS_INIT;
    if (i % 2 == 0) {
        kv_code code = kv_put(spaces[0], key, value, KV_SYNC, &status);
        scenario->acknowledged[i] = went_well(scenario, code, &status);
        return;
    }
    kv_batch *batch = NULL;
    kv_code code = kv_batch_new(db, &batch, &status);
    if (code == KV_OK) {
        kv_batch_put(batch, spaces[0], key, value);
        kv_batch_put(batch, spaces[1], key, value);
        kv_batch_delete(batch, spaces[1], key_of(key_bytes, "nothing", i));
        code = kv_batch_commit(batch, KV_SYNC, &status);
    }
    scenario->acknowledged[i] = went_well(scenario, code, &status);
    kv_batch_free(batch);
}

/* Whether a walk gives what gets give; an error of either ends it. */
static void read_all(struct scenario *scenario, kv_space *space, const kv_snapshot *snapshot)
{
    kv_read read = { .snapshot = snapshot, .verify = true };
    kv_iter *iter = NULL;
    kv_status status = KV_STATUS_INIT;
    kv_code code = kv_iter_open(space, &read, NULL, &iter, &status);
    if (!went_well(scenario, code, &status))
        return;
    unsigned count = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_value value = KV_VALUE_INIT;
        kv_status fault = KV_STATUS_INIT;
        code = kv_get(space, &read, kv_iter_key(iter), &value, &fault);
        if (code == KV_NOT_FOUND ||
            (code == KV_OK && kv_compare(value.bytes, kv_iter_value(iter)) != 0)) {
            fprintf(stderr, "a get differs from the walk: %s\n", kv_code_name(code));
            abort();
        }
        went_well(scenario, code, &fault);
        kv_value_release(&value);
        count++;
    }
    code = kv_iter_status(iter, &status);
    if (code == KV_OK && scenario->durable && strcmp(kv_space_name(space), "first") == 0 &&
        count < SCENARIO_OLD) {
        fprintf(stderr, "a walk ended early, without an error, after %u keys\n", count);
        abort();
    }
    went_well(scenario, code, &status);
    for (bool on = kv_iter_last(iter); on; on = kv_iter_prev(iter))
        continue;
    kv_iter_close(iter);
}

static void ignore_stat(void *context, const kv_stat *stat)
{
    *(size_t *)context += strlen(stat->name);
}

static void care(struct scenario *scenario, kv_db *db, kv_space *space)
{
    uint64_t size = 0;
    size_t seen = 0;
    kv_range range = { kv_text("new-000004"), kv_text("new-000004") }; /* no key */
    TRY(kv_delete_range(space, &range, KV_SYNC, status));
    TRY(kv_approximate_size(space, NULL, &size, status));
    TRY(kv_compact(space, NULL, status));
    TRY(kv_stats(db, ignore_stat, &seen, status));
    TRY(kv_sync(db, status));
}

static void read_many(struct scenario *scenario, kv_space *space)
{
    char bytes[4][32];
    kv_slice keys[4];
    kv_value values[4];
    kv_code codes[4];
    for (unsigned i = 0; i < 4; i++) {
        keys[i] = key_of(bytes[i], "old", 11 * i);
        values[i] = (kv_value)KV_VALUE_INIT;
    }
    TRY(kv_get_many(space, NULL, 4, keys, values, codes, status));
    for (unsigned i = 0; i < 4; i++)
        kv_value_release(&values[i]);
}

/* A copy that failed leaves nothing unfinished behind. */
static void copy(struct scenario *scenario, kv_db *db)
{
    char partial[SCENARIO_PATH_MAX + 8];
    if (!scenario->durable)
        return;
    kv_status status = KV_STATUS_INIT;
    kv_code code = kv_checkpoint(db, scenario->copy, &status);
    bool done = went_well(scenario, code, &status);
    snprintf(partial, sizeof(partial), "%s.partial", scenario->copy);
    if (access(partial, F_OK) == 0 || (done && access(scenario->copy, F_OK) != 0)) {
        fprintf(stderr, "an unfinished copy was left behind, or none made\n");
        abort();
    }
}

void scenario_run(struct scenario *scenario)
{
    kv_space *spaces[2] = { NULL, NULL };
    kv_snapshot *snapshot = NULL;
    kv_db *db = open_db(scenario, KV_CREATE);
    if (db == NULL)
        return;
    unsigned flags = scenario->durable ? 0 : KV_CREATE;
    TRY(kv_space_open(db, "first", flags, &spaces[0], status));
    TRY(kv_space_open(db, "second", flags, &spaces[1], status));
    if (spaces[0] != NULL && spaces[1] != NULL) {
        read_all(scenario, spaces[0], NULL);
        TRY(kv_snapshot_take(db, &snapshot, status));
        for (unsigned i = 0; i < SCENARIO_NEW; i++) {
            write_new(scenario, db, spaces, i);
            if (i == SCENARIO_NEW / 2)
                care(scenario, db, spaces[0]);
        }
        read_many(scenario, spaces[0]);
        read_all(scenario, spaces[0], NULL);
        read_all(scenario, spaces[0], snapshot);
        read_all(scenario, spaces[1], NULL);
        kv_snapshot_release(snapshot);
        care(scenario, db, spaces[1]);
        copy(scenario, db);
    }
    TRY(kv_close(db, status));
}

static bool has(kv_space *space, const char *kind, unsigned number, bool *wrong)
{
    char key[32];
    char expected[400];
    kv_value value = KV_VALUE_INIT;
    kv_status status = KV_STATUS_INIT;
    kv_code code = kv_get(space, NULL, key_of(key, kind, number), &value, &status);
    bool there = code == KV_OK;
    if (code != KV_OK && code != KV_NOT_FOUND) {
        fprintf(stderr, "%s %u: %s\n", kind, number, status.message);
        *wrong = true;
    } else if (there && kv_compare(value.bytes, value_of(expected, kind, number)) != 0) {
        fprintf(stderr, "%s %u: another value\n", kind, number);
        *wrong = true;
    }
    kv_value_release(&value);
    return there;
}

static bool contents_check(const struct scenario *scenario, kv_space *first, kv_space *second)
{
    bool wrong = false;
    for (unsigned i = 0; !wrong && i < SCENARIO_OLD; i++)
        if (!has(first, "old", i, &wrong)) {
            fprintf(stderr, "old %u is lost\n", i);
            wrong = true;
        }
    for (unsigned i = 0; !wrong && i < SCENARIO_NEW; i++) {
        bool in_first = has(first, "new", i, &wrong);
        bool in_second = has(second, "new", i, &wrong);
        if ((scenario->acknowledged[i] && !in_first) || (i % 2 == 1 && in_first != in_second) ||
            (i % 2 == 0 && in_second)) {
            fprintf(stderr, "new %u: acknowledged %d, in first %d, in second %d\n", i,
                    scenario->acknowledged[i], in_first, in_second);
            wrong = true;
        }
    }
    return !wrong;
}

static bool folder_check(const struct scenario *scenario, const char *dir)
{
    kv_status status = KV_STATUS_INIT;
    kv_space *first = NULL;
    kv_space *second = NULL;
    kv_options *options = NULL;
    kv_db *db = NULL;
    kv_code code = kv_options_new(scenario->driver, dir, NULL, &options, &status);
    if (code == KV_OK)
        code = kv_open(options, 0, &db, &status);
    if (code == KV_OK)
        code = kv_space_open(db, "first", 0, &first, &status);
    if (code == KV_OK)
        code = kv_space_open(db, "second", 0, &second, &status);
    kv_options_free(options);
    bool good = code == KV_OK && contents_check(scenario, first, second);
    if (code != KV_OK)
        fprintf(stderr, "reopening %s: %s: %s\n", dir, kv_code_name(code), status.message);
    return kv_close(db, NULL) == KV_OK && good;
}

bool scenario_check(struct scenario *scenario)
{
    if (!scenario->durable)
        return true;
    bool copied = access(scenario->copy, F_OK) == 0;
    return folder_check(scenario, scenario->dir) &&
           (!copied || folder_check(scenario, scenario->copy));
}
