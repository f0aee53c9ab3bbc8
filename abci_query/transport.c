/* transport.c - loops, listeners, connections, deadlines. */
#include "abci_query/transport.h"

#include "abci_query/log.h"
#include "abci_query/tls.h"

#include <stdlib.h>
#include <uv.h>

enum {
    READ_SIZE = 64 << 10,
    OUT_KEEP = 1 << 20,
    WAITING_MAX = 4 << 20, /* bytes a slow subscriber may be behind */
    TICK_MS = 100,
    STILL_MS = 500,      /* a tick this late: the thread did not run */
    LINGER_MS = 1000,    /* a closed connection may still send this long */
    PING_MS = 27 * 1000, /* WebSockets, as CometBFT does */
    SILENT_MS = 30 * 1000 + PING_MS,
    BACKLOG = 1024,
    METRICS_EXTRA = 16, /* connections to metrics above the limit */
    TURNS = 4 /* connections with held input served between two looks at the sockets */
};

struct client {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct query_worker *worker;
    struct client *next, *prev;
    struct client *ready_next, *ready_prev; /* while `ready` */
    struct query_http_conn conn;
    struct query_subscriber subscriber; /* the owner of conn */
    struct query_tls_session *tls;
    struct query_buffer sending, waiting; /* being written; to be written after it */
    struct query_buffer held;             /* read, but not yet served */
    bool writing, stopped, ended, closing, ready;
    unsigned phases; /* conn.phases when phase_deadline was set */
    uint64_t phase_deadline, write_deadline, heard, pinged;
};

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    struct query_worker *worker;
    bool local, metrics, tls, open;
};

struct query_worker {
    struct query_transport *transport;
    struct query_http *http, *metrics;
    struct query_worker_hooks hooks;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t tick;
    atomic_bool stop, notified;
    bool draining;
    unsigned drain_ticks;
    uint64_t ticked, drain_deadline;
    struct listener *listeners;
    size_t listener_count;
    struct client *clients;
    struct client *ready_first, *ready_last; /* held input waits for its turn */
    uv_idle_t turn;
    struct query_buffer out, plain, wire;
    struct query_latency latency;
    char *input; /* READ_SIZE and its padding */
};

/* ---- Sending ------------------------------------------------------------ */

static void on_client_closed(uv_handle_t *handle)
{
    struct client *client = handle->data;
    query_http_conn_clear(&client->conn);
    query_subscriber_clear(&client->subscriber);
    query_tls_session_free(client->tls);
    query_buffer_clear(&client->sending);
    query_buffer_clear(&client->waiting);
    query_buffer_clear(&client->held);
    atomic_fetch_sub(&client->worker->transport->connections, 1);
    free(client);
}

/* Pipelined requests beyond one portion wait here, so that who sends a thousand at once
 * does not hold up who sends one. */
static void ready_add(struct client *client);

static void ready_remove(struct client *client)
{
    struct query_worker *worker = client->worker;
    if (!client->ready)
        return;
    client->ready = false;
    if (client->ready_prev != NULL)
        client->ready_prev->ready_next = client->ready_next;
    else
        worker->ready_first = client->ready_next;
    if (client->ready_next != NULL)
        client->ready_next->ready_prev = client->ready_prev;
    else
        worker->ready_last = client->ready_prev;
    client->ready_next = client->ready_prev = NULL;
}

static void client_close(struct client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    ready_remove(client);
    if (client->prev != NULL)
        client->prev->next = client->next;
    else
        client->worker->clients = client->next;
    if (client->next != NULL)
        client->next->prev = client->prev;
    uv_close(&client->as.handle, on_client_closed);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    (void)status;
    struct client *client = request->data;
    (void)client; /* the peer's end, or the linger deadline, closes it */
}

static void client_settle(struct client *client);

static void on_written(uv_write_t *request, int status)
{
    struct client *client = request->data;
    client->writing = false;
    client->write_deadline = 0;
    if (client->closing)
        return;
    if (status < 0) {
        client_close(client);
        return;
    }
    query_buffer_reset(&client->sending, 0);
    client_settle(client);
}

