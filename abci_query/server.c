/* server.c - options to workers, and their threads. */
#include "abci_query/transport.h"

#include "abci_query/log.h"
#include "abci_query/metrics.h"
#include "abci_query/record.h"
#include "abci_query/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    ADDRESSES_MAX = 16,
    ADDRESS_SIZE_MAX = 256,
    THREADS_AUTO_MAX = 8,
    FILES_KEPT = 256, /* descriptors left to the store */
    GENESIS_SIZE_MAX = 1 << 30
};

struct addresses {
    size_t count;
    char list[ADDRESSES_MAX][ADDRESS_SIZE_MAX];
    bool metrics[ADDRESSES_MAX];
    char bound[ADDRESSES_MAX][ADDRESS_SIZE_MAX];
    bool local[ADDRESSES_MAX];
};

struct thread {
    struct query_log *log; /* of the first thread only: it tells of versions */
    struct query_service service;
    struct query_http metrics;
    struct query_worker *worker;
    pthread_t thread;
    bool serving, running;
};

struct query_server {
    query_app app;
    struct query_transport transport;
    struct query_chain chain;
    struct addresses addresses;
    struct query_metrics metrics;
    struct query_log log;
    struct query_recorder *recorder;
    char *chain_id, *moniker, *listen_addr, *genesis, *cors_origins;
    size_t thread_count;
    struct thread *threads;
};

/* ---- Options ------------------------------------------------------------ */

static kv_code add_addresses(struct addresses *addresses, const char *text, bool metrics,
                             kv_status *status)
{
    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        while (size > 0 && *text == ' ') {
            text++;
            size--;
        }
        if (addresses->count == ADDRESSES_MAX || size >= ADDRESS_SIZE_MAX)
            return kv_fail(status, KV_INVALID, "query.laddr: at most %d addresses of %d bytes",
                           ADDRESSES_MAX, ADDRESS_SIZE_MAX - 1);
        if (size > 0) {
            memcpy(addresses->list[addresses->count], text, size);
            addresses->list[addresses->count][size] = '\0';
            addresses->metrics[addresses->count++] = metrics;
        }
        text += size;
        text += *text == ',' ? 1 : 0;
    }
    return KV_OK;
}

/* Raise the limit of open files, and leave some to the store. */
static size_t connections_allowed(size_t wanted)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return wanted;
    if (files.rlim_cur < files.rlim_max && files.rlim_cur < wanted + FILES_KEPT) {
        struct rlimit more = files;
        more.rlim_cur = files.rlim_max < wanted + FILES_KEPT ? files.rlim_max
                                                             : (rlim_t)(wanted + FILES_KEPT);
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            files = more;
    }
    if (files.rlim_cur >= wanted + FILES_KEPT)
        return wanted;
    return files.rlim_cur > 2 * (rlim_t)FILES_KEPT ? (size_t)files.rlim_cur - FILES_KEPT
                                                   : (size_t)files.rlim_cur / 2;
}

static kv_code copy_text(const kv_options *options, const char *name, char **out,
                         kv_status *status)
{
    *out = strdup(kv_options_text(options, name));
    return *out == NULL ? kv_fail(status, KV_NO_MEMORY, "no memory for %s", name) : KV_OK;
}

static kv_code read_genesis(struct query_server *server, const char *path, kv_status *status)
{
    if (path[0] == '\0')
        return KV_OK;
    struct query_buffer text = QUERY_BUFFER_INIT;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return kv_fail(status, KV_IO, "query.genesis_file %s: %s", path, strerror(errno));
    char block[65536];
    for (size_t n;
         (n = fread(block, 1, sizeof(block), file)) > 0 && text.size < GENESIS_SIZE_MAX;)
        query_buffer_add(&text, block, n);
    bool read = ferror(file) == 0 && !text.failed;
    fclose(file);

    struct query_json_parser *parser = NULL;
    struct query_json root;
    kv_code code = KV_OK;
    if (!read)
        code = kv_fail(status, KV_IO, "query.genesis_file %s cannot be read", path);
    else if (query_json_parser_new(text.size + 1, 512, &parser) != KV_OK)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for query.genesis_file %s", path);
    else if (query_json_parse(parser, kv_bytes(text.data, text.size), &root) != KV_OK ||
             root.type != QUERY_JSON_OBJECT)
        code = kv_fail(status, KV_INVALID, "query.genesis_file %s is no JSON object", path);
    query_json_parser_free(parser);
    if (code != KV_OK) {
        query_buffer_clear(&text);
        return code;
    }
    server->genesis = text.data;
    server->chain.genesis = kv_bytes(text.data, text.size);
    return KV_OK;
}

