/* plan.c - the command line of a suite, and the combinations it asks for. */
#include "bench/harness.h"
#include "kv/driver.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
    KEY_DB = 0x1000,
    KEY_CONFIG,
    KEY_SET,
    KEY_FORKS,
    KEY_WARMUP,
    KEY_ITERATIONS,
    KEY_THREADS,
    KEY_SEED,
    KEY_QUICK,
    KEY_JSON,
    KEY_CHILD_FILE,
    KEY_CHILD_FORK,
    KEY_CHILD_DIR,
    KEY_CHILD_SHARED_DIR,
    KEY_PARAMETER /* and up, in the table's order */
};

static const struct argp_option common_options[] = {
    { "db", KEY_DB, "BACKEND:DIR", 0,
      "A database to measure, in a scratch folder made in DIR; repeatable. Default: every "
      "driver, "
      "in $TMPDIR",
      1 },
    { "config", KEY_CONFIG, "FILE", 0, "Engine options from a TOML file", 1 },
    { "set", KEY_SET, "NAME=VALUE", 0, "One engine option, as kv.rocksdb.block_cache=64MiB",
      1 },
    { "forks", KEY_FORKS, "N", 0, "Processes per row (2)", 1 },
    { "warmup", KEY_WARMUP, "N", 0, "Iterations thrown away in each process (3)", 1 },
    { "iterations", KEY_ITERATIONS, "N", 0, "Iterations measured in each process (5)", 1 },
    { "threads", KEY_THREADS, "LIST", 0, "Threads that run the workload (1)", 1 },
    { "seed", KEY_SEED, "N", 0, "Seed of keys, values and orders (42)", 1 },
    { "quick", KEY_QUICK, NULL, 0, "Small sizes, one process, three iterations: seconds in all",
      1 },
    { "json", KEY_JSON, "FILE", 0, "Write the results to FILE; - is standard output", 1 },
    { "child-file", KEY_CHILD_FILE, "N", OPTION_HIDDEN, NULL, 1 },
    { "child-fork", KEY_CHILD_FORK, "N", OPTION_HIDDEN, NULL, 1 },
    { "child-dir", KEY_CHILD_DIR, "DIR", OPTION_HIDDEN, NULL, 1 },
    { "child-shared-dir", KEY_CHILD_SHARED_DIR, "DIR", OPTION_HIDDEN, NULL, 1 },
};
enum { COMMON_OPTIONS = sizeof(common_options) / sizeof(common_options[0]) };

/* ---- Values --------------------------------------------------------------- */

bool bench_number_parse(const char *text, uint64_t *out)
{
    static const struct {
        const char *text;
        double factor;
    } units[] = { { "", 1 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 } };

    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || errno != 0 || !(number >= 0.0))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        double value = number * units[i].factor;
        if (strcmp(end, units[i].text) != 0)
            continue;
        if (value > 9007199254740992.0 || floor(value) != value)
            return false;
        *out = (uint64_t)value;
        return true;
    }
    return false;
}

static bool is_choice(const char *choices, const char *text, size_t size)
{
    for (const char *at = choices; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        if (length == size && strncmp(at, text, size) == 0)
            return true;
    }
    return false;
}

/* Split a comma list; numbers become plain digits, so that rows made from "1e5"
 * and from "100000" have one name. The reason for a refusal, or NULL. */
static const char *values_parse(struct bench_values *values, const char *text,
                                const char *choices)
{
    values->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (values->count == BENCH_VALUES_MAX)
            return "has too many values";
        if (length == 0 || length >= BENCH_TEXT_SIZE)
            return "has an empty or overlong value";

        char *value = values->texts[values->count++];
        snprintf(value, BENCH_TEXT_SIZE, "%.*s", (int)length, at);
        uint64_t number;
        if (choices == NULL) {
            if (!bench_number_parse(value, &number))
                return "takes whole numbers, such as 1000, 1e6 or 64KiB";
            snprintf(value, BENCH_TEXT_SIZE, "%llu", (unsigned long long)number);
        } else if (!is_choice(choices, value, length)) {
            return "takes other values, see --help";
        }
        at += length;
        if (*at == '\0')
            return NULL;
    }
}

