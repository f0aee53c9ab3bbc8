/* load_check.c - one request again and again, and whether its answers are good. */
#include "abci_query/json.h"
#include "bench/load.h"

#include <stdio.h>
#include <stdlib.h>

enum { JSON_DEPTH = 256, MEMBERS = 16, LAST_GOOD_MAX = 64 << 10 };

struct load_json {
    struct query_json_parser *parser;
    size_t parser_size;
    bool has_id;
    bool is_request; /* what was sent is JSON-RPC */
    struct query_json id;
    char id_text[256];
    struct query_buffer padded;
};

/* The member `name` of an object, or false. */
static bool member(const struct query_json *object, const char *name, struct query_json *out)
{
    struct query_json_walk walk;
    struct query_json_member members[MEMBERS];
    bool found = false;
    if (object->type != QUERY_JSON_OBJECT)
        return false;
    query_json_walk_start(&walk, object);
    for (size_t n; (n = query_json_walk_next(&walk, members, MEMBERS)) > 0;)
        for (size_t i = 0; i < n; i++)
            if (members[i].name.size == strlen(name) &&
                memcmp(members[i].name.data, name, strlen(name)) == 0) {
                *out = members[i].value;
                found = true;
            }
    return found;
}

static bool parse(struct load_json *json, kv_slice body, struct query_json *out)
{
    if (body.size > json->parser_size || json->parser == NULL) {
        query_json_parser_free(json->parser);
        json->parser_size = body.size < 64 << 10 ? 64 << 10 : body.size * 2;
        if (query_json_parser_new(json->parser_size, JSON_DEPTH, &json->parser) != KV_OK) {
            json->parser = NULL;
            return false;
        }
    }
    json->padded.size = 0;
    query_buffer_slice(&json->padded, body);
    return !json->padded.failed &&
           query_json_parse(json->parser, kv_bytes(json->padded.data, json->padded.size),
                            out) == KV_OK;
}

struct load_json *load_json_new(kv_slice request)
{
    struct load_json *json = calloc(1, sizeof(*json));
    struct query_json root;
    if (json == NULL || request.size == 0 || !parse(json, request, &root))
        return json;
    struct query_json method;
    json->is_request = root.type == QUERY_JSON_ARRAY || member(&root, "method", &method);
    if (root.type == QUERY_JSON_OBJECT && member(&root, "id", &json->id)) {
        json->has_id = true;
        if (json->id.type == QUERY_JSON_TEXT) { /* the parser's text does not last */
            size_t size = json->id.as.text.size;
            size = size < sizeof(json->id_text) ? size : sizeof(json->id_text);
            json->has_id = size == json->id.as.text.size;
            memcpy(json->id_text, json->id.as.text.data, size);
            json->id.as.text = kv_bytes(json->id_text, size);
        }
    }
    return json;
}

void load_json_free(struct load_json *json)
{
    if (json == NULL)
        return;
    query_json_parser_free(json->parser);
    query_buffer_clear(&json->padded);
    free(json);
}

static bool same_id(const struct query_json *a, const struct query_json *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case QUERY_JSON_TEXT:
        return a->as.text.size == b->as.text.size &&
               memcmp(a->as.text.data, b->as.text.data, a->as.text.size) == 0;
    case QUERY_JSON_INT:
    case QUERY_JSON_NATURAL:
        return a->as.natural == b->as.natural;
    case QUERY_JSON_REAL:
        return !(a->as.real < b->as.real) && !(a->as.real > b->as.real);
    default:
        return true;
    }
}

static const char *describe_error(const struct query_json *error, char *text)
{
    struct query_json message, data;
    kv_slice a = kv_text("no message"), b = kv_text("");
    if (member(error, "message", &message) && message.type == QUERY_JSON_TEXT)
        a = message.as.text;
    if (member(error, "data", &data) && data.type == QUERY_JSON_TEXT)
        b = data.as.text;
    snprintf(text, LOAD_KIND_SIZE, "JSON-RPC error: %.*s%s%.*s",
             (int)(a.size < 60 ? a.size : 60), (const char *)a.data, b.size > 0 ? ": " : "",
             (int)(b.size < 60 ? b.size : 60), (const char *)b.data);
    return text;
}

/* A query that was answered, but with a refusal. */
static const char *check_query(const struct query_json *result, char *text)
{
    struct query_json response, code, log;
    if (!member(result, "response", &response))
        return NULL;
    kv_slice why = kv_text("");
    if (member(&response, "log", &log) && log.type == QUERY_JSON_TEXT)
        why = log.as.text;
    bool refused = member(&response, "code", &code) &&
                   !(code.type == QUERY_JSON_INT && code.as.integer == 0) &&
                   !(code.type == QUERY_JSON_TEXT && code.as.text.size == 1 &&
                     *(const char *)code.as.text.data == '0');
    if (!refused && !(why.size == 22 && memcmp(why.data, "version does not exist", 22) == 0))
        return NULL;
    snprintf(text, LOAD_KIND_SIZE, "refused query: %.*s",
             (int)(why.size < 100 ? why.size : 100), (const char *)why.data);
    return text;
}

