/*
 * txn_oracle.c - versions of what was committed: the striped version table of
 * Transactional Locking II, and a log of recent keys for those that guard ranges.
 */
#include "kv/txn_internal.h"

#include <stdlib.h>
#include <string.h>

struct oracle_record {
    uint64_t version;
    const kv_space *space;
    size_t key_size; /* the key's bytes follow, padded to this record's alignment */
};

kv_code oracle_init(struct oracle *oracle, kv_status *status)
{
    if (kv_mutex_init(&oracle->commit) != 0)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a mutex");
    return KV_OK;
}

void oracle_free(struct oracle *oracle)
{
    pthread_mutex_destroy(&oracle->commit);
    free(oracle->log);
}

static uint64_t hash_mix(uint64_t hash, uint64_t word)
{
    __uint128_t product = (__uint128_t)(hash ^ word) * 0x9fb21c651e98df25u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Multiply and fold, eight bytes at a time. It spreads keys over stripes and slots;
 * nothing but speed depends on how well. */
uint64_t txn_hash(const kv_space *space, kv_slice key)
{
    const char *bytes = key.data;
    size_t left = key.size;
    uint64_t hash = hash_mix(0xa0761d6478bd642fu ^ key.size, (uint64_t)(uintptr_t)space);
    for (; left >= 8; bytes += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = hash_mix(hash, word);
    }
    uint64_t tail = 0;
    if (left > 0)
        memcpy(&tail, bytes, left);
    return hash_mix(hash, tail ^ 0xe7037ed1a0b428dbu);
}

static size_t record_size(size_t key_size)
{
    size_t size = sizeof(struct oracle_record) + key_size;
    return (size + _Alignof(struct oracle_record) - 1) & ~(_Alignof(struct oracle_record) - 1);
}

static bool log_reserve(struct oracle *oracle, size_t size)
{
    if (oracle->log_room - oracle->log_size >= size)
        return true;
    size_t room = oracle->log_room == 0 ? 4096 : oracle->log_room;
    while (room < oracle->log_size + size)
        room *= 2;
    if (room > ORACLE_LOG_SIZE_MAX)
        return false;
    char *log = realloc(oracle->log, room);
    if (log == NULL)
        return false;
    oracle->log = log;
    oracle->log_room = room;
    return true;
}

void oracle_note(struct oracle *oracle, uint64_t version, const kv_space *space, kv_slice key)
{
    uint32_t slot = oracle_slot(txn_hash(space, key));
    atomic_store_explicit(&oracle->versions[slot], version, memory_order_release);

    size_t size = record_size(key.size);
    if (oracle->scanners == 0 || !log_reserve(oracle, size)) {
        oracle->log_size = 0; /* who scans from before this commit is too old */
        oracle->log_low = version;
        return;
    }
    struct oracle_record record = { version, space, key.size };
    char *at = oracle->log + oracle->log_size;
    memcpy(at, &record, sizeof(record));
    memcpy(at + sizeof(record), key.data, key.size);
    oracle->log_size += size;
}

kv_code oracle_check_range(const struct oracle *oracle, uint64_t version, const kv_space *space,
                           const kv_range *range)
{
    if (version < oracle->log_low)
        return KV_TOO_OLD;
    for (size_t at = 0; at < oracle->log_size;) {
        struct oracle_record record;
        memcpy(&record, oracle->log + at, sizeof(record));
        kv_slice key = kv_bytes(oracle->log + at + sizeof(record), record.key_size);
        if (record.version > version && record.space == space &&
            kv_compare(key, range->first) >= 0 &&
            (range->limit.size == 0 || kv_compare(key, range->limit) < 0))
            return KV_CONFLICT;
        at += record_size(record.key_size);
    }
    return KV_OK;
}
