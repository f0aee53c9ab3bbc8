/*
 * follow.c - a follower beside the process that writes, which is killed now and then.
 *
 *     test_state_follow SECONDS [DRIVER [SEED]]
 *
 * Version v sets every fifth key to v, so that a version's number tells all its values. The
 * follower must never see a version that holds anything else, must prove each it sees from
 * its values, and must get to the newest.
 */
#include "vmap/state.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    KEYS = 4000,
    STEP = 5,
    LOOKS = 40,
    LIFE_MS = 1500,
    STALL_MS = 20000,
    PAUSE_US = 5000,
    MOVES_MIN = 10
};

extern char **environ;

struct place {
    char dir[64];
    const char *driver;
    uint64_t seed;
    kv_options *options;
    kv_db *db;
    state *state;
};

static void need(kv_code code, const kv_status *status, const char *what)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "follow: %s: %s: %s\n", what, kv_code_name(code), status->message);
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static kv_code try_open(struct place *place, unsigned flags, kv_status *status)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    kv_code code = kv_options_new(place->driver, place->dir, tables, &place->options, status);
    need(code, status, "options");
    /* Half of the seeds apply every commit in parts; small buffers make many tables. */
    const char *const settings[][2] = {
        { "vmap.keep_recent", "20" },
        { "vmap.batch_size", place->seed % 2 == 0 ? "8192" : "16MiB" },
        { "kv.rocksdb.memory_budget", "16MiB" },
        { "kv.rocksdb.write_buffers", "1MiB" },
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        need(kv_options_set(place->options, settings[i][0], settings[i][1], status), status,
             settings[i][0]);
    code = kv_open(place->options, flags, &place->db, status);
    if (code == KV_OK)
        code = state_open(place->db, place->options, flags, &place->state, status);
    if (code != KV_OK) {
        if (place->db != NULL && kv_close(place->db, NULL) != KV_OK)
            exit(1);
        kv_options_free(place->options);
        place->db = NULL;
    }
    return code;
}

static void close_all(struct place *place)
{
    kv_status status = KV_STATUS_INIT;
    need(state_close(place->state, &status), &status, "state_close");
    need(kv_close(place->db, &status), &status, "kv_close");
    kv_options_free(place->options);
}

static kv_slice key_of(uint64_t key, char text[16])
{
    return kv_bytes(text, (size_t)snprintf(text, 16, "key-%llu", (unsigned long long)key));
}

static bool sets(uint64_t version, uint64_t key)
{
    return version <= STEP || (version + key) % STEP == 0;
}

/* The version that set `key` last, as of `version`. */
static uint64_t value_of(uint64_t version, uint64_t key)
{
    while (!sets(version, key))
        version--;
    return version;
}

/* ---- The writer ---------------------------------------------------------- */

static _Noreturn void writer(struct place *place)
{
    kv_status status = KV_STATUS_INIT;
    uint64_t version;
    vmap *map;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    need(try_open(place, KV_CREATE, &status), &status, "writer");
    need(state_map_open(place->state, "m", KV_CREATE, &map, &status), &status, "map");
    for (;;) {
        uint64_t next = state_version(place->state) + 1;
        for (uint64_t key = 0; key < KEYS; key++) {
            char text[16];
            if (sets(next, key))
                need(vmap_put(map, key_of(key, text), kv_bytes(&next, sizeof(next)), &status),
                     &status, "put");
        }
        need(state_commit(place->state, 0, &version, &status), &status, "commit");
        usleep(place->seed % 2 == 0 ? 10 * PAUSE_US : PAUSE_US);
    }
}

/* A process of its own from the start: an engine's threads do not live through a fork. */
static pid_t start_writer(const struct place *place)
{
    char seed[24], self[] = "/proc/self/exe", word[] = "writer", dir[64], driver[16];
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)place->seed);
    snprintf(dir, sizeof(dir), "%s", place->dir);
    snprintf(driver, sizeof(driver), "%s", place->driver);
    char *const arguments[] = { self, word, driver, seed, dir, NULL };
    pid_t pid;
    if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0)
        exit(1);
    return pid;
}

/* ---- The follower -------------------------------------------------------- */

static void check_key(state_view *view, uint64_t key)
{
    char text[16];
    kv_status status = KV_STATUS_INIT;
    kv_value value;
    uint64_t got, version = state_view_version(view);
    uint64_t want = value_of(version, key);
    need(state_view_get(view, "m", key_of(key, text), &value, &status), &status, text);
    memcpy(&got, value.bytes.data, sizeof(got));
    if (got != want) {
        fprintf(stderr, "follow: version %llu has %s = %llu, not %llu\n",
                (unsigned long long)version, text, (unsigned long long)got,
                (unsigned long long)want);
        exit(1);
    }
    kv_value_release(&value);
}

static void check_view(struct place *place, uint64_t version, bool whole)
{
    kv_status status = KV_STATUS_INIT;
    state_view *view;
    need(state_view_open(place->state, version, &view, &status), &status, "view");
    for (int i = 0; i < LOOKS; i++)
        check_key(view, (uint64_t)rand() % KEYS);
    if (whole)
        need(state_view_verify(view, NULL, NULL, &status), &status, "verify");
    state_view_close(view);
}

