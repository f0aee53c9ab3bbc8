/* reconnect.c - statekv reconnect: catch a state up from its peers. */
#include "reconnect/transport.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/state_place.h"
#include "tools/text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct own {
    char *from; /* cut at its commas */
    reconnect_place places[RECONNECT_PEERS_MAX];
    size_t place_count;
    reconnect_goal goal;
    struct progress progress;
};

enum { OPTION_FROM = 0x200, OPTION_APP_HASH, OPTION_TRAVERSAL };

static const struct argp_option options[] = {
    { "from", OPTION_FROM, "HOST:PORT,...", 0, "The teachers, joined by commas (required)", 0 },
    { "app-hash", OPTION_APP_HASH, "HEX", 0,
      "The app hash to reach, known from consensus; without it the first peer that answers is "
      "trusted to name it",
      0 },
    { "version", 'v', "V", 0, "The version to reach (default: the peer's newest)", 0 },
    { "traversal", OPTION_TRAVERSAL, "NAME", 0,
      "diff, pull, level-by-level, level-by-level-poll or push (default: diff)", 0 },
    { 0 }
};

static void parse_from(struct own *own, const char *argument, const struct argp_state *parser)
{
    own->from = strdup(argument);
    own->place_count = 0;
    char *rest = NULL;
    for (char *at = own->from == NULL ? NULL : strtok_r(own->from, ",", &rest); at != NULL;
         at = strtok_r(NULL, ",", &rest)) {
        if (own->place_count == RECONNECT_PEERS_MAX)
            command_usage(parser, "--from: over %u peers", RECONNECT_PEERS_MAX);
        own->places[own->place_count++] = (reconnect_place){ at, -1 };
    }
    if (own->place_count == 0)
        command_usage(parser, "--from: no peer in '%s'", argument);
}

