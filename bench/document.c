/* document.c - result documents as files, and the names of their rows. */
#include "bench/harness.h"

#include <string.h>

enum { DOCUMENT_VERSION = 1 };

kv_code bench_document_load(const char *path, json_t **out, kv_status *status)
{
    json_error_t error;
    *out = json_load_file(path, 0, &error);
    if (*out == NULL)
        return kv_fail(status, KV_INVALID, "%s: line %d: %s", path, error.line, error.text);

    const char *format = json_string_value(json_object_get(*out, "format"));
    json_int_t version = json_integer_value(json_object_get(*out, "format_version"));
    kv_code code = KV_OK;
    if (format == NULL || strcmp(format, "statekv-bench") != 0)
        code = kv_fail(status, KV_INVALID, "%s: is not a result of statekv-bench", path);
    else if (version != DOCUMENT_VERSION)
        code = kv_fail(status, KV_INVALID, "%s: has format version %lld, this program reads %d",
                       path, (long long)version, DOCUMENT_VERSION);
    else if (!json_is_array(json_object_get(*out, "rows")))
        code = kv_fail(status, KV_INVALID, "%s: has no rows", path);
    if (code != KV_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return code;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "?";
}

void bench_row_name(const json_t *row, char *out, size_t size)
{
    int at = snprintf(out, size, "%s.%s %s threads=%lld", text_of(row, "suite"),
                      text_of(row, "workload"), text_of(row, "backend"),
                      (long long)json_integer_value(json_object_get(row, "threads")));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(row, "parameters"), key, value)
    {
        const char *text = json_string_value(value);
        if (at < 0 || (size_t)at >= size)
            return;
        at += snprintf(out + at, size - (size_t)at, " %s=%s", key, text != NULL ? text : "?");
    }
}
