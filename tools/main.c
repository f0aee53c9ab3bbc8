/* main.c - the statekv program: finds the command and runs it. */
#include "tools/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char documentation[] =
    "Look after the state of a chain node: key-value databases, merkle maps with proofs, "
    "queries and catching up, on the storage engine that a config file or --db names.\v"
    "Exit status: 0 done, 1 the answer is no or a check failed, 2 wrong usage or bad input, "
    "3 the store or the network failed. `statekv COMMAND --help' tells all about a command.";

static bool in_group(const struct command *command, const char *group)
{
    size_t size = strlen(group);
    return group[0] == '\0' ||
           (strncmp(command->name, group, size) == 0 && command->name[size] == ' ');
}

static void list_commands(FILE *file, const char *group)
{
    for (size_t i = 0; commands[i] != NULL; i++)
        if (in_group(commands[i], group))
            fprintf(file, "  %-14s %s\n", commands[i]->name, commands[i]->summary);
}

/* Puts the list of commands between the options and the closing text; argp frees it. */
static char *add_commands(int key, const char *text, void *input)
{
    (void)input;
    if (text == NULL)
        return NULL;
    char *all = NULL;
    size_t size = 0;
    FILE *file = key == ARGP_KEY_HELP_POST_DOC ? open_memstream(&all, &size) : NULL;
    if (file == NULL)
        return strdup(text);
    fputs("Commands:\n", file);
    list_commands(file, "");
    fprintf(file, "\n%s", text);
    fclose(file);
    return all;
}

static const struct argp_option options[] = {
    { "version", 'V', NULL, 0, "Print the program's version", -1 }, { 0 }
};

/* Options up to the command's name; the rest is the command's. */
static error_t parse(int key, char *argument, struct argp_state *parser)
{
    (void)argument;
    int *first = parser->input;
    switch (key) {
    case 'V':
        puts("statekv " STATEKV_VERSION);
        exit(EXIT_DONE);
    case ARGP_KEY_ARGS:
        *first = parser->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        command_usage(parser, "no command given");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = { options,       parse, "COMMAND [ARGUMENT...]",
                                  documentation, NULL,  add_commands,
                                  NULL };

/* The command that argv begins with; `words` says how many words name it. */
static const struct command *find(int argc, char **argv, int *words)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        const char *name = commands[i]->name;
        const char *space = strchr(name, ' ');
        if (space == NULL && strcmp(name, argv[0]) == 0) {
            *words = 1;
            return commands[i];
        }
        if (space != NULL && argc > 1 && in_group(commands[i], argv[0]) &&
            strcmp(space + 1, argv[1]) == 0) {
            *words = 2;
            return commands[i];
        }
    }
    return NULL;
}

static int unknown(int argc, char **argv)
{
    bool group = false;
    for (size_t i = 0; commands[i] != NULL; i++)
        group = group || (argv[0][0] != '\0' && in_group(commands[i], argv[0]));
    if (group && argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)) {
        printf("Usage: statekv %s COMMAND [ARGUMENT...]\n\nCommands:\n", argv[0]);
        list_commands(stdout, argv[0]);
        return EXIT_DONE;
    }
    fprintf(stderr, "statekv: no such command: %s%s%s; see statekv%s%s --help\n", argv[0],
            group && argc > 1 ? " " : "", group && argc > 1 ? argv[1] : "", group ? " " : "",
            group ? argv[0] : "");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static char name[] = "statekv";
    struct globals globals = { .config = NULL };
    int first = argc;
    argp_err_exit_status = EXIT_USAGE;
    argv[0] = name;
    command_parse(&argp, &first, &globals, argc, argv);

    int words = 0;
    const struct command *command = find(argc - first, argv + first, &words);
    if (command == NULL)
        return unknown(argc - first, argv + first);

    static char title[64];
    snprintf(title, sizeof(title), "statekv %s", command->name);
    argv[first + words - 1] = title;
    int status = command->run(&globals, argc - first - words + 1, argv + first + words - 1);
    bool written = ferror(stdout) == 0;
    errno = 0; /* a write that failed earlier has lost its reason */
    if (fflush(stdout) != 0 || !written) {
        fprintf(stderr, "statekv: standard output: %s\n",
                errno != 0 ? strerror(errno) : "not all of it could be written");
        return EXIT_STORE;
    }
    return status;
}
