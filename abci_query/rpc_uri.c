/*
 * rpc_uri.c - methods as paths, arguments as URI parameters, by CometBFT's
 * rules: texts are JSON strings or 0x-hex, bytes are 0x-hex or a JSON string of
 * the raw characters, heights may stand bare, true and false are bare.
 */
#include "abci_query/rpc.h"

#include <stdio.h>
#include <strings.h>

enum { QUOTED_MAX = 256, SCRATCH_KEEP = 256 << 10 };

/* Undo %XX and + into the scratch, which has the room. */
static bool unescape(struct query_buffer *scratch, kv_slice in, kv_slice *out, char *fault)
{
    const char *text = in.data;
    char *to = scratch->data + scratch->size;
    size_t size = 0;
    for (size_t i = 0; i < in.size; i++) {
        if (text[i] != '%') {
            to[size++] = (char)(text[i] == '+' ? ' ' : text[i]);
            continue;
        }
        bool whole = in.size - i >= 3;
        int high = whole ? query_hex_digit(text[i + 1]) : -1;
        int low = whole ? query_hex_digit(text[i + 2]) : -1;
        if (high < 0 || low < 0) {
            size_t left = in.size - i;
            snprintf(fault, QUERY_RPC_FAULT_SIZE, "invalid URL escape \"%.*s\"",
                     (int)(left < 3 ? left : 3), text + i);
            return false;
        }
        to[size++] = (char)(high << 4 | low);
        i += 2;
    }
    *out = kv_bytes(to, size);
    scratch->size += size;
    return true;
}

/* The raw text of the first parameter called `name`; false: not given. */
static bool find_parameter(kv_slice parameters, const char *name, kv_slice *out)
{
    const char *text = parameters.data;
    size_t name_size = strlen(name);
    for (size_t at = 0; at < parameters.size;) {
        const char *end = memchr(text + at, '&', parameters.size - at);
        size_t size = end == NULL ? parameters.size - at : (size_t)(end - text) - at;
        if (size > name_size && text[at + name_size] == '=' &&
            memcmp(text + at, name, name_size) == 0) {
            *out = kv_bytes(text + at + name_size + 1, size - name_size - 1);
            return true;
        }
        at += size + 1;
    }
    return false;
}

/* A JSON string to its characters, copied to the scratch: the parser's own
 * copy does not outlive the next argument. */
static bool decode_json(struct query_rpc *rpc, enum query_rpc_type type, kv_slice text,
                        struct query_rpc_arg *arg, char *fault)
{
    struct query_json value;
    const char *wanted = type == QUERY_RPC_BOOL ? "bool" : "string";
    char words[QUOTED_MAX];
    if (query_json_parse(rpc->parser, text, &value) != KV_OK) {
        query_json_complain(text, rpc->limits.depth, words, sizeof(words));
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "%s", words);
        return false;
    }
    if (value.type == QUERY_JSON_NULL)
        return true;
    if (value.type == QUERY_JSON_BOOL && type == QUERY_RPC_BOOL) {
        arg->given = true;
        arg->boolean = value.as.boolean;
        return true;
    }
    if (value.type == QUERY_JSON_TEXT && type != QUERY_RPC_BOOL) {
        struct query_buffer *scratch = &rpc->scratch;
        arg->given = true;
        arg->bytes = kv_bytes(scratch->data + scratch->size, value.as.text.size);
        query_buffer_slice(scratch, value.as.text);
        return true;
    }
    if (type == QUERY_RPC_BYTES)
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "invalid hex string: %.*s",
                 (int)(text.size < QUOTED_MAX ? text.size : QUOTED_MAX),
                 (const char *)text.data);
    else
        snprintf(fault, QUERY_RPC_FAULT_SIZE,
                 "json: cannot unmarshal %s into Go value of type %s",
                 query_json_type_name(value.type), wanted);
    return false;
}

static bool is_integer(kv_slice text)
{
    const char *in = text.data;
    size_t first = text.size > 0 && in[0] == '-' ? 1 : 0;
    for (size_t i = first; i < text.size; i++)
        if (in[i] < '0' || in[i] > '9')
            return false;
    return text.size > first;
}

