/* care.c - figures, sizes, compaction, copies and many threads. */
#include "test/contract/contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Figures -------------------------------------------------------------------- */

struct figures {
    size_t count;
    char names[8][32];
    uint64_t numbers[8];
};

static void note(void *context, const kv_stat *stat)
{
    struct figures *figures = context;
    cr_assert(stat->name != NULL && stat->name[0] != '\0', "a figure without a name");
    if (figures->count < 8) {
        snprintf(figures->names[figures->count], 32, "%s", stat->name);
        figures->numbers[figures->count] = stat->number;
    }
    figures->count++;
}

CONTRACT_TEST(care, figures)
{
    static const char *const names[] = {
        "keys_estimate",  "size_disk_bytes", "size_memory_bytes",
        "live_iterators", "live_snapshots",  "live_batches",
        "spaces"
    };
    struct store store;
    contract_store(&store, row);
    store_space(&store, "second");
    for (char key[2] = "a"; key[0] <= 'z'; key[0]++)
        put(store.space, key, key);
    kv_iter *iters[2] = { iter_open(store.space, NULL, NULL),
                          iter_open(store.space, NULL, NULL) };
    kv_snapshot *snapshot = NULL;
    assert_ok(kv_snapshot_take(store.db, &snapshot, status));
    struct figures figures = { .count = 0 };
    assert_ok(kv_stats(store.db, note, &figures, status));
    cr_assert(figures.count >= 7, "%zu figures", figures.count);
    for (int i = 0; i < 7; i++)
        cr_assert(strcmp(figures.names[i], names[i]) == 0, "figure %d is %s, not %s", i,
                  figures.names[i], names[i]);
    cr_assert(figures.numbers[3] == 2 && figures.numbers[4] == 1 && figures.numbers[5] == 0,
              "live handles");
    cr_assert(figures.numbers[6] == 2, "%llu spaces", (unsigned long long)figures.numbers[6]);
    kv_iter_close(iters[0]);
    kv_iter_close(iters[1]);
    kv_snapshot_release(snapshot);
    store_free(&store);
}

CONTRACT_TEST(care, approximate_sizes_and_compaction)
{
    enum { COUNT = 200 };
    struct store store;
    contract_store(&store, row);
    char value[1001];
    char key[16];
    uint64_t all = 0;
    uint64_t half = 0;
    uint64_t empty = 1;
    for (int i = 0; i < 1000; i++)
        value[i] = (char)('a' + (i * 31 + i / 7) % 26);
    value[1000] = '\0';
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof(key), "%06d", i);
        put(store.space, key, value);
    }
    assert_ok(kv_sync(store.db, status));
    assert_ok(kv_compact(store.space, NULL, status));
    kv_range range = text_range(NULL, "000100");
    if (kv_db_driver(store.db)->approximate_size == NULL) {
        assert_code(KV_UNSUPPORTED, kv_approximate_size(store.space, NULL, &all, status));
        cr_assert(all == 0, "an answer and a refusal");
        empty = 0;
    } else {
        assert_ok(kv_approximate_size(store.space, NULL, &all, status));
        assert_ok(kv_approximate_size(store.space, &range, &half, status));
        range = text_range("z", NULL);
        assert_ok(kv_approximate_size(store.space, &range, &empty, status));
    }
    cr_assert(half <= all && empty <= all, "%llu of %llu", (unsigned long long)half,
              (unsigned long long)all);

    range = text_range("000050", "000150");
    assert_ok(kv_delete_range(store.space, &range, 0, status));
    assert_ok(kv_compact(store.space, &range, status));
    assert_text(get(store.space, "000050"), "-");
    assert_text(get(store.space, "000149"), "-");
    cr_assert(strcmp(get(store.space, "000049"), value) == 0, "49");
    cr_assert(strcmp(get(store.space, "000150"), value) == 0, "150");
    store_free(&store);
}

/* ---- Copies ---------------------------------------------------------------------- */

