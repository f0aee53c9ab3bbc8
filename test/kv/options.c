/* options.c - option values, config files and what they are refused for. */
#include "kv/driver.h"
#include "kv/option_value.h"
#include "test/kv/scratch.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(options, .timeout = 30);
TestSuite(config, .timeout = 30);

static const kv_option_spec query_specs[] = {
    { "laddr", KV_OPTION_TEXT, "tcp://127.0.0.1:26657", 0, 0, "Where to listen", "rpc.laddr" },
    { "max_batch", KV_OPTION_INT, "10", 0, 1000, "Requests in one batch",
      "rpc.max_request_batch_size" },
    { "timeout", KV_OPTION_DURATION, "10s", 10, 60000, "How long a request may take", NULL },
    { "strict", KV_OPTION_BOOL, "false", 0, 0, "Refuse what is doubtful", NULL },
    { "body", KV_OPTION_SIZE, "1MiB", 1024, 1u << 30, "Bytes in a request", NULL },
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};
static const kv_option_table query_table = { "query", query_specs };
static const kv_option_table *const tables[] = { &query_table, NULL };

/* ---- Values -------------------------------------------------------------- */

struct value_case {
    kv_option_type type;
    const char *text;
    int64_t number; /* -1: refused */
};

Test(options, values)
{
    static const struct value_case cases[] = {
        { KV_OPTION_BOOL, "true", 1 },
        { KV_OPTION_BOOL, "false", 0 },
        { KV_OPTION_BOOL, "1", -1 },
        { KV_OPTION_BOOL, "True", -1 },
        { KV_OPTION_INT, "42", 42 },
        { KV_OPTION_INT, "0", 0 },
        { KV_OPTION_INT, "", -1 },
        { KV_OPTION_INT, "-1", -1 },
        { KV_OPTION_INT, "4 ", -1 },
        { KV_OPTION_INT, "4K", -1 },
        { KV_OPTION_INT, "18446744073709551616", -1 },
        { KV_OPTION_SIZE, "4096", 4096 },
        { KV_OPTION_SIZE, "4KiB", 4096 },
        { KV_OPTION_SIZE, "64MiB", 64 << 20 },
        { KV_OPTION_SIZE, "7B", 7 },
        { KV_OPTION_SIZE, "2GiB", INT64_C(2) << 30 },
        { KV_OPTION_SIZE, "64MB", -1 },
        { KV_OPTION_SIZE, "64mib", -1 },
        { KV_OPTION_SIZE, "MiB", -1 },
        { KV_OPTION_SIZE, "1MiB1KiB", -1 },
        { KV_OPTION_SIZE, "99999999999TiB", -1 },
        { KV_OPTION_DURATION, "10s", 10000 },
        { KV_OPTION_DURATION, "250ms", 250 },
        { KV_OPTION_DURATION, "1m30s", 90000 },
        { KV_OPTION_DURATION, "2h", 7200000 },
        { KV_OPTION_DURATION, "0", 0 },
        { KV_OPTION_DURATION, "0s", 0 },
        { KV_OPTION_DURATION, "10", -1 },
        { KV_OPTION_DURATION, "", -1 },
        { KV_OPTION_DURATION, "1.5s", -1 },
        { KV_OPTION_DURATION, "10us", -1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const kv_option_spec spec = { "x", cases[i].type, "", 0, UINT64_MAX, "", NULL };
        uint64_t number = 77;
        kv_code code = kv_option_value_parse(&spec, cases[i].text, &number, NULL);
        cr_expect_eq(code, cases[i].number < 0 ? KV_INVALID : KV_OK, "\"%s\"", cases[i].text);
        cr_expect_eq(number, cases[i].number < 0 ? 77 : (uint64_t)cases[i].number, "\"%s\"",
                     cases[i].text);
    }
}

Test(options, printing)
{
    char text[KV_OPTION_TEXT_SIZE];
    const struct value_case cases[] = {
        { KV_OPTION_SIZE, "64MiB", 64 << 20 }, { KV_OPTION_SIZE, "1025B", 1025 },
        { KV_OPTION_DURATION, "90s", 90000 },  { KV_OPTION_DURATION, "10ms", 10 },
        { KV_OPTION_INT, "1048576", 1 << 20 }, { KV_OPTION_SIZE, "0", 0 },
        { KV_OPTION_DURATION, "1h", 3600000 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kv_option_value_print(cases[i].type, (uint64_t)cases[i].number, text);
        cr_expect_str_eq(text, cases[i].text);
    }
}

Test(options, distance)
{
    cr_assert_eq(kv_option_distance("block_cache", "block_cache"), 0);
    cr_assert_eq(kv_option_distance("block_cach", "block_cache"), 1);
    cr_assert_eq(kv_option_distance("kitten", "sitting"), 3);
    cr_assert_eq(kv_option_distance("", "abc"), 3);
}

/* Every table is fit for use: its defaults are values within range. */
Test(options, tables_are_sound)
{
    kv_options *options;
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_options_new("memory", "", tables, &options, &status), KV_OK, "%s",
                 status.message);
    kv_options_free(options);
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        for (const kv_option_spec *spec = driver->options; spec->name != NULL; spec++) {
            cr_expect_neq(spec->help[strlen(spec->help) - 1], '.', "%s.%s", driver->name,
                          spec->name);
            cr_expect_leq(spec->min, spec->max, "%s.%s", driver->name, spec->name);
        }
}

Test(options, setting)
{
    kv_options *options;
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_options_new("goleveldb", "d", tables, &options, NULL), KV_OK);
    cr_assert_str_eq(kv_options_backend(options), "leveldb");
    cr_assert_eq(kv_options_set(options, "db_backend", "memdb", NULL), KV_OK);
    cr_assert_str_eq(kv_options_backend(options), "memory");
    cr_assert_eq(kv_options_set(options, "query.body", "2KiB", NULL), KV_OK);
    cr_assert_eq(kv_options_number(options, "query.body"), 2048);
    cr_assert_eq(kv_options_set(options, "rpc.laddr", "tcp://h:1", NULL), KV_OK);
    cr_assert_str_eq(kv_options_text(options, "query.laddr"), "tcp://h:1");
    cr_assert_eq(kv_options_set(options, "query.strict", "true", NULL), KV_OK);
    cr_assert(kv_options_bool(options, "query.strict"));
    cr_assert_eq(kv_options_set(options, "query.bodi", "1KiB", &status), KV_INVALID);
    cr_assert_str_eq(status.message, "unknown option query.bodi: did you mean query.body?");
    kv_options_free(options);
}

