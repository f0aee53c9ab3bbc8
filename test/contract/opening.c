/* opening.c - opening, closing, and what is refused. */
#include "test/contract/contract.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether `text` says `part`; shown when it does not. */
static void assert_says(const kv_status *status, const char *part)
{
    cr_assert(strstr(status->message, part) != NULL, "\"%s\" does not say \"%s\"",
              status->message, part);
    cr_assert(strchr(status->message, '\n') == NULL, "more than one line: %s", status->message);
}

/* ---- Lifetimes ---------------------------------------------------------------- */

CONTRACT_TEST(opening, closing_over_live_handles_is_refused)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "1");
    kv_snapshot *snapshot = NULL;
    kv_batch *batch = NULL;
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    assert_ok(kv_snapshot_take(store.db, &snapshot, status));
    assert_ok(kv_batch_new(store.db, &batch, status));
    kv_batch_put(batch, store.space, kv_text("b"), kv_text("2"));
    assert_code(KV_BUSY, kv_close(store.db, status));
    cr_assert(kv_iter_first(iter), "still usable");
    kv_iter_close(iter);
    assert_code(KV_BUSY, kv_close(store.db, status));
    kv_snapshot_release(snapshot);
    assert_code(KV_BUSY, kv_close(store.db, status));
    assert_ok(kv_batch_commit(batch, 0, status));
    kv_batch_free(batch);
    assert_text(pairs_at(store.space, NULL), "a=1 b=2");
    assert_ok(kv_close(store.db, status));
    assert_ok(kv_close(NULL, status));
    store.db = NULL;
    store_free(&store);
}

CONTRACT_TEST(opening, unused_handles_leave_nothing)
{
    struct store store;
    contract_store(&store, row);
    for (int i = 0; i < 50; i++) {
        kv_snapshot *snapshot = NULL;
        kv_batch *batch = NULL;
        kv_range range = text_range("a", "b");
        kv_iter_close(iter_open(store.space, NULL, &range));
        assert_ok(kv_snapshot_take(store.db, &snapshot, status));
        assert_ok(kv_batch_new(store.db, &batch, status));
        kv_batch_put(batch, store.space, kv_text("b"), kv_text("2"));
        kv_batch_free(batch);
        kv_snapshot_release(snapshot);
    }
    store_free(&store);
}

/* ---- What stays ---------------------------------------------------------------- */

CONTRACT_TEST_DURABLE(opening, data_outlives_closing)
{
    struct store store;
    contract_store(&store, row);
    put(store.space, "a", "1");
    put(store.space, "empty", "");
    put(store.space, "gone", "x");
    for (int i = 0; i < 3; i++) {
        store_reopen(&store);
        assert_text(get(store.space, "a"), "1");
        assert_text(get(store.space, "empty"), "");
        del(store.space, "gone");
        assert_text(keys(store.space, NULL, NULL), "a empty");
    }
    store_free(&store);
}

/* ---- What is refused ------------------------------------------------------------ */

CONTRACT_TEST_DURABLE(opening, a_missing_folder)
{
    struct store store;
    char path[TEST_PATH_SIZE];
    kv_status said = KV_STATUS_INIT;
    kv_db *db = NULL;
    contract_store(&store, row);
    contract_path(path, store.root, "nowhere");
    kv_code code = contract_open(row->driver, path, 0, &db, &said);
    cr_assert(code == KV_NOT_FOUND && db == NULL, "%s", kv_code_name(code));
    cr_assert(access(path, F_OK) != 0, "it made the folder");
    code = contract_open(row->driver, path, KV_OPEN_READ, &db, &said);
    cr_assert(code == KV_NOT_FOUND && access(path, F_OK) != 0, "%s", kv_code_name(code));

    contract_path(path, store.root, "with blanks/\xc3\xbc\xe4\xb8\xad/below"); /* all made */
    assert_ok(contract_open(row->driver, path, KV_CREATE, &db, status));
    cr_assert(strstr(kv_db_dir(db), "below") != NULL, "%s", kv_db_dir(db));
    kv_space *space = NULL;
    assert_ok(kv_space_open(db, "s", KV_CREATE, &space, status));
    put(space, "k", "v");
    assert_ok(kv_close(db, status));
    assert_ok(contract_open(row->driver, path, 0, &db, status));
    assert_ok(kv_space_open(db, "s", 0, &space, status));
    assert_text(get(space, "k"), "v");
    assert_ok(kv_close(db, status));
    store_free(&store);
}

/* The exit status of a child that tries to open: the code. */
static int code_in_child(const char *driver, const char *dir)
{
    fflush(NULL);
    pid_t child = fork();
    cr_assert(child >= 0, "fork");
    if (child == 0) {
        kv_db *db = NULL;
        _exit((int)contract_open(driver, dir, 0, &db, NULL));
    }
    int state = 0;
    waitpid(child, &state, 0);
    cr_assert(WIFEXITED(state), "the child died by signal %d", WTERMSIG(state));
    return WEXITSTATUS(state);
}

