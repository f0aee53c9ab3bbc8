/* load.c - statekv load: a load generator with plow's report. */
#include "bench/load.h"
#include "tools/commands.h"
#include "tools/load_page.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    HEADERS_MAX = 64,
    OPTION_EXPECT = 0x200,
    OPTION_LISTEN,
    OPTION_TIMEOUT,
    OPTION_MAX_ERRORS
};

struct load {
    const char *url, *method, *type, *body, *expect, *listen;
    const char *headers[HEADERS_MAX];
    size_t header_count;
    double rate, max_errors;
    bool json;
    struct load_config config;
    struct load_page *page;
    struct query_buffer body_bytes;
};

static volatile bool interrupted;

static const struct argp_option options[] = {
    { "concurrency", 'c', "N", 0, "Connections (default 1)", 0 },
    { "requests", 'n', "N", 0, "End after N requests", 0 },
    { "duration", 'd', "TIME", 0, "End after TIME, such as 10s or 3m (default 10s without -n)",
      0 },
    { "rate", 'r', "R", 0, "Open loop: R requests a second, each timed from when it was due",
      0 },
    { "method", 'm', "METHOD", 0, "HTTP method (default GET, with a body POST)", 0 },
    { "content-type", 'T', "TYPE", 0, "Of the body (default application/json)", 0 },
    { "body", 'b', "BODY", 0, "Send this body, or @FILE for a file's bytes", 0 },
    { "header", 'H', "K:V", 0, "Send this header too", 0 },
    { "expect", OPTION_EXPECT, "TEXT", 0, "Answers must contain TEXT", 0 },
    { "timeout", OPTION_TIMEOUT, "TIME", 0, "An answer may take this long (default 5s)", 0 },
    { "max-errors", OPTION_MAX_ERRORS, "PERCENT", 0,
      "Exit with 1 when more of the requests fail (default 0)", 0 },
    { "listen", OPTION_LISTEN, "ADDRESS", 0,
      "Draw the figures live on a page at this address, such as :18888", 0 },
    { 0 }
};

/* "250ms", "10s", "1m30s" in nanoseconds. */
static uint64_t read_duration(const struct argp_state *parser, const char *option,
                              const char *text)
{
    double total = 0;
    const char *at = text;
    while (*at != '\0') {
        char *end;
        double number = strtod(at, &end);
        size_t unit = strspn(end, "mshu");
        double scale = strncmp(end, "ms", unit) == 0 && unit == 2   ? 1e6
                       : strncmp(end, "us", unit) == 0 && unit == 2 ? 1e3
                       : unit == 1 && *end == 's'                   ? 1e9
                       : unit == 1 && *end == 'm'                   ? 60e9
                       : unit == 1 && *end == 'h'                   ? 3600e9
                                                                    : -1;
        if (end == at || scale < 0 || number < 0 || number * scale > 1e18)
            command_usage(parser, "%s: %s is no time; write 10s, 250ms or 1m30s", option, text);
        total += number * scale;
        at = end + unit;
    }
    if (total < 1)
        command_usage(parser, "%s: the time must be above zero", option);
    return (uint64_t)total;
}

static double read_positive(const struct argp_state *parser, const char *option,
                            const char *text)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= 0) || number > 1e9)
        command_usage(parser, "%s: %s is no number from 0 to 1e9", option, text);
    return number;
}

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct load *load = parser->input;
    switch (key) {
    case 'c':
        load->config.connections =
            (size_t)command_number(parser, "-c", argument, 1, LOAD_CONNECTIONS_MAX);
        return 0;
    case 'n':
        load->config.requests_max = command_number(parser, "-n", argument, 1, UINT64_MAX);
        return 0;
    case 'd':
        load->config.duration_ns = read_duration(parser, "-d", argument);
        return 0;
    case 'r':
        load->rate = read_positive(parser, "--rate", argument);
        return 0;
    case 'm':
        load->method = argument;
        return 0;
    case 'T':
        load->type = argument;
        return 0;
    case 'b':
        load->body = argument;
        return 0;
    case 'H':
        if (load->header_count == HEADERS_MAX || strchr(argument, ':') == NULL ||
            strpbrk(argument, "\r\n") != NULL)
            command_usage(parser, "-H: at most %d headers, each NAME: VALUE", HEADERS_MAX);
        load->headers[load->header_count++] = argument;
        return 0;
    case OPTION_EXPECT:
        load->expect = argument;
        return 0;
    case OPTION_LISTEN:
        load->listen = argument;
        return 0;
    case OPTION_TIMEOUT:
        load->config.timeout_ns = read_duration(parser, "--timeout", argument);
        return 0;
    case OPTION_MAX_ERRORS:
        load->max_errors = read_positive(parser, "--max-errors", argument);
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        load->url = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        command_usage(parser, "which URL? write statekv load http://127.0.0.1:26657/");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "URL",
    "Send one request over N connections, again and again, and report as plow does.\v"
    "Only good answers count: a status of 200 to 299, the expected text, and for JSON-RPC a "
    "result with the id that was sent and a code of 0. Whatever else comes is an error, listed "
    "by kind, and makes the exit status 1.",
    NULL,
    NULL,
    NULL
};

