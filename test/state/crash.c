/*
 * crash.c - kill -9 at any moment of a commit, a prune or a return.
 *
 *     test_state_crash KILLS [DRIVER [SEED]]
 *
 * A child process commits version after version; what each changes is a
 * function of seed and version, so the parent knows what every version must
 * hold. It kills the child at a random moment, opens the state, and wants it at
 * the last acknowledged version or the one after, in all maps, with the right
 * app hash and values, verified in full. Then it commits the next version
 * itself: the root must be that of a run without a crash. The count of history must
 * be exact after each kill. At last it prunes and looks at the raw records: none may
 * belong to a key that is not there.
 */
#include "model.h"
#include "records.h"

#include "kv/driver.h"
#include "test/base.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { UNIVERSE = 900, PAGE_BITS = 3, CHANGES = 250 };

extern char **environ;

struct run {
    char driver[16];
    char dir[96];
    uint64_t seed;
    struct universe universe;
    struct model model;  /* at model.version */
    struct model before; /* the child's, one version earlier */
    kv_options *options;
    kv_db *db;
    state *state;
};

KV_PRINTF(2, 3)
static void fail(const struct run *run, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "crash: driver %s seed %llu folder %s: ", run->driver,
            (unsigned long long)run->seed, run->dir);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void need(const struct run *run, kv_code code, const kv_status *status, const char *what)
{
    if (code != KV_OK)
        fail(run, "%s: %s: %s", what, kv_code_name(code), status->message);
}

/* ---- What versions do ---------------------------------------------------- */

static vmap *map_of(struct run *run, size_t map)
{
    vmap *handle;
    kv_status status = KV_STATUS_INIT;
    need(run, state_map_open(run->state, model_names[map], KV_CREATE, &handle, &status),
         &status, "state_map_open");
    return handle;
}

static void change(struct run *run, size_t map, size_t key, uint32_t number)
{
    uint8_t buffer[MODEL_VALUE_SIZE_MAX];
    kv_status status = KV_STATUS_INIT;
    run->model.exists[map] = true;
    run->model.numbers[map][key] = number;
    if (run->state == NULL)
        return;
    vmap *handle = map_of(run, map);
    kv_code code = number == 0 ? vmap_delete(handle, run->universe.keys[key], &status)
                               : vmap_put(handle, run->universe.keys[key],
                                          model_value(number, buffer), &status);
    need(run, code, &status, "change");
}

/* Change model, and state if one is open, from version to version + 1. */
static void make_version(struct run *run)
{
    struct random random = { run->seed * 1000003 + run->model.version };
    uint64_t kind = random_below(&random, 12);
    size_t map = random_below(&random, MODEL_MAPS);
    if (kind == 0 && run->model.exists[map]) {
        kv_status status = KV_STATUS_INIT;
        if (run->state != NULL)
            need(run, state_map_drop(run->state, model_names[map], &status), &status, "drop");
        run->model.exists[map] = false;
        memset(run->model.numbers[map], 0, run->universe.count * sizeof(uint32_t));
    } else if (kind == 1) { /* down to the last key */
        for (size_t key = 0; key < run->universe.count; key++) {
            if (run->model.numbers[map][key] != 0)
                change(run, map, key, 0);
        }
    } else {
        for (int i = 0; i < CHANGES; i++) {
            size_t key = random_below(&random, run->universe.count);
            uint32_t number = random_below(&random, 10) < 4
                                  ? 0
                                  : 1 + (uint32_t)random_below(&random, 1u << 20);
            change(run, random_below(&random, MODEL_MAPS), key, number);
        }
    }
    run->model.version++;
}

static void advance_model(struct run *run, uint64_t version)
{
    state *held = run->state;
    run->state = NULL;
    while (run->model.version < version)
        make_version(run);
    run->state = held;
}

/* ---- Opening ------------------------------------------------------------- */

static void open_all(struct run *run)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    kv_status status = KV_STATUS_INIT;
    need(run, kv_options_new(run->driver, run->dir, tables, &run->options, &status), &status,
         "options");
    /* Half of the seeds stage every commit and apply it in parts. */
    const char *const settings[][2] = {
        { "vmap.page_bits", "3" },
        { "vmap.keep_recent", run->seed % 4 < 2 ? "3" : "1" },
        { "vmap.batch_size", run->seed % 2 == 0 ? "8192" : "16MiB" },
        { "vmap.cache_size", run->seed % 3 == 0 ? "30000" : "16MiB" },
        { "vmap.threads", "2" },
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        need(run, kv_options_set(run->options, settings[i][0], settings[i][1], &status),
             &status, settings[i][0]);
    need(run, kv_open(run->options, KV_CREATE, &run->db, &status), &status, "kv_open");
    need(run, state_open(run->db, run->options, KV_CREATE, &run->state, &status), &status,
         "state_open");
}

