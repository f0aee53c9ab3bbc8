/* option_value.h - option values as text: sizes, durations, ranges, near misses. */
#ifndef KV_OPTION_VALUE_H
#define KV_OPTION_VALUE_H

#include "kv/kv.h"

/* Read `text` as a value of `spec` (not KV_OPTION_TEXT) within its range. The
 * message names the option by its spec alone. */
kv_code kv_option_value_parse(const kv_option_spec *spec, const char *text, uint64_t *out,
                              kv_status *status);

/* Take `number` if it is within the range of `spec`. */
kv_code kv_option_value_check(const kv_option_spec *spec, bool negative, uint64_t number,
                              uint64_t *out, kv_status *status);

/* What a value must look like: "true or false", "a size such as 64MiB". */
const char *kv_option_type_text(kv_option_type type);

enum { KV_OPTION_TEXT_SIZE = 32 };

/* A number as it would be written for `type`: 67108864 as "64MiB". */
void kv_option_value_print(kv_option_type type, uint64_t number,
                           char text[KV_OPTION_TEXT_SIZE]);

/* Edits between two names, and how many still make a likely misspelling. */
size_t kv_option_distance(const char *a, const char *b);
size_t kv_option_distance_max(const char *name);

#endif /* KV_OPTION_VALUE_H */
