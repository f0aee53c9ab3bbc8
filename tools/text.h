/*
 * text.h - bytes as people type and read them, reversibly.
 *
 * Text form: printable ASCII stands for itself, a backslash is doubled, every
 * other byte is \xNN. Reading also takes any other byte as itself. Hex form:
 * two digits a byte.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include "kv/kv.h"

#include <stdio.h>

/* A growing run of bytes. Start from TEXT_INIT, end with text_clear. */
struct text {
    char *data; /* ended by a zero that `size` does not count */
    size_t size;
    size_t space;
};

#define TEXT_INIT  \
    {              \
        NULL, 0, 0 \
    }

void text_clear(struct text *text);
void text_append(struct text *text, const void *data, size_t size);
void text_append_byte(struct text *text, unsigned char byte);
kv_slice text_bytes(const struct text *text);

/* Append what `source` stands for. KV_INVALID says what is wrong with it;
 * `what` ("key", "value") names it in the message. */
KV_MUST_CHECK kv_code text_decode(struct text *text, kv_slice source, bool hex,
                                  const char *what, kv_status *status);

/* Append the form of `bytes` that text_decode reads. */
void text_encode(struct text *text, kv_slice bytes, bool hex);

/* Append a JSON string: UTF-8 as it is, only the escapes JSON needs, short where
 * there is a short form. */
void text_append_json(struct text *text, kv_slice utf8);

/* Append upper-case hex, as roots and app hashes are shown everywhere. */
void text_encode_digest(struct text *text, kv_slice digest);

#endif /* TOOLS_TEXT_H */
