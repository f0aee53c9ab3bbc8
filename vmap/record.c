/* record.c - the keys and values of everything a state stores. */
#include "vmap/record.h"

#include "vmap/digest.h"

#include <stdlib.h>
#include <string.h>

/* An ordered key escapes zeros up to here; beyond, groups bound its growth. */
enum { ESCAPED_SIZE = 256, GROUP_SIZE = 254, GROUP_FOLLOWS = 255 };

static bool key_reserve(struct record_key *key, size_t size)
{
    key->size = size;
    key->data = size <= sizeof(key->local) ? key->local : malloc(size);
    return key->data != NULL;
}

static uint8_t *put_map(uint8_t *out, uint32_t map)
{
    uint32_t big = __builtin_bswap32(map);
    memcpy(out, &big, sizeof(big));
    return out + sizeof(big);
}

bool record_key_value(struct record_key *key, uint32_t map, kv_slice name)
{
    if (!key_reserve(key, RECORD_MAP_SIZE + name.size))
        return false;
    uint8_t *end = put_map(key->data, map);
    if (name.size > 0)
        memcpy(end, name.data, name.size);
    return true;
}

bool record_key_page(struct record_key *key, uint32_t map, unsigned level, kv_slice first)
{
    if (!key_reserve(key, RECORD_MAP_SIZE + 1 + first.size))
        return false;
    uint8_t *end = put_map(key->data, map);
    *end++ = (uint8_t)level;
    if (first.size > 0)
        memcpy(end, first.data, first.size);
    return true;
}

bool record_key_history(struct record_key *key, uint32_t map, unsigned level, kv_slice name,
                        uint64_t until)
{
    struct vtree_buffer buffer = { NULL, 0, 0 };
    uint8_t head[RECORD_MAP_SIZE + 1];
    *put_map(head, map) = (uint8_t)level;
    bool made = vtree_buffer_add(&buffer, head, sizeof(head)) &&
                record_ordered_add(&buffer, name) && vtree_buffer_add_be64(&buffer, until) &&
                key_reserve(key, buffer.size);
    if (made)
        memcpy(key->data, buffer.data, buffer.size);
    else
        key->data = NULL;
    vtree_buffer_clear(&buffer);
    return made;
}

void record_key_clear(struct record_key *key)
{
    if (key->data != key->local)
        free(key->data);
    key->data = NULL;
    key->size = 0;
}

/* ---- Ordered keys ------------------------------------------------------- */

/*
 * The first 256 bytes, with 00 written as 00 ff. A key that ends here gets
 * 00 00. A longer one gets 01 and then groups of 254 bytes, the last padded
 * with zeros, each followed by the count of its bytes, or by ff if another
 * group follows.
 */
bool record_ordered_add(struct vtree_buffer *buffer, kv_slice key)
{
    static const uint8_t zeros[GROUP_SIZE];
    const uint8_t *bytes = key.data;
    size_t plain = key.size < ESCAPED_SIZE ? key.size : ESCAPED_SIZE;
    for (size_t i = 0; i < plain;) {
        const uint8_t *zero = memchr(bytes + i, 0, plain - i);
        size_t end = zero != NULL ? (size_t)(zero - bytes) : plain;
        if (!vtree_buffer_add(buffer, bytes + i, end - i) ||
            (zero != NULL && !vtree_buffer_add(buffer, "\x00\xff", 2)))
            return false;
        i = end + (zero != NULL ? 1 : 0);
    }
    if (key.size <= ESCAPED_SIZE)
        return vtree_buffer_add(buffer, "\x00\x00", 2);

    if (!vtree_buffer_add(buffer, "\x01", 1))
        return false;
    for (size_t i = ESCAPED_SIZE; i < key.size;) {
        size_t left = key.size - i;
        size_t count = left < GROUP_SIZE ? left : GROUP_SIZE;
        uint8_t mark = (uint8_t)(left > GROUP_SIZE ? GROUP_FOLLOWS : count);
        if (!vtree_buffer_add(buffer, bytes + i, count) ||
            !vtree_buffer_add(buffer, zeros, GROUP_SIZE - count) ||
            !vtree_buffer_add(buffer, &mark, 1))
            return false;
        i += count;
    }
    return true;
}

static size_t read_groups(kv_slice bytes, size_t used, struct vtree_buffer *key)
{
    const uint8_t *data = bytes.data;
    while (bytes.size - used >= GROUP_SIZE + 1) {
        uint8_t mark = data[used + GROUP_SIZE];
        size_t count = mark == GROUP_FOLLOWS ? GROUP_SIZE : mark;
        if (!vtree_buffer_add(key, data + used, count))
            return 0;
        used += GROUP_SIZE + 1;
        if (mark != GROUP_FOLLOWS)
            return used;
    }
    return 0;
}

size_t record_ordered_read(kv_slice bytes, struct vtree_buffer *key)
{
    const uint8_t *data = bytes.data;
    size_t used = 0;
    key->size = 0;
    while (used < bytes.size && key->size < ESCAPED_SIZE) {
        const uint8_t *zero = memchr(data + used, 0, bytes.size - used);
        size_t run = zero != NULL ? (size_t)(zero - data) - used : bytes.size - used;
        if (run > ESCAPED_SIZE - key->size)
            run = ESCAPED_SIZE - key->size;
        if (!vtree_buffer_add(key, data + used, run))
            return 0;
        used += run;
        if (key->size == ESCAPED_SIZE)
            break;
        if (bytes.size - used < 2)
            return 0;
        if (data[used + 1] == 0x00)
            return used + 2;
        if (data[used + 1] != 0xff || !vtree_buffer_add(key, "", 1))
            return 0;
        used += 2;
    }
    if (bytes.size - used >= 2 && data[used] == 0x00 && data[used + 1] == 0x00)
        return used + 2;
    if (bytes.size - used >= 1 && data[used] == 0x01)
        return read_groups(bytes, used + 1, key);
    return 0;
}

/* ---- Values ------------------------------------------------------------- */

bool record_take_bytes(kv_slice *bytes, size_t size, const uint8_t **out)
{
    if (bytes->size < size)
        return false;
    *out = bytes->data;
    *bytes = kv_bytes(*out + size, bytes->size - size);
    return true;
}

bool record_take_varint(kv_slice *bytes, uint64_t *number)
{
    const uint8_t *byte;
    *number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!record_take_bytes(bytes, 1, &byte))
            return false;
        *number |= (uint64_t)(*byte & 0x7f) << shift;
        if ((*byte & 0x80) == 0)
            return true;
    }
    return false;
}

bool record_node_add(struct vtree_buffer *buffer, const vmap_node *node)
{
    return vtree_buffer_add_varint(buffer, node->size) &&
           vtree_buffer_add_varint(buffer, node->height) &&
           vtree_buffer_add(buffer, node->digest.bytes, sizeof(node->digest.bytes));
}

bool record_take_node(kv_slice *bytes, vmap_node *node)
{
    uint64_t height;
    const uint8_t *digest;
    if (!record_take_varint(bytes, &node->size) || !record_take_varint(bytes, &height) ||
        height > UINT32_MAX || !record_take_bytes(bytes, sizeof(node->digest.bytes), &digest))
        return false;
    node->height = (uint32_t)height;
    memcpy(node->digest.bytes, digest, sizeof(node->digest.bytes));
    return true;
}
