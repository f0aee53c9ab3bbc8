/* input.h - a whole file, or standard input, as one run of bytes. */
#ifndef TOOLS_INPUT_H
#define TOOLS_INPUT_H

#include "kv/kv.h"

enum { INPUT_PADDING = 64 }; /* readable bytes after the end */

struct input {
    const char *name; /* for messages: the path, or "standard input" */
    kv_slice bytes;
    void *map;
    size_t map_size;
};

/* Map the file at `path`, which must not shrink meanwhile; "-" is standard input. What is no
 * file is kept in a temporary one first. */
KV_MUST_CHECK kv_code input_open(struct input *input, const char *path, kv_status *status);
void input_close(struct input *input);

/* The line, from 1, that byte `at` is in. */
size_t input_line(const struct input *input, size_t at);

#endif /* TOOLS_INPUT_H */
