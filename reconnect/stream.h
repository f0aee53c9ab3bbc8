/* stream.h - what both ends of the transport share: addresses, bytes out. */
#ifndef RECONNECT_STREAM_H
#define RECONNECT_STREAM_H

#include "kv/kv.h"

#include <signal.h>
#include <uv.h>

enum { STREAM_READ_SIZE = 64 << 10, STREAM_CHUNK_SIZE = 256 << 10 };

/* A connection: TCP, or a socket that was given. */
struct stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    uv_write_t write;
    char *chunk; /* being written; NULL: none */
    bool reading, closing;
    char buffer[STREAM_READ_SIZE];
};

/* Split "tcp://HOST:PORT" or "HOST:PORT". KV_INVALID. */
KV_MUST_CHECK kv_code stream_address(const char *text, char host[256], char port[16],
                                     kv_status *status);

/*
 * Send some of `bytes`; `*sent` gets how many are taken over. When less than all
 * are, `done` is called once there is room again. KV_IO: the connection is lost.
 */
KV_MUST_CHECK kv_code stream_send(struct stream *stream, kv_slice bytes, size_t *sent,
                                  uv_write_cb done);

/* Read into the stream's own buffer. */
void stream_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer);

/* Open `fd` as `stream`. */
KV_MUST_CHECK kv_code stream_adopt(uv_loop_t *loop, struct stream *stream, int fd,
                                   kv_status *status);

/* A peer that hung up is an error of the write, not a signal: keep SIGPIPE from
 * this thread, and let go as it was before. */
void stream_block_pipe(sigset_t *before);
void stream_unblock_pipe(const sigset_t *before);

/* Microseconds of a steady clock. */
int64_t stream_now_us(void);

#endif /* RECONNECT_STREAM_H */
