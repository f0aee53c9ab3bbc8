/* echo.h - a service without sockets over an application that echoes its queries. */
#ifndef TEST_ABCI_QUERY_ECHO_H
#define TEST_ABCI_QUERY_ECHO_H

#include "abci_query/service.h"

struct echo {
    struct query_service service;
    struct query_http_conn conn;
    struct query_subscriber subscriber;
    struct query_buffer in, out;
};

/* Answers path|hex data|height|prove at height 12; the path "/fail" fails. The newest
 * version is the number `context` points to, 12 when it is NULL. */
query_app echo_app(uint64_t *context);

void echo_start(struct echo *echo);
void echo_stop(struct echo *echo);

/* Feed text; the answers, as a text that lasts until the next feed. */
const char *echo_feed(struct echo *echo, const char *text);
/* Feed text; answers that may hold any byte. */
const char *echo_feed_bytes(struct echo *echo, const char *text, size_t *size);

/* POST `body` to "/"; the body of the answer. */
const char *echo_post(struct echo *echo, const char *body, size_t size);
/* GET `url`; the body of the answer. */
const char *echo_get(struct echo *echo, const char *url);

#endif /* TEST_ABCI_QUERY_ECHO_H */
