/*
 * websocket.h - RFC 6455 frames, the server's side: bytes in, bytes out.
 * Extensions are not negotiated.
 */
#ifndef ABCI_QUERY_WEBSOCKET_H
#define ABCI_QUERY_WEBSOCKET_H

#include "abci_query/buffer.h"

enum {
    QUERY_WEBSOCKET_TEXT = 1,
    QUERY_WEBSOCKET_BINARY = 2,
    QUERY_WEBSOCKET_CLOSE = 8,
    QUERY_WEBSOCKET_PING = 9,
    QUERY_WEBSOCKET_PONG = 10,
    QUERY_WEBSOCKET_HEAD_MAX = 14, /* bytes of a frame's head */
    QUERY_WEBSOCKET_CONTROL_MAX = 125
};

struct query_websocket {
    size_t message_max;
    unsigned char head[QUERY_WEBSOCKET_HEAD_MAX];
    size_t head_size;
    uint64_t left; /* payload bytes of the current frame still to come */
    size_t masked; /* payload bytes of it unmasked so far */
    bool in_frame, in_message, closed;
    struct query_buffer message; /* gathered over its fragments */
    unsigned char control[QUERY_WEBSOCKET_CONTROL_MAX];
    size_t control_size;
};

void query_websocket_init(struct query_websocket *ws, size_t message_max);
void query_websocket_clear(struct query_websocket *ws);

/* Called with each whole text message; may append frames to `out`. */
typedef void (*query_websocket_message)(void *context, kv_slice message,
                                        struct query_buffer *out);

/* Take bytes; answers to pings and closes, and whatever `on_message` writes, go to
 * `out`. False: closed, send `out` and hang up. */
bool query_websocket_feed(struct query_websocket *ws, const char *data, size_t size,
                          query_websocket_message on_message, void *context,
                          struct query_buffer *out);

/* Append one unmasked frame. */
void query_websocket_frame(struct query_buffer *out, unsigned opcode, kv_slice payload);
/* Append a close frame. */
void query_websocket_close(struct query_buffer *out, unsigned code, const char *reason);
/* The Sec-WebSocket-Accept for a Sec-WebSocket-Key. */
void query_websocket_accept(kv_slice key, struct query_buffer *out);

#endif /* ABCI_QUERY_WEBSOCKET_H */
