/* gor.c - the .gor format. */
#include "abci_query/gor.h"

enum { SEPARATOR_SIZE = sizeof(QUERY_GOR_SEPARATOR) - 1 };

/* The next field of a header line, without its space. */
static kv_slice take_field(const char **at, const char *end)
{
    const char *first = *at, *space = memchr(first, ' ', (size_t)(end - first));
    *at = space == NULL ? end : space + 1;
    return kv_bytes(first, (size_t)((space == NULL ? end : space) - first));
}

static bool read_number(kv_slice text, int64_t *out)
{
    const char *in = text.data;
    size_t first = text.size > 0 && in[0] == '-' ? 1 : 0;
    uint64_t number = 0;
    if (text.size == first || text.size > first + 19)
        return false;
    for (size_t i = first; i < text.size; i++) {
        if (in[i] < '0' || in[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(in[i] - '0');
    }
    if (number > INT64_MAX)
        return false;
    *out = first == 1 ? -(int64_t)number : (int64_t)number;
    return true;
}

/* "TYPE ID TIMESTAMP [LATENCY]": older recorders leave the last out. */
static bool read_header(kv_slice line, struct query_gor_record *out)
{
    const char *at = line.data, *end = at + line.size;
    if (line.size > 0 && end[-1] == '\r')
        end--;
    kv_slice type = take_field(&at, end);
    out->id = take_field(&at, end);
    kv_slice timestamp = take_field(&at, end), latency = take_field(&at, end);
    out->latency_ns = -1;
    if (type.size != 1 || out->id.size == 0 || out->id.size > QUERY_GOR_ID_MAX || at != end)
        return false;
    out->type = *(const char *)type.data;
    if (out->type < QUERY_GOR_REQUEST || out->type > QUERY_GOR_REPLAYED)
        return false;
    return read_number(timestamp, &out->timestamp_ns) && out->timestamp_ns >= 0 &&
           (latency.size == 0 || read_number(latency, &out->latency_ns));
}

/* Without the part of a separator that a recording was cut off in; a line break alone may
 * be the record's own. */
static size_t whole_size(const char *text, size_t size)
{
    for (size_t part = SEPARATOR_SIZE - 1; part >= 2; part--)
        if (size >= part && memcmp(text + size - part, QUERY_GOR_SEPARATOR, part) == 0)
            return size - part;
    return size;
}

enum query_gor_found query_gor_next(kv_slice *rest, bool last, struct query_gor_record *out)
{
    *out = (struct query_gor_record){ 0 };
    if (rest->size == 0)
        return last ? QUERY_GOR_END : QUERY_GOR_MORE;
    const char *text = rest->data;
    const char *separator = memmem(text, rest->size, QUERY_GOR_SEPARATOR, SEPARATOR_SIZE);
    if (separator == NULL && !last)
        return QUERY_GOR_MORE;
    size_t size = separator == NULL ? rest->size : (size_t)(separator - text);
    size_t taken = separator == NULL ? size : size + SEPARATOR_SIZE;
    *rest = kv_bytes(text + taken, rest->size - taken);
    if (separator == NULL)
        size = whole_size(text, size);

    /* A body may be empty, and then the separator's own line break ends the header. */
    const char *line_end = size == 0 ? NULL : memchr(text, '\n', size);
    size_t line = line_end == NULL ? size : (size_t)(line_end - text);
    if (line > QUERY_GOR_HEADER_MAX || !read_header(kv_bytes(text, line), out))
        return QUERY_GOR_MALFORMED;
    if (line_end != NULL)
        out->bytes = kv_bytes(line_end + 1, size - line - 1);
    return separator == NULL ? QUERY_GOR_TORN : QUERY_GOR_RECORD;
}

void query_gor_write(struct query_buffer *out, const struct query_gor_record *record)
{
    query_buffer_add(out, &record->type, 1);
    query_buffer_literal(out, " ");
    query_buffer_slice(out, record->id);
    query_buffer_literal(out, " ");
    query_buffer_signed(out, record->timestamp_ns);
    query_buffer_literal(out, " ");
    query_buffer_signed(out, record->latency_ns);
    query_buffer_literal(out, "\n");
    query_buffer_slice(out, record->bytes);
    query_buffer_literal(out, QUERY_GOR_SEPARATOR);
}
