/* parent.c - runs a plan: one process per row and fork, in an order that spreads drift. */
#include "bench/harness.h"
#include "kv/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE_MAX = 4 << 20, ARGUMENTS_MAX = 256 };

static volatile sig_atomic_t interrupted;

struct job {
    struct bench_cell cell;
    const bench_workload *workload;
    struct bench_row *row;
};

struct parent {
    const struct bench_plan *plan;
    char scratch[BENCH_DATABASES_MAX][PATH_MAX]; /* one folder per --db */
    json_t *folders[BENCH_DATABASES_MAX];
    struct job *jobs;
    size_t jobs_count;
    bool progress;
    bool failed, store_failed;
};

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* ---- Folders ------------------------------------------------------------------ */

static kv_code make_scratch(struct parent *parent, kv_status *status)
{
    const char *fallback = getenv("TMPDIR");
    if (fallback == NULL || fallback[0] == '\0')
        fallback = "/tmp";
    for (unsigned i = 0; i < parent->plan->databases_count; i++) {
        const char *dir = parent->plan->databases[i].dir;
        char *scratch = parent->scratch[i];
        int size = snprintf(scratch, PATH_MAX, "%s/statekv-bench-XXXXXX",
                            dir[0] != '\0' ? dir : fallback);
        if (dir[0] != '\0' && mkdir(dir, 0700) != 0 && errno != EEXIST)
            return kv_fail(status, KV_IO, "%s: is not made: %s", dir, strerror(errno));
        if (size >= PATH_MAX || mkdtemp(scratch) == NULL) {
            kv_code code = kv_fail(status, KV_IO, "%s: no scratch folder is made there: %s",
                                   dir[0] != '\0' ? dir : fallback, strerror(errno));
            scratch[0] = '\0';
            return code;
        }
        parent->folders[i] = bench_facts_folder(scratch);
        json_object_set_new(parent->folders[i], "dir",
                            json_string(dir[0] != '\0' ? dir : fallback));
    }
    return KV_OK;
}

static void remove_scratch(struct parent *parent)
{
    kv_status status = KV_STATUS_INIT;
    for (unsigned i = 0; i < parent->plan->databases_count; i++)
        if (parent->scratch[i][0] != '\0' && bench_remove(parent->scratch[i], &status) != KV_OK)
            fprintf(stderr, "statekv-bench: %s\n", status.message);
}

/* ---- Jobs ---------------------------------------------------------------------- */

static bool wanted(const struct bench_plan *plan, const bench_workload *workload)
{
    for (unsigned i = 0; i < plan->workloads_count; i++)
        if (plan->workloads[i] == workload->name)
            return true;
    return plan->workloads_count == 0;
}

/* Databases outermost, so that a folder of shared data is made once and lives
 * while the rows that use it are measured. */
static kv_code list_jobs(struct parent *parent, kv_status *status)
{
    const struct bench_plan *plan = parent->plan;
    size_t capacity = 0;
    for (unsigned i = 0; i < plan->databases_count; i++) {
        struct bench_cell cell = { plan, &plan->databases[i], { 0 }, 0 };
        do {
            for (const bench_workload *each = plan->suite->workloads; each->name != NULL;
                 each++) {
                bench_process process;
                bench_cell_describe(&cell, each, &process);
                if (!wanted(plan, each) || (each->applies != NULL && !each->applies(&process)))
                    continue;
                if (parent->jobs_count == capacity) {
                    capacity = capacity == 0 ? 64 : 2 * capacity;
                    struct job *jobs = realloc(parent->jobs, capacity * sizeof(*jobs));
                    if (jobs == NULL)
                        return kv_fail(status, KV_NO_MEMORY, "no memory for %zu rows",
                                       capacity);
                    parent->jobs = jobs;
                }
                struct bench_row *row = bench_row_new(
                    &cell, each, bench_json_text(parent->folders[i], "filesystem"));
                if (row == NULL)
                    return kv_fail(status, KV_NO_MEMORY, "no memory for a row");
                parent->jobs[parent->jobs_count++] = (struct job){ cell, each, row };
            }
        } while (bench_cell_next(&cell));
    }
    return KV_OK;
}