Test(options, asking_for_the_unknown, .signal = SIGABRT)
{
    kv_options *options;
    cr_assert_eq(kv_options_new("memory", "", NULL, &options, NULL), KV_OK);
    kv_options_number(options, "query.body");
}

/* ---- Files --------------------------------------------------------------- */

static kv_code load(const char *text, kv_options **options, kv_status *status)
{
    char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    test_folder_make(dir);
    scratch_write(scratch_join(path, dir, "c.toml"), text);
    kv_code code = kv_options_load(path, tables, options, status);
    test_folder_remove(dir);
    return code;
}

/* A CometBFT config: its own tables are left alone, [rpc] means the same. */
Test(config, cometbft)
{
    kv_options *options;
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(load("proxy_app = \"tcp://127.0.0.1:26658\"\n"
                      "db_backend = \"goleveldb\"\n"
                      "db_dir = \"data\"\n"
                      "[rpc]\n"
                      "laddr = \"tcp://0.0.0.0:26657\"\n"
                      "cors_allowed_headers = [\"Origin\", \"Accept\", ]\n"
                      "max_request_batch_size = 7\n"
                      "[p2p]\nallow_duplicate_ip = false\nsend_rate = 1.5\n"
                      "[query]\nmax_batch = 8\n[kv.leveldb]\nblock_size = 8192\n",
                      &options, &status),
                 KV_OK, "%s", status.message);
    cr_assert_str_eq(kv_options_backend(options), "leveldb");
    const char *dir = kv_options_dir(options);
    cr_assert(strstr(dir, "/statekv-test-") != NULL);
    cr_assert_str_eq(dir + strlen(dir) - 5, "/data");
    cr_assert_str_eq(kv_options_text(options, "query.laddr"), "tcp://0.0.0.0:26657");
    cr_assert_eq(kv_options_number(options, "query.max_batch"), 8);
    cr_assert_eq(kv_options_number(options, "kv.leveldb.block_size"), 8192);
    kv_options_free(options);
}

