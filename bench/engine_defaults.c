/*
 * engine_defaults.c - what our default options gain over the engines' own.
 *
 *     engine_defaults rocksdb|leveldb raw|ours KEYS READS reopen|keep DIR [name=value ...]
 *
 * Fills the new folder DIR with KEYS random pairs of 32 and 128 bytes (half of
 * a value compresses) in batches of 1,000, waits until the engine's threads are
 * idle, opens it anew or keeps it open, and gets READS random keys that are there and as many
 * that are not, again and again, the first time not measured. Then it writes a tenth of the
 * pairs again, so that write buffers are in use beside a full cache. Every value is checked.
 * "raw" is the engine's C interface with the options it starts from; "ours" takes options to
 * set. Prints rates, CPU time of all threads, and resident memory.
 */
#include "kv/kv.h"

#include <leveldb/c.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KEY_SIZE = 32, VALUE_SIZE = 128, BATCH_KEYS = 1000, MISSING = 4, ROUNDS = 4 };
enum { IDLE_CHECK_MS = 200, IDLE_CHECKS = 5, IDLE_CHECKS_MAX = 1500 };

static kv_status status = KV_STATUS_INIT;
static char *error;
static const char *dir;

static void check(bool good)
{
    if (good && error == NULL)
        return;
    fprintf(stderr, "engine_defaults: %s\n", error != NULL ? error : status.message);
    exit(1);
}

/* ---- The same calls on each side ----------------------------------------- */

struct side {
    void (*open)(void);
    void (*close)(void);
    void (*put)(const char *key, const char *value);
    void (*commit)(void);
    bool (*get)(const char *key, const char *value); /* true if it is there and so */
};

static const char *backend;
static char **settings; /* ended by NULL */
static kv_db *db;
static kv_space *space;
static kv_batch *batch;

static void ours_open(void)
{
    kv_options *options;
    check(kv_options_new(backend, dir, NULL, &options, &status) == KV_OK);
    for (char **setting = settings; *setting != NULL; setting++) {
        char name[128];
        size_t size = strcspn(*setting, "=");
        snprintf(name, sizeof(name), "%.*s", (int)size, *setting);
        check(kv_options_set(options, name, *setting + size + ((*setting)[size] == '='),
                             &status) == KV_OK);
    }
    check(kv_open(options, KV_CREATE, &db, &status) == KV_OK);
    check(kv_space_open(db, "bench", KV_CREATE, &space, &status) == KV_OK);
    check(kv_batch_new(db, &batch, &status) == KV_OK);
    kv_options_free(options);
}

static void ours_close(void)
{
    kv_batch_free(batch);
    check(kv_close(db, &status) == KV_OK);
}

static void ours_put(const char *key, const char *value)
{
    kv_batch_put(batch, space, kv_bytes(key, KEY_SIZE), kv_bytes(value, VALUE_SIZE));
}

static void ours_commit(void)
{
    check(kv_batch_commit(batch, 0, &status) == KV_OK);
}

static bool ours_get(const char *key, const char *value)
{
    kv_value got = KV_VALUE_INIT;
    kv_code code = kv_get(space, NULL, kv_bytes(key, KEY_SIZE), &got, &status);
    check(code == KV_OK || code == KV_NOT_FOUND);
    bool good = code == KV_OK && memcmp(got.bytes.data, value, VALUE_SIZE) == 0;
    kv_value_release(&got);
    return good;
}

static rocksdb_t *rocks;
static rocksdb_writebatch_t *rocks_batch;
static rocksdb_readoptions_t *rocks_read;
static rocksdb_writeoptions_t *rocks_write;

static void rocks_open(void)
{
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocks = rocksdb_open(options, dir, &error);
    check(true);
    rocksdb_options_destroy(options);
    rocks_batch = rocksdb_writebatch_create();
    rocks_read = rocksdb_readoptions_create();
    rocks_write = rocksdb_writeoptions_create();
}

static void rocks_close(void)
{
    rocksdb_writeoptions_destroy(rocks_write);
    rocksdb_readoptions_destroy(rocks_read);
    rocksdb_writebatch_destroy(rocks_batch);
    rocksdb_close(rocks);
}

static void rocks_put(const char *key, const char *value)
{
    rocksdb_writebatch_put(rocks_batch, key, KEY_SIZE, value, VALUE_SIZE);
}

static void rocks_commit(void)
{
    rocksdb_write(rocks, rocks_write, rocks_batch, &error);
    check(true);
    rocksdb_writebatch_clear(rocks_batch);
}

static bool rocks_get(const char *key, const char *value)
{
    size_t size;
    rocksdb_pinnableslice_t *got = rocksdb_get_pinned(rocks, rocks_read, key, KEY_SIZE, &error);
    check(true);
    if (got == NULL)
        return false;
    bool good = memcmp(rocksdb_pinnableslice_value(got, &size), value, VALUE_SIZE) == 0;
    rocksdb_pinnableslice_destroy(got);
    return good;
}

static leveldb_t *level;
static leveldb_writebatch_t *level_batch;
static leveldb_readoptions_t *level_read;
static leveldb_writeoptions_t *level_write;

static void level_open(void)
{
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    level = leveldb_open(options, dir, &error);
    check(true);
    leveldb_options_destroy(options);
    level_batch = leveldb_writebatch_create();
    level_read = leveldb_readoptions_create();
    level_write = leveldb_writeoptions_create();
}

static void level_close(void)
{
    leveldb_writeoptions_destroy(level_write);
    leveldb_readoptions_destroy(level_read);
    leveldb_writebatch_destroy(level_batch);
    leveldb_close(level);
}

