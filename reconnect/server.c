/* server.c - a teacher's thread: one loop, its links take turns. */
#include "reconnect/stream.h"
#include "reconnect/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BACKLOG = 128,
    TURN_FRAMES = 4 /* frames one link may send before the others' turn */
};

struct connection {
    struct stream stream; /* first: see stream_alloc */
    struct connection *next, *before;
    reconnect_server *server;
    reconnect_link *link;
    char name[RECONNECT_PEER_NAME_SIZE];
    bool more; /* it stopped at the end of its turn */
};

struct adopted {
    struct adopted *next;
    int fd;
};

struct reconnect_server {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t wake; /* stop, or adopted sockets */
    uv_timer_t timer;
    uv_idle_t turns;
    uv_thread_t thread;
    bool listening;
    unsigned port;
    reconnect_teacher *teacher;
    struct connection *connections;
    reconnect_log log;
    void *context;

    uv_mutex_t lock; /* of what follows */
    bool stop;
    struct adopted *adopted;
};

static void pump(struct connection *connection);

/* ---- Connections -------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = (struct connection *)(void *)handle;
    reconnect_server *server = connection->server;
    kv_status status = KV_STATUS_INIT;
    if (connection->link != NULL) {
        bool over = reconnect_link_over(connection->link, &status);
        if (!over)
            kv_fail(&status, KV_IO, "%s: connection lost", connection->name);
        if (server->log != NULL)
            server->log(server->context, connection->name, &status);
    }
    if (connection->before == NULL)
        server->connections = connection->next;
    else
        connection->before->next = connection->next;
    if (connection->next != NULL)
        connection->next->before = connection->before;
    reconnect_link_free(connection->link);
    free(connection->stream.chunk);
    free(connection);
}

static void hang_up(struct connection *connection)
{
    if (connection->stream.closing)
        return;
    connection->stream.closing = true;
    uv_close(&connection->stream.uv.handle, on_closed);
}

static void on_written(uv_write_t *write, int error)
{
    struct connection *connection = (struct connection *)(void *)write->handle;
    free(connection->stream.chunk);
    connection->stream.chunk = NULL;
    if (error != 0)
        hang_up(connection);
    else
        pump(connection);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct connection *connection = (struct connection *)(void *)stream;
    if (size < 0) {
        hang_up(connection);
        return;
    }
    if (reconnect_link_input(connection->link, stream_now_us(),
                             kv_bytes(buffer->base, (size_t)size), NULL) != KV_OK) {
        /* the link says why, and is over once that is sent */
    }
    pump(connection);
}

static void set_reading(struct connection *connection)
{
    bool hungry = reconnect_link_hungry(connection->link);
    if (hungry == connection->stream.reading)
        return;
    connection->stream.reading = hungry;
    if (!hungry)
        uv_read_stop(&connection->stream.uv.stream);
    else if (uv_read_start(&connection->stream.uv.stream, stream_alloc, on_read) != 0)
        hang_up(connection);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(reconnect_server *server)
{
    int64_t wake = INT64_MAX, now = stream_now_us();
    for (struct connection *at = server->connections; at != NULL; at = at->next) {
        int64_t mine = at->stream.closing ? INT64_MAX : reconnect_link_wake_us(at->link);
        wake = mine < wake ? mine : wake;
    }
    if (wake == INT64_MAX) {
        uv_timer_stop(&server->timer);
        return;
    }
    uint64_t wait_ms = wake <= now ? 1 : (uint64_t)(wake - now + 999) / 1000;
    uv_update_time(&server->loop);
    uv_timer_start(&server->timer, on_timer, wait_ms, 0);
}

static void on_turn(uv_idle_t *idle)
{
    reconnect_server *server = idle->data;
    bool more = false;
    struct connection *next;
    for (struct connection *at = server->connections; at != NULL; at = next) {
        next = at->next;
        if (at->more && !at->stream.closing)
            pump(at);
        more |= at->more;
    }
    if (!more)
        uv_idle_stop(idle);
}

/* Send what there is, up to the end of the turn. */
static void pump(struct connection *connection)
{
    reconnect_server *server = connection->server;
    connection->more = false;
    if (connection->stream.closing)
        return;
    for (int frames = 0; connection->stream.chunk == NULL; frames++) {
        if (frames == TURN_FRAMES) {
            connection->more = true;
            uv_idle_start(&server->turns, on_turn);
            break;
        }
        kv_slice bytes = reconnect_link_output(connection->link, stream_now_us());
        if (bytes.size == 0)
            break;
        size_t sent;
        if (stream_send(&connection->stream, bytes, &sent, on_written) != KV_OK) {
            hang_up(connection);
            return;
        }
        reconnect_link_sent(connection->link, sent);
    }
    if (connection->stream.chunk == NULL && !connection->more &&
        reconnect_link_over(connection->link, NULL)) {
        hang_up(connection);
        return;
    }
    set_reading(connection);
    set_timer(server);
}

static void on_timer(uv_timer_t *timer)
{
    reconnect_server *server = timer->data;
    struct connection *next;
    for (struct connection *at = server->connections; at != NULL; at = next) {
        next = at->next;
        pump(at);
        /* A learner that takes nothing, and so cannot be told that it is late. */
        if (!at->stream.closing && at->stream.chunk != NULL &&
            reconnect_link_wake_us(at->link) <= stream_now_us())
            hang_up(at);
    }
    set_timer(server);
}

/* ---- New ones ----------------------------------------------------------- */

static struct connection *connection_new(reconnect_server *server)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL)
        return NULL;
    connection->server = server;
    connection->next = server->connections;
    if (server->connections != NULL)
        server->connections->before = connection;
    server->connections = connection;
    return connection;
}

