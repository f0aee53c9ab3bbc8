/*
 * store.c - many threads on one memory database, for ThreadSanitizer.
 *
 * Writers put, delete, commit batches over two spaces and drop spaces; readers
 * get, walk, and hold snapshots and values. What they see is checked: the two
 * halves of a batch are equal at every moment, a single reader never sees a
 * counter go back, and all memory is given back at the end.
 *
 *     race_store [milliseconds]
 */
#include "kv/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WRITERS = 2, READERS = 3, KEYS = 500 };

static kv_db *db;
static kv_space *left, *right;
static atomic_bool stop;
static atomic_ulong writes, reads, drops;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static uint32_t chance(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* Keys of writer w are "w<w>-<i>". */
static kv_slice key_of(char text[32], unsigned writer, unsigned i)
{
    int size = snprintf(text, 32, "w%u-%06u", writer, i);
    return kv_bytes(text, (size_t)size);
}

static void write_pair(unsigned writer, uint32_t number)
{
    kv_batch *batch = NULL;
    char key[32];
    CHECK(kv_batch_new(db, &batch, NULL) == KV_OK);
    kv_slice value = kv_bytes(&number, sizeof(number));
    kv_batch_put(batch, left, key_of(key, writer, 0), value);
    kv_batch_put(batch, right, key_of(key, writer, 0), value);
    kv_code code = kv_batch_commit(batch, 0, NULL);
    CHECK(code == KV_OK || code == KV_BAD_STATE); /* a space was dropped meanwhile */
    kv_batch_free(batch);
}

static void *write_things(void *context)
{
    unsigned writer = (unsigned)(uintptr_t)context;
    uint64_t state = writer + 1;
    for (uint32_t number = 1; !atomic_load(&stop); number++) {
        char key[32];
        char value[64] = "";
        unsigned i = 1 + chance(&state, KEYS);
        snprintf(value, sizeof(value), "%u", number);
        kv_space *space = chance(&state, 2) == 0 ? left : right;
        if (chance(&state, 3) == 0)
            CHECK(kv_delete(space, key_of(key, writer, i), 0, NULL) == KV_OK);
        else
            CHECK(kv_put(space, key_of(key, writer, i), kv_text(value), 0, NULL) == KV_OK);
        if (number % 8 == 0)
            write_pair(writer, number);
        if (number % 1000 == 0) {
            kv_space *space_made = NULL;
            snprintf(value, sizeof(value), "made-%u", writer);
            CHECK(kv_space_open(db, value, KV_CREATE, &space_made, NULL) == KV_OK);
            CHECK(kv_put(space_made, kv_text("k"), kv_text("v"), 0, NULL) == KV_OK);
            CHECK(kv_space_drop(space_made, NULL) == KV_OK);
            atomic_fetch_add(&drops, 1);
        }
        atomic_fetch_add_explicit(&writes, 1, memory_order_relaxed);
    }
    return NULL;
}

static uint32_t number_at(kv_space *space, const kv_snapshot *snapshot, unsigned writer)
{
    kv_read read = { .snapshot = snapshot };
    kv_value value = KV_VALUE_INIT;
    char key[32];
    uint32_t number = 0;
    kv_code code = kv_get(space, &read, key_of(key, writer, 0), &value, NULL);
    CHECK(code == KV_OK || code == KV_NOT_FOUND);
    if (code == KV_OK)
        memcpy(&number, value.bytes.data, sizeof(number));
    kv_value_release(&value);
    return number;
}

static void walk(const kv_snapshot *snapshot)
{
    kv_read read = { .snapshot = snapshot };
    kv_iter *iter = NULL;
    char last[32] = "";
    size_t last_size = 0;
    CHECK(kv_iter_open(left, &read, NULL, &iter, NULL) == KV_OK);
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        CHECK(kv_compare(kv_bytes(last, last_size), key) < 0);
        memcpy(last, key.data, key.size);
        last_size = key.size;
    }
    CHECK(kv_iter_status(iter, NULL) == KV_OK);
    kv_iter_close(iter);
}

static void *read_things(void *context)
{
    uint64_t state = 1000 + (uint64_t)(uintptr_t)context;
    uint32_t seen[WRITERS] = { 0 };
    kv_value kept = KV_VALUE_INIT;
    while (!atomic_load(&stop)) {
        unsigned writer = chance(&state, WRITERS);
        uint32_t number = number_at(chance(&state, 2) == 0 ? left : right, NULL, writer);
        CHECK(number >= seen[writer]); /* never back */
        seen[writer] = number;
        if (chance(&state, 50) == 0) {
            kv_snapshot *snapshot = NULL;
            CHECK(kv_snapshot_take(db, &snapshot, NULL) == KV_OK);
            for (unsigned i = 0; i < WRITERS; i++)
                CHECK(number_at(left, snapshot, i) == number_at(right, snapshot, i));
            if (chance(&state, 4) == 0)
                walk(snapshot);
            kv_snapshot_release(snapshot);
        }
        if (chance(&state, 200) == 0)
            walk(NULL);
        char key[32];
        kv_value value = KV_VALUE_INIT;
        kv_code code =
            kv_get(left, NULL, key_of(key, writer, 1 + chance(&state, KEYS)), &value, NULL);
        if (code == KV_OK && chance(&state, 10) == 0) {
            kv_value_release(&kept); /* held over many writes */
            kept = value;
        } else {
            kv_value_release(&value);
        }
        atomic_fetch_add_explicit(&reads, 1, memory_order_relaxed);
    }
    kv_value_release(&kept);
    return NULL;
}

static void memory_used(void *context, const kv_stat *stat)
{
    if (strcmp(stat->name, "size_memory_bytes") == 0)
        *(uint64_t *)context = stat->number;
}

int main(int argc, char **argv)
{
    long duration_ms = argc > 1 ? atol(argv[1]) : 2000;
    kv_options *options = NULL;
    CHECK(kv_options_new("memory", "", NULL, &options, NULL) == KV_OK);
    CHECK(kv_open(options, KV_CREATE, &db, NULL) == KV_OK);
    kv_options_free(options);
    CHECK(kv_space_open(db, "left", KV_CREATE, &left, NULL) == KV_OK);
    CHECK(kv_space_open(db, "right", KV_CREATE, &right, NULL) == KV_OK);
    uint64_t before = 0;
    CHECK(kv_stats(db, memory_used, &before, NULL) == KV_OK);

    pthread_t threads[WRITERS + READERS];
    for (unsigned i = 0; i < WRITERS + READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i < WRITERS ? write_things : read_things,
                             (void *)(uintptr_t)i) == 0);
    struct timespec wait = { duration_ms / 1000, duration_ms % 1000 * 1000000 };
    nanosleep(&wait, NULL);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < WRITERS + READERS; i++)
        pthread_join(threads[i], NULL);

    CHECK(kv_delete_range(left, NULL, 0, NULL) == KV_OK);
    CHECK(kv_delete_range(right, NULL, 0, NULL) == KV_OK);
    uint64_t after = 0;
    CHECK(kv_stats(db, memory_used, &after, NULL) == KV_OK);
    printf("%lu writes, %lu reads; memory %llu before, %llu after\n", atomic_load(&writes),
           atomic_load(&reads), (unsigned long long)before, (unsigned long long)after);
    /* A dropped space may leave its place among the roots, and nothing else. */
    CHECK(after <= before + 8 * atomic_load(&drops));
    CHECK(kv_close(db, NULL) == KV_OK);
    return 0;
}
