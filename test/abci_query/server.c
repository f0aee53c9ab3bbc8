/* server.c - the server on real sockets: addresses, deadlines, limits, ends. */
#include "test/abci_query/echo.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define GET "GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
#define HEALTHY "{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":{}}"

static uint64_t version = 12;

/* Open a server with `settings`, pairs of name and value ended by NULL. */
static query_server *serve(const char *const *settings, kv_status *status)
{
    static const kv_option_table *const tables[] = { &query_option_table, NULL };
    kv_options *options = NULL;
    query_server *server = NULL;
    query_app app = echo_app(&version);
    cr_assert_eq(kv_options_new("memory", "", tables, &options, status), KV_OK);
    cr_assert_eq(kv_options_set(options, "query.laddr", "tcp://127.0.0.1:0", status), KV_OK);
    for (; *settings != NULL; settings += 2)
        cr_assert_eq(kv_options_set(options, settings[0], settings[1], status), KV_OK, "%s",
                     status->message);
    if (query_server_open(options, &app, &server, status) != KV_OK)
        server = NULL;
    kv_options_free(options);
    return server;
}

static query_server *must_serve(const char *const *settings)
{
    kv_status status = KV_STATUS_INIT;
    query_server *server = serve(settings, &status);
    cr_assert_not_null(server, "%s", status.message);
    return server;
}

static int try_dial(const char *address)
{
    if (strncmp(address, "unix://", 7) == 0) {
        struct sockaddr_un where = { .sun_family = AF_UNIX };
        snprintf(where.sun_path, sizeof(where.sun_path), "%s", address + 7);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&where, sizeof(where)) == 0)
            return fd;
        close(fd);
        return -1;
    }
    bool six = strchr(address, '[') != NULL;
    in_port_t port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = port };
    struct sockaddr_in6 more = { .sin6_family = AF_INET6, .sin6_port = port };
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    more.sin6_addr = in6addr_loopback;
    int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (connect(fd, six ? (struct sockaddr *)&more : (struct sockaddr *)&four,
                six ? sizeof(more) : sizeof(four)) == 0)
        return fd;
    close(fd);
    return -1;
}

static int dial(const query_server *server)
{
    int fd = try_dial(query_server_address(server, 0));
    cr_assert_geq(fd, 0, "%s: %s", query_server_address(server, 0), strerror(errno));
    return fd;
}

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Read until `want` was seen or the peer closed, for at most `wait_ms`; true if seen. */
static bool hear(int fd, const char *want, int wait_ms, char *out, size_t size)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    size_t at = 0;
    out[0] = '\0';
    while (strstr(out, want) == NULL && at + 1 < size && poll(&poll_fd, 1, wait_ms) == 1) {
        ssize_t count = recv(fd, out + at, size - at - 1, 0);
        if (count <= 0)
            break;
        at += (size_t)count;
        out[at] = '\0';
    }
    return strstr(out, want) != NULL;
}

/* Wait until the peer closed; how long it took in milliseconds, or -1. */
static int64_t wait_closed(int fd, int wait_ms)
{
    struct timespec start, end;
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    char drop[4096];
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &end);
        int64_t elapsed =
            (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
        if (elapsed > wait_ms)
            return -1;
        if (poll(&poll_fd, 1, 50) == 1 && recv(fd, drop, sizeof(drop), 0) <= 0)
            return elapsed;
    }
}

static uint64_t figure;
static const char *figure_name;

static void find_figure(void *context, const kv_stat *stat)
{
    (void)context;
    if (strcmp(stat->name, figure_name) == 0)
        figure = stat->number;
}

static uint64_t stat_of(query_server *server, const char *name)
{
    figure = UINT64_MAX;
    figure_name = name;
    query_server_stats(server, find_figure, NULL);
    return figure;
}

/* ---- Addresses ---------------------------------------------------------- */

Test(server, several_addresses_and_kinds)
{
    char dir[] = "/tmp/statekv-query-XXXXXX", laddr[256], out[4096];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(laddr, sizeof(laddr), "tcp://127.0.0.1:0, tcp://[::1]:0,unix://%s/q.sock", dir);
    const char *settings[] = { "query.laddr", laddr, NULL };
    query_server *server = must_serve(settings);
    for (size_t i = 0; i < 3; i++) {
        int fd = try_dial(query_server_address(server, i));
        cr_assert_geq(fd, 0, "%s", query_server_address(server, i));
        say(fd, GET GET);
        cr_expect(hear(fd, HEALTHY, 2000, out, sizeof(out)), "%s", out);
        close(fd);
    }
    cr_expect_null(query_server_address(server, 3));
    query_server_close(server);
    snprintf(laddr, sizeof(laddr), "%s/q.sock", dir);
    cr_expect_neq(access(laddr, F_OK), 0, "the socket's file is gone");
    rmdir(dir);
}

