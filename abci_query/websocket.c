/* websocket.c - frames, their masks and their rules. */
#include "abci_query/websocket.h"

#include "abci_query/json.h"

#include <nettle/sha1.h>

enum {
    CODE_NORMAL = 1000,
    CODE_PROTOCOL = 1002,
    CODE_UNSUPPORTED = 1003,
    CODE_NOT_UTF8 = 1007,
    CODE_TOO_BIG = 1009,
    MESSAGE_KEEP = 4096
};

void query_websocket_init(struct query_websocket *ws, size_t message_max)
{
    *ws = (struct query_websocket){ .message_max = message_max };
}

void query_websocket_clear(struct query_websocket *ws)
{
    query_buffer_clear(&ws->message);
}

void query_websocket_frame(struct query_buffer *out, unsigned opcode, kv_slice payload)
{
    unsigned char head[10] = { (unsigned char)(0x80 | opcode) };
    size_t size = 2;
    if (payload.size < 126) {
        head[1] = (unsigned char)payload.size;
    } else {
        size_t bytes = payload.size <= 0xffff ? 2 : 8;
        head[1] = bytes == 2 ? 126 : 127;
        for (size_t i = 0; i < bytes; i++)
            head[2 + i] = (unsigned char)((uint64_t)payload.size >> (8 * (bytes - 1 - i)));
        size += bytes;
    }
    query_buffer_add(out, head, size);
    query_buffer_slice(out, payload);
}

void query_websocket_close(struct query_buffer *out, unsigned code, const char *reason)
{
    char payload[QUERY_WEBSOCKET_CONTROL_MAX];
    size_t size = strlen(reason);
    if (size > sizeof(payload) - 2)
        size = sizeof(payload) - 2;
    payload[0] = (char)(code >> 8);
    payload[1] = (char)(code & 0xff);
    memcpy(payload + 2, reason, size); /* NOLINT(bugprone-not-null-terminated-result) */
    query_websocket_frame(out, QUERY_WEBSOCKET_CLOSE, kv_bytes(payload, size + 2));
}

void query_websocket_accept(kv_slice key, struct query_buffer *out)
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    struct sha1_ctx sha1;
    uint8_t digest[SHA1_DIGEST_SIZE];
    sha1_init(&sha1);
    sha1_update(&sha1, key.size, key.data);
    sha1_update(&sha1, sizeof(guid) - 1, (const uint8_t *)guid);
    sha1_digest(&sha1, sizeof(digest), digest);
    query_buffer_base64(out, kv_bytes(digest, sizeof(digest)));
}

/* Close for a fault; always false. */
static bool fail(struct query_websocket *ws, struct query_buffer *out, unsigned code,
                 const char *reason)
{
    ws->closed = true;
    query_websocket_close(out, code, reason);
    return false;
}

/* How many bytes the head has, as far as its first two tell. */
static size_t head_needed(const struct query_websocket *ws)
{
    if (ws->head_size < 2)
        return 2;
    unsigned size = ws->head[1] & 0x7f;
    return 2 + (size == 126 ? 2u : size == 127 ? 8u : 0u) + 4u; /* clients always mask */
}

static bool is_control(unsigned opcode)
{
    return opcode >= QUERY_WEBSOCKET_CLOSE;
}

/* Check a whole head and enter its frame. */
static bool enter_frame(struct query_websocket *ws, struct query_buffer *out)
{
    unsigned opcode = ws->head[0] & 0x0f, size = ws->head[1] & 0x7f;
    bool final = (ws->head[0] & 0x80) != 0;
    ws->left = size;
    if (size >= 126) {
        size_t bytes = size == 126 ? 2 : 8;
        ws->left = 0;
        for (size_t i = 0; i < bytes; i++)
            ws->left = ws->left << 8 | ws->head[2 + i];
    }
    if ((ws->head[0] & 0x70) != 0)
        return fail(ws, out, CODE_PROTOCOL, "no extension was agreed on");
    if (is_control(opcode)) {
        if (!final || size >= 126 || opcode > QUERY_WEBSOCKET_PONG)
            return fail(ws, out, CODE_PROTOCOL, "bad control frame");
        ws->control_size = 0;
    } else {
        if (opcode == QUERY_WEBSOCKET_BINARY)
            return fail(ws, out, CODE_UNSUPPORTED, "messages are text");
        if (opcode > QUERY_WEBSOCKET_BINARY || (opcode == 0) != ws->in_message)
            return fail(ws, out, CODE_PROTOCOL, "frame out of order");
        if (ws->left > ws->message_max || ws->message.size + ws->left > ws->message_max)
            return fail(ws, out, CODE_TOO_BIG, "message too big");
        ws->in_message = true;
    }
    ws->in_frame = true;
    ws->masked = 0;
    return true;
}

