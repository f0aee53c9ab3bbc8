/* wire.c - numbers, keys, bits and frames; messages.c has what is made of them. */
#include "reconnect/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_CAPACITY_MIN = 256, KEY_NIBBLE = 15, NUMBER_SIZE_MAX = 10 };

void wire_out_clear(struct wire_out *out)
{
    free(out->data);
    *out = (struct wire_out){ 0 };
}

void wire_out_drop(struct wire_out *out, size_t size)
{
    assert(size <= out->size);
    out->size -= size;
    if (out->size > 0 && size > 0)
        memmove(out->data, out->data + size, out->size);
}

uint8_t *wire_out_room(struct wire_out *out, size_t size)
{
    if (out->failed)
        return NULL;
    if (out->capacity - out->size < size) {
        size_t capacity = out->capacity < OUT_CAPACITY_MIN ? OUT_CAPACITY_MIN : out->capacity;
        while (capacity - out->size < size && capacity <= SIZE_MAX / 2)
            capacity *= 2;
        uint8_t *data = capacity - out->size < size ? NULL : realloc(out->data, capacity);
        if (data == NULL) {
            out->failed = true;
            return NULL;
        }
        out->data = data;
        out->capacity = capacity;
    }
    out->size += size;
    return out->data + out->size - size;
}

void wire_put(struct wire_out *out, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    uint8_t *room = wire_out_room(out, size);
    if (room != NULL)
        memcpy(room, bytes, size);
}

void wire_put_byte(struct wire_out *out, unsigned byte)
{
    uint8_t *room = wire_out_room(out, 1);
    if (room != NULL)
        *room = (uint8_t)byte;
}

void wire_put_number(struct wire_out *out, uint64_t number)
{
    uint8_t bytes[NUMBER_SIZE_MAX];
    size_t size = 0;
    for (; number >= 0x80; number >>= 7)
        bytes[size++] = (uint8_t)(number | 0x80);
    bytes[size++] = (uint8_t)number;
    wire_put(out, bytes, size);
}

void wire_put_text(struct wire_out *out, kv_slice text)
{
    wire_put_number(out, text.size);
    wire_put(out, text.data, text.size);
}

/* Two nibbles, shared and rest; 15 says that the number less 15 follows. */
void wire_put_key(struct wire_out *out, kv_slice before, kv_slice key)
{
    const uint8_t *a = before.data, *b = key.data;
    size_t shared = 0;
    while (shared < before.size && shared < key.size && a[shared] == b[shared])
        shared++;
    size_t rest = key.size - shared;
    size_t high = shared < KEY_NIBBLE ? shared : KEY_NIBBLE;
    size_t low = rest < KEY_NIBBLE ? rest : KEY_NIBBLE;
    wire_put_byte(out, (unsigned)(high << 4 | low));
    if (high == KEY_NIBBLE)
        wire_put_number(out, shared - KEY_NIBBLE);
    if (low == KEY_NIBBLE)
        wire_put_number(out, rest - KEY_NIBBLE);
    if (rest > 0)
        wire_put(out, b + shared, rest);
}

void wire_put_bits(struct wire_out *out, const uint64_t *values, size_t count, unsigned bits)
{
    size_t size = (count * bits + 7) / 8;
    uint8_t *room = size == 0 ? NULL : wire_out_room(out, size);
    if (room == NULL)
        return;
    memset(room, 0, size);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (unsigned done = 0; done < bits;) {
            unsigned shift = at % 8;
            unsigned take = bits - done < 8 - shift ? bits - done : 8 - shift;
            unsigned piece = (unsigned)(values[i] >> done) & ((1u << take) - 1);
            room[at / 8] = (uint8_t)(room[at / 8] | piece << shift);
            done += take;
            at += take;
        }
    }
}

struct wire_in wire_in_of(kv_slice bytes)
{
    const uint8_t *at = bytes.data;
    return (struct wire_in){ at, bytes.size == 0 ? at : at + bytes.size, false };
}

const uint8_t *wire_get(struct wire_in *in, size_t size)
{
    if (in->bad || size > (size_t)(in->end - in->at)) {
        in->bad = true;
        return NULL;
    }
    const uint8_t *bytes = in->at;
    if (size > 0)
        in->at += size;
    return bytes;
}

unsigned wire_get_byte(struct wire_in *in)
{
    const uint8_t *byte = wire_get(in, 1);
    return byte == NULL ? 0 : *byte;
}

uint64_t wire_get_number(struct wire_in *in, uint64_t max)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = wire_get_byte(in);
        if (in->bad)
            return 0;
        uint64_t piece = byte & 0x7f;
        if (piece << shift >> shift != piece)
            break;
        number |= piece << shift;
        if (byte < 0x80) {
            /* One number, one encoding: no padding with zeros. */
            if ((byte == 0 && shift > 0) || number > max)
                break;
            return number;
        }
    }
    in->bad = true;
    return 0;
}

kv_slice wire_get_text(struct wire_in *in, size_t size_max)
{
    size_t size = (size_t)wire_get_number(in, size_max);
    const uint8_t *bytes = wire_get(in, size);
    return kv_bytes(bytes, bytes == NULL ? 0 : size);
}