static void close_all(struct run *run)
{
    kv_status status = KV_STATUS_INIT;
    need(run, state_close(run->state, &status), &status, "state_close");
    need(run, kv_close(run->db, &status), &status, "kv_close");
    kv_options_free(run->options);
    run->state = NULL;
}

/* ---- The child ----------------------------------------------------------- */

static void acknowledge(uint64_t version)
{
    if (write(STDOUT_FILENO, &version, sizeof(version)) != (ssize_t)sizeof(version))
        _exit(1);
}

/* Return to the version before `version` and make it anew. Until that is done the state
 * may stand at either, which is what the parent takes from an older acknowledgement. */
static void go_back(struct run *run, uint64_t version)
{
    kv_status status = KV_STATUS_INIT;
    acknowledge(version - 1);
    need(run, state_load_version(run->state, version - 1, &status), &status,
         "state_load_version");
    model_copy(&run->model, &run->before, &run->universe);
    make_version(run);
    need(run, state_commit(run->state, 0, NULL, &status), &status, "state_commit");
    acknowledge(version);
}

static _Noreturn void child_main(char **arguments)
{
    struct run run;
    kv_status status = KV_STATUS_INIT;
    memset(&run, 0, sizeof(run));
    snprintf(run.driver, sizeof(run.driver), "%s", arguments[0]);
    snprintf(run.dir, sizeof(run.dir), "%s", arguments[1]);
    run.seed = strtoull(arguments[2], NULL, 10);
    universe_make(&run.universe, UNIVERSE, run.seed);
    model_init(&run.model, &run.universe);
    open_all(&run);
    model_init(&run.before, &run.universe);
    advance_model(&run, state_version(run.state));
    for (;;) {
        uint64_t version;
        model_copy(&run.before, &run.model, &run.universe);
        make_version(&run);
        need(&run, state_commit(run.state, 0, &version, &status), &status, "state_commit");
        acknowledge(version);
        if (version % 7 == 0 && state_version_oldest(run.state) < version)
            go_back(&run, version);
        if (version % 5 == 0)
            need(&run, state_prune(run.state, 1 + version % 3, &status), &status,
                 "state_prune");
    }
}

/* ---- The parent ---------------------------------------------------------- */

static uint64_t read_acknowledged(int pipe_end, uint64_t least)
{
    uint64_t version, newest = least;
    while (read(pipe_end, &version, sizeof(version)) == (ssize_t)sizeof(version))
        newest = version;
    return newest;
}

/* Run a child, kill it, and answer the last version that it acknowledged. */
static uint64_t run_child(const struct run *run, const char *program, struct random *random,
                          uint64_t version)
{
    int ends[2];
    pid_t child = -1;
    char seed[32];
    posix_spawn_file_actions_t actions;
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)run->seed);
    char *const arguments[] = { (char *)(uintptr_t)program,
                                (char *)(uintptr_t) "child",
                                (char *)(uintptr_t)run->driver,
                                (char *)(uintptr_t)run->dir,
                                seed,
                                NULL };
    if (pipe(ends) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, ends[0]) != 0 ||
        posix_spawn(&child, program, &actions, NULL, arguments, environ) != 0)
        fail(run, "posix_spawn: %s", strerror(errno));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    /* One version to get going, then a random while. */
    uint64_t newest = version, first;
    if (random_below(random, 8) != 0 &&
        read(ends[0], &first, sizeof(first)) == (ssize_t)sizeof(first))
        newest = first;
    struct timespec pause = { 0, (long)random_below(random, 60000000) };
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    newest = read_acknowledged(ends[0], newest);
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail(run, "the child ended by itself, status %d", status);
    return newest;
}

static void check_state(struct run *run)
{
    state_view *view;
    kv_status status = KV_STATUS_INIT;
    if (run->model.version == 0)
        return;
    need(run, state_view_open(run->state, 0, &view, &status), &status, "state_view_open");
    vmap_digest found = state_view_app_hash(view);
    vmap_digest expected = model_app_hash(&run->model, &run->universe, PAGE_BITS);
    if (memcmp(found.bytes, expected.bytes, sizeof(found.bytes)) != 0)
        fail(run, "version %llu has another app hash", (unsigned long long)run->model.version);
    for (size_t map = 0; map < MODEL_MAPS; map++) {
        for (size_t key = 0; run->model.exists[map] && key < run->universe.count; key++) {
            uint8_t buffer[MODEL_VALUE_SIZE_MAX];
            kv_value value;
            uint32_t number = run->model.numbers[map][key];
            kv_code code = state_view_get(view, model_names[map], run->universe.keys[key],
                                          &value, &status);
            if (code != (number == 0 ? KV_NOT_FOUND : KV_OK) ||
                (number != 0 && kv_compare(value.bytes, model_value(number, buffer)) != 0))
                fail(run, "key %zu of map %s is wrong", key, model_names[map]);
            kv_value_release(&value);
        }
    }
    need(run, state_view_verify(view, NULL, NULL, &status), &status, "state_view_verify");
    state_view_close(view);
}

