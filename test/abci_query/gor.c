/* gor.c - recordings: both header forms, torn ends, junk, and back again. */
#include "abci_query/gor.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define SEPARATOR QUERY_GOR_SEPARATOR
#define ONE                                                                       \
    "1 a1b2c3d4e5f6a1b2c3d4e5f6 1500000000000000000 -1\nGET / HTTP/1.1\r\nHost: " \
    "h\r\n\r\n" SEPARATOR
#define OLD \
    "1 a1b2c3d4e5f6a1b2c3d4e5f6 1500000000000000001\nGET /old HTTP/1.0\r\n\r\n" SEPARATOR
#define ANSWER \
    "2 a1b2c3d4e5f6a1b2c3d4e5f6 1500000000000000002 345678\nHTTP/1.1 200 OK\r\n\r\n" SEPARATOR

static enum query_gor_found next(kv_slice *rest, struct query_gor_record *out)
{
    return query_gor_next(rest, true, out);
}

Test(gor, records_of_both_ages)
{
    struct query_gor_record record;
    kv_slice rest = kv_text(ONE OLD ANSWER);
    cr_assert_eq(next(&rest, &record), QUERY_GOR_RECORD);
    cr_expect_eq(record.type, '1');
    cr_expect_eq(record.timestamp_ns, 1500000000000000000);
    cr_expect_eq(record.latency_ns, -1);
    cr_expect_eq(record.bytes.size, strlen("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert_eq(next(&rest, &record), QUERY_GOR_RECORD);
    cr_expect_eq(record.latency_ns, -1);
    cr_expect_eq(memcmp(record.bytes.data, "GET /old", 8), 0);
    cr_assert_eq(next(&rest, &record), QUERY_GOR_RECORD);
    cr_expect_eq(record.type, '2');
    cr_expect_eq(record.latency_ns, 345678);
    cr_expect_eq(next(&rest, &record), QUERY_GOR_END);
}

Test(gor, a_last_record_without_its_separator)
{
    struct query_gor_record record;
    kv_slice rest = kv_text(ONE "1 ff 5\nGET /last HTTP/1.1\r\n\r\n");
    cr_expect_eq(query_gor_next(&rest, false, &record), QUERY_GOR_RECORD);
    cr_expect_eq(query_gor_next(&rest, false, &record), QUERY_GOR_MORE);
    cr_expect_eq(query_gor_next(&rest, true, &record), QUERY_GOR_TORN);
    cr_expect_eq(record.bytes.size, strlen("GET /last HTTP/1.1\r\n\r\n"));
    cr_expect_eq(next(&rest, &record), QUERY_GOR_END);
}

/* What is left of a separator is none of the body's. */
Test(gor, a_last_record_cut_off_in_its_separator)
{
    static const char text[] = "1 ff 5\nGET /last HTTP/1.1\r\n\r\n" QUERY_GOR_SEPARATOR;
    size_t body = strlen("GET /last HTTP/1.1\r\n\r\n");
    size_t separator = sizeof(QUERY_GOR_SEPARATOR) - 1;
    for (size_t cut = 1; cut < separator; cut++) {
        struct query_gor_record record;
        kv_slice rest = kv_bytes(text, sizeof(text) - 1 - cut);
        cr_assert_eq(query_gor_next(&rest, true, &record), QUERY_GOR_TORN);
        /* A line break alone may be the body's. */
        cr_expect_eq(record.bytes.size, cut == separator - 1 ? body + 1 : body, "cut %zu", cut);
    }
}

Test(gor, every_cut_is_found_out)
{
    static const char text[] = ONE OLD ANSWER;
    for (size_t size = 0; size < sizeof(text) - 1; size++) {
        struct query_gor_record record;
        char *copy = malloc(size + 1); /* of its own size, for the sanitizer */
        memcpy(copy, text, size);
        kv_slice rest = kv_bytes(copy, size);
        size_t whole = 0;
        enum query_gor_found found;
        while ((found = query_gor_next(&rest, false, &record)) == QUERY_GOR_RECORD)
            whole++;
        cr_expect_eq(found, QUERY_GOR_MORE);
        cr_expect_eq(whole, (size_t)(size >= strlen(ONE)) + (size_t)(size >= strlen(ONE OLD)));
        free(copy);
    }
}

Test(gor, what_is_no_header_is_skipped)
{
    static const char *const headers[] = {
        "",
        "1",
        "1 a",
        "4 a 5",
        "0 a 5",
        "11 a 5",
        "1 a x",
        "1 a -5",
        "1 a 5 x",
        "1 a 5 6 7",
        "1  5",
        "1 a 99999999999999999999",
        "1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 5",
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
        struct query_gor_record record;
        struct query_buffer text = QUERY_BUFFER_INIT;
        query_buffer_text(&text, headers[i]);
        query_buffer_literal(&text, "\nGET / HTTP/1.1\r\n\r\n" SEPARATOR ONE);
        kv_slice rest = kv_bytes(text.data, text.size);
        cr_expect_eq(next(&rest, &record), QUERY_GOR_MALFORMED, "%s", headers[i]);
        cr_expect_eq(next(&rest, &record), QUERY_GOR_RECORD, "%s", headers[i]);
        query_buffer_clear(&text);
    }
}

Test(gor, there_and_back)
{
    char body[700];
    struct query_buffer text = QUERY_BUFFER_INIT;
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)(i * 7);
    for (size_t size = 0; size < sizeof(body); size += 23) {
        struct query_gor_record in = { '3', kv_text("0123456789abcdef01234567"),
                                       1234567890123456789, (int64_t)size - 1,
                                       kv_bytes(body, size) },
                                out;
        text.size = 0;
        query_gor_write(&text, &in);
        kv_slice rest = kv_bytes(text.data, text.size);
        cr_assert_eq(next(&rest, &out), QUERY_GOR_RECORD);
        cr_expect_eq(rest.size, 0);
        cr_expect_eq(out.type, in.type);
        cr_expect_eq(out.timestamp_ns, in.timestamp_ns);
        cr_expect_eq(out.latency_ns, in.latency_ns);
        cr_assert_eq(out.bytes.size, size);
        cr_expect(size == 0 || memcmp(out.bytes.data, body, size) == 0);
    }
    query_buffer_clear(&text);
}
