/*
 * options.c - every option in force, by dotted name, from the tables of the
 * drivers and of the layers above.
 */
#include "kv/core.h"
#include "kv/option_value.h"
#include "kv/toml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CONFIG_SIZE_MAX = 1 << 20, /* bytes in a config file */
    NAME_SIZE_MAX = 256        /* bytes in a dotted name, its end mark included */
};

/* Who gave a value: a later one wins, a CometBFT key never over ours. */
enum source { FROM_DEFAULT, FROM_ALIAS, FROM_USER };

struct option {
    const kv_option_spec *spec;
    char *name; /* dotted */
    uint64_t number;
    char *text; /* for KV_OPTION_TEXT */
    enum source source;
};

struct kv_options {
    const kv_driver *driver;
    char *dir;
    struct option *items;
    size_t count, capacity;
};

/* ---- Setting up ---------------------------------------------------------- */

static kv_code no_memory(kv_status *status)
{
    kv_fail(status, KV_NO_MEMORY, "no memory for the options");
    return KV_NO_MEMORY;
}

static kv_code replace_text(char **text, const char *value, kv_status *status)
{
    char *copy = strdup(value);
    if (copy == NULL)
        return no_memory(status);
    free(*text);
    *text = copy;
    return KV_OK;
}

static kv_code option_set_text(struct option *option, const char *value, kv_status *status)
{
    if (option->spec->type == KV_OPTION_TEXT)
        return replace_text(&option->text, value, status);
    return kv_option_value_parse(option->spec, value, &option->number, status);
}

static kv_code option_add(kv_options *options, const char *table, const kv_option_spec *spec,
                          kv_status *status)
{
    if (options->count == options->capacity) {
        size_t capacity = options->capacity == 0 ? 32 : 2 * options->capacity;
        struct option *items = realloc(options->items, capacity * sizeof(*items));
        if (items == NULL)
            return no_memory(status);
        options->items = items;
        options->capacity = capacity;
    }
    struct option option = { .spec = spec };
    if (asprintf(&option.name, "%s.%s", table, spec->name) < 0)
        return no_memory(status);
    options->items[options->count++] = option;
    return option_set_text(&options->items[options->count - 1], spec->fallback, status);
}

static kv_code table_add(kv_options *options, const char *name, const kv_option_spec *specs,
                         kv_status *status)
{
    kv_code code = KV_OK;
    for (; code == KV_OK && specs->name != NULL; specs++)
        code = option_add(options, name, specs, status);
    return code;
}

/* Every option at its default, the first driver built in, CometBFT's folder. */
static kv_code options_init(const kv_option_table *const *tables, kv_options **out,
                            kv_status *status)
{
    kv_options *options = calloc(1, sizeof(*options));
    if (options == NULL)
        return no_memory(status);

    options->driver = kv_driver_at(0);
    kv_code code = replace_text(&options->dir, "data", status);
    const kv_driver *driver;
    for (size_t i = 0; code == KV_OK && (driver = kv_driver_at(i)) != NULL; i++) {
        char table[NAME_SIZE_MAX];
        snprintf(table, sizeof(table), "kv.%s", driver->name);
        code = table_add(options, table, driver->options, status);
    }
    for (; code == KV_OK && tables != NULL && *tables != NULL; tables++)
        code = table_add(options, (*tables)->name, (*tables)->specs, status);
    if (code != KV_OK) {
        kv_options_free(options);
        return code;
    }
    *out = options;
    return KV_OK;
}

void kv_options_free(kv_options *options)
{
    if (options == NULL)
        return;
    for (size_t i = 0; i < options->count; i++) {
        free(options->items[i].name);
        free(options->items[i].text);
    }
    free(options->items);
    free(options->dir);
    free(options);
}

kv_code kv_options_copy(const kv_options *options, const char *dir, kv_options **out,
                        kv_status *status)
{
    *out = NULL;
    kv_options *copy = calloc(1, sizeof(*copy));
    if (copy == NULL)
        return no_memory(status);
    copy->driver = options->driver;
    kv_code code = replace_text(&copy->dir, dir == NULL ? options->dir : dir, status);
    for (size_t i = 0; code == KV_OK && i < options->count; i++) {
        const struct option *item = &options->items[i];
        const char *dot = strrchr(item->name, '.');
        char table[NAME_SIZE_MAX];
        snprintf(table, sizeof(table), "%.*s", (int)(dot - item->name), item->name);
        code = option_add(copy, table, item->spec, status);
        if (code != KV_OK)
            break;
        copy->items[i].number = item->number;
        copy->items[i].source = item->source;
        if (item->text != NULL)
            code = replace_text(&copy->items[i].text, item->text, status);
    }
    if (code != KV_OK) {
        kv_options_free(copy);
        return code;
    }
    *out = copy;
    return KV_OK;
}

/* ---- Finding ------------------------------------------------------------- */

static struct option *find(const kv_options *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++)
        if (strcmp(options->items[i].name, name) == 0)
            return &options->items[i];
    return NULL;
}

