/* output.c - the JSON writer and the progress line. */
#include "tools/output.h"

#include "tools/text.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

static void write_quoted(FILE *file, kv_slice utf8)
{
    struct text form = TEXT_INIT;
    text_append_json(&form, utf8);
    fwrite(form.data, 1, form.size, file);
    text_clear(&form);
}

static void write_name(struct json *json, const char *name)
{
    if (json->comma)
        fputc(',', json->file);
    json->comma = true;
    if (name != NULL) {
        write_quoted(json->file, kv_text(name));
        fputc(':', json->file);
    }
}

static void open_bracket(struct json *json, const char *name, char bracket)
{
    write_name(json, name);
    fputc(bracket, json->file);
    json->comma = false;
}

void json_start(struct json *json, FILE *file)
{
    *json = (struct json){ file, false };
    open_bracket(json, NULL, '{');
}

void json_object(struct json *json, const char *name)
{
    open_bracket(json, name, '{');
}

void json_array(struct json *json, const char *name)
{
    open_bracket(json, name, '[');
}

void json_element(struct json *json)
{
    open_bracket(json, NULL, '{');
}

void json_close(struct json *json, char bracket)
{
    fputc(bracket, json->file);
    json->comma = true;
}

void json_end(struct json *json)
{
    fputs("}\n", json->file);
}

void json_text(struct json *json, const char *name, const char *value)
{
    write_name(json, name);
    write_quoted(json->file, kv_text(value));
}

void json_bytes(struct json *json, const char *name, kv_slice value, bool hex)
{
    struct text form = TEXT_INIT;
    text_encode(&form, value, hex);
    write_name(json, name);
    write_quoted(json->file, text_bytes(&form));
    text_clear(&form);
}

void json_digest(struct json *json, const char *name, kv_slice digest)
{
    struct text form = TEXT_INIT;
    text_encode_digest(&form, digest);
    write_name(json, name);
    write_quoted(json->file, text_bytes(&form));
    text_clear(&form);
}

void json_number(struct json *json, const char *name, uint64_t value)
{
    write_name(json, name);
    fprintf(json->file, "%" PRIu64, value);
}

void json_real(struct json *json, const char *name, double value)
{
    write_name(json, name);
    fprintf(json->file, "%.6f", value);
}

void json_null(struct json *json, const char *name)
{
    write_name(json, name);
    fputs("null", json->file);
}

void json_bool(struct json *json, const char *name, bool value)
{
    write_name(json, name);
    fputs(value ? "true" : "false", json->file);
}

void output_stat(void *context, const kv_stat *stat)
{
    struct json *json = context;
    if (json != NULL && stat->text != NULL)
        json_text(json, stat->name, stat->text);
    else if (json != NULL)
        json_number(json, stat->name, stat->number);
    else if (stat->text != NULL)
        printf("%s\n%s\n", stat->name, stat->text);
    else
        printf("%-40s %" PRIu64 "\n", stat->name, stat->number);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void progress_start(struct progress *progress, const char *what)
{
    *progress = (struct progress){ .what = what,
                                   .start_ms = now_ms(),
                                   .terminal = isatty(STDERR_FILENO) == 1 };
}

void progress_start_beside(struct progress *progress, const char *what)
{
    progress_start(progress, what);
    progress->terminal = progress->terminal && isatty(STDOUT_FILENO) == 0;
}

double progress_seconds(const struct progress *progress)
{
    return (double)(now_ms() - progress->start_ms) / 1000;
}

void progress_show(struct progress *progress, uint64_t done, uint64_t total)
{
    enum { WIDTH = 30 };
    static const char full[] = "##############################";
    if (!progress->terminal)
        return;
    uint64_t now = now_ms();
    if (now - progress->shown_ms < PROGRESS_PAUSE_MS)
        return;
    progress->shown_ms = now;

    double seconds = progress_seconds(progress);
    double rate = seconds > 0 ? (double)done / seconds : 0;
    if (total == 0) {
        fprintf(stderr, "\r%s %" PRIu64 ", %.0f/s\033[K", progress->what, done, rate);
        return;
    }
    double share = done < total ? (double)done / (double)total : 1;
    fprintf(stderr, "\r%s [%-*.*s] %3.0f%% %.0f/s\033[K", progress->what, WIDTH,
            (int)(share * WIDTH), full, share * 100, rate);
}

void progress_end(struct progress *progress)
{
    if (progress->terminal && progress->shown_ms != 0)
        fputs("\r\033[K", stderr);
}
