/* run.c - a learner's loop over its connections, until the switch. */
#include "reconnect/stream.h"
#include "reconnect/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TRIES = 5,      /* connections in a row that bring nothing, to one place */
    TOLD_TRIES = 2, /* to one that a peer told of */
    RETRY_MS = 300, /* before the next */
    PROGRESS_MS = 100,
    FAREWELL_MS = 200 /* to send the last words */
};

struct runner;

struct connection {
    struct stream stream; /* first: see stream_alloc */
    struct runner *runner;
    const char *address; /* NULL: a socket was given */
    int fd;
    char name[RECONNECT_PEER_NAME_SIZE];
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    uv_timer_t retry;
    unsigned tries, tries_max, peer;
    uint64_t blocks;         /* that it has brought, when last lost */
    bool open, joined, used; /* used: handle is initialised */
    bool out;                /* not worth another try */
};

struct runner {
    uv_loop_t loop;
    uv_timer_t timer, progress_timer;
    reconnect_learner *learner;
    reconnect_progress progress;
    void *context;
    struct connection *connections; /* RECONNECT_PEERS_MAX */
    size_t count;
    int64_t wait_until_us; /* until then tries do not count */
    bool ended, gave_up;
    kv_status last; /* why the last connection went */
};

static void pump(struct connection *connection);
static void try_connect(struct connection *connection);
static void take_told(struct runner *runner);

static bool running(const struct runner *runner)
{
    return !runner->ended && reconnect_learner_phase(runner->learner) == RECONNECT_RUNNING;
}

/* May another connection to the place come to something? */
static bool has_hope(const struct connection *connection)
{
    return connection->address != NULL && !connection->out &&
           (connection->tries < connection->tries_max ||
            stream_now_us() < connection->runner->wait_until_us);
}

/* ---- Losing a connection ------------------------------------------------ */

static void on_retry(uv_timer_t *timer)
{
    struct connection *connection = timer->data;
    if (running(connection->runner))
        try_connect(connection);
}

/* Let the learner wait for peers as long as some place is worth another try. */
static void set_waiting(struct runner *runner)
{
    bool hope = false;
    for (size_t i = 0; i < runner->count; i++) {
        const struct connection *at = &runner->connections[i];
        hope |= !at->joined && has_hope(at);
        hope |= at->used && !at->joined && !at->stream.closing;
    }
    reconnect_learner_wait_for_peers(runner->learner, hope);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = (struct connection *)(void *)handle;
    struct runner *runner = connection->runner;
    free(connection->stream.chunk);
    connection->stream.chunk = NULL;
    connection->used = connection->open = false;
    reconnect_peer_figures figures;
    if (connection->joined) {
        connection->joined = false;
        if (reconnect_learner_measure_peer(runner->learner, connection->peer, &figures)) {
            connection->out = connection->out || figures.lied;
            /* One that breaks off again and again, but brings something each time. */
            if (figures.blocks > connection->blocks)
                connection->tries = 0;
            connection->blocks = figures.blocks;
        }
        set_waiting(runner);
        reconnect_learner_leave(runner->learner, stream_now_us(), connection->peer,
                                "connection lost");
    } else {
        set_waiting(runner);
    }
    if (running(runner) && has_hope(connection))
        uv_timer_start(&connection->retry, on_retry, RETRY_MS, 0);
}

static void hang_up(struct connection *connection)
{
    if (!connection->used || connection->stream.closing)
        return;
    connection->stream.closing = true;
    uv_close(&connection->stream.uv.handle, on_closed);
}

static void lose(struct connection *connection, int error)
{
    struct runner *runner = connection->runner;
    runner->last = (kv_status)KV_STATUS_INIT;
    kv_fail(&runner->last, KV_IO, "%s: %s", connection->name, uv_strerror(error));
    hang_up(connection);
}

/* ---- The learner's time ------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void pump_all(struct runner *runner)
{
    for (size_t i = 0; i < runner->count; i++)
        if (runner->connections[i].joined)
            pump(&runner->connections[i]);
    if (!running(runner) && !runner->ended) {
        runner->ended = true;
        uv_stop(&runner->loop);
        return;
    }
    int64_t wake = reconnect_learner_wake_us(runner->learner), now = stream_now_us();
    if (wake == INT64_MAX) {
        uv_timer_stop(&runner->timer);
        return;
    }
    uint64_t wait_ms = wake <= now ? 1 : (uint64_t)(wake - now + 999) / 1000;
    uv_update_time(&runner->loop);
    uv_timer_start(&runner->timer, on_timer, wait_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct runner *runner = timer->data;
    reconnect_learner_tick(runner->learner, stream_now_us());
    pump_all(runner);
}

static void on_progress(uv_timer_t *timer)
{
    struct runner *runner = timer->data;
    if (runner->progress != NULL && !runner->progress(runner->context, runner->learner))
        runner->gave_up = true;
    bool hope = running(runner) && !runner->gave_up;
    bool any = false;
    for (size_t i = 0; i < runner->count; i++) {
        const struct connection *at = &runner->connections[i];
        any |= at->used || has_hope(at);
    }
    if (hope && any) {
        pump_all(runner); /* it may have been retargeted */
        return;
    }
    runner->ended = true;
    uv_stop(&runner->loop);
}