static struct option *find_alias(const kv_options *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++) {
        const char *alias = options->items[i].spec->alias;
        if (alias != NULL && strcmp(alias, name) == 0)
            return &options->items[i];
    }
    return NULL;
}

/* Whether `name` is `table`, or a member of it at any depth. */
static bool is_within(const char *name, const char *table, size_t size)
{
    return strncmp(name, table, size) == 0 && (name[size] == '.' || name[size] == '\0');
}

/* Whether `name` is one of our tables or lies in one: "kv" and all below it,
 * and what the layers above registered. */
static bool is_ours(const kv_options *options, const char *name)
{
    if (is_within(name, "kv", strlen("kv")))
        return true;
    for (size_t i = 0; i < options->count; i++) {
        const char *own = options->items[i].name;
        if (is_within(name, own, (size_t)(strrchr(own, '.') - own)))
            return true;
    }
    return false;
}

/* Whether `name` is a table that holds options, or a table above such. */
static bool is_table(const kv_options *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++) {
        const char *own = options->items[i].name;
        if (strcmp(own, name) != 0 && is_within(own, name, strlen(name)))
            return true;
    }
    const kv_driver *driver = strncmp(name, "kv.", 3) == 0 ? kv_driver_find(name + 3) : NULL;
    return strcmp(name, "kv") == 0 || (driver != NULL && strcmp(driver->name, name + 3) == 0);
}

static kv_code unknown_option(const kv_options *options, const char *name, const char *where,
                              kv_status *status)
{
    const char *nearest = NULL;
    size_t best = kv_option_distance_max(name) + 1;
    for (size_t i = 0; i < options->count; i++) {
        size_t distance = kv_option_distance(name, options->items[i].name);
        if (distance < best) {
            best = distance;
            nearest = options->items[i].name;
        }
    }
    if (nearest == NULL)
        return kv_fail(status, KV_INVALID, "%sunknown option %s", where, name);
    return kv_fail(status, KV_INVALID, "%sunknown option %s: did you mean %s?", where, name,
                   nearest);
}

static kv_code set_backend(kv_options *options, const char *name, const char *where,
                           kv_status *status)
{
    const kv_driver *driver = kv_driver_find(name);
    if (driver != NULL) {
        options->driver = driver;
        return KV_OK;
    }
    char list[KV_MESSAGE_SIZE] = "";
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ", driver->name);
    }
    return kv_fail(status, KV_INVALID, "%sunknown db_backend \"%s\": expected one of %s", where,
                   name, list);
}

/* ---- Reading a file ------------------------------------------------------ */

struct reading {
    kv_options *options;
    const char *path;
    kv_status *status;
};

/* A relative db_dir is relative to the file's folder. */
static kv_code set_dir_beside(const struct reading *reading, const char *dir)
{
    const char *slash = strrchr(reading->path, '/');
    if (dir[0] == '/' || dir[0] == '\0' || slash == NULL)
        return replace_text(&reading->options->dir, dir, reading->status);
    char *joined = NULL;
    if (asprintf(&joined, "%.*s/%s", (int)(slash - reading->path), reading->path, dir) < 0)
        return no_memory(reading->status);
    free(reading->options->dir);
    reading->options->dir = joined;
    return KV_OK;
}

static kv_code wrong_kind(const struct reading *reading, const char *name, const char *expected,
                          unsigned line)
{
    return kv_fail(reading->status, KV_INVALID, "%s:%u: %s must be %s", reading->path, line,
                   name, expected);
}

static kv_code set_from_item(const struct reading *reading, struct option *option,
                             const struct kv_toml_item *item)
{
    const kv_option_spec *spec = option->spec;
    kv_option_type type = spec->type;
    kv_status local = KV_STATUS_INIT;
    kv_code code;
    if (item->kind == KV_TOML_TEXT && type != KV_OPTION_BOOL && type != KV_OPTION_INT)
        code = option_set_text(option, item->text, &local);
    else if (item->kind == KV_TOML_INT && (type == KV_OPTION_INT || type == KV_OPTION_SIZE))
        code = kv_option_value_check(spec, item->number < 0, (uint64_t)item->number,
                                     &option->number, &local);
    else if (item->kind == KV_TOML_BOOL && type == KV_OPTION_BOOL)
        code =
            kv_option_value_check(spec, false, (uint64_t)item->number, &option->number, &local);
    else
        return wrong_kind(reading, item->name, kv_option_type_text(type), item->line);
    if (code != KV_OK)
        return kv_fail(reading->status, code, "%s:%u: %s", reading->path, item->line,
                       local.message);
    return KV_OK;
}