/* The frame is whole: answer it. */
static bool leave_frame(struct query_websocket *ws, query_websocket_message on_message,
                        void *context, struct query_buffer *out)
{
    unsigned opcode = ws->head[0] & 0x0f;
    bool final = (ws->head[0] & 0x80) != 0;
    ws->in_frame = false;
    ws->head_size = 0;
    if (opcode == QUERY_WEBSOCKET_PING) {
        query_websocket_frame(out, QUERY_WEBSOCKET_PONG,
                              kv_bytes(ws->control, ws->control_size));
        return true;
    }
    if (opcode == QUERY_WEBSOCKET_PONG)
        return true;
    if (opcode == QUERY_WEBSOCKET_CLOSE) {
        ws->closed = true;
        if (ws->control_size == 1)
            return fail(ws, out, CODE_PROTOCOL, "bad close");
        if (ws->control_size == 0)
            query_websocket_close(out, CODE_NORMAL, "");
        else
            query_websocket_frame(out, QUERY_WEBSOCKET_CLOSE, kv_bytes(ws->control, 2));
        return false;
    }
    if (!final)
        return true;

    ws->in_message = false;
    kv_slice message =
        kv_bytes(ws->message.data == NULL ? "" : ws->message.data, ws->message.size);
    if (!query_json_utf8(message))
        return fail(ws, out, CODE_NOT_UTF8, "text is not UTF-8");
    on_message(context, message, out);
    query_buffer_reset(&ws->message, MESSAGE_KEEP);
    return true;
}

/* Unmask up to `size` payload bytes; how many were taken. */
static size_t take_payload(struct query_websocket *ws, const char *data, size_t size)
{
    const unsigned char *mask = ws->head + head_needed(ws) - 4;
    size_t count = size < ws->left ? size : (size_t)ws->left;
    unsigned char *to;
    if (count == 0)
        return 0;
    if (is_control(ws->head[0] & 0x0f)) {
        to = ws->control + ws->control_size;
        ws->control_size += count;
    } else {
        if (!query_buffer_reserve(&ws->message, count))
            return 0;
        to = (unsigned char *)ws->message.data + ws->message.size;
        ws->message.size += count;
    }
    for (size_t i = 0; i < count; i++)
        to[i] = (unsigned char)data[i] ^ mask[(ws->masked + i) & 3];
    ws->masked += count;
    ws->left -= count;
    return count;
}

bool query_websocket_feed(struct query_websocket *ws, const char *data, size_t size,
                          query_websocket_message on_message, void *context,
                          struct query_buffer *out)
{
    size_t at = 0;
    while (!ws->closed) {
        if (!ws->in_frame) {
            while (ws->head_size < head_needed(ws) && at < size) {
                ws->head[ws->head_size++] = (unsigned char)data[at++];
                if (ws->head_size == 2 && (ws->head[1] & 0x80) == 0)
                    return fail(ws, out, CODE_PROTOCOL, "frames must be masked");
            }
            if (ws->head_size < head_needed(ws))
                return true;
            if (!enter_frame(ws, out))
                return false;
        }
        at += take_payload(ws, data + at, size - at);
        if (ws->message.failed)
            return fail(ws, out, CODE_TOO_BIG, "out of memory");
        if (ws->left > 0)
            return true;
        if (!leave_frame(ws, on_message, context, out))
            return false;
    }
    return false;
}
