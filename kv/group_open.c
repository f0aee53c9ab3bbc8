/* group_open.c - opening a group: checks first, then replay, then a checkpoint. */
#include "kv/group_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

struct marker {
    bool found;
    uint64_t sequence;
};

static kv_code marker_read(kv_group *group, size_t index, struct marker *out, kv_status *status)
{
    struct member *member = &group->members[index];
    *out = (struct marker){ 0 };
    kv_space *space;
    kv_value value = KV_VALUE_INIT;
    kv_code code = kv_space_open(member->db, MARKER_SPACE, 0, &space, status);
    if (code == KV_OK)
        code = kv_get(space, NULL, kv_text(MARKER_KEY), &value, status);
    if (code == KV_NOT_FOUND)
        return KV_OK;
    if (code != KV_OK)
        return code;

    const unsigned char *bytes = value.bytes.data;
    unsigned char wanted[MARKER_SIZE];
    group_marker_encode(group, index, 0, wanted);
    bool ours =
        value.bytes.size == MARKER_SIZE && memcmp(bytes, wanted, JOURNAL_UUID_SIZE + 4) == 0;
    for (unsigned i = 0; ours && i < 8; i++)
        out->sequence |= (uint64_t)bytes[JOURNAL_UUID_SIZE + 4 + i] << (8 * i);
    out->found = ours;
    kv_value_release(&value);
    if (!ours)
        return kv_fail(status, KV_CORRUPT,
                       "member %s (%s) belongs to another group, or to another place in this "
                       "one, than %s says",
                       member->name, kv_db_dir(member->db), group->journal.path);
    return KV_OK;
}

/* Do all members stand where the journal can bring them to one point? */
static kv_code markers_check(kv_group *group, kv_status *status)
{
    uint64_t oldest = group->journal.header.sequence, newest = group->journal.sequence;
    for (size_t i = 0; i < group->member_count; i++) {
        const struct member *member = &group->members[i];
        struct marker marker;
        kv_code code = member->durable ? marker_read(group, i, &marker, status) : KV_OK;
        if (code != KV_OK)
            return code;
        if (!member->durable || (!marker.found && newest == 0))
            continue;
        if (!marker.found)
            return kv_fail(status, KV_CORRUPT,
                           "member %s (%s) is not of the group of %s: it "
                           "holds no marker",
                           member->name, kv_db_dir(member->db), group->journal.path);
        if (marker.sequence < oldest)
            return kv_fail(status, KV_CORRUPT,
                           "member %s (%s) stands at %llu, before %llu, where %s begins: was "
                           "it restored from a backup?",
                           member->name, kv_db_dir(member->db),
                           (unsigned long long)marker.sequence, (unsigned long long)oldest,
                           group->journal.path);
        if (marker.sequence > newest)
            return kv_fail(status, KV_CORRUPT,
                           "member %s (%s) stands at %llu, past %llu, where %s ends: the "
                           "journal lost its end or was restored from a backup",
                           member->name, kv_db_dir(member->db),
                           (unsigned long long)marker.sequence, (unsigned long long)newest,
                           group->journal.path);
    }
    return KV_OK;
}

static kv_code body_check(void *context, uint64_t sequence, kv_slice body, kv_status *status)
{
    const kv_group *group = context;
    const unsigned char *bytes = body.data;
    if (body.size < 2 || bytes[0] < BODY_COMMIT || bytes[0] > BODY_RESOLVE_ABORT ||
        bytes[1] > KV_GROUP_ID_SIZE_MAX || body.size < 2 + (size_t)bytes[1])
        return kv_fail(status, KV_CORRUPT, "%s: record %llu does not read", group->journal.path,
                       (unsigned long long)sequence);
    kv_slice ops = group_body_ops(body);
    struct reader reader = group_reader(ops);
    struct op op = { 0 };
    while (group_read_op(&reader, &op) && op.member < group->member_count)
        continue;
    return reader.bad || reader.at != reader.end ? group_ops_bad(group, status) : KV_OK;
}

static kv_code body_replay(void *context, uint64_t sequence, kv_slice body, kv_status *status)
{
    kv_group *group = context;
    enum body_kind kind = (enum body_kind)((const unsigned char *)body.data)[0];
    struct prepared *prepared = NULL;
    kv_slice ops = group_body_ops(body);
    group->counts.replayed++;
    if (kind == BODY_PREPARE)
        return group_prepared_add(group, body, status);
    if (kind != BODY_COMMIT) {
        prepared = group_prepared_find(group, group_body_id(body));
        if (prepared == NULL)
            return kv_fail(status, KV_CORRUPT, "%s: record %llu resolves what was not prepared",
                           group->journal.path, (unsigned long long)sequence);
        ops = kind == BODY_RESOLVE_COMMIT ? group_body_ops(group_prepared_body(prepared))
                                          : kv_bytes(NULL, 0);
    }
    kv_code code = group_members_gather(group, ops, status);
    for (size_t i = 0; i < group->member_count; i++) {
        struct member *member = &group->members[i];
        if (member->durable)
            continue;
        kv_batch_clear(member->batch); /* it begins empty, not in the middle */
        member->touched = false;
    }
    if (code == KV_OK)
        code = group_members_commit(group, sequence, status);
    if (code == KV_OK && prepared != NULL)
        group_prepared_remove(group, prepared);
    return code;
}