Test(server, a_taken_port_and_bad_addresses)
{
    const char *none[] = { NULL };
    query_server *first = must_serve(none);
    const char *again[] = { "query.laddr", query_server_address(first, 0), NULL };
    kv_status status = KV_STATUS_INIT;
    cr_expect_null(serve(again, &status));
    cr_expect_eq(status.code, KV_IO);
    cr_expect_not_null(strstr(status.message, query_server_address(first, 0)), "%s",
                       status.message);
    query_server_close(first);

    static const char *const bad[] = { "",          "127.0.0.1:1", "tcp://127.0.0.1",
                                       "tcp://:1x", "http://a:1",  "unix://" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const char *settings[] = { "query.laddr", bad[i], NULL };
        status = (kv_status)KV_STATUS_INIT;
        cr_expect_null(serve(settings, &status), "%s", bad[i]);
        cr_expect_eq(status.code, KV_INVALID, "%s: %s", bad[i], status.message);
    }
}

Test(server, a_stale_socket_file_is_replaced_and_a_live_one_is_not)
{
    char dir[] = "/tmp/statekv-query-XXXXXX", laddr[64];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(laddr, sizeof(laddr), "unix://%s/q.sock", dir);
    const char *settings[] = { "query.laddr", laddr, NULL };
    kv_status status = KV_STATUS_INIT;
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un where = { .sun_family = AF_UNIX };
    snprintf(where.sun_path, sizeof(where.sun_path), "%s", laddr + 7);
    cr_assert_eq(bind(stale, (struct sockaddr *)&where, sizeof(where)), 0);
    close(stale);
    query_server *server = must_serve(settings);
    cr_expect_null(serve(settings, &status));
    cr_expect_eq(status.code, KV_IO);
    int fd = dial(server);
    char out[1024];
    say(fd, GET);
    cr_expect(hear(fd, HEALTHY, 2000, out, sizeof(out)));
    close(fd);
    query_server_close(server);
    rmdir(dir);
}

/* ---- Deadlines, from their start ---------------------------------------- */

Test(server, silence_trickles_and_idleness_end)
{
    const char *settings[] = { "query.header_timeout",
                               "300ms",
                               "query.body_timeout",
                               "300ms",
                               "query.idle_timeout",
                               "300ms",
                               NULL };
    query_server *server = must_serve(settings);
    char out[4096];
    int silent = dial(server), trickle = dial(server), body = dial(server), idle = dial(server);
    say(body, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
    say(idle, GET);
    cr_expect(hear(idle, HEALTHY, 2000, out, sizeof(out)));
    for (int i = 0; i < 20; i++) { /* a byte each 50 ms puts off nothing */
        send(trickle, &GET[i], 1, MSG_NOSIGNAL);
        send(body, "x", 1, MSG_NOSIGNAL);
        usleep(50000);
        if (i == 12)
            cr_expect_geq(stat_of(server, "timed_out"), 4, "%llu",
                          (unsigned long long)stat_of(server, "timed_out"));
    }
    cr_expect_geq(wait_closed(silent, 1000), 0);
    cr_expect(hear(trickle, "408", 1000, out, sizeof(out)) || errno == ECONNRESET);
    cr_expect_geq(wait_closed(body, 1000), 0);
    cr_expect_geq(wait_closed(idle, 1000), 0);
    int more = dial(server);
    say(more, GET);
    cr_expect(hear(more, HEALTHY, 2000, out, sizeof(out)), "others are served");
    close(silent);
    close(trickle);
    close(body);
    close(idle);
    close(more);
    query_server_close(server);
}

Test(server, who_never_reads_is_cut_off)
{
    const char *settings[] = { "query.write_timeout", "300ms", NULL };
    query_server *server = must_serve(settings);
    int fd = dial(server), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    static const char ask[] = "GET /status HTTP/1.1\r\nHost: h\r\n\r\n";
    uint64_t sent = 0;
    for (int i = 0; i < 200000; i++) {
        if (send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) <= 0)
            break;
        sent++;
    }
    cr_expect_gt(sent, 1000);
    for (int i = 0; i < 30 && stat_of(server, "timed_out") == 0; i++)
        usleep(100000);
    cr_expect_eq(stat_of(server, "timed_out"), 1);
    cr_expect_eq(stat_of(server, "connections"), 0);
    close(fd);
    query_server_close(server);
}

/* ---- Limits ------------------------------------------------------------- */

Test(server, too_many_connections_are_told_so)
{
    const char *settings[] = { "query.max_open_connections", "5", NULL };
    query_server *server = must_serve(settings);
    int fds[8];
    char out[4096];
    for (int i = 0; i < 8; i++) {
        fds[i] = dial(server);
        if (i < 5) {
            say(fds[i], GET);
            cr_expect(hear(fds[i], HEALTHY, 2000, out, sizeof(out)));
        } else {
            cr_expect(hear(fds[i], "HTTP/1.1 503", 2000, out, sizeof(out)), "%s", out);
        }
    }
    cr_expect_eq(stat_of(server, "turned_away"), 3);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    usleep(100000);
    int fd = dial(server);
    say(fd, GET);
    cr_expect(hear(fd, HEALTHY, 2000, out, sizeof(out)), "there is room again");
    close(fd);
    query_server_close(server);
}