/* Hand `client->sending` to the loop. */
static void start_write(struct client *client)
{
    uv_buf_t buf = uv_buf_init(client->sending.data, (unsigned)client->sending.size);
    client->write.data = client;
    if (client->sending.failed || client->sending.size > INT32_MAX ||
        uv_write(&client->write, &client->as.stream, &buf, 1, on_written) != 0) {
        client_close(client);
        return;
    }
    client->writing = true;
    client->write_deadline =
        uv_now(&client->worker->loop) + client->worker->transport->timeouts.write_ms;
}

/* Send bytes for the wire: at once as far as the socket takes them. */
static void send_wire(struct client *client, const char *data, size_t size)
{
    if (client->closing || size == 0)
        return;
    if (client->writing) {
        query_buffer_add(&client->waiting, data, size);
        if (client->waiting.failed || client->waiting.size > WAITING_MAX)
            client_close(client);
        return;
    }
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)data, (unsigned)size);
    int sent = uv_try_write(&client->as.stream, &buf, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        client_close(client);
        return;
    }
    size_t done = sent < 0 ? 0 : (size_t)sent;
    if (done == size)
        return;
    query_buffer_add(&client->sending, data + done, size - done);
    start_write(client);
}

/* Send what a feed wrote. */
static void client_send(struct client *client, struct query_buffer *out)
{
    struct query_worker *worker = client->worker;
    if (out->failed) {
        client_close(client);
    } else if (client->tls != NULL && out->size > 0) {
        query_buffer_reset(&worker->wire, OUT_KEEP);
        if (query_tls_seal(client->tls, out->data, out->size, &worker->wire))
            send_wire(client, worker->wire.data, worker->wire.size);
        else
            client_close(client);
    } else {
        send_wire(client, out->data, out->size);
    }
}

/* ---- Serving ------------------------------------------------------------ */

static uint64_t phase_timeout(const struct client *client)
{
    const struct query_timeouts *timeouts = &client->worker->transport->timeouts;
    switch (client->conn.phase) {
    case QUERY_HTTP_IDLE:
        return client->conn.served ? timeouts->idle_ms : timeouts->header_ms;
    case QUERY_HTTP_HEADING:
        return timeouts->header_ms;
    case QUERY_HTTP_BODY:
        return timeouts->body_ms;
    case QUERY_HTTP_SOCKET:
        return 0;
    case QUERY_HTTP_CLOSING:
        break;
    }
    return LINGER_MS;
}

