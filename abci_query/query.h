/*
 * query.h - the query service: an HTTP/1.1 server that a CometBFT client cannot
 * tell from a node, for the routes it has (docs/rpc.md lists them all).
 *
 *     kv_options_load("config.toml", tables with &query_option_table, ...)
 *     query_app app = query_app_of_state(state);
 *     query_server_open(options, &app, &server, &status)
 *     ... requests are answered by the server's own threads ...
 *     query_server_close(server)
 *
 * What is served is an application: a table of functions, of which a state is
 * one implementation. Each thread of the server opens its own session of the
 * application, so sessions need no locks; they read views, and never hold up a
 * commit.
 *
 * Conventions are kv.h's.
 */
#ifndef ABCI_QUERY_QUERY_H
#define ABCI_QUERY_QUERY_H

#include "vmap/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Applications ------------------------------------------------------- */

enum { QUERY_LOG_SIZE = 512 };

/* An abci_query as it came. `data` NULL: none was given. */
typedef struct query_request {
    kv_slice path;
    kv_slice data;
    int64_t height; /* 0: the newest */
    bool prove;
} query_request;

/* What an application answers. Comes zeroed; `value` and `proof` are released by
 * the server, the other slices must last as long as the request. */
typedef struct query_answer {
    uint32_t code;         /* 0: good */
    const char *codespace; /* NULL means "" */
    char log[QUERY_LOG_SIZE];
    kv_slice info;
    kv_slice key; /* data NULL: null */
    kv_value value;
    vmap_proof proof; /* count 0: null */
    int64_t height;
} query_answer;

/* What abci_info tells. Slices last until the session's next call. */
typedef struct query_info {
    kv_slice data;
    kv_slice version;
    uint64_t app_version;
    uint64_t height;
    kv_slice app_hash;
} query_info;

/* Every function may be called by many threads, each with its own session. */
typedef struct query_app {
    void *context;
    /* Open a thread's session. */
    kv_code (*open)(void *context, void **session, kv_status *status);
    void (*close)(void *session);
    /* The oldest and newest version that can be asked for. Called for every
     * request and several times a second besides: the session moves on here.
     * True when it did, so that what it answered before may no longer be so. */
    bool (*versions)(void *session, uint64_t *oldest, uint64_t *newest);
    kv_code (*info)(void *session, query_info *out, kv_status *status);
    /* A fault (not KV_OK) is an internal error of the JSON-RPC call; anything
     * else, bad paths included, is an answer with a code. */
    kv_code (*query)(void *session, const query_request *request, query_answer *answer,
                     kv_status *status);
    /* The app hash of a version. KV_TOO_OLD, KV_TOO_NEW. */
    kv_code (*app_hash)(void *session, uint64_t version, vmap_digest *out, kv_status *status);
    /* Visit the application's own figures, for /metrics; NULL: it has none. */
    void (*figures)(void *context, void (*visit)(void *visitor, const kv_stat *stat),
                    void *visitor);
} query_app;

/* Serve `source`, which must outlive the server. Paths as in the Cosmos SDK's
 * multistore: /store/<map>/key, /store/<map>/subspace, /app/version. */
KV_API query_app query_app_of_state(state *source);

/* ---- Beside the process that writes -------------------------------------- */

/*
 * Write what `source` holds as a checkpoint (kv_checkpoint) into the folder `dir`,
 * which is made if it is missing and holds nothing else, and remove all but the
 * newest `keep` >= 1 that no process has open. Call it from the thread that commits,
 * between commits; one process writes to a folder. RocksDB links its tables and
 * is done in milliseconds; the other engines copy everything. KV_BUSY: another
 * writes there just now. A writer killed in the middle leaves no half checkpoint
 * under a name that is read, and the next call removes what is left.
 */
KV_API KV_MUST_CHECK kv_code query_checkpoint_write(state *source, const char *dir, size_t keep,
                                                    kv_status *status);

/* The newest checkpoint of a folder, whoever writes them. */
typedef struct query_checkpoints query_checkpoints;

/*
 * Open the newest checkpoint in the folder that `options` name, for reading, and
 * each newer one within 100 ms of its appearing: sessions move on with their next
 * request, and the older one is closed when the last has. `options` stay the
 * caller's and must outlive it; their db_dir is changed. `failed` (or NULL) is
 * called, by a thread of its own, when a newer one cannot be opened: once for
 * each, and the older one is served on. KV_NOT_FOUND: there is none yet.
 */
KV_API KV_MUST_CHECK kv_code query_checkpoints_open(
    kv_options *options, void (*failed)(void *context, const kv_status *status), void *context,
    query_checkpoints **out, kv_status *status);

/* Serve them. */
KV_API query_app query_app_of_checkpoints(query_checkpoints *checkpoints);

/* After the server that serves them. NULL is harmless. */
KV_API void query_checkpoints_close(query_checkpoints *checkpoints);

/* ---- The server --------------------------------------------------------- */

typedef struct query_server query_server;

/* The options of [query]: laddr, limits, deadlines, threads, cache, ... */
KV_API extern const kv_option_table query_option_table;

/*
 * Bind every address of query.laddr (a list of tcp://HOST:PORT and unix://PATH)
 * and serve `app` from the server's threads. KV_IO names the address that
 * cannot be bound; KV_INVALID names the option at fault.
 */
KV_API KV_MUST_CHECK kv_code query_server_open(const kv_options *options, const query_app *app,
                                               query_server **out, kv_status *status);

/* Stop accepting, finish what is in flight (for at most query.drain_timeout),
 * close every connection and free the server. NULL is harmless. */
KV_API void query_server_close(query_server *server);

/* Tell the server that the state moved on, so that subscribers hear of it at
 * once; it finds out by itself within 250 ms. Any thread, also a signal handler. */
KV_API void query_server_notify(query_server *server);

/* The address bound by the `index`-th entry of query.laddr, as it was given but
 * with the real port where that was 0; NULL past the last. */
KV_API const char *query_server_address(const query_server *server, size_t index);

/* What standard error is told (query.log_level, query.log_format). */
typedef enum query_log_level {
    QUERY_LOG_NONE,
    QUERY_LOG_ERROR, /* the store failed */
    QUERY_LOG_WARN,  /* clients were turned away */
    QUERY_LOG_INFO,  /* it listens, it ends, the state moved on, a client ran out of time */
    QUERY_LOG_DEBUG  /* every call */
} query_log_level;

/* Write a line to the server's log. Any thread. */
KV_API void query_server_log(query_server *server, query_log_level level, const char *event,
                             const char *why);

/* Visit the server's figures ("requests", "errors", "connections", ...). */
KV_API void query_server_stats(query_server *server,
                               void (*visit)(void *context, const kv_stat *stat),
                               void *context);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ABCI_QUERY_QUERY_H */