static void connection_start(struct connection *connection, const char *name)
{
    reconnect_server *server = connection->server;
    kv_status status = KV_STATUS_INIT;
    snprintf(connection->name, sizeof(connection->name), "%s", name);
    kv_code code =
        reconnect_link_new(server->teacher, stream_now_us(), name, &connection->link, &status);
    if (code != KV_OK) {
        if (server->log != NULL)
            server->log(server->context, name, &status);
        hang_up(connection);
        return;
    }
    pump(connection);
}

static void on_connection(uv_stream_t *listener, int error)
{
    reconnect_server *server = listener->data;
    struct connection *connection = error != 0 ? NULL : connection_new(server);
    if (connection == NULL)
        return;
    uv_tcp_init(&server->loop, &connection->stream.uv.tcp);
    if (uv_accept(listener, &connection->stream.uv.stream) != 0) {
        hang_up(connection);
        return;
    }
    uv_tcp_nodelay(&connection->stream.uv.tcp, 1);
    struct sockaddr_storage from;
    int size = sizeof(from);
    char host[48] = "unknown", name[RECONNECT_PEER_NAME_SIZE];
    unsigned port = 0;
    if (uv_tcp_getpeername(&connection->stream.uv.tcp, (struct sockaddr *)&from, &size) == 0) {
        uv_ip_name((const struct sockaddr *)&from, host, sizeof(host));
        port = ntohs(from.ss_family == AF_INET ? ((struct sockaddr_in *)&from)->sin_port
                                               : ((struct sockaddr_in6 *)&from)->sin6_port);
    }
    snprintf(name, sizeof(name), "%s:%u", host, port);
    connection_start(connection, name);
}

static void adopt(reconnect_server *server, int fd)
{
    char name[RECONNECT_PEER_NAME_SIZE];
    struct connection *connection = connection_new(server);
    if (connection == NULL) {
        close(fd);
        return;
    }
    snprintf(name, sizeof(name), "socket %d", fd);
    if (stream_adopt(&server->loop, &connection->stream, fd, NULL) != KV_OK) {
        close(fd);
        hang_up(connection);
        return;
    }
    connection_start(connection, name);
}

static void on_wake(uv_async_t *async)
{
    reconnect_server *server = async->data;
    uv_mutex_lock(&server->lock);
    bool stop = server->stop;
    struct adopted *adopted = server->adopted;
    server->adopted = NULL;
    uv_mutex_unlock(&server->lock);
    while (adopted != NULL) {
        struct adopted *next = adopted->next;
        if (stop)
            close(adopted->fd);
        else
            adopt(server, adopted->fd);
        free(adopted);
        adopted = next;
    }
    if (!stop)
        return;
    for (struct connection *at = server->connections; at != NULL; at = at->next)
        hang_up(at);
    if (server->listening)
        uv_close((uv_handle_t *)&server->listener, NULL);
    uv_close((uv_handle_t *)&server->wake, NULL);
    uv_close((uv_handle_t *)&server->timer, NULL);
    uv_close((uv_handle_t *)&server->turns, NULL);
}

