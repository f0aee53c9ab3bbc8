/*
 * buffer.h - bytes that grow: answers being written, requests being gathered.
 *
 * A buffer starts zeroed and is reused: reset keeps the memory, clear gives it
 * back. Running out of memory sticks in `failed` and drops what is added, so a
 * writer checks once, at the end.
 */
#ifndef ABCI_QUERY_BUFFER_H
#define ABCI_QUERY_BUFFER_H

#include "kv/kv.h"

#include <string.h>

struct query_buffer {
    char *data;
    size_t size;
    size_t capacity;
    bool failed;
};

#define QUERY_BUFFER_INIT \
    {                     \
        NULL, 0, 0, false \
    }

/* Readable bytes kept after the end of every buffer, for the JSON parser. */
#define QUERY_BUFFER_PADDING 64u

/* Make room for `extra` more bytes; false, and failed, when there is none. */
bool query_buffer_reserve(struct query_buffer *buffer, size_t extra);
void query_buffer_clear(struct query_buffer *buffer);
/* Forget the contents; give memory above `keep` bytes back. */
void query_buffer_reset(struct query_buffer *buffer, size_t keep);
/* Drop the first `count` bytes. */
void query_buffer_shift(struct query_buffer *buffer, size_t count);

static inline void query_buffer_add(struct query_buffer *buffer, const void *data, size_t size)
{
    if (size > buffer->capacity - buffer->size && !query_buffer_reserve(buffer, size))
        return;
    if (size == 0)
        return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

static inline void query_buffer_slice(struct query_buffer *buffer, kv_slice bytes)
{
    query_buffer_add(buffer, bytes.data, bytes.size);
}

#define query_buffer_literal(buffer, text) query_buffer_add((buffer), "" text, sizeof(text) - 1)

void query_buffer_text(struct query_buffer *buffer, const char *text);
void query_buffer_unsigned(struct query_buffer *buffer, uint64_t number);
void query_buffer_signed(struct query_buffer *buffer, int64_t number);
void query_buffer_format(struct query_buffer *buffer, const char *format, ...) KV_PRINTF(2, 3);

/* Upper-case hex, as CometBFT writes hashes. */
void query_buffer_hex(struct query_buffer *buffer, kv_slice bytes);
/* Standard alphabet, padded. */
void query_buffer_base64(struct query_buffer *buffer, kv_slice bytes);
/* A JSON string in quotes, escaped as Go's encoder does (also < > & U+2028
 * U+2029); what is not UTF-8 becomes U+FFFD. */
void query_buffer_json(struct query_buffer *buffer, kv_slice text);

/* A number in decimal: digits end at `end`; returns where they begin. Takes at
 * most 20 bytes. */
char *query_decimal(char *end, uint64_t number);

/* The value of a hex digit of either case, or -1. */
static inline int query_hex_digit(char c)
{
    /* Conditional moves: of random digits a branch would be guessed wrong. */
    uint8_t number = (uint8_t)(c - '0'), letter = (uint8_t)((c | 0x20) - 'a');
    int value = letter < 6 ? letter + 10 : -1;
    return number < 10 ? number : value;
}

#endif /* ABCI_QUERY_BUFFER_H */
