/* query_server.c - a server in a child process, and its state. */
#include "bench/query_server.h"

#include "abci_query/query.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum { COMMIT_KEYS = 100000, COMMIT = 'c', WARM_PROOFS = 8 };

/* ---- The yardstick ------------------------------------------------------ */

/* One answer to every read: no parsing, no checks, no limits. It is the least that any
 * server over the same sockets does. */
static const char bare_head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                "X-Server-Time: 1700000000\r\n"
                                "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Length: ";
static char bare_answer[2048], bare_input[65536];
static size_t bare_size;

static void bare_closed(uv_handle_t *handle)
{
    free(handle);
}

static void bare_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(bare_input, sizeof(bare_input));
}

static void bare_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    (void)buf;
    uv_buf_t out = uv_buf_init(bare_answer, (unsigned)bare_size);
    if (count == 0)
        return;
    if (count < 0 || uv_try_write(stream, &out, 1) != (int)bare_size)
        uv_close((uv_handle_t *)stream, bare_closed);
}

static void bare_connection(uv_stream_t *server, int fault)
{
    uv_tcp_t *client = fault == 0 ? calloc(1, sizeof(*client)) : NULL;
    if (client == NULL)
        return;
    uv_tcp_init(server->loop, client);
    if (uv_accept(server, (uv_stream_t *)client) != 0) {
        uv_close((uv_handle_t *)client, bare_closed);
        return;
    }
    uv_tcp_nodelay(client, 1);
    uv_read_start((uv_stream_t *)client, bare_alloc, bare_read);
}

/* The body that our server gives to the seed's request, of the same size. */
static void bare_prepare(void)
{
    char body[1024];
    int size = snprintf(body, sizeof(body),
                        "{\"jsonrpc\":\"2.0\",\"id\":\"2229fc7c-534a-462d-9c90-fefad1726e24\","
                        "\"result\":{\"response\":{\"code\":0,\"log\":\"\",\"info\":\"\","
                        "\"index\":\"0\",\"key\":\"%048d\",\"value\":\"%0596d\","
                        "\"proofOps\":null,\"height\":\"12\",\"codespace\":\"\"}}}",
                        0, 0);
    bare_size = (size_t)snprintf(bare_answer, sizeof(bare_answer), "%s%d\r\n\r\n%s", bare_head,
                                 size, body);
}

static void *bare_main(void *context)
{
    uv_run(context, UV_RUN_DEFAULT);
    return NULL;
}

static uint16_t bare_start(void)
{
    static uv_loop_t loop;
    static uv_tcp_t server;
    struct sockaddr_in where;
    struct sockaddr_storage bound;
    int size = sizeof(bound);
    pthread_t thread;
    bare_prepare();
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &server);
    uv_ip4_addr("127.0.0.1", 0, &where);
    if (uv_tcp_bind(&server, (const struct sockaddr *)&where, 0) != 0 ||
        uv_listen((uv_stream_t *)&server, 1024, bare_connection) != 0 ||
        uv_tcp_getsockname(&server, (struct sockaddr *)&bound, &size) != 0 ||
        pthread_create(&thread, NULL, bare_main, &loop) != 0)
        return 0;
    return ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
}

/* ---- Ours --------------------------------------------------------------- */

void query_bench_key(uint64_t index, char out[QUERY_BENCH_KEY_SIZE])
{
    uint64_t random = index;
    for (int i = 0; i < 2; i++) {
        uint64_t word = bench_random(&random);
        memcpy(out + (size_t)8 * (size_t)i, &word, 8);
    }
}

static kv_code fill(state *into, uint64_t keys, kv_status *status)
{
    char key[QUERY_BENCH_KEY_SIZE], value[QUERY_BENCH_VALUE_SIZE];
    uint64_t random = 7, version;
    vmap *map;
    kv_code code = state_map_open(into, "ibc", KV_CREATE, &map, status);
    for (size_t i = 0; i < sizeof(value); i++)
        value[i] = (char)(i % 2 == 0 ? bench_random(&random) : 'v');
    if (code == KV_OK)
        code = vmap_put(map, kv_text(QUERY_BENCH_SEED_KEY), kv_bytes(value, sizeof(value)),
                        status);
    for (uint64_t i = 0; i < keys && code == KV_OK; i++) {
        query_bench_key(i, key);
        memcpy(value, &i, sizeof(i));
        code =
            vmap_put(map, kv_bytes(key, sizeof(key)), kv_bytes(value, sizeof(value)), status);
        if (code == KV_OK && (i + 1) % COMMIT_KEYS == 0)
            code = state_commit(into, 0, &version, status);
    }
    return code == KV_OK ? state_commit(into, KV_SYNC, &version, status) : code;
}

