/* log.c - lines of the log, made whole before they are written. */
#include "abci_query/log.h"

#include "abci_query/buffer.h"

#include <stdio.h>
#include <time.h>

static const char *const level_names[] = { "none", "error", "warn", "info", "debug" };
enum { LEVELS = sizeof(level_names) / sizeof(level_names[0]) };

kv_code query_log_init(struct query_log *log, const kv_options *options, kv_status *status)
{
    const char *level = kv_options_text(options, "query.log_level");
    const char *format = kv_options_text(options, "query.log_format");
    size_t i = 0;
    while (i < LEVELS && strcmp(level_names[i], level) != 0)
        i++;
    if (i == LEVELS)
        return kv_fail(status, KV_INVALID,
                       "query.log_level does not know \"%s\": none, error, warn, info or debug",
                       level);
    log->json = strcmp(format, "json") == 0;
    if (!log->json && strcmp(format, "text") != 0)
        return kv_fail(status, KV_INVALID,
                       "query.log_format does not know \"%s\": text or json", format);
    log->level = (query_log_level)i;
    log->out = stderr;
    return KV_OK;
}

/* A value that has no blanks stands as it is, another as JSON. */
static void write_text(struct query_buffer *out, const char *text)
{
    if (text[0] != '\0' && strpbrk(text, " =\"\\\n\r\t") == NULL)
        query_buffer_text(out, text);
    else
        query_buffer_json(out, kv_text(text));
}

static void write_field(struct query_buffer *out, bool json,
                        const struct query_log_field *field)
{
    if (json) {
        query_buffer_format(out, ",\"%s\":", field->name);
        if (field->text != NULL)
            query_buffer_json(out, kv_text(field->text));
    } else {
        query_buffer_format(out, " %s=", field->name);
        if (field->text != NULL)
            write_text(out, field->text);
    }
    if (field->text == NULL)
        query_buffer_unsigned(out, field->number);
}

static void write_start(struct query_buffer *out, bool json, query_log_level level,
                        const char *event, const struct timespec *now)
{
    struct tm parts;
    char date[32] = "";
    if (gmtime_r(&now->tv_sec, &parts) != NULL)
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
    query_buffer_format(out,
                        json ? "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\""
                             : "%s.%03ldZ %s %s",
                        date, now->tv_nsec / 1000000, level_names[level], event);
}

/* Whether there is room for a line in this second. */
static bool take_line(struct query_log *log, long long second)
{
    if (atomic_exchange(&log->second, second) != second)
        atomic_store(&log->lines, 0);
    if (atomic_fetch_add(&log->lines, 1) < QUERY_LOG_LINES_MAX)
        return true;
    atomic_fetch_add(&log->held_back, 1);
    return false;
}

void query_log_event(struct query_log *log, query_log_level level, const char *event,
                     const struct query_log_field *fields, size_t count)
{
    struct query_buffer line = QUERY_BUFFER_INIT;
    struct timespec now;
    if (!query_log_wants(log, level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!take_line(log, now.tv_sec))
        return;
    write_start(&line, log->json, level, event, &now);
    for (size_t i = 0; i < count; i++)
        write_field(&line, log->json, &fields[i]);
    struct query_log_field held = { "held_back", NULL, atomic_exchange(&log->held_back, 0) };
    if (held.number > 0)
        write_field(&line, log->json, &held);
    query_buffer_text(&line, log->json ? "}\n" : "\n");
    if (!line.failed) {
        fwrite(line.data, 1, line.size, log->out);
        fflush(log->out);
    }
    query_buffer_clear(&line);
}