/* A deadline runs from the start of its phase, however the bytes trickle. */
static void set_deadline(struct client *client)
{
    if (client->phases == client->conn.phases && client->phase_deadline != 0)
        return;
    uint64_t timeout = phase_timeout(client);
    client->phases = client->conn.phases;
    client->phase_deadline =
        timeout == 0 ? UINT64_MAX : uv_now(&client->worker->loop) + timeout;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct client *client = handle->data;
    (void)suggested;
    *buf = uv_buf_init(client->worker->input, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf);

/* After anything was done: what comes next for this connection? */
static void client_settle(struct client *client)
{
    if (client->closing)
        return;
    if (!client->writing && client->waiting.size > 0) {
        query_buffer_clear(&client->sending);
        client->sending = client->waiting;
        client->waiting = (struct query_buffer)QUERY_BUFFER_INIT;
        start_write(client);
    }
    if (client->closing || client->writing)
        return;
    if (client->held.size > 0) {
        ready_add(client);
        return;
    }
    if (client->conn.phase == QUERY_HTTP_CLOSING && !client->ended) {
        client->ended = true;
        if (client->tls != NULL) {
            query_buffer_reset(&client->worker->wire, OUT_KEEP);
            query_tls_end(client->tls, &client->worker->wire);
            send_wire(client, client->worker->wire.data, client->worker->wire.size);
        }
        client->shutdown.data = client;
        if (client->closing ||
            uv_shutdown(&client->shutdown, &client->as.stream, on_shutdown) != 0) {
            client_close(client);
            return;
        }
    }
    if (client->stopped) {
        client->stopped = false;
        if (uv_read_start(&client->as.stream, on_alloc, on_read) != 0)
            client_close(client);
    }
}

/* Requests answered since `before` took `elapsed` together. */
static void count_latency(struct query_latency *latency, uint64_t requests, uint64_t elapsed_ns)
{
    if (requests == 0)
        return;
    uint64_t each = elapsed_ns / requests / 1000;
    size_t bucket = each == 0 ? 0 : 64 - (size_t)__builtin_clzll(each);
    query_count(
        &latency->buckets[bucket < QUERY_LATENCY_BUCKETS ? bucket : QUERY_LATENCY_BUCKETS - 1],
        requests);
    query_count(&latency->sum_ns, elapsed_ns);
}

/* Feed one portion of requests and send its answers; what is left waits for a turn. */
static void client_serve(struct client *client, const char *data, size_t size)
{
    struct query_worker *worker = client->worker;
    struct query_buffer *out = &worker->out;
    struct query_http *http = client->conn.http;
    uint64_t start = uv_hrtime();
    uint64_t before =
        query_counter_read(&http->counts.requests) + query_counter_read(&http->counts.messages);
    query_buffer_reset(out, OUT_KEEP);
    size_t taken = query_http_feed(&client->conn, data, size, out);
    count_latency(&worker->latency,
                  query_counter_read(&http->counts.requests) +
                      query_counter_read(&http->counts.messages) - before,
                  uv_hrtime() - start);
    client_send(client, out);
    if (client->closing)
        return;
    query_buffer_add(&client->held, data + taken, size - taken);
    if (client->held.failed) {
        client_close(client);
        return;
    }
    if ((client->writing || client->held.size > 0) && !client->stopped &&
        client->conn.phase != QUERY_HTTP_SOCKET) {
        client->stopped = true;
        uv_read_stop(&client->as.stream);
    }
    set_deadline(client);
    client_settle(client);
}

static void on_turn(uv_idle_t *turn)
{
    struct query_worker *worker = turn->data;
    for (int i = 0; i < TURNS && worker->ready_first != NULL; i++) {
        struct client *client = worker->ready_first;
        struct query_buffer held = client->held;
        ready_remove(client);
        client->held = (struct query_buffer)QUERY_BUFFER_INIT;
        client_serve(client, held.data, held.size);
        query_buffer_clear(&held);
    }
    if (worker->ready_first == NULL)
        uv_idle_stop(turn);
}

static void ready_add(struct client *client)
{
    struct query_worker *worker = client->worker;
    if (client->ready)
        return;
    client->ready = true;
    client->ready_next = NULL;
    client->ready_prev = worker->ready_last;
    if (worker->ready_last != NULL)
        worker->ready_last->ready_next = client;
    else
        worker->ready_first = client;
    worker->ready_last = client;
    uv_idle_start(&worker->turn, on_turn);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct client *client = stream->data;
    struct query_worker *worker = client->worker;
    if (count == 0)
        return;
    if (count < 0) {
        /* The peer has said all; what is being written still goes out. */
        if (!client->writing) {
            client_close(client);
            return;
        }
        query_http_end(&client->conn);
        client->stopped = true;
        uv_read_stop(stream);
        return;
    }
    client->heard = uv_now(&worker->loop);
    if (client->tls == NULL) {
        client_serve(client, buf->base, (size_t)count);
        return;
    }
    query_buffer_reset(&worker->plain, OUT_KEEP);
    query_buffer_reset(&worker->wire, OUT_KEEP);
    bool alive =
        query_tls_take(client->tls, buf->base, (size_t)count, &worker->plain, &worker->wire);
    send_wire(client, worker->wire.data, worker->wire.size);
    if (!alive && worker->plain.size == 0)
        client_close(client);
    else if (!client->closing && worker->plain.size > 0)
        client_serve(client, worker->plain.data, worker->plain.size);
}

/* ---- Accepting ---------------------------------------------------------- */

static struct client *client_new(struct listener *listener)
{
    struct query_worker *worker = listener->worker;
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return NULL;
    if (listener->tls) {
        client->tls = query_tls_session_new(worker->transport->tls);
        if (client->tls == NULL) {
            free(client);
            return NULL;
        }
    }
    client->worker = worker;
    client->heard = client->pinged = uv_now(&worker->loop);
    query_http_conn_init(&client->conn, listener->metrics ? worker->metrics : worker->http,
                         &client->subscriber);
    if (listener->local)
        uv_pipe_init(&worker->loop, &client->as.pipe, 0);
    else
        uv_tcp_init(&worker->loop, &client->as.tcp);
    client->as.handle.data = client;
    client->next = worker->clients;
    if (client->next != NULL)
        client->next->prev = client;
    worker->clients = client;
    atomic_fetch_add(&worker->transport->connections, 1);
    return client;
}

/* Too many are here already: say so and hang up. */
static void turn_away(struct client *client)
{
    struct query_buffer *out = &client->worker->out;
    struct query_transport *transport = client->worker->transport;
    struct query_log_field limit = { "connections_max", NULL, transport->connections_max };
    atomic_fetch_add(&transport->turned_away, 1);
    query_log_event(transport->log, QUERY_LOG_WARN, "turned_away", &limit, 1);
    query_buffer_reset(out, OUT_KEEP);
    query_http_refuse(client->conn.http, 503, "503 too many connections\n", out);
    if (client->tls == NULL && !out->failed) {
        uv_buf_t buf = uv_buf_init(out->data, (unsigned)out->size);
        if (uv_try_write(&client->as.stream, &buf, 1) < 0)
            client->ended = true; /* then it hangs up unheard */
    }
    client_close(client);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct listener *listener = server->data;
    struct query_transport *transport = listener->worker->transport;
    if (status < 0)
        return;
    struct client *client = client_new(listener);
    if (client == NULL)
        return; /* it stays in the backlog, and is offered again */
    if (uv_accept(server, &client->as.stream) != 0) {
        client_close(client);
        return;
    }
    atomic_fetch_add(&transport->accepted, 1);
    size_t limit = transport->connections_max + (listener->metrics ? METRICS_EXTRA : 0);
    if (atomic_load(&transport->connections) > limit) {
        turn_away(client);
        return;
    }
    if (!listener->local)
        uv_tcp_nodelay(&client->as.tcp, 1);
    set_deadline(client);
    if (uv_read_start(&client->as.stream, on_alloc, on_read) != 0)
        client_close(client);
}

/* ---- Time --------------------------------------------------------------- */

static void client_timeout(struct client *client)
{
    struct query_buffer *out = &client->worker->out;
    static const char *const phases[] = { [QUERY_HTTP_IDLE] = "idle",
                                          [QUERY_HTTP_HEADING] = "header",
                                          [QUERY_HTTP_BODY] = "body",
                                          [QUERY_HTTP_SOCKET] = "websocket",
                                          [QUERY_HTTP_CLOSING] = "closing" };
    struct query_log_field phase = { "phase",
                                     client->writing ? "write" : phases[client->conn.phase],
                                     0 };
    atomic_fetch_add(&client->worker->transport->timed_out, 1);
    query_log_event(client->worker->transport->log, QUERY_LOG_INFO, "timed_out", &phase, 1);
    bool asked =
        client->conn.phase == QUERY_HTTP_HEADING || client->conn.phase == QUERY_HTTP_BODY;
    if (asked && !client->writing && client->tls == NULL) {
        query_buffer_reset(out, OUT_KEEP);
        query_http_refuse(client->conn.http, 408, "408 the request took too long\n", out);
        client_send(client, out);
    }
    client_close(client);
}

/* A WebSocket is kept while it answers. */
static void client_ping(struct client *client, uint64_t now)
{
    struct query_buffer *out = &client->worker->out;
    if (now - client->heard > SILENT_MS) {
        client_close(client);
        return;
    }
    if (now - client->pinged < PING_MS)
        return;
    client->pinged = now;
    query_buffer_reset(out, OUT_KEEP);
    query_websocket_frame(out, QUERY_WEBSOCKET_PING, kv_bytes("", 0));
    client_send(client, out);
}

/*
 * A process that was stopped, starved or suspended finds every deadline past when it runs
 * again, while what its clients sent in time still waits in the sockets. Time in which this
 * thread did not run is held against nobody.
 */
static void forgive(struct query_worker *worker)
{
    uint64_t now = uv_now(&worker->loop), lost = now - worker->ticked;
    worker->ticked = now;
    if (lost < STILL_MS)
        return;
    lost -= TICK_MS;
    worker->drain_deadline += lost;
    for (struct client *client = worker->clients; client != NULL; client = client->next) {
        if (client->phase_deadline != UINT64_MAX)
            client->phase_deadline += lost;
        if (client->write_deadline != 0)
            client->write_deadline += lost;
        client->heard += lost;
    }
}

static void check_clients(struct query_worker *worker)
{
    uint64_t now = uv_now(&worker->loop);
    struct client *next;
    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;
        if (client->phase_deadline <= now ||
            (client->write_deadline != 0 && client->write_deadline <= now))
            client_timeout(client);
        else if (client->conn.phase == QUERY_HTTP_SOCKET)
            client_ping(client, now);
    }
}

