/* rpc.c - requests, batches and their answers. */
#include "abci_query/rpc.h"

#include "abci_query/log.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

enum {
    MEMBERS_AT_ONCE = 16,
    SCRATCH_KEEP = 256 << 10, /* bytes a dispatcher keeps between calls */
    ID_KEEP = 4096
};

/* A request as its members say it. */
struct request {
    bool has_id, has_method, has_params;
    struct query_json id, method, params;
    size_t id_index, params_index; /* which member each was */
};

kv_code query_rpc_init(struct query_rpc *rpc, const struct query_rpc_route *routes,
                       size_t route_count, void *context, const struct query_rpc_limits *limits,
                       kv_status *status)
{
    *rpc = (struct query_rpc){ .routes = routes, .route_count = route_count };
    rpc->context = context;
    rpc->limits = *limits;
    if (query_json_parser_new(limits->body_size, limits->depth, &rpc->parser) != KV_OK)
        return kv_fail(status, KV_NO_MEMORY,
                       "no memory for a JSON parser of %zu bytes; lower query.max_body_size",
                       limits->body_size);
    return KV_OK;
}

void query_rpc_clear(struct query_rpc *rpc)
{
    query_json_parser_free(rpc->parser);
    query_buffer_clear(&rpc->scratch);
    query_buffer_clear(&rpc->id);
    *rpc = (struct query_rpc){ 0 };
}

const struct query_rpc_route *query_rpc_find(const struct query_rpc *rpc, kv_slice name)
{
    for (size_t i = 0; i < rpc->route_count; i++) {
        const char *candidate = rpc->routes[i].name;
        if (strlen(candidate) == name.size && memcmp(candidate, name.data, name.size) == 0)
            return &rpc->routes[i];
    }
    return NULL;
}

/* ---- Answers ------------------------------------------------------------ */

static const char *error_message(int code)
{
    switch (code) {
    case QUERY_RPC_PARSE:
        return "Parse error. Invalid JSON";
    case QUERY_RPC_INVALID:
        return "Invalid Request";
    case QUERY_RPC_NO_METHOD:
        return "Method not found";
    case QUERY_RPC_PARAMS:
        return "Invalid params";
    default:
        return "Internal error";
    }
}

void query_rpc_error(struct query_buffer *out, kv_slice id, int code, const char *data)
{
    query_buffer_literal(out, "{\"jsonrpc\":\"2.0\",");
    if (id.size > 0) {
        query_buffer_literal(out, "\"id\":");
        query_buffer_slice(out, id);
        query_buffer_literal(out, ",");
    }
    query_buffer_literal(out, "\"error\":{\"code\":");
    query_buffer_signed(out, code);
    query_buffer_literal(out, ",\"message\":\"");
    query_buffer_text(out, error_message(code));
    query_buffer_literal(out, "\"");
    if (data != NULL) {
        query_buffer_literal(out, ",\"data\":");
        query_buffer_json(out, kv_text(data));
    }
    query_buffer_literal(out, "}}");
}

static kv_slice current_id(const struct query_rpc *rpc)
{
    return kv_bytes(rpc->id.data, rpc->id.size);
}

/* Answer the current request with an error. */
static void answer_error(struct query_rpc *rpc, struct query_buffer *out, int code,
                         const char *data)
{
    query_count(&rpc->counts.errors, 1);
    query_rpc_error(out, current_id(rpc), code, data);
}

/* Tell of a call: of each where asked, and of one that the store failed. */
static void tell(struct query_rpc *rpc, const struct query_rpc_route *route, kv_code code,
                 const kv_status *status)
{
    bool store = code == KV_IO || code == KV_CORRUPT || code == KV_NO_MEMORY ||
                 code == KV_NO_SPACE || code == KV_INTERNAL;
    query_log_level level = store ? QUERY_LOG_ERROR : QUERY_LOG_DEBUG;
    if (!query_log_wants(rpc->log, level))
        return;
    struct query_log_field fields[] = { { "method", route->name, 0 },
                                        { "code", kv_code_name(code), 0 },
                                        { "why", status->message, 0 } };
    query_log_event(rpc->log, level, store ? "call_failed" : "call", fields,
                    code == KV_OK ? 2 : 3);
}