CONTRACT_TEST_DURABLE(care, a_copy_while_in_use)
{
    struct store store;
    char path[TEST_PATH_SIZE];
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    put(store.space, "a", "1");
    put(other, "b", "2");
    contract_path(path, store.root, "copy");
    kv_iter *iter = iter_open(store.space, NULL, NULL);
    assert_ok(kv_checkpoint(store.db, path, status));
    put(store.space, "a", "changed");
    put(store.space, "c", "new");
    cr_assert(kv_checkpoint(store.db, path, NULL) != KV_OK, "over a copy that is there");
    kv_iter_close(iter);

    kv_db *copy = NULL;
    kv_space *space = NULL;
    assert_ok(contract_open(row->driver, path, 0, &copy, status)); /* both open */
    assert_ok(kv_space_open(copy, "default", 0, &space, status));
    assert_text(pairs_at(space, NULL), "a=1");
    put(space, "d", "in the copy");
    assert_ok(kv_space_open(copy, "other", 0, &space, status));
    assert_text(pairs_at(space, NULL), "b=2");
    assert_ok(kv_close(copy, status));
    store_reopen(&store);
    assert_text(pairs_at(store.space, NULL), "a=changed c=new");
    contract_path(path, store.root, "no/such/folder/copy");
    cr_assert(kv_checkpoint(store.db, path, NULL) != KV_OK || access(path, F_OK) == 0, "where");
    store_free(&store);
}

/* A writer that changes six keys in each of two spaces by one batch, all to the batch's
 * number, until it is told to stop. */
enum { COPY_WRITERS = 2, COPY_KEYS = 6, COPIES = 5 };

struct copied {
    struct store *store;
    kv_space *spaces[2];
    int writer;
    atomic_bool *stop;
    atomic_int begun, done; /* batches */
};

static kv_slice copied_key(char text[32], int writer, int key)
{
    return kv_bytes(text, (size_t)snprintf(text, 32, "%d-%d", writer, key));
}

static void *write_until_stopped(void *context)
{
    struct copied *copied = context;
    kv_batch *batch = NULL;
    assert_ok(kv_batch_new(copied->store->db, &batch, status));
    while (!atomic_load(copied->stop)) {
        char key[32];
        char value[32];
        int number = atomic_fetch_add(&copied->begun, 1) + 1;
        snprintf(value, sizeof(value), "%d", number);
        for (int k = 0; k < 2 * COPY_KEYS; k++)
            kv_batch_put(batch, copied->spaces[k % 2], copied_key(key, copied->writer, k / 2),
                         kv_text(value));
        assert_ok(kv_batch_commit(batch, 0, status));
        atomic_store(&copied->done, number);
    }
    kv_batch_free(batch);
    return NULL;
}

/* In the copy every key of a writer is as one and the same batch left it: none that was
 * acknowledged before the copy began is missing, none that began after it ended is in. */
static void check_copy(const char *driver, const char *path, int writer, int least, int most)
{
    kv_db *copy = NULL;
    char first[16] = "";
    assert_ok(contract_open(driver, path, 0, &copy, status));
    for (int k = 0; k < 2 * COPY_KEYS; k++) {
        kv_space *space = NULL;
        char key[32];
        copied_key(key, writer, k / 2);
        assert_ok(kv_space_open(copy, k % 2 == 0 ? "default" : "other", 0, &space, status));
        const char *value = get(space, key);
        if (k == 0)
            snprintf(first, sizeof(first), "%s", value);
        cr_assert(strcmp(value, first) == 0, "torn: %s is of batch %s, others of %s", key,
                  value, first);
    }
    int number = strcmp(first, "-") == 0 ? 0 : (int)strtol(first, NULL, 10);
    cr_assert(least <= number && number <= most, "batch %d, not of %d to %d", number, least,
              most);
    assert_ok(kv_close(copy, status));
}

CONTRACT_TEST_DURABLE(care, copies_under_writers)
{
    struct store store;
    contract_store(&store, row);
    kv_space *other = store_space(&store, "other");
    struct copied copied[COPY_WRITERS];
    pthread_t threads[COPY_WRITERS];
    atomic_bool stop = false;
    for (int w = 0; w < COPY_WRITERS; w++) {
        copied[w] = (struct copied){
            .store = &store, .spaces = { store.space, other }, .writer = w, .stop = &stop
        };
        pthread_create(&threads[w], NULL, write_until_stopped, &copied[w]);
    }
    for (int c = 0; c < COPIES; c++) {
        char path[TEST_PATH_SIZE];
        int least[COPY_WRITERS];
        contract_path(path, store.root, "copy");
        for (int w = 0; w < COPY_WRITERS; w++)
            while ((least[w] = atomic_load(&copied[w].done)) < 3 * (c + 1))
                usleep(1000); /* they are at it */
        assert_ok(kv_checkpoint(store.db, path, status));
        for (int w = 0; w < COPY_WRITERS; w++)
            check_copy(row->driver, path, w, least[w], atomic_load(&copied[w].begun));
        test_folder_remove(path);
    }
    atomic_store(&stop, true);
    for (int w = 0; w < COPY_WRITERS; w++)
        pthread_join(threads[w], NULL);
    store_free(&store);
}

