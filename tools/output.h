/*
 * output.h - what commands write for programs (one JSON object a line) and,
 * while they work, for people who watch a terminal.
 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include "kv/kv.h"

#include <stdio.h>

/* A JSON writer; members and elements are separated by themselves. */
struct json {
    FILE *file;
    bool comma;
};

void json_start(struct json *json, FILE *file);        /* { */
void json_object(struct json *json, const char *name); /* "name":{ */
void json_array(struct json *json, const char *name);  /* "name":[ */
void json_element(struct json *json);                  /* { within an array */
void json_close(struct json *json, char bracket);      /* } or ] */
void json_end(struct json *json);                      /* } and a new line */
void json_text(struct json *json, const char *name, const char *value);
void json_bytes(struct json *json, const char *name, kv_slice value, bool hex);
void json_digest(struct json *json, const char *name, kv_slice digest);
void json_number(struct json *json, const char *name, uint64_t value);
void json_real(struct json *json, const char *name, double value);
void json_null(struct json *json, const char *name);
void json_bool(struct json *json, const char *name, bool value);

/* One figure, for people or into an open object; a kv_stats and state_stats visitor whose
 * context is a struct json, or NULL for people. */
void output_stat(void *context, const kv_stat *stat);

/* A line on standard error that grows with the work; nothing off a terminal. */
struct progress {
    const char *what;
    uint64_t start_ms;
    uint64_t shown_ms; /* when last drawn; 0 never */
    bool terminal;
};

enum { PROGRESS_PAUSE_MS = 100 }; /* between two drawings */

void progress_start(struct progress *progress, const char *what);
/* The same for a command that prints meanwhile: nothing where both are one terminal. */
void progress_start_beside(struct progress *progress, const char *what);
/* `total` 0: not known. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total);
void progress_end(struct progress *progress);
/* Seconds since the start. */
double progress_seconds(const struct progress *progress);

#endif /* TOOLS_OUTPUT_H */