static void parse_app_hash(struct own *own, const char *argument,
                           const struct argp_state *parser)
{
    struct text bytes = TEXT_INIT;
    if (text_decode(&bytes, kv_text(argument), true, "--app-hash", NULL) != KV_OK ||
        bytes.size != VMAP_DIGEST_SIZE)
        command_usage(parser, "--app-hash: '%s' is not 64 hex digits", argument);
    memcpy(own->goal.app_hash.bytes, bytes.data, VMAP_DIGEST_SIZE);
    text_clear(&bytes);
    own->goal.app_hash_known = true;
}

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct own *own = parser->input;
    kv_status status = KV_STATUS_INIT;
    switch (key) {
    case OPTION_FROM:
        free(own->from);
        parse_from(own, argument, parser);
        return 0;
    case OPTION_APP_HASH:
        parse_app_hash(own, argument, parser);
        return 0;
    case 'v':
        own->goal.version = command_number(parser, "--version", argument, 1, UINT64_MAX);
        return 0;
    case OPTION_TRAVERSAL:
        if (reconnect_traversal_of(argument, &own->goal.traversal, &status) != KV_OK)
            command_usage(parser, "--traversal: %s", status.message);
        return 0;
    case ARGP_KEY_END:
        if (own->place_count == 0)
            command_usage(parser, "--from is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Catch a state up from teachers (statekv teach), moving only what differs, and switch to "
    "the new version in one commit.\v"
    "Every page is checked against the app hash before it counts; a peer that lies is named "
    "and "
    "dropped. What was fetched before an interruption is not fetched again. A state that is "
    "missing is made. SIGUSR1 prints on standard error how the fetching stands: blocks, bytes, "
    "duplicates and partners, in the form of ipfs bitswap stat.",
    NULL,
    NULL,
    NULL
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static volatile sig_atomic_t asked;

static void ask(int number)
{
    (void)number;
    asked = 1;
}

static bool show(void *context, reconnect_learner *learner)
{
    if (asked != 0) {
        char text[16384];
        asked = 0;
        reconnect_learner_print(learner, text, sizeof(text));
        fputs(text, stderr);
    }
    struct own *own = context;
    reconnect_figures figures;
    reconnect_learner_measure(learner, &figures);
    progress_show(&own->progress, figures.leaves_done, figures.leaves_total);
    return interrupted == 0;
}

/* ---- The figures -------------------------------------------------------- */

struct figure {
    const char *name;
    uint64_t number;
};

enum { FIGURES = 17 };

static void list_figures(const reconnect_figures *from, struct figure out[FIGURES])
{
    const struct figure list[FIGURES] = {
        { "bytes_received", from->bytes_in },
        { "bytes_sent", from->bytes_out },
        { "messages_received", from->messages_in },
        { "messages_sent", from->messages_out },
        { "round_trips", from->round_trips },
        { "pages", from->pages },
        { "pages_clean", from->pages_clean },
        { "leaves", from->leaves },
        { "leaves_clean", from->leaves_clean },
        { "leaf_bytes", from->leaf_bytes },
        { "leaves_changed", from->leaves_changed },
        { "leaves_removed", from->leaves_removed },
        { "pages_resumed", from->resumed_pages },
        { "pages_asked_again", from->asked_again },
        { "duplicate_blocks", from->duplicate_blocks },
        { "duplicate_bytes", from->duplicate_bytes },
        { "leaves_total", from->leaves_total },
    };
    memcpy(out, list, sizeof(list));
}

static void print_json(const reconnect_run_report *report, const vmap_digest *app_hash)
{
    struct json out;
    struct figure figures[FIGURES];
    list_figures(&report->figures, figures);
    json_start(&out, stdout);
    json_number(&out, "version", report->version);
    json_digest(&out, "app_hash", kv_bytes(app_hash->bytes, sizeof(app_hash->bytes)));
    json_real(&out, "seconds", report->seconds);
    json_real(&out, "switch_seconds", report->switch_seconds);
    for (int i = 0; i < FIGURES; i++)
        json_number(&out, figures[i].name, figures[i].number);
    json_array(&out, "peers");
    for (unsigned i = 0; i < report->peer_count; i++) {
        const reconnect_peer_figures *peer = &report->peers[i];
        json_element(&out);
        json_text(&out, "name", peer->name);
        json_number(&out, "version", peer->version);
        json_bool(&out, "lied", peer->lied);
        json_number(&out, "bytes_received", peer->bytes_in);
        json_number(&out, "bytes_sent", peer->bytes_out);
        json_number(&out, "blocks", peer->blocks);
        json_number(&out, "duplicate_blocks", peer->duplicate_blocks);
        json_number(&out, "duplicate_bytes", peer->duplicate_bytes);
        json_close(&out, '}');
    }
    json_close(&out, ']');
    json_end(&out);
}

static void print_text(const reconnect_run_report *report)
{
    struct figure figures[FIGURES];
    list_figures(&report->figures, figures);
    printf("version %" PRIu64 " after %.3f s, %.3f s of them for the switch\n", report->version,
           report->seconds, report->switch_seconds);
    for (int i = 0; i < FIGURES; i++)
        printf("  %-18s %" PRIu64 "\n", figures[i].name, figures[i].number);
    for (unsigned i = 0; i < report->peer_count; i++) {
        const reconnect_peer_figures *peer = &report->peers[i];
        printf("  peer %s: version %" PRIu64 ", %" PRIu64 " bytes, %" PRIu64 " blocks, %" PRIu64
               " duplicates%s\n",
               peer->name, peer->version, peer->bytes_in, peer->blocks, peer->duplicate_blocks,
               peer->lied ? ", lied" : "");
    }
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct own own = { 0 };
    command_parse(&argp, &own, globals, argc, argv);
    struct sigaction action = { .sa_handler = interrupt };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = ask;
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGPIPE, SIG_IGN);

    kv_status status = KV_STATUS_INIT;
    struct state_place place = { 0 };
    reconnect_run_report *report = calloc(1, sizeof(*report));
    kv_code code = report == NULL ? kv_fail(&status, KV_NO_MEMORY, "no memory for a report")
                                  : state_place_open(&place, globals, KV_CREATE, &status);
    if (code == KV_OK) {
        reconnect_settings settings;
        reconnect_settings_read(place.options, &settings);
        progress_start(&own.progress, "pairs");
        code = reconnect_run(place.db, place.state, &settings, &own.goal, own.places,
                             own.place_count, show, &own, report, &status);
        progress_end(&own.progress);
    }
    if (code == KV_OK) {
        vmap_digest app_hash = state_app_hash(place.state);
        if (globals->json)
            print_json(report, &app_hash);
        else
            print_text(report);
    } else if (place.state != NULL) {
        fprintf(stderr, "statekv: the state stands at version %" PRIu64 " as before\n",
                state_version(place.state));
    }
    free(report);
    free(own.from);
    return state_place_close(&place, code, &status, EXIT_DONE);
}

const struct command command_reconnect = { "reconnect", "catch a state up from its peers",
                                           run };