CONTRACT_TEST_DURABLE(opening, twice)
{
    struct store store;
    char path[2 * TEST_PATH_SIZE];
    char link[TEST_PATH_SIZE];
    contract_store(&store, row);
    put(store.space, "a", "1");
    contract_path(link, store.root, "link");
    cr_assert(symlink(store.dir, link) == 0, "symlink");
    const char *spellings[] = { store.dir, path, link };
    snprintf(path, sizeof(path), "%s/../%s", store.dir, strrchr(store.dir, '/') + 1);
    for (int i = 0; i < 3; i++) {
        kv_status said = KV_STATUS_INIT;
        kv_db *db = NULL;
        kv_code code = contract_open(row->driver, spellings[i], KV_CREATE, &db, &said);
        cr_assert(code == KV_BUSY && db == NULL, "%s: %s: %s", spellings[i], kv_code_name(code),
                  said.message);
        assert_says(&said, "/db");
        /* The failed attempt has not loosened the first one's hold. */
        int other = code_in_child(row->driver, spellings[i]);
        cr_assert(other == KV_BUSY, "another process: %s", kv_code_name((kv_code)other));
    }
    put(store.space, "b", "2");
    store_reopen(&store);
    assert_text(keys(store.space, NULL, NULL), "a b");
    store_free(&store);
}

/* Every file below `path`, to see that a refusal wrote nothing. */
static void list_files(const char *path, char *out, size_t size)
{
    char command[2 * TEST_PATH_SIZE];
    snprintf(command, sizeof(command), "cd '%s' && find . | sort", path);
    FILE *pipe = popen(command, "r");
    size_t got = fread(out, 1, size - 1, pipe);
    out[got] = '\0';
    pclose(pipe);
}

CONTRACT_TEST_DURABLE(opening, another_engines_folder)
{
    struct store store;
    char before[8192];
    char after[8192];
    contract_store(&store, row);
    put(store.space, "a", "1");
    store_close(&store);
    list_files(store.dir, before, sizeof(before));
    const kv_driver *other;
    for (size_t i = 0; (other = kv_driver_at(i)) != NULL; i++) {
        kv_status said = KV_STATUS_INIT;
        kv_db *db = NULL;
        if ((other->caps & KV_CAP_DURABLE) == 0 || strcmp(other->name, row->driver) == 0)
            continue;
        kv_code code = contract_open(other->name, store.dir, KV_CREATE, &db, &said);
        cr_assert(code == KV_INVALID && db == NULL, "%s opened %s's: %s", other->name,
                  row->driver, kv_code_name(code));
        assert_says(&said, row->driver);
        assert_says(&said, other->name);
        list_files(store.dir, after, sizeof(after));
        cr_assert(strcmp(before, after) == 0, "%s wrote into it:\n%s", other->name, after);
    }
    store_open(&store);
    assert_text(get(store.space, "a"), "1");
    store_free(&store);
}

CONTRACT_TEST_DURABLE(opening, a_file_in_place_of_the_folder)
{
    struct store store;
    char path[TEST_PATH_SIZE];
    kv_status said = KV_STATUS_INIT;
    kv_db *db = NULL;
    contract_store(&store, row);
    contract_path(path, store.root, "file");
    int file = open(path, O_CREAT | O_WRONLY, 0644);
    cr_assert(file >= 0, "create");
    close(file);
    kv_code code = contract_open(row->driver, path, KV_CREATE, &db, &said);
    cr_assert(code != KV_OK && code != KV_NOT_FOUND && db == NULL, "%s", kv_code_name(code));
    assert_says(&said, "file");
    store_free(&store);
}

/* Root may write anywhere, so the child becomes nobody. */
static int code_as_nobody(const char *driver, const char *dir, unsigned flags, char *message)
{
    int ends[2];
    cr_assert(pipe(ends) == 0, "pipe");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        kv_status said = KV_STATUS_INIT;
        kv_db *db = NULL;
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(255);
        kv_code code = contract_open(driver, dir, flags, &db, &said);
        if (write(ends[1], said.message, sizeof(said.message)) < 0)
            _exit(254);
        _exit((int)code);
    }
    int state = 0;
    cr_assert(read(ends[0], message, KV_MESSAGE_SIZE) > 0, "the child said nothing");
    waitpid(child, &state, 0);
    close(ends[0]);
    close(ends[1]);
    cr_assert(WIFEXITED(state), "the child died by signal %d", WTERMSIG(state));
    return WEXITSTATUS(state);
}