/* ---- One measured process -------------------------------------------------------- */

struct arguments {
    char *list[ARGUMENTS_MAX];
    unsigned count;
    bool full;
};

static void add(struct arguments *arguments, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct arguments *arguments, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (arguments->count + 1 >= ARGUMENTS_MAX ||
        vasprintf(&arguments->list[arguments->count], format, values) < 0)
        arguments->full = true;
    else
        arguments->list[++arguments->count] = NULL;
    va_end(values);
}

static void build_arguments(const struct parent *parent, const struct job *job, unsigned fork,
                            int file, struct arguments *out)
{
    const struct bench_plan *plan = parent->plan;
    const struct bench_cell *cell = &job->cell;
    const char *scratch = parent->scratch[cell->database - plan->databases];
    add(out, "statekv-bench");
    add(out, "%s", plan->suite->name);
    add(out, "%s", job->workload->name);
    if ((plan->suite->flags & BENCH_NO_DATABASE) == 0)
        add(out, "--db=%s:", cell->database->backend);
    for (unsigned i = 0;
         plan->suite->parameters != NULL && plan->suite->parameters[i].name != NULL; i++)
        add(out, "--%s=%s", plan->suite->parameters[i].name, bench_cell_value(cell, i));
    add(out, "--threads=%u", bench_cell_threads(cell));
    add(out, "--warmup=%u", plan->warmup);
    add(out, "--iterations=%u", plan->iterations);
    add(out, "--seed=%llu", (unsigned long long)plan->seed);
    if (plan->quick)
        add(out, "--quick");
    if (plan->config != NULL)
        add(out, "--config=%s", plan->config);
    for (unsigned i = 0; i < plan->sets_count; i++)
        add(out, "--set=%s", plan->sets[i]);
    add(out, "--child-file=%d", file);
    add(out, "--child-fork=%u", fork);
    add(out, "--child-dir=%s/own", scratch);
    add(out, "--child-shared-dir=%s/shared", scratch);
}

static pid_t spawn(char *const *arguments, int file)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    signal(SIGINT, SIG_IGN); /* the parent decides */
    fcntl(file, F_SETFD, 0);
    execv("/proc/self/exe", arguments);
    fprintf(stderr, "statekv-bench: does not start itself: %s\n", strerror(errno));
    _exit(BENCH_FAILED);
}

static void show_progress(const struct parent *parent, const struct job *job, unsigned fork)
{
    if (!parent->progress)
        return;
    size_t index = (size_t)(job - parent->jobs);
    size_t done = fork * parent->jobs_count + index;
    size_t all = parent->jobs_count * parent->plan->forks;
    fprintf(stderr, "\r\033[K[%zu/%zu] %s.%s %s: %.0f %s/s", done + 1, all,
            parent->plan->suite->name, job->workload->name, job->cell.database->backend,
            bench_row_latest(job->row), job->workload->unit);
    fflush(stderr);
}

