/*
 * prune.c - a prune in which every call of the driver fails in turn.
 *
 *     fault_prune DRIVER [STEP]
 *
 * A state of six versions, one of its maps dropped in the fifth, is pruned to two. The n-th
 * call from there on fails, once or for good. A fault must never pass for the end of the data:
 * every version that is still kept must be whole, the fault told, and the next try
 * must leave exactly what a prune without a fault leaves.
 */
#include "test/base.h"
#include "test/fault/shim.h"
#include "test/state/records.h"
#include "vmap/state.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERSIONS = 6, KEPT = 2, KEYS = 500, CHANGES = 450, DROPPED_IN = 5 };
enum { WRONG_MAX = 20 };

struct subject {
    char name[32]; /* of the shim's driver */
    char root[128];
    kv_options *options;
    kv_db *db;
    state *state;
    vmap_digest app_hashes[VERSIONS + 1];
};

struct left { /* records after a prune */
    uint64_t values, nodes, history;
};

static void need(kv_code code, const kv_status *status, const char *what)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, kv_code_name(code), status->message);
    exit(1);
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    return remove(path);
}

static void open_subject(struct subject *subject)
{
    kv_status status = KV_STATUS_INIT;
    if (subject->db == NULL)
        need(kv_open(subject->options, KV_CREATE, &subject->db, &status), &status, "kv_open");
    need(state_open(subject->db, subject->options, KV_CREATE, &subject->state, &status),
         &status, "state_open");
}

static void put_some(state *self, const char *name, uint64_t version)
{
    vmap *map;
    kv_status status = KV_STATUS_INIT;
    need(state_map_open(self, name, KV_CREATE, &map, &status), &status, "state_map_open");
    for (uint64_t i = 0; i < CHANGES; i++) {
        uint64_t key[2] = { (i * 7 + version * 31) % KEYS, 0 };
        uint64_t value[3] = { version, i, 0 };
        kv_slice name_of = kv_bytes(key, sizeof(key));
        kv_code code = (i + version) % 9 == 0
                           ? vmap_delete(map, name_of, &status)
                           : vmap_put(map, name_of, kv_bytes(value, sizeof(value)), &status);
        need(code, &status, "change");
    }
}

static void subject_make(struct subject *subject)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    kv_status status = KV_STATUS_INIT;
    char dir[160];
    snprintf(subject->root, sizeof(subject->root), "%.80s/statekv-prune-XXXXXX", test_base());
    if (mkdtemp(subject->root) == NULL)
        abort();
    snprintf(dir, sizeof(dir), "%s/db", subject->root);
    need(kv_options_new(subject->name, dir, tables, &subject->options, &status), &status,
         "options");
    need(kv_options_set(subject->options, "vmap.page_bits", "3", &status), &status, "options");
    need(kv_options_set(subject->options, "vmap.threads", "1", &status), &status, "options");
    open_subject(subject);
    for (uint64_t version = 1; version <= VERSIONS; version++) {
        put_some(subject->state, "stays", version);
        if (version < DROPPED_IN)
            put_some(subject->state, "goes", version);
        if (version == DROPPED_IN)
            need(state_map_drop(subject->state, "goes", &status), &status, "drop");
        need(state_commit(subject->state, 0, NULL, &status), &status, "state_commit");
        subject->app_hashes[version] = state_app_hash(subject->state);
    }
    need(state_settle(subject->state, &status), &status, "state_settle");
}

