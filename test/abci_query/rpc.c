/* rpc.c - what other services got wrong about JSON-RPC, and what we answer. */
#include "test/abci_query/echo.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ASK(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"health\"}"

static const char *post(struct echo *echo, const char *body)
{
    return echo_post(echo, body, strlen(body));
}

static bool is_json(const char *text)
{
    json_t *value = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    json_decref(value);
    return value != NULL;
}

/* ---- Nesting ------------------------------------------------------------ */

static void nest(struct query_buffer *out, const char *before, const char *open, size_t count,
                 const char *after)
{
    out->size = 0;
    query_buffer_text(out, before);
    for (size_t i = 0; i < count; i++)
        query_buffer_text(out, open);
    query_buffer_text(out, after);
}

Test(rpc, a_hundred_thousand_brackets)
{
    static const char *const places[][2] = {
        { "", "" },
        { "{\"id\":1,\"method\":\"health\",\"params\":", "}" },
        { "{\"id\":", ",\"method\":\"health\"}" },
        { "[{\"id\":1,\"method\":\"health\",\"params\":", "}]" },
    };
    struct echo echo;
    struct query_buffer text = QUERY_BUFFER_INIT;
    echo_start(&echo);
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        for (int object = 0; object < 2; object++) {
            nest(&text, places[i][0], object ? "{\"a\":" : "[", 100000, places[i][1]);
            const char *out = echo_post(&echo, text.data, text.size);
            cr_expect_not_null(strstr(out, "-32700"), "%zu: %s", i, out);
            cr_expect_not_null(strstr(out, "exceeded max depth"), "%zu: %s", i, out);
        }
    query_buffer_clear(&text);
    echo_stop(&echo);
}

Test(rpc, just_below_and_just_above_the_depth)
{
    struct echo echo;
    struct query_buffer text = QUERY_BUFFER_INIT;
    echo_start(&echo); /* 128 deep: the request and 127 arrays in params */
    for (size_t depth = 126; depth <= 128; depth++) {
        nest(&text, "{\"id\":1,\"method\":\"health\",\"params\":{\"x\":", "[", depth - 1, "");
        for (size_t i = 0; i < depth - 1; i++)
            query_buffer_literal(&text, "]");
        query_buffer_literal(&text, "}}");
        const char *out = echo_post(&echo, text.data, text.size);
        /* the root and params are two levels of their own */
        cr_expect(strstr(out, depth + 1 <= 128 ? "\"result\":{}" : "-32700") != NULL, "%zu: %s",
                  depth, out);
    }
    query_buffer_clear(&text);
    echo_stop(&echo);
}

static void *nest_on_small_stack(void *context)
{
    struct echo *echo = context;
    struct query_buffer text = QUERY_BUFFER_INIT;
    nest(&text, "{\"id\":1,\"method\":\"health\",\"params\":", "{\"a\":", 100000, "}");
    bool deep = strstr(echo_post(echo, text.data, text.size), "-32700") != NULL;
    nest(&text, "{\"id\":1,\"method\":\"health\",\"params\":{\"x\":", "[", 126, "");
    for (size_t i = 0; i < 126; i++)
        query_buffer_literal(&text, "]");
    query_buffer_literal(&text, "}}");
    bool fits = strstr(echo_post(echo, text.data, text.size), "\"result\":{}") != NULL;
    query_buffer_clear(&text);
    return deep && fits ? echo : NULL;
}

Test(rpc, nesting_takes_little_stack)
{
    struct echo echo;
    pthread_attr_t small;
    pthread_t thread;
    void *passed = NULL;
    echo_start(&echo);
    cr_assert_eq(pthread_attr_init(&small), 0);
    cr_assert_eq(pthread_attr_setstacksize(&small, 256 << 10), 0);
    cr_assert_eq(pthread_create(&thread, &small, nest_on_small_stack, &echo), 0);
    cr_assert_eq(pthread_join(thread, &passed), 0);
    cr_expect_not_null(passed);
    pthread_attr_destroy(&small);
    echo_stop(&echo);
}

/* ---- Ids ---------------------------------------------------------------- */

