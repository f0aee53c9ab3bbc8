/* option_value.c - reading and writing option values. */
#include "kv/option_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first, for printing. */
static const struct unit size_units[] = {
    { "TiB", UINT64_C(1) << 40 }, { "GiB", 1u << 30 }, { "MiB", 1u << 20 },
    { "KiB", 1u << 10 },          { "B", 1 },          { NULL, 0 },
};
static const struct unit duration_units[] = {
    { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 }, { NULL, 0 },
};

const char *kv_option_type_text(kv_option_type type)
{
    switch (type) {
    case KV_OPTION_BOOL:
        return "true or false";
    case KV_OPTION_INT:
        return "a whole number";
    case KV_OPTION_SIZE:
        return "a number of bytes, or text such as \"64MiB\"";
    case KV_OPTION_DURATION:
        return "text such as \"10s\", \"250ms\" or \"1m30s\"";
    case KV_OPTION_TEXT:
        return "text, or a list of texts";
    }
    return "";
}

void kv_option_value_print(kv_option_type type, uint64_t number, char text[KV_OPTION_TEXT_SIZE])
{
    const struct unit *unit = type == KV_OPTION_SIZE       ? size_units
                              : type == KV_OPTION_DURATION ? duration_units
                                                           : NULL;
    if (type == KV_OPTION_BOOL) {
        snprintf(text, KV_OPTION_TEXT_SIZE, "%s", number != 0 ? "true" : "false");
    } else if (unit == NULL || number == 0 || number == UINT64_MAX) {
        snprintf(text, KV_OPTION_TEXT_SIZE, "%" PRIu64, number);
    } else {
        while (number % unit->factor != 0)
            unit++;
        snprintf(text, KV_OPTION_TEXT_SIZE, "%" PRIu64 "%s", number / unit->factor, unit->name);
    }
}

kv_code kv_option_value_check(const kv_option_spec *spec, bool negative, uint64_t number,
                              uint64_t *out, kv_status *status)
{
    bool ranged = spec->type != KV_OPTION_BOOL;
    if (!negative && (!ranged || (number >= spec->min && number <= spec->max))) {
        *out = number;
        return KV_OK;
    }
    char min[KV_OPTION_TEXT_SIZE], max[KV_OPTION_TEXT_SIZE];
    kv_option_value_print(spec->type, spec->min, min);
    kv_option_value_print(spec->type, spec->max, max);
    return kv_fail(status, KV_INVALID, "%s must be from %s to %s", spec->name, min, max);
}

/* The digits at `*text`; false if there are none or they pass 64 bits. */
static bool read_digits(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t number = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (unsigned)(*at - '0'), &number))
            return false;
    bool any = at != *text;
    *text = at;
    *out = number;
    return any;
}

/* One number with its unit at `*text`; a unit may be left out if `bare`. */
static bool read_part(const char **text, const struct unit *units, bool bare, uint64_t *out)
{
    uint64_t number;
    if (!read_digits(text, &number))
        return false;
    if (bare && **text == '\0') {
        *out = number;
        return true;
    }
    size_t size = strspn(*text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    for (; units->name != NULL; units++) {
        if (strlen(units->name) != size || strncmp(units->name, *text, size) != 0)
            continue;
        *text += size;
        return !__builtin_mul_overflow(number, units->factor, out);
    }
    return false;
}

static bool read_duration(const char *text, uint64_t *out)
{
    uint64_t total = 0, part;
    if (strcmp(text, "0") == 0) {
        *out = 0;
        return true;
    }
    do {
        if (!read_part(&text, duration_units, false, &part) ||
            __builtin_add_overflow(total, part, &total))
            return false;
    } while (*text != '\0');
    *out = total;
    return true;
}

static bool read_bool(const char *text, uint64_t *out)
{
    *out = strcmp(text, "true") == 0;
    return *out == 1 || strcmp(text, "false") == 0;
}

kv_code kv_option_value_parse(const kv_option_spec *spec, const char *text, uint64_t *out,
                              kv_status *status)
{
    static const struct unit no_units[] = { { NULL, 0 } };
    const char *rest = text;
    uint64_t number = 0;
    bool good = false;
    switch (spec->type) {
    case KV_OPTION_BOOL:
        good = read_bool(text, &number);
        break;
    case KV_OPTION_INT:
        good = read_part(&rest, no_units, true, &number) && *rest == '\0';
        break;
    case KV_OPTION_SIZE:
        good = read_part(&rest, size_units, true, &number) && *rest == '\0';
        break;
    case KV_OPTION_DURATION:
        good = read_duration(text, &number);
        break;
    case KV_OPTION_TEXT:
        break;
    }
    if (!good)
        return kv_fail(status, KV_INVALID, "%s must be %s, not \"%s\"", spec->name,
                       kv_option_type_text(spec->type), text);
    return kv_option_value_check(spec, false, number, out, status);
}

/* ---- Misspellings -------------------------------------------------------- */

enum { DISTANCE_NAME_MAX = 128 };

size_t kv_option_distance(const char *a, const char *b)
{
    size_t row[DISTANCE_NAME_MAX + 1];
    size_t a_size = strlen(a), b_size = strlen(b);
    if (a_size > DISTANCE_NAME_MAX || b_size > DISTANCE_NAME_MAX)
        return SIZE_MAX;

    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_size];
}

size_t kv_option_distance_max(const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t last = strlen(dot == NULL ? name : dot + 1);
    return last < 6 ? 2 : last / 3;
}
