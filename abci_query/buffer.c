/* buffer.c - growing bytes and the encodings of answers. */
#include "abci_query/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 1024, FORMAT_SIZE_MAX = 1024 };

bool query_buffer_reserve(struct query_buffer *buffer, size_t extra)
{
    if (extra <= buffer->capacity - buffer->size)
        return true;
    if (buffer->failed || extra > SIZE_MAX / 4 || buffer->size > SIZE_MAX / 4) {
        buffer->failed = true;
        return false;
    }

    size_t capacity = buffer->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buffer->capacity;
    while (capacity - buffer->size < extra)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity + QUERY_BUFFER_PADDING);
    if (data == NULL) {
        buffer->failed = true;
        return false;
    }
    /* The padding is read, never used: it only has to hold something. */
    memset(data + capacity, 0, QUERY_BUFFER_PADDING);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void query_buffer_clear(struct query_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct query_buffer)QUERY_BUFFER_INIT;
}

void query_buffer_reset(struct query_buffer *buffer, size_t keep)
{
    if (buffer->capacity > keep) {
        query_buffer_clear(buffer);
        return;
    }
    buffer->size = 0;
    buffer->failed = false;
}

void query_buffer_shift(struct query_buffer *buffer, size_t count)
{
    if (count >= buffer->size) {
        buffer->size = 0;
        return;
    }
    if (count == 0)
        return;
    memmove(buffer->data, buffer->data + count, buffer->size - count);
    buffer->size -= count;
}

void query_buffer_text(struct query_buffer *buffer, const char *text)
{
    query_buffer_add(buffer, text, strlen(text));
}

char *query_decimal(char *end, uint64_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return end;
}

void query_buffer_unsigned(struct query_buffer *buffer, uint64_t number)
{
    char digits[20];
    char *end = digits + sizeof(digits);
    const char *first = query_decimal(end, number);
    query_buffer_add(buffer, first, (size_t)(end - first));
}

void query_buffer_signed(struct query_buffer *buffer, int64_t number)
{
    if (number >= 0) {
        query_buffer_unsigned(buffer, (uint64_t)number);
        return;
    }
    query_buffer_literal(buffer, "-");
    query_buffer_unsigned(buffer, 0 - (uint64_t)number);
}

void query_buffer_format(struct query_buffer *buffer, const char *format, ...)
{
    char text[FORMAT_SIZE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size < 0)
        return;
    query_buffer_add(buffer, text,
                     (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
}

void query_buffer_hex(struct query_buffer *buffer, kv_slice bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    if (!query_buffer_reserve(buffer, bytes.size * 2))
        return;
    const uint8_t *in = bytes.data;
    char *out = buffer->data + buffer->size;
    for (size_t i = 0; i < bytes.size; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    buffer->size += bytes.size * 2;
}

/* The length of the UTF-8 character at `text`, 0 if it is none. */
static size_t utf8_size(const uint8_t *text, size_t left)
{
    uint8_t lead = text[0];
    size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (size == 0 || lead > 0xf4 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) ||
        (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f))
        return 0; /* over-long, surrogate, or past U+10FFFF */
    return size;
}

/* How one ASCII character is written; true if not as itself. */
static bool escape_ascii(struct query_buffer *buffer, uint8_t c)
{
    switch (c) {
    case '"':
        query_buffer_literal(buffer, "\\\"");
        return true;
    case '\\':
        query_buffer_literal(buffer, "\\\\");
        return true;
    case '\n':
        query_buffer_literal(buffer, "\\n");
        return true;
    case '\r':
        query_buffer_literal(buffer, "\\r");
        return true;
    case '\t':
        query_buffer_literal(buffer, "\\t");
        return true;
    default:
        break;
    }
    if (c >= 0x20 && c != '<' && c != '>' && c != '&')
        return false;
    query_buffer_format(buffer, "\\u%04x", c);
    return true;
}

/* ASCII that stands for itself in a JSON string. */
static bool is_plain(uint8_t c)
{
    static const uint64_t set[4] = { UINT64_C(0xafffffbb00000000), UINT64_C(0xffffffffefffffff),
                                     0, 0 };
    return (set[c >> 6] >> (c & 63) & 1) != 0;
}

void query_buffer_json(struct query_buffer *buffer, kv_slice text)
{
    const uint8_t *in = text.data;
    size_t plain = 0; /* where the run written as it is begins */
    query_buffer_literal(buffer, "\"");
    for (size_t i = 0; i < text.size;) {
        if (is_plain(in[i])) {
            i++;
            continue;
        }
        size_t size = utf8_size(in + i, text.size - i);
        bool line = size == 3 && in[i] == 0xe2 && in[i + 1] == 0x80 &&
                    (in[i + 2] == 0xa8 || in[i + 2] == 0xa9);
        bool ascii = size == 1 && (in[i] < 0x20 || strchr("\"\\<>&", in[i]) != NULL);
        if (size > 0 && !line && !ascii) {
            i += size;
            continue;
        }
        query_buffer_add(buffer, in + plain, i - plain);
        if (size == 0)
            query_buffer_literal(buffer, "\\ufffd");
        else if (line)
            query_buffer_format(buffer, "\\u202%x", in[i + 2] & 15);
        else
            escape_ascii(buffer, in[i]);
        i += size == 0 ? 1 : size;
        plain = i;
    }
    if (text.size > plain)
        query_buffer_add(buffer, in + plain, text.size - plain);
    query_buffer_literal(buffer, "\"");
}