Test(rpc, ids_come_back_as_they_were)
{
    static const char *const same[] = { "0",
                                        "-0",
                                        "-1",
                                        "1501691352102",
                                        "9007199254740993",
                                        "9223372036854775808",
                                        "1.5",
                                        "1e3",
                                        "\"\"",
                                        "\"0\"",
                                        "\"a\\u0000b\"",
                                        "null",
                                        "\"\xc3\xa9\"" };
    struct echo echo;
    echo_start(&echo);
    for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
        char body[256], want[256];
        snprintf(body, sizeof(body), "{ \"method\" : \"health\", \"id\" : %s }", same[i]);
        snprintf(want, sizeof(want), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", same[i]);
        cr_expect_str_eq(post(&echo, body), want);
        snprintf(body, sizeof(body), "[" ASK("7") ",{\"id\":%s,\"method\":\"health\"}]",
                 same[i]);
        snprintf(want, sizeof(want),
                 "[{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}},"
                 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}]",
                 same[i]);
        cr_expect_str_eq(post(&echo, body), want);
    }
    cr_expect_str_eq(post(&echo, "{\"method\":\"health\"}"), "");
    cr_expect_str_eq(post(&echo, "{\"id\":1,\"id\":2,\"method\":\"health\"}"),
                     "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
    static const char *const wrong[] = { "true", "[]", "{}", "false" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char body[128];
        snprintf(body, sizeof(body), "{\"id\":%s,\"method\":\"health\"}", wrong[i]);
        const char *out = post(&echo, body);
        cr_expect_not_null(strstr(out, "\"id\":null,\"error\":{\"code\":-32600,"), "%s", out);
    }
    echo_stop(&echo);
}

Test(rpc, an_id_of_almost_the_whole_body)
{
    struct echo echo;
    struct query_buffer text = QUERY_BUFFER_INIT;
    echo_start(&echo);
    query_buffer_literal(&text, "{\"method\":\"health\",\"id\":\"");
    for (int i = 0; i < 999900; i++)
        query_buffer_literal(&text, "x");
    query_buffer_literal(&text, "\"}");
    cr_expect_not_null(strstr(echo_post(&echo, text.data, text.size), "x\",\"result\":{}}"));
    query_buffer_clear(&text);
    echo_stop(&echo);
}

/* ---- Batches ------------------------------------------------------------ */

#define NO_REQUEST                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid " \
    "Request\",\"data\":\"a request is an object with jsonrpc, id, method and params\"}}"

Test(rpc, odd_batches)
{
    struct echo echo;
    echo_start(&echo);
    cr_expect_not_null(strstr(post(&echo, "[]"), "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{"
                                                 "\"code\":-32600"));
    cr_expect_str_eq(post(&echo, "[1]"), "[" NO_REQUEST "]");
    cr_expect_str_eq(post(&echo, "[1,2]"), "[" NO_REQUEST "," NO_REQUEST "]");
    cr_expect_str_eq(post(&echo, "[[]]"), "[" NO_REQUEST "]");
    cr_expect_str_eq(post(&echo, "[{}]"), "");
    cr_expect_str_eq(post(&echo, "[{\"method\":\"health\"},{\"method\":\"nope\"}]"), "");
    cr_expect_str_eq(post(&echo, "[" ASK("1") "," ASK("1") "]"),
                     "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},"
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]");
    const char *mixed =
        post(&echo, "[" ASK("1") ",5,{\"id\":2,\"method\":\"nope\"},{\"method\":"
                                 "\"health\"}," ASK("\"z\"") "]");
    cr_expect_str_eq(mixed,
                     "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}," NO_REQUEST
                     ",{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32601,\"message\":"
                     "\"Method not found\"}},{\"jsonrpc\":\"2.0\",\"id\":\"z\",\"result\":"
                     "{}}]");
    echo_stop(&echo);
}

static size_t batch_of(struct echo *echo, size_t count, const char *what, size_t *errors)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    query_buffer_literal(&text, "[");
    for (size_t i = 0; i < count; i++)
        query_buffer_format(&text, "%s{\"id\":%zu,\"method\":\"%s\"}", i == 0 ? "" : ",", i,
                            what);
    query_buffer_literal(&text, "]");
    json_t *answers = json_loads(echo_post(echo, text.data, text.size), 0, NULL);
    size_t size = json_array_size(answers);
    *errors = 0;
    for (size_t i = 0; i < size; i++) {
        json_t *answer = json_array_get(answers, i);
        cr_expect_eq((size_t)json_integer_value(json_object_get(answer, "id")), i);
        if (json_object_get(answer, "error") != NULL)
            (*errors)++;
    }
    json_decref(answers);
    query_buffer_clear(&text);
    return size;
}

