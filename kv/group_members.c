/* group_members.c - a group's databases, and the batches in doubt. */
#include "kv/group_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Members -------------------------------------------------------------- */

static kv_code member_space(struct member *member, kv_slice name, kv_space **out,
                            kv_status *status)
{
    if (member->last != NULL && kv_compare(kv_text(kv_space_name(member->last)), name) == 0) {
        *out = member->last;
        return KV_OK;
    }
    char text[KV_SPACE_NAME_SIZE_MAX + 1];
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    kv_code code = kv_space_open(member->db, text, KV_CREATE, out, status);
    if (code == KV_OK)
        member->last = *out;
    return code;
}

void group_marker_encode(const kv_group *group, size_t index, uint64_t sequence,
                         unsigned char marker[MARKER_SIZE])
{
    memcpy(marker, group->journal.header.uuid, JOURNAL_UUID_SIZE);
    for (unsigned i = 0; i < 4; i++)
        marker[JOURNAL_UUID_SIZE + i] = (unsigned char)(index >> (8 * i));
    for (unsigned i = 0; i < 8; i++)
        marker[JOURNAL_UUID_SIZE + 4 + i] = (unsigned char)(sequence >> (8 * i));
}

kv_code group_members_gather(kv_group *group, kv_slice ops, kv_status *status)
{
    struct reader reader = group_reader(ops);
    struct op op = { 0 };
    while (group_read_op(&reader, &op) && op.member < group->member_count) {
        struct member *member = &group->members[op.member];
        kv_space *space;
        kv_code code = member_space(member, op.space, &space, status);
        if (code != KV_OK)
            return code;
        if (op.kind == OP_PUT)
            kv_batch_put(member->batch, space, op.key, op.value);
        else
            kv_batch_delete(member->batch, space, op.key);
        member->touched = true;
    }
    return reader.bad || reader.at != reader.end ? group_ops_bad(group, status) : KV_OK;
}

kv_code group_members_commit(kv_group *group, uint64_t sequence, kv_status *status)
{
    for (size_t i = 0; i < group->member_count; i++) {
        struct member *member = &group->members[i];
        if (!member->touched)
            continue;
        unsigned char marker[MARKER_SIZE];
        group_marker_encode(group, i, sequence, marker);
        kv_batch_put(member->batch, member->marker, kv_text(MARKER_KEY),
                     kv_bytes(marker, sizeof(marker)));
        kv_status why = KV_STATUS_INIT;
        kv_code code = kv_batch_commit(member->batch, 0, &why);
        kv_batch_clear(member->batch);
        member->touched = false;
        if (code != KV_OK)
            return kv_fail(status, code, "member %s: %s", member->name, why.message);
    }
    return KV_OK;
}

kv_code group_members_sync(kv_group *group, kv_status *status)
{
    for (size_t i = 0; i < group->member_count; i++)
        group->members[i].touched = true;
    kv_code code = group_members_commit(group, group->journal.sequence, status);
    for (size_t i = 0; i < group->member_count && code == KV_OK; i++)
        code = kv_sync(group->members[i].db, status);
    return code;
}

/* ---- In doubt ------------------------------------------------------------- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* FNV-1a (Fowler, Noll, Vo) over member, space and key. */
static uint64_t hash_op(const struct op *op)
{
    uint64_t hash = 14695981039346656037u ^ op->member;
    const kv_slice parts[] = { op->space, op->key };
    for (size_t part = 0; part < 2; part++) {
        const unsigned char *bytes = parts[part].data;
        for (size_t i = 0; i < parts[part].size; i++)
            hash = (hash ^ bytes[i]) * 1099511628211u;
        hash = (hash ^ 0x100) * 1099511628211u;
    }
    return hash;
}

kv_slice group_prepared_body(const struct prepared *prepared)
{
    return kv_bytes(prepared->body.data, prepared->body.size);
}

struct prepared *group_prepared_find(kv_group *group, kv_slice id)
{
    for (size_t i = 0; i < group->prepared_count; i++)
        if (kv_compare(group_body_id(group_prepared_body(&group->prepared[i])), id) == 0)
            return &group->prepared[i];
    return NULL;
}

void group_prepared_remove(kv_group *group, struct prepared *prepared)
{
    pthread_mutex_lock(&group->mutex);
    free(prepared->body.data);
    free(prepared->keys);
    size_t index = (size_t)(prepared - group->prepared);
    group->prepared_count--;
    memmove(prepared, prepared + 1, (group->prepared_count - index) * sizeof(*prepared));
    pthread_mutex_unlock(&group->mutex);
}

kv_code group_prepared_add(kv_group *group, kv_slice body, kv_status *status)
{
    struct prepared prepared = { 0 };
    kv_slice ops = group_body_ops(body);
    struct reader reader = group_reader(ops);
    struct op op = { 0 };
    size_t room = 0;
    bool memory = group_bytes_append(&prepared.body, body.data, body.size);
    while (memory && group_read_op(&reader, &op)) {
        if (prepared.key_count == room) {
            room = 2 * room + 16;
            uint64_t *keys = realloc(prepared.keys, room * sizeof(keys[0]));
            memory = keys != NULL;
            prepared.keys = memory ? keys : prepared.keys;
        }
        if (memory)
            prepared.keys[prepared.key_count++] = hash_op(&op);
    }
    if (!memory || reader.bad) {
        free(prepared.body.data);
        free(prepared.keys);
        return memory ? group_ops_bad(group, status)
                      : kv_fail(status, KV_NO_MEMORY, "no memory for a prepared batch");
    }
    if (prepared.key_count > 0)
        qsort(prepared.keys, prepared.key_count, sizeof(prepared.keys[0]), compare_u64);
    pthread_mutex_lock(&group->mutex);
    group->prepared[group->prepared_count++] = prepared;
    pthread_mutex_unlock(&group->mutex);
    return KV_OK;
}

bool group_ops_in_doubt(const kv_group *group, kv_slice ops)
{
    struct reader reader = group_reader(ops);
    struct op op = { 0 };
    while (group->prepared_count > 0 && group_read_op(&reader, &op)) {
        uint64_t hash = hash_op(&op);
        for (size_t i = 0; i < group->prepared_count; i++) {
            const struct prepared *prepared = &group->prepared[i];
            if (prepared->key_count > 0 && bsearch(&hash, prepared->keys, prepared->key_count,
                                                   sizeof(hash), compare_u64) != NULL)
                return true;
        }
    }
    return false;
}
