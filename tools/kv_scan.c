/* kv_scan.c - statekv kv scan: print the pairs of a range in order. */
#include "tools/commands.h"
#include "tools/kv_place.h"
#include "tools/output.h"

#include <stdlib.h>

enum { OPTION_FIRST = 0x200, OPTION_LIMIT };

struct scan {
    struct place place;
    const char *prefix;
    const char *first;
    const char *limit;
    bool reverse;
    bool keys;
    uint64_t count;
};

static const struct argp_option options[] = {
    { "prefix", 'p', "PREFIX", 0, "Only keys that begin with PREFIX", 0 },
    { "first", OPTION_FIRST, "KEY", 0, "Only keys from KEY on, itself included", 0 },
    { "limit", OPTION_LIMIT, "KEY", 0, "Only keys before KEY, itself not included", 0 },
    { "reverse", 'R', NULL, 0, "From the last key to the first", 0 },
    { "keys", 'k', NULL, 0, "Print keys without their values", 0 },
    { "count", 'n', "N", 0, "Print at most N pairs", 0 },
    { 0 }
};

static error_t parse(int key, char *argument, struct argp_state *parser)
{
    struct scan *scan = parser->input;
    switch (key) {
    case ARGP_KEY_INIT:
        parser->child_inputs[0] = &scan->place;
        return 0;
    case 'p':
        scan->prefix = argument;
        return 0;
    case OPTION_FIRST:
        scan->first = argument;
        return 0;
    case OPTION_LIMIT:
        scan->limit = argument;
        return 0;
    case 'R':
        scan->reverse = true;
        return 0;
    case 'k':
        scan->keys = true;
        return 0;
    case 'n':
        scan->count = command_number(parser, "-n", argument, 1, UINT64_MAX);
        return 0;
    case ARGP_KEY_END:
        if (scan->prefix != NULL && (scan->first != NULL || scan->limit != NULL))
            command_usage(parser, "--prefix goes without --first and --limit");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { &place_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
    options,
    parse,
    NULL,
    "Print the pairs of a space in key order, one a line: key, tab, value. All of them come "
    "from one moment, whatever is written meanwhile.\v"
    "Example: statekv kv scan --db leveldb:data --prefix acc/ -n 10",
    children,
    NULL,
    NULL
};

static void print(const struct scan *scan, bool json, kv_slice key, kv_slice value)
{
    if (json) {
        struct json out;
        json_start(&out, stdout);
        json_bytes(&out, "key", key, scan->place.hex);
        if (!scan->keys)
            json_bytes(&out, "value", value, scan->place.hex);
        json_end(&out);
        return;
    }
    struct text line = TEXT_INIT;
    text_encode(&line, key, scan->place.hex);
    if (!scan->keys) {
        text_append_byte(&line, '\t');
        text_encode(&line, value, scan->place.hex);
    }
    puts(line.data);
    text_clear(&line);
}

static kv_code walk(const struct scan *scan, const kv_range *range, bool json,
                    kv_status *status)
{
    const kv_read read = { .no_cache = true };
    kv_iter *iter = NULL;
    struct progress progress;
    uint64_t done = 0;
    kv_code code = kv_iter_open(scan->place.space, &read, range, &iter, status);
    if (code != KV_OK)
        return code;
    progress_start_beside(&progress, "scanning");
    bool on = scan->reverse ? kv_iter_last(iter) : kv_iter_first(iter);
    while (on && done < scan->count && ferror(stdout) == 0) {
        print(scan, json, kv_iter_key(iter), kv_iter_value(iter));
        progress_show(&progress, ++done, 0);
        on = scan->reverse ? kv_iter_prev(iter) : kv_iter_next(iter);
    }
    progress_end(&progress);
    code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

static int run(struct globals *globals, int argc, char **argv)
{
    struct scan scan = { .place = PLACE_INIT, .count = UINT64_MAX };
    command_parse(&argp, &scan, globals, argc, argv);

    kv_status status = KV_STATUS_INIT;
    struct text first = TEXT_INIT;
    struct text limit = TEXT_INIT;
    kv_code code = KV_OK;
    kv_range range = { { NULL, 0 }, { NULL, 0 } };
    const char *start = scan.prefix != NULL ? scan.prefix : scan.first;
    if (start != NULL)
        code = text_decode(&first, kv_text(start), scan.place.hex,
                           scan.prefix != NULL ? "--prefix" : "--first", &status);
    if (code == KV_OK && scan.limit != NULL)
        code = text_decode(&limit, kv_text(scan.limit), scan.place.hex, "--limit", &status);
    if (code == KV_OK && scan.prefix != NULL) {
        text_append(&limit, first.data, first.size); /* scratch of the right size */
        range = kv_range_of_prefix(text_bytes(&first), limit.data);
    } else {
        range = (kv_range){ text_bytes(&first), text_bytes(&limit) };
    }
    if (code == KV_OK)
        code = place_open(&scan.place, globals, KV_OPEN_READ, &status);
    if (code == KV_OK)
        code = walk(&scan, &range, globals->json, &status);
    text_clear(&first);
    text_clear(&limit);
    return place_close(&scan.place, code, &status, EXIT_DONE);
}

const struct command command_kv_scan = { "kv scan", "print a range of pairs in order", run };