Test(rpc, batches_at_and_over_the_limit)
{
    struct echo echo;
    size_t errors;
    echo_start(&echo);
    cr_expect_eq(batch_of(&echo, 10, "health", &errors), 10);
    cr_expect_eq(errors, 0);
    uint64_t calls = query_counter_read(&echo.service.rpc.counts.calls);
    cr_expect_eq(batch_of(&echo, 11, "health", &errors), 11);
    cr_expect_eq(errors, 11, "every id is told");
    cr_expect_eq(query_counter_read(&echo.service.rpc.counts.calls), calls,
                 "and nothing is run");
    cr_expect_eq(batch_of(&echo, 30000, "health", &errors), 30000);
    cr_expect_eq(errors, 30000);

    echo.service.rpc.limits.batch_count = 0; /* any number */
    cr_expect_eq(batch_of(&echo, 1000, "health", &errors), 1000);
    cr_expect_eq(errors, 0);
    echo.service.rpc.limits.answer_size = 10000; /* of which not all have room */
    cr_expect_eq(batch_of(&echo, 1000, "status", &errors), 1000);
    cr_expect_gt(errors, 900);
    cr_expect_lt(errors, 1000);
    echo_stop(&echo);
}

/* ---- Bytes that are no text --------------------------------------------- */

static const struct bytes {
    const char *data;
    size_t size;
} bad_utf8[] = { { "\x80", 1 },
                 { "\xff", 1 },
                 { "\xc0\x80", 2 },
                 { "\xed\xa0\x80", 3 },
                 { "\xf4\x90\x80\x80", 4 },
                 { "\\ud800", 6 } };

Test(rpc, bad_utf8_is_refused_and_never_echoed)
{
    static const char *const places[][2] = {
        { "{\"id\":1,\"method\":\"", "\"}" },
        { "{\"id\":\"", "\",\"method\":\"health\"}" },
        { "{\"id\":1,\"method\":\"abci_query\",\"params\":{\"path\":\"", "\"}}" },
    };
    struct echo echo;
    echo_start(&echo);
    for (size_t i = 0; i < sizeof(bad_utf8) / sizeof(*bad_utf8); i++)
        for (size_t place = 0; place < 3; place++) {
            struct query_buffer text = QUERY_BUFFER_INIT;
            query_buffer_text(&text, places[place][0]);
            query_buffer_add(&text, bad_utf8[i].data, bad_utf8[i].size);
            query_buffer_text(&text, places[place][1]);
            const char *out = echo_post(&echo, text.data, text.size);
            cr_expect_not_null(strstr(out, "\"code\":-32700"), "%zu %zu: %s", i, place, out);
            cr_expect(is_json(out), "%zu %zu: %s", i, place, out);
            query_buffer_clear(&text);
        }
    echo_stop(&echo);
}

Test(rpc, any_byte_of_a_log_becomes_json)
{
    struct query_buffer out = QUERY_BUFFER_INIT;
    for (size_t i = 0; i < sizeof(bad_utf8) / sizeof(*bad_utf8); i++) {
        out.size = 0;
        query_buffer_json(&out, kv_bytes(bad_utf8[i].data, bad_utf8[i].size));
        query_buffer_add(&out, "", 1);
        cr_expect(is_json(out.data), "%s", out.data);
    }
    char every[256];
    for (int i = 0; i < 256; i++)
        every[i] = (char)i;
    out.size = 0;
    query_buffer_json(&out, kv_bytes(every, 256));
    query_buffer_add(&out, "", 1);
    cr_expect(is_json(out.data), "%s", out.data);
    out.size = 0;
    query_buffer_json(&out, kv_text("<\xe2\x80\xa8&\xe2\x80\xa9>\x1f"));
    query_buffer_add(&out, "", 1);
    cr_expect_str_eq(out.data, "\"\\u003c\\u2028\\u0026\\u2029\\u003e\\u001f\"");
    query_buffer_clear(&out);
}

Test(rpc, a_nul_does_not_cut_a_path)
{
    struct echo echo;
    echo_start(&echo);
    const char *out = post(&echo, "{\"id\":1,\"method\":\"abci_query\",\"params\":{\"path\":"
                                  "\"a\\u0000b\"}}");
    cr_expect_not_null(strstr(out, "\"value\":\"YQBifHwwfGZhbHNl\""), "%s", out);
    echo_stop(&echo);
}

