/*
 * suite_reconnect.c - ReconnectBench: a learner catches up from a teacher, by every
 * traversal, over every driver. One operation is one reconnect, the switch to the
 * new version included. The states are drawn as the original draws them.
 */
#include "bench/suites.h"

#include "bench/reconnect_data.h"
#include "bench/reconnect_link.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum metric {
    METRIC_BYTES_DOWN,
    METRIC_BYTES_UP,
    METRIC_MESSAGES_DOWN,
    METRIC_MESSAGES_UP,
    METRIC_PAGES,
    METRIC_PAGES_CLEAN,
    METRIC_LEAVES,
    METRIC_LEAVES_CLEAN,
    METRIC_ROUND_TRIPS,
    METRIC_DIFFERING,
    METRIC_DIFFERING_BYTES,
    METRIC_BOUND_US
};

struct side {
    char dir[PATH_MAX];
    kv_options *options;
    kv_db *db;
    state *state;
};

struct rig {
    struct side learner, teacher;
    struct reconnect_data data;
    struct reconnect_drawn drawn;
    struct link_model model;
    reconnect_figures figures;
    unsigned levels;
};

static const kv_option_table *const tables[] = { &state_option_table, NULL };

static uint64_t one(const bench_process *process)
{
    (void)process;
    return 1;
}

/* ---- Sides -------------------------------------------------------------- */

static kv_code side_open(struct side *side, bench_process *process, const char *name,
                         kv_status *status)
{
    snprintf(side->dir, sizeof(side->dir), "%s/%s", process->dir, name);
    bool memory = strcmp(process->backend, "memory") == 0;
    kv_code code = kv_options_new(process->backend, memory ? "" : side->dir, tables,
                                  &side->options, status);
    /* So that each iteration can go back to the version before. */
    if (code == KV_OK)
        code = kv_options_set(side->options, "vmap.keep_recent", "1000", status);
    if (code == KV_OK)
        code = kv_open(side->options, KV_CREATE, &side->db, status);
    return code == KV_OK ? state_open(side->db, side->options, KV_CREATE, &side->state, status)
                         : code;
}

static void side_close(struct side *side)
{
    kv_status status = KV_STATUS_INIT;
    kv_code code = side->state == NULL ? KV_OK : state_close(side->state, &status);
    if (code == KV_OK && side->db != NULL)
        code = kv_close(side->db, &status);
    if (code != KV_OK)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    kv_options_free(side->options);
    memset(side, 0, sizeof(*side));
}

static double share(const bench_process *process, const char *name)
{
    return (double)bench_number(process, name) / 1000;
}

static void read_model(const bench_process *process, struct link_model *model)
{
    const char *network = bench_text(process, "network");
    model->seed = RECONNECT_DATA_SEED;
    if (strcmp(network, "sleep") == 0) {
        model->storage_us = (unsigned)bench_number(process, "delayStorageMicroseconds");
        model->network_us = (unsigned)bench_number(process, "delayNetworkMicroseconds");
        model->storage_fuzz = share(process, "delayStorageFuzz");
        model->network_fuzz = share(process, "delayNetworkFuzz");
        model->learner_share = share(process, "delayLearnerShare");
    } else if (strcmp(network, "lan") == 0) {
        model->latency_us = 270;
        model->bits_second = 200000000;
    } else if (strcmp(network, "wan") == 0) {
        model->latency_us = 40000;
        model->bits_second = 50000000;
    }
}

static kv_code setup_base(bench_process *process, kv_status *status)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    if (rig == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a workload");
    process->state = rig;
    rig->data =
        (struct reconnect_data){ .records = bench_number(process, "numRecords"),
                                 .files = bench_number(process, "numFiles"),
                                 .key_size = (unsigned)bench_number(process, "keySize"),
                                 .record_size = (unsigned)bench_number(process, "recordSize"),
                                 .little_endian =
                                     strcmp(bench_text(process, "keyOrder"), "little") == 0,
                                 .add = share(process, "teacherAddProbability"),
                                 .modify = share(process, "teacherModifyProbability"),
                                 .remove = share(process, "teacherRemoveProbability"),
                                 .seed = (int64_t)bench_number(process, "randomSeed"),
                                 .maps = (unsigned)bench_number(process, "mapCount") };
    read_model(process, &rig->model);
    return side_open(&rig->teacher, process, "teacher", status);
}

static kv_code count_levels(struct rig *rig, kv_status *status)
{
    state_view *view;
    vmap_node node;
    unsigned page_bits, level;
    kv_code code = state_view_open(rig->teacher.state, 0, &view, status);
    if (code != KV_OK)
        return code;
    code = state_view_top(view, "map0", &level, &node, &page_bits, status);
    rig->levels = level + 1;
    state_view_close(view);
    return code;
}

static kv_code setup_both(bench_process *process, kv_status *status)
{
    kv_code code = setup_base(process, status);
    struct rig *rig = process->state;
    if (code == KV_OK)
        code = side_open(&rig->learner, process, "learner", status);
    if (code == KV_OK)
        code = reconnect_data_fill(&rig->data, rig->learner.state, rig->teacher.state,
                                   &rig->drawn, status);
    return code == KV_OK ? count_levels(rig, status) : code;
}

