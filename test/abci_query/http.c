/* http.c - framing: what arrives in pieces, together, wrong or too large. */
#include "test/abci_query/echo.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define POST(body, length)                                                                    \
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " length \
    "\r\n\r\n" body
#define HEALTH "{\"id\":1,\"method\":\"health\"}" /* 28 bytes */
#define HEALTH_REQUEST POST(HEALTH, "26")
#define GET "GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
#define HEAD "HEAD /status HTTP/1.1\r\nHost: h\r\n\r\n"

/* The bodies of all answers in `text`, in order, joined by spaces. */
static char *bodies(const char *text)
{
    static char out[1 << 20];
    size_t size = 0;
    while (*text != '\0') {
        const char *head_end = strstr(text, "\r\n\r\n"),
                   *length = strstr(text, "Content-Length: ");
        cr_assert_not_null(head_end, "no head in: %s", text);
        size_t count = length != NULL && length < head_end ? strtoul(length + 16, NULL, 10) : 0;
        if (strstr(text, "HTTP/1.1 100") == text)
            count = 0;
        memcpy(out + size, head_end + 4, count);
        size += count;
        out[size++] = ' ';
        text = head_end + 4 + count;
    }
    out[size] = '\0';
    return out;
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

Test(http, two_requests_in_one_segment)
{
    struct echo echo;
    echo_start(&echo);
    const char *out = echo_feed(&echo, HEALTH_REQUEST GET);
    cr_expect_eq(count_of(out, "HTTP/1.1 200 OK"), 2, "%s", out);
    cr_expect_str_eq(bodies(out), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}} "
                                  "{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":{}} ");
    echo_stop(&echo);
}

Test(http, split_at_every_byte)
{
    static const char text[] = HEALTH_REQUEST HEAD GET HEALTH_REQUEST;
    for (size_t at = 1; at < sizeof(text) - 1; at++) {
        struct echo echo;
        char *whole;
        echo_start(&echo);
        char first[1024];
        memcpy(first, text, at);
        first[at] = '\0';
        whole = strdup(echo_feed(&echo, first));
        const char *rest = echo_feed(&echo, text + at);
        whole = realloc(whole, strlen(whole) + strlen(rest) + 1);
        strcat(whole, rest);
        cr_assert_eq(count_of(whole, "HTTP/1.1 200 OK"), 4, "split at %zu: %s", at, whole);
        cr_assert_eq(count_of(whole, "\"result\":{}"), 3, "HEAD has no body: %s", whole);
        free(whole);
        echo_stop(&echo);
    }
}

Test(http, a_byte_at_a_time_and_a_hundred_at_once)
{
    struct echo echo;
    echo_start(&echo);
    static const char text[] = HEALTH_REQUEST;
    size_t answers = 0;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        char one[2] = { text[i], '\0' };
        answers += count_of(echo_feed(&echo, one), "HTTP/1.1 200 OK");
    }
    cr_expect_eq(answers, 1);
    struct query_buffer many = QUERY_BUFFER_INIT;
    for (int i = 0; i < 100; i++)
        query_buffer_literal(&many, GET);
    query_buffer_add(&many, "", 1);
    cr_expect_eq(count_of(echo_feed(&echo, many.data), "HTTP/1.1 200 OK"), 100);
    query_buffer_clear(&many);
    echo_stop(&echo);
}

