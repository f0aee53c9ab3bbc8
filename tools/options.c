/* options.c - statekv options: what can be set, from the tables the program itself uses. */
#include "kv/driver.h"
#include "kv/option_value.h"
#include "tools/commands.h"
#include "tools/output.h"

#include <string.h>

struct options {
    const char *name;
    bool markdown;
};

static const struct argp_option options[] = {
    { "markdown", 'm', NULL, 0, "Print tables in Markdown, as in docs/options.md", 0 }, { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct options *own = parser->input;
    switch (key) {
    case 'm':
        own->markdown = true;
        return 0;
    case ARGP_KEY_ARG:
        if (parser->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        own->name = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "[DRIVER|TABLE]",
    "List the options of a driver, or of another table of the config file such as vmap: name, "
    "type, default, range and meaning. Without a name, all of them.\v"
    "Set one in the file, under [kv.DRIVER] or [TABLE], or for one run by --set "
    "kv.DRIVER.OPTION=VALUE.\n\nExample: statekv options rocksdb",
    NULL,
    NULL,
    NULL
};

static const char *type_name(kv_option_type type)
{
    static const char *const names[] = { [KV_OPTION_BOOL] = "true or false",
                                         [KV_OPTION_INT] = "number",
                                         [KV_OPTION_SIZE] = "size",
                                         [KV_OPTION_DURATION] = "duration",
                                         [KV_OPTION_TEXT] = "text" };
    return names[type];
}

/* A limit in the largest unit that divides it. */
static const char *amount(char *buffer, kv_option_type type, uint64_t number)
{
    if (number == UINT64_MAX)
        return "no limit";
    kv_option_value_print(type, number, buffer);
    return buffer;
}

static bool has_range(const kv_option_spec *spec)
{
    return spec->type == KV_OPTION_INT || spec->type == KV_OPTION_SIZE ||
           spec->type == KV_OPTION_DURATION;
}

static void print(const char *table, const kv_option_spec *spec)
{
    char min[KV_OPTION_TEXT_SIZE];
    char max[KV_OPTION_TEXT_SIZE];
    printf("%s.%s (%s", table, spec->name, type_name(spec->type));
    if (has_range(spec))
        printf(", %s to %s", amount(min, spec->type, spec->min),
               amount(max, spec->type, spec->max));
    printf("; default %s)\n    %s\n", spec->fallback[0] != '\0' ? spec->fallback : "empty",
           spec->help);
    if (spec->alias != NULL)
        printf("    CometBFT's %s means the same\n", spec->alias);
}

static void print_markdown(const kv_option_spec *spec)
{
    char min[KV_OPTION_TEXT_SIZE];
    char max[KV_OPTION_TEXT_SIZE];
    printf("| `%s` | %s | %s%s%s | ", spec->name, type_name(spec->type),
           spec->fallback[0] != '\0' ? "`" : "", spec->fallback,
           spec->fallback[0] != '\0' ? "`" : "");
    if (has_range(spec))
        printf("%s to %s", amount(min, spec->type, spec->min),
               amount(max, spec->type, spec->max));
    printf(" | %s", spec->help);
    if (spec->alias != NULL)
        printf(" (CometBFT: `%s`)", spec->alias);
    puts(" |");
}

static void print_json(const char *table, const kv_option_spec *spec)
{
    struct json out;
    json_start(&out, stdout);
    json_text(&out, "table", table);
    json_text(&out, "name", spec->name);
    json_text(&out, "type", type_name(spec->type));
    json_text(&out, "default", spec->fallback);
    if (has_range(spec)) {
        json_number(&out, "min", spec->min);
        json_number(&out, "max", spec->max);
    }
    json_text(&out, "help", spec->help);
    if (spec->alias != NULL)
        json_text(&out, "alias", spec->alias);
    json_end(&out);
}

static void print_table(const char *name, const kv_option_spec *spec, bool markdown, bool json)
{
    if (markdown)
        printf("\n## [%s]\n\n| option | type | default | range | meaning |\n"
               "|---|---|---|---|---|\n",
               name);
    for (; spec->name != NULL; spec++) {
        if (markdown)
            print_markdown(spec);
        else if (json)
            print_json(name, spec);
        else
            print(name, spec);
    }
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct options own = { 0 };
    command_parse(&argp, &own, globals, argc, argv);

    bool found = own.name == NULL;
    const kv_driver *wanted = found ? NULL : kv_driver_find(own.name);
    for (size_t i = 0; kv_driver_at(i) != NULL; i++) {
        const kv_driver *driver = kv_driver_at(i);
        char table[64];
        if (own.name != NULL && driver != wanted)
            continue;
        found = true;
        snprintf(table, sizeof(table), "kv.%s", driver->name);
        print_table(table, driver->options, own.markdown, globals->json);
    }
    for (size_t i = 0; command_tables[i] != NULL; i++) {
        const kv_option_table *table = command_tables[i];
        if (own.name != NULL && strcmp(own.name, table->name) != 0)
            continue;
        found = true;
        print_table(table->name, table->specs, own.markdown, globals->json);
    }
    if (!found)
        return command_fail_with(KV_INVALID,
                                 "no driver or table called %s; see statekv drivers", own.name);
    return EXIT_DONE;
}

const struct command command_options = { "options", "list what can be set in the config file",
                                         run };
