/* service.c - paths, methods and subscriptions of one thread. */
#include "abci_query/service.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- Subscriptions ------------------------------------------------------ */

/* True for tm.event='NewBlockHeader', whatever its quotes and the spaces between its words. */
static bool is_new_header(kv_slice query)
{
    static const char want[] = "tm.event='NewBlockHeader'";
    const size_t sign = strlen("tm.event");
    const char *in = query.data;
    size_t at = 0;
    for (size_t i = 0; i < query.size; i++) {
        char c = (char)(in[i] == '"' ? '\'' : in[i]);
        bool between = at == 0 || at == sign || at == sign + 1 || at == sizeof(want) - 1;
        if (between && isspace((unsigned char)c))
            continue;
        if (at >= sizeof(want) - 1 || want[at] != c)
            return false;
        at++;
    }
    return at == sizeof(want) - 1;
}

static struct query_subscription *find(const struct query_subscriber *subscriber,
                                       kv_slice query)
{
    for (size_t i = 0; i < subscriber->count; i++)
        if (subscriber->list[i].query_size == query.size &&
            memcmp(subscriber->list[i].query, query.data, query.size) == 0)
            return &subscriber->list[i];
    return NULL;
}

static kv_code subscribe(void *connection, kv_slice query, kv_slice id, kv_status *status)
{
    struct query_subscriber *subscriber = connection;
    if (query.size > QUERY_SUBSCRIPTION_TEXT_MAX || id.size > QUERY_SUBSCRIPTION_TEXT_MAX)
        return kv_fail(status, KV_TOO_BIG, "maximum query length exceeded");
    if (!is_new_header(query))
        return kv_fail(
            status, KV_INVALID,
            "only tm.event='NewBlockHeader' can be subscribed to, which tells of each new "
            "version: there are no blocks and no transactions here");
    if (find(subscriber, query) != NULL)
        return kv_fail(status, KV_INVALID, "already subscribed");
    if (subscriber->count == QUERY_SUBSCRIPTIONS_MAX)
        return kv_fail(status, KV_INVALID, "max_subscriptions_per_client %d reached",
                       QUERY_SUBSCRIPTIONS_MAX);
    if (subscriber->list == NULL)
        subscriber->list = calloc(QUERY_SUBSCRIPTIONS_MAX, sizeof(*subscriber->list));
    if (subscriber->list == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a subscription");

    struct query_subscription *entry = &subscriber->list[subscriber->count++];
    memcpy(entry->query, query.data, query.size);
    memcpy(entry->id, id.data, id.size);
    entry->query_size = query.size;
    entry->id_size = id.size;
    return KV_OK;
}

/* An empty query means all. */
static kv_code unsubscribe(void *connection, kv_slice query, kv_status *status)
{
    struct query_subscriber *subscriber = connection;
    if (query.size == 0 && subscriber->count > 0) {
        subscriber->count = 0;
        return KV_OK;
    }
    struct query_subscription *entry = query.size == 0 ? NULL : find(subscriber, query);
    if (entry == NULL)
        return kv_fail(status, KV_INVALID, "subscription not found");
    *entry = subscriber->list[--subscriber->count];
    return KV_OK;
}

static const struct query_subscriptions subscriptions = { subscribe, unsubscribe };

void query_subscriber_clear(struct query_subscriber *subscriber)
{
    free(subscriber->list);
    *subscriber = (struct query_subscriber){ 0, NULL };
}

bool query_service_refresh(struct query_service *service)
{
    query_node_refresh(&service->node);
    return service->node.newest != service->told;
}

void query_service_tell(struct query_service *service,
                        const struct query_subscriber *subscriber, struct query_buffer *out)
{
    struct query_buffer event = QUERY_BUFFER_INIT;
    uint64_t newest = service->node.newest, first = service->told + 1;
    if (first > newest || newest - first >= QUERY_SUBSCRIPTION_HEADERS_MAX)
        first = newest; /* went back, or far ahead: the newest alone */
    if (first < service->node.oldest)
        first = service->node.oldest;
    for (uint64_t version = first; version <= newest; version++)
        for (size_t i = 0; i < subscriber->count; i++) {
            const struct query_subscription *entry = &subscriber->list[i];
            event.size = 0;
            if (query_node_event(&service->node, version, kv_bytes(entry->id, entry->id_size),
                                 kv_bytes(entry->query, entry->query_size), &event,
                                 NULL) == KV_OK)
                query_websocket_frame(out, QUERY_WEBSOCKET_TEXT,
                                      kv_bytes(event.data, event.size));
        }
    query_buffer_clear(&event);
}

void query_service_told(struct query_service *service)
{
    service->told = service->node.newest;
}

/* ---- Requests ----------------------------------------------------------- */

static bool path_is(kv_slice path, const char *want)
{
    return path.size == strlen(want) && memcmp(path.data, want, path.size) == 0;
}

static void not_found(struct query_http_answer *answer)
{
    answer->status = 404;
    answer->content_type = "text/plain; charset=utf-8";
    answer->extra = "X-Content-Type-Options: nosniff\r\n";
    query_buffer_literal(answer->body, "404 page not found\n");
}

static void answer_socket(const struct query_http_request *request,
                          struct query_http_answer *answer)
{
    kv_slice upgrade = request->headers[QUERY_HTTP_UPGRADE];
    if (request->get && upgrade.size > 0 &&
        path_is(request->headers[QUERY_HTTP_WEBSOCKET_VERSION], "13") &&
        request->headers[QUERY_HTTP_WEBSOCKET_KEY].size == 24) {
        answer->upgrade = true;
        return;
    }
    answer->status = 400;
    answer->content_type = "text/plain; charset=utf-8";
    answer->extra = "Sec-WebSocket-Version: 13\r\n";
    query_buffer_literal(answer->body, "Bad Request: this path is for WebSockets\n");
}

static void answer(void *context, const struct query_http_request *request,
                   struct query_http_answer *out)
{
    struct query_service *service = context;
    struct query_rpc_reply reply;
    kv_slice path = request->path;
    const char *text = path.data;

    if (path.size >= 3 && memcmp(text, "/v1", 3) == 0 && (path.size == 3 || text[3] == '/')) {
        path = path.size == 3 ? kv_text("/") : kv_bytes(text + 3, path.size - 3);
        text = path.data;
    }
    if (path_is(path, "/")) {
        query_rpc_post(&service->rpc, request->body, request->headers[QUERY_HTTP_HOST],
                       out->body, &reply);
    } else if (path_is(path, "/websocket")) {
        answer_socket(request, out);
        return;
    } else if (path.size < 2 || text[0] != '/' ||
               query_rpc_uri(&service->rpc, kv_bytes(text + 1, path.size - 1),
                             request->parameters, out->body, &reply) != KV_OK) {
        not_found(out);
        return;
    }
    out->status = reply.http_status;
    out->content_type = reply.content_type;
    out->cacheable = reply.cacheable;
}

static void message(void *context, void *owner, kv_slice text, struct query_buffer *out)
{
    struct query_service *service = context;
    query_rpc_message(&service->rpc, text, owner, out);
}

kv_code query_service_init(struct query_service *service, const query_app *app,
                           const struct query_chain *chain, size_t cache_size,
                           const struct query_http_limits *http_limits,
                           const struct query_rpc_limits *rpc_limits, kv_status *status)
{
    *service = (struct query_service){ 0 };
    service->http.limits = *http_limits;
    service->http.handler.context = service;
    service->http.handler.answer = answer;
    service->http.handler.message = message;
    kv_code code = query_http_init(&service->http, status);
    if (code == KV_OK)
        code = query_rpc_init(&service->rpc, query_node_routes, query_node_route_count,
                              &service->node, rpc_limits, status);
    if (code == KV_OK)
        code = query_node_init(&service->node, app, chain, cache_size, status);
    service->node.subscriptions = &subscriptions;
    query_service_told(service);
    if (code != KV_OK)
        query_service_clear(service);
    return code;
}

void query_service_clear(struct query_service *service)
{
    query_node_clear(&service->node);
    query_rpc_clear(&service->rpc);
    query_http_clear(&service->http);
}