Test(server, large_answers_come_whole_to_slow_readers)
{
    const char *none[] = { NULL };
    query_server *server = must_serve(none);
    int fd = dial(server);
    struct query_buffer ask = QUERY_BUFFER_INIT;
    query_buffer_literal(&ask, "{\"id\":1,\"method\":\"abci_query\",\"params\":{\"path\":\"");
    for (int i = 0; i < 990000; i++)
        query_buffer_literal(&ask, "p");
    query_buffer_literal(&ask, "\"}}");
    char head[128];
    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
             ask.size);
    query_buffer_add(&ask, "", 1);
    for (int round = 0; round < 3; round++) {
        say(fd, head);
        say(fd, ask.data);
    }
    size_t total = 0, want = 3 * 1320000;
    static char block[65536];
    while (total < want) {
        ssize_t count = recv(fd, block, sizeof(block), 0);
        cr_assert_gt(count, 0);
        total += (size_t)count;
        usleep(1000);
    }
    query_buffer_clear(&ask);
    close(fd);
    query_server_close(server);
}

Test(server, half_closed_clients_get_their_answer)
{
    const char *none[] = { NULL };
    query_server *server = must_serve(none);
    int fd = dial(server);
    char out[4096];
    say(fd, GET GET);
    shutdown(fd, SHUT_WR);
    cr_expect(hear(fd, HEALTHY, 2000, out, sizeof(out)));
    cr_expect_geq(wait_closed(fd, 2000), 0);
    close(fd);
    query_server_close(server);
}

/* ---- Figures, recordings, ends ------------------------------------------ */

Test(server, metrics_at_their_own_address)
{
    const char *settings[] = { "query.metrics_laddr", "tcp://127.0.0.1:0", NULL };
    query_server *server = must_serve(settings);
    int fd = dial(server), metrics = try_dial(query_server_address(server, 1));
    static char out[32768];
    say(fd, GET);
    cr_expect(hear(fd, HEALTHY, 2000, out, sizeof(out)));
    say(metrics, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_expect(hear(metrics, "process_cpu_seconds_total ", 2000, out, sizeof(out)), "%s", out);
    cr_expect_not_null(strstr(out, "\nstatekv_query_requests 1\n"), "%s", out);
    cr_expect_not_null(strstr(out, "statekv_query_latency_seconds_count 1"), "%s", out);
    cr_expect_not_null(strstr(out, "_seconds_bucket{le=\"1.048576\"} 1\n"), "%s", out);
    say(fd, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
    cr_expect(hear(fd, "HTTP/1.1 404", 2000, out, sizeof(out)), "not at the clients' address");
    close(fd);
    close(metrics);
    query_server_close(server);
}

Test(server, recordings_hold_requests_and_answers)
{
    char path[] = "/tmp/statekv-record-XXXXXX", out[4096];
    close(mkstemp(path));
    const char *settings[] = { "query.record", path, NULL };
    query_server *server = must_serve(settings);
    int fd = dial(server);
    say(fd, GET);
    cr_expect(hear(fd, HEALTHY, 2000, out, sizeof(out)));
    close(fd);
    query_server_close(server);
    FILE *file = fopen(path, "rb");
    size_t size = fread(out, 1, sizeof(out) - 1, file);
    out[size] = '\0';
    fclose(file);
    unlink(path);
    cr_expect_eq(strncmp(out, "1 ", 2), 0, "%s", out);
    cr_expect_not_null(strstr(out, "\nGET /health HTTP/1.1\r\nHost: h\r\n\r\n\n\xf0"), "%s",
                       out);
    cr_expect_not_null(strstr(out, "\n2 "), "%s", out);
    cr_expect_not_null(strstr(out, HEALTHY "\n\xf0"), "%s", out);
}

Test(server, ends_at_once_over_idle_connections)
{
    const char *none[] = { NULL };
    query_server *server = must_serve(none);
    char out[4096];
    int idle = dial(server);
    say(idle, GET);
    cr_expect(hear(idle, HEALTHY, 2000, out, sizeof(out)));
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    query_server_close(server);
    clock_gettime(CLOCK_MONOTONIC, &end);
    cr_expect_lt(end.tv_sec - start.tv_sec, 3);
    cr_expect_geq(wait_closed(idle, 1000), 0);
    close(idle);
}

struct closing {
    query_server *server;
};

static void *close_server(void *context)
{
    query_server_close(((struct closing *)context)->server);
    return NULL;
}

Test(server, ends_after_what_is_in_flight)
{
    const char *none[] = { NULL };
    struct closing closing = { must_serve(none) };
    char address[256], out[4096];
    snprintf(address, sizeof(address), "%s", query_server_address(closing.server, 0));
    int fd = dial(closing.server);
    say(fd, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\n\r\n{\"id\":1,");
    usleep(100000);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, close_server, &closing), 0);
    usleep(500000);
    cr_expect_lt(try_dial(address), 0, "nobody new is served");
    say(fd, "\"method\":\"health\"}");
    cr_expect(hear(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 2000, out, sizeof(out)),
              "%s", out);
    cr_expect_not_null(strstr(out, "Connection: close"));
    pthread_join(thread, NULL);
    close(fd);
}