/* ---- The thread --------------------------------------------------------- */

static void run(void *context)
{
    reconnect_server *server = context;
    sigset_t before;
    stream_block_pipe(&before);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    stream_unblock_pipe(&before);
}

static kv_code listen_at(reconnect_server *server, const char *address, kv_status *status)
{
    char host[256], port[16];
    kv_code code = stream_address(address, host, port, status);
    if (code != KV_OK)
        return code;
    uv_getaddrinfo_t request;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    int error = uv_getaddrinfo(&server->loop, &request, NULL, host, port, &hints);
    if (error != 0)
        return kv_fail(status, KV_INVALID, "%s: %s", address, uv_strerror(error));
    uv_tcp_init(&server->loop, &server->listener);
    server->listener.data = server;
    server->listening = true;
    error = uv_tcp_bind(&server->listener, request.addrinfo->ai_addr, 0);
    uv_freeaddrinfo(request.addrinfo);
    if (error == 0)
        error = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    struct sockaddr_storage bound;
    int size = sizeof(bound);
    if (error == 0)
        error = uv_tcp_getsockname(&server->listener, (struct sockaddr *)&bound, &size);
    if (error != 0)
        return kv_fail(status, KV_IO, "%s: %s", address, uv_strerror(error));
    server->port =
        ntohs(bound.ss_family == AF_INET ? ((struct sockaddr_in *)&bound)->sin_port
                                         : ((struct sockaddr_in6 *)&bound)->sin6_port);
    return KV_OK;
}

kv_code reconnect_server_start(state *from, const reconnect_settings *settings,
                               const char *address, reconnect_log log, void *context,
                               reconnect_server **out, kv_status *status)
{
    *out = NULL;
    reconnect_server *server = calloc(1, sizeof(*server));
    if (server == NULL || uv_loop_init(&server->loop) != 0) {
        free(server);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a server");
    }
    server->log = log;
    server->context = context;
    uv_mutex_init(&server->lock);
    uv_async_init(&server->loop, &server->wake, on_wake);
    uv_timer_init(&server->loop, &server->timer);
    uv_idle_init(&server->loop, &server->turns);
    server->wake.data = server->timer.data = server->turns.data = server;
    kv_code code = reconnect_teacher_new(from, settings, &server->teacher, status);
    if (code == KV_OK && address != NULL)
        code = listen_at(server, address, status);
    if (code == KV_OK && uv_thread_create(&server->thread, run, server) != 0)
        code = kv_fail(status, KV_NO_MEMORY, "no thread for a server");
    if (code == KV_OK) {
        *out = server;
        return KV_OK;
    }
    server->stop = true;
    on_wake(&server->wake);
    run(server);
    uv_loop_close(&server->loop);
    uv_mutex_destroy(&server->lock);
    reconnect_teacher_free(server->teacher);
    free(server);
    return code;
}

unsigned reconnect_server_port(const reconnect_server *server)
{
    return server->port;
}

kv_code reconnect_server_adopt(reconnect_server *server, int fd, kv_status *status)
{
    struct adopted *adopted = malloc(sizeof(*adopted));
    if (adopted == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a connection");
    adopted->fd = fd;
    uv_mutex_lock(&server->lock);
    adopted->next = server->adopted;
    server->adopted = adopted;
    uv_mutex_unlock(&server->lock);
    uv_async_send(&server->wake);
    return KV_OK;
}

void reconnect_server_stop(reconnect_server *server, reconnect_teacher_figures *figures)
{
    if (server == NULL)
        return;
    uv_mutex_lock(&server->lock);
    server->stop = true;
    uv_mutex_unlock(&server->lock);
    uv_async_send(&server->wake);
    uv_thread_join(&server->thread);
    uv_loop_close(&server->loop);
    uv_mutex_destroy(&server->lock);
    if (figures != NULL)
        reconnect_teacher_measure(server->teacher, figures);
    reconnect_teacher_free(server->teacher);
    free(server);
}