/* Let what the filling left to be done be done, so that no row pays for it. */
static kv_code settle(kv_db *db, state *source, kv_status *status)
{
    kv_space *values;
    kv_code code = state_settle(source, status);
    if (code == KV_OK)
        code = kv_space_open(db, "state.values", 0, &values, status);
    return code == KV_OK ? kv_compact(values, NULL, status) : code;
}

/* Read every key, and prove some of each page: what a server that has run for a while has in
 * its caches, as far as they reach. */
static kv_code warm(state *source, uint64_t keys, kv_status *status)
{
    state_view *view;
    kv_code code = state_view_open(source, 0, &view, status);
    for (uint64_t i = 0; i < keys && code == KV_OK; i++) {
        char key[QUERY_BENCH_KEY_SIZE];
        kv_value value = KV_VALUE_INIT;
        vmap_proof proof = VMAP_PROOF_INIT;
        query_bench_key(i, key);
        kv_slice name = kv_bytes(key, sizeof(key));
        code = i % WARM_PROOFS == 0
                   ? state_view_prove(view, "ibc", name, &value, &proof, status)
                   : state_view_get(view, "ibc", name, &value, status);
        kv_value_release(&value);
        vmap_proof_clear(&proof);
    }
    state_view_close(view);
    return code;
}

/* Give `count` of the keys new values, and commit. */
static kv_code commit(state *source, uint64_t keys, uint64_t count, uint64_t *out_ns,
                      kv_status *status)
{
    static uint64_t random = 11;
    char key[QUERY_BENCH_KEY_SIZE], value[QUERY_BENCH_VALUE_SIZE] = { 0 };
    uint64_t version, start = uv_hrtime();
    vmap *map;
    kv_code code = state_map_open(source, "ibc", 0, &map, status);
    for (uint64_t i = 0; i < count && code == KV_OK; i++) {
        query_bench_key(bench_random_below(&random, keys), key);
        for (size_t at = 0; at < sizeof(value); at += 8)
            snprintf(value + at, sizeof(value) - at, "%07llu",
                     (unsigned long long)bench_random_below(&random, 10000000));
        code =
            vmap_put(map, kv_bytes(key, sizeof(key)), kv_bytes(value, sizeof(value)), status);
    }
    if (code == KV_OK)
        code = state_commit(source, KV_SYNC, &version, status);
    *out_ns = uv_hrtime() - start;
    return code;
}

static kv_code serve(const bench_process *process, uint16_t *port, state **out,
                     kv_status *status)
{
    static const kv_option_table *const own[] = { &query_option_table, NULL };
    char dir[4096], threads[24];
    kv_db *db;
    state *source;
    query_server *server;
    kv_options *options;
    uint64_t keys = bench_number(process, "keys");
    snprintf(dir, sizeof(dir), "%s/query-%llu", process->shared_dir, (unsigned long long)keys);
    kv_code code = bench_open(process, dir, KV_CREATE, &db, status);
    if (code == KV_OK)
        code = state_open(db, process->options, KV_CREATE, &source, status);
    if (code == KV_OK && state_version(source) == 0) {
        code = fill(source, keys, status);
        code = code == KV_OK ? settle(db, source, status) : code;
    }
    const char *workload = process->workload->name;
    if (code == KV_OK &&
        (strncmp(workload, "random", 6) == 0 || strncmp(workload, "writer", 6) == 0))
        code = warm(source, keys, status);
    if (code == KV_OK)
        code = kv_options_new("memory", "", own, &options, status);
    snprintf(threads, sizeof(threads), "%llu",
             (unsigned long long)bench_number(process, "server-threads"));
    if (code == KV_OK)
        code = kv_options_set(options, "query.threads", threads, status);
    if (code == KV_OK)
        code = kv_options_set(options, "query.laddr", "tcp://127.0.0.1:0", status);
    if (code != KV_OK)
        return code;
    *out = source;
    query_app app = query_app_of_state(source);
    code = query_server_open(options, &app, &server, status);
    if (code == KV_OK)
        *port = (uint16_t)strtoul(strrchr(query_server_address(server, 0), ':') + 1, NULL, 10);
    return code;
}