static const char *check_answer(const struct load_json *json, const struct query_json *answer,
                                bool must, char *text)
{
    struct query_json id, error, result;
    if (member(answer, "error", &error) && error.type != QUERY_JSON_NULL)
        return describe_error(&error, text);
    if (json->has_id && (!member(answer, "id", &id) || !same_id(&id, &json->id)))
        return "the answer has another id";
    if (!member(answer, "result", &result))
        return must ? "the answer has no result" : NULL;
    return check_query(&result, text);
}

const char *load_json_check(struct load_json *json, kv_slice body, bool must, char *text)
{
    struct query_json root;
    must = must || json->is_request;
    const char *first = body.data;
    if (!must && (body.size == 0 || (*first != '{' && *first != '[')))
        return NULL;
    if (!parse(json, body, &root))
        return must ? "the answer is no JSON" : NULL;
    if (root.type != QUERY_JSON_ARRAY)
        return root.type == QUERY_JSON_OBJECT ? check_answer(json, &root, must, text)
               : must                         ? "the answer is no JSON-RPC"
                                              : NULL;
    struct query_json_walk walk;
    struct query_json_member members[MEMBERS];
    query_json_walk_start(&walk, &root);
    for (size_t n; (n = query_json_walk_next(&walk, members, MEMBERS)) > 0;)
        for (size_t i = 0; i < n; i++) {
            const char *fault = check_answer(json, &members[i].value, must, text);
            if (fault != NULL)
                return fault;
        }
    return NULL;
}

/* ---- The fixed source --------------------------------------------------- */

kv_code load_fixed_init(struct load_fixed *fixed, const struct load_url *url,
                        const char *method, const char *content_type,
                        const char *const *headers, size_t header_count, kv_slice body,
                        kv_status *status)
{
    *fixed = (struct load_fixed){ 0 };
    fixed->head = strcmp(method, "HEAD") == 0;
    fixed->json = load_json_new(body);
    struct query_buffer *wire = &fixed->wire;
    query_buffer_text(wire, method);
    query_buffer_literal(wire, " ");
    query_buffer_text(wire, url->path);
    query_buffer_literal(wire, " HTTP/1.1\r\nHost: ");
    query_buffer_text(wire, url->host);
    query_buffer_literal(wire, "\r\n");
    for (size_t i = 0; i < header_count; i++) {
        query_buffer_text(wire, headers[i]);
        query_buffer_literal(wire, "\r\n");
    }
    if (body.size > 0) {
        query_buffer_literal(wire, "Content-Type: ");
        query_buffer_text(wire, content_type);
        query_buffer_literal(wire, "\r\nContent-Length: ");
        query_buffer_unsigned(wire, body.size);
        query_buffer_literal(wire, "\r\n");
    }
    query_buffer_literal(wire, "\r\n");
    query_buffer_slice(wire, body);
    if (wire->failed || fixed->json == NULL) {
        load_fixed_clear(fixed);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a request of %zu bytes", body.size);
    }
    return KV_OK;
}

void load_fixed_clear(struct load_fixed *fixed)
{
    query_buffer_clear(&fixed->wire);
    query_buffer_clear(&fixed->last_good);
    load_json_free(fixed->json);
    fixed->json = NULL;
}

static bool next(void *context, struct load_request *out)
{
    struct load_fixed *fixed = context;
    *out = (struct load_request){ .wire = kv_bytes(fixed->wire.data, fixed->wire.size) };
    out->head = fixed->head;
    if (fixed->rate > 0)
        out->due_ns = (uint64_t)((double)fixed->sent * 1e9 / fixed->rate) + 1;
    fixed->sent++;
    return true;
}

static const char *check(void *context, uint64_t token, const struct load_response *response)
{
    struct load_fixed *fixed = context;
    kv_slice body = response->body;
    (void)token;
    if (response->status < 200 || response->status > 299) {
        snprintf(fixed->text, sizeof(fixed->text), "status %u", response->status);
        return fixed->text;
    }
    if (fixed->head || (body.size > 0 && body.size == fixed->last_good.size &&
                        memcmp(body.data, fixed->last_good.data, body.size) == 0))
        return NULL;
    if (fixed->expect.size > 0 &&
        (body.size == 0 ||
         memmem(body.data, body.size, fixed->expect.data, fixed->expect.size) == NULL))
        return "the answer lacks the expected text";
    const char *fault = load_json_check(fixed->json, body, false, fixed->text);
    if (fault == NULL && body.size <= LAST_GOOD_MAX) {
        fixed->last_good.size = 0;
        query_buffer_slice(&fixed->last_good, body);
    }
    return fault;
}

struct load_source load_fixed_source(struct load_fixed *fixed)
{
    struct load_source source = { fixed, next, check };
    return source;
}