static kv_code setup_teacher(bench_process *process, kv_status *status)
{
    kv_code code = setup_base(process, status);
    struct rig *rig = process->state;
    if (code == KV_OK)
        code = reconnect_data_fill(&rig->data, NULL, rig->teacher.state, &rig->drawn, status);
    return code == KV_OK ? count_levels(rig, status) : code;
}

static void teardown(bench_process *process)
{
    struct rig *rig = process->state;
    if (rig == NULL)
        return;
    side_close(&rig->learner);
    side_close(&rig->teacher);
    free(rig);
}

/* Back to the version before the reconnect. */
static kv_code prepare_old(bench_process *process, kv_status *status)
{
    struct rig *rig = process->state;
    return state_version(rig->learner.state) == 1
               ? KV_OK
               : state_load_version(rig->learner.state, 1, status);
}

/* A new and empty learner. */
static kv_code prepare_empty(bench_process *process, kv_status *status)
{
    struct rig *rig = process->state;
    char dir[PATH_MAX];
    memcpy(dir, rig->learner.dir, sizeof(dir));
    if (rig->learner.db != NULL) {
        side_close(&rig->learner);
        kv_code code = bench_remove(dir, status);
        if (code != KV_OK)
            return code;
    }
    return side_open(&rig->learner, process, "learner", status);
}

static kv_code check(bench_process *process, kv_status *status)
{
    struct rig *rig = process->state;
    vmap_digest learner = state_app_hash(rig->learner.state);
    vmap_digest teacher = state_app_hash(rig->teacher.state);
    if (memcmp(&learner, &teacher, sizeof(learner)) != 0)
        return kv_fail(status, KV_UNPROVEN, "the learner's app hash is not the teacher's");
    return KV_OK;
}

/* ---- Runs --------------------------------------------------------------- */

/* What no traversal can beat: the differing leaves at the bandwidth, and a round
 * trip for each level. */
static uint64_t bound_us(const struct rig *rig)
{
    double us = 2.0 * (double)rig->model.latency_us * rig->levels;
    if (rig->model.bits_second > 0)
        us += (double)rig->drawn.differing_bytes * 8e6 / (double)rig->model.bits_second;
    return (uint64_t)us;
}

static void count(bench_thread *thread, const struct rig *rig)
{
    const reconnect_figures *figures = &rig->figures;
    const struct {
        enum metric metric;
        uint64_t number;
    } list[] = {
        { METRIC_BYTES_DOWN, figures->bytes_in },
        { METRIC_BYTES_UP, figures->bytes_out },
        { METRIC_MESSAGES_DOWN, figures->messages_in },
        { METRIC_MESSAGES_UP, figures->messages_out },
        { METRIC_PAGES, figures->pages },
        { METRIC_PAGES_CLEAN, figures->pages_clean },
        { METRIC_LEAVES, figures->leaves },
        { METRIC_LEAVES_CLEAN, figures->leaves_clean },
        { METRIC_ROUND_TRIPS, figures->round_trips },
        { METRIC_DIFFERING, rig->drawn.differing },
        { METRIC_DIFFERING_BYTES, rig->drawn.differing_bytes },
        { METRIC_BOUND_US, bound_us(rig) },
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        bench_count(thread, list[i].metric, list[i].number);
}

static kv_code run_traversal(bench_thread *thread, reconnect_traversal traversal,
                             kv_status *status)
{
    struct rig *rig = thread->process->state;
    /* A node is told the app hash by consensus. */
    reconnect_goal goal = { .traversal = traversal,
                            .app_hash_known = true,
                            .app_hash = state_app_hash(rig->teacher.state) };
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        code = link_run(&rig->model, rig->learner.db, rig->learner.state, rig->teacher.state,
                        &goal, &rig->figures, status);
        if (code == KV_OK)
            count(thread, rig);
    }
    return code;
}

static kv_code run_push(bench_thread *thread, kv_status *status)
{
    return run_traversal(thread, RECONNECT_PUSH, status);
}

static kv_code run_level_poll(bench_thread *thread, kv_status *status)
{
    return run_traversal(thread, RECONNECT_LEVEL_POLL, status);
}

static kv_code run_level(bench_thread *thread, kv_status *status)
{
    return run_traversal(thread, RECONNECT_LEVEL, status);
}

static kv_code run_pull(bench_thread *thread, kv_status *status)
{
    return run_traversal(thread, RECONNECT_PULL, status);
}

static kv_code run_diff(bench_thread *thread, kv_status *status)
{
    return run_traversal(thread, RECONNECT_DIFF, status);
}

