/* stream.c - the libuv parts that the server and the runner share. */
#include "reconnect/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

kv_code stream_address(const char *text, char host[256], char port[16], kv_status *status)
{
    const char *at = strncmp(text, "tcp://", 6) == 0 ? text + 6 : text;
    const char *colon = strrchr(at, ':');
    size_t size = colon == NULL ? 0 : (size_t)(colon - at);
    if (colon == NULL || size == 0 || size > 255 || colon[1] == '\0' || strlen(colon + 1) > 5 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return kv_fail(status, KV_INVALID, "address '%s' is not tcp://HOST:PORT or HOST:PORT",
                       text);
    bool brackets = size > 2 && at[0] == '[' && at[size - 1] == ']';
    at += brackets ? 1 : 0;
    size -= brackets ? 2 : 0;
    memcpy(host, at, size);
    host[size] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return KV_OK;
}

kv_code stream_send(struct stream *stream, kv_slice bytes, size_t *sent, uv_write_cb done)
{
    *sent = 0;
    if (stream->chunk != NULL || bytes.size == 0)
        return KV_OK;
    /* uv_buf_t has no const; the bytes are only read. */
    uv_buf_t buffer;
    memcpy(&buffer.base, &bytes.data, sizeof(buffer.base));
    buffer.len = bytes.size;
    int wrote = uv_try_write(&stream->uv.stream, &buffer, 1);
    if (wrote < 0 && wrote != UV_EAGAIN)
        return KV_IO;
    *sent = wrote < 0 ? 0 : (size_t)wrote;
    size_t left = bytes.size - *sent;
    if (left == 0)
        return KV_OK;

    size_t size = left < STREAM_CHUNK_SIZE ? left : STREAM_CHUNK_SIZE;
    stream->chunk = malloc(size);
    if (stream->chunk == NULL)
        return KV_NO_MEMORY;
    memcpy(stream->chunk, (const char *)bytes.data + *sent, size);
    buffer = uv_buf_init(stream->chunk, (unsigned)size);
    if (uv_write(&stream->write, &stream->uv.stream, &buffer, 1, done) != 0) {
        free(stream->chunk);
        stream->chunk = NULL;
        return KV_IO;
    }
    *sent += size;
    return KV_OK;
}

void stream_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)suggested;
    /* The handle is the stream's first member. */
    struct stream *stream = (struct stream *)(void *)handle;
    *buffer = uv_buf_init(stream->buffer, sizeof(stream->buffer));
}

kv_code stream_adopt(uv_loop_t *loop, struct stream *stream, int fd, kv_status *status)
{
    int domain = 0;
    socklen_t size = sizeof(domain);
    int error = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ? UV_EINVAL : 0;
    if (error == 0 && domain == AF_UNIX) {
        error = uv_pipe_init(loop, &stream->uv.pipe, 0);
        if (error == 0)
            error = uv_pipe_open(&stream->uv.pipe, fd);
    } else if (error == 0) {
        error = uv_tcp_init(loop, &stream->uv.tcp);
        if (error == 0)
            error = uv_tcp_open(&stream->uv.tcp, fd);
    }
    if (error != 0)
        return kv_fail(status, KV_IO, "socket %d: %s", fd, uv_strerror(error));
    return KV_OK;
}

void stream_block_pipe(sigset_t *before)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, before);
}

void stream_unblock_pipe(const sigset_t *before)
{
    sigset_t pipe;
    const struct timespec now = { 0, 0 };
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    /* One that came meanwhile must not be delivered late. */
    if (sigismember(before, SIGPIPE) == 0)
        while (sigtimedwait(&pipe, NULL, &now) > 0)
            continue;
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int64_t stream_now_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}
