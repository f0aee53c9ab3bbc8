/* rpc_params.c - JSON params to arguments, refused in CometBFT's words. */
#include "abci_query/rpc.h"

#include <inttypes.h>
#include <stdio.h>

enum { MEMBERS_AT_ONCE = 16, QUOTED_MAX = 256 /* bytes of a request a fault repeats */ };

/* "U+0078 'x'", as Go prints a byte that is no hex digit. */
static void describe_byte(uint8_t byte, char *fault)
{
    char shown[8];
    if (byte >= 0x20 && byte < 0x7f)
        snprintf(shown, sizeof(shown), " '%c'", byte);
    else
        shown[0] = '\0';
    snprintf(fault, QUERY_RPC_FAULT_SIZE, "encoding/hex: invalid byte: U+%04X%s", byte, shown);
}

bool query_rpc_decode_hex(struct query_rpc *rpc, kv_slice hex, struct query_rpc_arg *arg,
                          char *fault)
{
    struct query_buffer *scratch = &rpc->scratch;
    const char *in = hex.data;
    if (hex.size / 2 > scratch->capacity - scratch->size) {
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "out of memory");
        return false;
    }
    uint8_t *out = (uint8_t *)scratch->data + scratch->size;
    for (size_t i = 0; i < hex.size / 2; i++) {
        int high = query_hex_digit(in[2 * i]), low = query_hex_digit(in[2 * i + 1]);
        if (high < 0 || low < 0) {
            describe_byte((uint8_t)in[2 * i + (high < 0 ? 0 : 1)], fault);
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    if (hex.size % 2 != 0) {
        if (query_hex_digit(in[hex.size - 1]) < 0) {
            describe_byte((uint8_t)in[hex.size - 1], fault);
            return false;
        }
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "encoding/hex: odd length hex string");
        return false;
    }
    arg->given = true;
    arg->bytes = kv_bytes(out, hex.size / 2);
    scratch->size += hex.size / 2;
    return true;
}

/* A number that is no int64, or no number at all: say so as Go does. */
static bool refuse_height(kv_slice text, size_t depth_max, struct query_rpc_arg *arg,
                          char *fault)
{
    char words[QUOTED_MAX];
    const char *first = text.data;
    if (!query_json_complain(text, depth_max, words, sizeof(words))) {
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "%s", words);
        return false;
    }
    while (*first == ' ' || *first == '\t' || *first == '\n' || *first == '\r')
        first++;
    const char *type = *first == '"'   ? "string"
                       : *first == '[' ? "array"
                       : *first == '{' ? "object"
                                       : "bool";
    if (*first == 'n') { /* null leaves the height as it was: none */
        arg->integer = 0;
        return true;
    }
    if (*first == '-' || (*first >= '0' && *first <= '9')) {
        int shown = text.size < QUOTED_MAX ? (int)text.size : QUOTED_MAX;
        snprintf(fault, QUERY_RPC_FAULT_SIZE,
                 "json: cannot unmarshal number %.*s into Go value of type int64", shown,
                 (const char *)text.data);
    } else {
        snprintf(fault, QUERY_RPC_FAULT_SIZE,
                 "json: cannot unmarshal %s into Go value of type int64", type);
    }
    return false;
}

bool query_rpc_decode_height(kv_slice text, size_t depth_max, struct query_rpc_arg *arg,
                             char *fault)
{
    const char *in = text.data;
    bool negative = text.size > 0 && in[0] == '-';
    size_t first = negative ? 1 : 0;
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0), number = 0;

    bool plain = text.size > first && !(in[first] == '0' && text.size > first + 1);
    for (size_t i = first; i < text.size && plain; i++) {
        uint64_t digit = (uint64_t)(in[i] - '0');
        plain = in[i] >= '0' && in[i] <= '9' && number <= (limit - digit) / 10;
        number = number * 10 + digit;
    }
    if (!plain)
        return refuse_height(text, depth_max, arg, fault);
    arg->given = true;
    arg->integer = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

static bool wrong_type(const struct query_json *value, const char *wanted, char *fault)
{
    snprintf(fault, QUERY_RPC_FAULT_SIZE, "json: cannot unmarshal %s into Go value of type %s",
             query_json_type_name(value->type), wanted);
    return false;
}

/* Decode one value, the `index`-th of the params. */
static bool decode_value(struct query_rpc *rpc, enum query_rpc_type type,
                         const struct query_json *value, const struct query_rpc_source *source,
                         size_t index, struct query_rpc_arg *arg, char *fault)
{
    if (value->type == QUERY_JSON_NULL)
        return true;
    bool text = value->type == QUERY_JSON_TEXT;
    if (type == QUERY_RPC_TEXT) {
        if (!text)
            return wrong_type(value, "string", fault);
        arg->given = true;
        arg->bytes = value->as.text;
        return true;
    }
    if (type == QUERY_RPC_BOOL) {
        if (value->type != QUERY_JSON_BOOL)
            return wrong_type(value, "bool", fault);
        arg->given = true;
        arg->boolean = value->as.boolean;
        return true;
    }
    if (text)
        return type == QUERY_RPC_BYTES
                   ? query_rpc_decode_hex(rpc, value->as.text, arg, fault)
                   : query_rpc_decode_height(value->as.text, rpc->limits.depth, arg, fault);

    kv_slice params = query_json_source(source->request, source->index);
    kv_slice shown = query_json_source(params, index);
    int size = shown.size < QUOTED_MAX ? (int)shown.size : QUOTED_MAX;
    if (type == QUERY_RPC_BYTES)
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "invalid hex string: %.*s", size,
                 (const char *)shown.data);
    else
        snprintf(fault, QUERY_RPC_FAULT_SIZE,
                 "invalid 64-bit integer encoding \"%.*s\", expected string", size,
                 (const char *)shown.data);
    return false;
}

