/*
 * golden.c - requests that CometBFT's own handlers answered, answered here: the
 * same status and body, byte for byte, but for the differences in the table,
 * each of which docs/rpc.md explains.
 */
#include "test/abci_query/echo.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The recorded node had a method we do not have. */
static kv_code handle_block(struct query_rpc_call *call, kv_status *status)
{
    int64_t height = call->args[0].given ? call->args[0].integer : 7;
    if (height > 100)
        return kv_fail(status, KV_TOO_NEW,
                       "height %lld must be less than or equal to the current blockchain "
                       "height 100",
                       (long long)height);
    call->cacheable = call->args[0].given && height != 0;
    query_buffer_format(call->out, "{\"height\":\"%lld\"}", (long long)height);
    return KV_OK;
}

/* ---- Deliberate differences --------------------------------------------- */

#define OK_HEALTH(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define INVALID(id, data)                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":-32600,\"message\":\"Invalid " \
    "Request\",\"data\":\"" data "\"}}"
#define BAD_ID INVALID("null", "the id must be a string, a number or null")
#define NOT_A_REQUEST \
    INVALID("null", "a request is an object with jsonrpc, id, method and params")
#define TOO_MANY(id) INVALID(id, "batch request exceeds maximum (3) allowed number of requests")
#define HEALTH(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"health\"}"

static const struct difference {
    const char *method, *body; /* of requests to "/" */
    unsigned status;
    const char *answer;
} differences[] = {
    /* ids come back digit for digit */
    { "POST", HEALTH("1.9"), 200, OK_HEALTH("1.9") },
    { "POST", HEALTH("-1.9"), 200, OK_HEALTH("-1.9") },
    { "POST", HEALTH("1e3"), 200, OK_HEALTH("1e3") },
    { "POST", HEALTH("12345678901234567890"), 200, OK_HEALTH("12345678901234567890") },
    { "POST", HEALTH("9007199254740993"), 200, OK_HEALTH("9007199254740993") },
    /* a null id is an id */
    { "POST", HEALTH("null"), 200, OK_HEALTH("null") },
    /* JSON that is no request: -32600, not a parse error */
    { "POST", HEALTH("true"), 200, BAD_ID },
    { "POST", HEALTH("{}"), 200, BAD_ID },
    { "POST", HEALTH("[]"), 200, BAD_ID },
    { "POST", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", 200,
      INVALID("1", "the method must be a string") },
    { "POST", "5", 200, NOT_A_REQUEST },
    { "POST", "\"x\"", 200, NOT_A_REQUEST },
    /* batches: an array in, an array out; each element its own fate */
    { "POST", "[]", 200, INVALID("null", "the batch is empty") },
    { "POST", "[1]", 200, "[" NOT_A_REQUEST "]" },
    { "POST", "[" HEALTH("1") "]", 200, "[" OK_HEALTH("1") "]" },
    { "POST", "[{\"jsonrpc\":\"2.0\",\"method\":\"health\"}," HEALTH("\"b\"") "]", 200,
      "[" OK_HEALTH("\"b\"") "]" },
    { "POST", "[" HEALTH("1") "," HEALTH("true") "]", 200, "[" OK_HEALTH("1") "," BAD_ID "]" },
    { "POST",
      "[{\"id\":1,\"method\":\"health\"},{\"id\":2,\"method\":\"health\"},"
      "{\"id\":3,\"method\":\"health\"},{\"id\":4,\"method\":\"health\"}]",
      200, "[" TOO_MANY("1") "," TOO_MANY("2") "," TOO_MANY("3") "," TOO_MANY("4") "]" },
    /* missing params are no params */
    { "POST", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"abci_query\"}", 200,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"response\":{\"code\":0,\"log\":\"\","
      "\"info\":\"\",\"index\":\"0\",\"key\":null,\"value\":\"fHwwfGZhbHNl\","
      "\"proofOps\":null,\"height\":\"12\",\"codespace\":\"\"}}}" },
    /* verbs mean what they say */
    { "PUT", "{\"id\":1,\"method\":\"health\"}", 405, "405 method not allowed\n" },
    { "DELETE", "", 405, "405 method not allowed\n" },
};

/* What must not be kept for ever: what changes, and errors. */
static const char *const uncacheable[] = {
    "{\"id\":1,\"method\":\"abci_info\",\"params\":{}}",
    "{\"id\":1,\"method\":\"block\",\"params\":{\"height\":\"0\"}}",
    "{\"id\":1,\"method\":\"block\",\"params\":{\"height\":\"101\"}}",
};

/* ---- Asking ------------------------------------------------------------- */

struct service {
    struct query_service service;
    struct query_rpc_route routes[5];
};

static const struct query_rpc_route *route(const char *name)
{
    for (size_t i = 0; i < query_node_route_count; i++)
        if (strcmp(query_node_routes[i].name, name) == 0)
            return &query_node_routes[i];
    cr_assert_fail("no route %s", name);
    return NULL;
}

static void start(struct service *service)
{
    static const struct query_chain chain = {
        "golden", "golden", "tcp://host:26657", 0, { NULL, 0 }
    };
    struct query_http_limits http = { 65536, 256, 3000, 1 << 20 };
    struct query_rpc_limits rpc = { 3000, 3, 64, 1 << 20 };
    static query_app app;
    app = echo_app(NULL);
    cr_assert_eq(query_service_init(&service->service, &app, &chain, 0, &http, &rpc, NULL),
                 KV_OK);
    service->routes[0] = *route("abci_info");
    service->routes[1] = *route("abci_query");
    service->routes[2] = (struct query_rpc_route){
        "block", { { "height", QUERY_RPC_HEIGHT } }, 1, 0, handle_block
    };
    service->routes[3] = *route("health");
    service->routes[4] = *route("subscribe");
    service->service.rpc.routes = service->routes;
    service->service.rpc.route_count = 5;
}