static void level_put(const char *key, const char *value)
{
    leveldb_writebatch_put(level_batch, key, KEY_SIZE, value, VALUE_SIZE);
}

static void level_commit(void)
{
    leveldb_write(level, level_write, level_batch, &error);
    check(true);
    leveldb_writebatch_clear(level_batch);
}

static bool level_get(const char *key, const char *value)
{
    size_t size;
    char *got = leveldb_get(level, level_read, key, KEY_SIZE, &size, &error);
    check(true);
    bool good = got != NULL && memcmp(got, value, VALUE_SIZE) == 0;
    leveldb_free(got);
    return good;
}

static const struct side ours = { ours_open, ours_close, ours_put, ours_commit, ours_get };
static const struct side raw_rocks = { rocks_open, rocks_close, rocks_put, rocks_commit,
                                       rocks_get };
static const struct side raw_level = { level_open, level_close, level_put, level_commit,
                                       level_get };

/* ---- Data and figures ---------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Pair `number`; with `salt` MISSING a key that no pair has. */
static void make_pair(uint64_t number, unsigned salt, char *key, char *value)
{
    for (unsigned i = 0; i < KEY_SIZE / 8; i++) {
        uint64_t word = mix(number * 8 + i + salt);
        memcpy(key + 8 * (size_t)i, &word, 8);
    }
    memset(value, 0, VALUE_SIZE);
    for (unsigned i = 0; i < VALUE_SIZE / 16; i++) {
        uint64_t word = mix((UINT64_C(1) << 60) + number * 64 + i);
        memcpy(value + 8 * (size_t)i, &word, 8);
    }
}

struct moment {
    double wall, cpu;
};

static struct moment now(void)
{
    struct timespec time;
    struct rusage usage;
    clock_gettime(CLOCK_MONOTONIC, &time);
    getrusage(RUSAGE_SELF, &usage);
    double micro = (double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec;
    return (struct moment){ (double)time.tv_sec + (double)time.tv_nsec / 1e9,
                            (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                                micro / 1e6 };
}

static double cpu_micros(struct moment from, struct moment to, uint64_t count)
{
    return (to.cpu - from.cpu) / (double)count * 1e6;
}

static double kilo_rate(struct moment from, struct moment to, uint64_t count)
{
    return (double)count / (to.wall - from.wall) / 1e3;
}

/* Wait until the engine's threads have nothing more to do. */
static void wait_until_idle(void)
{
    struct timespec pause = { 0, IDLE_CHECK_MS * 1000000L };
    unsigned idle = 0;
    for (unsigned i = 0; i < IDLE_CHECKS_MAX && idle < IDLE_CHECKS; i++) {
        struct moment before = now();
        nanosleep(&pause, NULL);
        idle = now().cpu - before.cpu < 1e-3 ? idle + 1 : 0;
    }
}

static void print_memory(const char *when)
{
    char line[128];
    long resident = 0, peak = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            resident = strtol(line + 6, NULL, 10);
        else if (strncmp(line, "VmHWM:", 6) == 0)
            peak = strtol(line + 6, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    printf("memory after %s: %ld MiB, at most %ld MiB\n", when, resident / 1024, peak / 1024);
}

static void write_pairs(const struct side *side, uint64_t keys)
{
    char key[KEY_SIZE], value[VALUE_SIZE];
    for (uint64_t i = 0; i < keys; i++) {
        make_pair(i, 0, key, value);
        side->put(key, value);
        if (i % BATCH_KEYS == BATCH_KEYS - 1)
            side->commit();
    }
    side->commit();
}

/* The CPU time includes what is left to the engine's threads at the end. */
static void fill(const struct side *side, uint64_t keys)
{
    struct moment start = now();
    write_pairs(side, keys);
    struct moment written = now();
    print_memory("filling");
    wait_until_idle();
    printf("fill    %8.1f k/s  %6.2f us CPU each\n", kilo_rate(start, written, keys),
           cpu_micros(start, now(), keys));
}

static void read_some(const struct side *side, uint64_t keys, uint64_t reads, unsigned salt,
                      uint64_t round)
{
    char key[KEY_SIZE], value[VALUE_SIZE];
    struct moment start = now();
    for (uint64_t i = 0; i < reads; i++) {
        make_pair(mix((UINT64_C(1) << 50) + round * reads + i) % keys, salt, key, value);
        if (side->get(key, value) != (salt == 0)) {
            fprintf(stderr, "engine_defaults: a wrong answer\n");
            exit(1);
        }
    }
    struct moment end = now();
    if (round > 0)
        printf("%-7s %8.1f k/s  %6.2f us CPU each\n", salt == 0 ? "present" : "absent",
               kilo_rate(start, end, reads), cpu_micros(start, end, reads));
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr,
                "usage: engine_defaults rocksdb|leveldb raw|ours KEYS READS reopen|keep "
                "DIR [name=value ...]\n");
        return 2;
    }
    backend = argv[1];
    const struct side *raw = strcmp(backend, "rocksdb") == 0 ? &raw_rocks : &raw_level;
    const struct side *side = strcmp(argv[2], "raw") == 0 ? raw : &ours;
    uint64_t keys = strtoull(argv[3], NULL, 10), reads = strtoull(argv[4], NULL, 10);
    bool reopen = strcmp(argv[5], "reopen") == 0;
    dir = argv[6];
    settings = argv + 7;

    side->open();
    fill(side, keys);
    if (reopen) {
        side->close();
        side->open();
        wait_until_idle();
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        read_some(side, keys, reads, 0, round);
        read_some(side, keys, reads, MISSING, round);
    }
    print_memory("reading");
    write_pairs(side, keys / 10);
    print_memory("writing more");
    side->close();
    return 0;
}