/* "expected 4 parameters ([path data height prove]), got 1 ([[34 97 34]])": Go
 * prints the texts of the values as lists of numbers. */
static bool wrong_count(const struct query_rpc_route *route, kv_slice params, size_t count,
                        char *fault)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    struct query_json_source_walk walk = { params, 0 };
    query_buffer_format(&text, "expected %zu parameters ([", route->arg_count);
    for (size_t i = 0; i < route->arg_count; i++)
        query_buffer_format(&text, "%s%s", i == 0 ? "" : " ", route->args[i].name);
    query_buffer_format(&text, "]), got %zu ([", count);
    size_t budget = QUOTED_MAX;
    for (size_t i = 0; i < count && budget > 0; i++) {
        kv_slice value = query_json_source_next(&walk);
        query_buffer_text(&text, i == 0 ? "[" : " [");
        for (size_t byte = 0; byte < value.size && budget > 0; byte++, budget--)
            query_buffer_format(&text, "%s%d", byte == 0 ? "" : " ",
                                ((const uint8_t *)value.data)[byte]);
        query_buffer_text(&text, budget == 0 ? " ...]" : "]");
    }
    query_buffer_literal(&text, "])");
    snprintf(fault, QUERY_RPC_FAULT_SIZE, "%.*s", (int)text.size,
             text.data == NULL ? "" : text.data);
    query_buffer_clear(&text);
    return false;
}

static bool decode_array(struct query_rpc *rpc, const struct query_rpc_route *route,
                         const struct query_json *params, const struct query_rpc_source *source,
                         struct query_rpc_arg *args, char *fault)
{
    struct query_json_walk walk;
    struct query_json_member members[QUERY_RPC_ARGS_MAX];
    size_t count = query_json_count(params);
    if (count != route->arg_count)
        return wrong_count(route, query_json_source(source->request, source->index), count,
                           fault);

    query_json_walk_start(&walk, params);
    count = query_json_walk_next(&walk, members, QUERY_RPC_ARGS_MAX);
    for (size_t i = 0; i < count; i++)
        if (!decode_value(rpc, route->args[i].type, &members[i].value, source, i, &args[i],
                          fault))
            return false;
    return true;
}

static bool decode_object(struct query_rpc *rpc, const struct query_rpc_route *route,
                          const struct query_json *params,
                          const struct query_rpc_source *source, struct query_rpc_arg *args,
                          char *fault)
{
    struct query_json found[QUERY_RPC_ARGS_MAX] = { { QUERY_JSON_NULL, { false }, NULL, 0 } };
    size_t indexes[QUERY_RPC_ARGS_MAX] = { 0 };
    struct query_json_member members[MEMBERS_AT_ONCE];
    struct query_json_walk walk;
    size_t index = 0;

    query_json_walk_start(&walk, params);
    for (size_t n; (n = query_json_walk_next(&walk, members, MEMBERS_AT_ONCE)) > 0;)
        for (size_t i = 0; i < n; i++, index++)
            for (size_t arg = 0; arg < route->arg_count; arg++)
                if (members[i].name.size == strlen(route->args[arg].name) &&
                    memcmp(members[i].name.data, route->args[arg].name, members[i].name.size) ==
                        0) {
                    found[arg] = members[i].value;
                    indexes[arg] = index;
                }
    for (size_t arg = 0; arg < route->arg_count; arg++)
        if (!decode_value(rpc, route->args[arg].type, &found[arg], source, indexes[arg],
                          &args[arg], fault))
            return false;
    return true;
}

bool query_rpc_decode(struct query_rpc *rpc, const struct query_rpc_route *route,
                      const struct query_json *params, const struct query_rpc_source *source,
                      struct query_rpc_arg *args, char *fault)
{
    if (params->type == QUERY_JSON_NULL)
        return true;
    rpc->scratch.size = 0;
    if (!query_buffer_reserve(&rpc->scratch, source->request.size)) {
        snprintf(fault, QUERY_RPC_FAULT_SIZE, "out of memory");
        return false;
    }
    if (params->type == QUERY_JSON_OBJECT)
        return decode_object(rpc, route, params, source, args, fault);
    if (params->type == QUERY_JSON_ARRAY)
        return decode_array(rpc, route, params, source, args, fault);
    snprintf(fault, QUERY_RPC_FAULT_SIZE,
             "unknown type for JSON params: json: cannot unmarshal %s into Go value of type "
             "[]json.RawMessage. Expected map or array",
             query_json_type_name(params->type));
    return false;
}
