/* command.c - what all commands share: options, errors, opening. */
#include "tools/command.h"

#include "abci_query/query.h"
#include "reconnect/reconnect.h"
#include "vmap/state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kv_option_table *const command_tables[] = { &state_option_table, &query_option_table,
                                                  &reconnect_option_table, NULL };

enum { OPTION_CONFIG = 0x100, OPTION_SET, OPTION_DB, OPTION_JSON, OPTION_USAGE };

static const struct argp_option global_options[] = {
    { "config", OPTION_CONFIG, "FILE", 0,
      "Read db_backend, db_dir and all other options from this TOML file; a CometBFT "
      "config.toml will do",
      0 },
    { "set", OPTION_SET, "NAME=VALUE", 0,
      "Set one option of the file, such as kv.rocksdb.memory_budget=1GiB; may be given often",
      0 },
    { "db", OPTION_DB, "BACKEND:DIR", 0,
      "Use this engine in this folder, such as rocksdb:data; goes before the file", 0 },
    { "json", OPTION_JSON, NULL, 0, "Print one JSON object per result and nothing else", 0 },
    { 0 }
};

static error_t parse_global(int key, char *argument, struct argp_state *parser)
{
    struct globals *globals = parser->input;
    switch (key) {
    case OPTION_CONFIG:
        globals->config = argument;
        return 0;
    case OPTION_SET:
        if (strchr(argument, '=') == NULL)
            command_usage(parser, "--set %s: not of the form NAME=VALUE", argument);
        if (globals->sets_count == COMMAND_SETS_MAX)
            command_usage(parser, "--set %s: more than %d of them", argument, COMMAND_SETS_MAX);
        globals->sets[globals->sets_count++] = argument;
        return 0;
    case OPTION_DB:
        if (strchr(argument, ':') == NULL)
            command_usage(parser, "--db %s: not of the form BACKEND:DIR", argument);
        globals->db = argument;
        return 0;
    case OPTION_JSON:
        globals->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp global_argp = { global_options, parse_global, NULL, NULL,
                                         NULL,           NULL,         NULL };

struct inputs {
    void *own;
    struct globals *globals;
    const struct argp *argp;
};

/* Of our own, since argp with ARGP_NO_ERRS gives no help either. */
_Noreturn static void help(const struct inputs *inputs, char *name, unsigned what)
{
    argp_help(inputs->argp, stdout, what, name);
    exit(fflush(stdout) == 0 ? EXIT_DONE : EXIT_STORE);
}

/* Hands each of the two parsers its input, and words what neither knows. */
static error_t parse_both(int key, char *argument, struct argp_state *parser)
{
    (void)argument;
    struct inputs *inputs = parser->input;
    switch (key) {
    case ARGP_KEY_INIT:
        parser->child_inputs[0] = inputs->own;
        parser->child_inputs[1] = inputs->globals;
        return 0;
    case '?':
        help(inputs, parser->argv[0], ARGP_HELP_SHORT_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG);
    case OPTION_USAGE:
        help(inputs, parser->argv[0], ARGP_HELP_USAGE);
    case ARGP_KEY_ERROR:
        command_usage(parser, "%s: no such option, or its value is missing or unwanted",
                      parser->argv[parser->next > 1 ? parser->next - 1 : parser->argc - 1]);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option help_options[] = {
    { "help", '?', NULL, 0, "Give this help", -1 },
    { "usage", OPTION_USAGE, NULL, 0, "Give a short usage message", -1 },
    { 0 }
};

void command_parse(const struct argp *argp, void *own, struct globals *globals, int argc,
                   char **argv)
{
    const struct argp_child children[] = { { argp, 0, NULL, 0 },
                                           { &global_argp, 0, "Options of every command:", 10 },
                                           { 0 } };
    const struct argp both = { help_options, parse_both, NULL, NULL, children, NULL, NULL };
    struct inputs inputs = { own, globals, &both };
    int next = argc;
    /* argp's own messages take two lines and do not tell which option it was. */
    unsigned flags = ARGP_NO_ERRS | ARGP_NO_HELP;
    if (strcmp(argv[0], "statekv") == 0)
        flags |= ARGP_IN_ORDER; /* a command's options are not ours */
    error_t error = argp_parse(&both, argc, argv, flags, &next, &inputs);
    if (error != 0)
        exit(EXIT_USAGE);
    if (next < argc && (flags & ARGP_IN_ORDER) == 0) {
        fprintf(stderr, "%s: unexpected argument %s; see %s --help\n", argv[0], argv[next],
                argv[0]);
        exit(EXIT_USAGE);
    }
}

void command_usage(const struct argp_state *parser, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", parser->argv[0]);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see %s --help\n", parser->argv[0]);
    va_end(arguments);
    exit(EXIT_USAGE);
}

uint64_t command_number(const struct argp_state *parser, const char *option, const char *text,
                        uint64_t min, uint64_t max)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < min ||
        number > max)
        command_usage(parser, "%s %s: not a whole number from %llu to %llu", option, text,
                      (unsigned long long)min, (unsigned long long)max);
    return number;
}

static int exit_status_of(kv_code code)
{
    switch (code) {
    case KV_OK:
        return EXIT_DONE;
    case KV_UNPROVEN:
        return EXIT_NO;
    case KV_INVALID:
    case KV_TOO_BIG:
    case KV_TOO_OLD:
    case KV_TOO_NEW:
    case KV_UNSUPPORTED:
        return EXIT_USAGE;
    default:
        return EXIT_STORE;
    }
}

int command_fail(const kv_status *status)
{
    const char *text = status->message;
    fprintf(stderr, "statekv: %s\n", text[0] != '\0' ? text : kv_code_text(status->code));
    return exit_status_of(status->code);
}

int command_fail_with(kv_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("statekv: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return exit_status_of(code);
}

/* The part of `text` before `mark`; the rest after it through `tail`. */
static kv_code split(const char *text, char mark, char **head, const char **tail,
                     kv_status *status)
{
    const char *at = strchr(text, mark);
    *head = NULL;
    if (at == NULL)
        return kv_fail(status, KV_INVALID, "%s: has no %c; give it as in --help", text, mark);
    *tail = at + 1;
    *head = strndup(text, (size_t)(at - text));
    return *head != NULL ? KV_OK : kv_fail(status, KV_NO_MEMORY, "no memory for %s", text);
}

/* Set what --set says, if all went well so far; `*options` are freed if anything did not. */
static kv_code set_all(const struct globals *globals, kv_code code, kv_options **options,
                       kv_status *status)
{
    for (size_t i = 0; code == KV_OK && i < globals->sets_count; i++) {
        char *name = NULL;
        const char *value = NULL;
        code = split(globals->sets[i], '=', &name, &value, status);
        if (code == KV_OK)
            code = kv_options_set(*options, name, value, status);
        free(name);
    }
    if (code != KV_OK) {
        kv_options_free(*options);
        *options = NULL;
    }
    return code;
}

/* Take engine and folder from a "BACKEND:DIR". */
static kv_code set_db(kv_options *options, const char *db, kv_status *status)
{
    char *backend = NULL;
    const char *dir = NULL;
    kv_code code = split(db, ':', &backend, &dir, status);
    if (code == KV_OK)
        code = kv_options_set(options, "db_backend", backend, status);
    if (code == KV_OK)
        code = kv_options_set(options, "db_dir", dir, status);
    free(backend);
    return code;
}

kv_code command_db_options(const struct globals *globals, const char *db, kv_options **out,
                           kv_status *status)
{
    kv_code code = KV_OK;
    *out = NULL;
    if (globals->config == NULL)
        code = kv_options_new("memory", "", command_tables, out, status);
    else
        code = kv_options_load(globals->config, command_tables, out, status);
    if (code == KV_IO || code == KV_NOT_FOUND)
        code = status->code = KV_INVALID; /* a bad input, and no fault of the store */
    if (code == KV_OK && db != NULL)
        code = set_db(*out, db, status);
    return set_all(globals, code, out, status);
}

kv_code command_all_options(const struct globals *globals, kv_options **out, kv_status *status)
{
    *out = NULL;
    if (globals->config == NULL && globals->db == NULL)
        return kv_fail(status, KV_INVALID,
                       "no database named: give --db BACKEND:DIR or --config FILE");
    return command_db_options(globals, globals->db, out, status);
}

void command_block_ends(sigset_t *ends)
{
    sigemptyset(ends);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, ends, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void command_wait_end(const sigset_t *ends)
{
    int caught = 0;
    sigwait(ends, &caught);
}

kv_code command_open(const struct globals *globals, unsigned flags, kv_db **out,
                     kv_status *status)
{
    *out = NULL;
    kv_options *options = NULL;
    kv_code code = command_all_options(globals, &options, status);
    if (code == KV_OK)
        code = kv_open(options, flags, out, status);
    kv_options_free(options);
    return code;
}