static unsigned number_argument(struct argp_state *state, const char *name, const char *text,
                                uint64_t min, uint64_t max)
{
    uint64_t number;
    if (!bench_number_parse(text, &number) || number < min || number > max)
        argp_error(state, "--%s takes a number from %llu to %llu, not '%s'", name,
                   (unsigned long long)min, (unsigned long long)max, text);
    return (unsigned)number;
}

static void database_argument(struct argp_state *state, struct bench_plan *plan,
                              const char *text)
{
    size_t length = strcspn(text, ":");
    char name[BENCH_TEXT_SIZE];
    snprintf(name, sizeof(name), "%.*s", (int)length, text);
    const kv_driver *driver = kv_driver_find(name);
    if (plan->databases_count == BENCH_DATABASES_MAX)
        argp_error(state, "more than %u times --db", BENCH_DATABASES_MAX);
    else if (driver == NULL)
        argp_error(state, "--db %s: no driver is called '%s'", text, name);
    else {
        struct bench_database *database = &plan->databases[plan->databases_count++];
        snprintf(database->backend, sizeof(database->backend), "%s", driver->name);
        snprintf(database->dir, sizeof(database->dir), "%s",
                 text[length] == ':' ? text + length + 1 : "");
    }
}

/* ---- The parser ----------------------------------------------------------- */

static unsigned parameters_count(const bench_suite *suite)
{
    unsigned count = 0;
    while (suite->parameters != NULL && suite->parameters[count].name != NULL)
        count++;
    return count;
}

static void list_argument(struct argp_state *state, struct bench_values *values,
                          const char *name, const char *text, const char *choices)
{
    const char *reason = values_parse(values, text, choices);
    if (reason != NULL)
        argp_error(state, "--%s %s, not '%s'", name, reason, text);
}

static void parse_workload(struct argp_state *state, struct bench_plan *plan, const char *name)
{
    const bench_workload *workload = bench_workload_find(plan->suite, name);
    if (workload == NULL)
        argp_error(state, "suite %s has no workload '%s', see --help", plan->suite->name, name);
    else if (plan->workloads_count == BENCH_SETS_MAX)
        argp_error(state, "more than %u workloads", BENCH_SETS_MAX);
    else
        plan->workloads[plan->workloads_count++] = workload->name;
}