/* ---- A connection ------------------------------------------------------- */

static void on_written(uv_write_t *write, int error)
{
    struct connection *connection = (struct connection *)(void *)write->handle;
    free(connection->stream.chunk);
    connection->stream.chunk = NULL;
    if (error != 0 && error != UV_ECANCELED)
        lose(connection, error);
    else if (error == 0)
        pump(connection);
}

static void pump(struct connection *connection)
{
    reconnect_learner *learner = connection->runner->learner;
    while (connection->joined && !connection->stream.closing &&
           connection->stream.chunk == NULL) {
        kv_slice bytes = reconnect_learner_output(learner, stream_now_us(), connection->peer);
        size_t sent;
        if (bytes.size == 0)
            break;
        if (stream_send(&connection->stream, bytes, &sent, on_written) != KV_OK) {
            lose(connection, UV_EPIPE);
            return;
        }
        reconnect_learner_sent(learner, connection->peer, sent);
    }
    if (connection->joined && connection->stream.chunk == NULL && running(connection->runner) &&
        !reconnect_learner_peer_live(learner, connection->peer))
        hang_up(connection);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = (struct connection *)(void *)stream;
    struct runner *runner = connection->runner;
    if (size < 0) {
        lose(connection, (int)size);
        return;
    }
    runner->last = (kv_status)KV_STATUS_INIT;
    bool live = reconnect_learner_input(runner->learner, stream_now_us(), connection->peer,
                                        kv_bytes(buffer->base, (size_t)size), &runner->last);
    if (!live)
        pump(connection); /* its last words; then it hangs up */
    take_told(runner);
    pump_all(runner);
}

static void start(struct connection *connection)
{
    struct runner *runner = connection->runner;
    kv_status why = KV_STATUS_INIT;
    if (reconnect_learner_join(runner->learner, stream_now_us(), connection->name,
                               &connection->peer, &why) != KV_OK) {
        runner->last = why;
        connection->out = true;
        hang_up(connection);
        return;
    }
    connection->joined = true;
    set_waiting(runner);
    int error = uv_read_start(&connection->stream.uv.stream, stream_alloc, on_read);
    if (error != 0)
        lose(connection, error);
    pump_all(runner);
}

static void on_connected(uv_connect_t *connect, int error)
{
    struct connection *connection = (struct connection *)(void *)connect->handle;
    if (error == UV_ECANCELED)
        return;
    if (error != 0) {
        lose(connection, error);
        return;
    }
    uv_tcp_nodelay(&connection->stream.uv.tcp, 1);
    connection->open = true;
    start(connection);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int error, struct addrinfo *info)
{
    struct connection *connection = resolve->data;
    if (error == 0 && !connection->stream.closing)
        error = uv_tcp_connect(&connection->connect, &connection->stream.uv.tcp, info->ai_addr,
                               on_connected);
    uv_freeaddrinfo(info);
    if (error != 0)
        lose(connection, error);
}

static void try_connect(struct connection *connection)
{
    struct runner *runner = connection->runner;
    char host[256], port[16];
    connection->tries++;
    memset(&connection->stream, 0, offsetof(struct stream, buffer));
    if (connection->address == NULL) {
        connection->used = stream_adopt(&runner->loop, &connection->stream, connection->fd,
                                        &runner->last) == KV_OK;
        if (connection->used)
            start(connection);
        else
            close(connection->fd);
        return;
    }
    if (stream_address(connection->address, host, port, &runner->last) != KV_OK) {
        connection->out = true;
        return;
    }
    uv_tcp_init(&runner->loop, &connection->stream.uv.tcp);
    connection->used = true;
    connection->resolve.data = connection;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    int error =
        uv_getaddrinfo(&runner->loop, &connection->resolve, on_resolved, host, port, &hints);
    if (error != 0)
        lose(connection, error);
}

/* ---- Places ------------------------------------------------------------- */

static struct connection *connection_add(struct runner *runner)
{
    struct connection *connection = &runner->connections[runner->count++];
    connection->runner = runner;
    connection->tries_max = TRIES;
    uv_timer_init(&runner->loop, &connection->retry);
    connection->retry.data = connection;
    return connection;
}

/* Connect to those whom peers told of, as long as there is room. */
static void take_told(struct runner *runner)
{
    char address[RECONNECT_PEER_NAME_SIZE];
    while (running(runner) && runner->count < RECONNECT_PEERS_MAX &&
           reconnect_learner_take_told(runner->learner, address)) {
        bool known = false;
        for (size_t i = 0; i < runner->count; i++)
            known |= strcmp(runner->connections[i].name, address) == 0;
        if (known)
            continue;
        struct connection *connection = connection_add(runner);
        memcpy(connection->name, address, sizeof(address));
        connection->address = connection->name;
        connection->tries_max = TOLD_TRIES;
        reconnect_learner_sole_peer(runner->learner, false);
        try_connect(connection);
        set_waiting(runner);
    }
}

