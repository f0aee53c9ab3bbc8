/*
 * history.c - are random histories of many threads what their isolation level says?
 *
 * Every write first reads its key and stores a value that names its transaction, so
 * the versions of a key form a chain that the checker can rebuild from what was read.
 * Over all committed transactions it draws
 *
 *     write-read    T wrote the version that U read           T -> U
 *     write-write   U read and overwrote the version of T     T -> U
 *     read-write    T read a version that U overwrote         T -> U
 *
 * (Adya, "Weak Consistency", 1999). Serializable: no circle. Snapshot: no lost update
 * (a version overwritten twice), no read of what never committed, and in every circle
 * two read-write edges in a row (Fekete et al., 2005), so none without them.
 *
 * usage: history DRIVER optimistic|pessimistic serializable|snapshot THREADS COUNT SEED
 */
#include "kv/txn.h"
#include "test/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 12, OPS_MAX = 6 };

struct access {
    uint32_t seen[KEYS]; /* the version read, by transaction; NOT_READ */
    uint32_t wrote;      /* a bit per key */
    bool committed;
};

#define NOT_READ UINT32_MAX

struct run {
    kv_txn_manager *manager;
    kv_space *space;
    struct access *accesses; /* by transaction; 0 is the empty beginning */
    uint32_t per_thread;
    uint64_t seed;
};