/* Run a method whose arguments are decoded; the answer's cacheability. */
static bool answer_call(struct query_rpc *rpc, const struct query_rpc_route *route,
                        const struct query_rpc_arg *args, void *connection,
                        struct query_buffer *out, bool *failed)
{
    struct query_rpc_call call = { .context = rpc->context,
                                   .connection = connection,
                                   .args = args,
                                   .id = rpc->id.data,
                                   .id_size = rpc->id.size,
                                   .out = out };
    size_t start = out->size;
    kv_status status = KV_STATUS_INIT;

    query_count(&rpc->counts.calls, 1);
    query_buffer_literal(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    query_buffer_slice(out, current_id(rpc));
    query_buffer_literal(out, ",\"result\":");
    kv_code code = route->handle(&call, &status);
    query_buffer_literal(out, "}");

    if (code == KV_OK && out->size - start > rpc->limits.answer_size)
        code =
            kv_fail(&status, KV_TOO_BIG,
                    "the answer of %zu bytes is over the limit of %zu (query.max_answer_size)",
                    out->size - start, rpc->limits.answer_size);
    *failed = code != KV_OK;
    if (rpc->log != NULL)
        tell(rpc, route, code, &status);
    if (code == KV_OK)
        return call.cacheable;

    out->size = start;
    answer_error(rpc, out, QUERY_RPC_INTERNAL,
                 status.message[0] != '\0' ? status.message : kv_code_text(code));
    return false;
}

void query_rpc_run(struct query_rpc *rpc, const struct query_rpc_route *route,
                   const struct query_rpc_arg *args, struct query_buffer *out,
                   struct query_rpc_reply *reply)
{
    bool failed = false;
    reply->content_type = "application/json";
    reply->cacheable = answer_call(rpc, route, args, NULL, out, &failed);
    reply->http_status = failed ? 500 : 200;
}

/* ---- One request -------------------------------------------------------- */

static bool name_is(kv_slice name, const char *want)
{
    return name.size == strlen(want) && strncasecmp(name.data, want, name.size) == 0;
}

/* Members are found whatever their case, and the last of a name wins: so does
 * CometBFT's decoder. */
static void read_request(const struct query_json *value, struct request *request)
{
    struct query_json_walk walk;
    struct query_json_member members[MEMBERS_AT_ONCE];
    size_t index = 0;

    *request = (struct request){ 0 };
    query_json_walk_start(&walk, value);
    for (size_t n; (n = query_json_walk_next(&walk, members, MEMBERS_AT_ONCE)) > 0;)
        for (size_t i = 0; i < n; i++, index++) {
            const struct query_json_member *member = &members[i];
            if (name_is(member->name, "id")) {
                request->has_id = true;
                request->id = member->value;
                request->id_index = index;
            } else if (name_is(member->name, "method")) {
                request->has_method = member->value.type != QUERY_JSON_NULL;
                request->method = member->value;
            } else if (name_is(member->name, "params")) {
                request->has_params = true;
                request->params = member->value;
                request->params_index = index;
            }
        }
}

/* Write the id as the request had it: numbers digit for digit. False: it is
 * neither text nor number nor null. */
static bool write_id(struct query_rpc *rpc, const struct request *request, kv_slice source)
{
    struct query_buffer *id = &rpc->id;
    query_buffer_reset(id, ID_KEEP);
    switch (request->id.type) {
    case QUERY_JSON_TEXT:
        query_buffer_json(id, request->id.as.text);
        return true;
    case QUERY_JSON_INT:
        if (request->id.as.integer != 0) {
            query_buffer_signed(id, request->id.as.integer);
            return true;
        }
        /* 0 or -0: only the source tells */
        query_buffer_slice(id, query_json_source(source, request->id_index));
        return true;
    case QUERY_JSON_NATURAL:
    case QUERY_JSON_REAL:
        query_buffer_slice(id, query_json_source(source, request->id_index));
        return true;
    case QUERY_JSON_NULL:
        query_buffer_literal(id, "null");
        return true;
    default:
        query_buffer_literal(id, "null");
        return false;
    }
}

struct answering {
    void *connection;
    struct query_buffer *out;
    bool cacheable; /* everything answered so far may be kept for ever */
};

static void answer_request(struct query_rpc *rpc, const struct request *request,
                           kv_slice source, struct answering *answering)
{
    struct query_buffer *out = answering->out;
    const struct query_rpc_route *route = NULL;
    bool failed = false;

    if (request->has_method && request->method.type == QUERY_JSON_TEXT)
        route = query_rpc_find(rpc, request->method.as.text);
    if (route == NULL ||
        ((route->flags & QUERY_RPC_WEBSOCKET_ONLY) != 0 && answering->connection == NULL)) {
        answering->cacheable = false;
        answer_error(rpc, out, QUERY_RPC_NO_METHOD, NULL);
        return;
    }

    struct query_rpc_arg args[QUERY_RPC_ARGS_MAX] = { { 0 } };
    char fault[QUERY_RPC_FAULT_SIZE];
    struct query_rpc_source where = { source, request->params_index };
    if (request->has_params &&
        !query_rpc_decode(rpc, route, &request->params, &where, args, fault)) {
        char data[QUERY_RPC_FAULT_SIZE + 64];
        snprintf(data, sizeof(data), "error converting json params to arguments: %s", fault);
        answering->cacheable = false;
        answer_error(rpc, out, QUERY_RPC_PARAMS, data);
        return;
    }
    if (!answer_call(rpc, route, args, answering->connection, out, &failed) || failed)
        answering->cacheable = false;
}

/* Answer one element; writes nothing for a notification. */
static void answer_element(struct query_rpc *rpc, const struct query_json *value,
                           kv_slice source, struct answering *answering)
{
    struct request request;
    const char *fault = NULL;

    if (value->type == QUERY_JSON_NULL) {
        query_count(&rpc->counts.notifications, 1);
        return; /* what CometBFT takes for an empty notification */
    }
    if (value->type != QUERY_JSON_OBJECT) {
        query_buffer_reset(&rpc->id, ID_KEEP);
        query_buffer_literal(&rpc->id, "null");
        fault = "a request is an object with jsonrpc, id, method and params";
    } else {
        read_request(value, &request);
        if (request.has_method && request.method.type != QUERY_JSON_TEXT)
            fault = "the method must be a string";
        if (!request.has_id && fault == NULL) {
            query_count(&rpc->counts.notifications, 1);
            return;
        }
        if (!write_id(rpc, &request, source))
            fault = "the id must be a string, a number or null";
    }
    if (fault == NULL) {
        if (value->type == QUERY_JSON_OBJECT)
            answer_request(rpc, &request, source, answering);
        return;
    }
    answering->cacheable = false;
    answer_error(rpc, answering->out, QUERY_RPC_INVALID, fault);
}

/* ---- Batches ------------------------------------------------------------ */

/* Answer every element that has an id with the same error; false: none has. */
static bool refuse_element(struct query_rpc *rpc, const struct query_json *value,
                           kv_slice source, struct query_buffer *out, const char *fault)
{
    struct request request;
    if (value->type != QUERY_JSON_OBJECT)
        return false;
    read_request(value, &request);
    if (!request.has_id)
        return false;
    if (!write_id(rpc, &request, source))
        return false;
    answer_error(rpc, out, QUERY_RPC_INVALID, fault);
    return true;
}

static void answer_batch(struct query_rpc *rpc, const struct query_json *value, kv_slice source,
                         struct answering *answering)
{
    struct query_buffer *out = answering->out;
    struct query_json_member members[MEMBERS_AT_ONCE];
    struct query_json_walk walk;
    struct query_json_source_walk texts = { source, 0 };
    size_t start = out->size, count = query_json_count(value);
    size_t limit = rpc->limits.batch_count;
    bool refused = limit > 0 && count > limit;
    char fault[96];

