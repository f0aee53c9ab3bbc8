/* serve.c - statekv serve: the query service over a state. */
#include "abci_query/query.h"
#include "reconnect/transport.h"
#include "tools/commands.h"
#include "tools/state_place.h"

#include <inttypes.h>

struct serve {
    const char *laddr, *metrics, *record, *teach, *log_level, *log_format;
};

enum {
    OPTION_LADDR = 0x200,
    OPTION_METRICS,
    OPTION_RECORD,
    OPTION_TEACH,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT
};

static const struct argp_option options[] = {
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

static kv_code open_server(struct state_place *place, const struct globals *globals,
                           const struct serve *serve, query_server **server, kv_status *status)
{
    kv_code code = state_place_open(place, globals, KV_OPEN_READ, status);
    if (code == KV_OK)
        code = set(place->options, "query.laddr", serve->laddr, status);
    if (code == KV_OK)
        code = set(place->options, "query.metrics_laddr", serve->metrics, status);
    if (code == KV_OK)
        code = set(place->options, "query.record", serve->record, status);
    if (code == KV_OK)
        code = set(place->options, "query.log_level", serve->log_level, status);
    if (code == KV_OK)
        code = set(place->options, "query.log_format", serve->log_format, status);
    if (code != KV_OK)
        return code;
    query_app app = query_app_of_state(place->state);
    return query_server_open(place->options, &app, server, status);
}

static kv_code open_teacher(const struct state_place *place, const struct serve *serve,
                            reconnect_server **teacher, kv_status *status)
{
    reconnect_settings settings;
    if (serve->teach == NULL)
        return KV_OK;
    reconnect_settings_read(place->options, &settings);
    return reconnect_server_start(place->state, &settings, serve->teach, NULL, NULL, teacher,
                                  status);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct serve serve = { 0 };
    command_parse(&argp, &serve, globals, argc, argv);

    sigset_t ends;
    command_block_ends(&ends);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    query_server *server = NULL;
    reconnect_server *teacher = NULL;
    kv_code code = open_server(&place, globals, &serve, &server, &status);
    if (code == KV_OK)
        code = open_teacher(&place, &serve, &teacher, &status);
    if (code == KV_OK) {
        printf("serving version %" PRIu64 " at", state_version(place.state));
        for (size_t i = 0; query_server_address(server, i) != NULL; i++)
            printf(" %s", query_server_address(server, i));
        if (teacher != NULL)
            printf(", teaching at port %u", reconnect_server_port(teacher));
        printf("\n");
        fflush(stdout);
        command_wait_end(&ends);
    }
    reconnect_server_stop(teacher, NULL);
    if (server != NULL)
        query_server_close(server);
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_serve = { "serve", "serve abci_query over HTTP", run };
