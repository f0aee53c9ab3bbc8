/*
 * steady.c - the seed's request, asked again and again, allocates nothing.
 *
 *     test_query_steady [REQUESTS]
 *
 * A server over a state in memory and a client of fixed buffers share this process; after a
 * while nothing in it may allocate: not the parser, not the answer, not the loop's ticks.
 */
#include "abci_query/query.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WARM = 2000 };

static atomic_uint_fast64_t allocations;

/* ---- Counting ------------------------------------------------------------ */

#ifdef __SANITIZE_ADDRESS__
#define COUNTED_BY_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COUNTED_BY_SANITIZER 1
#endif
#endif

#ifdef COUNTED_BY_SANITIZER
/* NOLINTNEXTLINE(bugprone-reserved-identifier): the name that the sanitizers give it */
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *,
                                                                  size_t),
                                              void (*free_hook)(const volatile void *));

static void count_allocation(const volatile void *memory, size_t size)
{
    (void)memory;
    (void)size;
    atomic_fetch_add(&allocations, 1);
}

static void count_release(const volatile void *memory)
{
    (void)memory;
}

static void count_all(void)
{
    if (__sanitizer_install_malloc_and_free_hooks(count_allocation, count_release) == 0)
        exit(1);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(memory, size);
}

static void count_all(void)
{
}
#endif

/* ---- Asking -------------------------------------------------------------- */

static void need(kv_code code, const kv_status *status)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "steady: %s\n", status->message);
    exit(1);
}

static state *make_state(kv_db **db)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    kv_status status = KV_STATUS_INIT;
    kv_options *options;
    state *source;
    vmap *map;
    uint64_t version;
    need(kv_options_new("memory", "", tables, &options, &status), &status);
    need(kv_open(options, KV_CREATE, db, &status), &status);
    need(state_open(*db, options, KV_CREATE, &source, &status), &status);
    need(state_map_open(source, "ibc", KV_CREATE, &map, &status), &status);
    need(vmap_put(map, kv_text("clients/07-tendermint-92/clientState"), kv_text("value"),
                  &status),
         &status);
    need(state_commit(source, 0, &version, &status), &status);
    kv_options_free(options);
    return source;
}

static query_server *make_server(state *source)
{
    static const kv_option_table *const tables[] = { &query_option_table, NULL };
    kv_status status = KV_STATUS_INIT;
    kv_options *options;
    query_server *server;
    query_app app = query_app_of_state(source);
    need(kv_options_new("memory", "", tables, &options, &status), &status);
    need(kv_options_set(options, "query.laddr", "tcp://127.0.0.1:0", &status), &status);
    need(query_server_open(options, &app, &server, &status), &status);
    kv_options_free(options);
    return server;
}

static int dial(const query_server *server)
{
    const char *port = strrchr(query_server_address(server, 0), ':') + 1;
    struct sockaddr_in where = { .sin_family = AF_INET };
    where.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&where, sizeof(where)) != 0)
        exit(1);
    return fd;
}

static void ask(int fd, uint64_t count)
{
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"id\":\"2229fc7c-534a-462d-9c90-fefad1726e24\",\"method\":"
        "\"abci_query\",\"params\":{\"path\":\"store/ibc/key\",\"data\":"
        "\"636C69656E74732F30372D74656E6465726D696E742D39322F636C69656E745374617465\","
        "\"prove\":false}}";
    char request[1024], answer[4096];
    int size = snprintf(request, sizeof(request),
                        "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        sizeof(body) - 1, body);
    for (uint64_t i = 0; i < count; i++) {
        if (send(fd, request, (size_t)size, MSG_NOSIGNAL) != size)
            exit(1);
        ssize_t got = recv(fd, answer, sizeof(answer) - 1, 0);
        if (got <= 0)
            exit(1);
        answer[got] = '\0';
        if (strstr(answer, "\"value\":\"dmFsdWU=\"") == NULL) {
            fprintf(stderr, "steady: %s\n", answer);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t requests = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    kv_status status = KV_STATUS_INIT;
    kv_db *db;
    state *source = make_state(&db);
    query_server *server = make_server(source);
    int fd = dial(server);
    count_all();
    ask(fd, WARM);
    uint64_t before = atomic_load(&allocations);
    if (before == 0) {
        fprintf(stderr, "steady: nothing is counted\n");
        return 1;
    }
    ask(fd, requests);
    uint64_t made = atomic_load(&allocations) - before;
    printf("%llu allocations in %llu requests\n", (unsigned long long)made,
           (unsigned long long)requests);
    close(fd);
    query_server_close(server);
    need(state_close(source, &status), &status);
    need(kv_close(db, &status), &status);
    return made == 0 ? 0 : 1;
}
