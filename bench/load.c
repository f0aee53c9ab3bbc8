/* load.c - connections, their requests, and the clock. */
#include "bench/load.h"

#include <http_parser.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

enum {
    READ_SIZE = 64 << 10,
    PACE_MS = 1,
    TICK_MS = 200,
    STILL_MS = 1000, /* a tick this late: this process did not run */
    RETRY_MS = 50    /* after a failed connection */
};

struct engine;

enum stage { STAGE_CLOSED, STAGE_DIALING, STAGE_FREE, STAGE_WAITING };

struct connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    uv_connect_t connect;
    uv_write_t write;
    struct engine *engine;
    enum stage stage;
    bool open, writing, served, have; /* have: a request is in hand */
    bool queued;                      /* in the list of free ones */
    bool last;                        /* the server closes after this answer */
    uint64_t retry_at;
    struct query_buffer wire, body;
    kv_slice whole; /* the body, when it came in one piece */
    struct load_request request;
    uint64_t started_ns; /* what the latency is counted from */
    uint64_t waits_ns;   /* what the time-out is counted from */
    http_parser parser;
    struct connection *next_free;
};

struct engine {
    const struct load_config *config;
    const struct load_source *source;
    const volatile bool *stop;
    load_progress progress;
    void *context;
    struct load_result *result;
    uv_loop_t loop;
    uv_timer_t pace, tick;
    struct sockaddr_storage where;
    struct connection *connections, *free_list;
    struct load_request ahead; /* taken from the source, not due yet */
    struct query_buffer ahead_wire;
    bool have_ahead, dry, done;
    uint64_t start_ns, ticked_ns, issued, second_good;
    size_t active;
    char *input;
};

/* ---- Figures ------------------------------------------------------------ */

static void count_error(struct engine *engine, const char *text)
{
    struct load_result *result = engine->result;
    size_t i = 0;
    result->count++;
    while (i < result->kind_count &&
           strncmp(result->kinds[i].text, text, LOAD_KIND_SIZE - 1) != 0)
        i++;
    if (i == LOAD_KINDS_MAX)
        i = LOAD_KINDS_MAX - 1; /* the last kind stands for all others */
    if (i == result->kind_count) {
        result->kind_count++;
        snprintf(result->kinds[i].text, LOAD_KIND_SIZE, "%s", text);
    }
    result->kinds[i].count++;
}

static void count_good(struct engine *engine, struct connection *connection,
                       uint64_t latency_ns)
{
    struct load_result *result = engine->result;
    double latency = (double)latency_ns;
    result->count++;
    result->good++;
    engine->second_good++;
    bench_histogram_record(&result->latency, latency_ns);
    result->latency_sum_ns += latency;
    result->latency_squares += latency * latency;
    if (!connection->served)
        result->connections_served++;
    connection->served = true;
}

/* ---- Sending ------------------------------------------------------------ */

static void dial(struct connection *connection);

static bool over(const struct engine *engine)
{
    return engine->done || *engine->stop;
}

static void finish(struct engine *engine)
{
    if (engine->done)
        return;
    engine->done = true;
    uv_stop(&engine->loop);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    connection->open = false;
    connection->stage = STAGE_CLOSED;
}

/* Hang up; the request in hand, if any, has ended. */
static void hang_up(struct connection *connection, uint64_t retry_ms)
{
    struct engine *engine = connection->engine;
    connection->retry_at = uv_now(&engine->loop) + retry_ms;
    if (connection->have) {
        connection->have = false;
        engine->active--;
    }
    connection->stage = STAGE_CLOSED;
    if (connection->open && !uv_is_closing(&connection->as.handle))
        uv_close(&connection->as.handle, on_closed);
}

static void fail_request(struct connection *connection, const char *text, uint64_t retry_ms)
{
    if (connection->have || connection->stage == STAGE_DIALING)
        count_error(connection->engine, text);
    hang_up(connection, retry_ms);
}

static void on_written(uv_write_t *write, int status)
{
    struct connection *connection = write->data;
    connection->writing = false;
    if (status < 0 && status != UV_ECANCELED)
        fail_request(connection, uv_strerror(status), 0);
}

static void transmit(struct connection *connection)
{
    struct engine *engine = connection->engine;
    uv_buf_t buf = uv_buf_init(connection->wire.data, (unsigned)connection->wire.size);
    engine->result->bytes_written += connection->wire.size;
    connection->stage = STAGE_WAITING;
    connection->last = false;
    int sent = uv_try_write(&connection->as.stream, &buf, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        fail_request(connection, uv_strerror(sent), 0);
        return;
    }
    size_t done = sent < 0 ? 0 : (size_t)sent;
    if (done == connection->wire.size)
        return;
    buf.base += done;
    buf.len -= done;
    connection->write.data = connection;
    connection->writing = true;
    if (uv_write(&connection->write, &connection->as.stream, &buf, 1, on_written) != 0)
        fail_request(connection, "write", 0);
}

