/* tls.c - OpenSSL between two memory buffers. */
#include "abci_query/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

struct query_tls {
    SSL_CTX *context;
};

struct query_tls_session {
    SSL *ssl;
    BIO *in, *out; /* the SSL's own */
};

static const char *last_error(void)
{
    unsigned long error = ERR_get_error();
    const char *text = error == 0 ? NULL : ERR_reason_error_string(error);
    ERR_clear_error();
    return text == NULL ? "unreadable" : text;
}

kv_code query_tls_new(const char *cert, const char *key, struct query_tls **out,
                      kv_status *status)
{
    *out = NULL;
    struct query_tls *tls = calloc(1, sizeof(*tls));
    if (tls != NULL)
        tls->context = SSL_CTX_new(TLS_server_method());
    if (tls == NULL || tls->context == NULL) {
        free(tls);
        return kv_fail(status, KV_NO_MEMORY, "no memory for TLS");
    }
    SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
    SSL_CTX_set_mode(tls->context, SSL_MODE_RELEASE_BUFFERS);
    kv_code code = KV_OK;
    if (SSL_CTX_use_certificate_chain_file(tls->context, cert) != 1)
        code = kv_fail(status, KV_INVALID, "query.tls_cert %s: %s", cert, last_error());
    else if (SSL_CTX_use_PrivateKey_file(tls->context, key, SSL_FILETYPE_PEM) != 1)
        code = kv_fail(status, KV_INVALID, "query.tls_key %s: %s", key, last_error());
    else if (SSL_CTX_check_private_key(tls->context) != 1)
        code = kv_fail(status, KV_INVALID, "query.tls_key %s is not the key of %s", key, cert);
    if (code != KV_OK) {
        query_tls_free(tls);
        return code;
    }
    *out = tls;
    return KV_OK;
}

void query_tls_free(struct query_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

struct query_tls_session *query_tls_session_new(struct query_tls *tls)
{
    struct query_tls_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return NULL;
    session->ssl = SSL_new(tls->context);
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (session->ssl == NULL || session->in == NULL || session->out == NULL) {
        BIO_free(session->in);
        BIO_free(session->out);
        SSL_free(session->ssl);
        free(session);
        return NULL;
    }
    SSL_set_bio(session->ssl, session->in, session->out);
    SSL_set_accept_state(session->ssl);
    return session;
}

void query_tls_session_free(struct query_tls_session *session)
{
    if (session == NULL)
        return;
    SSL_free(session->ssl);
    free(session);
}

static void collect(struct query_tls_session *session, struct query_buffer *wire)
{
    size_t waiting = BIO_ctrl_pending(session->out);
    if (waiting == 0 || waiting > INT_MAX || !query_buffer_reserve(wire, waiting))
        return;
    int count = BIO_read(session->out, wire->data + wire->size, (int)waiting);
    if (count > 0)
        wire->size += (size_t)count;
}

bool query_tls_take(struct query_tls_session *session, const char *data, size_t size,
                    struct query_buffer *plain, struct query_buffer *wire)
{
    enum { STEP = 16 << 10 };
    if (size > INT_MAX || BIO_write(session->in, data, (int)size) != (int)size)
        return false;
    bool alive = true;
    for (;;) {
        if (!query_buffer_reserve(plain, STEP)) {
            alive = false;
            break;
        }
        int count = SSL_read(session->ssl, plain->data + plain->size, STEP);
        if (count > 0) {
            plain->size += (size_t)count;
            continue;
        }
        int error = SSL_get_error(session->ssl, count);
        alive = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
        break;
    }
    ERR_clear_error();
    collect(session, wire);
    return alive && !wire->failed;
}

bool query_tls_seal(struct query_tls_session *session, const char *data, size_t size,
                    struct query_buffer *wire)
{
    enum { STEP = 1 << 20 };
    for (size_t at = 0; at < size;) {
        size_t step = size - at < STEP ? size - at : STEP;
        int count = SSL_write(session->ssl, data + at, (int)step);
        if (count <= 0) {
            ERR_clear_error();
            return false;
        }
        at += (size_t)count;
    }
    collect(session, wire);
    return !wire->failed;
}

void query_tls_end(struct query_tls_session *session, struct query_buffer *wire)
{
    SSL_shutdown(session->ssl);
    ERR_clear_error();
    collect(session, wire);
}