static void subject_free(struct subject *subject)
{
    kv_status status = KV_STATUS_INIT;
    need(state_close(subject->state, &status), &status, "state_close");
    need(kv_close(subject->db, &status), &status, "kv_close");
    kv_options_free(subject->options);
    nftw(subject->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    subject->state = NULL;
    subject->db = NULL;
}

/* ---- Looking --------------------------------------------------------------------- */

/* Whether every kept version has all its pairs, by its digests and the app hash it had. */
static bool versions_whole(const struct subject *subject)
{
    kv_status status = KV_STATUS_INIT;
    for (uint64_t version = state_version_oldest(subject->state); version <= VERSIONS;
         version++) {
        state_view *view;
        kv_code code = state_view_open(subject->state, version, &view, &status);
        if (code == KV_OK)
            code = state_view_verify(view, NULL, NULL, &status);
        vmap_digest app_hash = { { 0 } };
        if (code == KV_OK)
            app_hash = state_view_app_hash(view);
        state_view_close(view);
        if (code != KV_OK ||
            memcmp(app_hash.bytes, subject->app_hashes[version].bytes, VMAP_DIGEST_SIZE) != 0) {
            fprintf(stderr, "version %d is not whole: %s\n", (int)version, status.message);
            return false;
        }
    }
    return true;
}

static struct left count_left(const struct subject *subject)
{
    return (struct left){ records_count(subject->db, "state.values", RECORDS_ALL),
                          records_count(subject->db, "state.pages", RECORDS_NODES),
                          records_count(subject->db, "state.history", RECORDS_ALL) };
}

/* The next try, and what it leaves, also after opening again. */
static bool retry_completes(struct subject *subject, const struct left *wanted)
{
    kv_status status = KV_STATUS_INIT;
    kv_code code = state_prune(subject->state, KEPT, &status);
    if (code == KV_READ_ONLY) { /* a write failed, and none are taken until it is opened anew */
        if ((kv_driver_find(subject->name)->caps & KV_CAP_DURABLE) == 0)
            return true;
        need(state_close(subject->state, &status), &status, "state_close");
        need(kv_close(subject->db, &status), &status, "kv_close");
        subject->db = NULL;
        open_subject(subject);
        code = state_prune(subject->state, KEPT, &status);
    }
    need(code, &status, "the next state_prune");
    need(state_settle(subject->state, &status), &status, "the next state_settle");
    struct left left = count_left(subject);
    bool good = records_history_exact(subject->db, subject->state) &&
                memcmp(&left, wanted, sizeof(left)) == 0 && versions_whole(subject);
    if (memcmp(&left, wanted, sizeof(left)) != 0)
        fprintf(stderr, "left: values %lu of %lu, nodes %lu of %lu, history %lu of %lu\n",
                (unsigned long)left.values, (unsigned long)wanted->values,
                (unsigned long)left.nodes, (unsigned long)wanted->nodes,
                (unsigned long)left.history, (unsigned long)wanted->history);
    need(state_close(subject->state, &status), &status, "state_close");
    open_subject(subject);
    return good && state_version_oldest(subject->state) == VERSIONS - KEPT + 1 &&
           versions_whole(subject);
}

/* ---- Turns ----------------------------------------------------------------------- */

struct turns {
    unsigned long calls, told, absorbed, wrong;
    struct left left; /* by a prune without a fault */
};

static void turn(struct turns *turns, const char *driver, unsigned long nth, kv_code fault,
                 bool stay)
{
    struct subject subject = { .db = NULL };
    kv_status first = KV_STATUS_INIT, second = KV_STATUS_INIT;
    snprintf(subject.name, sizeof(subject.name), "f.%.24s", driver);
    fault_shim_fail(0, KV_OK, false);
    subject_make(&subject);
    fault_shim_fail(nth, fault, stay);
    kv_code pruned = state_prune(subject.state, KEPT, &first);
    kv_code settled = state_settle(subject.state, &second);
    unsigned long calls = fault_shim_calls();
    fault_shim_fail(0, KV_OK, false);
    uint64_t oldest = state_version_oldest(subject.state);
    bool good = oldest == (pruned == KV_OK ? VERSIONS - KEPT + 1u : 1) &&
                (pruned == KV_OK || pruned == fault) &&
                (settled == KV_OK || settled == KV_IO) && versions_whole(&subject);
    struct left left = count_left(&subject);
    if (nth > 0 && pruned == KV_OK && settled == KV_OK) /* nothing was told: all is done */
        good = good && memcmp(&left, &turns->left, sizeof(left)) == 0;
    if (nth == 0) {
        turns->calls = calls;
        turns->left = left;
    } else if (!retry_completes(&subject, &turns->left)) {
        good = false;
    }
    if (pruned != KV_OK || settled != KV_OK)
        turns->told++;
    else
        turns->absorbed++;
    turns->wrong += !good;
    if (!good)
        fprintf(stderr, "%s, call %lu, %s%s: prune %s, settle %s, oldest %lu\n", driver, nth,
                kv_code_name(fault), stay ? " from there on" : "", kv_code_name(pruned),
                kv_code_name(settled), (unsigned long)oldest);
    subject_free(&subject);
}

int main(int argc, char **argv)
{
    static const kv_code codes[] = { KV_IO, KV_CORRUPT };
    unsigned long step = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    const kv_driver *inner = argc > 1 ? kv_driver_find(argv[1]) : NULL;
    struct turns turns = { 0 };
    if (inner == NULL) {
        fprintf(stderr, "usage: %s DRIVER [STEP]\n", argv[0]);
        return 2;
    }
    fault_shim_register(inner);
    turn(&turns, inner->name, 0, KV_OK, false);
    if (turns.wrong > 0 || turns.told > 0 || turns.left.history == 0) {
        fprintf(stderr, "%s fails with nothing injected\n", inner->name);
        return 1;
    }
    turns.absorbed = 0;
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned long nth = 1 + i * (step / 4); nth <= turns.calls; nth += step) {
            turn(&turns, inner->name, nth, codes[i % 2], i >= 2);
            if (turns.wrong >= WRONG_MAX)
                return 1;
        }
    }
    printf(
        "%s: %lu calls of a prune; failed in turn, once and for good: %lu told, %lu absorbed, "
        "%lu wrong\n",
        inner->name, turns.calls, turns.told, turns.absorbed, turns.wrong);
    return turns.wrong > 0 || turns.told == 0;
}