static kv_code journal_make(kv_group *group, uint64_t size, kv_status *status)
{
    struct journal_header header = { .epoch = 1, .size = size };
    header.member_count = (uint32_t)group->member_count;
    for (size_t i = 0; i < group->member_count; i++)
        memcpy(header.names[i], group->members[i].name, KV_GROUP_NAME_SIZE_MAX);
    for (size_t i = 0; i < group->member_count; i++) {
        struct marker marker;
        kv_code code = marker_read(group, i, &marker, status);
        if (code != KV_OK)
            return code;
    }
    if (getrandom(header.uuid, sizeof(header.uuid), 0) != (ssize_t)sizeof(header.uuid))
        return kv_fail(status, KV_INTERNAL, "no random bytes for a group's identity");
    return journal_create(&group->journal, &header, status);
}

static kv_code names_check(const kv_group *group, kv_status *status)
{
    const struct journal_header *header = &group->journal.header;
    bool same = header->member_count == group->member_count;
    for (size_t i = 0; i < group->member_count && same; i++)
        same = memcmp(header->names[i], group->members[i].name, KV_GROUP_NAME_SIZE_MAX) == 0;
    if (!same)
        return kv_fail(status, KV_INVALID,
                       "%s: was made with %u members, the first called %.31s: open it with the "
                       "same, in the same order",
                       group->journal.path, header->member_count, header->names[0]);
    return KV_OK;
}

static kv_code members_init(kv_group *group, const kv_group_member *members, size_t count,
                            kv_status *status)
{
    if (count < 1 || count > KV_GROUP_MEMBERS_MAX)
        return kv_fail(status, KV_INVALID, "a group has 1 to %u members, not %zu",
                       KV_GROUP_MEMBERS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        struct member *member = &group->members[i];
        size_t size = strnlen(members[i].name, KV_GROUP_NAME_SIZE_MAX);
        if (size == 0 || size == KV_GROUP_NAME_SIZE_MAX)
            return kv_fail(status, KV_INVALID, "a member's name is 1 to %u bytes",
                           KV_GROUP_NAME_SIZE_MAX - 1);
        for (size_t other = 0; other < i; other++)
            if (members[other].db == members[i].db ||
                strcmp(members[other].name, members[i].name) == 0)
                return kv_fail(status, KV_INVALID, "members %s and %s are one",
                               members[other].name, members[i].name);
        memcpy(member->name, members[i].name, size);
        member->db = members[i].db;
        member->durable = (kv_db_driver(member->db)->caps & KV_CAP_DURABLE) != 0;
    }
    group->member_count = count;
    return KV_OK;
}

static kv_code members_open(kv_group *group, kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; i < group->member_count && code == KV_OK; i++) {
        struct member *member = &group->members[i];
        code = kv_space_open(member->db, MARKER_SPACE, KV_CREATE, &member->marker, status);
        if (code == KV_OK)
            code = kv_batch_new(member->db, &member->batch, status);
    }
    return code;
}

static void queue_init(kv_group *group)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&group->gather.full, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&group->mutex, NULL);
    group->queue_end = &group->queue;
}

static void group_free(kv_group *group)
{
    journal_close(&group->journal);
    for (size_t i = 0; i < group->member_count; i++)
        kv_batch_free(group->members[i].batch);
    while (group->prepared_count > 0)
        group_prepared_remove(group, &group->prepared[group->prepared_count - 1]);
    free(group->resolved.data);
    pthread_cond_destroy(&group->gather.full);
    pthread_mutex_destroy(&group->mutex);
    free(group);
}

/* Everything is checked before anything is changed. */
static kv_code group_recover(kv_group *group, kv_status *status)
{
    kv_code code = names_check(group, status);
    if (code == KV_OK)
        code = journal_replay(&group->journal, body_check, group, status);
    if (code == KV_OK)
        code = markers_check(group, status);
    if (code == KV_OK)
        code = members_open(group, status);
    if (code == KV_OK)
        code = journal_replay(&group->journal, body_replay, group, status);
    if (code == KV_OK)
        code = group_checkpoint(group, status);
    return code;
}

kv_code kv_group_open(const char *dir, const kv_group_member *members, size_t count,
                      const kv_group_options *options, kv_group **out, kv_status *status)
{
    *out = NULL;
    uint64_t size = options == NULL || options->journal_size == 0
                        ? KV_GROUP_JOURNAL_SIZE_DEFAULT
                        : options->journal_size;
    if (size < KV_GROUP_JOURNAL_SIZE_MIN || size > KV_GROUP_JOURNAL_SIZE_MAX || size % 8 != 0)
        return kv_fail(status, KV_INVALID, "a journal is %llu to %llu bytes, a multiple of 8",
                       (unsigned long long)KV_GROUP_JOURNAL_SIZE_MIN,
                       (unsigned long long)KV_GROUP_JOURNAL_SIZE_MAX);
    kv_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a group");
    group->journal.fd = -1;
    group->journal.lock_fd = -1;
    queue_init(group);

    kv_code code = members_init(group, members, count, status);
    if (code == KV_OK)
        code = journal_open(&group->journal, dir, status);
    if (code == KV_NOT_FOUND)
        code = journal_make(group, size, status);
    if (code == KV_OK)
        code = group_recover(group, status);
    if (code != KV_OK) {
        group_free(group);
        return code;
    }
    group->work = group->counts;
    *out = group;
    return KV_OK;
}

kv_code kv_group_close(kv_group *group, kv_status *status)
{
    if (group == NULL)
        return KV_OK;
    pthread_mutex_lock(&group->mutex);
    size_t live = group->live_batches;
    pthread_mutex_unlock(&group->mutex);
    if (live > 0)
        return kv_fail(status, KV_BUSY, "%zu batches of the group are not freed", live);
    kv_code code = group->harm.code == KV_OK ? group_checkpoint(group, status) : KV_OK;
    group_free(group);
    return code;
}
