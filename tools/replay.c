/* replay.c - statekv replay: send a recording again, and compare the answers. */
#include "abci_query/gor.h"
#include "bench/load.h"
#include "tools/commands.h"

#include <errno.h>
#include <http_parser.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { OPTION_TO = 0x200, OPTION_SPEED, OPTION_MAX_WAIT, OPTION_TIMEOUT, OPTION_DRY };

/* One recorded exchange. The whole recording is held: it is bounded by RECORDING_MAX. */
struct exchange {
    struct query_buffer wire; /* the request as it will be sent */
    bool head, has_answer;
    unsigned status; /* recorded */
    struct query_buffer body;
    char id[QUERY_GOR_ID_MAX];
    size_t id_size;
    int64_t timestamp_ns;
};

enum { RECORDING_MAX = 1 << 30 };

struct replay {
    const char *file, *to;
    double speed;
    uint64_t max_wait_ns;
    bool dry, json;
    struct load_config config;
    struct exchange *list;
    size_t count, capacity, next;
    uint64_t torn, malformed, answers, compared, different, due_ns;
    struct load_json *checker;
    char text[LOAD_KIND_SIZE];
};

static volatile bool interrupted;

static const struct argp_option options[] = {
    { "to", OPTION_TO, "URL", 0, "Where to send it", 0 },
    { "speed", OPTION_SPEED, "X", 0,
      "Times the recorded speed (default 1; 0: as fast as answers come)", 0 },
    { "max-wait", OPTION_MAX_WAIT, "SECONDS", 0, "Never wait longer than this between requests",
      0 },
    { "concurrency", 'c', "N", 0, "Connections (default 16)", 0 },
    { "timeout", OPTION_TIMEOUT, "SECONDS", 0, "An answer may take this long (default 5)", 0 },
    { "dry-run", OPTION_DRY, NULL, 0, "Read the recording and say what is in it", 0 },
    { 0 }
};

static double read_number(const struct argp_state *parser, const char *option, const char *text)
{
    char *end;
    double number = strtod(text, &end);
    if (end != text && *end == 's' && end[1] == '\0')
        end++;
    if (end == text || *end != '\0' || !(number >= 0) || number > 1e6)
        command_usage(parser, "%s: %s is no number from 0 to 1000000", option, text);
    return number;
}

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct replay *replay = parser->input;
    switch (key) {
    case OPTION_TO:
        replay->to = argument;
        return 0;
    case OPTION_SPEED:
        replay->speed = read_number(parser, "--speed", argument);
        return 0;
    case OPTION_MAX_WAIT:
        replay->max_wait_ns = (uint64_t)(read_number(parser, "--max-wait", argument) * 1e9);
        return 0;
    case OPTION_TIMEOUT:
        replay->config.timeout_ns =
            (uint64_t)(read_number(parser, "--timeout", argument) * 1e9);
        return 0;
    case OPTION_DRY:
        replay->dry = true;
        return 0;
    case 'c':
        replay->config.connections =
            (size_t)command_number(parser, "-c", argument, 1, LOAD_CONNECTIONS_MAX);
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        replay->file = argument;
        return 0;
    case ARGP_KEY_END:
        if (replay->file == NULL || (replay->to == NULL && !replay->dry))
            command_usage(parser, "write statekv replay FILE.gor --to http://HOST:PORT");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "FILE.gor[.gz]",
    "Send the requests of a .gor recording again, at their pace or faster, and report as load "
    "does.\v"
    "Where the recording has the answers, status and body must be the same. Otherwise an "
    "answer "
    "is good as for statekv load. The Host header is replaced.",
    NULL,
    NULL,
    NULL
};

/* ---- Reading ------------------------------------------------------------ */

struct message {
    struct query_buffer body;
    bool complete;
};

static int on_body(http_parser *parser, const char *at, size_t size)
{
    query_buffer_add(&((struct message *)parser->data)->body, at, size);
    return 0;
}

static int on_complete(http_parser *parser)
{
    ((struct message *)parser->data)->complete = true;
    return 0;
}

/* Take an HTTP message apart: method or status, and its body. */
static bool read_message(kv_slice bytes, enum http_parser_type type, http_parser *parser,
                         struct message *out)
{
    static const http_parser_settings settings = { .on_body = on_body,
                                                   .on_message_complete = on_complete };
    http_parser_init(parser, type);
    parser->data = out;
    http_parser_execute(parser, &settings, bytes.data, bytes.size);
    if (!out->complete && parser->http_errno == HPE_OK)
        http_parser_execute(parser, &settings, NULL, 0);
    return out->complete && !out->body.failed;
}

