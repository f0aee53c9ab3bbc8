/* websocket.c - frames: whole, split, wrong; and what is asked through them. */
#include "test/abci_query/echo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define UPGRADE                                                                           \
    "GET /websocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

/* A client's frame. */
static void frame(struct query_buffer *out, unsigned first, const char *payload, size_t size)
{
    static const unsigned char mask[4] = { 0x12, 0x34, 0x56, 0x78 };
    unsigned char head[14] = { (unsigned char)first };
    size_t head_size = 2;
    if (size < 126) {
        head[1] = (unsigned char)(0x80 | size);
    } else if (size < 65536) {
        head[1] = 0x80 | 126;
        head[2] = (unsigned char)(size >> 8);
        head[3] = (unsigned char)size;
        head_size = 4;
    } else {
        head[1] = 0x80 | 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] = (unsigned char)((uint64_t)size >> (8 * (7 - i)));
        head_size = 10;
    }
    memcpy(head + head_size, mask, 4);
    query_buffer_add(out, head, head_size + 4);
    for (size_t i = 0; i < size; i++) {
        char c = (char)((unsigned char)payload[i] ^ mask[i & 3]);
        query_buffer_add(out, &c, 1);
    }
}

static void upgrade(struct echo *echo)
{
    echo_start(echo);
    const char *out = echo_feed(echo, UPGRADE);
    cr_assert_not_null(strstr(out, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
                       "%s", out);
    cr_assert_eq(echo->conn.phase, QUERY_HTTP_SOCKET);
}

/* Feed frames; what came back, from `*out`. */
static size_t feed(struct echo *echo, const struct query_buffer *frames,
                   const unsigned char **out)
{
    echo->out.size = 0;
    for (size_t at = 0; at < frames->size;)
        at += query_http_feed(&echo->conn, frames->data + at, frames->size - at, &echo->out);
    *out = (const unsigned char *)echo->out.data;
    return echo->out.size;
}

static void expect_text(struct echo *echo, const struct query_buffer *frames, const char *want)
{
    const unsigned char *out;
    size_t size = feed(echo, frames, &out);
    cr_assert_eq(size, strlen(want) + 2, "%zu bytes", size);
    cr_expect_eq(out[0], 0x81);
    cr_expect_eq(memcmp(out + 2, want, strlen(want)), 0, "%.*s", (int)size - 2, out + 2);
}

#define HEALTH "{\"id\":1,\"method\":\"health\"}"
#define HEALTHY "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"

Test(websocket, a_message_whole_split_and_in_fragments)
{
    struct echo echo;
    struct query_buffer frames = QUERY_BUFFER_INIT;
    upgrade(&echo);
    frame(&frames, 0x81, HEALTH, 26);
    expect_text(&echo, &frames, HEALTHY);
    const unsigned char *out;
    size_t answers = 0;
    for (size_t i = 0; i < frames.size; i++) { /* a byte at a time */
        struct query_buffer one = QUERY_BUFFER_INIT;
        query_buffer_add(&one, frames.data + i, 1);
        answers += feed(&echo, &one, &out) > 0;
        query_buffer_clear(&one);
    }
    cr_expect_eq(answers, 1);
    frames.size = 0; /* three fragments with a ping between */
    frame(&frames, 0x01, HEALTH, 5);
    frame(&frames, 0x00, &HEALTH[5], 6);
    frame(&frames, 0x89, "hello", 5);
    frame(&frames, 0x80, &HEALTH[11], 15);
    size_t size = feed(&echo, &frames, &out);
    cr_assert_eq(size, 7 + 2 + strlen(HEALTHY));
    cr_expect_eq(memcmp(out, "\x8a\x05hello", 7), 0, "the pong comes first");
    query_buffer_clear(&frames);
    echo_stop(&echo);
}

/* Frames that end the connection, and the code it ends with. */
static const struct wrong {
    const char *bytes;
    size_t size;
    unsigned code;
} wrongs[] = {
    { "\x81\x01x", 3, 1002 },              /* not masked */
    { "\xc1\x80\0\0\0\0", 6, 1002 },       /* a reserved bit */
    { "\x82\x80\0\0\0\0", 6, 1003 },       /* binary */
    { "\x83\x80\0\0\0\0", 6, 1002 },       /* an unknown opcode */
    { "\x80\x80\0\0\0\0", 6, 1002 },       /* a continuation of nothing */
    { "\x09\x80\0\0\0\0", 6, 1002 },       /* a ping in fragments */
    { "\x89\xfe\0\x7e\0\0\0\0", 8, 1002 }, /* a long ping */
    { "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, 1009 }, /* 2^63 - 1 bytes */
    { "\x81\x81\0\0\0\0\xff", 7, 1007 },                              /* not UTF-8 */
    { "\x88\x81\0\0\0\0x", 7, 1002 },                                 /* a close of one byte */
    { "\x88\x80\0\0\0\0", 6, 1000 },                                  /* goodbye */
    { "\x88\x82\0\0\0\0\x03\xe9", 8, 1001 }, /* goodbye, with its code */
};

Test(websocket, wrong_frames_end_it_with_their_code)
{
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
        struct echo echo;
        const unsigned char *out;
        upgrade(&echo);
        struct query_buffer frames = QUERY_BUFFER_INIT;
        query_buffer_add(&frames, wrongs[i].bytes, wrongs[i].size);
        size_t size = feed(&echo, &frames, &out);
        cr_assert_geq(size, 4, "%zu", i);
        cr_expect_eq(out[0], 0x88, "%zu", i);
        cr_expect_eq((unsigned)(out[2] << 8 | out[3]), wrongs[i].code, "%zu", i);
        cr_expect_eq(echo.conn.phase, QUERY_HTTP_CLOSING);
        query_buffer_clear(&frames);
        echo_stop(&echo);
    }
}

Test(websocket, a_message_over_the_limit)
{
    struct echo echo;
    const unsigned char *out;
    struct query_buffer frames = QUERY_BUFFER_INIT;
    echo_start(&echo);
    echo.service.http.limits.body_size = 100;
    echo_feed(&echo, UPGRADE);
    char text[90];
    memset(text, 'x', sizeof(text));
    frame(&frames, 0x01, text, 90);
    cr_expect_eq(feed(&echo, &frames, &out), 0);
    cr_expect_gt(feed(&echo, &frames, &out), 4, "a second first fragment");
    cr_expect_eq(echo.conn.phase, QUERY_HTTP_CLOSING);
    query_buffer_clear(&frames);
    echo_stop(&echo);
}

Test(websocket, subscribing)
{
    static const char *const steps[][2] = {
        { "{\"id\":\"s\",\"method\":\"subscribe\",\"params\":{\"query\":\"tm.event='"
          "NewBlockHeader'\"}}",
          "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"result\":{}}" },
        { "{\"id\":2,\"method\":\"subscribe\",\"params\":{\"query\":\"tm.event='NewBlockHeader'"
          "\"}}",
          "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32603,\"message\":\"Internal "
          "error\",\"data\":\"already subscribed\"}}" },
        { "{\"id\":3,\"method\":\"unsubscribe_all\"}",
          "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}" },
        { "{\"id\":4,\"method\":\"unsubscribe_all\"}",
          "{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":-32603,\"message\":\"Internal "
          "error\",\"data\":\"subscription not found\"}}" },
        { "{\"id\":5,\"method\":\"subscribe\",\"params\":[\"tm.event = 'NewBlockHeader'\"]}",
          "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}" },
        { "[{\"id\":6,\"method\":\"health\"}]",
          "[{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}}]" },
    };
    struct echo echo;
    upgrade(&echo);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        struct query_buffer frames = QUERY_BUFFER_INIT;
        const unsigned char *out;
        frame(&frames, 0x81, steps[i][0], strlen(steps[i][0]));
        size_t size = feed(&echo, &frames, &out);
        size_t head = strlen(steps[i][1]) < 126 ? 2 : 4;
        cr_assert_eq(size, head + strlen(steps[i][1]), "%zu: %.*s", i, (int)size, out);
        cr_expect_eq(memcmp(out + head, steps[i][1], size - head), 0, "%zu: %.*s", i, (int)size,
                     out);
        query_buffer_clear(&frames);
    }
    cr_expect_eq(echo.subscriber.count, 1);
    cr_expect_not(query_service_refresh(&echo.service));
    echo.service.told = 10; /* as if versions 11 and 12 had come since */
    cr_expect(query_service_refresh(&echo.service));
    struct query_buffer events = QUERY_BUFFER_INIT;
    query_service_tell(&echo.service, &echo.subscriber, &events);
    query_buffer_add(&events, "", 1);
    const char *first = memmem(events.data, events.size, "\"height\":\"12\"", 13);
    const char *second = memmem(events.data, events.size, "\"height\":\"13\"", 13);
    cr_expect(first != NULL && second != NULL && first < second, "a header for each version");
    cr_expect_not_null(
        memmem(events.data, events.size, "\"id\":5,\"result\":{\"query\":\"tm.event = ", 36));
    query_buffer_clear(&events);
    echo_stop(&echo);
}