struct worker {
    struct run *run;
    uint32_t index;
    pthread_t thread;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static uint64_t draw(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static void see(struct access *access, unsigned key, kv_slice value)
{
    uint32_t version = 0;
    if (value.size == sizeof(version))
        memcpy(&version, value.data, sizeof(version));
    if ((access->wrote & 1u << key) == 0 && access->seen[key] == NOT_READ)
        access->seen[key] = version;
    else if ((access->wrote & 1u << key) == 0 && access->seen[key] != version)
        die("history", "a transaction read two versions of one key");
}

static kv_code do_read(struct run *run, kv_txn *txn, struct access *access, unsigned key,
                       bool for_update, kv_status *status)
{
    char name = (char)('a' + key);
    kv_value value = KV_VALUE_INIT;
    kv_code code =
        for_update ? kv_txn_get_for_update(txn, run->space, kv_bytes(&name, 1), &value, status)
                   : kv_txn_get(txn, run->space, kv_bytes(&name, 1), &value, status);
    if (code == KV_OK || code == KV_NOT_FOUND)
        see(access, key, value.bytes);
    kv_value_release(&value);
    return code == KV_NOT_FOUND ? KV_OK : code;
}

static kv_code do_write(struct run *run, kv_txn *txn, struct access *access, unsigned key,
                        uint32_t self, kv_status *status)
{
    char name = (char)('a' + key);
    kv_code code = do_read(run, txn, access, key, true, status);
    if (code == KV_OK)
        code = kv_txn_put(txn, run->space, kv_bytes(&name, 1), kv_bytes(&self, sizeof(self)),
                          status);
    if (code == KV_OK)
        access->wrote |= 1u << key;
    return code;
}

/* Read a range; a key that is not there was read as version 0. */
static kv_code do_scan(struct run *run, kv_txn *txn, struct access *access, unsigned first,
                       unsigned limit, bool back, kv_status *status)
{
    char from = (char)('a' + first), to = (char)('a' + limit);
    kv_range range = { kv_bytes(&from, 1), kv_bytes(&to, 1) };
    kv_txn_iter *iter;
    kv_code code = kv_txn_iter_open(txn, run->space, &range, &iter, status);
    if (code != KV_OK)
        return code;
    kv_slice values[KEYS] = { { NULL, 0 } };
    uint32_t copies[KEYS];
    bool on = back ? kv_txn_iter_last(iter) : kv_txn_iter_first(iter);
    for (; on; on = back ? kv_txn_iter_prev(iter) : kv_txn_iter_next(iter)) {
        unsigned key = (unsigned)(*(const char *)kv_txn_iter_key(iter).data - 'a');
        memcpy(&copies[key], kv_txn_iter_value(iter).data, sizeof(copies[key]));
        values[key] = kv_bytes(&copies[key], sizeof(copies[key]));
    }
    code = kv_txn_iter_status(iter, status);
    for (unsigned key = first; key < limit && code == KV_OK; key++)
        see(access, key, values[key]);
    kv_txn_iter_close(iter);
    return code;
}

static kv_code transact(struct run *run, kv_txn *txn, struct access *access, uint32_t self,
                        uint64_t *random, kv_status *status)
{
    unsigned ops = 1 + (unsigned)(draw(random) % OPS_MAX);
    kv_code code = KV_OK;
    for (unsigned i = 0; i < ops && code == KV_OK; i++) {
        if (draw(random) % 2 == 0) /* so that transactions overlap, also where they are fast */
            nanosleep(&(struct timespec){ 0, 20000 }, NULL);
        unsigned key = (unsigned)(draw(random) % KEYS), kind = (unsigned)(draw(random) % 8);
        if (kind == 0)
            code = do_scan(run, txn, access, key / 2, key / 2 + 4, draw(random) % 2, status);
        else if (kind < 5)
            code = do_read(run, txn, access, key, false, status);
        else
            code = do_write(run, txn, access, key, self, status);
    }
    return code;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    uint64_t random = run->seed * 1000003 + worker->index + 1;
    for (uint32_t i = 0; i < run->per_thread; i++) {
        uint32_t self = 1 + worker->index * run->per_thread + i;
        struct access *access = &run->accesses[self];
        kv_status status = KV_STATUS_INIT;
        kv_txn *txn;
        if (kv_txn_begin(run->manager, &txn, &status) != KV_OK)
            die("begin", status.message);
        kv_code code = transact(run, txn, access, self, &random, &status);
        bool drop = draw(&random) % 10 == 0; /* some abort after all their writes */
        if (code == KV_OK && !drop)
            code = kv_txn_commit(txn, &status);
        access->committed = code == KV_OK && !drop;
        if (code != KV_OK && code != KV_CONFLICT && code != KV_DEADLOCK && code != KV_TIMEOUT &&
            code != KV_TOO_OLD)
            die(kv_code_name(code), status.message);
        kv_txn_close(txn);
    }
    return NULL;
}

/* ---- The checker ----------------------------------------------------------- */

struct graph {
    const struct access *accesses;
    uint32_t count;
    uint32_t *overwriter; /* [key * count + version]: who overwrote it, 0 none */
    unsigned char *color; /* of the search */
    bool with_read_write;
};

static void chains_build(struct graph *graph)
{
    for (uint32_t t = 1; t < graph->count; t++) {
        const struct access *access = &graph->accesses[t];
        for (unsigned key = 0; key < KEYS && access->committed; key++) {
            uint32_t seen = access->seen[key];
            if (seen == NOT_READ)
                continue;
            if (seen != 0 && (!graph->accesses[seen].committed ||
                              (graph->accesses[seen].wrote & 1u << key) == 0))
                die("dirty read", "a version was read that never committed");
            if ((access->wrote & 1u << key) == 0)
                continue;
            uint32_t *overwriter = &graph->overwriter[key * graph->count + seen];
            if (*overwriter != 0)
                die("lost update", "one version was overwritten by two transactions");
            *overwriter = t;
        }
    }
}

static void visit(struct graph *graph, uint32_t t);

static void follow(struct graph *graph, uint32_t from, uint32_t to)
{
    if (to == 0 || to == from)
        return;
    if (graph->color[to] == 1)
        die("circle", graph->with_read_write ? "the history is not serializable"
                                             : "a circle without read-write edges");
    if (graph->color[to] == 0)
        visit(graph, to);
}

/* Depth first; the edges out of `t` are found from what it read and wrote. */
static void visit(struct graph *graph, uint32_t t)
{
    graph->color[t] = 1;
    const struct access *access = &graph->accesses[t];
    for (unsigned key = 0; key < KEYS; key++) {
        if ((access->wrote & 1u << key) != 0) {
            follow(graph, t, graph->overwriter[key * graph->count + t]);
            for (uint32_t reader = 1; reader < graph->count; reader++)
                if (graph->accesses[reader].committed && graph->accesses[reader].seen[key] == t)
                    follow(graph, t, reader);
        }
        if (graph->with_read_write && access->seen[key] != NOT_READ)
            follow(graph, t, graph->overwriter[key * graph->count + access->seen[key]]);
    }
    graph->color[t] = 2;
}

static void check(struct graph *graph)
{
    chains_build(graph);
    for (uint32_t t = 1; t < graph->count; t++)
        if (graph->accesses[t].committed && graph->color[t] == 0)
            visit(graph, t);
}

static kv_txn_options options_of(char **argv)
{
    kv_txn_options options = { .timeout_ms = 5000 };
    if (strcmp(argv[2], "pessimistic") == 0)
        options.mode = KV_TXN_PESSIMISTIC;
    if (strcmp(argv[3], "snapshot") == 0)
        options.isolation = KV_TXN_SNAPSHOT;
    return options;
}

static void run_all(struct run *run, unsigned threads)
{
    struct worker *workers = calloc(threads, sizeof(*workers));
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .run = run, .index = i };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            die("pthread_create", "failed");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
}

static uint32_t committed_count(const struct access *accesses, uint32_t count)
{
    uint32_t committed = 0;
    for (uint32_t t = 1; t < count; t++)
        committed += accesses[t].committed;
    return committed;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        die("usage", "history DRIVER MODE ISOLATION THREADS COUNT SEED");
    unsigned threads = (unsigned)strtoul(argv[4], NULL, 10);
    struct run run = { .per_thread = (uint32_t)strtoul(argv[5], NULL, 10),
                       .seed = strtoull(argv[6], NULL, 10) };
    uint32_t count = threads * run.per_thread + 1;
    run.accesses = calloc(count, sizeof(*run.accesses));
    for (uint32_t t = 0; t < count; t++)
        memset(run.accesses[t].seen, 0xff, sizeof(run.accesses[t].seen));

    struct store store;
    store_new(&store, argv[1]);
    run.space = store.space;
    kv_txn_options options = options_of(argv);
    kv_status status = KV_STATUS_INIT;
    if (kv_txn_manager_open(store.db, &options, &run.manager, &status) != KV_OK)
        die("open", status.message);
    run_all(&run, threads);

    struct graph graph = { .accesses = run.accesses, .count = count };
    graph.with_read_write = options.isolation == KV_TXN_SERIALIZABLE;
    graph.overwriter = calloc((size_t)count * KEYS, sizeof(*graph.overwriter));
    graph.color = calloc(count, 1);
    check(&graph);

    kv_txn_counts counts = kv_txn_manager_counts(run.manager);
    uint32_t committed = committed_count(run.accesses, count);
    printf("%s %s %s: %u of %u committed, %llu conflicts, %llu deadlocks, %llu waits\n",
           argv[1], argv[2], argv[3], committed, count - 1,
           (unsigned long long)counts.conflicts, (unsigned long long)counts.deadlocks,
           (unsigned long long)counts.lock_waits);
    if (committed < (count - 1) / 20)
        die("progress", "hardly anything committed");
    if (kv_txn_manager_close(run.manager, &status) != KV_OK)
        die("close", status.message);
    store_free(&store);
    free(graph.overwriter);
    free(graph.color);
    free(run.accesses);
    return 0;
}