static void ask(struct service *service, const char *method, const char *url, const char *body,
                struct query_buffer *out)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    struct query_http_conn conn;
    query_buffer_text(&text, method);
    query_buffer_literal(&text, " ");
    query_buffer_text(&text, url);
    query_buffer_literal(&text, " HTTP/1.1\r\nHost: host:26657\r\nContent-Length: ");
    query_buffer_unsigned(&text, strlen(body));
    query_buffer_literal(&text, "\r\n\r\n");
    query_buffer_text(&text, body);
    query_http_conn_init(&conn, &service->service.http, NULL);
    query_http_feed(&conn, text.data, text.size, out);
    query_http_conn_clear(&conn);
    query_buffer_clear(&text);
    query_buffer_add(out, "", 1);
}

static const char *answer_header(const char *answer, const char *name, char *value, size_t size)
{
    const char *at = strstr(answer, name), *end = strstr(answer, "\r\n\r\n");
    value[0] = '\0';
    if (at != NULL && at < end)
        snprintf(value, size, "%.*s", (int)strcspn(at + strlen(name) + 2, "\r"),
                 at + strlen(name) + 2);
    return value;
}

static const char *text_of(json_t *pair, const char *name)
{
    const char *text = json_string_value(json_object_get(pair, name));
    return text == NULL ? "" : text;
}

/* A refused URI parameter: the recorded text, then our hint. */
static bool is_with_hint(const char *want, const char *got)
{
    size_t size = strlen(want);
    return size > 3 && strstr(want, "converting http params") != NULL &&
           strncmp(want, got, size - 3) == 0 && strstr(got + size - 3, " (parameter ") != NULL;
}

static void check(struct service *service, json_t *pair, size_t index)
{
    const char *method = text_of(pair, "Method"), *url = text_of(pair, "URL");
    const char *body = text_of(pair, "Body"), *want = text_of(pair, "Resp");
    json_t *headers = json_object_get(pair, "Headers");
    unsigned status = (unsigned)json_integer_value(json_object_get(pair, "Status"));
    const char *cache = text_of(headers, "Cache-Control");
    struct query_buffer out = QUERY_BUFFER_INIT;
    char value[256];

    for (size_t i = 0; strcmp(url, "/") == 0 && i < sizeof(differences) / sizeof(*differences);
         i++)
        if (strcmp(differences[i].method, method) == 0 &&
            strcmp(differences[i].body, body) == 0) {
            status = differences[i].status;
            want = differences[i].answer;
        }
    for (size_t i = 0; i < sizeof(uncacheable) / sizeof(*uncacheable); i++)
        if (strcmp(uncacheable[i], body) == 0)
            cache = "";
    if (strcmp(url, "/abci_info") == 0 || strcmp(url, "/block?height=101") == 0)
        cache = "";

    ask(service, method, url, body, &out);
    const char *got = strstr(out.data, "\r\n\r\n");
    cr_assert_not_null(got, "pair %zu: %s", index, out.data);
    got += 4;
    cr_expect_eq((unsigned)strtoul(out.data + 9, NULL, 10), status, "pair %zu %s %s %s: %.12s",
                 index, method, url, body, out.data);
    cr_expect(strcmp(got, want) == 0 || is_with_hint(want, got),
              "pair %zu %s %s %s\n  want %s\n  got  %s", index, method, url, body, want, got);
    cr_expect_str_eq(answer_header(out.data, "Cache-Control", value, sizeof(value)), cache,
                     "pair %zu %s %s", index, url, body);
    if (status < 400 || strcmp(url, "/") != 0 || strcmp(method, "POST") == 0)
        if (want[0] != '\0' && status != 405)
            cr_expect(strcmp(answer_header(out.data, "Content-Type", value, sizeof(value)),
                             text_of(headers, "Content-Type")) == 0 ||
                          text_of(headers, "Content-Type")[0] == '\0',
                      "pair %zu", index);
    query_buffer_clear(&out);
}

Test(golden, every_pair)
{
    static const char *const places[] = { "../shared/data/rpc_golden.json",
                                          "../../shared/data/rpc_golden.json" };
    json_t *pairs = NULL;
    for (size_t i = 0; i < 2 && pairs == NULL; i++)
        pairs = json_load_file(places[i], 0, NULL);
    if (pairs == NULL)
        cr_skip("rpc_golden.json is not beside the project");

    struct service service;
    start(&service);
    cr_assert_geq(json_array_size(pairs), 93);
    for (size_t i = 0; i < json_array_size(pairs); i++)
        check(&service, json_array_get(pairs, i), i);
    query_service_clear(&service.service);
    json_decref(pairs);
}

/* Every row of the table is a request that the recorded node answered otherwise. */
Test(golden, differences_are_answered_as_listed)
{
    struct service service;
    start(&service);
    for (size_t i = 0; i < sizeof(differences) / sizeof(*differences); i++) {
        struct query_buffer out = QUERY_BUFFER_INIT;
        ask(&service, differences[i].method, "/", differences[i].body, &out);
        cr_expect_str_eq(strstr(out.data, "\r\n\r\n") + 4, differences[i].answer, "row %zu", i);
        query_buffer_clear(&out);
    }
    query_service_clear(&service.service);
}