/* Ask over a WebSocket; true if the answer holds `want`. */
static bool told(struct echo *echo, const char *request, const char *want)
{
    struct query_buffer frames = QUERY_BUFFER_INIT;
    const unsigned char *out;
    frame(&frames, 0x81, request, strlen(request));
    size_t size = feed(echo, &frames, &out);
    query_buffer_clear(&frames);
    return size > 0 && memmem(out, size, want, strlen(want)) != NULL;
}

static bool subscribed(struct echo *echo, const char *query, const char *want)
{
    char request[512];
    snprintf(
        request, sizeof(request),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscribe\",\"params\":{\"query\":\"%s\"}}",
        query);
    return told(echo, request, want);
}

/* What CosmJS, hermes and relayers subscribe to, as they write it. */
Test(websocket, which_queries_can_be_subscribed_to)
{
    static const char *const good[] = {
        "tm.event='NewBlockHeader'",       "tm.event = 'NewBlockHeader'",
        " tm.event= 'NewBlockHeader' ",    "tm.event =\\\"NewBlockHeader\\\"",
        "tm.event\\t=\\n'NewBlockHeader'",
    };
    static const char *const bad[] = {
        "tm.event='NewBlock'",
        "tm.event = 'Tx'",
        "tm.event = 'NewBlockHeader' AND block.height > 5",
        "tm.event='NewBlockHeader' AND tm.event='NewBlock'",
        "message.module = 'ibc_client'",
        "tm.event='New BlockHeader'",
        "tm. event='NewBlockHeader'",
        "tm.event='NewBlockHeader",
        "",
    };
    struct echo echo;
    upgrade(&echo);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        cr_expect(subscribed(&echo, bad[i],
                             "only tm.event='NewBlockHeader' can be subscribed to, which tells "
                             "of each new version"),
                  "%s", bad[i]);
    cr_expect_eq(echo.subscriber.count, 0);
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        cr_expect(subscribed(&echo, good[i], "\"result\":{}"), "%s", good[i]);
    cr_expect_eq(echo.subscriber.count, QUERY_SUBSCRIPTIONS_MAX);
    cr_expect(subscribed(&echo, "tm.event  =  'NewBlockHeader'",
                         "max_subscriptions_per_client 5 reached"));
    cr_expect(told(&echo,
                   "{\"id\":2,\"method\":\"unsubscribe\",\"params\":{\"query\":\"tm.event = "
                   "'NewBlockHeader'\"}}",
                   "\"result\":{}"));
    cr_expect_eq(echo.subscriber.count, QUERY_SUBSCRIPTIONS_MAX - 1);
    cr_expect(subscribed(&echo, "tm.event  =  'NewBlockHeader'", "\"result\":{}"));
    cr_expect(told(&echo, "{\"id\":3,\"method\":\"unsubscribe_all\"}", "\"result\":{}"));
    cr_expect_eq(echo.subscriber.count, 0);
    echo_stop(&echo);
}

Test(websocket, only_where_it_belongs)
{
    struct echo echo;
    echo_start(&echo);
    cr_expect_eq(strncmp(echo_feed(&echo, "GET /websocket HTTP/1.1\r\nHost: h\r\n\r\n"),
                         "HTTP/1.1 400", 12),
                 0);
    cr_expect_eq(
        strncmp(echo_feed(&echo, "POST /websocket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade"
                                 "\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                                 "Content-Length: 0\r\n\r\n"),
                "HTTP/1.1 400", 12),
        0, "only GET upgrades");
    cr_expect_eq(
        strncmp(echo_feed(
                    &echo,
                    "GET /health HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                    "Upgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"),
                "HTTP/1.1 200", 12),
        0, "an offer of HTTP/2 is passed over");
    cr_expect_not_null(
        strstr(echo_post(&echo, "{\"id\":1,\"method\":\"subscribe\",\"params\":[\"x\"]}", 44),
               "-32601"));
    echo_stop(&echo);
}