/* ---- URI parameters ----------------------------------------------------- */

static const struct uri {
    const char *parameters;
    const char *value; /* what the application saw, in base64; or */
    const char *error; /* what the refusal says */
} uris[] = {
    { "path=%22/a/b%22", "L2EvYnx8MHxmYWxzZQ==", NULL },
    { "path=\"/a/b\"", "L2EvYnx8MHxmYWxzZQ==", NULL },
    { "path=0x2f61", "L2F8fDB8ZmFsc2U=", NULL },
    { "path=", "fHwwfGZhbHNl", NULL },
    { "path=/a/b", NULL,
      "invalid character '/' looking for beginning of value (parameter path:" },
    { "path=%22", NULL, "unexpected end of JSON input (parameter path:" },
    { "path=\"", NULL, "unexpected end of JSON input (parameter path:" },
    { "path=%22%22", "fHwwfGZhbHNl", NULL },
    { "path=1", NULL, "cannot unmarshal number into Go value of type string (parameter path:" },
    { "data=0xAB", "fGFifDB8ZmFsc2U=", NULL },
    { "data=0xab", "fGFifDB8ZmFsc2U=", NULL },
    { "data=0XAB", "fGFifDB8ZmFsc2U=", NULL },
    { "data=0xabc", NULL, "odd length hex string (parameter data: write data=0x616263" },
    { "data=0x", "fHwwfGZhbHNl", NULL },
    { "data=ab", NULL,
      "invalid character 'a' looking for beginning of value (parameter data:" },
    { "data=12", NULL, "invalid hex string: 12 (parameter data:" },
    { "data=\"ab\"", "fDYxNjJ8MHxmYWxzZQ==", NULL },
    { "height=5", "fHw1fGZhbHNl", NULL },
    { "height=\"5\"", "fHw1fGZhbHNl", NULL },
    { "height=-5", "fHwtNXxmYWxzZQ==", NULL },
    { "height=05", NULL, "(parameter height: write height=5)" },
    { "height=5.0", NULL, "invalid 64-bit integer encoding" },
    { "height=1e2", NULL, "invalid 64-bit integer encoding" },
    { "height=9223372036854775808", NULL, "cannot unmarshal number 9223372036854775808" },
    { "height=-9223372036854775808", "fHwtOTIyMzM3MjAzNjg1NDc3NTgwOHxmYWxzZQ==", NULL },
    { "height=0x05", NULL, "got a hex string arg, but expected 'int64'" },
    { "prove=true", "fHwwfHRydWU=", NULL },
    { "prove=1", NULL, "cannot unmarshal number into Go value of type bool (parameter prove:" },
    { "prove=%22true%22", NULL, "cannot unmarshal string into Go value of type bool" },
    { "path=0x61&path=0x62", "YXx8MHxmYWxzZQ==", NULL },
    { "unknown=1", "fHwwfGZhbHNl", NULL },
    { "&&==&path", "fHwwfGZhbHNl", NULL },
    { "path=%zz", NULL, "invalid URL escape \\\"%zz\\\" (parameter path:" },
    { "path=%2", NULL, "invalid URL escape \\\"%2\\\" (parameter path:" },
    { "path=%22%ff%22", NULL, "invalid UTF-8" },
};

Test(rpc, uri_parameters)
{
    struct echo echo;
    echo_start(&echo);
    for (size_t i = 0; i < sizeof(uris) / sizeof(*uris); i++) {
        char url[256], want[256];
        snprintf(url, sizeof(url), "/abci_query?%s", uris[i].parameters);
        const char *out = echo_get(&echo, url);
        snprintf(want, sizeof(want), "\"value\":\"%s\"", uris[i].value);
        cr_expect(strstr(out, uris[i].value != NULL ? want : uris[i].error) != NULL, "%s: %s",
                  url, out);
        cr_expect(uris[i].value != NULL || strstr(out, "\"code\":-32602") != NULL, "%s: %s",
                  url, out);
        cr_expect(is_json(out), "%s: %s", url, out);
    }
    echo_stop(&echo);
}

