/*
 * rpc.h - JSON-RPC 2.0 and the URI form, as CometBFT speaks them: bytes in,
 * bytes out, no sockets. The methods are a table, so that the same code answers
 * for a state, for a test's application, or for any other.
 */
#ifndef ABCI_QUERY_RPC_H
#define ABCI_QUERY_RPC_H

#include "abci_query/buffer.h"
#include "abci_query/counter.h"
#include "abci_query/json.h"

enum {
    QUERY_RPC_ARGS_MAX = 4,
    QUERY_RPC_ROUTES_MAX = 64,
    QUERY_RPC_PARSE = -32700,
    QUERY_RPC_INVALID = -32600,
    QUERY_RPC_NO_METHOD = -32601,
    QUERY_RPC_PARAMS = -32602,
    QUERY_RPC_INTERNAL = -32603
};

enum query_rpc_type {
    QUERY_RPC_TEXT,   /* "text" */
    QUERY_RPC_BYTES,  /* "hex" in JSON-RPC; 0xhex or "characters" in a URI */
    QUERY_RPC_HEIGHT, /* "5" */
    QUERY_RPC_BOOL    /* true */
};

struct query_rpc_arg_spec {
    const char *name;
    enum query_rpc_type type;
};

/* An argument as decoded; zero when missing or null. */
struct query_rpc_arg {
    bool given;
    bool boolean;
    int64_t integer;
    kv_slice bytes; /* data NULL when missing or null */
};

/* One call, as its handler sees it. */
struct query_rpc_call {
    void *context;    /* struct query_rpc's */
    void *connection; /* who asks, for subscriptions; NULL over HTTP */
    const struct query_rpc_arg *args;
    const char *id; /* the id as JSON; subscriptions repeat it */
    size_t id_size;
    struct query_buffer *out; /* write the result here, one JSON value */
    bool cacheable;           /* set when the answer can never change */
};

enum query_rpc_flags { QUERY_RPC_WEBSOCKET_ONLY = 1u << 0 };

/*
 * A method. The handler writes its result and returns KV_OK; or anything else,
 * and then `status` becomes the data of an internal error and what it wrote is
 * dropped.
 */
struct query_rpc_route {
    const char *name;
    struct query_rpc_arg_spec args[QUERY_RPC_ARGS_MAX];
    size_t arg_count;
    unsigned flags;
    kv_code (*handle)(struct query_rpc_call *call, kv_status *status);
};

struct query_rpc_limits {
    size_t body_size;   /* bytes of one request */
    size_t batch_count; /* requests in a batch; 0: any number */
    size_t depth;       /* nesting of JSON, at most 1024 */
    size_t answer_size; /* bytes of one answer; a batch's sum too */
};

/* Figures, added to by one thread; read by others. */
struct query_rpc_counts {
    query_counter calls, errors, notifications, batches;
};

/* A thread's dispatcher. Init with query_rpc_init; not shared by threads. */
struct query_log;

struct query_rpc {
    const struct query_rpc_route *routes;
    size_t route_count;
    void *context;
    struct query_rpc_limits limits;
    struct query_json_parser *parser;
    struct query_buffer scratch; /* decoded arguments */
    struct query_buffer id;      /* the current id, as JSON */
    struct query_rpc_counts counts;
    struct query_log *log; /* NULL: nothing is told */
};

/* What to send: the body is in `out`, which may be empty. */
struct query_rpc_reply {
    unsigned http_status;
    bool cacheable;
    const char *content_type; /* NULL with an empty body */
};

KV_MUST_CHECK kv_code query_rpc_init(struct query_rpc *rpc,
                                     const struct query_rpc_route *routes, size_t route_count,
                                     void *context, const struct query_rpc_limits *limits,
                                     kv_status *status);
void query_rpc_clear(struct query_rpc *rpc);

/* Answer the body of a request to "/"; QUERY_BUFFER_PADDING bytes after it must be readable.
 * An empty body is a request for the list of methods, with links to `host`. */
void query_rpc_post(struct query_rpc *rpc, kv_slice body, kv_slice host,
                    struct query_buffer *out, struct query_rpc_reply *reply);

/* Answer a URI: `name` without its slash, `parameters` behind the question
 * mark. KV_NOT_FOUND, writing nothing: no such method. */
KV_MUST_CHECK kv_code query_rpc_uri(struct query_rpc *rpc, kv_slice name, kv_slice parameters,
                                    struct query_buffer *out, struct query_rpc_reply *reply);

/* Answer a message of a WebSocket; writes nothing for a notification. */
void query_rpc_message(struct query_rpc *rpc, kv_slice message, void *connection,
                       struct query_buffer *out);

/* One error answer; `id` as JSON (empty: none), `data` NULL for none. */
void query_rpc_error(struct query_buffer *out, kv_slice id, int code, const char *data);

/* ---- Inside the module -------------------------------------------------- */

enum { QUERY_RPC_FAULT_SIZE = 2048 };

const struct query_rpc_route *query_rpc_find(const struct query_rpc *rpc, kv_slice name);

/* Run a method for the current id and fill `reply` as for a URI. */
void query_rpc_run(struct query_rpc *rpc, const struct query_rpc_route *route,
                   const struct query_rpc_arg *args, struct query_buffer *out,
                   struct query_rpc_reply *reply);

/* Where the text of `params` stands: asked for only when a fault quotes it. */
struct query_rpc_source {
    kv_slice request; /* the text of the request */
    size_t index;     /* which of its members `params` is */
};

/* Decode JSON `params` for `route`. False, with `fault` filled, when they do not
 * fit. Decoded bytes live in rpc->scratch until the next decoding. */
bool query_rpc_decode(struct query_rpc *rpc, const struct query_rpc_route *route,
                      const struct query_json *params, const struct query_rpc_source *source,
                      struct query_rpc_arg *args, char *fault);

/* Read the text of a height. */
bool query_rpc_decode_height(kv_slice text, size_t depth_max, struct query_rpc_arg *arg,
                             char *fault);

/* Hex to bytes, after what rpc->scratch holds already and within its capacity. */
bool query_rpc_decode_hex(struct query_rpc *rpc, kv_slice hex, struct query_rpc_arg *arg,
                          char *fault);

#endif /* ABCI_QUERY_RPC_H */
