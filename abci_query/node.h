/*
 * node.h - the routes of a node over an application: what each method answers.
 * One struct query_node per thread; it is the context of a struct query_rpc.
 */
#ifndef ABCI_QUERY_NODE_H
#define ABCI_QUERY_NODE_H

#include "abci_query/counter.h"
#include "abci_query/query.h"
#include "abci_query/rpc.h"

/* What a node says of itself; shared by threads, never changed. */
struct query_chain {
    const char *chain_id;
    const char *moniker;
    const char *listen_addr;
    int64_t genesis_time; /* seconds since 1970 */
    kv_slice genesis;     /* the genesis file's text, or empty: one is made up */
};

struct query_cache;

/* Who hears of new headers: the websocket side implements it. */
struct query_subscriptions {
    kv_code (*subscribe)(void *connection, kv_slice query, kv_slice id, kv_status *status);
    kv_code (*unsubscribe)(void *connection, kv_slice query, kv_status *status);
};

struct query_node {
    const query_app *app;
    void *session;
    const struct query_chain *chain;
    struct query_cache *cache; /* NULL: none */
    const struct query_subscriptions *subscriptions;
    uint64_t oldest, newest; /* versions, as of the last refresh */
    uint64_t moves;          /* how often it moved on: what was answered before is old */
};

KV_MUST_CHECK kv_code query_node_init(struct query_node *node, const query_app *app,
                                      const struct query_chain *chain, size_t cache_size,
                                      kv_status *status);
void query_node_clear(struct query_node *node);
/* Look where the application stands; true when it moved on. */
bool query_node_refresh(struct query_node *node);

/* Every method, sorted by name. */
extern const struct query_rpc_route query_node_routes[];
extern const size_t query_node_route_count;

/* The event that tells a subscriber of the header after `version`, as a whole
 * answer with the subscription's id. */
kv_code query_node_event(struct query_node *node, uint64_t version, kv_slice id, kv_slice query,
                         struct query_buffer *out, kv_status *status);

/* ---- Inside ------------------------------------------------------------- */

/* The header at `height`, as JSON; KV_INVALID in CometBFT's words when it is
 * out of range. `hash` (may be NULL) receives the header's hash. */
kv_code query_header_write(struct query_node *node, int64_t height, struct query_buffer *out,
                           vmap_digest *hash, kv_status *status);
/* Refuse a height that has no header, in the words light clients look for. */
kv_code query_header_check(const struct query_node *node, int64_t height, kv_status *status);
void query_time_write(struct query_buffer *out, int64_t seconds);

/* ---- Answers kept ------------------------------------------------------- */

/* A table of encoded answers of one moment >= 1, a node's `moves`: hits copy bytes and
 * touch no store. One thread. */
struct query_cache *query_cache_new(size_t size_max);
void query_cache_free(struct query_cache *cache);
uint64_t query_cache_hash(const query_request *request);
/* The answer to `request` at `moment`; empty: not kept. */
kv_slice query_cache_get(struct query_cache *cache, uint64_t hash, uint64_t moment,
                         const query_request *request);
void query_cache_put(struct query_cache *cache, uint64_t hash, uint64_t moment,
                     const query_request *request, kv_slice answer);
struct query_cache_counts {
    query_counter hits, misses, size_bytes;
};
/* NULL without a cache. */
const struct query_cache_counts *query_cache_counts(const struct query_cache *cache);

#endif /* ABCI_QUERY_NODE_H */