/* A node that embeds the service may have set a locale with days and months of its own. */
Test(http, dates_know_no_locale)
{
    char dir[] = "/tmp/statekv-locale-XXXXXX", command[256];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(command, sizeof(command),
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", dir);
    int made = system(command); /* NOLINT(cert-env33-c): a fixed command */
    setenv("LOCPATH", dir, 1);
    bool there = made == 0 && setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    made = system(command); /* NOLINT(cert-env33-c) */
    if (!there)
        cr_skip_test("no German locale can be made here");
    struct echo echo;
    echo_start(&echo);
    echo.service.http.now = 1000000001;
    const char *out = echo_feed(&echo, GET);
    cr_expect_not_null(strstr(out, "\r\nDate: Sun, 09 Sep 2001 01:46:41 GMT\r\n"), "%s", out);
    echo.service.http.now = 1764547200;
    out = echo_feed(&echo, GET);
    cr_expect_not_null(strstr(out, "\r\nDate: Mon, 01 Dec 2025 00:00:00 GMT\r\n"), "%s", out);
    echo_stop(&echo);
}

/* What is not parsed again because its head is the last one's is answered all the same. */
Test(http, a_head_that_comes_again)
{
    struct echo echo;
    echo_start(&echo);
    static const char second[] = POST("{\"id\":2,\"method\":\"health\"}", "26");
    const char *of_first = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}} ";
    const char *of_second = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}} ";
    const char *of_get = "{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":{}} ";
    char want[512];
    cr_expect_str_eq(bodies(echo_feed(&echo, HEALTH_REQUEST)), of_first);
    cr_expect_gt(echo.conn.seen.size, 0, "the head was not kept");
    cr_expect_str_eq(bodies(echo_feed(&echo, second)), of_second);
    snprintf(want, sizeof(want), "%s%s%s%s", of_second, of_first, of_get, of_second);
    cr_expect_str_eq(
        bodies(echo_feed(
            &echo, POST("{\"id\":2,\"method\":\"health\"}", "26")
                       HEALTH_REQUEST GET POST("{\"id\":2,\"method\":\"health\"}", "26"))),
        want);
    cr_expect_str_eq(bodies(echo_feed(&echo, GET)), of_get);
    cr_expect_str_eq(bodies(echo_feed(&echo, second)), of_second);

    /* The same but for its length's last digit, then one that is cut anywhere. */
    cr_expect_str_eq(bodies(echo_feed(&echo, POST("{\"id\":1,\"method\":\"health\"} ", "27"))),
                     of_first);
    for (size_t at = 1; at < sizeof(second) - 1; at++) {
        char begin[sizeof(second)];
        memcpy(begin, second, at);
        begin[at] = '\0';
        cr_assert_str_eq(bodies(echo_feed(&echo, second)), of_second);
        cr_assert_str_eq(echo_feed(&echo, begin), "", "answered at %zu", at);
        cr_assert_str_eq(bodies(echo_feed(&echo, second + at)), of_second);
    }
    echo.service.http.draining = true; /* the last answer says that it is the last */
    cr_expect_str_eq(bodies(echo_feed(&echo, second)), of_second);
    cr_expect_not_null(strstr(echo.out.data, "Connection: close"));
    cr_expect_eq(echo.conn.phase, QUERY_HTTP_CLOSING);
    echo_stop(&echo);
}

/* Heads that say more than how long their body is are parsed each time. */
Test(http, heads_that_are_not_kept)
{
    static const char *const heads[] = {
        "Transfer-Encoding: chunked\r\n\r\n1a\r\n" HEALTH "\r\n0\r\n\r\n",
        "Content-Length: 26\r\nExpect: 100-continue\r\n\r\n" HEALTH,
        "Content-Length: 26\r\nConnection: close\r\n\r\n" HEALTH,
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct echo echo;
        char text[256];
        echo_start(&echo);
        snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: h\r\n%s", heads[i]);
        cr_expect_eq(count_of(echo_feed(&echo, text), "HTTP/1.1 200 OK"), 1, "%s", text);
        cr_expect_eq(echo.conn.seen.size, 0, "%s", text);
        echo_stop(&echo);
    }
}

Test(http, chunked_bodies)
{
    struct echo echo;
    echo_start(&echo);
    const char *out =
        echo_feed(&echo, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "5\r\n{\"id\"\r\n15\r\n:1,\"method\":\"health\"}\r\n0\r\n\r\n" GET);
    cr_expect_eq(count_of(out, "HTTP/1.1 200 OK"), 2, "%s", out);
    echo_stop(&echo);
}

Test(http, expect_100_continue)
{
    struct echo echo;
    echo_start(&echo);
    const char *head =
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\nExpect: 100-continue\r\n\r\n";
    cr_expect_str_eq(echo_feed(&echo, head), "HTTP/1.1 100 Continue\r\n\r\n");
    cr_expect_eq(count_of(echo_feed(&echo, HEALTH), "HTTP/1.1 200 OK"), 1);
    echo_stop(&echo);

    echo_start(&echo); /* too large is said before the body is sent */
    const char *out =
        echo_feed(&echo, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\nExpect: "
                         "100-continue\r\n\r\n");
    cr_expect_eq(count_of(out, "HTTP/1.1 400"), 1, "%s", out);
    cr_expect_eq(count_of(out, "100 Continue"), 0);
    echo_stop(&echo);

    echo_start(&echo);
    cr_expect_eq(count_of(echo_feed(&echo, "GET / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n"),
                          "HTTP/1.1 417"),
                 1);
    echo_stop(&echo);
}