static void follow(struct place *place, uint64_t seconds)
{
    kv_status status = KV_STATUS_INIT;
    pid_t child = start_writer(place);
    uint64_t end = now_ms() + seconds * 1000, kill_at = now_ms() + LIFE_MS, seen = 0, moves = 0;
    state_view *held = NULL;
    kv_code code;
    while ((code = try_open(place, KV_FOLLOW, &status)) != KV_OK && now_ms() < end)
        usleep(5000); /* nothing there yet, or the middle of a commit */
    need(code, &status, "follower");
    uint64_t moved_at = now_ms();
    while (now_ms() < end || moves < MOVES_MIN) { /* a busy machine takes longer */
        if (now_ms() >= kill_at) { /* and its successor goes on from what it left */
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            child = start_writer(place);
            kill_at = now_ms() + LIFE_MS;
        }
        code = state_follow(place->state, &status);
        if (code != KV_BUSY)
            need(code, &status, "state_follow");
        uint64_t newest = state_version(place->state);
        if (newest < seen || now_ms() - moved_at > STALL_MS) {
            fprintf(stderr, "follow: at version %llu after %llu\n", (unsigned long long)newest,
                    (unsigned long long)seen);
            exit(1);
        }
        if (newest > seen) {
            seen = newest;
            moved_at = now_ms();
            moves++;
            check_view(place, 0, moves % 8 == 0);
            check_view(place, state_version_oldest(place->state), false);
            if (held != NULL) { /* as it was, though the state has moved on */
                check_key(held, (uint64_t)rand() % KEYS);
                state_view_close(held);
                held = NULL;
            } else {
                need(state_view_open(place->state, 0, &held, &status), &status, "view");
            }
        }
        usleep(2000);
    }
    state_view_close(held);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close_all(place);
    printf("driver %s seed %llu: saw %llu versions, the last %llu\n", place->driver,
           (unsigned long long)place->seed, (unsigned long long)moves,
           (unsigned long long)seen);
}

/* ---- In one process ------------------------------------------------------ */

static void put_and_commit(struct place *place, uint64_t value)
{
    kv_status status = KV_STATUS_INIT;
    uint64_t version;
    vmap *map;
    need(state_map_open(place->state, "m", KV_CREATE, &map, &status), &status, "map");
    need(vmap_put(map, kv_text("key"), kv_bytes(&value, sizeof(value)), &status), &status,
         "put");
    need(state_commit(place->state, 0, &version, &status), &status, "commit");
}

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "follow: not so: %s\n", what);
    exit(1);
}

/* Views hold a follower up, a writer that goes back takes it along. */
static void moments(const char *dir, const char *driver)
{
    kv_status status = KV_STATUS_INIT;
    struct place writer = { .driver = driver, .seed = 1 }, reader = writer;
    state_view *first, *second;
    snprintf(writer.dir, sizeof(writer.dir), "%s", dir);
    snprintf(reader.dir, sizeof(reader.dir), "%s", dir);
    need(try_open(&writer, KV_CREATE, &status), &status, "writer");
    expect(state_follow(writer.state, &status) == KV_BAD_STATE, "a writer follows nobody");
    put_and_commit(&writer, 1);
    need(try_open(&reader, KV_FOLLOW, &status), &status, "reader");
    put_and_commit(&writer, 2);
    expect(state_version(reader.state) == 1, "it moves on when told");
    need(state_view_open(reader.state, 0, &first, &status), &status, "view");
    need(state_follow(reader.state, &status), &status, "follow");
    need(state_view_open(reader.state, 0, &second, &status), &status, "view");
    put_and_commit(&writer, 3);
    expect(state_follow(reader.state, &status) == KV_BUSY, "two views hold it up");
    expect(state_version(reader.state) == 2 && state_view_version(first) == 1, "nobody moved");
    state_view_close(first);
    need(state_follow(reader.state, &status), &status, "follow");
    expect(state_version(reader.state) == 3, "it moves on once one is closed");
    state_view_close(second);
    kv_space *space;
    need(kv_space_open(reader.db, "state", 0, &space, &status), &status, "space");
    expect(kv_put(space, kv_text("k"), kv_text("v"), 0, &status) == KV_READ_ONLY, "no write");
    need(state_load_version(writer.state, 2, &status), &status, "load");
    for (int i = 0; i < 10; i++)
        need(state_follow(reader.state, &status), &status, "follow");
    expect(state_version(reader.state) == 2, "it goes back with the writer");
    close_all(&reader);
    close_all(&writer);
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const char *driver = argc > 2 ? argv[2] : "rocksdb";
    if (argc > 4) {
        struct place place = { .driver = driver, .seed = seed };
        snprintf(place.dir, sizeof(place.dir), "%s", argv[4]);
        writer(&place);
    }
    for (uint64_t round = seed; round < seed + 3; round++) {
        struct place place = { .driver = driver, .seed = round };
        char command[128];
        snprintf(place.dir, sizeof(place.dir), "/tmp/statekv-follow-test-XXXXXX");
        if (mkdtemp(place.dir) == NULL)
            return 1;
        srand((unsigned)round);
        if (round == seed)
            moments(place.dir, driver);
        else
            follow(&place, seconds);
        snprintf(command, sizeof(command), "rm -rf %s", place.dir);
        if (system(command) != 0)
            return 1;
    }
    return 0;
}