/* Have the next request in `ahead`; false: there is none, or it is not due. */
static bool look_ahead(struct engine *engine, uint64_t now)
{
    uint64_t max = engine->config->requests_max;
    if (!engine->have_ahead && !engine->dry) {
        engine->dry = (max > 0 && engine->issued >= max) ||
                      !engine->source->next(engine->source->context, &engine->ahead);
        engine->have_ahead = !engine->dry;
        if (engine->have_ahead)
            engine->issued++;
    }
    return engine->have_ahead && engine->start_ns + engine->ahead.due_ns <= now;
}

/* Give a free connection its next request; false: nothing to do for it. */
static bool take_request(struct connection *connection)
{
    struct engine *engine = connection->engine;
    uint64_t now = uv_hrtime();
    if (over(engine) || !look_ahead(engine, now))
        return false;
    engine->have_ahead = false;
    connection->request = engine->ahead;
    connection->wire.size = 0;
    query_buffer_slice(&connection->wire, engine->ahead.wire);
    connection->have = true;
    connection->started_ns =
        engine->ahead.due_ns == 0 ? now : engine->start_ns + engine->ahead.due_ns;
    connection->waits_ns = connection->started_ns;
    engine->active++;
    return true;
}

static void go_on(struct connection *connection)
{
    struct engine *engine = connection->engine;
    if (take_request(connection)) {
        transmit(connection);
        return;
    }
    if (engine->dry && engine->active == 0)
        finish(engine);
    connection->stage = STAGE_FREE;
    if (connection->queued)
        return; /* still there from before it was dialed anew */
    connection->queued = true;
    connection->next_free = engine->free_list;
    engine->free_list = connection;
}

/* ---- Answers ------------------------------------------------------------ */

static int on_body(http_parser *parser, const char *at, size_t size)
{
    struct connection *connection = parser->data;
    if (connection->body.size == 0 && http_body_is_final(parser) != 0) {
        connection->whole = kv_bytes(at, size);
        return 0;
    }
    if (connection->body.size + size > LOAD_BODY_MAX)
        return -1;
    query_buffer_add(&connection->body, at, size);
    return connection->body.failed ? -1 : 0;
}

static int on_head(http_parser *parser)
{
    struct connection *connection = parser->data;
    return connection->request.head ? 1 : 0;
}

