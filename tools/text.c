/* text.c - bytes to text and hex, and back. */
#include "tools/text.h"

#include <stdlib.h>
#include <string.h>

void text_clear(struct text *text)
{
    free(text->data);
    *text = (struct text)TEXT_INIT;
}

/* A tool has nothing better to do without memory than to end. */
static void reserve(struct text *text, size_t more)
{
    size_t needed = text->size + more + 1;
    if (needed <= text->space)
        return;
    size_t space = text->space < 64 ? 64 : text->space;
    while (space < needed)
        space *= 2;
    char *data = realloc(text->data, space);
    if (data == NULL) {
        fprintf(stderr, "statekv: out of memory for %zu bytes\n", space);
        exit(3);
    }
    text->data = data;
    text->space = space;
}

void text_append(struct text *text, const void *data, size_t size)
{
    reserve(text, size);
    if (size > 0)
        memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void text_append_byte(struct text *text, unsigned char byte)
{
    text_append(text, &byte, 1);
}

kv_slice text_bytes(const struct text *text)
{
    return kv_bytes(text->data, text->size);
}

/* What a digit stands for, and one more; 0 for what is no digit. */
static const unsigned char digit_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
    ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
    ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
    ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* The byte two digits stand for, or -1. */
static inline int byte_of(const unsigned char *digits)
{
    int high = digit_values[digits[0]], low = digit_values[digits[1]];
    return high == 0 || low == 0 ? -1 : (high - 1) * 16 + low - 1;
}

static kv_code not_hex(kv_slice source, const char *what, kv_status *status)
{
    const unsigned char *digits = source.data;
    for (size_t i = 0; i < source.size; i++)
        if (digit_values[digits[i]] == 0)
            return kv_fail(status, KV_INVALID, "%s: character %zu is not a hex digit", what,
                           i + 1);
    return kv_fail(status, KV_INVALID, "%s: odd number of hex digits, %zu", what, source.size);
}

static kv_code decode_hex(struct text *text, kv_slice source, const char *what,
                          kv_status *status)
{
    const unsigned char *digits = source.data;
    size_t size = source.size / 2;
    reserve(text, size);
    int all = source.size % 2 == 0 ? 0 : -1;
    char *to = text->data + text->size;
    for (size_t i = 0; i < size; i++) {
        int byte = byte_of(digits + 2 * i);
        all |= byte;
        to[i] = (char)byte;
    }
    if (all < 0)
        return not_hex(source, what, status);
    text->size += size;
    text->data[text->size] = '\0';
    return KV_OK;
}

kv_code text_decode(struct text *text, kv_slice source, bool hex, const char *what,
                    kv_status *status)
{
    if (hex)
        return decode_hex(text, source, what, status);

    const unsigned char *bytes = source.data;
    reserve(text, source.size);
    for (size_t i = 0; i < source.size; i++) {
        if (bytes[i] != '\\') {
            text_append_byte(text, bytes[i]);
        } else if (i + 1 < source.size && bytes[i + 1] == '\\') {
            text_append_byte(text, '\\');
            i += 1;
        } else if (i + 3 < source.size && bytes[i + 1] == 'x' && byte_of(bytes + i + 2) >= 0) {
            text_append_byte(text, (unsigned char)byte_of(bytes + i + 2));
            i += 3;
        } else {
            return kv_fail(status, KV_INVALID,
                           "%s: the backslash at character %zu is not of \\\\ or \\xNN", what,
                           i + 1);
        }
    }
    return KV_OK;
}

static void encode_hex(struct text *text, kv_slice bytes, const char *digits)
{
    const unsigned char *from = bytes.data;
    reserve(text, bytes.size * 2);
    char *to = text->data + text->size;
    for (size_t i = 0; i < bytes.size; i++) {
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
    *to = '\0';
    text->size += bytes.size * 2;
}

void text_encode(struct text *text, kv_slice bytes, bool hex)
{
    static const char lower[] = "0123456789abcdef";
    if (hex) {
        encode_hex(text, bytes, lower);
        return;
    }

    const unsigned char *from = bytes.data;
    reserve(text, bytes.size);
    for (size_t i = 0; i < bytes.size; i++) {
        if (from[i] == '\\') {
            text_append(text, "\\\\", 2);
        } else if (from[i] >= 0x20 && from[i] < 0x7f) {
            text_append_byte(text, from[i]);
        } else {
            text_append(text, "\\x", 2);
            encode_hex(text, kv_bytes(from + i, 1), lower);
        }
    }
}

void text_encode_digest(struct text *text, kv_slice digest)
{
    encode_hex(text, digest, "0123456789ABCDEF");
}

void text_append_json(struct text *text, kv_slice utf8)
{
    static const char short_forms[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'
    };
    const unsigned char *bytes = utf8.data;
    text_append_byte(text, '"');
    for (size_t i = 0; i < utf8.size; i++) {
        if (bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\') {
            text_append_byte(text, bytes[i]);
            continue;
        }
        text_append_byte(text, '\\');
        if (bytes[i] >= 0x20) {
            text_append_byte(text, bytes[i]);
        } else if (short_forms[bytes[i]] != '\0') {
            text_append_byte(text, (unsigned char)short_forms[bytes[i]]);
        } else {
            text_append(text, "u00", 3);
            encode_hex(text, kv_bytes(bytes + i, 1), "0123456789abcdef");
        }
    }
    text_append_byte(text, '"');
}
