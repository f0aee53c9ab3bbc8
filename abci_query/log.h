/*
 * log.h - what happened, one line an event: as text or as JSON.
 *
 *     2026-01-31T12:00:00.123Z warn turned_away connections=4096
 *     {"time":"2026-01-31T12:00:00.123Z","level":"warn","event":"turned_away","connections":4096}
 */
#ifndef ABCI_QUERY_LOG_H
#define ABCI_QUERY_LOG_H

#include "abci_query/query.h"

#include <stdatomic.h>
#include <stdio.h>

/* Lines a second; what is more is counted in the first line of the next. */
enum { QUERY_LOG_LINES_MAX = 100 };

struct query_log {
    query_log_level level; /* NONE, zero: nothing is written */
    bool json;
    FILE *out;
    atomic_llong second;
    atomic_uint lines, held_back; /* in that second; since the last line */
};

struct query_log_field {
    const char *name, *text; /* text NULL: the number */
    uint64_t number;
};

/* Read query.log_level and query.log_format; lines go to standard error. */
KV_MUST_CHECK kv_code query_log_init(struct query_log *log, const kv_options *options,
                                     kv_status *status);

/* Whether a line of this level would be written; `log` may be NULL. */
static inline bool query_log_wants(const struct query_log *log, query_log_level level)
{
    return log != NULL && log->level >= level;
}

/* Any thread. */
void query_log_event(struct query_log *log, query_log_level level, const char *event,
                     const struct query_log_field *fields, size_t count);

#endif /* ABCI_QUERY_LOG_H */
