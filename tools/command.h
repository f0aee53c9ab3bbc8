/*
 * command.h - how a subcommand of statekv is written.
 *
 * A command is one file with one `const struct command`, named in commands.h.
 * It parses its own options with argp; --config, --set, --db and --json are
 * everyone's and parsed for it. What it prints for people goes through printf,
 * for programs through output.h; what went wrong is one line by command_fail.
 *
 *     static int run(const struct globals *globals, int argc, char **argv)
 *     {
 *         struct own own = { 0 };
 *         command_parse(&argp, &own, globals, argc, argv);
 *         ...
 *     }
 *     const struct command command_kv_stats = { "kv stats", "figures of a database", run };
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include "kv/kv.h"

#include <argp.h>
#include <signal.h>

/* What a shell learns. */
enum {
    EXIT_DONE = 0,
    EXIT_NO = 1,    /* the answer is no, or a check failed */
    EXIT_USAGE = 2, /* wrong usage or bad input */
    EXIT_STORE = 3  /* the store or the network failed */
};

enum { COMMAND_SETS_MAX = 64 }; /* --set given so often at most */

/* The options of every command. */
struct globals {
    const char *config;
    const char *db; /* BACKEND:DIR */
    const char *sets[COMMAND_SETS_MAX];
    size_t sets_count;
    bool json;
};

struct command {
    const char *name;    /* "kv put": one word or two */
    const char *summary; /* for the list of commands; no full stop */
    int (*run)(struct globals *globals, int argc, char **argv); /* gives the exit status */
};

/* The commands in the order of the manual, ended by a NULL. */
extern const struct command *const commands[];

/*
 * Parse the command line of a command: argv[0] is "statekv NAME". `own` is the
 * input of `argp`. Ends the program on --help (0) and on wrong usage (2).
 */
void command_parse(const struct argp *argp, void *own, struct globals *globals, int argc,
                   char **argv);

/* For argp parsers: say what is wrong with the command line, and end with 2. */
_Noreturn void command_usage(const struct argp_state *parser, const char *format, ...)
    KV_PRINTF(2, 3);

/* For argp parsers: a whole number within [min, max], else command_usage. */
uint64_t command_number(const struct argp_state *parser, const char *option, const char *text,
                        uint64_t min, uint64_t max);

/* Say what went wrong in one line on standard error; the status that suits `status->code`. */
int command_fail(const kv_status *status);
/* The same for a fault of our own. */
int command_fail_with(kv_code code, const char *format, ...) KV_PRINTF(2, 3);

/* For a service: hold back SIGTERM and SIGINT, before there are threads, so that only
 * command_wait_end sees them, and ignore SIGPIPE. */
void command_block_ends(sigset_t *ends);
/* Wait until one of them comes. */
void command_wait_end(const sigset_t *ends);

/* The tables of the config file beside [kv.*], ended by a NULL. */
extern const kv_option_table *const command_tables[];

/* The options that --config, --db and --set make, with every table known. */
KV_MUST_CHECK kv_code command_all_options(const struct globals *globals, kv_options **out,
                                          kv_status *status);
/* The same with `db`, a "BACKEND:DIR", in place of --db. */
KV_MUST_CHECK kv_code command_db_options(const struct globals *globals, const char *db,
                                         kv_options **out, kv_status *status);
/* Open the database that the global options name. */
KV_MUST_CHECK kv_code command_open(const struct globals *globals, unsigned flags, kv_db **out,
                                   kv_status *status);

#endif /* TOOLS_COMMAND_H */