static void sum_pages(void *context, const kv_stat *stat)
{
    uint64_t *pages = context;
    const char *level = strstr(stat->name, ".pages.");
    if (level != NULL && strcmp(level, ".pages.0") != 0)
        *pages += stat->number;
}

/* With one version kept, the store holds its pairs and pages and no more. */
static void check_raw(struct run *run)
{
    uint64_t pairs = 0, pages = 0;
    kv_status status = KV_STATUS_INIT;
    if (run->model.version == 0)
        return;
    need(run, state_prune(run->state, 1, &status), &status, "state_prune");
    need(run, state_settle(run->state, &status), &status, "state_settle");
    for (size_t map = 0; map < MODEL_MAPS; map++) {
        for (size_t key = 0; key < run->universe.count; key++)
            pairs += run->model.numbers[map][key] != 0;
    }
    need(run, state_stats(run->state, sum_pages, &pages, &status), &status, "state_stats");
    uint64_t values = records_count(run->db, "state.values", RECORDS_ALL);
    uint64_t nodes = records_count(run->db, "state.pages", RECORDS_NODES);
    uint64_t history = records_count(run->db, "state.history", RECORDS_ALL);
    uint64_t staged = records_count(run->db, "state.staged", RECORDS_ALL);
    if (values != pairs || nodes != pages || history != 0 || staged != 0)
        fail(run,
             "raw records: values %llu of %llu, nodes %llu of %llu, history %llu, staged "
             "%llu",
             (unsigned long long)values, (unsigned long long)pairs, (unsigned long long)nodes,
             (unsigned long long)pages, (unsigned long long)history,
             (unsigned long long)staged);
}

static void run_kills(const char *program, const char *driver, uint64_t kills, uint64_t seed)
{
    struct run run;
    struct random random = { seed };
    kv_status status = KV_STATUS_INIT;
    char root[64], command[128];
    uint64_t later = 0;
    memset(&run, 0, sizeof(run));
    snprintf(run.driver, sizeof(run.driver), "%s", driver);
    snprintf(root, sizeof(root), "%.40s/statekv-crash-XXXXXX", test_base());
    if (mkdtemp(root) == NULL)
        fail(&run, "mkdtemp");
    snprintf(run.dir, sizeof(run.dir), "%s/db", root);
    run.seed = seed;
    universe_make(&run.universe, UNIVERSE, seed);
    model_init(&run.model, &run.universe);
    for (uint64_t kill_number = 0; kill_number < kills; kill_number++) {
        uint64_t acknowledged = run_child(&run, program, &random, run.model.version);
        open_all(&run);
        uint64_t version = state_version(run.state);
        if (version != acknowledged && version != acknowledged + 1)
            fail(&run, "version %llu after %llu was acknowledged", (unsigned long long)version,
                 (unsigned long long)acknowledged);
        later += version != acknowledged;
        advance_model(&run, version);
        check_state(&run);
        if (!records_history_exact(run.db, run.state))
            fail(&run, "the figures of history are wrong after kill %llu",
                 (unsigned long long)kill_number);
        if (kill_number % 8 == 7)
            check_raw(&run);
        make_version(&run);
        need(&run, state_commit(run.state, 0, NULL, &status), &status, "state_commit");
        check_state(&run);
        close_all(&run);
    }
    printf("%s seed %llu: %llu kills up to version %llu, %llu of them between commit and "
           "acknowledgement\n",
           driver, (unsigned long long)seed, (unsigned long long)kills,
           (unsigned long long)run.model.version, (unsigned long long)later);
    fflush(stdout);
    model_free(&run.model);
    universe_free(&run.universe);
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    if (system(command) != 0)
        fprintf(stderr, "crash: %s stays\n", root);
}

int main(int count, char **arguments)
{
    static const char *const drivers[] = { "leveldb", "rocksdb" };
    enum { KILLS_PER_SEED = 25 };
    if (count == 5 && strcmp(arguments[1], "child") == 0)
        child_main(arguments + 2);
    uint64_t kills = count > 1 ? strtoull(arguments[1], NULL, 10) : 4;
    const char *driver = count > 2 ? arguments[2] : NULL;
    uint64_t seed = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    if (driver != NULL && strcmp(driver, drivers[0]) != 0 && strcmp(driver, drivers[1]) != 0) {
        fprintf(stderr, "crash: %s is neither leveldb nor rocksdb\n", driver);
        return 2;
    }
    for (uint64_t done = 0; done < kills; done += KILLS_PER_SEED, seed++) {
        uint64_t left = kills - done;
        for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
            if (driver == NULL ? kv_driver_find(drivers[i]) != NULL
                               : strcmp(driver, drivers[i]) == 0)
                run_kills(arguments[0], drivers[i],
                          left < KILLS_PER_SEED ? left : KILLS_PER_SEED, seed);
        }
    }
    return 0;
}
