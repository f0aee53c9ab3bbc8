/*
 * header.c - block headers of a chain that has none: at height v+1 the app hash
 * of version v, everything that would be signed left empty.
 */
#include "abci_query/node.h"

#include <stdlib.h>
#include <time.h>

enum {
    BLOCK_PROTOCOL = 11,
    HEADER_FIELDS = 14, /* leaves of a CometBFT header's hash */
    ADDRESS_SIZE = 20,
    FIELD_SIZE_MAX = 128
};

/* The proposer: clients want an address, and this is nobody's. */
#define NOBODY "0000000000000000000000000000000000000000"

/* A field of the header in protobuf, as CometBFT hashes it. */
struct field {
    size_t size;
    uint8_t bytes[FIELD_SIZE_MAX];
};

kv_code query_header_check(const struct query_node *node, int64_t height, kv_status *status)
{
    uint64_t latest = node->newest + 1, lowest = node->oldest + 1;
    if (height <= 0)
        return kv_fail(status, KV_INVALID, "height must be greater than 0, but got %lld",
                       (long long)height);
    if ((uint64_t)height > latest)
        return kv_fail(
            status, KV_TOO_NEW,
            "height %lld must be less than or equal to the current blockchain height %llu",
            (long long)height, (unsigned long long)latest);
    if ((uint64_t)height < lowest)
        return kv_fail(status, KV_TOO_OLD,
                       "height %lld is not available, lowest height is %llu", (long long)height,
                       (unsigned long long)lowest);
    return KV_OK;
}

void query_time_write(struct query_buffer *out, int64_t seconds)
{
    time_t when = (time_t)seconds;
    struct tm parts;
    char text[32];
    if (gmtime_r(&when, &parts) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        query_buffer_literal(out, "1970-01-01T00:00:00Z");
    else
        query_buffer_text(out, text);
}

/* ---- The hash ----------------------------------------------------------- */

static void add_varint(struct field *field, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        field->bytes[field->size++] = (uint8_t)(number | 0x80);
    field->bytes[field->size++] = (uint8_t)number;
}

static void add_number(struct field *field, uint8_t tag, uint64_t number)
{
    if (number == 0)
        return;
    field->bytes[field->size++] = (uint8_t)(tag << 3);
    add_varint(field, number);
}

static void add_bytes(struct field *field, uint8_t tag, const void *data, size_t size)
{
    if (size == 0)
        return;
    if (size > FIELD_SIZE_MAX - 4)
        size = FIELD_SIZE_MAX - 4;
    field->bytes[field->size++] = (uint8_t)(tag << 3 | 2);
    add_varint(field, size);
    memcpy(field->bytes + field->size, data, size);
    field->size += size;
}

/* RFC 6962 over fields[0..count). */
static vmap_digest merkle(const struct field *fields, size_t count)
{
    uint8_t bytes[1 + FIELD_SIZE_MAX];
    if (count == 1) {
        bytes[0] = 0;
        memcpy(bytes + 1, fields[0].bytes, fields[0].size);
        return vmap_digest_of(kv_bytes(bytes, 1 + fields[0].size));
    }
    size_t left = 1;
    while (left * 2 < count)
        left *= 2;
    vmap_digest a = merkle(fields, left), b = merkle(fields + left, count - left);
    bytes[0] = 1;
    memcpy(bytes + 1, a.bytes, VMAP_DIGEST_SIZE);
    memcpy(bytes + 1 + VMAP_DIGEST_SIZE, b.bytes, VMAP_DIGEST_SIZE);
    return vmap_digest_of(kv_bytes(bytes, 1 + 2 * VMAP_DIGEST_SIZE));
}

static vmap_digest header_hash(const struct query_node *node, int64_t height, int64_t seconds,
                               const vmap_digest *app_hash)
{
    struct field fields[HEADER_FIELDS] = { { 0, { 0 } } };
    add_number(&fields[0], 1, BLOCK_PROTOCOL);
    add_bytes(&fields[1], 1, node->chain->chain_id, strlen(node->chain->chain_id));
    add_number(&fields[2], 1, (uint64_t)height);
    add_number(&fields[3], 1, (uint64_t)seconds);
    fields[4] = (struct field){ 2, { 0x12, 0 } }; /* an empty last block id */
    add_bytes(&fields[10], 1, app_hash->bytes, VMAP_DIGEST_SIZE);
    add_bytes(&fields[13], 1, (const uint8_t[ADDRESS_SIZE]){ 0 }, ADDRESS_SIZE);
    return merkle(fields, HEADER_FIELDS);
}

kv_code query_header_write(struct query_node *node, int64_t height, struct query_buffer *out,
                           vmap_digest *hash, kv_status *status)
{
    vmap_digest app_hash;
    kv_code code = query_header_check(node, height, status);
    if (code == KV_OK)
        code = node->app->app_hash(node->session, (uint64_t)height - 1, &app_hash, status);
    if (code != KV_OK)
        return code;

    int64_t seconds = node->chain->genesis_time + height;
    query_buffer_format(out, "{\"version\":{\"block\":\"%d\"},\"chain_id\":", BLOCK_PROTOCOL);
    query_buffer_json(out, kv_text(node->chain->chain_id));
    query_buffer_literal(out, ",\"height\":\"");
    query_buffer_signed(out, height);
    query_buffer_literal(out, "\",\"time\":\"");
    query_time_write(out, seconds);
    query_buffer_literal(
        out, "\",\"last_block_id\":{\"hash\":\"\",\"parts\":{\"total\":0,\"hash\":\"\"}},"
             "\"last_commit_hash\":\"\",\"data_hash\":\"\",\"validators_hash\":\"\","
             "\"next_validators_hash\":\"\",\"consensus_hash\":\"\",\"app_hash\":\"");
    query_buffer_hex(out, kv_bytes(app_hash.bytes, VMAP_DIGEST_SIZE));
    query_buffer_literal(out, "\",\"last_results_hash\":\"\",\"evidence_hash\":\"\","
                              "\"proposer_address\":\"" NOBODY "\"}");
    if (hash != NULL)
        *hash = header_hash(node, height, seconds, &app_hash);
    return KV_OK;
}