static kv_code read_chain(struct query_server *server, const kv_options *options,
                          kv_status *status)
{
    kv_code code = copy_text(options, "query.chain_id", &server->chain_id, status);
    if (code == KV_OK)
        code = copy_text(options, "query.moniker", &server->moniker, status);
    if (code == KV_OK)
        code = copy_text(options, "query.cors_origins", &server->cors_origins, status);
    if (code != KV_OK)
        return code;
    if (server->chain_id[0] == '\0' || strlen(server->chain_id) > 50 ||
        server->moniker[0] == '\0')
        return kv_fail(status, KV_INVALID,
                       "query.chain_id has 1 to 50 bytes and query.moniker at least 1");
    server->chain.chain_id = server->chain_id;
    server->chain.moniker = server->moniker;
    server->chain.genesis_time = (int64_t)kv_options_number(options, "query.genesis_time");
    return read_genesis(server, kv_options_text(options, "query.genesis_file"), status);
}

static kv_code read_transport(struct query_server *server, const kv_options *options,
                              kv_status *status)
{
    struct query_transport *transport = &server->transport;
    const char *cert = kv_options_text(options, "query.tls_cert");
    const char *key = kv_options_text(options, "query.tls_key");
    transport->timeouts = (struct query_timeouts){
        .header_ms = kv_options_number(options, "query.header_timeout"),
        .body_ms = kv_options_number(options, "query.body_timeout"),
        .write_ms = kv_options_number(options, "query.write_timeout"),
        .idle_ms = kv_options_number(options, "query.idle_timeout"),
        .drain_ms = kv_options_number(options, "query.drain_timeout"),
    };
    transport->connections_max =
        connections_allowed((size_t)kv_options_number(options, "query.max_open_connections"));
    if ((cert[0] == '\0') != (key[0] == '\0'))
        return kv_fail(status, KV_INVALID, "query.tls_cert and query.tls_key go together");
    kv_code code = cert[0] == '\0' ? KV_OK : query_tls_new(cert, key, &transport->tls, status);
    if (code == KV_OK)
        code = add_addresses(&server->addresses, kv_options_text(options, "query.laddr"), false,
                             status);
    if (code == KV_OK && server->addresses.count == 0)
        code = kv_fail(status, KV_INVALID, "query.laddr names no address to serve");
    if (code == KV_OK)
        code = add_addresses(&server->addresses,
                             kv_options_text(options, "query.metrics_laddr"), true, status);
    return code;
}

/* ---- Sockets ------------------------------------------------------------ */

/* Bind every address once, alone: a port that is taken shows here, and port 0
 * becomes a real one. */