CONTRACT_TEST_DURABLE(opening, without_permission)
{
    struct store store;
    char path[TEST_PATH_SIZE];
    kv_status said = KV_STATUS_INIT;
    if (geteuid() != 0) {
        cr_skip("needs root, to become somebody else");
        return;
    }
    contract_store(&store, row);
    put(store.space, "a", "1");
    store_close(&store);
    contract_path(path, store.root, "new");
    chmod(store.root, 0755);
    int code = code_as_nobody(row->driver, path, KV_CREATE, said.message);
    cr_assert(code == KV_IO || code == KV_READ_ONLY, "%s: %s", kv_code_name((kv_code)code),
              said.message);
    assert_says(&said, path);
    code = code_as_nobody(row->driver, store.dir, 0, said.message);
    cr_assert(code == KV_IO || code == KV_READ_ONLY, "%s: %s", kv_code_name((kv_code)code),
              said.message);
    assert_says(&said, store.dir);
    chmod(store.root, 0700);
    store_open(&store);
    assert_text(get(store.space, "a"), "1");
    store_free(&store);
}

CONTRACT_TEST_DURABLE(opening, with_few_files)
{
    struct store store;
    contract_store(&store, row);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
    char key[16];
    char value[512];
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    int count = strstr(row->driver, "shadow") != NULL ? 300 : 3000;
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < count; i++) {
            snprintf(key, sizeof(key), "%d", (i * 7919) % count);
            put(store.space, key, value);
        }
        assert_ok(kv_compact(store.space, NULL, status));
        store_reopen(&store);
        for (int i = 0; i < count; i++) {
            snprintf(key, sizeof(key), "%d", i);
            cr_assert(strlen(get(store.space, key)) == sizeof(value) - 1, "key %d", i);
        }
    }
    store_free(&store);
}

/* ---- Reading only ---------------------------------------------------------------- */

static void check_refuses_writes(kv_db *db, kv_space *space)
{
    kv_status said = KV_STATUS_INIT;
    kv_batch *batch = NULL;
    kv_space *made = NULL;
    kv_code code = kv_put(space, kv_text("b"), kv_text("2"), 0, &said);
    cr_assert(code == KV_READ_ONLY, "put: %s", kv_code_name(code));
    assert_says(&said, kv_db_dir(db));
    assert_code(KV_READ_ONLY, kv_delete(space, kv_text("a"), 0, status));
    assert_code(KV_READ_ONLY, kv_delete_range(space, NULL, 0, status));
    assert_code(KV_READ_ONLY, kv_space_open(db, "new", KV_CREATE, &made, status));
    assert_code(KV_READ_ONLY, kv_space_drop(space, status));
    assert_ok(kv_batch_new(db, &batch, status));
    kv_batch_put(batch, space, kv_text("b"), kv_text("2"));
    assert_code(KV_READ_ONLY, kv_batch_commit(batch, 0, status));
    kv_batch_free(batch);
}

CONTRACT_TEST_DURABLE(opening, for_reading)
{
    struct store store;
    char before[8192];
    char after[8192];
    contract_store(&store, row);
    put(store.space, "a", "1");
    store_reopen(&store);
    put(store.space, "unflushed", "in the log");
    store_close(&store);
    list_files(store.dir, before, sizeof(before));
    kv_space *space = NULL;
    kv_db *db = NULL;
    assert_ok(contract_open(row->driver, store.dir, KV_OPEN_READ, &db, status));
    assert_ok(kv_space_open(db, "default", 0, &space, status));
    assert_text(pairs_at(space, NULL), "a=1 unflushed=in\\x20the\\x20log");
    kv_snapshot *snapshot = NULL;
    assert_ok(kv_snapshot_take(db, &snapshot, status));
    assert_text(get_at(space, snapshot, "a"), "1");
    kv_snapshot_release(snapshot);
    check_refuses_writes(db, space);
    assert_text(keys(space, NULL, NULL), "a unflushed");
    assert_ok(kv_close(db, status));
    store_open(&store);
    assert_text(keys(store.space, NULL, NULL), "a unflushed");
    list_files(store.dir, after, sizeof(after));
    store_free(&store);
}

/* ---- Names ----------------------------------------------------------------------- */

Test(opening, a_driver_there_is_not)
{
    kv_status said = KV_STATUS_INIT;
    kv_options *options = NULL;
    kv_code code = kv_options_new("rocksbd", "/tmp/x", NULL, &options, &said);
    cr_assert(code == KV_INVALID && options == NULL, "%s", kv_code_name(code));
    assert_says(&said, "rocksbd");
    assert_says(&said, "memory"); /* it lists what there is */
}

Test(opening, the_names_of_cometbft)
{
    static const char *const names[][2] = { { "goleveldb", "leveldb" },
                                            { "cleveldb", "leveldb" },
                                            { "memdb", "memory" } };
    for (size_t i = 0; i < 3; i++) {
        const kv_driver *driver = kv_driver_find(names[i][0]);
        if (driver != NULL)
            cr_assert(strcmp(driver->name, names[i][1]) == 0, "%s", driver->name);
        else
            cr_assert(kv_driver_find(names[i][1]) == NULL, "%s", names[i][0]);
    }
}
