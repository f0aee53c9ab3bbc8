/* echo.c - the application of the recorded answers, and a connection to it. */
#include "test/abci_query/echo.h"

#include <stdio.h>
#include <stdlib.h>

static kv_code app_open(void *context, void **session, kv_status *status)
{
    (void)status;
    *session = context;
    return KV_OK;
}

static void app_close(void *session)
{
    (void)session;
}

static bool app_versions(void *session, uint64_t *oldest, uint64_t *newest)
{
    *oldest = 1;
    *newest = session == NULL ? 12 : *(uint64_t *)session;
    return false; /* the service compares the newest itself */
}

static kv_code app_info(void *session, query_info *out, kv_status *status)
{
    (void)session;
    (void)status;
    out->data = kv_text("kv");
    out->height = 12;
    out->app_hash = kv_bytes("\x01\x02", 2);
    return KV_OK;
}

static void free_value(kv_value *value)
{
    free(value->owner);
}

static kv_code app_query(void *session, const query_request *request, query_answer *answer,
                         kv_status *status)
{
    (void)session;
    struct query_buffer echo = QUERY_BUFFER_INIT;
    if (request->path.size == 5 && memcmp(request->path.data, "/fail", 5) == 0)
        return kv_fail(status, KV_INTERNAL, "boom");
    query_buffer_slice(&echo, request->path);
    query_buffer_literal(&echo, "|");
    for (size_t i = 0; i < request->data.size; i++)
        query_buffer_format(&echo, "%02x", ((const uint8_t *)request->data.data)[i]);
    query_buffer_format(&echo, "|%lld|%s", (long long)request->height,
                        request->prove ? "true" : "false");
    answer->key = request->data.size == 0 ? kv_bytes(NULL, 0) : request->data;
    answer->value.bytes = kv_bytes(echo.data, echo.size);
    answer->value.owner = echo.data;
    answer->value.release = free_value;
    answer->height = 12;
    return KV_OK;
}

static kv_code app_app_hash(void *session, uint64_t version, vmap_digest *out,
                            kv_status *status)
{
    (void)session;
    (void)version;
    (void)status;
    memset(out, 7, sizeof(*out));
    return KV_OK;
}

query_app echo_app(uint64_t *context)
{
    query_app app = { context,  app_open,  app_close,    app_versions,
                      app_info, app_query, app_app_hash, NULL };
    return app;
}

void echo_start(struct echo *echo)
{
    static query_app app;
    static const struct query_chain chain = { "echo", "echo", "tcp://h:26657", 0, { NULL, 0 } };
    struct query_http_limits http = { 65536, 256, 1000000, 1 << 20 };
    struct query_rpc_limits rpc = { 1000000, 10, 128, 32 << 20 };
    app = echo_app(NULL);
    *echo = (struct echo){ 0 };
    if (query_service_init(&echo->service, &app, &chain, 0, &http, &rpc, NULL) != KV_OK)
        abort();
    query_http_conn_init(&echo->conn, &echo->service.http, &echo->subscriber);
}

void echo_stop(struct echo *echo)
{
    query_http_conn_clear(&echo->conn);
    query_subscriber_clear(&echo->subscriber);
    query_service_clear(&echo->service);
    query_buffer_clear(&echo->in);
    query_buffer_clear(&echo->out);
}

/* Feed until all is taken, as a transport does. */
static void feed(struct echo *echo, const char *data, size_t size)
{
    echo->in.size = echo->out.size = 0;
    query_buffer_add(&echo->in, data, size);
    for (size_t at = 0; at < echo->in.size;) {
        size_t taken =
            query_http_feed(&echo->conn, echo->in.data + at, echo->in.size - at, &echo->out);
        if (taken == 0)
            abort();
        at += taken;
    }
    query_buffer_add(&echo->out, "", 1);
}

const char *echo_feed(struct echo *echo, const char *text)
{
    feed(echo, text, strlen(text));
    return echo->out.data;
}

const char *echo_feed_bytes(struct echo *echo, const char *text, size_t *size)
{
    feed(echo, text, strlen(text));
    *size = echo->out.size - 1;
    return echo->out.data;
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    return end == NULL ? "no answer" : end + 4;
}

const char *echo_post(struct echo *echo, const char *body, size_t size)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    query_buffer_format(&text, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                        size);
    query_buffer_add(&text, body, size);
    feed(echo, text.data, text.size);
    query_buffer_clear(&text);
    return body_of(echo->out.data);
}

const char *echo_get(struct echo *echo, const char *url)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    query_buffer_literal(&text, "GET ");
    query_buffer_text(&text, url);
    query_buffer_literal(&text, " HTTP/1.1\r\nHost: h\r\n\r\n");
    feed(echo, text.data, text.size);
    query_buffer_clear(&text);
    return body_of(echo->out.data);
}
