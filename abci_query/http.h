/*
 * http.h - one side of HTTP/1.1 connections that answer requests, and the
 * WebSockets they turn into: bytes in, bytes out, no sockets and no clock.
 *
 * http-parser is used here and nowhere else on the server's side, so that
 * llhttp can take its place. Framing that is unsure (two lengths, a length and
 * chunks, a space in a header's name) ends the connection.
 */
#ifndef ABCI_QUERY_HTTP_H
#define ABCI_QUERY_HTTP_H

#include "abci_query/buffer.h"
#include "abci_query/counter.h"
#include "abci_query/websocket.h"

#include <http_parser.h>
#include <zlib.h>

enum query_http_header {
    QUERY_HTTP_HOST,
    QUERY_HTTP_ORIGIN,
    QUERY_HTTP_ACCEPT_ENCODING,
    QUERY_HTTP_EXPECT,
    QUERY_HTTP_UPGRADE,
    QUERY_HTTP_WEBSOCKET_KEY,
    QUERY_HTTP_WEBSOCKET_VERSION,
    QUERY_HTTP_REQUEST_METHOD, /* Access-Control-Request-Method */
    QUERY_HTTP_CONTENT_ENCODING,
    QUERY_HTTP_HEADERS /* how many are looked at */
};

struct query_http_limits {
    size_t header_size; /* bytes of a request line and its headers */
    size_t header_count;
    size_t body_size;
    size_t gzip_size; /* answers from here on are compressed when asked for */
};

/* A request, whole. Slices last until the handler returns. */
struct query_http_request {
    bool get, post; /* HEAD is a get */
    kv_slice path;  /* as sent, without what follows the question mark */
    kv_slice parameters;
    kv_slice body; /* QUERY_BUFFER_PADDING bytes after it are readable */
    kv_slice headers[QUERY_HTTP_HEADERS];
};

struct query_http_answer {
    unsigned status;
    const char *content_type; /* NULL: none */
    const char *extra;        /* whole header lines, or NULL */
    bool cacheable;
    bool upgrade; /* become a WebSocket; the request asked for it */
    struct query_buffer *body;
};

/* A request and its answer, for recordings. */
struct query_http_recorded {
    const char *method;
    kv_slice url;
    const struct query_http_request *request;
    kv_slice answer; /* as on the wire */
    int64_t latency_ns;
};

/* What is behind the connections. */
struct query_http_handler {
    void *context;
    void (*answer)(void *context, const struct query_http_request *request,
                   struct query_http_answer *answer);
    /* A WebSocket's message; the answer goes to `out` (empty: none). `owner` is the
     * connection's. NULL: no WebSockets. */
    void (*message)(void *context, void *owner, kv_slice message, struct query_buffer *out);
    /* Sees each request and its answer; may be NULL. */
    void (*record)(void *context, const struct query_http_recorded *what);
    void *record_context;
};

/* Counted by one thread, read by others. */
struct query_http_counts {
    query_counter requests;
    query_counter refused;     /* bad framing, too large, no such method */
    query_counter statuses[6]; /* by hundreds */
    query_counter messages;    /* of WebSockets */
};

/* What the connections of one thread share. */
struct query_http {
    struct query_http_limits limits;
    struct query_http_handler handler;
    const char *cors_origins; /* comma list, "*" for any, or "" */
    bool draining;            /* answers close their connections */
    struct query_buffer body; /* the answer being written */
    struct query_buffer packed;
    z_stream gzip;
    bool gzip_ready;
    int64_t now;          /* seconds; the transport keeps it */
    int64_t headers_time; /* `now` of what stands in `headers` */
    size_t headers_size;
    char headers[128]; /* X-Server-Time and Date */
    struct query_http_counts counts;
};

enum query_http_phase {
    QUERY_HTTP_IDLE,    /* nothing of a request has come */
    QUERY_HTTP_HEADING, /* its head is coming */
    QUERY_HTTP_BODY,    /* its body is coming */
    QUERY_HTTP_SOCKET,  /* it is a WebSocket */
    QUERY_HTTP_CLOSING  /* the last answer is written: send it and close */
};

struct query_http_text {
    size_t offset, size;
};

/* One connection. */
struct query_http_conn {
    struct query_http *http;
    void *owner; /* whoever feeds it */
    http_parser parser;
    enum query_http_phase phase;
    unsigned phases; /* goes up with every phase begun */
    bool served;     /* at least one answer was written */
    bool keep_alive, continue_due, http11, too_large;
    unsigned fault; /* an HTTP status to refuse with, found in a callback */
    const char *fault_text;
    size_t head_size, head_count;
    char name[40];
    size_t name_size;
    bool in_value;
    int header;               /* being read, or -1 */
    struct query_buffer head; /* the URL, then header values */
    struct query_http_text url, headers[QUERY_HTTP_HEADERS];
    struct query_buffer body;  /* gathered, when it did not come in one piece */
    kv_slice whole;            /* the body, when it did */
    const char *begin;         /* where the request being fed began, or NULL: unknown */
    struct query_buffer seen;  /* the last head as it came, of a plain POST; or empty */
    size_t seen_body;          /* and its body's length */
    struct query_websocket ws; /* in phase SOCKET */
    struct query_buffer *out;  /* during feed */
};

KV_MUST_CHECK kv_code query_http_init(struct query_http *http, kv_status *status);
void query_http_clear(struct query_http *http);

void query_http_conn_init(struct query_http_conn *conn, struct query_http *http, void *owner);
void query_http_conn_clear(struct query_http_conn *conn);

/* Output beyond which feed pauses before the next request. */
enum { QUERY_HTTP_OUT_PAUSE = 32 << 10 };

/*
 * Take bytes that arrived and append answers to `out`. After data[size]
 * QUERY_BUFFER_PADDING bytes must be readable. Returns how many were taken: fewer than
 * `size` when `out` grew long, and then the rest is to be fed again once it is
 * sent. In phase CLOSING everything is taken and dropped.
 */
size_t query_http_feed(struct query_http_conn *conn, const char *data, size_t size,
                       struct query_buffer *out);

/* The peer will send no more: close after what is in `out`. */
void query_http_end(struct query_http_conn *conn);

/* A whole refusal, for those turned away before they can ask. */
void query_http_refuse(struct query_http *http, unsigned status, const char *text,
                       struct query_buffer *out);

#endif /* ABCI_QUERY_HTTP_H */