static kv_code visit_item(void *context, const struct kv_toml_item *item)
{
    const struct reading *reading = context;
    kv_options *options = reading->options;
    char where[KV_MESSAGE_SIZE];
    snprintf(where, sizeof(where), "%s:%u: ", reading->path, item->line);

    bool is_dir = strcmp(item->name, "db_dir") == 0;
    if (is_dir || strcmp(item->name, "db_backend") == 0) {
        if (item->kind != KV_TOML_TEXT)
            return wrong_kind(reading, item->name, "text", item->line);
        return is_dir ? set_dir_beside(reading, item->text)
                      : set_backend(options, item->text, where, reading->status);
    }

    struct option *option = find(options, item->name);
    enum source source = FROM_USER;
    if (option == NULL) {
        option = find_alias(options, item->name);
        source = FROM_ALIAS;
    }
    if (option != NULL && item->kind != KV_TOML_TABLE) {
        if (option->source > source)
            return KV_OK;
        option->source = source;
        return set_from_item(reading, option, item);
    }
    if (!is_ours(options, item->name) ||
        (item->kind == KV_TOML_TABLE && is_table(options, item->name)))
        return KV_OK;
    return unknown_option(options, item->name, where, reading->status);
}

/* The whole of a file, to be freed by the caller. */
static kv_code read_file(const char *path, char **out, size_t *size, kv_status *status)
{
    *out = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kv_fail(status, errno == ENOENT ? KV_NOT_FOUND : KV_IO,
                       "cannot read config %s: %s", path, strerror(errno));

    kv_code code = KV_OK;
    char *text = malloc(CONFIG_SIZE_MAX + 1);
    size_t used = 0;
    ssize_t got = 1;
    while (text != NULL && got > 0 && used <= CONFIG_SIZE_MAX) {
        got = TEMP_FAILURE_RETRY(read(fd, text + used, CONFIG_SIZE_MAX + 1 - used));
        if (got > 0)
            used += (size_t)got;
    }
    if (text == NULL)
        code = no_memory(status);
    else if (got < 0)
        code = kv_fail(status, KV_IO, "cannot read config %s: %s", path, strerror(errno));
    else if (used > CONFIG_SIZE_MAX)
        code = kv_fail(status, KV_TOO_BIG, "config %s is larger than %d bytes", path,
                       CONFIG_SIZE_MAX);
    close(fd);
    if (code != KV_OK) {
        free(text);
        text = NULL;
    }
    *out = text;
    *size = used;
    return code;
}

kv_code kv_options_load(const char *path, const kv_option_table *const *tables,
                        kv_options **out, kv_status *status)
{
    *out = NULL;
    char *text = NULL;
    size_t size = 0;
    struct reading reading = { NULL, path, status };
    kv_code code = read_file(path, &text, &size, status);
    if (code == KV_OK)
        code = options_init(tables, &reading.options, status);
    if (code == KV_OK)
        code = set_dir_beside(&reading, "data");
    if (code == KV_OK)
        code = kv_toml_read(text, size, path, visit_item, &reading, status);
    free(text);
    if (code != KV_OK) {
        kv_options_free(reading.options);
        return code;
    }
    *out = reading.options;
    return KV_OK;
}

/* ---- Setting and asking -------------------------------------------------- */

kv_code kv_options_new(const char *backend, const char *dir,
                       const kv_option_table *const *tables, kv_options **out,
                       kv_status *status)
{
    *out = NULL;
    kv_options *options;
    kv_code code = options_init(tables, &options, status);
    if (code != KV_OK)
        return code;
    code = set_backend(options, backend, "", status);
    if (code == KV_OK)
        code = replace_text(&options->dir, dir, status);
    if (code != KV_OK) {
        kv_options_free(options);
        return code;
    }
    *out = options;
    return KV_OK;
}

kv_code kv_options_set(kv_options *options, const char *name, const char *value,
                       kv_status *status)
{
    if (strcmp(name, "db_backend") == 0)
        return set_backend(options, value, "", status);
    if (strcmp(name, "db_dir") == 0)
        return replace_text(&options->dir, value, status);

    struct option *option = find(options, name);
    if (option == NULL)
        option = find_alias(options, name);
    if (option == NULL)
        return unknown_option(options, name, "", status);
    kv_code code = option_set_text(option, value, status);
    if (code == KV_OK)
        option->source = FROM_USER;
    return code;
}

const char *kv_options_backend(const kv_options *options)
{
    return options->driver->name;
}

const char *kv_options_dir(const kv_options *options)
{
    return options->dir;
}

static const struct option *find_typed(const kv_options *options, const char *name,
                                       unsigned types)
{
    const struct option *option = find(options, name);
    if (option != NULL && (types & 1u << option->spec->type) != 0)
        return option;
    fprintf(stderr, "statekv: the code asks for %s, and no table has it so\n", name);
    abort();
}

bool kv_options_bool(const kv_options *options, const char *name)
{
    return find_typed(options, name, 1u << KV_OPTION_BOOL)->number != 0;
}

uint64_t kv_options_number(const kv_options *options, const char *name)
{
    const unsigned numbers =
        1u << KV_OPTION_INT | 1u << KV_OPTION_SIZE | 1u << KV_OPTION_DURATION;
    return find_typed(options, name, numbers)->number;
}

const char *kv_options_text(const kv_options *options, const char *name)
{
    return find_typed(options, name, 1u << KV_OPTION_TEXT)->text;
}