/* Requests whose framing is unsure, or that are no requests: an error, and the end. */
static const struct wrong {
    const char *text, *status;
} wrongs[] = {
    { "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\nTransfer-Encoding: chunked\r\n\r\n",
      "400" },
    { "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\nContent-Length: 27\r\n\r\n", "400" },
    { "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", "400" },
    { "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1x\r\n\r\n", "400" },
    { "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", "400" },
    { "GET / HTTP/1.1\r\nHost : h\r\n\r\n", "400" },
    { "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400" },
    { "GET / HTTP/1.1\r\n\r\n", "400" },
    { "garbage\r\n\r\n", "" },
    { "CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n", "405" },
    { "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n", "400" },
    { "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
      "400" },
    { "\x16\x03\x01\x02\x00\x01", "" },
};

Test(http, unsure_framing_ends_the_connection)
{
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
        struct echo echo;
        echo_start(&echo);
        const char *out = echo_feed(&echo, wrongs[i].text);
        cr_expect_eq(strncmp(out, "HTTP/1.1 ", 9), 0, "%zu: %s", i, out);
        cr_expect(strncmp(out + 9, wrongs[i].status, strlen(wrongs[i].status)) == 0, "%zu: %s",
                  i, out);
        cr_expect_not_null(strstr(out, "Connection: close"), "%zu", i);
        cr_expect_eq(echo.conn.phase, QUERY_HTTP_CLOSING, "%zu", i);
        cr_expect_str_eq(echo_feed(&echo, GET), "", "%zu: nothing more is answered", i);
        echo_stop(&echo);
    }
}

