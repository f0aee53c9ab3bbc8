/* document.c - result documents as files, and the names of their rows. */
#include "bench/harness.h"

#include <math.h>
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

const char *bench_json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double bench_json_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

void bench_row_name(const json_t *row, char *out, size_t size)
{
    int at = snprintf(out, size, "%s.%s %s/%s threads=%.0f", bench_json_text(row, "suite"),
                      bench_json_text(row, "workload"), bench_json_text(row, "backend"),
                      bench_json_text(row, "filesystem"), bench_json_number(row, "threads"));
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

const json_t *bench_row_find(const json_t *document, const json_t *row)
{
    char wanted[BENCH_ROW_NAME_SIZE], name[BENCH_ROW_NAME_SIZE];
    size_t i;
    json_t *each;
    bench_row_name(row, wanted, sizeof(wanted));
    json_array_foreach(json_object_get(document, "rows"), i, each)
    {
        bench_row_name(each, name, sizeof(name));
        if (strcmp(name, wanted) == 0)
            return each;
    }
    return NULL;
}