    query_count(&rpc->counts.batches, 1);
    snprintf(fault, sizeof(fault),
             "batch request exceeds maximum (%zu) allowed number of requests", limit);
    query_json_walk_start(&walk, value);
    for (size_t n; (n = query_json_walk_next(&walk, members, MEMBERS_AT_ONCE)) > 0;)
        for (size_t i = 0; i < n; i++) {
            size_t before = out->size;
            query_buffer_add(out, out->size == start ? "[" : ",", 1);
            size_t element = out->size;
            /* The sum is bounded too: past it, ids get errors and nothing runs. */
            if (!refused && before - start > rpc->limits.answer_size) {
                refused = true;
                snprintf(fault, sizeof(fault), "the batch's answers exceed %zu bytes",
                         rpc->limits.answer_size);
            }
            kv_slice text = query_json_source_next(&texts);
            if (refused)
                refuse_element(rpc, &members[i].value, text, out, fault);
            else
                answer_element(rpc, &members[i].value, text, answering);
            if (out->size == element)
                out->size = before; /* a notification leaves no trace */
        }

    answering->cacheable = answering->cacheable && !refused && count > 0;
    if (out->size > start) {
        query_buffer_literal(out, "]");
    } else if (count == 0 || refused) {
        answer_error(rpc, out, QUERY_RPC_INVALID, refused ? fault : "the batch is empty");
    }
}

/* ---- Entrances ---------------------------------------------------------- */

/* Answer a whole text; the HTTP status. */
static unsigned answer_text(struct query_rpc *rpc, kv_slice text, struct answering *answering)
{
    struct query_json root;
    kv_code code = text.size > rpc->limits.body_size
                       ? KV_TOO_BIG
                       : query_json_parse(rpc->parser, text, &root);
    if (code != KV_OK) {
        char words[256], data[320];
        if (code == KV_NO_MEMORY)
            snprintf(words, sizeof(words), "%s", kv_code_text(code));
        else
            query_json_complain(text, rpc->limits.depth, words, sizeof(words));
        snprintf(data, sizeof(data), "error unmarshaling request: %s", words);
        answering->cacheable = false;
        query_count(&rpc->counts.errors, 1);
        query_rpc_error(answering->out, kv_bytes(NULL, 0), QUERY_RPC_PARSE, data);
        return 500;
    }
    query_buffer_reset(&rpc->id, ID_KEEP);
    query_buffer_literal(&rpc->id, "null"); /* for faults that have no id */
    if (root.type == QUERY_JSON_ARRAY)
        answer_batch(rpc, &root, text, answering);
    else
        answer_element(rpc, &root, text, answering);
    return 200;
}

/* The page of methods, as CometBFT writes it. */
static void write_list(const struct query_rpc *rpc, kv_slice host, struct query_buffer *out)
{
    char safe[128]; /* the host is the client's text: keep what names can hold */
    size_t size = 0;
    for (size_t i = 0; i < host.size && size < sizeof(safe); i++) {
        char c = ((const char *)host.data)[i];
        if (isalnum((unsigned char)c) || strchr(".:-_[]", c) != NULL)
            safe[size++] = c;
    }
    query_buffer_literal(out, "<html><body><br>Available endpoints:<br>"
                              "<br>Endpoints that require arguments:<br>");
    for (size_t i = 0; i < rpc->route_count; i++) {
        const struct query_rpc_route *route = &rpc->routes[i];
        for (int copy = 0; copy < 2; copy++) {
            query_buffer_text(out, copy == 0 ? "<a href=\"//" : "//");
            query_buffer_add(out, safe, size);
            query_buffer_literal(out, "/");
            query_buffer_text(out, route->name);
            query_buffer_literal(out, "?");
            for (size_t arg = 0; arg < route->arg_count; arg++) {
                query_buffer_text(out, arg == 0 ? "" : "&");
                query_buffer_text(out, route->args[arg].name);
                query_buffer_literal(out, "=_");
            }
            query_buffer_text(out, copy == 0 ? "\">" : "</a></br>");
        }
    }
    query_buffer_literal(out, "</body></html>");
}

void query_rpc_post(struct query_rpc *rpc, kv_slice body, kv_slice host,
                    struct query_buffer *out, struct query_rpc_reply *reply)
{
    struct answering answering = { .out = out, .cacheable = true };
    size_t start = out->size;

    *reply = (struct query_rpc_reply){ .http_status = 200, .content_type = "text/html" };
    if (body.size == 0) {
        write_list(rpc, host, out);
        return;
    }
    reply->http_status = answer_text(rpc, body, &answering);
    reply->cacheable = answering.cacheable && out->size > start;
    reply->content_type = out->size > start ? "application/json" : NULL;
    query_buffer_reset(&rpc->scratch, SCRATCH_KEEP);
}

void query_rpc_message(struct query_rpc *rpc, kv_slice message, void *connection,
                       struct query_buffer *out)
{
    struct answering answering = { .connection = connection, .out = out };
    answer_text(rpc, message, &answering);
    query_buffer_reset(&rpc->scratch, SCRATCH_KEEP);
}
