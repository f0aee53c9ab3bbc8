/*
 * tls.h - TLS for the query service: OpenSSL over memory, so that the sockets
 * stay with the transport. Bytes in, bytes out.
 */
#ifndef ABCI_QUERY_TLS_H
#define ABCI_QUERY_TLS_H

#include "abci_query/buffer.h"

struct query_tls;         /* a server's certificate and key */
struct query_tls_session; /* one connection */

/* TLS 1.2 and up. KV_INVALID names the file at fault. */
KV_MUST_CHECK kv_code query_tls_new(const char *cert, const char *key, struct query_tls **out,
                                    kv_status *status);
void query_tls_free(struct query_tls *tls);

struct query_tls_session *query_tls_session_new(struct query_tls *tls); /* NULL: no memory */
void query_tls_session_free(struct query_tls_session *session);

/* Take bytes off the wire: what they say is appended to `plain`, what must be
 * sent in turn to `wire`. False: send `wire` and hang up. */
bool query_tls_take(struct query_tls_session *session, const char *data, size_t size,
                    struct query_buffer *plain, struct query_buffer *wire);
/* Append `data`, sealed, to `wire`. */
bool query_tls_seal(struct query_tls_session *session, const char *data, size_t size,
                    struct query_buffer *wire);
/* Append the goodbye. */
void query_tls_end(struct query_tls_session *session, struct query_buffer *wire);

#endif /* ABCI_QUERY_TLS_H */