/* Read the child's lines until it closes the pipe or we are interrupted. */
static kv_code read_lines(const struct parent *parent, struct job *job, unsigned fork, int file,
                          kv_status *status)
{
    char *buffer = malloc(LINE_SIZE_MAX);
    size_t size = 0;
    kv_code code = KV_OK;
    if (buffer == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to read results");
    while (code == KV_OK && !interrupted) {
        struct pollfd ready = { file, POLLIN, 0 };
        if (poll(&ready, 1, 500) <= 0)
            continue;
        ssize_t got = read(file, buffer + size, LINE_SIZE_MAX - 1 - size);
        if (got <= 0)
            break;
        size += (size_t)got;
        char *end;
        while (code == KV_OK && (end = memchr(buffer, '\n', size)) != NULL) {
            *end = '\0';
            code = bench_row_take(job->row, buffer, fork, status);
            size -= (size_t)(end + 1 - buffer);
            memmove(buffer, end + 1, size);
            show_progress(parent, job, fork);
        }
        if (size == LINE_SIZE_MAX - 1)
            code = kv_fail(status, KV_TOO_BIG, "a measured process wrote an endless line");
    }
    free(buffer);
    return code;
}

static kv_code wait_child(pid_t pid, kv_status *status)
{
    int state;
    while (waitpid(pid, &state, 0) < 0)
        if (errno != EINTR)
            return kv_fail(status, KV_INTERNAL, "measured process is lost: %s",
                           strerror(errno));
    if (WIFSIGNALED(state))
        return kv_fail(status, KV_INTERNAL, "measured process died of signal %d (%s)",
                       WTERMSIG(state), strsignal(WTERMSIG(state)));
    if (WEXITSTATUS(state) != 0)
        return kv_fail(status, KV_INTERNAL, "measured process ended with status %d",
                       WEXITSTATUS(state));
    return KV_OK;
}

static kv_code run_child(const struct parent *parent, struct job *job, unsigned fork,
                         kv_status *status)
{
    const char *scratch = parent->scratch[job->cell.database - parent->plan->databases];
    char own[PATH_MAX + 8], shared[PATH_MAX + 8];
    snprintf(own, sizeof(own), "%s/own", scratch);
    snprintf(shared, sizeof(shared), "%s/shared", scratch);
    kv_code code = bench_remove(own, status);
    if (code != KV_OK)
        return code;
    if (mkdir(own, 0700) != 0 || (mkdir(shared, 0700) != 0 && errno != EEXIST))
        return kv_fail(status, KV_IO, "%s: is not made: %s", own, strerror(errno));

    int files[2];
    if (pipe2(files, O_CLOEXEC) != 0)
        return kv_fail(status, KV_IO, "no pipe: %s", strerror(errno));
    struct arguments arguments = { { NULL }, 0, false };
    build_arguments(parent, job, fork, files[1], &arguments);
    pid_t pid = arguments.full ? -1 : spawn(arguments.list, files[1]);
    close(files[1]);
    if (pid < 0) {
        code = kv_fail(status, KV_INTERNAL, "measured process does not start: %s",
                       arguments.full ? "too many arguments" : strerror(errno));
    } else {
        code = read_lines(parent, job, fork, files[0], status);
        if (code != KV_OK || interrupted)
            kill(pid, SIGKILL);
        kv_code ended = wait_child(pid, status);
        if (code == KV_OK && !interrupted)
            code = ended;
    }
    close(files[0]);
    for (unsigned i = 0; i < arguments.count; i++)
        free(arguments.list[i]);
    return code;
}

/* ---- The whole plan ------------------------------------------------------------- */

static void run_job(struct parent *parent, struct job *job, unsigned fork)
{
    kv_status status = KV_STATUS_INIT;
    kv_code code = run_child(parent, job, fork, &status);
    if (code == KV_OK || interrupted)
        return;
    parent->failed = true;
    parent->store_failed = parent->store_failed || code == KV_IO || code == KV_NO_SPACE;
    bench_row_fail(job->row, status.message);
    fprintf(stderr, "%sstatekv-bench: %s.%s on %s: %s\n", parent->progress ? "\r\033[K" : "",
            parent->plan->suite->name, job->workload->name, job->cell.database->backend,
            status.message);
}

static json_t *options_json(const struct bench_plan *plan, const char *backend)
{
    const kv_driver *driver = kv_driver_find(backend);
    kv_options *options = NULL;
    json_t *json = json_object();
    if (driver == NULL || bench_plan_options(plan, backend, "", &options, NULL) != KV_OK)
        return json;
    for (const kv_option_spec *each = driver->options; each != NULL && each->name != NULL;
         each++) {
        char name[256];
        snprintf(name, sizeof(name), "kv.%s.%s", driver->name, each->name);
        json_t *value;
        if (each->type == KV_OPTION_BOOL)
            value = json_boolean(kv_options_bool(options, name));
        else if (each->type == KV_OPTION_TEXT)
            value = json_string(kv_options_text(options, name));
        else
            value = json_integer((json_int_t)kv_options_number(options, name));
        json_object_set_new(json, name, value);
    }
    kv_options_free(options);
    return json;
}

static json_t *document_json(const struct parent *parent, int argc, char **argv)
{
    const struct bench_plan *plan = parent->plan;
    json_t *command = json_array(), *databases = json_array(), *rows = json_array();
    json_array_append_new(command, json_string("statekv-bench"));
    for (int i = 0; i < argc; i++)
        json_array_append_new(command, json_string(argv[i]));
    for (unsigned i = 0; i < plan->databases_count; i++)
        json_array_append_new(
            databases, json_pack("{s:s,s:o,s:O}", "backend", plan->databases[i].backend,
                                 "options", options_json(plan, plan->databases[i].backend),
                                 "folder", parent->folders[i]));
    for (size_t i = 0; i < parent->jobs_count; i++) {
        json_t *row = bench_row_json(parent->jobs[i].row);
        if (row != NULL)
            json_array_append_new(rows, row);
    }
    char when[32];
    time_t now = time(NULL);
    struct tm parts;
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    return json_pack("{s:s,s:i,s:s,s:s,s:o,s:o,s:o,s:{s:i,s:i,s:i,s:I,s:b},s:o,s:b,s:o}",
                     "format", "statekv-bench", "format_version", 1, "suite", plan->suite->name,
                     "ended", when, "command", command, "program", bench_facts_program(),
                     "machine", bench_facts_machine(), "plan", "forks", (int)plan->forks,
                     "warmup", (int)plan->warmup, "iterations", (int)plan->iterations, "seed",
                     (json_int_t)plan->seed, "quick", (int)plan->quick, "databases", databases,
                     "interrupted", (int)interrupted, "rows", rows);
}

static kv_code write_document(const struct bench_plan *plan, const json_t *document,
                              kv_status *status)
{
    bool to_stdout = plan->json_path != NULL && strcmp(plan->json_path, "-") == 0;
    if (!to_stdout)
        bench_table_print(document, stdout);
    if (plan->json_path == NULL)
        return KV_OK;
    FILE *out = to_stdout ? stdout : fopen(plan->json_path, "we");
    bool good = out != NULL &&
                json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
                fputc('\n', out) != EOF;
    if (out != NULL && out != stdout)
        good = fclose(out) == 0 && good;
    if (!good)
        return kv_fail(status, KV_IO, "%s: is not written: %s", plan->json_path,
                       strerror(errno));
    return KV_OK;
}

int bench_parent_run(const struct bench_plan *plan, int argc, char **argv)
{
    struct parent *parent = calloc(1, sizeof(*parent));
    kv_status status = KV_STATUS_INIT;
    kv_code code;
    if (parent == NULL)
        return BENCH_FAILED;
    parent->plan = plan;
    parent->progress = isatty(STDERR_FILENO) != 0;
    struct sigaction action = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    code = make_scratch(parent, &status);
    if (code == KV_OK)
        code = list_jobs(parent, &status);
    if (code == KV_OK && parent->jobs_count == 0)
        code = kv_fail(&status, KV_INVALID, "no workload applies to what was asked for");
    /* All rows once, then all again: a slow minute does not hit one row alone. */
    for (unsigned fork = 0; code == KV_OK && fork < plan->forks; fork++)
        for (size_t i = 0; i < parent->jobs_count && !interrupted; i++)
            run_job(parent, &parent->jobs[i], fork);
    if (parent->progress)
        fprintf(stderr, "\r\033[K");
    if (code == KV_OK) {
        json_t *document = document_json(parent, argc, argv);
        code = write_document(plan, document, &status);
        json_decref(document);
    }
    remove_scratch(parent);
    int result = code == KV_INVALID                      ? BENCH_USAGE
                 : code != KV_OK || parent->store_failed ? BENCH_FAILED
                 : interrupted                           ? BENCH_INTERRUPTED
                 : parent->failed                        ? BENCH_NO
                                                         : BENCH_DONE;
    if (code != KV_OK)
        fprintf(stderr, "statekv-bench: %s\n", status.message);
    for (size_t i = 0; i < parent->jobs_count; i++)
        bench_row_free(parent->jobs[i].row);
    for (unsigned i = 0; i < plan->databases_count; i++)
        json_decref(parent->folders[i]);
    free(parent->jobs);
    free(parent);
    return result;
}
