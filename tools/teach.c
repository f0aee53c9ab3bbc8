/* teach.c - statekv teach: serve reconnect to learners. */
#include "reconnect/transport.h"
#include "tools/commands.h"
#include "tools/state_place.h"

#include <inttypes.h>

struct teach {
    const char *laddr;
};

enum { OPTION_LADDR = 0x200 };

static const struct argp_option options[] = {
    { "laddr", OPTION_LADDR, "ADDRESS", 0,
      "Listen at tcp://HOST:PORT (reconnect.laddr); port 0 takes a free one", 0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct teach *teach = parser->input;
    if (key != OPTION_LADDR)
        return ARGP_ERR_UNKNOWN;
    teach->laddr = argument;
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Serve the kept versions of a state to learners (statekv reconnect) until SIGTERM or "
    "SIGINT.\v"
    "Prints one line when it accepts connections, and one on standard error for each learner "
    "that did not end well. Nothing is encrypted: use a tunnel where others can listen, and "
    "reconnect.secret to keep strangers out.",
    NULL,
    NULL,
    NULL
};

static void log_link(void *context, const char *learner, const kv_status *status)
{
    (void)context;
    if (status->code != KV_OK)
        fprintf(stderr, "statekv: learner %s: %s\n", learner, status->message);
}

static kv_code start(struct state_place *place, const struct globals *globals,
                     const struct teach *teach, reconnect_server **server, kv_status *status)
{
    kv_code code = state_place_open(place, globals, KV_OPEN_READ, status);
    if (code == KV_OK && teach->laddr != NULL)
        code = kv_options_set(place->options, "reconnect.laddr", teach->laddr, status);
    if (code != KV_OK)
        return code;
    reconnect_settings settings;
    reconnect_settings_read(place->options, &settings);
    return reconnect_server_start(place->state, &settings,
                                  kv_options_text(place->options, "reconnect.laddr"), log_link,
                                  NULL, server, status);
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct teach teach = { 0 };
    command_parse(&argp, &teach, globals, argc, argv);

    sigset_t ends;
    command_block_ends(&ends);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    reconnect_server *server = NULL;
    kv_code code = start(&place, globals, &teach, &server, &status);
    if (code == KV_OK) {
        printf("teaching version %" PRIu64 " at port %u\n", state_version(place.state),
               reconnect_server_port(server));
        fflush(stdout);
        command_wait_end(&ends);
        reconnect_server_stop(server, NULL);
    }
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_teach = { "teach", "serve a state to learners", run };