/* The request with the new Host, framed by its length. */
static bool make_wire(struct replay *replay, kv_slice bytes, struct exchange *out)
{
    http_parser parser;
    struct message message = { QUERY_BUFFER_INIT, false };
    const char *text = bytes.data;
    bool good = read_message(bytes, HTTP_REQUEST, &parser, &message);
    const char *head_end = good ? memmem(text, bytes.size, "\r\n\r\n", 4) : NULL;
    if (head_end != NULL) {
        const char *line_end = memchr(text, '\r', bytes.size);
        query_buffer_add(&out->wire, text, (size_t)(line_end - text));
        query_buffer_literal(&out->wire, "\r\nHost: ");
        query_buffer_text(&out->wire, replay->config.url.host);
        for (const char *at = line_end + 2; at < head_end + 2;) {
            const char *end = memchr(at, '\r', (size_t)(head_end + 2 - at));
            size_t size = (size_t)(end - at);
            static const char *const dropped[] = {
                "host:", "content-length:", "transfer-encoding:", "connection:", "expect:"
            };
            bool keep = true;
            for (size_t i = 0; i < 5; i++)
                keep = keep && strncasecmp(at, dropped[i], strlen(dropped[i])) != 0;
            if (keep && size > 0) {
                query_buffer_literal(&out->wire, "\r\n");
                query_buffer_add(&out->wire, at, size);
            }
            at = end + 2;
        }
        query_buffer_format(&out->wire, "\r\nContent-Length: %zu\r\n\r\n", message.body.size);
        query_buffer_add(&out->wire, message.body.data, message.body.size);
        out->head = parser.method == HTTP_HEAD;
    }
    query_buffer_clear(&message.body);
    return head_end != NULL && !out->wire.failed;
}

static struct exchange *find(struct replay *replay, kv_slice id)
{
    for (size_t i = replay->count; i > 0; i--) { /* the answer follows soon */
        struct exchange *exchange = &replay->list[i - 1];
        if (exchange->id_size == id.size && memcmp(exchange->id, id.data, id.size) == 0)
            return exchange;
        if (replay->count - i > 4096)
            break;
    }
    return NULL;
}

static kv_code add_record(struct replay *replay, const struct query_gor_record *record,
                          kv_status *status)
{
    if (record->type == QUERY_GOR_RESPONSE) {
        struct exchange *exchange = find(replay, record->id);
        http_parser parser;
        struct message message = { QUERY_BUFFER_INIT, false };
        if (exchange == NULL || exchange->head ||
            !read_message(record->bytes, HTTP_RESPONSE, &parser, &message)) {
            query_buffer_clear(&message.body);
            return KV_OK;
        }
        query_buffer_clear(&exchange->body);
        exchange->body = message.body;
        exchange->status = parser.status_code;
        exchange->has_answer = true;
        replay->answers++;
        return KV_OK;
    }
    if (record->type != QUERY_GOR_REQUEST)
        return KV_OK;
    if (replay->count == replay->capacity) {
        size_t capacity = replay->capacity == 0 ? 1024 : replay->capacity * 2;
        struct exchange *list = realloc(replay->list, capacity * sizeof(*list));
        if (list == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for %zu requests", capacity);
        replay->list = list;
        replay->capacity = capacity;
    }
    struct exchange *exchange = &replay->list[replay->count];
    memset(exchange, 0, sizeof(*exchange));
    if (!make_wire(replay, record->bytes, exchange)) {
        query_buffer_clear(&exchange->wire);
        replay->malformed++;
        return KV_OK;
    }
    exchange->timestamp_ns = record->timestamp_ns;
    exchange->id_size = record->id.size;
    memcpy(exchange->id, record->id.data, record->id.size);
    replay->count++;
    return KV_OK;
}

static kv_code read_records(struct replay *replay, struct query_buffer *text, bool last,
                            kv_status *status)
{
    kv_slice rest = kv_bytes(text->data, text->size);
    kv_code code = KV_OK;
    while (code == KV_OK) {
        struct query_gor_record record;
        enum query_gor_found found = query_gor_next(&rest, last, &record);
        if (found == QUERY_GOR_MORE || found == QUERY_GOR_END)
            break;
        if (found == QUERY_GOR_MALFORMED) {
            replay->malformed++;
            continue;
        }
        replay->torn += found == QUERY_GOR_TORN;
        code = add_record(replay, &record, status);
    }
    query_buffer_shift(text, text->size - rest.size);
    return code;
}

static kv_code read_recording(struct replay *replay, kv_status *status)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    uint64_t total = 0;
    gzFile file = gzopen(replay->file, "rb"); /* plain files too */
    if (file == NULL)
        return kv_fail(status, KV_INVALID, "%s: %s", replay->file, strerror(errno));
    kv_code code = KV_OK;
    for (bool last = false; !last && code == KV_OK;) {
        static char block[1 << 16];
        int count = gzread(file, block, sizeof(block));
        if (count < 0) {
            int fault;
            code = kv_fail(status, KV_INVALID, "%s: %s", replay->file, gzerror(file, &fault));
            break;
        }
        last = count == 0;
        total += (uint64_t)count;
        query_buffer_add(&text, block, (size_t)count);
        if (total > RECORDING_MAX || text.size > QUERY_GOR_RECORD_MAX || text.failed)
            code = kv_fail(status, KV_TOO_BIG,
                           "%s: more than %d bytes, or a record of more than %d: split it",
                           replay->file, RECORDING_MAX, QUERY_GOR_RECORD_MAX);
        else
            code = read_records(replay, &text, last, status);
    }
    gzclose(file);
    query_buffer_clear(&text);
    return code;
}