/* Tell subscribers when the state moved on. */
static void refresh(struct query_worker *worker)
{
    if (worker->hooks.refresh == NULL || !worker->hooks.refresh(worker->hooks.context))
        return;
    struct client *next;
    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;
        if (client->conn.phase != QUERY_HTTP_SOCKET || client->subscriber.count == 0)
            continue;
        query_buffer_reset(&worker->out, OUT_KEEP);
        worker->hooks.tell(worker->hooks.context, &client->subscriber, &worker->out);
        client_send(client, &worker->out);
    }
    worker->hooks.told(worker->hooks.context);
}

/* ---- Ending ------------------------------------------------------------- */

static void start_drain(struct query_worker *worker)
{
    worker->draining = true;
    worker->http->draining = true;
    worker->drain_deadline = uv_now(&worker->loop) + worker->transport->timeouts.drain_ms;
    for (size_t i = 0; i < worker->listener_count; i++)
        if (worker->listeners[i].open)
            uv_close(&worker->listeners[i].as.handle, NULL);
}

/* Give idle connections one more look at their sockets, busy ones their time. */
static void drain(struct query_worker *worker)
{
    bool late = uv_now(&worker->loop) >= worker->drain_deadline;
    struct client *next;
    worker->drain_ticks++;
    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;
        bool idle =
            client->conn.phase == QUERY_HTTP_IDLE && !client->writing && client->held.size == 0;
        if (client->conn.phase == QUERY_HTTP_SOCKET) {
            query_buffer_reset(&worker->out, OUT_KEEP);
            query_websocket_close(&worker->out, 1001, "the server ends");
            query_http_end(&client->conn);
            client_send(client, &worker->out);
            set_deadline(client);
            client_settle(client);
        } else if (late || (idle && worker->drain_ticks > 1)) {
            client_close(client);
        }
    }
    if (worker->clients == NULL)
        uv_stop(&worker->loop);
}

