/* basics.c - codes, statuses, slices and ranges: what needs no database. */
#include "kv/kv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *kv_code_name(kv_code code)
{
    switch (code) {
#define XX(name, number, text) \
    case KV_##name:            \
        return #name;
        KV_CODE_MAP(XX)
#undef XX
    }
    return "UNKNOWN";
}

const char *kv_code_text(kv_code code)
{
    switch (code) {
#define XX(name, number, text) \
    case KV_##name:            \
        return text;
        KV_CODE_MAP(XX)
#undef XX
    }
    return "unknown code";
}

kv_code kv_fail(kv_status *status, kv_code code, const char *format, ...)
{
    if (status == NULL || status->code != KV_OK)
        return code;

    va_list arguments;
    va_start(arguments, format);
    vsnprintf(status->message, sizeof(status->message), format, arguments);
    va_end(arguments);
    status->code = code;
    return code;
}

kv_slice kv_text(const char *text)
{
    return kv_bytes(text, strlen(text));
}

int kv_compare(kv_slice a, kv_slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size == 0 ? 0 : memcmp(a.data, b.data, size);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

void kv_value_release(kv_value *value)
{
    if (value == NULL)
        return;
    if (value->release != NULL)
        value->release(value);
    *value = (kv_value)KV_VALUE_INIT;
}

kv_range kv_range_of_prefix(kv_slice prefix, void *limit)
{
    const unsigned char *bytes = prefix.data;
    size_t size = prefix.size;
    while (size > 0 && bytes[size - 1] == 0xff)
        size--;
    if (size > 0) {
        unsigned char *end = limit;
        memcpy(end, bytes, size);
        end[size - 1]++;
    }
    return (kv_range){ prefix, kv_bytes(size > 0 ? limit : NULL, size) };
}
