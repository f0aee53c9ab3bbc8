/* drivers.c - statekv drivers: the storage engines built in. */
#include "kv/driver.h"
#include "tools/commands.h"
#include "tools/output.h"

#include <inttypes.h>

static const struct argp argp = {
    NULL,
    NULL,
    NULL,
    "List the storage engines built in, with version and capabilities: durable (contents "
    "outlive the process), spaces (kept by the engine itself), pinned (reads lend memory "
    "instead of copying), verify (checksums are checked again on demand).\v"
    "Name one in --db or db_backend. `statekv options DRIVER' lists what can be set.",
    NULL,
    NULL,
    NULL
};

static const struct {
    unsigned cap;
    const char *name;
} capabilities[] = { { KV_CAP_DURABLE, "durable" },
                     { KV_CAP_SPACES, "spaces" },
                     { KV_CAP_PINNED, "pinned" },
                     { KV_CAP_VERIFY, "verify" } };

enum { CAPABILITIES = sizeof(capabilities) / sizeof(capabilities[0]) };

static void print(const kv_driver *driver)
{
    printf("%-10s %-16s", driver->name, driver->engine_version);
    for (size_t i = 0; i < CAPABILITIES; i++)
        if ((driver->caps & capabilities[i].cap) != 0)
            printf(" %s", capabilities[i].name);
    putchar('\n');
}

static void print_json(const kv_driver *driver)
{
    struct json out;
    json_start(&out, stdout);
    json_text(&out, "name", driver->name);
    json_text(&out, "version", driver->engine_version);
    for (size_t i = 0; i < CAPABILITIES; i++)
        json_bool(&out, capabilities[i].name, (driver->caps & capabilities[i].cap) != 0);
    json_number(&out, "key_size_max", driver->key_size_max);
    json_number(&out, "value_size_max", driver->value_size_max);
    json_end(&out);
}

static int run(struct globals *globals, int argc, char **argv)
{
    command_parse(&argp, NULL, globals, argc, argv);
    for (size_t i = 0; kv_driver_at(i) != NULL; i++)
        (globals->json ? print_json : print)(kv_driver_at(i));
    return EXIT_DONE;
}

const struct command command_drivers = { "drivers", "list the storage engines built in", run };