static void keep_time(struct query_worker *worker)
{
    uv_timeval64_t now;
    if (uv_gettimeofday(&now) != 0)
        return;
    worker->http->now = now.tv_sec;
    if (worker->metrics != NULL)
        worker->metrics->now = now.tv_sec;
}

static void on_tick(uv_timer_t *timer)
{
    struct query_worker *worker = timer->data;
    keep_time(worker);
    forgive(worker);
    check_clients(worker);
    if (worker->draining)
        drain(worker);
    else
        refresh(worker);
}

static void on_wake(uv_async_t *async)
{
    struct query_worker *worker = async->data;
    if (atomic_load(&worker->stop) && !worker->draining)
        start_drain(worker);
    if (atomic_exchange(&worker->notified, false) && !worker->draining)
        refresh(worker);
}

/* ---- Workers ------------------------------------------------------------ */

static kv_code listen_on(struct query_worker *worker, struct listener *listener,
                         struct query_listener *bound, kv_status *status)
{
    listener->worker = worker;
    listener->local = bound->local;
    listener->metrics = bound->metrics;
    listener->tls = worker->transport->tls != NULL && !bound->local && !bound->metrics;
    int fault = bound->local ? uv_pipe_init(&worker->loop, &listener->as.pipe, 0)
                             : uv_tcp_init(&worker->loop, &listener->as.tcp);
    if (fault != 0)
        return kv_fail(status, KV_IO, "%s: %s", bound->name, uv_strerror(fault));
    listener->open = true;
    listener->as.handle.data = listener;
    fault = bound->local ? uv_pipe_open(&listener->as.pipe, bound->fd)
                         : uv_tcp_open(&listener->as.tcp, bound->fd);
    if (fault == 0) {
        bound->fd = -1; /* the loop's now */
        fault = uv_listen(&listener->as.stream, BACKLOG, on_connection);
    }
    if (fault != 0)
        return kv_fail(status, KV_IO, "%s: %s", bound->name, uv_strerror(fault));
    return KV_OK;
}

