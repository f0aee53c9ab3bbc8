/*
 * transport.h - reconnect over TCP, or any connected stream socket.
 *
 * The only file of the module with sockets and a clock, on libuv. Nothing is
 * encrypted: where others can listen, use a tunnel (docs/reconnect.md).
 */
#ifndef RECONNECT_TRANSPORT_H
#define RECONNECT_TRANSPORT_H

#include "reconnect/reconnect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Teaching ----------------------------------------------------------- */

typedef struct reconnect_server reconnect_server;

/* What a server tells of its links, from its thread; `status` is KV_OK for one
 * that ended well. */
typedef void (*reconnect_log)(void *context, const char *learner, const kv_status *status);

/*
 * Teach `from` at `address`, "tcp://HOST:PORT" or "HOST:PORT" (port 0: any free
 * one), or with NULL at no address but only over sockets that are given, in a
 * thread of its own. `settings` texts must last. `log` may be NULL.
 */
KV_API KV_MUST_CHECK kv_code reconnect_server_start(state *from,
                                                    const reconnect_settings *settings,
                                                    const char *address, reconnect_log log,
                                                    void *context, reconnect_server **out,
                                                    kv_status *status);
/* The port it listens on. */
KV_API unsigned reconnect_server_port(const reconnect_server *server);
/* Serve a learner over a connected socket, which the server then owns. From any
 * thread. KV_NO_MEMORY: the socket is still the caller's. */
KV_API KV_MUST_CHECK kv_code reconnect_server_adopt(reconnect_server *server, int fd,
                                                    kv_status *status);
/* Cut all links, end the thread and free the server; `figures` may be NULL. */
KV_API void reconnect_server_stop(reconnect_server *server, reconnect_teacher_figures *figures);

/* ---- Learning ----------------------------------------------------------- */

/* A teacher: an address, or where that is NULL a connected socket, owned by
 * reconnect_run from its call on. */
typedef struct reconnect_place {
    const char *address;
    int fd;
} reconnect_place;

typedef struct reconnect_run_report {
    double seconds;        /* from the first connection to the end of the switch */
    double switch_seconds; /* of them */
    uint64_t version;      /* of the state, at the end */
    reconnect_figures figures;
    unsigned peer_count;
    reconnect_peer_figures peers[RECONNECT_PEERS_MAX];
} reconnect_run_report;

/* Called about ten times a second; false gives up. May retarget the learner. */
typedef bool (*reconnect_progress)(void *context, reconnect_learner *learner);

/*
 * Catch up from the teachers at `places` and switch. A connection that is lost
 * is tried again until a few in a row brought nothing, one that lied never.
 * `progress` may be NULL;
 * `report` is filled on failure too. KV_IO: no teacher can be reached.
 */
KV_API KV_MUST_CHECK kv_code reconnect_run(kv_db *db, state *to,
                                           const reconnect_settings *settings,
                                           const reconnect_goal *goal,
                                           const reconnect_place *places, size_t place_count,
                                           reconnect_progress progress, void *context,
                                           reconnect_run_report *report, kv_status *status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RECONNECT_TRANSPORT_H */
