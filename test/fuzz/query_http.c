/* query_http.c - a connection's bytes, twice, whole and in pieces: the answers must be the
 * same. Only whole, the second time may find its head known from the first. */
#include "test/abci_query/echo.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed(struct echo *echo, const uint8_t *data, size_t size, size_t step,
                 struct query_buffer *answers)
{
    for (size_t at = 0; at < size; at += step) {
        echo->in.size = echo->out.size = 0;
        query_buffer_add(&echo->in, data + at, size - at < step ? size - at : step);
        for (size_t taken = 0; taken < echo->in.size;) {
            size_t more = query_http_feed(&echo->conn, echo->in.data + taken,
                                          echo->in.size - taken, &echo->out);
            if (more == 0)
                abort();
            taken += more;
        }
        query_buffer_add(answers, echo->out.data, echo->out.size);
    }
}

/* 100 Continue depends on what has come when the head ends: leave it out. */
static void drop_continues(struct query_buffer *text)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    for (char *at; text->size > 0 &&
                   (at = memmem(text->data, text->size, line, sizeof(line) - 1)) != NULL;) {
        size_t rest = text->size - (size_t)(at - text->data) - (sizeof(line) - 1);
        memmove(at, at + sizeof(line) - 1, rest);
        text->size -= sizeof(line) - 1;
    }
}

/* A head that is too large and damaged too is refused for what is seen first, which depends
 * on the pieces: which of the two is told does not count, nor what was sent with it. */
static void cut_refusal(struct query_buffer *text)
{
    static const char *const lines[] = { "HTTP/1.1 400 ", "HTTP/1.1 431 " };
    for (size_t i = 0; i < 2; i++) {
        const char *at =
            text->size == 0 ? NULL : memmem(text->data, text->size, lines[i], strlen(lines[i]));
        if (at != NULL)
            text->size = (size_t)(at - text->data) + strlen("HTTP/1.1 4");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct query_buffer first = QUERY_BUFFER_INIT, second = QUERY_BUFFER_INIT;
    static const size_t steps[] = { 1 << 20, 7 };
    for (size_t i = 0; i < 2; i++) {
        struct echo echo;
        echo_start(&echo);
        echo.service.http.limits.body_size = 4096;
        echo.service.http.limits.header_size = 1024;
        echo.service.http.cors_origins = "*";
        echo.service.http.limits.gzip_size = 512;
        for (size_t round = 0; round < 2; round++)
            feed(&echo, data, size, steps[i], i == 0 ? &first : &second);
        echo_stop(&echo);
    }
    drop_continues(&first);
    drop_continues(&second);
    cut_refusal(&first);
    cut_refusal(&second);
    if (first.size != second.size ||
        (first.size > 0 && memcmp(first.data, second.data, first.size) != 0))
        abort();
    query_buffer_clear(&first);
    query_buffer_clear(&second);
    return 0;
}