/* Ours wins wherever it stands. */
Test(config, own_over_alias)
{
    kv_options *options;
    cr_assert_eq(
        load("[query]\nmax_batch = 8\n[rpc]\nmax_request_batch_size = 7\n", &options, NULL),
        KV_OK);
    cr_assert_eq(kv_options_number(options, "query.max_batch"), 8);
    kv_options_free(options);
}

Test(config, defaults)
{
    kv_options *options;
    cr_assert_eq(load("", &options, NULL), KV_OK);
    cr_assert_str_eq(kv_options_backend(options), kv_driver_at(0)->name);
    cr_assert_eq(kv_options_number(options, "query.timeout"), 10000);
    cr_assert_eq(kv_options_number(options, "query.body"), 1 << 20);
    kv_options_free(options);
}

struct refusal {
    const char *text, *message; /* the message's end, after the file's name */
};

Test(config, refusals)
{
    static const struct refusal cases[] = {
        { "\ndb_backend = \"rocksbd\"",
          ":2: unknown db_backend \"rocksbd\": expected one of " },
        { "db_backend = 3", ":1: db_backend must be text" },
        { "[query]\n\nmax_bach = 3", ":3: unknown option query.max_bach: did you mean "
                                     "query.max_batch?" },
        { "[query]\nnothing_like_it = 3", ":2: unknown option query.nothing_like_it" },
        { "[query]\nmax_batch = 1001", ":2: max_batch must be from 0 to 1000" },
        { "[query]\nmax_batch = -1", ":2: max_batch must be from 0 to 1000" },
        { "[rpc]\nmax_request_batch_size = 5000", ":2: max_batch must be from 0 to 1000" },
        { "[query]\nmax_batch = \"5\"", ":2: query.max_batch must be a whole number" },
        { "[query]\nmax_batch = 1.5", ":2: query.max_batch must be a whole number" },
        { "[query]\ntimeout = 10",
          ":2: query.timeout must be text such as \"10s\", \"250ms\" or "
          "\"1m30s\"" },
        { "[query]\ntimeout = \"1ms\"", ":2: timeout must be from 10ms to 1m" },
        { "[query]\nbody = \"1PiB\"", ":2: body must be a number of bytes, or text such as "
                                      "\"64MiB\", not \"1PiB\"" },
        { "[query]\nstrict = 1", ":2: query.strict must be true or false" },
        { "[query]\nstrict = [1, 2]", ":2: query.strict must be true or false" },
        { "[query.strict]\nx = 1", ":1: unknown option query.strict" },
        { "query = 5", ":1: unknown option query" },
        { "[kv.rocksbd]\n", ":1: unknown option kv.rocksbd" },
        { "[kv]\ndriver = \"x\"", ":2: unknown option kv.driver" },
        { "[query\n", ":1:7: " },
        { "a = 1\na = 2\n", ":2:5: " },
        { "x = \"open\n", ":1:" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kv_options *options;
        kv_status status = KV_STATUS_INIT;
        cr_expect_eq(load(cases[i].text, &options, &status), KV_INVALID, "%s", cases[i].text);
        cr_expect_null(options);
        const char *after = strstr(status.message, "c.toml");
        cr_assert_not_null(after, "%s", status.message);
        cr_expect_eq(strncmp(after + 6, cases[i].message, strlen(cases[i].message)), 0,
                     "%s\n%s\n%s", cases[i].text, after, cases[i].message);
    }
}

Test(config, files)
{
    char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    kv_options *options;
    kv_status status = KV_STATUS_INIT;
    test_folder_make(dir);
    cr_assert_eq(kv_options_load(scratch_join(path, dir, "none"), NULL, &options, &status),
                 KV_NOT_FOUND);
    cr_assert_not_null(strstr(status.message, path), "%s", status.message);
    cr_assert_eq(kv_options_load(dir, NULL, &options, NULL), KV_IO);

    scratch_write(path, "");
    cr_assert_eq(truncate(path, (1 << 20) + 1), 0);
    cr_assert_eq(kv_options_load(path, NULL, &options, NULL), KV_TOO_BIG);
    test_folder_remove(dir);
}
