/*
 * service.h - what a thread of the server answers: HTTP paths to JSON-RPC,
 * JSON-RPC to a node's methods, and who hears of new headers. No sockets.
 */
#ifndef ABCI_QUERY_SERVICE_H
#define ABCI_QUERY_SERVICE_H

#include "abci_query/http.h"
#include "abci_query/node.h"

enum {
    QUERY_SUBSCRIPTIONS_MAX = 5,         /* per connection, as in CometBFT */
    QUERY_SUBSCRIPTION_TEXT_MAX = 512,   /* bytes of a query or an id */
    QUERY_SUBSCRIPTION_HEADERS_MAX = 100 /* told of at once when many came */
};

/* One subscription: the texts are the client's. */
struct query_subscription {
    size_t query_size, id_size;
    char query[QUERY_SUBSCRIPTION_TEXT_MAX];
    char id[QUERY_SUBSCRIPTION_TEXT_MAX];
};

/* What a WebSocket connection is subscribed to; the owner of its query_http_conn. */
struct query_subscriber {
    size_t count;
    struct query_subscription *list; /* QUERY_SUBSCRIPTIONS_MAX, made at the first */
};

struct query_service {
    struct query_node node;
    struct query_rpc rpc;
    struct query_http http;
    uint64_t told; /* the newest version subscribers know of */
};

/* `recorder` as in query_http_handler, or NULL. */
KV_MUST_CHECK kv_code query_service_init(struct query_service *service, const query_app *app,
                                         const struct query_chain *chain, size_t cache_size,
                                         const struct query_http_limits *http_limits,
                                         const struct query_rpc_limits *rpc_limits,
                                         kv_status *status);
void query_service_clear(struct query_service *service);

/* Look whether the state moved on; true when there are headers to tell of. */
bool query_service_refresh(struct query_service *service);
/* The frames that tell `subscriber` of every header since the last round. */
void query_service_tell(struct query_service *service,
                        const struct query_subscriber *subscriber, struct query_buffer *out);
/* Every subscriber was told. */
void query_service_told(struct query_service *service);

void query_subscriber_clear(struct query_subscriber *subscriber);

#endif /* ABCI_QUERY_SERVICE_H */