/* ---- Threads --------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 300, KEYS_EACH = 20 };

struct crowd {
    struct store *store;
    atomic_int stop;
    atomic_int torn;
};

struct member {
    struct crowd *crowd;
    int number;
};

/* Each writer keeps its own keys equal to one another, by batches. */
static void *write_batches(void *context)
{
    struct member *member = context;
    struct store *store = member->crowd->store;
    int rounds = strstr(store->driver, "shadow") != NULL ? ROUNDS / 30 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        kv_batch *batch = NULL;
        char key[32];
        char value[32];
        assert_ok(kv_batch_new(store->db, &batch, status));
        snprintf(value, sizeof(value), "%06d", i);
        for (int k = 0; k < KEYS_EACH; k++) {
            snprintf(key, sizeof(key), "%d-%02d", member->number, k);
            kv_batch_put(batch, store->space, kv_text(key), kv_text(value));
        }
        assert_ok(kv_batch_commit(batch, 0, status));
        kv_batch_free(batch);
        snprintf(key, sizeof(key), "x-%d", member->number);
        put(store->space, key, value);
        if (i % 3 == 0)
            del(store->space, key);
    }
    return NULL;
}

/* Each reader sees the keys of a writer all equal, whole, and never going back. */
static void *read_all(void *context)
{
    struct member *member = context;
    struct crowd *crowd = member->crowd;
    char last[32] = "";
    while (!atomic_load(&crowd->stop)) {
        char prefix[8];
        char limit[8];
        char seen[32] = "";
        int count = 0;
        snprintf(prefix, sizeof(prefix), "%d-", member->number);
        kv_range range = kv_range_of_prefix(kv_text(prefix), limit);
        kv_iter *iter = iter_open(crowd->store->space, NULL, &range);
        for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
            kv_slice value = kv_iter_value(iter);
            char text[32];
            snprintf(text, sizeof(text), "%.*s", (int)value.size, (const char *)value.data);
            if (count++ == 0)
                strcpy(seen, text);
            else if (strcmp(seen, text) != 0)
                atomic_fetch_add(&crowd->torn, 1);
        }
        kv_iter_close(iter);
        if ((count != 0 && count != KEYS_EACH) || strcmp(seen, last) < 0)
            atomic_fetch_add(&crowd->torn, 1);
        strcpy(last, seen);
        snprintf(prefix, sizeof(prefix), "%d-00", member->number);
        kv_value value = KV_VALUE_INIT;
        kv_code code = kv_get(crowd->store->space, NULL, kv_text(prefix), &value, NULL);
        if (code != KV_OK && code != KV_NOT_FOUND)
            atomic_fetch_add(&crowd->torn, 1);
        kv_value_release(&value);
    }
    return NULL;
}

CONTRACT_TEST(care, many_threads)
{
    struct store store;
    contract_store(&store, row);
    struct crowd crowd = { .store = &store };
    struct member members[THREADS];
    pthread_t writers[THREADS];
    pthread_t readers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){ &crowd, i };
        pthread_create(&readers[i], NULL, read_all, &members[i]);
        pthread_create(&writers[i], NULL, write_batches, &members[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&crowd.stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(readers[i], NULL);
    cr_assert(atomic_load(&crowd.torn) == 0, "%d torn reads", atomic_load(&crowd.torn));
    store_free(&store);
}

/* A batch made by one thread and committed by another; an iterator likewise. */
static void *commit_it(void *context)
{
    assert_ok(kv_batch_commit(context, 0, status));
    return NULL;
}

CONTRACT_TEST(care, handles_pass_between_threads)
{
    struct store store;
    contract_store(&store, row);
    kv_batch *batch = NULL;
    pthread_t thread;
    assert_ok(kv_batch_new(store.db, &batch, status));
    kv_batch_put(batch, store.space, kv_text("a"), kv_text("1"));
    pthread_create(&thread, NULL, commit_it, batch);
    pthread_join(thread, NULL);
    kv_batch_put(batch, store.space, kv_text("b"), kv_text("2"));
    assert_ok(kv_batch_commit(batch, 0, status));
    kv_batch_free(batch);
    assert_text(pairs_at(store.space, NULL), "a=1 b=2");
    store_free(&store);
}