static int on_complete(http_parser *parser)
{
    struct connection *connection = parser->data;
    struct engine *engine = connection->engine;
    if (parser->status_code < 200)
        return 0; /* 100 Continue: the answer is still to come */
    if (!connection->have)
        return -1; /* an answer to nothing */
    struct load_response response = { parser->status_code, connection->whole,
                                      uv_hrtime() - connection->started_ns };
    if (connection->whole.size == 0)
        response.body = kv_bytes(connection->body.data == NULL ? "" : connection->body.data,
                                 connection->body.size);
    engine->result->statuses[parser->status_code / 100 < 6 ? parser->status_code / 100 : 0]++;
    const char *fault =
        engine->source->check(engine->source->context, connection->request.token, &response);
    if (fault == NULL)
        count_good(engine, connection, response.latency_ns);
    else
        count_error(engine, fault);
    connection->have = false;
    engine->active--;
    connection->last = http_should_keep_alive(parser) == 0;
    connection->body.size = 0;
    connection->whole = kv_bytes(NULL, 0);
    return 0;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct connection *connection = handle->data;
    (void)suggested;
    *buf = uv_buf_init(connection->engine->input, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    static const http_parser_settings settings = { .on_headers_complete = on_head,
                                                   .on_body = on_body,
                                                   .on_message_complete = on_complete };
    struct connection *connection = stream->data;
    struct engine *engine = connection->engine;
    if (count == 0 || connection->stage == STAGE_CLOSED)
        return;
    if (count < 0) {
        if (connection->have &&
            http_parser_execute(&connection->parser, &settings, NULL, 0) == 0 &&
            !connection->have)
            hang_up(connection, 0); /* a body that ends with the connection */
        else
            fail_request(
                connection,
                count == UV_EOF ? "the connection was closed" : uv_strerror((int)count), 0);
        return;
    }
    engine->result->bytes_read += (uint64_t)count;
    size_t taken =
        http_parser_execute(&connection->parser, &settings, buf->base, (size_t)count);
    if (taken != (size_t)count || connection->parser.http_errno != HPE_OK) {
        fail_request(connection, "the answer is no HTTP", 0);
        return;
    }
    if (connection->have)
        return;
    if (connection->last)
        hang_up(connection, 0);
    else if (connection->stage == STAGE_WAITING)
        go_on(connection);
}

/* ---- Connecting --------------------------------------------------------- */

static void on_connected(uv_connect_t *connect, int status)
{
    struct connection *connection = connect->data;
    struct engine *engine = connection->engine;
    if (connection->stage != STAGE_DIALING)
        return; /* hung up meanwhile */
    if (status < 0) {
        char text[LOAD_KIND_SIZE];
        snprintf(text, sizeof(text), "connecting: %s", uv_strerror(status));
        fail_request(connection, text, RETRY_MS);
        engine->issued++; /* a failed dial takes a request's place: no endless retries */
        if (engine->config->requests_max > 0 &&
            engine->issued >= engine->config->requests_max) {
            engine->dry = true;
            if (engine->active == 0)
                finish(engine);
        }
        return;
    }
    if (!engine->config->url.local)
        uv_tcp_nodelay(&connection->as.tcp, 1);
    http_parser_init(&connection->parser, HTTP_RESPONSE);
    connection->parser.data = connection;
    if (uv_read_start(&connection->as.stream, on_alloc, on_read) != 0) {
        fail_request(connection, "reading", RETRY_MS);
        return;
    }
    go_on(connection);
}

static void dial(struct connection *connection)
{
    struct engine *engine = connection->engine;
    connection->body.size = 0;
    connection->whole = kv_bytes(NULL, 0);
    connection->stage = STAGE_DIALING;
    connection->connect.data = connection;
    connection->as.handle.data = connection;
    if (engine->config->url.local) {
        uv_pipe_init(&engine->loop, &connection->as.pipe, 0);
        connection->open = true;
        connection->as.handle.data = connection;
        uv_pipe_connect(&connection->connect, &connection->as.pipe, engine->config->url.name,
                        on_connected);
        return;
    }
    uv_tcp_init(&engine->loop, &connection->as.tcp);
    connection->open = true;
    connection->as.handle.data = connection;
    int fault = uv_tcp_connect(&connection->connect, &connection->as.tcp,
                               (const struct sockaddr *)&engine->where, on_connected);
    if (fault != 0)
        fail_request(connection, uv_strerror(fault), RETRY_MS);
}

/* ---- The clock ---------------------------------------------------------- */

static void on_pace(uv_timer_t *timer)
{
    struct engine *engine = timer->data;
    uint64_t now = uv_hrtime();
    uint64_t duration = engine->config->duration_ns;
    if (*engine->stop || (duration > 0 && now - engine->start_ns >= duration)) {
        finish(engine);
        return;
    }
    while (engine->free_list != NULL && look_ahead(engine, now)) {
        struct connection *connection = engine->free_list;
        engine->free_list = connection->next_free;
        connection->queued = false;
        if (connection->stage == STAGE_FREE && take_request(connection))
            transmit(connection);
    }
    if (engine->dry && engine->active == 0)
        finish(engine);
}

/* When this process was stopped or starved, answers may wait in its sockets, and who was
 * stopped with it has had no time either: that is no time-out, though it is a latency. */
static void forgive(struct engine *engine, uint64_t now)
{
    uint64_t lost = now - engine->ticked_ns;
    engine->ticked_ns = now;
    if (lost < (uint64_t)STILL_MS * 1000000)
        return;
    engine->result->still_ns += lost;
    for (size_t i = 0; i < engine->config->connections; i++)
        engine->connections[i].waits_ns += lost;
}

static void on_tick(uv_timer_t *timer)
{
    struct engine *engine = timer->data;
    struct load_result *result = engine->result;
    uint64_t now = uv_hrtime(), loop_now = uv_now(&engine->loop);
    forgive(engine, now);
    result->elapsed_ns = now - engine->start_ns;
    for (size_t i = 0; i < engine->config->connections; i++) {
        struct connection *connection = &engine->connections[i];
        bool late = connection->have && connection->stage == STAGE_WAITING &&
                    now > connection->waits_ns + engine->config->timeout_ns;
        if (late)
            fail_request(connection, "no answer in time", 0);
        if (connection->stage == STAGE_CLOSED && !connection->open &&
            loop_now >= connection->retry_at && !engine->dry)
            dial(connection);
    }
    while (result->sample_count < LOAD_SAMPLES_MAX &&
           result->elapsed_ns / 1000000000 > result->sample_count) {
        result->samples[result->sample_count++] = engine->second_good;
        engine->second_good = 0;
    }
    if (engine->progress != NULL)
        engine->progress(engine->context, result);
}

/* ---- Running ------------------------------------------------------------ */

static kv_code resolve(struct engine *engine, kv_status *status)
{
    const struct load_url *url = &engine->config->url;
    struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char port[8];
    if (url->local)
        return KV_OK;
    snprintf(port, sizeof(port), "%u", url->port);
    int fault = getaddrinfo(url->name, port, &want, &found);
    if (fault != 0)
        return kv_fail(status, KV_IO, "%s: %s", url->name, gai_strerror(fault));
    memcpy(&engine->where, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return KV_OK;
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, handle->data == NULL || handle->type == UV_TIMER ? NULL : on_closed);
}

static void run_loop(struct engine *engine)
{
    uv_timer_init(&engine->loop, &engine->pace);
    uv_timer_init(&engine->loop, &engine->tick);
    engine->pace.data = engine->tick.data = engine;
    uv_timer_start(&engine->pace, on_pace, PACE_MS, PACE_MS);
    uv_timer_start(&engine->tick, on_tick, TICK_MS / 4, TICK_MS / 4);
    engine->start_ns = engine->ticked_ns = uv_hrtime();
    for (size_t i = 0; i < engine->config->connections; i++) {
        engine->connections[i].engine = engine;
        dial(&engine->connections[i]);
    }
    uv_run(&engine->loop, UV_RUN_DEFAULT);
    engine->result->elapsed_ns = uv_hrtime() - engine->start_ns;
    uv_walk(&engine->loop, close_handle, NULL);
    uv_run(&engine->loop, UV_RUN_DEFAULT);
    uv_loop_close(&engine->loop);
}

kv_code load_run(const struct load_config *config, const struct load_source *source,
                 const volatile bool *stop, load_progress progress, void *context,
                 struct load_result *result, kv_status *status)
{
    static const volatile bool never = false;
    struct engine engine = { .config = config, .source = source, .progress = progress };
    engine.stop = stop == NULL ? &never : stop;
    engine.context = context;
    engine.result = result;
    memset(result, 0, sizeof(*result));
    kv_code code = resolve(&engine, status);
    if (code != KV_OK)
        return code;
    engine.connections = calloc(config->connections, sizeof(*engine.connections));
    engine.input = calloc(1, READ_SIZE + QUERY_BUFFER_PADDING);
    if (engine.connections == NULL || engine.input == NULL || uv_loop_init(&engine.loop) != 0)
        code =
            kv_fail(status, KV_NO_MEMORY, "no memory for %zu connections", config->connections);
    else
        run_loop(&engine);
    for (size_t i = 0; engine.connections != NULL && i < config->connections; i++) {
        query_buffer_clear(&engine.connections[i].wire);
        query_buffer_clear(&engine.connections[i].body);
    }
    free(engine.connections);
    free(engine.input);
    return code;
}

/* ---- URLs --------------------------------------------------------------- */

kv_code load_url_parse(const char *text, struct load_url *out, kv_status *status)
{
    struct http_parser_url parts;
    *out = (struct load_url){ 0 };
    if (strncmp(text, "unix://", 7) == 0 && strlen(text + 7) < sizeof(out->name)) {
        out->local = true;
        snprintf(out->name, sizeof(out->name), "%s", text + 7);
        snprintf(out->host, sizeof(out->host), "localhost");
        snprintf(out->path, sizeof(out->path), "/");
        return KV_OK;
    }
    http_parser_url_init(&parts);
    if (strncmp(text, "http://", 7) != 0 || strlen(text) >= sizeof(out->path) ||
        http_parser_parse_url(text, strlen(text), 0, &parts) != 0)
        return kv_fail(
            status, KV_INVALID,
            "%s is no URL to load; write http://127.0.0.1:26657/ or unix:///run/x.sock", text);
    size_t host = parts.field_data[UF_HOST].off, size = parts.field_data[UF_HOST].len;
    if (size >= sizeof(out->name) - 16)
        return kv_fail(status, KV_INVALID, "%s: the host is too long", text);
    memcpy(out->name, text + host, size);
    out->port = (parts.field_set & (1u << UF_PORT)) != 0 ? parts.port : 80;
    snprintf(out->host, sizeof(out->host),
             strchr(out->name, ':') != NULL ? "[%.230s]:%u" : "%.230s:%u", out->name,
             out->port);
    const char *path = strchr(text + host, '/');
    snprintf(out->path, sizeof(out->path), "%s", path == NULL ? "/" : path);
    char *fragment = strchr(out->path, '#');
    if (fragment != NULL)
        *fragment = '\0';
    return KV_OK;
}