Test(rpc, paths_under_v1_are_the_same)
{
    static const char *const paths[] = { "/", "/health", "/status",
                                         "/abci_query?path=%22a%22" };
    struct echo echo;
    echo_start(&echo);
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        char alias[64];
        snprintf(alias, sizeof(alias), "/v1%s", paths[i]);
        char *want = strdup(echo_get(&echo, paths[i]));
        cr_assert_not_null(want);
        cr_expect_str_eq(echo_get(&echo, alias), want, "%s", alias);
        free(want);
    }
    cr_expect_not_null(strstr(echo_get(&echo, "/v1"), "Available endpoints"));
    cr_expect_not_null(strstr(echo_get(&echo, "/v1health"), "404"));
    cr_expect_not_null(strstr(echo_get(&echo, "/v2/health"), "404"));
    static const char post[] = "POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\n\r\n"
                               "{\"id\":1,\"method\":\"health\"}";
    static const char socket[] =
        "GET /v1/websocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    cr_expect_not_null(strstr(echo_feed(&echo, post), "\"id\":1,\"result\":{}"));
    cr_expect_eq(strncmp(echo_feed(&echo, socket), "HTTP/1.1 101", 12), 0);
    echo_stop(&echo);
}

/* ---- Encodings ---------------------------------------------------------- */

/* One bit after the other, as RFC 4648 tells it. */
static void encode_slowly(const uint8_t *in, size_t size, char *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t count = (size * 8 + 5) / 6, padded = (size + 2) / 3 * 4;
    for (size_t i = 0; i < count; i++) {
        unsigned six = 0;
        for (size_t bit = 6 * i; bit < 6 * i + 6; bit++)
            six = six << 1 | (bit < 8 * size ? (unsigned)in[bit / 8] >> (7 - bit % 8) & 1u : 0);
        out[i] = digits[six];
    }
    memset(out + count, '=', padded - count);
}

Test(rpc, base64_of_every_size)
{
    char want[400];
    uint32_t random = 1;
    for (size_t size = 1; size <= 260; size++) {
        struct query_buffer got = QUERY_BUFFER_INIT;
        uint8_t *in = malloc(size); /* no byte more: a sanitizer sees who reads on */
        cr_assert_not_null(in);
        for (size_t i = 0; i < size; i++)
            in[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
        encode_slowly(in, size, want);
        query_buffer_base64(&got, kv_bytes(in, size));
        cr_expect_eq(got.size, (size + 2) / 3 * 4);
        cr_expect_eq(memcmp(got.data, want, got.size), 0, "%zu bytes", size);
        query_buffer_clear(&got);
        free(in);
    }
}

/* ---- Answers kept ------------------------------------------------------- */

Test(rpc, kept_answers_are_those_of_the_version)
{
    uint64_t version = 5;
    static const struct query_chain chain = { "c", "m", "l", 0, { NULL, 0 } };
    query_app app = echo_app(&version);
    struct query_node node;
    query_request request = { kv_text("p"), kv_text("d"), 0, false };
    cr_assert_eq(query_node_init(&node, &app, &chain, 4096, NULL), KV_OK);
    struct query_cache *cache = node.cache;
    uint64_t hash = query_cache_hash(&request);
    cr_expect_eq(query_cache_get(cache, hash, 5, &request).size, 0);
    query_cache_put(cache, hash, 5, &request, kv_text("answer"));
    kv_slice kept = query_cache_get(cache, hash, 5, &request);
    cr_expect_eq(kept.size, 6);
    cr_expect_eq(memcmp(kept.data, "answer", 6), 0);
    cr_expect_eq(query_cache_get(cache, hash, 6, &request).size, 0, "another version");
    query_request others[] = { { kv_text("q"), kv_text("d"), 0, false },
                               { kv_text("p"), kv_text("e"), 0, false },
                               { kv_text("pd"), kv_bytes(NULL, 0), 0, false },
                               { kv_text("p"), kv_text("d"), 1, false },
                               { kv_text("p"), kv_text("d"), 0, true } };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        cr_expect_eq(query_cache_get(cache, hash, 5, &others[i]).size, 0, "%zu", i);
    /* over the budget: not kept, and what is kept stays */
    static char large[5000];
    query_cache_put(cache, query_cache_hash(&others[0]), 5, &others[0], kv_bytes(large, 5000));
    cr_expect_eq(query_cache_get(cache, query_cache_hash(&others[0]), 5, &others[0]).size, 0);
    cr_expect_leq(query_counter_read(&query_cache_counts(cache)->size_bytes), 4096);
    query_node_clear(&node);
}