/* Read how many keys to commit, and answer with the time it took; 0: it failed. */
static bool answer_commit(const bench_process *process, state *source, int ask, int tell)
{
    kv_status status = KV_STATUS_INIT;
    uint64_t count, took = 0;
    if (read(ask, &count, sizeof(count)) != sizeof(count))
        return false;
    if (commit(source, bench_number(process, "keys"), count, &took, &status) != KV_OK) {
        fprintf(stderr, "query server: %s\n", status.message);
        took = 0;
    }
    return write(tell, &took, sizeof(took)) == sizeof(took);
}

/* The child: serve, and answer each byte with what was used so far, or with a commit. */
static _Noreturn void child(const bench_process *process, enum query_bench_kind kind, int ask,
                            int tell)
{
    kv_status status = KV_STATUS_INIT;
    uint16_t port = 0;
    state *source = NULL;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kind == QUERY_BENCH_BARE)
        port = bare_start();
    else if (serve(process, &port, &source, &status) != KV_OK)
        fprintf(stderr, "query server: %s\n", status.message);
    if (write(tell, &port, sizeof(port)) != sizeof(port) || port == 0)
        _exit(1);
    while (read(ask, &byte, 1) == 1) {
        struct bench_counts counts;
        if (byte == COMMIT) {
            if (!answer_commit(process, source, ask, tell))
                break;
            continue;
        }
        bench_counters_read(&counts);
        if (write(tell, &counts, sizeof(counts)) != sizeof(counts))
            break;
    }
    _exit(0);
}

/* ---- From the parent ---------------------------------------------------- */

static bool read_all(int fd, void *out, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t count = read(fd, (char *)out + at, size - at);
        if (count <= 0 && !(count < 0 && errno == EINTR))
            return false;
        at += count > 0 ? (size_t)count : 0;
    }
    return true;
}

kv_code query_bench_start(const bench_process *process, enum query_bench_kind kind,
                          struct query_bench_server *out, kv_status *status)
{
    int ask[2], tell[2];
    *out = (struct query_bench_server){ .pid = -1, .ask = -1, .tell = -1 };
    if (pipe(ask) != 0 || pipe(tell) != 0)
        return kv_fail(status, KV_IO, "pipe: %s", strerror(errno));
    out->pid = fork();
    if (out->pid == 0) {
        close(ask[1]);
        close(tell[0]);
        child(process, kind, ask[0], tell[1]);
    }
    close(ask[0]);
    close(tell[1]);
    out->ask = ask[1];
    out->tell = tell[0];
    if (out->pid < 0 || !read_all(out->tell, &out->port, sizeof(out->port)) || out->port == 0)
        return kv_fail(status, KV_INTERNAL, "the server did not start");
    return KV_OK;
}

kv_code query_bench_counts(struct query_bench_server *server, struct bench_counts *out,
                           kv_status *status)
{
    if (write(server->ask, "?", 1) != 1 || !read_all(server->tell, out, sizeof(*out)))
        return kv_fail(status, KV_INTERNAL, "the server is gone");
    return KV_OK;
}

kv_code query_bench_commit(struct query_bench_server *server, uint64_t keys, uint64_t *out_ns,
                           kv_status *status)
{
    const char byte = COMMIT;
    if (write(server->ask, &byte, 1) != 1 ||
        write(server->ask, &keys, sizeof(keys)) != sizeof(keys) ||
        !read_all(server->tell, out_ns, sizeof(*out_ns)) || *out_ns == 0)
        return kv_fail(status, KV_INTERNAL, "the server cannot commit");
    return KV_OK;
}

void query_bench_stop(struct query_bench_server *server)
{
    if (server->ask >= 0)
        close(server->ask);
    if (server->tell >= 0)
        close(server->tell);
    if (server->pid > 0)
        waitpid(server->pid, NULL, 0);
    *server = (struct query_bench_server){ .pid = -1, .ask = -1, .tell = -1 };
}