Test(http, limits_of_heads_and_bodies)
{
    struct echo echo;
    struct query_buffer text = QUERY_BUFFER_INIT;
    echo_start(&echo);
    query_buffer_literal(&text, "GET /health HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 150; i++)
        query_buffer_format(&text, "X-Header-%d: value\r\n", i);
    query_buffer_add(&text, "\r\n", 3);
    cr_expect_eq(count_of(echo_feed(&echo, text.data), "HTTP/1.1 200"), 1);
    echo_stop(&echo);

    echo_start(&echo); /* one header more than 256 */
    text.size = 0;
    query_buffer_literal(&text, "GET /health HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 257; i++)
        query_buffer_format(&text, "X: %d\r\n", i);
    query_buffer_add(&text, "\r\n", 3);
    cr_expect_eq(count_of(echo_feed(&echo, text.data), "HTTP/1.1 431"), 1);
    echo_stop(&echo);

    echo_start(&echo); /* a header that never ends */
    text.size = 0;
    query_buffer_literal(&text, "GET /health HTTP/1.1\r\nHost: h\r\nX: ");
    for (int i = 0; i < 70000; i++)
        query_buffer_literal(&text, "x");
    query_buffer_add(&text, "", 1);
    cr_expect_eq(count_of(echo_feed(&echo, text.data), "HTTP/1.1 431"), 1);
    echo_stop(&echo);

    echo_start(&echo); /* a chunked body over the limit */
    text.size = 0;
    query_buffer_literal(&text,
                         "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; i++)
        query_buffer_literal(&text, "10\r\n0123456789abcdef\r\n");
    query_buffer_add(&text, "", 1);
    echo.service.http.limits.body_size = 1000;
    const char *out = echo_feed(&echo, text.data);
    cr_expect_eq(count_of(out, "HTTP/1.1 400"), 1, "%s", out);
    cr_expect_not_null(strstr(out, "request body too large"));
    query_buffer_clear(&text);
    echo_stop(&echo);
}

Test(http, methods)
{
    struct echo echo;
    echo_start(&echo);
    const char *out = echo_feed(&echo, "HEAD /status HTTP/1.1\r\nHost: h\r\n\r\n" GET);
    const char *second = strstr(out + 1, "HTTP/1.1 200 OK");
    cr_assert_not_null(second, "%s", out);
    cr_expect_eq(strncmp(second - 4, "\r\n\r\n", 4), 0, "HEAD has no body");
    cr_expect(strtoul(strstr(out, "Content-Length: ") + 16, NULL, 10) > 100);

    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = { "PUT", "DELETE", "TRACE" };
        char text[128];
        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: h\r\n\r\n", names[i]);
        out = echo_feed(&echo, text);
        cr_expect_eq(strncmp(out, "HTTP/1.1 405", 12), 0, "%s", out);
        cr_expect_not_null(strstr(out, "Allow: GET, HEAD, OPTIONS, POST"));
    }
    out = echo_feed(&echo, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\n\r\n" HEALTH);
    cr_expect_not_null(strstr(out, "\"result\":{}"), "a GET may have a body");
    char *name = malloc(5100);
    memset(name, 'A', 5000);
    snprintf(name + 5000, 100, " / HTTP/1.1\r\nHost: h\r\n\r\n");
    out = echo_feed(&echo, name);
    cr_expect(strncmp(out, "HTTP/1.1 4", 10) == 0 || strncmp(out, "HTTP/1.1 501", 12) == 0,
              "%s", out);
    free(name);
    echo_stop(&echo);
}

Test(http, preflight)
{
    static const char ask[] = "OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://a.example\r\n"
                              "Access-Control-Request-Method: POST\r\n\r\n";
    struct echo echo;
    echo_start(&echo);
    const char *out = echo_feed(&echo, ask);
    cr_expect_eq(strncmp(out, "HTTP/1.1 204", 12), 0, "%s", out);
    cr_expect_null(strstr(out, "Access-Control"), "off by default");
    cr_expect_null(strstr(out, "Content-Length"));

    echo.service.http.cors_origins = "https://b.example, https://a.example";
    out = echo_feed(&echo, ask);
    cr_expect_not_null(strstr(out, "Access-Control-Allow-Origin: https://a.example\r\n"), "%s",
                       out);
    cr_expect_not_null(strstr(out, "Access-Control-Allow-Methods: HEAD, GET, POST\r\n"));
    cr_expect_eq(count_of(out, "Access-Control-Allow-Origin"), 1);
    out = echo_feed(&echo,
                    "GET /health HTTP/1.1\r\nHost: h\r\nOrigin: https://a.example\r\n\r\n");
    cr_expect_not_null(strstr(out, "Access-Control-Allow-Origin: https://a.example\r\n"));
    out = echo_feed(&echo,
                    "GET /health HTTP/1.1\r\nHost: h\r\nOrigin: https://evil.example\r\n\r\n");
    cr_expect_null(strstr(out, "Access-Control"));
    echo_stop(&echo);
}

Test(http, keep_alive_follows_version_and_wish)
{
    struct echo echo;
    echo_start(&echo);
    const char *out = echo_feed(&echo, "GET /health HTTP/1.0\r\n\r\n");
    cr_expect_not_null(strstr(out, "Connection: close"), "%s", out);
    cr_expect_eq(echo.conn.phase, QUERY_HTTP_CLOSING);
    echo_stop(&echo);
    echo_start(&echo);
    out = echo_feed(&echo, "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    cr_expect_not_null(strstr(out, "Connection: keep-alive"), "%s", out);
    out = echo_feed(&echo, "GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" GET);
    cr_expect_eq(count_of(out, "HTTP/1.1 200"), 1, "nothing after the last");
    echo_stop(&echo);
}

Test(http, gzip_when_asked_and_worth_it)
{
    struct echo echo;
    echo_start(&echo);
    echo.service.http.limits.gzip_size = 64;
    size_t size = 0;
    const char *out = echo_feed_bytes(
        &echo, "GET /status HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br, gzip;q=1\r\n\r\n",
        &size);
    const char *body = memmem(out, size, "\r\n\r\n", 4);
    cr_assert_not_null(strstr(out, "Content-Encoding: gzip"));
    body += 4;
    char plain[8192] = "";
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)body,
                        .avail_in = (uInt)(size - (size_t)(body - out)) };
    inflateInit2(&stream, 15 + 16);
    stream.next_out = (Bytef *)plain;
    stream.avail_out = sizeof(plain) - 1;
    cr_expect_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    inflateEnd(&stream);
    cr_expect_not_null(strstr(plain, "\"latest_app_hash\""));
    cr_expect_null(strstr(echo_feed(&echo, "GET /status HTTP/1.1\r\nHost: h\r\n\r\n"), "gzip"));
    echo_stop(&echo);
}

Test(http, output_that_grows_long_pauses_the_input)
{
    struct echo echo;
    echo_start(&echo);
    struct query_buffer many = QUERY_BUFFER_INIT, out = QUERY_BUFFER_INIT;
    for (int i = 0; i < 5000; i++)
        query_buffer_literal(&many, GET);
    query_buffer_reserve(&many, 64);
    size_t taken = query_http_feed(&echo.conn, many.data, many.size, &out);
    cr_expect_lt(taken, many.size);
    cr_expect_lt(out.size, (size_t)QUERY_HTTP_OUT_PAUSE + 4096);
    while (taken < many.size) {
        size_t more =
            query_http_feed(&echo.conn, many.data + taken, many.size - taken, &echo.out);
        cr_assert_gt(more, 0);
        taken += more;
        query_buffer_add(&out, echo.out.data, echo.out.size);
        echo.out.size = 0;
    }
    query_buffer_add(&out, "", 1);
    cr_expect_eq(count_of(out.data, "HTTP/1.1 200 OK"), 5000);
    query_buffer_clear(&many);
    query_buffer_clear(&out);
    echo_stop(&echo);
}