void wire_get_copy(struct wire_in *in, void *to, size_t size)
{
    const uint8_t *bytes = wire_get(in, size);
    if (bytes == NULL)
        memset(to, 0, size);
    else
        memcpy(to, bytes, size);
}

vmap_digest wire_get_digest(struct wire_in *in)
{
    vmap_digest digest;
    wire_get_copy(in, digest.bytes, sizeof(digest.bytes));
    return digest;
}

bool wire_get_bits(struct wire_in *in, uint64_t *values, size_t count, unsigned bits)
{
    const uint8_t *bytes = wire_get(in, (count * bits + 7) / 8);
    if (bytes == NULL)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        for (unsigned done = 0; done < bits;) {
            unsigned shift = at % 8;
            unsigned take = bits - done < 8 - shift ? bits - done : 8 - shift;
            uint64_t piece = ((unsigned)bytes[at / 8] >> shift) & ((1u << take) - 1);
            value |= piece << done;
            done += take;
            at += take;
        }
        values[i] = value;
    }
    return true;
}

kv_slice wire_get_key(struct wire_in *in, struct wire_key *key, bool empty_allowed)
{
    unsigned sizes = wire_get_byte(in);
    uint64_t shared = sizes >> 4, rest = sizes & 0xf;
    if (shared == KEY_NIBBLE)
        shared += wire_get_number(in, VMAP_KEY_SIZE_MAX);
    if (rest == KEY_NIBBLE)
        rest += wire_get_number(in, VMAP_KEY_SIZE_MAX);
    if (shared > key->size || shared + rest > VMAP_KEY_SIZE_MAX ||
        (shared + rest == 0 && !empty_allowed))
        in->bad = true;
    const uint8_t *bytes = wire_get(in, (size_t)rest);
    if (bytes == NULL)
        return kv_bytes(NULL, 0);
    memcpy(key->bytes + shared, bytes, (size_t)rest);
    key->size = (size_t)(shared + rest);
    return kv_bytes(key->bytes, key->size);
}

/* ---- Frames ------------------------------------------------------------- */

const char *wire_type_name(unsigned type)
{
    static const char *const names[] = { "nothing", "HELLO", "CHALLENGE", "PROOF", "OFFER",
                                         "RENEW",   "WANT",  "GOT",       "BEGIN", "PAGE",
                                         "LEAF",    "KEEP",  "ANSWER",    "END",   "ERROR",
                                         "AHEAD",   "PEERS" };
    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

size_t wire_frame_begin(struct wire_out *out, enum wire_type type)
{
    size_t begin = out->size;
    uint8_t *header = wire_out_room(out, WIRE_FRAME_HEADER_SIZE);
    if (header != NULL) {
        memset(header, 0, WIRE_FRAME_HEADER_SIZE);
        header[4] = (uint8_t)type;
    }
    return begin;
}

void wire_frame_end(struct wire_out *out, size_t begin)
{
    if (out->failed)
        return;
    size_t size = out->size - begin - 4; /* the type counts */
    assert(size <= WIRE_FRAME_SIZE_MAX);
    uint8_t *header = out->data + begin;
    for (int i = 0; i < 4; i++)
        header[i] = (uint8_t)(size >> (24 - 8 * i));
}

void wire_frames_init(struct wire_frames *frames, size_t size_max)
{
    *frames = (struct wire_frames){ .size_max = size_max };
}

void wire_frames_clear(struct wire_frames *frames)
{
    wire_out_clear(&frames->bytes);
    frames->at = 0;
}

kv_code wire_frames_add(struct wire_frames *frames, kv_slice bytes)
{
    wire_out_drop(&frames->bytes, frames->at);
    frames->at = 0;
    wire_put(&frames->bytes, bytes.data, bytes.size);
    return frames->bytes.failed ? KV_NO_MEMORY : KV_OK;
}

kv_code wire_frames_next(struct wire_frames *frames, unsigned *type, kv_slice *body,
                         kv_status *status)
{
    size_t left = frames->bytes.size - frames->at;
    if (left < WIRE_FRAME_HEADER_SIZE)
        return KV_NOT_FOUND;

    const uint8_t *header = frames->bytes.data + frames->at;
    size_t size =
        (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    unsigned kind = header[4];
    if (kind < WIRE_HELLO || kind > WIRE_PEERS)
        return kv_fail(status, KV_UNPROVEN, "frame of unknown type %u: not this protocol",
                       kind);
    if (size == 0)
        return kv_fail(status, KV_UNPROVEN, "frame of no size");
    if (size > frames->size_max)
        return kv_fail(status, KV_TOO_BIG, "%s frame of %zu bytes, at most %zu are accepted",
                       wire_type_name(kind), size, frames->size_max);
    if (left < 4 + size)
        return KV_NOT_FOUND;

    *type = kind;
    *body = kv_bytes(header + WIRE_FRAME_HEADER_SIZE, size - 1);
    frames->at += 4 + size;
    return KV_OK;
}
