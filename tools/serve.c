/* serve.c - statekv serve: the query service over a state. */
#include "abci_query/query.h"
#include "reconnect/transport.h"
#include "tools/commands.h"
#include "tools/state_place.h"

#include <inttypes.h>
#include <pthread.h>

struct serve {
    const char *laddr, *metrics, *record, *teach, *log_level, *log_format;
    bool checkpoints;
};

/* What is open; without --checkpoints, place.state is served. */
struct service {
    struct state_place place;
    query_checkpoints *checkpoints;
    reconnect_server *teacher;
    pthread_mutex_t lock; /* guards server against who writes to its log */
    query_server *server;
};

enum {
    OPTION_LADDR = 0x200,
    OPTION_CHECKPOINTS,
    OPTION_METRICS,
    OPTION_RECORD,
    OPTION_TEACH,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT
};

static const struct argp_option options[] = {
    { "checkpoints", OPTION_CHECKPOINTS, NULL, 0,
      "The folder of --db holds checkpoints that another process writes "
      "(query_checkpoint_write): serve the newest, and move on with each newer one",
      0 },
    { "laddr", OPTION_LADDR, "ADDRESS", 0,
      "Serve at tcp://HOST:PORT or unix://PATH, several joined by commas (query.laddr); port 0 "
      "takes a free one",
      0 },
    { "metrics", OPTION_METRICS, "ADDRESS", 0,
      "Serve Prometheus figures at this address (query.metrics_laddr)", 0 },
    { "record", OPTION_RECORD, "FILE.gor", 0,
      "Record traffic; gzip when it ends in .gz (query.record)", 0 },
    { "teach", OPTION_TEACH, "ADDRESS", 0,
      "Serve reconnect to learners at tcp://HOST:PORT, too: see statekv teach", 0 },
    { "log-level", OPTION_LOG_LEVEL, "LEVEL", 0,
      "What to tell on standard error: none, error, warn, info or debug (query.log_level)", 0 },
    { "log-format", OPTION_LOG_FORMAT, "FORMAT", 0,
      "One line an event as text, or as json (query.log_format)", 0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct serve *serve = parser->input;
    switch (key) {
    case OPTION_CHECKPOINTS:
        serve->checkpoints = true;
        return 0;
    case OPTION_LADDR:
        serve->laddr = argument;
        return 0;
    case OPTION_METRICS:
        serve->metrics = argument;
        return 0;
    case OPTION_RECORD:
        serve->record = argument;
        return 0;
    case OPTION_TEACH:
        serve->teach = argument;
        return 0;
    case OPTION_LOG_LEVEL:
        serve->log_level = argument;
        return 0;
    case OPTION_LOG_FORMAT:
        serve->log_format = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Serve abci_query and the other routes of docs/rpc.md over HTTP until SIGTERM or SIGINT, "
    "which finish what is in flight.\v"
    "Prints one line when it accepts connections. All of [query] can be set: see statekv "
    "options query.",
    NULL,
    NULL,
    NULL
};

static kv_code set(kv_options *into, const char *name, const char *value, kv_status *status)
{
    return value == NULL ? KV_OK : kv_options_set(into, name, value, status);
}

/* A newer checkpoint cannot be opened; the older one is served on. */
static void checkpoint_failed(void *context, const kv_status *status)
{
    struct service *service = context;
    pthread_mutex_lock(&service->lock);
    if (service->server != NULL)
        query_server_log(service->server, QUERY_LOG_ERROR, "checkpoint_failed",
                         status->message);
    pthread_mutex_unlock(&service->lock);
}

/* Open what is served. */
static kv_code open_app(struct service *service, const struct globals *globals,
                        const struct serve *serve, query_app *app, kv_status *status)
{
    struct state_place *place = &service->place;
    kv_code code;
    if (!serve->checkpoints) {
        code = state_place_open(place, globals, KV_OPEN_READ, status);
        if (code == KV_OK)
            *app = query_app_of_state(place->state);
        return code;
    }
    if (serve->teach != NULL)
        return kv_fail(status, KV_INVALID, "--teach serves a state, not --checkpoints");
    code = command_all_options(globals, &place->options, status);
    if (code == KV_OK)
        code = query_checkpoints_open(place->options, checkpoint_failed, service,
                                      &service->checkpoints, status);
    if (code == KV_OK)
        *app = query_app_of_checkpoints(service->checkpoints);
    return code;
}

static kv_code open_server(struct service *service, const query_app *app,
                           const struct serve *serve, kv_status *status)
{
    kv_options *into = service->place.options;
    query_server *server = NULL;
    kv_code code = set(into, "query.laddr", serve->laddr, status);
    if (code == KV_OK)
        code = set(into, "query.metrics_laddr", serve->metrics, status);
    if (code == KV_OK)
        code = set(into, "query.record", serve->record, status);
    if (code == KV_OK)
        code = set(into, "query.log_level", serve->log_level, status);
    if (code == KV_OK)
        code = set(into, "query.log_format", serve->log_format, status);
    if (code == KV_OK)
        code = query_server_open(into, app, &server, status);
    pthread_mutex_lock(&service->lock);
    service->server = server;
    pthread_mutex_unlock(&service->lock);
    return code;
}

static kv_code open_teacher(struct service *service, const struct serve *serve,
                            kv_status *status)
{
    reconnect_settings settings;
    if (serve->teach == NULL)
        return KV_OK;
    reconnect_settings_read(service->place.options, &settings);
    return reconnect_server_start(service->place.state, &settings, serve->teach, NULL, NULL,
                                  &service->teacher, status);
}

static void say_where(struct service *service, const query_app *app)
{
    uint64_t oldest, newest = 0;
    void *session;
    if (app->open(app->context, &session, NULL) == KV_OK) {
        app->versions(session, &oldest, &newest);
        app->close(session);
    }
    printf("serving version %" PRIu64 " at", newest);
    for (size_t i = 0; query_server_address(service->server, i) != NULL; i++)
        printf(" %s", query_server_address(service->server, i));
    if (service->teacher != NULL)
        printf(", teaching at port %u", reconnect_server_port(service->teacher));
    printf("\n");
    fflush(stdout);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct serve serve = { 0 };
    command_parse(&argp, &serve, globals, argc, argv);

    sigset_t ends;
    command_block_ends(&ends);

    kv_status status = KV_STATUS_INIT;
    struct service service = { .lock = PTHREAD_MUTEX_INITIALIZER };
    query_app app;
    kv_code code = open_app(&service, globals, &serve, &app, &status);
    if (code == KV_OK)
        code = open_server(&service, &app, &serve, &status);
    if (code == KV_OK)
        code = open_teacher(&service, &serve, &status);
    if (code == KV_OK) {
        say_where(&service, &app);
        command_wait_end(&ends);
    }
    reconnect_server_stop(service.teacher, NULL);
    pthread_mutex_lock(&service.lock);
    query_server_close(service.server);
    service.server = NULL;
    pthread_mutex_unlock(&service.lock);
    query_checkpoints_close(service.checkpoints);
    return state_place_close(&service.place, code, &status, EXIT_DONE);
}

const struct command command_serve = { "serve", "serve abci_query over HTTP", run };