static error_t parse_child(int key, char *text, struct argp_state *state)
{
    struct bench_plan *plan = state->input;
    switch (key) {
    case KEY_CHILD_FILE:
        plan->child_file = (int)number_argument(state, "child-file", text, 0, INT_MAX);
        return 0;
    case KEY_CHILD_FORK:
        plan->fork = number_argument(state, "child-fork", text, 0, BENCH_FORKS_MAX);
        return 0;
    case KEY_CHILD_DIR:
        plan->child_dir = text;
        return 0;
    case KEY_CHILD_SHARED_DIR:
        plan->child_shared_dir = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct bench_plan *plan = state->input;
    unsigned parameter = (unsigned)(key - KEY_PARAMETER);
    if (key >= KEY_PARAMETER && parameter < parameters_count(plan->suite)) {
        const bench_parameter *spec = &plan->suite->parameters[parameter];
        list_argument(state, &plan->parameters[parameter], spec->name, text, spec->choices);
        return 0;
    }
    switch (key) {
    case KEY_DB:
        database_argument(state, plan, text);
        return 0;
    case KEY_CONFIG:
        plan->config = text;
        return 0;
    case KEY_SET:
        if (plan->sets_count == BENCH_SETS_MAX || strchr(text, '=') == NULL)
            argp_error(state, "--set takes name=value, at most %u times", BENCH_SETS_MAX);
        else
            plan->sets[plan->sets_count++] = text;
        return 0;
    case KEY_FORKS:
        plan->forks = number_argument(state, "forks", text, 1, BENCH_FORKS_MAX);
        return 0;
    case KEY_WARMUP:
        plan->warmup = number_argument(state, "warmup", text, 0, BENCH_ITERATIONS_MAX);
        return 0;
    case KEY_ITERATIONS:
        plan->iterations = number_argument(state, "iterations", text, 1, BENCH_ITERATIONS_MAX);
        return 0;
    case KEY_THREADS:
        list_argument(state, &plan->threads, "threads", text, NULL);
        return 0;
    case KEY_SEED:
        if (!bench_number_parse(text, &plan->seed))
            argp_error(state, "--seed takes a whole number, not '%s'", text);
        return 0;
    case KEY_QUICK:
        plan->quick = true;
        return 0;
    case KEY_JSON:
        plan->json_path = text;
        return 0;
    case ARGP_KEY_ARG:
        parse_workload(state, plan, text);
        return 0;
    default:
        return parse_child(key, text, state);
    }
}

/* The list of workloads, printed at the end of --help. */
static char *help_filter(int key, const char *text, void *input)
{
    const struct bench_plan *plan = input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return text != NULL ? strdup(text) : NULL; /* argp frees what is not its own */

    char *list = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&list, &size);
    if (out == NULL)
        return NULL;
    fprintf(out, "Workloads (default: all):\n");
    for (const bench_workload *each = plan->suite->workloads; each->name != NULL; each++)
        fprintf(out, "  %-20s %s\n", each->name, each->help);
    fclose(out);
    return list;
}

static void fill_defaults(struct bench_plan *plan)
{
    const bench_suite *suite = plan->suite;
    for (unsigned i = 0; i < parameters_count(suite); i++) {
        const bench_parameter *spec = &suite->parameters[i];
        const char *fallback =
            plan->quick && spec->quick != NULL ? spec->quick : spec->fallback;
        if (plan->parameters[i].count == 0 &&
            values_parse(&plan->parameters[i], fallback, spec->choices) != NULL)
            abort(); /* the suite's own table is wrong */
    }
    if (plan->threads.count == 0 && values_parse(&plan->threads, "1", NULL) != NULL)
        abort();
    plan->forks = plan->forks != 0 ? plan->forks : plan->quick ? 1 : 2;
    plan->iterations = plan->iterations != 0 ? plan->iterations : plan->quick ? 3 : 5;
    if (plan->warmup == UINT_MAX)
        plan->warmup = plan->quick ? 1 : 3;

    if ((suite->flags & BENCH_NO_DATABASE) != 0) {
        plan->databases_count = 1;
        snprintf(plan->databases[0].backend, BENCH_TEXT_SIZE, "none");
    }
    const kv_driver *driver;
    for (size_t i = 0; plan->databases_count == i && (driver = kv_driver_at(i)) != NULL &&
                       i < BENCH_DATABASES_MAX;
         i++)
        snprintf(plan->databases[plan->databases_count++].backend, BENCH_TEXT_SIZE, "%s",
                 driver->name);
}

