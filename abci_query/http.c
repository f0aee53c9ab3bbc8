/* http.c - requests as http-parser finds them, and their answers. */
#include "abci_query/http.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

enum {
    HEAD_KEEP = 2048, /* bytes a connection keeps between requests */
    BODY_KEEP = 16 << 10,
    ANSWER_KEEP = 1 << 20,
    GZIP_LEVEL = 1,
    GZIP_WINDOW = 15 + 16 /* zlib's way to say gzip */
};

static const struct {
    const char *name;
    size_t size;
} header_names[QUERY_HTTP_HEADERS] = {
    { "host", 4 },
    { "origin", 6 },
    { "accept-encoding", 15 },
    { "expect", 6 },
    { "upgrade", 7 },
    { "sec-websocket-key", 17 },
    { "sec-websocket-version", 21 },
    { "access-control-request-method", 29 },
    { "content-encoding", 16 },
};

/* ---- What a thread shares ----------------------------------------------- */

kv_code query_http_init(struct query_http *http, kv_status *status)
{
    /* The parser's own limit is one for the process; ours counts per connection. */
    http_parser_set_max_header_size(UINT32_MAX);
    if (deflateInit2(&http->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a compressor");
    http->gzip_ready = true;
    http->headers_time = -1;
    return KV_OK;
}

void query_http_clear(struct query_http *http)
{
    if (http->gzip_ready)
        deflateEnd(&http->gzip);
    http->gzip_ready = false;
    query_buffer_clear(&http->body);
    query_buffer_clear(&http->packed);
}

/* As HTTP spells it, whatever the program's locale is. */
static void write_date(char *out, size_t size, const struct tm *parts)
{
    static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    snprintf(out, size, "%s, %02d %s %d %02d:%02d:%02d GMT", days[parts->tm_wday],
             parts->tm_mday, months[parts->tm_mon], parts->tm_year + 1900, parts->tm_hour,
             parts->tm_min, parts->tm_sec);
}

/* X-Server-Time and Date, made once a second. */
static void write_time(struct query_http *http, struct query_buffer *out)
{
    if (http->headers_time != http->now) {
        time_t now = (time_t)http->now;
        struct tm parts;
        char date[80] = "";
        if (gmtime_r(&now, &parts) != NULL)
            write_date(date, sizeof(date), &parts);
        int size = snprintf(http->headers, sizeof(http->headers),
                            "X-Server-Time: %lld\r\nDate: %s\r\n", (long long)http->now, date);
        http->headers_size = size > 0 ? (size_t)size : 0;
        http->headers_time = http->now;
    }
    query_buffer_add(out, http->headers, http->headers_size);
}

static const char *status_text(unsigned status)
{
    switch (status) {
#define XX(number, name, text) \
    case number:               \
        return #text;
        HTTP_STATUS_MAP(XX)
#undef XX
    default:
        return "Unknown";
    }
}

/* ---- Writing an answer -------------------------------------------------- */

/* Where `c` stands next, or `end`. */
static const char *find_or_end(const char *at, const char *end, char c)
{
    while (at < end && *at != c)
        at++;
    return at;
}

/* True if the comma list `list` names `want` (or, with `any`, "*"). */
static bool list_names(kv_slice list, kv_slice want, bool any)
{
    const char *at = list.data, *end = at + list.size;
    while (at < end) {
        const char *stop = find_or_end(at, end, ',');
        while (at < stop && *at == ' ')
            at++;
        const char *last = find_or_end(at, stop, ';');
        while (last > at && last[-1] == ' ')
            last--;
        size_t size = (size_t)(last - at);
        if ((any && size == 1 && *at == '*') ||
            (size == want.size && strncasecmp(at, want.data, size) == 0))
            return true;
        at = stop + 1;
    }
    return false;
}

static kv_slice header(const struct query_http_conn *conn, enum query_http_header which)
{
    struct query_http_text text = conn->headers[which];
    if (text.size == 0)
        return kv_bytes("", 0); /* and perhaps no head at all */
    return kv_bytes(conn->head.data + text.offset, text.size);
}

/* What browsers look for, when this origin is allowed. */
static void write_cors(const struct query_http_conn *conn, bool preflight,
                       struct query_buffer *out)
{
    kv_slice origin = header(conn, QUERY_HTTP_ORIGIN);
    if (conn->http->cors_origins == NULL || conn->http->cors_origins[0] == '\0')
        return;
    query_buffer_literal(out, "Vary: Origin\r\n");
    if (origin.size == 0 || !list_names(kv_text(conn->http->cors_origins), origin, true))
        return;
    query_buffer_literal(out, "Access-Control-Allow-Origin: ");
    query_buffer_slice(out, origin);
    query_buffer_literal(out, "\r\n");
    if (preflight)
        query_buffer_literal(out, "Access-Control-Allow-Methods: HEAD, GET, POST\r\n"
                                  "Access-Control-Allow-Headers: Origin, Accept, Content-Type, "
                                  "X-Requested-With, X-Server-Time\r\n"
                                  "Access-Control-Max-Age: 600\r\n");
}

/* Compress the answer into http->packed; false: send it as it is. */
static bool pack(struct query_http *http, const struct query_buffer *body)
{
    query_buffer_reset(&http->packed, ANSWER_KEEP);
    uLong bound = deflateBound(&http->gzip, (uLong)body->size);
    if (body->size > UINT32_MAX / 2 || !query_buffer_reserve(&http->packed, bound))
        return false;
    deflateReset(&http->gzip);
    http->gzip.next_in = (Bytef *)body->data;
    http->gzip.avail_in = (uInt)body->size;
    http->gzip.next_out = (Bytef *)http->packed.data;
    http->gzip.avail_out = (uInt)bound;
    if (deflate(&http->gzip, Z_FINISH) != Z_STREAM_END)
        return false;
    http->packed.size = http->gzip.total_out;
    return true;
}

static void write_head(struct query_http_conn *conn, const struct query_http_answer *answer,
                       size_t body_size, bool packed)
{
    struct query_http *http = conn->http;
    struct query_buffer *out = conn->out;
    if (answer->status == 200 && answer->content_type != NULL &&
        strcmp(answer->content_type, "application/json") == 0) {
        query_buffer_literal(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n");
    } else {
        query_buffer_literal(out, "HTTP/1.1 ");
        query_buffer_unsigned(out, answer->status);
        query_buffer_literal(out, " ");
        query_buffer_text(out, status_text(answer->status));
        query_buffer_literal(out, "\r\n");
        if (answer->content_type != NULL)
            query_buffer_format(out, "Content-Type: %s\r\n", answer->content_type);
    }
    if (answer->extra != NULL)
        query_buffer_text(out, answer->extra);
    if (answer->cacheable)
        query_buffer_literal(out, "Cache-Control: public, max-age=86400\r\n");
    if (packed)
        query_buffer_literal(out, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
    write_cors(conn, false, out);
    if (!conn->keep_alive)
        query_buffer_literal(out, "Connection: close\r\n");
    else if (!conn->http11)
        query_buffer_literal(out, "Connection: keep-alive\r\n");
    write_time(http, out);
    if (answer->status != 204) {
        query_buffer_literal(out, "Content-Length: ");
        query_buffer_unsigned(out, body_size);
        query_buffer_literal(out, "\r\n");
    }
    query_buffer_literal(out, "\r\n");
}

static void enter(struct query_http_conn *conn, enum query_http_phase phase)
{
    conn->phase = phase;
    conn->phases++;
}

static void write_answer(struct query_http_conn *conn, const struct query_http_answer *answer)
{
    struct query_http *http = conn->http;
    const struct query_buffer *body = answer->body;
    bool packed =
        body->size >= http->limits.gzip_size &&
        list_names(header(conn, QUERY_HTTP_ACCEPT_ENCODING), kv_text("gzip"), false) &&
        pack(http, body);
    if (packed)
        body = &http->packed;
    write_head(conn, answer, body->size, packed);
    if (conn->parser.method != HTTP_HEAD)
        query_buffer_add(conn->out, body->data, body->size);
    query_count(&http->counts.statuses[answer->status / 100 < 6 ? answer->status / 100 : 0], 1);
    conn->served = true;
    enter(conn, conn->keep_alive ? QUERY_HTTP_IDLE : QUERY_HTTP_CLOSING);
}

/* End the connection with an error whose body is `text`. */
static void refuse(struct query_http_conn *conn, unsigned status, const char *type,
                   const char *text)
{
    struct query_http *http = conn->http;
    struct query_http_answer answer = { .status = status, .content_type = type };
    answer.body = &http->body;
    query_buffer_reset(&http->body, ANSWER_KEEP);
    query_buffer_text(&http->body, text);
    conn->keep_alive = false;
    query_count(&http->counts.refused, 1);
    write_answer(conn, &answer);
}

void query_http_refuse(struct query_http *http, unsigned status, const char *text,
                       struct query_buffer *out)
{
    struct query_http_conn conn;
    query_http_conn_init(&conn, http, NULL);
    conn.out = out;
    refuse(&conn, status, "text/plain; charset=utf-8", text);
    query_http_conn_clear(&conn);
}

/* ---- A whole request ---------------------------------------------------- */

static void become_socket(struct query_http_conn *conn)
{
    struct query_buffer *out = conn->out;
    query_buffer_literal(out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    query_websocket_accept(header(conn, QUERY_HTTP_WEBSOCKET_KEY), out);
    query_buffer_literal(out, "\r\n\r\n");
    query_websocket_init(&conn->ws, conn->http->limits.body_size);
    query_count(&conn->http->counts.statuses[1], 1);
    conn->served = true;
    enter(conn, QUERY_HTTP_SOCKET);
}

static void fill_request(struct query_http_conn *conn, struct query_http_request *request)
{
    kv_slice url = kv_bytes(conn->head.data + conn->url.offset, conn->url.size);
    const char *mark = url.size == 0 ? NULL : memchr(url.data, '?', url.size);
    size_t path_size = mark == NULL ? url.size : (size_t)(mark - (const char *)url.data);
    request->path = kv_bytes(url.data, path_size);
    request->parameters =
        kv_bytes(mark == NULL ? "" : mark + 1, mark == NULL ? 0 : url.size - path_size - 1);
    request->get = conn->parser.method == HTTP_GET || conn->parser.method == HTTP_HEAD;
    request->post = conn->parser.method == HTTP_POST;
    request->body =
        conn->whole.size > 0
            ? conn->whole
            : kv_bytes(conn->body.data == NULL ? "" : conn->body.data, conn->body.size);
    for (int i = 0; i < QUERY_HTTP_HEADERS; i++)
        request->headers[i] = header(conn, (enum query_http_header)i);
}

static void answer_options(struct query_http_conn *conn)
{
    struct query_buffer extra = QUERY_BUFFER_INIT;
    struct query_http_answer answer = { .status = 204, .body = &conn->http->body };
    query_buffer_reset(&conn->http->body, ANSWER_KEEP);
    if (header(conn, QUERY_HTTP_REQUEST_METHOD).size > 0) {
        /* A preflight's headers take the place of the plain ones. */
        write_cors(conn, true, &extra);
        conn->headers[QUERY_HTTP_ORIGIN].size = 0;
    }
    query_buffer_literal(&extra, "Allow: GET, HEAD, OPTIONS, POST\r\n");
    query_buffer_add(&extra, "", 1);
    answer.extra = extra.failed ? NULL : extra.data;
    write_answer(conn, &answer);
    query_buffer_clear(&extra);
}

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Show the recorder a request and its answer, which begins at `first` in the output. */
static void record(const struct query_http_conn *conn, const struct query_http_request *request,
                   size_t first, int64_t latency_ns)
{
    struct query_http_recorded what = {
        .method = http_method_str((enum http_method)conn->parser.method),
        .url = kv_bytes(conn->head.data + conn->url.offset, conn->url.size),
        .request = request,
        .answer = kv_bytes(conn->out->data + first, conn->out->size - first),
        .latency_ns = latency_ns,
    };
    conn->http->handler.record(conn->http->handler.record_context, &what);
}

static void answer_request(struct query_http_conn *conn)
{
    struct query_http *http = conn->http;
    struct query_http_request request;
    int64_t start_ns = http->handler.record == NULL ? 0 : clock_ns();
    struct query_http_answer answer = { .status = 200, .body = &http->body };

    query_count(&http->counts.requests, 1);
    conn->keep_alive = conn->keep_alive && !http->draining;
    if (conn->parser.method == HTTP_OPTIONS) {
        answer_options(conn);
        return;
    }
    fill_request(conn, &request);
    query_buffer_reset(&http->body, ANSWER_KEEP);
    if (!request.get && !request.post) {
        answer.status = 405;
        answer.extra = "Allow: GET, HEAD, OPTIONS, POST\r\n";
        answer.content_type = "text/plain; charset=utf-8";
        query_buffer_literal(&http->body, "405 method not allowed\n");
        query_count(&http->counts.refused, 1);
    } else if (request.headers[QUERY_HTTP_CONTENT_ENCODING].size > 0 &&
               strncasecmp(request.headers[QUERY_HTTP_CONTENT_ENCODING].data, "identity", 8) !=
                   0) {
        answer.status = 415;
        answer.content_type = "text/plain; charset=utf-8";
        query_buffer_literal(&http->body, "415 send the body without Content-Encoding\n");
        query_count(&http->counts.refused, 1);
    } else {
        http->handler.answer(http->handler.context, &request, &answer);
    }
    if (answer.upgrade) {
        become_socket(conn);
        return;
    }
    if (http->body.failed) {
        refuse(conn, 503, "text/plain; charset=utf-8", "503 out of memory\n");
        return;
    }
    size_t first = conn->out->size;
    write_answer(conn, &answer);
    if (http->handler.record != NULL && !conn->out->failed)
        record(conn, &request, first, clock_ns() - start_ns);
}

/* ---- The parser's callbacks --------------------------------------------- */

/* Refuse in a callback: the parser stops, feed writes the refusal. */
static int fault(struct query_http_conn *conn, unsigned status, const char *text)
{
    conn->fault = status;
    conn->fault_text = text;
    return -1; /* 1 and 2 mean other things to the parser */
}

static int on_message_begin(http_parser *parser)
{
    struct query_http_conn *conn = parser->data;
    conn->head_size = conn->head_count = 0;
    conn->name_size = 0;
    conn->in_value = false;
    conn->header = -1;
    conn->too_large = conn->continue_due = false;
    conn->whole = kv_bytes(NULL, 0);
    conn->url = (struct query_http_text){ 0, 0 };
    memset(conn->headers, 0, sizeof(conn->headers));
    query_buffer_reset(&conn->head, HEAD_KEEP);
    query_buffer_reset(&conn->body, BODY_KEEP);
    query_buffer_reset(&conn->seen, HEAD_KEEP);
    enter(conn, QUERY_HTTP_HEADING);
    return 0;
}

/* Count `size` more bytes of head; non-zero: too many. */
static int count_head(struct query_http_conn *conn, size_t size)
{
    conn->head_size += size;
    if (conn->head_size > conn->http->limits.header_size)
        return fault(conn, 431, "431 request header fields too large\n");
    return 0;
}

static int on_url(http_parser *parser, const char *at, size_t size)
{
    struct query_http_conn *conn = parser->data;
    if (count_head(conn, size) != 0)
        return -1;
    query_buffer_add(&conn->head, at, size);
    conn->url.size += size;
    return 0;
}

static int on_header_field(http_parser *parser, const char *at, size_t size)
{
    struct query_http_conn *conn = parser->data;
    size_t marks = 0; /* colon, space and line's end, once a field however it is cut */
    if (conn->in_value || conn->name_size == 0) {
        conn->name_size = 0;
        conn->in_value = false;
        marks = 4;
        if (++conn->head_count > conn->http->limits.header_count)
            return fault(conn, 431, "431 too many header fields\n");
    }
    if (count_head(conn, size + marks) != 0)
        return -1;
    if (memchr(at, ' ', size) != NULL)
        return fault(conn, 400, "400 Bad Request\n");   /* as where the parser sees it */
    size_t room = sizeof(conn->name) - conn->name_size; /* no known name is cut */
    memcpy(conn->name + conn->name_size, at, size < room ? size : room);
    conn->name_size += size < room ? size : room;
    return 0;
}

/* Which header the gathered name is, or -1. */
static int known_header(const struct query_http_conn *conn)
{
    for (int i = 0; i < QUERY_HTTP_HEADERS; i++)
        if (header_names[i].size == conn->name_size &&
            strncasecmp(header_names[i].name, conn->name, conn->name_size) == 0)
            return i;
    return -1;
}

static int on_header_value(http_parser *parser, const char *at, size_t size)
{
    struct query_http_conn *conn = parser->data;
    if (!conn->in_value) {
        conn->in_value = true;
        conn->header = known_header(conn);
        if (conn->header >= 0) {
            if (conn->header == QUERY_HTTP_HOST && conn->headers[QUERY_HTTP_HOST].size > 0)
                return fault(conn, 400, "400 two Host headers\n");
            conn->headers[conn->header] = (struct query_http_text){ conn->head.size, 0 };
        }
    }
    if (count_head(conn, size) != 0)
        return -1;
    if (conn->header >= 0) {
        query_buffer_add(&conn->head, at, size);
        conn->headers[conn->header].size += size;
    }
    return 0;
}

static bool wants_socket(const struct query_http_conn *conn)
{
    return conn->http->handler.message != NULL && conn->parser.method == HTTP_GET &&
           list_names(header(conn, QUERY_HTTP_UPGRADE), kv_text("websocket"), false);
}

static int on_headers_complete(http_parser *parser)
{
    struct query_http_conn *conn = parser->data;
    conn->http11 =
        parser->http_major > 1 || (parser->http_major == 1 && parser->http_minor >= 1);
    conn->keep_alive = http_should_keep_alive(parser) != 0;
    if (conn->head.failed)
        return fault(conn, 503, "503 out of memory\n");
    if (conn->http11 && conn->headers[QUERY_HTTP_HOST].size == 0)
        return fault(conn, 400, "400 missing required Host header\n");
    if (parser->method == HTTP_CONNECT)
        return fault(conn, 405, "405 method not allowed\n");
    if (parser->upgrade != 0 && !wants_socket(conn))
        parser->upgrade = 0; /* an offer we do not take */
    if (parser->content_length != UINT64_MAX &&
        parser->content_length > conn->http->limits.body_size) {
        conn->too_large = true;
        return fault(conn, 400, NULL);
    }
    kv_slice expect = header(conn, QUERY_HTTP_EXPECT);
    if (expect.size > 0) {
        if (expect.size != 12 || strncasecmp(expect.data, "100-continue", 12) != 0)
            return fault(conn, 417, "417 expectation failed\n");
        conn->continue_due = conn->http11;
    }
    enter(conn, QUERY_HTTP_BODY);
    return 0;
}

/* Keep the head of a POST that came in one piece, and has a length and no other say in how
 * its connection goes on: what it was parsed to still stands when the next one is the same. */
static void remember(struct query_http_conn *conn, const char *body)
{
    if (conn->begin == NULL || (size_t)(body - conn->begin) > HEAD_KEEP ||
        conn->parser.method != HTTP_POST || (conn->parser.flags & F_CHUNKED) != 0 ||
        conn->parser.upgrade != 0 || !conn->keep_alive ||
        conn->headers[QUERY_HTTP_EXPECT].size > 0)
        return;
    query_buffer_add(&conn->seen, conn->begin, (size_t)(body - conn->begin));
    conn->seen_body = conn->whole.size;
}

static int on_body(http_parser *parser, const char *at, size_t size)
{
    struct query_http_conn *conn = parser->data;
    conn->continue_due = false;
    if (size > conn->http->limits.body_size - conn->body.size) {
        conn->too_large = true;
        return fault(conn, 400, NULL);
    }
    if (conn->body.size == 0 && http_body_is_final(parser) != 0) {
        conn->whole = kv_bytes(at, size); /* used where it lies */
        remember(conn, at);
        return 0;
    }
    query_buffer_add(&conn->body, at, size);
    return conn->body.failed ? fault(conn, 503, "503 out of memory\n") : 0;
}

static int on_message_complete(http_parser *parser)
{
    struct query_http_conn *conn = parser->data;
    conn->continue_due = false;
    conn->begin = NULL;
    answer_request(conn);
    if (conn->phase != QUERY_HTTP_IDLE || conn->out->size > QUERY_HTTP_OUT_PAUSE)
        http_parser_pause(parser, 1);
    return 0;
}

/* ---- Connections -------------------------------------------------------- */

void query_http_conn_init(struct query_http_conn *conn, struct query_http *http, void *owner)
{
    *conn = (struct query_http_conn){ .http = http, .owner = owner };
    http_parser_init(&conn->parser, HTTP_REQUEST);
    conn->parser.data = conn;
    conn->keep_alive = true;
    conn->http11 = true;
    conn->header = -1;
}

void query_http_conn_clear(struct query_http_conn *conn)
{
    query_buffer_clear(&conn->head);
    query_buffer_clear(&conn->body);
    query_buffer_clear(&conn->seen);
    query_websocket_clear(&conn->ws);
}

static void on_socket_message(void *context, kv_slice message, struct query_buffer *out)
{
    struct query_http_conn *conn = context;
    struct query_http *http = conn->http;
    query_count(&http->counts.messages, 1);
    query_buffer_reset(&http->body, ANSWER_KEEP);
    http->handler.message(http->handler.context, conn->owner, message, &http->body);
    if (http->body.size > 0 && !http->body.failed)
        query_websocket_frame(out, QUERY_WEBSOCKET_TEXT,
                              kv_bytes(http->body.data, http->body.size));
}

/* The parser stopped: refuse, unless it only paused. */
static void stopped(struct query_http_conn *conn)
{
    enum http_errno error = HTTP_PARSER_ERRNO(&conn->parser);
    if (error == HPE_OK || error == HPE_PAUSED)
        return;
    if (conn->phase == QUERY_HTTP_HEADING && !conn->too_large)
        conn->headers[QUERY_HTTP_ORIGIN].size = 0; /* it may be cut off */
    if (conn->too_large)
        refuse(
            conn, 400, "application/json",
            "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"Invalid Request\","
            "\"data\":\"error reading request body: http: request body too large\"}}");
    else if (conn->fault != 0)
        refuse(conn, conn->fault, "text/plain; charset=utf-8", conn->fault_text);
    else
        refuse(conn, error == HPE_INVALID_METHOD ? 501 : 400, "text/plain; charset=utf-8",
               error == HPE_INVALID_METHOD ? "501 no such method\n" : "400 Bad Request\n");
}

/* Answer requests whose head is, byte for byte, the one that was parsed last: clients that
 * keep a connection mostly send nothing else. Returns what was taken. */
static size_t feed_repeats(struct query_http_conn *conn, const char *data, size_t size)
{
    size_t taken = 0, head = conn->seen.size;
    while (conn->phase == QUERY_HTTP_IDLE && head > 0 && !conn->seen.failed &&
           conn->out->size <= QUERY_HTTP_OUT_PAUSE && size - taken >= head + conn->seen_body &&
           memcmp(data + taken, conn->seen.data, head) == 0) {
        conn->whole = kv_bytes(data + taken + head, conn->seen_body);
        conn->keep_alive = true;
        taken += head + conn->seen_body;
        answer_request(conn);
    }
    return taken;
}

/* Have the parser take what came; returns how much it took. */
static size_t feed_parser(struct query_http_conn *conn, const char *data, size_t size)
{
    static const http_parser_settings settings = {
        .on_message_begin = on_message_begin,
        .on_url = on_url,
        .on_header_field = on_header_field,
        .on_header_value = on_header_value,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_message_complete = on_message_complete,
    };
    if (HTTP_PARSER_ERRNO(&conn->parser) == HPE_PAUSED)
        http_parser_pause(&conn->parser, 0);
    conn->begin = conn->phase == QUERY_HTTP_IDLE ? data : NULL;
    size_t taken = http_parser_execute(&conn->parser, &settings, data, size);
    stopped(conn);
    if (conn->continue_due) {
        conn->continue_due = false;
        query_buffer_literal(conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    return taken;
}

size_t query_http_feed(struct query_http_conn *conn, const char *data, size_t size,
                       struct query_buffer *out)
{
    conn->out = out;
    if (conn->phase == QUERY_HTTP_CLOSING)
        return size;
    size_t taken = feed_repeats(conn, data, size);
    if (conn->phase != QUERY_HTTP_SOCKET && conn->phase != QUERY_HTTP_CLOSING && taken < size &&
        out->size <= QUERY_HTTP_OUT_PAUSE)
        taken += feed_parser(conn, data + taken, size - taken);
    if (conn->phase == QUERY_HTTP_SOCKET) {
        if (!query_websocket_feed(&conn->ws, data + taken, size - taken, on_socket_message,
                                  conn, out))
            enter(conn, QUERY_HTTP_CLOSING);
        return size;
    }
    return conn->phase == QUERY_HTTP_CLOSING ? size : taken;
}

void query_http_end(struct query_http_conn *conn)
{
    if (conn->phase != QUERY_HTTP_CLOSING)
        enter(conn, QUERY_HTTP_CLOSING);
}