static kv_code read_body(struct load *load, kv_status *status)
{
    if (load->body == NULL)
        return KV_OK;
    if (load->body[0] != '@') {
        query_buffer_text(&load->body_bytes, load->body);
        return KV_OK;
    }
    FILE *file = fopen(load->body + 1, "re");
    if (file == NULL)
        return kv_fail(status, KV_INVALID, "%s: %s", load->body + 1, strerror(errno));
    char block[65536];
    for (size_t n; (n = fread(block, 1, sizeof(block), file)) > 0;)
        query_buffer_add(&load->body_bytes, block, n);
    bool good = ferror(file) == 0 && !load->body_bytes.failed;
    fclose(file);
    return good ? KV_OK : kv_fail(status, KV_IO, "%s cannot be read", load->body + 1);
}

static void on_progress(void *context, const struct load_result *so_far)
{
    struct load *load = context;
    load_page_update(load->page, &load->config, so_far, false);
    if (!load->json && isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "\r%6.1f s  %llu good  %llu errors ", (double)so_far->elapsed_ns / 1e9,
                (unsigned long long)so_far->good,
                (unsigned long long)(so_far->count - so_far->good));
}

static void on_signal(int number)
{
    (void)number;
    interrupted = true;
}

static kv_code run_load(struct load *load, struct load_result *result, kv_status *status)
{
    struct load_fixed fixed = { 0 };
    const char *method = load->method != NULL ? load->method
                         : load->body != NULL ? "POST"
                                              : "GET";
    kv_code code = load_url_parse(load->url, &load->config.url, status);
    if (code == KV_OK)
        code = read_body(load, status);
    if (code == KV_OK)
        code = load_fixed_init(&fixed, &load->config.url, method, load->type, load->headers,
                               load->header_count,
                               kv_bytes(load->body_bytes.data, load->body_bytes.size), status);
    if (code == KV_OK && load->listen != NULL) {
        code = load_page_open(load->listen, &load->page, status);
        if (code == KV_OK)
            fprintf(stderr, "statekv: live at %s/\n", load_page_url(load->page));
    }
    if (code == KV_OK) {
        struct load_source source = load_fixed_source(&fixed);
        fixed.rate = load->rate;
        fixed.expect = load->expect == NULL ? kv_bytes(NULL, 0) : kv_text(load->expect);
        code =
            load_run(&load->config, &source, &interrupted, on_progress, load, result, status);
        load_page_update(load->page, &load->config, result, true);
        if (!load->json && isatty(STDERR_FILENO) == 1)
            fprintf(stderr, "\r%60s\r", "");
    }
    load_fixed_clear(&fixed);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct load load = { .type = "application/json" };
    load.config.connections = 1;
    load.config.timeout_ns = 5000000000;
    command_parse(&argp, &load, globals, argc, argv);
    load.json = globals->json;
    if (load.config.requests_max == 0 && load.config.duration_ns == 0)
        load.config.duration_ns = 10000000000;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    kv_status status = KV_STATUS_INIT;
    struct query_buffer report = QUERY_BUFFER_INIT;
    struct load_result *result = calloc(1, sizeof(*result));
    kv_code code = result == NULL ? kv_fail(&status, KV_NO_MEMORY, "no memory for the figures")
                                  : run_load(&load, result, &status);
    int exit_status = EXIT_DONE;
    if (code != KV_OK) {
        exit_status = command_fail(&status);
    } else {
        if (load.json)
            load_report_json(&load.config, result, &report);
        else
            load_report_text(&load.config, result, &report);
        fwrite(report.data, 1, report.size, stdout);
        puts("");
        double failed = (double)(result->count - result->good);
        if (result->good == 0 || failed * 100 > load.max_errors * (double)result->count)
            exit_status = EXIT_NO;
    }
    load_page_close(load.page);
    query_buffer_clear(&report);
    query_buffer_clear(&load.body_bytes);
    free(result);
    return exit_status;
}

const struct command command_load = { "load", "send a request many times and report", run };