static bool decode_parameter(struct query_rpc *rpc, enum query_rpc_type type, kv_slice text,
                             struct query_rpc_arg *arg, char *fault)
{
    const char *in = text.data;
    bool quoted = text.size >= 2 && in[0] == '"' && in[text.size - 1] == '"';
    if (text.size >= 2 && in[0] == '0' && (in[1] == 'x' || in[1] == 'X')) {
        if (type == QUERY_RPC_TEXT || type == QUERY_RPC_BYTES)
            return query_rpc_decode_hex(rpc, kv_bytes(in + 2, text.size - 2), arg, fault);
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "got a hex string arg, but expected '%s'",
                 type == QUERY_RPC_BOOL ? "bool" : "int64");
        return false;
    }
    if (type != QUERY_RPC_HEIGHT)
        return decode_json(rpc, type, text, arg, fault);
    if (is_integer(text))
        return query_rpc_decode_height(text, rpc->limits.depth, arg, fault);
    if (quoted)
        return query_rpc_decode_height(kv_bytes(in + 1, text.size - 2), rpc->limits.depth, arg,
                                       fault);
    if (text.size == 4 && memcmp(in, "null", 4) == 0)
        return true;
    snprintf(fault, QUERY_RPC_FAULT_SIZE,
             "invalid 64-bit integer encoding \"%.*s\", expected string",
             (int)(text.size < QUOTED_MAX ? text.size : QUOTED_MAX), in);
    return false;
}

/* What a parameter of this type looks like, for those who got it wrong. */
static const char *example(enum query_rpc_type type)
{
    switch (type) {
    case QUERY_RPC_TEXT:
        return "=\"/store/bank/key\" or =0x2f73746f7265";
    case QUERY_RPC_BYTES:
        return "=0x616263 or =\"abc\"";
    case QUERY_RPC_HEIGHT:
        return "=5";
    case QUERY_RPC_BOOL:
        break;
    }
    return "=true or =false";
}

static bool decode_all(struct query_rpc *rpc, const struct query_rpc_route *route,
                       kv_slice parameters, struct query_rpc_arg *args, char *fault)
{
    rpc->scratch.size = 0;
    /* Each parameter is unescaped once and decoded once, never to more bytes; the
     * JSON parser reads past the last. */
    if (!query_buffer_reserve(&rpc->scratch, 2 * parameters.size)) {
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "out of memory");
        return false;
    }
    for (size_t i = 0; i < route->arg_count; i++) {
        const struct query_rpc_arg_spec *spec = &route->args[i];
        kv_slice raw, text = { NULL, 0 };
        char words[QUERY_RPC_FAULT_SIZE];
        if (!find_parameter(parameters, spec->name, &raw) || raw.size == 0)
            continue;
        if (unescape(&rpc->scratch, raw, &text, words) &&
            decode_parameter(rpc, spec->type, text, &args[i], words))
            continue;
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "%.1500s (parameter %s: write %s%s)", words,
                 spec->name, spec->name, example(spec->type));
        return false;
    }
    return true;
}

kv_code query_rpc_uri(struct query_rpc *rpc, kv_slice name, kv_slice parameters,
                      struct query_buffer *out, struct query_rpc_reply *reply)
{
    static const kv_slice id = { "-1", 2 };
    const struct query_rpc_route *route = query_rpc_find(rpc, name);
    if (route == NULL)
        return KV_NOT_FOUND;

    *reply = (struct query_rpc_reply){ .http_status = 500, .content_type = "application/json" };
    if ((route->flags & QUERY_RPC_WEBSOCKET_ONLY) != 0) {
        reply->http_status = 404;
        query_count(&rpc->counts.errors, 1);
        query_rpc_error(out, id, QUERY_RPC_NO_METHOD, NULL);
        return KV_OK;
    }

    struct query_rpc_arg args[QUERY_RPC_ARGS_MAX] = { { 0 } };
    char fault[QUERY_RPC_FAULT_SIZE], data[QUERY_RPC_FAULT_SIZE + 64];
    if (parameters.size > rpc->limits.body_size)
        snprintf(fault, sizeof(fault), "the parameters are over %zu bytes",
                 rpc->limits.body_size);
    else if (decode_all(rpc, route, parameters, args, fault)) {
        query_buffer_reset(&rpc->id, SCRATCH_KEEP);
        query_buffer_slice(&rpc->id, id);
        query_rpc_run(rpc, route, args, out, reply);
        query_buffer_reset(&rpc->scratch, SCRATCH_KEEP);
        return KV_OK;
    }
    snprintf(data, sizeof(data), "error converting http params to arguments: %s", fault);
    query_count(&rpc->counts.errors, 1);
    query_rpc_error(out, id, QUERY_RPC_PARAMS, data);
    query_buffer_reset(&rpc->scratch, SCRATCH_KEEP);
    return KV_OK;
}