void bench_plan_parse(struct bench_plan *plan, const bench_suite *suite, int argc, char **argv)
{
    *plan =
        (struct bench_plan){ .suite = suite, .seed = 42, .warmup = UINT_MAX, .child_file = -1 };
    struct argp_option options[COMMON_OPTIONS + BENCH_PARAMETERS_MAX + 1] = { { 0 } };
    memcpy(options, common_options, sizeof(common_options));
    char help[BENCH_PARAMETERS_MAX][256];
    for (unsigned i = 0; i < parameters_count(suite); i++) {
        const bench_parameter *spec = &suite->parameters[i];
        snprintf(help[i], sizeof(help[i]), "%s%s%s (%s)", spec->help,
                 spec->choices != NULL ? ", of " : "",
                 spec->choices != NULL ? spec->choices : "", spec->fallback);
        options[COMMON_OPTIONS + i] =
            (struct argp_option){ spec->name, KEY_PARAMETER + (int)i, "LIST", 0, help[i], 2 };
    }
    const struct argp argp = { options,     parse_option, "[WORKLOAD...]", suite->help, NULL,
                               help_filter, NULL };
    if (argp_parse(&argp, argc, argv, 0, NULL, plan) != 0)
        exit(BENCH_USAGE);
    for (unsigned i = 0; i < plan->threads.count; i++) {
        uint64_t threads;
        if (!bench_number_parse(plan->threads.texts[i], &threads) || threads < 1 ||
            threads > BENCH_THREADS_MAX) {
            fprintf(stderr, "statekv-bench: --threads takes numbers from 1 to %u, not '%s'\n",
                    BENCH_THREADS_MAX, plan->threads.texts[i]);
            exit(BENCH_USAGE);
        }
    }
    fill_defaults(plan);
}

kv_code bench_plan_options(const struct bench_plan *plan, const char *backend, const char *dir,
                           kv_options **out, kv_status *status)
{
    const kv_option_table *const *tables = plan->suite->tables;
    kv_options *options = NULL;
    kv_code code;
    *out = NULL;
    if (plan->config == NULL) {
        code = kv_options_new(backend, dir, tables, &options, status);
    } else {
        code = kv_options_load(plan->config, tables, &options, status);
        if (code == KV_OK)
            code = kv_options_set(options, "db_backend", backend, status);
        if (code == KV_OK)
            code = kv_options_set(options, "db_dir", dir, status);
    }
    for (unsigned i = 0; code == KV_OK && i < plan->sets_count; i++) {
        char name[256];
        size_t length = strcspn(plan->sets[i], "=");
        snprintf(name, sizeof(name), "%.*s", (int)length, plan->sets[i]);
        code = kv_options_set(options, name, plan->sets[i] + length + 1, status);
    }
    if (code == KV_OK)
        *out = options;
    else
        kv_options_free(options);
    return code;
}

/* ---- Combinations ---------------------------------------------------------- */

bool bench_cell_next(struct bench_cell *cell)
{
    const struct bench_plan *plan = cell->plan;
    if (++cell->threads_choice < plan->threads.count)
        return true;
    cell->threads_choice = 0;
    for (unsigned i = parameters_count(plan->suite); i-- > 0;) {
        if (++cell->choice[i] < plan->parameters[i].count)
            return true;
        cell->choice[i] = 0;
    }
    return false;
}

const char *bench_cell_value(const struct bench_cell *cell, unsigned parameter)
{
    return cell->plan->parameters[parameter].texts[cell->choice[parameter]];
}

unsigned bench_cell_threads(const struct bench_cell *cell)
{
    uint64_t threads = 1;
    if (!bench_number_parse(cell->plan->threads.texts[cell->threads_choice], &threads))
        abort(); /* checked when parsed */
    return (unsigned)threads;
}

void bench_cell_describe(const struct bench_cell *cell, const bench_workload *workload,
                         bench_process *out)
{
    *out = (bench_process){ .suite = cell->plan->suite,
                            .workload = workload,
                            .backend = cell->database->backend,
                            .threads = bench_cell_threads(cell),
                            .seed = cell->plan->seed,
                            .quick = cell->plan->quick,
                            .cell = cell };
}

const char *bench_text(const bench_process *process, const char *parameter)
{
    for (unsigned i = 0; i < parameters_count(process->suite); i++)
        if (strcmp(process->suite->parameters[i].name, parameter) == 0)
            return bench_cell_value(process->cell, i);
    abort();
}

uint64_t bench_number(const bench_process *process, const char *parameter)
{
    uint64_t number;
    if (!bench_number_parse(bench_text(process, parameter), &number))
        abort();
    return number;
}