/* ---- Sending ------------------------------------------------------------ */

static bool next(void *context, struct load_request *out)
{
    struct replay *replay = context;
    if (replay->next == replay->count)
        return false;
    const struct exchange *exchange = &replay->list[replay->next];
    if (replay->next > 0 && replay->speed > 0) {
        int64_t gap = exchange->timestamp_ns - replay->list[replay->next - 1].timestamp_ns;
        uint64_t wait = gap <= 0 ? 0 : (uint64_t)((double)gap / replay->speed);
        if (replay->max_wait_ns > 0 && wait > replay->max_wait_ns)
            wait = replay->max_wait_ns;
        replay->due_ns += wait;
    }
    *out = (struct load_request){ .wire = kv_bytes(exchange->wire.data, exchange->wire.size),
                                  .token = replay->next,
                                  .head = exchange->head };
    out->due_ns = replay->speed > 0 ? replay->due_ns + 1 : 0;
    replay->next++;
    return true;
}

static const char *check(void *context, uint64_t token, const struct load_response *response)
{
    struct replay *replay = context;
    const struct exchange *exchange = &replay->list[token];
    if (exchange->has_answer) {
        replay->compared++;
        if (response->status == exchange->status &&
            response->body.size == exchange->body.size &&
            (response->body.size == 0 ||
             memcmp(response->body.data, exchange->body.data, response->body.size) == 0))
            return NULL;
        replay->different++;
        snprintf(replay->text, sizeof(replay->text),
                 response->status == exchange->status ? "another body than recorded"
                                                      : "status %u instead of %u",
                 response->status, exchange->status);
        return replay->text;
    }
    if (response->status < 200 || response->status > 299) {
        snprintf(replay->text, sizeof(replay->text), "status %u", response->status);
        return replay->text;
    }
    return exchange->head
               ? NULL
               : load_json_check(replay->checker, response->body, false, replay->text);
}

static void on_signal(int number)
{
    (void)number;
    interrupted = true;
}

static void print_recording(const struct replay *replay)
{
    int64_t span = replay->count < 2 ? 0
                                     : replay->list[replay->count - 1].timestamp_ns -
                                           replay->list[0].timestamp_ns;
    printf("Recording:\n  Requests   %zu\n  Answers    %llu\n  Malformed  %llu\n  Torn       "
           "%llu\n"
           "  Span       %.3fs\n",
           replay->count, (unsigned long long)replay->answers,
           (unsigned long long)replay->malformed, (unsigned long long)replay->torn,
           (double)span / 1e9);
}

static int report(const struct replay *replay, const struct load_result *result)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    if (replay->json) {
        query_buffer_format(
            &text,
            "{\"requests\":%zu,\"malformed\":%llu,\"torn\":%llu,\"compared\":%llu,"
            "\"different\":%llu,\"report\":",
            replay->count, (unsigned long long)replay->malformed,
            (unsigned long long)replay->torn, (unsigned long long)replay->compared,
            (unsigned long long)replay->different);
        load_report_json(&replay->config, result, &text);
        query_buffer_literal(&text, "}");
    } else {
        print_recording(replay);
        printf("  Compared   %llu\n  Different  %llu\n\n", (unsigned long long)replay->compared,
               (unsigned long long)replay->different);
        load_report_text(&replay->config, result, &text);
    }
    fwrite(text.data, 1, text.size, stdout);
    puts("");
    query_buffer_clear(&text);
    return result->good == result->count && result->count == replay->count ? EXIT_DONE
                                                                           : EXIT_NO;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct replay replay = { .speed = 1 };
    replay.config.connections = 16;
    replay.config.timeout_ns = 5000000000;
    command_parse(&argp, &replay, globals, argc, argv);
    replay.json = globals->json;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    kv_status status = KV_STATUS_INIT;
    struct load_source source = { &replay, next, check };
    struct load_result *result = calloc(1, sizeof(*result));
    replay.checker = load_json_new(kv_bytes(NULL, 0));
    kv_code code = result == NULL || replay.checker == NULL
                       ? kv_fail(&status, KV_NO_MEMORY, "no memory for the figures")
                       : KV_OK;
    if (code == KV_OK && replay.to != NULL)
        code = load_url_parse(replay.to, &replay.config.url, &status);
    if (code == KV_OK)
        code = read_recording(&replay, &status);
    int exit_status = EXIT_DONE;
    if (code == KV_OK && replay.torn > 0)
        fprintf(stderr, "statekv: %s: the last record has no separator; it is taken as it is\n",
                replay.file);
    if (code == KV_OK && !replay.dry)
        code = load_run(&replay.config, &source, &interrupted, NULL, NULL, result, &status);
    if (code != KV_OK)
        exit_status = command_fail(&status);
    else if (replay.dry)
        print_recording(&replay);
    else
        exit_status = report(&replay, result);
    for (size_t i = 0; i < replay.count; i++) {
        query_buffer_clear(&replay.list[i].wire);
        query_buffer_clear(&replay.list[i].body);
    }
    free(replay.list);
    load_json_free(replay.checker);
    free(result);
    return exit_status;
}

const struct command command_replay = { "replay", "send a recording again and compare", run };