static kv_code start_loop(struct query_worker *worker, struct query_listener *listeners,
                          kv_status *status)
{
    int fault = uv_async_init(&worker->loop, &worker->wake, on_wake);
    if (fault == 0)
        fault = uv_timer_init(&worker->loop, &worker->tick);
    if (fault == 0)
        fault = uv_idle_init(&worker->loop, &worker->turn);
    if (fault == 0)
        fault = uv_timer_start(&worker->tick, on_tick, TICK_MS, TICK_MS);
    if (fault != 0)
        return kv_fail(status, KV_IO, "event loop: %s", uv_strerror(fault));
    worker->wake.data = worker->tick.data = worker->turn.data = worker;
    worker->ticked = uv_now(&worker->loop);
    kv_code code = KV_OK;
    for (size_t i = 0; i < worker->listener_count && code == KV_OK; i++)
        code = listen_on(worker, &worker->listeners[i], &listeners[i], status);
    return code;
}

kv_code query_worker_new(struct query_transport *transport, struct query_listener *listeners,
                         size_t listener_count, struct query_http *http,
                         struct query_http *metrics, const struct query_worker_hooks *hooks,
                         struct query_worker **out, kv_status *status)
{
    *out = NULL;
    struct query_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a worker");
    worker->transport = transport;
    worker->http = http;
    worker->metrics = metrics;
    worker->hooks = *hooks;
    worker->listener_count = listener_count;
    worker->listeners = calloc(listener_count, sizeof(*worker->listeners));
    worker->input = calloc(1, READ_SIZE + QUERY_BUFFER_PADDING);
    if (worker->listeners == NULL || worker->input == NULL ||
        uv_loop_init(&worker->loop) != 0) {
        free(worker->listeners);
        free(worker->input);
        free(worker);
        return kv_fail(status, KV_NO_MEMORY, "no memory for an event loop");
    }
    keep_time(worker);
    kv_code code = start_loop(worker, listeners, status);
    if (code != KV_OK) {
        query_worker_free(worker);
        return code;
    }
    *out = worker;
    return KV_OK;
}

void query_worker_run(struct query_worker *worker)
{
    uv_run(&worker->loop, UV_RUN_DEFAULT);
}

void query_worker_stop(struct query_worker *worker)
{
    atomic_store(&worker->stop, true);
    uv_async_send(&worker->wake);
}

void query_worker_notify(struct query_worker *worker)
{
    atomic_store(&worker->notified, true);
    uv_async_send(&worker->wake);
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void query_worker_free(struct query_worker *worker)
{
    if (worker == NULL)
        return;
    while (worker->clients != NULL)
        client_close(worker->clients);
    uv_walk(&worker->loop, close_handle, NULL);
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&worker->loop) != 0)
        abort(); /* a handle was lost track of */
    query_buffer_clear(&worker->out);
    query_buffer_clear(&worker->plain);
    query_buffer_clear(&worker->wire);
    free(worker->listeners);
    free(worker->input);
    free(worker);
}

const struct query_latency *query_worker_latency(const struct query_worker *worker)
{
    return &worker->latency;
}