/* The pairs of the teacher's map put into an empty state, without a reconnect. */
static kv_code import_map(struct rig *rig, state_view *view, const char *name,
                          kv_status *status)
{
    vmap *map;
    vmap_iter *iter;
    kv_code code = state_map_open(rig->learner.state, name, KV_CREATE, &map, status);
    if (code == KV_OK)
        code = state_view_iter_open(view, name, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = vmap_iter_first(iter); on && code == KV_OK; on = vmap_iter_next(iter))
        code = vmap_put(map, vmap_iter_key(iter), vmap_iter_value(iter), status);
    if (code == KV_OK)
        code = vmap_iter_status(iter, status);
    vmap_iter_close(iter);
    return code;
}

static kv_code run_import(bench_thread *thread, kv_status *status)
{
    struct rig *rig = thread->process->state;
    kv_code code = KV_OK;
    while (code == KV_OK && bench_next(thread)) {
        state_view *view;
        size_t maps;
        uint64_t version;
        code = state_view_open(rig->teacher.state, 0, &view, status);
        if (code != KV_OK)
            break;
        const vmap_named_root *roots = state_view_maps(view, &maps);
        for (size_t i = 0; i < maps && code == KV_OK; i++)
            code = import_map(rig, view, roots[i].name, status);
        state_view_close(view);
        if (code == KV_OK)
            code = state_commit(rig->learner.state, KV_SYNC, &version, status);
    }
    return code;
}

#define TRAVERSAL(name, run, help)                                                            \
    {                                                                                         \
        name, help, "reconnect", BENCH_LOOSE, one, run, NULL, setup_both, prepare_old, check, \
            teardown                                                                          \
    }

static const bench_workload workloads[] = {
    TRAVERSAL("push", run_push, "The teacher sends breadth first and never waits"),
    TRAVERSAL("level-by-level-poll", run_level_poll,
              "It waits for answers about the level just sent, as the original does"),
    TRAVERSAL("level-by-level", run_level,
              "It waits for all answers about the level that is next"),
    TRAVERSAL("pull", run_pull, "The learner asks page by page"),
    TRAVERSAL("diff", run_diff, "The learner tells what it has; only what differs comes"),
    { "full", "diff into an empty state", "reconnect", BENCH_LOOSE, one, run_diff, NULL,
      setup_teacher, prepare_empty, check, teardown },
    { "import", "The same pairs put into an empty state without a reconnect", "import",
      BENCH_LOOSE, one, run_import, NULL, setup_teacher, prepare_empty, check, teardown },
    { 0 },
};

static const bench_parameter parameters[] = {
    { "numRecords", "1000", "50", NULL, "records in a file" },
    { "numFiles", "100", "20", NULL, "files; the states hold numRecords x numFiles keys" },
    { "keySize", "8", NULL, NULL, "bytes in a key" },
    { "recordSize", "128", NULL, NULL, "bytes in a key and its value" },
    { "keyOrder", "big", NULL, "big,little", "byte order of the numbers that are the keys" },
    { "teacherAddProbability", "10", NULL, NULL, "in thousandths" },
    { "teacherModifyProbability", "10", NULL, NULL, "in thousandths" },
    { "teacherRemoveProbability", "10", NULL, NULL, "in thousandths" },
    { "randomSeed", "9823452658", NULL, NULL, "of java.util.Random" },
    { "mapCount", "1", NULL, NULL, "maps with these keys" },
    { "network", "sleep", NULL, "none,sleep,lan,wan",
      "sleeps per message; 270 us, 200 Mbit/s; or 40 ms, 50 Mbit/s" },
    { "delayStorageMicroseconds", "100", NULL, NULL, "slept by who sends a message" },
    { "delayNetworkMicroseconds", "50", NULL, NULL, "slept by its writer" },
    { "delayStorageFuzz", "150", NULL, NULL, "in thousandths of that delay" },
    { "delayNetworkFuzz", "150", NULL, NULL, "in thousandths of that delay" },
    { "delayLearnerShare", "1000", NULL, NULL,
      "in thousandths of both delays: what the learner's messages cost" },
    { 0 },
};

static const bench_metric metrics[] = {
    { "bytes_received", "bytes", false, false },
    { "bytes_sent", "bytes", false, false },
    { "messages_received", "messages", false, false },
    { "messages_sent", "messages", false, false },
    { "pages", "pages", false, false },
    { "pages_clean", "pages", false, false },
    { "leaves", "leaves", false, false },
    { "leaves_clean", "leaves", false, false },
    { "round_trips", "round trips", false, false },
    { "differing", "keys", false, true },
    { "differing_bytes", "bytes", false, true },
    { "bound_us", "us", false, true },
    { 0 },
};

/* The original's document, whose poll is its level-by-level: seconds of an operation. */
static const bench_published published[] = {
    { "original (another tree, other machine)", "push", 5.551, 0.892 },
    { "original (another tree, other machine)", "level-by-level-poll", 3.943, 0.168 },
    { 0 },
};

const bench_suite bench_suite_reconnect = {
    .name = "reconnect",
    .help = "ReconnectBench: a learner catches up from a teacher.",
    .workloads = workloads,
    .parameters = parameters,
    .metrics = metrics,
    .tables = tables,
    .published = published,
};
