/* group_ops.c - a batch's operations as bytes, written and read. */
#include "kv/group_internal.h"

#include <stdlib.h>
#include <string.h>

bool group_bytes_append(struct bytes *bytes, const void *data, size_t size)
{
    if (bytes->room - bytes->size < size) {
        size_t room = 2 * bytes->room + size + 64;
        unsigned char *grown = realloc(bytes->data, room);
        if (grown == NULL)
            return false;
        bytes->data = grown;
        bytes->room = room;
    }
    if (size > 0)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return true;
}

bool group_bytes_append_number(struct bytes *bytes, uint64_t number)
{
    unsigned char varint[10];
    size_t size = 0;
    for (; number >= 0x80; number >>= 7)
        varint[size++] = (unsigned char)(number | 0x80);
    varint[size++] = (unsigned char)number;
    return group_bytes_append(bytes, varint, size);
}

bool group_bytes_append_slice(struct bytes *bytes, kv_slice slice)
{
    return group_bytes_append_number(bytes, slice.size) &&
           group_bytes_append(bytes, slice.data, slice.size);
}

static uint64_t read_number(struct reader *reader)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        unsigned char byte = *reader->at++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    reader->bad = true;
    return 0;
}

static kv_slice read_slice(struct reader *reader)
{
    uint64_t size = read_number(reader);
    if (reader->bad || size > (uint64_t)(reader->end - reader->at)) {
        reader->bad = true;
        return kv_bytes(NULL, 0);
    }
    kv_slice slice = kv_bytes(reader->at, (size_t)size);
    reader->at += size;
    return slice;
}

bool group_read_op(struct reader *reader, struct op *op)
{
    if (reader->bad || reader->at == reader->end)
        return false;
    op->member = (size_t)read_number(reader);
    op->kind = (enum op_kind)read_number(reader);
    kv_slice space = read_slice(reader);
    if (space.size > 0)
        op->space = space;
    op->key = read_slice(reader);
    op->value = op->kind == OP_PUT ? read_slice(reader) : kv_bytes(NULL, 0);
    if (op->member >= KV_GROUP_MEMBERS_MAX || op->space.size == 0 ||
        op->space.size > KV_SPACE_NAME_SIZE_MAX || op->key.size == 0 ||
        (op->kind != OP_PUT && op->kind != OP_DELETE))
        reader->bad = true;
    return !reader->bad;
}

kv_code group_ops_bad(const struct kv_group *group, kv_status *status)
{
    return kv_fail(status, KV_CORRUPT, "%s: a record's operations do not read",
                   group->journal.path);
}

struct reader group_reader(kv_slice ops)
{
    const unsigned char *bytes = ops.data;
    return (struct reader){ bytes, bytes + ops.size, false };
}

kv_slice group_body_id(kv_slice body)
{
    const unsigned char *bytes = body.data;
    return kv_bytes(bytes + 2, bytes[1]);
}

kv_slice group_body_ops(kv_slice body)
{
    const unsigned char *bytes = body.data;
    size_t head = 2 + (size_t)bytes[1];
    return kv_bytes(bytes + head, body.size - head);
}