/* ---- The whole ---------------------------------------------------------- */

static void on_end(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Send the last words, then close everything. */
static void close_all(struct runner *runner)
{
    for (size_t i = 0; i < runner->count; i++)
        pump(&runner->connections[i]);
    bool writing = false;
    for (size_t i = 0; i < runner->count; i++)
        writing |= runner->connections[i].stream.chunk != NULL;
    if (writing) {
        uv_timer_start(&runner->timer, on_end, FAREWELL_MS, 0);
        uv_run(&runner->loop, UV_RUN_DEFAULT);
    }
    for (size_t i = 0; i < runner->count; i++) {
        hang_up(&runner->connections[i]);
        uv_close((uv_handle_t *)&runner->connections[i].retry, NULL);
    }
    uv_close((uv_handle_t *)&runner->timer, NULL);
    uv_close((uv_handle_t *)&runner->progress_timer, NULL);
    uv_run(&runner->loop, UV_RUN_DEFAULT);
    uv_loop_close(&runner->loop);
}

static kv_code fetch(struct runner *runner, kv_status *status)
{
    for (size_t i = 0; i < runner->count; i++)
        try_connect(&runner->connections[i]); /* NOLINT(clang-analyzer-unix.Malloc) */
    set_waiting(runner);
    uv_timer_start(&runner->progress_timer, on_progress, PROGRESS_MS, PROGRESS_MS);
    if (running(runner))
        uv_run(&runner->loop, UV_RUN_DEFAULT);
    runner->ended = true;
    if (runner->gave_up)
        return kv_fail(status, KV_IO, "given up");
    reconnect_phase phase = reconnect_learner_phase(runner->learner);
    if (phase == RECONNECT_RUNNING)
        return kv_fail(status, KV_IO, "no peer is left: %s", runner->last.message);
    return reconnect_learner_result(runner->learner, status);
}

static void fill_report(struct runner *runner, reconnect_run_report *report)
{
    reconnect_learner_measure(runner->learner, &report->figures);
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        if (!reconnect_learner_measure_peer(runner->learner, i, &report->peers[i]))
            break;
        report->peer_count = i + 1;
    }
}

static kv_code runner_init(struct runner *runner, const reconnect_place *places, size_t count,
                           kv_status *status)
{
    runner->connections = calloc(RECONNECT_PEERS_MAX, sizeof(*runner->connections));
    if (runner->connections == NULL || uv_loop_init(&runner->loop) != 0) {
        free(runner->connections);
        return kv_fail(status, KV_NO_MEMORY, "no memory for connections");
    }
    uv_timer_init(&runner->loop, &runner->timer);
    uv_timer_init(&runner->loop, &runner->progress_timer);
    runner->timer.data = runner->progress_timer.data = runner;
    for (size_t i = 0; i < count; i++) {
        struct connection *connection = connection_add(runner);
        connection->address = places[i].address;
        connection->fd = places[i].fd;
        if (places[i].address != NULL)
            snprintf(connection->name, sizeof(connection->name), "%s", places[i].address);
        else
            snprintf(connection->name, sizeof(connection->name), "socket %d", places[i].fd);
    }
    return KV_OK;
}

kv_code reconnect_run(kv_db *db, state *to, const reconnect_settings *settings,
                      const reconnect_goal *goal, const reconnect_place *places,
                      size_t place_count, reconnect_progress progress, void *context,
                      reconnect_run_report *report, kv_status *status)
{
    memset(report, 0, sizeof(*report));
    if (place_count == 0 || place_count > RECONNECT_PEERS_MAX)
        return kv_fail(status, KV_INVALID, "%zu peers: 1 to %u are possible", place_count,
                       RECONNECT_PEERS_MAX);
    struct runner runner = { .progress = progress, .context = context };
    kv_code code = reconnect_learner_new(db, to, settings, goal, &runner.learner, status);
    if (code != KV_OK)
        return code;
    reconnect_learner_sole_peer(runner.learner, place_count == 1);
    reconnect_learner_discover(runner.learner, settings->discover);
    runner.wait_until_us = stream_now_us() + (int64_t)settings->peer_wait_us;
    code = runner_init(&runner, places, place_count, status);
    if (code == KV_OK) {
        sigset_t before;
        stream_block_pipe(&before);
        int64_t begin = stream_now_us();
        code = fetch(&runner, status);
        int64_t fetched = stream_now_us();
        close_all(&runner);
        stream_unblock_pipe(&before);
        if (code == KV_OK)
            code = reconnect_learner_switch(runner.learner, &report->version, status);
        int64_t end = stream_now_us();
        report->seconds = (double)(end - begin) / 1e6;
        report->switch_seconds = (double)(end - fetched) / 1e6;
        fill_report(&runner, report);
        free(runner.connections);
    }
    report->version = state_version(to);
    reconnect_learner_free(runner.learner);
    return code;
}