static kv_code probe_addresses(struct query_server *server, kv_status *status)
{
    struct addresses *addresses = &server->addresses;
    for (size_t i = 0; i < addresses->count; i++) {
        struct query_listener listener;
        kv_code code = query_listener_bind(addresses->list[i], false, &listener, status);
        if (code != KV_OK)
            return code;
        addresses->local[i] = listener.local;
        snprintf(addresses->bound[i], ADDRESS_SIZE_MAX, "%s", listener.name);
        query_listener_close(&listener, true);
    }
    server->listen_addr = strdup(addresses->bound[0]);
    if (server->listen_addr == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for an address");
    server->chain.listen_addr = server->listen_addr;
    return KV_OK;
}

/* The sockets of one thread. Unix sockets and metrics belong to the first. */
static kv_code bind_thread(struct query_server *server, size_t thread,
                           struct query_listener *listeners, size_t *count, kv_status *status)
{
    const struct addresses *addresses = &server->addresses;
    *count = 0;
    for (size_t i = 0; i < addresses->count; i++) {
        if (thread > 0 && (addresses->local[i] || addresses->metrics[i]))
            continue;
        struct query_listener *listener = &listeners[*count];
        kv_code code = query_listener_bind(addresses->bound[i], true, listener, status);
        if (code != KV_OK)
            return code;
        listener->metrics = addresses->metrics[i];
        (*count)++;
    }
    return KV_OK;
}

/* ---- Threads ------------------------------------------------------------ */

static bool hook_refresh(void *context)
{
    struct thread *thread = context;
    return query_service_refresh(&thread->service);
}

static void hook_tell(void *context, const struct query_subscriber *subscriber,
                      struct query_buffer *out)
{
    struct thread *thread = context;
    query_service_tell(&thread->service, subscriber, out);
}

static void hook_told(void *context)
{
    struct thread *thread = context;
    const struct query_node *node = &thread->service.node;
    struct query_log_field fields[] = { { "version", NULL, node->newest },
                                        { "version_oldest", NULL, node->oldest } };
    query_service_told(&thread->service);
    query_log_event(thread->log, QUERY_LOG_INFO, "version", fields, 2);
}

static kv_code open_thread(struct query_server *server, size_t index, const kv_options *options,
                           kv_status *status)
{
    struct thread *thread = &server->threads[index];
    struct query_http_limits http = {
        .header_size = (size_t)kv_options_number(options, "query.max_header_size"),
        .header_count = (size_t)kv_options_number(options, "query.max_header_count"),
        .body_size = (size_t)kv_options_number(options, "query.max_body_size"),
        .gzip_size = (size_t)kv_options_number(options, "query.gzip_min_size"),
    };
    struct query_rpc_limits rpc = {
        .body_size = http.body_size,
        .batch_count = (size_t)kv_options_number(options, "query.max_batch_count"),
        .depth = (size_t)kv_options_number(options, "query.max_depth"),
        .answer_size = (size_t)kv_options_number(options, "query.max_answer_size"),
    };
    size_t cache =
        (size_t)kv_options_number(options, "query.cache_size") / server->thread_count;
    kv_code code = query_service_init(&thread->service, &server->app, &server->chain, cache,
                                      &http, &rpc, status);
    if (code != KV_OK)
        return code;
    thread->serving = true;
    thread->service.http.cors_origins = server->cors_origins;
    query_recorder_attach(server->recorder, &thread->service.http);
    thread->metrics.limits = http;
    thread->metrics.handler.context = &server->metrics;
    thread->metrics.handler.answer = query_metrics_answer;
    code = query_http_init(&thread->metrics, status);
    if (code != KV_OK)
        return code;

    thread->log = index == 0 ? &server->log : NULL;
    thread->service.rpc.log = &server->log;
    struct query_worker_hooks hooks = { thread, hook_refresh, hook_tell, hook_told };
    struct query_listener listeners[ADDRESSES_MAX];
    size_t count = 0;
    code = bind_thread(server, index, listeners, &count, status);
    if (code == KV_OK)
        code = query_worker_new(&server->transport, listeners, count, &thread->service.http,
                                &thread->metrics, &hooks, &thread->worker, status);
    for (size_t i = 0; code != KV_OK && i < count; i++)
        query_listener_close(&listeners[i], false);
    server->metrics.services[index] = &thread->service;
    server->metrics.latencies[index] =
        thread->worker == NULL ? NULL : query_worker_latency(thread->worker);
    return code;
}

static void *thread_main(void *context)
{
    struct thread *thread = context;
    query_worker_run(thread->worker);
    return NULL;
}

static size_t thread_count(const kv_options *options)
{
    size_t count = (size_t)kv_options_number(options, "query.threads");
    if (count > 0)
        return count;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > THREADS_AUTO_MAX ? THREADS_AUTO_MAX : (size_t)cores;
}

static kv_code open_all(struct query_server *server, const kv_options *options,
                        kv_status *status)
{
    const char *record = kv_options_text(options, "query.record");
    kv_code code = query_log_init(&server->log, options, status);
    server->transport.log = &server->log;
    if (code == KV_OK)
        code = read_chain(server, options, status);
    if (code == KV_OK)
        code = read_transport(server, options, status);
    if (code == KV_OK)
        code = probe_addresses(server, status);
    if (code == KV_OK && record[0] != '\0')
        code = query_recorder_open(record, &server->recorder, status);
    if (code != KV_OK)
        return code;

    server->thread_count = thread_count(options);
    server->threads = calloc(server->thread_count, sizeof(*server->threads));
    if (server->threads == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for threads");
    server->metrics.transport = &server->transport;
    server->metrics.app = &server->app;
    server->metrics.count = server->thread_count;
    for (size_t i = 0; i < server->thread_count && code == KV_OK; i++)
        code = open_thread(server, i, options, status);
    for (size_t i = 0; i < server->thread_count && code == KV_OK; i++) {
        struct thread *thread = &server->threads[i];
        int fault = pthread_create(&thread->thread, NULL, thread_main, thread);
        thread->running = fault == 0;
        if (fault != 0)
            code = kv_fail(status, KV_INTERNAL, "thread: %s", strerror(fault));
    }
    return code;
}

kv_code query_server_open(const kv_options *options, const query_app *app, query_server **out,
                          kv_status *status)
{
    *out = NULL;
    query_server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a server");
    server->app = *app;
    kv_code code = open_all(server, options, status);
    if (code != KV_OK) {
        query_server_close(server);
        return code;
    }
    for (size_t i = 0; i < server->addresses.count; i++) {
        struct query_log_field address = { "address", server->addresses.bound[i], 0 };
        query_log_event(&server->log, QUERY_LOG_INFO, "listening", &address, 1);
    }
    *out = server;
    return KV_OK;
}

void query_server_close(query_server *server)
{
    if (server == NULL)
        return;
    for (size_t i = 0; i < server->thread_count && server->threads != NULL; i++)
        if (server->threads[i].running)
            query_worker_stop(server->threads[i].worker);
    for (size_t i = 0; i < server->thread_count && server->threads != NULL; i++) {
        struct thread *thread = &server->threads[i];
        if (thread->running)
            pthread_join(thread->thread, NULL);
        query_worker_free(thread->worker);
        query_http_clear(&thread->metrics);
        if (thread->serving)
            query_service_clear(&thread->service);
    }
    query_log_event(&server->log, QUERY_LOG_INFO, "closed", NULL, 0);
    for (size_t i = 0; i < server->addresses.count; i++)
        if (server->addresses.local[i] && server->threads != NULL)
            unlink(server->addresses.bound[i] + strlen("unix://"));
    query_recorder_close(server->recorder);
    query_tls_free(server->transport.tls);
    free(server->threads);
    free(server->chain_id);
    free(server->moniker);
    free(server->listen_addr);
    free(server->genesis);
    free(server->cors_origins);
    free(server);
}

void query_server_notify(query_server *server)
{
    for (size_t i = 0; i < server->thread_count; i++)
        query_worker_notify(server->threads[i].worker);
}

void query_server_log(query_server *server, query_log_level level, const char *event,
                      const char *why)
{
    struct query_log_field field = { "why", why, 0 };
    query_log_event(&server->log, level, event, &field, 1);
}

const char *query_server_address(const query_server *server, size_t index)
{
    return index < server->addresses.count ? server->addresses.bound[index] : NULL;
}

void query_server_stats(query_server *server, void (*visit)(void *context, const kv_stat *stat),
                        void *context)
{
    query_metrics_visit(&server->metrics, visit, context);
}
