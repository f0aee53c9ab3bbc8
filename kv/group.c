/*
 * group.c - several databases behind one redo journal.
 *
 * Who commits queues a request. The first in the queue leads: it takes all that wait,
 * writes them to the journal at once, syncs once if any asked for it, hands them to
 * the members in journal order, and wakes the rest.
 *
 *     commit ─> queue ─> leader: journal (write, sync) ─> members ─> done
 */
#include "kv/driver.h"
#include "kv/journal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MARKER_SPACE "kv.group"
#define MARKER_KEY "marker"

enum { MARKER_SIZE = JOURNAL_UUID_SIZE + 4 + 8 };

/* What a record's body begins with. */
enum body_kind { BODY_COMMIT = 1, BODY_PREPARE, BODY_RESOLVE_COMMIT, BODY_RESOLVE_ABORT };
enum op_kind { OP_PUT = 1, OP_DELETE };

struct bytes {
    unsigned char *data;
    size_t size, room;
};

struct kv_group_batch {
    kv_group *group;
    struct bytes ops;
    const kv_space *last; /* the space of the last operation */
    size_t count;
    kv_status status; /* the first fault while gathering */
};

/* A batch in doubt. Its keys' hashes are sorted, to refuse them to others. */
struct prepared {
    struct bytes body; /* as its record */
    uint64_t *keys;
    size_t key_count;
};

enum request_kind { REQUEST_COMMIT, REQUEST_PREPARE, REQUEST_RESOLVE, REQUEST_CHECKPOINT };

struct request {
    enum request_kind kind;
    bool sync, apply; /* apply: hand `ops` to the members */
    struct bytes body;
    kv_slice ops; /* of the body, or of what it resolves */
    kv_slice id;
    bool resolve_commit;
    bool done, written;
    kv_code code;
    kv_status *status;
    struct request *next;
    pthread_cond_t wake;
};

struct member {
    char name[KV_GROUP_NAME_SIZE_MAX];
    kv_db *db;
    kv_space *marker;
    kv_batch *batch; /* kept for reuse */
    kv_space *last;  /* the space applied to last */
    bool durable, touched;
};

struct kv_group {
    struct journal journal;
    struct member members[KV_GROUP_MEMBERS_MAX];
    size_t member_count;
    struct bytes resolved; /* ids since the last checkpoint, each with a size byte */
    kv_status harm;        /* what made the group useless */
    kv_group_counts work;  /* copied to `counts` when the leader is done */
    /* The leader alone uses what stands above. The mutex guards what follows; the
     * leader alone changes `prepared`, so it may read that without. */
    pthread_mutex_t mutex;
    struct request *queue;
    bool led;
    size_t live_batches;
    struct prepared prepared[KV_GROUP_PREPARED_MAX];
    size_t prepared_count;
    kv_group_counts counts;
};

/* ---- Bytes ---------------------------------------------------------------- */

static bool bytes_append(struct bytes *bytes, const void *data, size_t size)
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

static bool bytes_append_number(struct bytes *bytes, uint64_t number)
{
    unsigned char varint[10];
    size_t size = 0;
    for (; number >= 0x80; number >>= 7)
        varint[size++] = (unsigned char)(number | 0x80);
    varint[size++] = (unsigned char)number;
    return bytes_append(bytes, varint, size);
}

static bool bytes_append_slice(struct bytes *bytes, kv_slice slice)
{
    return bytes_append_number(bytes, slice.size) &&
           bytes_append(bytes, slice.data, slice.size);
}

/* A reader of the same; `bad` sticks. */
struct reader {
    const unsigned char *at, *end;
    bool bad;
};

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

/* ---- Operations: member, kind, space ("" as before), key, value ----------- */

struct op {
    size_t member;
    enum op_kind kind;
    kv_slice space, key, value;
};

static bool read_op(struct reader *reader, struct op *op)
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

static kv_code ops_bad(const struct kv_group *group, kv_status *status)
{
    return kv_fail(status, KV_CORRUPT, "%s: a record's operations do not read",
                   group->journal.path);
}

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

static void marker_encode(const kv_group *group, size_t index, uint64_t sequence,
                          unsigned char marker[MARKER_SIZE])
{
    memcpy(marker, group->journal.header.uuid, JOURNAL_UUID_SIZE);
    for (unsigned i = 0; i < 4; i++)
        marker[JOURNAL_UUID_SIZE + i] = (unsigned char)(index >> (8 * i));
    for (unsigned i = 0; i < 8; i++)
        marker[JOURNAL_UUID_SIZE + 4 + i] = (unsigned char)(sequence >> (8 * i));
}

/* Gather operations for the members; members_commit hands them over. */
static kv_code members_gather(kv_group *group, kv_slice ops, kv_status *status)
{
    struct reader reader = { ops.data, (const unsigned char *)ops.data + ops.size, false };
    struct op op = { 0 };
    while (read_op(&reader, &op) && op.member < group->member_count) {
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
    return reader.bad || reader.at != reader.end ? ops_bad(group, status) : KV_OK;
}

static kv_code members_commit(kv_group *group, uint64_t sequence, unsigned flags,
                              kv_status *status)
{
    for (size_t i = 0; i < group->member_count; i++) {
        struct member *member = &group->members[i];
        if (!member->touched)
            continue;
        unsigned char marker[MARKER_SIZE];
        marker_encode(group, i, sequence, marker);
        kv_batch_put(member->batch, member->marker, kv_text(MARKER_KEY),
                     kv_bytes(marker, sizeof(marker)));
        kv_status why = KV_STATUS_INIT;
        kv_code code = kv_batch_commit(member->batch, flags, &why);
        kv_batch_clear(member->batch);
        member->touched = false;
        if (code != KV_OK)
            return kv_fail(status, code, "member %s: %s", member->name, why.message);
    }
    return KV_OK;
}

/* Every member durable, its marker at `sequence`. */
static kv_code members_sync(kv_group *group, kv_status *status)
{
    for (size_t i = 0; i < group->member_count; i++)
        group->members[i].touched = true;
    kv_code code = members_commit(group, group->journal.sequence, 0, status);
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

static kv_slice body_id(kv_slice body)
{
    const unsigned char *bytes = body.data;
    return kv_bytes(bytes + 2, bytes[1]);
}

static kv_slice body_ops(kv_slice body)
{
    const unsigned char *bytes = body.data;
    size_t head = 2 + (size_t)bytes[1];
    return kv_bytes(bytes + head, body.size - head);
}

static kv_slice prepared_body(const struct prepared *prepared)
{
    return kv_bytes(prepared->body.data, prepared->body.size);
}

static struct prepared *prepared_find(kv_group *group, kv_slice id)
{
    for (size_t i = 0; i < group->prepared_count; i++)
        if (kv_compare(body_id(prepared_body(&group->prepared[i])), id) == 0)
            return &group->prepared[i];
    return NULL;
}

static void prepared_remove(kv_group *group, struct prepared *prepared)
{
    pthread_mutex_lock(&group->mutex);
    free(prepared->body.data);
    free(prepared->keys);
    size_t index = (size_t)(prepared - group->prepared);
    group->prepared_count--;
    memmove(prepared, prepared + 1, (group->prepared_count - index) * sizeof(*prepared));
    pthread_mutex_unlock(&group->mutex);
}

static kv_code prepared_add(kv_group *group, kv_slice body, kv_status *status)
{
    struct prepared prepared = { 0 };
    kv_slice ops = body_ops(body);
    struct reader reader = { ops.data, (const unsigned char *)ops.data + ops.size, false };
    struct op op = { 0 };
    size_t room = 0;
    bool memory = bytes_append(&prepared.body, body.data, body.size);
    while (memory && read_op(&reader, &op)) {
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
        return memory ? ops_bad(group, status)
                      : kv_fail(status, KV_NO_MEMORY, "no memory for a prepared batch");
    }
    if (prepared.key_count > 0)
        qsort(prepared.keys, prepared.key_count, sizeof(prepared.keys[0]), compare_u64);
    pthread_mutex_lock(&group->mutex);
    group->prepared[group->prepared_count++] = prepared;
    pthread_mutex_unlock(&group->mutex);
    return KV_OK;
}

/* Does a batch in doubt hold one of these keys? */
static bool ops_in_doubt(const kv_group *group, kv_slice ops)
{
    struct reader reader = { ops.data, (const unsigned char *)ops.data + ops.size, false };
    struct op op = { 0 };
    while (group->prepared_count > 0 && read_op(&reader, &op)) {
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

static bool resolved_has(const kv_group *group, kv_slice id)
{
    for (size_t at = 0; at < group->resolved.size;) {
        size_t size = group->resolved.data[at];
        if (kv_compare(kv_bytes(group->resolved.data + at + 1, size), id) == 0)
            return true;
        at += 1 + size;
    }
    return false;
}

static void resolved_note(kv_group *group, kv_slice id)
{
    unsigned char size = (unsigned char)id.size;
    size_t before = group->resolved.size;
    if (!bytes_append(&group->resolved, &size, 1) ||
        !bytes_append(&group->resolved, id.data, id.size))
        group->resolved.size = before; /* without memory reuse goes unnoticed, no more */
}

/* ---- The leader ----------------------------------------------------------- */

static kv_code group_checkpoint(kv_group *group, kv_status *status)
{
    kv_code code = members_sync(group, status);
    if (code != KV_OK)
        return code;
    kv_slice bodies[KV_GROUP_PREPARED_MAX];
    for (size_t i = 0; i < group->prepared_count; i++)
        bodies[i] = prepared_body(&group->prepared[i]);
    code = journal_advance(&group->journal, bodies, group->prepared_count, status);
    group->resolved.size = 0;
    group->work.checkpoints++;
    return code;
}

static size_t prepared_size(const kv_group *group)
{
    size_t size = 0;
    for (size_t i = 0; i < group->prepared_count; i++)
        size += journal_record_size(group->prepared[i].body.size);
    return size;
}

/* May the request enter the journal? Refusals harm nobody but the asker. */
static kv_code request_check(kv_group *group, struct request *request)
{
    size_t size = journal_record_size(request->body.size);
    if (size + prepared_size(group) > group->journal.header.size / 2)
        return kv_fail(request->status, KV_TOO_BIG,
                       "%zu bytes with what is in doubt exceed half the journal: split the "
                       "batch, or make the group with a larger journal",
                       size);
    if (request->kind == REQUEST_PREPARE) {
        if (group->prepared_count == KV_GROUP_PREPARED_MAX)
            return kv_fail(request->status, KV_TOO_BIG, "%u batches are in doubt already",
                           KV_GROUP_PREPARED_MAX);
        if (prepared_find(group, request->id) != NULL || resolved_has(group, request->id))
            return kv_fail(request->status, KV_CONFLICT, "the global id was used before");
    }
    if (request->kind == REQUEST_RESOLVE) {
        const struct prepared *prepared = prepared_find(group, request->id);
        if (prepared == NULL)
            return KV_NOT_FOUND;
        if (request->resolve_commit)
            request->ops = body_ops(prepared_body(prepared));
        return KV_OK;
    }
    if (ops_in_doubt(group, request->ops))
        return kv_fail(request->status, KV_BUSY,
                       "a key of the batch is held by a prepared one: resolve that first");
    return KV_OK;
}

/* Put one request into the journal's next write; what it means in memory comes in
 * request_finish, after the write. */
static kv_code request_gather(kv_group *group, struct request *request)
{
    request->code = request_check(group, request);
    if (request->code != KV_OK)
        return KV_OK;
    request->code = journal_gather(
        &group->journal, kv_bytes(request->body.data, request->body.size), request->status);
    request->written = request->code == KV_OK;
    if (!request->written)
        return KV_OK;
    if (request->kind == REQUEST_PREPARE)
        return prepared_add(group, kv_bytes(request->body.data, request->body.size),
                            request->status);
    if (request->ops.size > 0)
        return members_gather(group, request->ops, request->status);
    return KV_OK;
}

static void request_finish(kv_group *group, struct request *request)
{
    if (!request->written || request->kind != REQUEST_RESOLVE)
        return;
    resolved_note(group, request->id);
    prepared_remove(group, prepared_find(group, request->id));
}

/* Journal and hand over the requests from `first` up to the one before `end`. */
static kv_code requests_run(kv_group *group, struct request *first, const struct request *end,
                            kv_status *status)
{
    kv_code code = KV_OK;
    bool sync = false, written = false;
    for (struct request *request = first; request != end && code == KV_OK;
         request = request->next) {
        code = request_gather(group, request);
        if (code != KV_OK)
            return kv_fail(status, code, "%s",
                           request->status == NULL ? kv_code_text(code)
                                                   : request->status->message);
        sync = sync || (request->sync && request->written);
        written = written || request->written;
    }
    if (!written)
        return KV_OK;
    group->work.journal_bytes += group->journal.write_size;
    code = journal_write(&group->journal, sync, status);
    if (code == KV_OK)
        code = members_commit(group, group->journal.sequence, 0, status);
    for (struct request *request = first; request != end && code == KV_OK;
         request = request->next) {
        request_finish(group, request);
        group->work.commits += request->written && request->kind == REQUEST_COMMIT;
    }
    group->work.syncs += sync;
    return code;
}

/* A resolution must find what was prepared before it in memory, so each starts a run
 * of its own; so does what no longer fits the journal, after a checkpoint. */
static const struct request *run_end(const kv_group *group, const struct request *first)
{
    if (first->kind == REQUEST_CHECKPOINT || first->kind == REQUEST_RESOLVE)
        return first->next;
    size_t size = 0;
    const struct request *end = first;
    for (; end != NULL && (end->kind == REQUEST_COMMIT || end->kind == REQUEST_PREPARE);
         end = end->next) {
        size += journal_record_size(end->body.size);
        if (end != first && !journal_has_room(&group->journal, size))
            break;
    }
    return end;
}

static void queue_run(kv_group *group, struct request *first)
{
    while (first != NULL) {
        kv_status why = group->harm;
        bool harmed = why.code != KV_OK;
        kv_code code = KV_OK;
        if (!harmed && first->kind != REQUEST_CHECKPOINT &&
            !journal_has_room(&group->journal, journal_record_size(first->body.size)))
            code = group_checkpoint(group, &why);
        const struct request *end = run_end(group, first);
        if (!harmed && code == KV_OK)
            code = first->kind == REQUEST_CHECKPOINT ? group_checkpoint(group, &why)
                                                     : requests_run(group, first, end, &why);
        if (code != KV_OK)
            group->harm = why;
        for (; first != end; first = first->next) {
            if (harmed)
                first->code =
                    kv_fail(first->status, KV_READ_ONLY,
                            "the group was harmed, open it anew: %.180s", why.message);
            else if (code != KV_OK && first->code == KV_OK)
                first->code = kv_fail(first->status, code, "%s", why.message);
        }
    }
}

static kv_code request_run(kv_group *group, struct request *request)
{
    pthread_cond_init(&request->wake, NULL);
    pthread_mutex_lock(&group->mutex);
    struct request **tail = &group->queue;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = request;
    while (!request->done && (group->led || group->queue != request))
        pthread_cond_wait(&request->wake, &group->mutex);

    if (!request->done) {
        struct request *first = group->queue;
        group->queue = NULL;
        group->led = true;
        pthread_mutex_unlock(&group->mutex);
        queue_run(group, first);
        pthread_mutex_lock(&group->mutex);
        group->led = false;
        group->counts = group->work;
        for (struct request *next; first != NULL; first = next) {
            next = first->next; /* gone as soon as its owner sees it done */
            first->done = true;
            if (first != request)
                pthread_cond_signal(&first->wake);
        }
        if (group->queue != NULL)
            pthread_cond_signal(&group->queue->wake);
    }
    pthread_mutex_unlock(&group->mutex);
    pthread_cond_destroy(&request->wake);
    return request->code;
}

/* ---- Batches -------------------------------------------------------------- */

kv_code kv_group_batch_new(kv_group *group, kv_group_batch **out, kv_status *status)
{
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a batch");
    (*out)->group = group;
    pthread_mutex_lock(&group->mutex);
    group->live_batches++;
    pthread_mutex_unlock(&group->mutex);
    return KV_OK;
}

void kv_group_batch_free(kv_group_batch *batch)
{
    if (batch == NULL)
        return;
    pthread_mutex_lock(&batch->group->mutex);
    batch->group->live_batches--;
    pthread_mutex_unlock(&batch->group->mutex);
    free(batch->ops.data);
    free(batch);
}

void kv_group_batch_clear(kv_group_batch *batch)
{
    batch->ops.size = 0;
    batch->last = NULL;
    batch->count = 0;
    batch->status = (kv_status)KV_STATUS_INIT;
}

size_t kv_group_batch_count(const kv_group_batch *batch)
{
    return batch->count;
}

static size_t member_of(const kv_group *group, const kv_space *space)
{
    size_t index = 0;
    while (index < group->member_count && group->members[index].db != space->db)
        index++;
    return index;
}

static void batch_op(kv_group_batch *batch, kv_space *space, enum op_kind kind, kv_slice key,
                     kv_slice value)
{
    size_t member = member_of(batch->group, space);
    kv_code code = KV_OK;
    if (member == batch->group->member_count)
        code = kv_fail(&batch->status, KV_INVALID, "space %s is of no member of the group",
                       space->name);
    else if (key.size == 0 || key.size > KV_KEY_SIZE_MAX || value.size > KV_VALUE_SIZE_MAX)
        code = kv_fail(&batch->status, KV_INVALID, "key of %zu or value of %zu bytes", key.size,
                       value.size);
    if (code != KV_OK)
        return;

    size_t before = batch->ops.size;
    kv_slice name = space == batch->last ? kv_bytes(NULL, 0) : kv_text(space->name);
    bool memory =
        bytes_append_number(&batch->ops, member) && bytes_append_number(&batch->ops, kind) &&
        bytes_append_slice(&batch->ops, name) && bytes_append_slice(&batch->ops, key) &&
        (kind != OP_PUT || bytes_append_slice(&batch->ops, value));
    if (memory) {
        batch->last = space;
        batch->count++;
        return;
    }
    batch->ops.size = before;
    if (kv_fail(&batch->status, KV_NO_MEMORY, "no memory for a batch") != KV_NO_MEMORY)
        return; /* an earlier fault stands */
}

void kv_group_batch_put(kv_group_batch *batch, kv_space *space, kv_slice key, kv_slice value)
{
    batch_op(batch, space, OP_PUT, key, value);
}

void kv_group_batch_delete(kv_group_batch *batch, kv_space *space, kv_slice key)
{
    batch_op(batch, space, OP_DELETE, key, kv_bytes(NULL, 0));
}

/* Make a body of kind, id and operations. */
static bool body_make(struct bytes *body, enum body_kind kind, kv_slice id,
                      const struct bytes *ops)
{
    unsigned char head[2] = { (unsigned char)kind, (unsigned char)id.size };
    return bytes_append(body, head, sizeof(head)) && bytes_append(body, id.data, id.size) &&
           (ops == NULL || bytes_append(body, ops->data, ops->size));
}

static kv_code id_check(kv_slice id, kv_status *status)
{
    if (id.size >= 1 && id.size <= KV_GROUP_ID_SIZE_MAX)
        return KV_OK;
    return kv_fail(status, KV_INVALID, "a global id is 1 to %u bytes, not %zu",
                   KV_GROUP_ID_SIZE_MAX, id.size);
}

static kv_code batch_submit(kv_group_batch *batch, enum body_kind kind, kv_slice id, bool sync,
                            kv_status *status)
{
    if (batch->status.code != KV_OK)
        return kv_fail(status, batch->status.code, "%s", batch->status.message);
    struct request request = {
        .kind = kind == BODY_PREPARE ? REQUEST_PREPARE : REQUEST_COMMIT,
        .sync = sync,
        .id = id,
        .status = status,
    };
    if (!body_make(&request.body, kind, id, &batch->ops)) {
        free(request.body.data);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a batch");
    }
    request.ops = body_ops(kv_bytes(request.body.data, request.body.size));
    kv_code code = request_run(batch->group, &request);
    free(request.body.data);
    if (code == KV_OK)
        kv_group_batch_clear(batch);
    return code;
}

kv_code kv_group_batch_commit(kv_group_batch *batch, unsigned flags, kv_status *status)
{
    return batch_submit(batch, BODY_COMMIT, kv_bytes(NULL, 0), (flags & KV_SYNC) != 0, status);
}

kv_code kv_group_batch_prepare(kv_group_batch *batch, kv_slice id, kv_status *status)
{
    kv_code code = id_check(id, status);
    return code != KV_OK ? code : batch_submit(batch, BODY_PREPARE, id, true, status);
}

kv_code kv_group_resolve(kv_group *group, kv_slice id, bool commit, kv_status *status)
{
    kv_code code = id_check(id, status);
    if (code != KV_OK)
        return code;
    struct request request = {
        .kind = REQUEST_RESOLVE,
        .sync = true,
        .id = id,
        .resolve_commit = commit,
        .status = status,
    };
    if (!body_make(&request.body, commit ? BODY_RESOLVE_COMMIT : BODY_RESOLVE_ABORT, id, NULL))
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a global id");
    else
        code = request_run(group, &request);
    free(request.body.data);
    return code;
}

void kv_group_in_doubt(kv_group *group, bool (*visit)(void *context, kv_slice id),
                       void *context)
{
    pthread_mutex_lock(&group->mutex);
    bool more = true;
    for (size_t i = 0; i < group->prepared_count && more; i++)
        more = visit(context, body_id(prepared_body(&group->prepared[i])));
    pthread_mutex_unlock(&group->mutex);
}

kv_code kv_group_checkpoint(kv_group *group, kv_status *status)
{
    struct request request = { .kind = REQUEST_CHECKPOINT, .status = status };
    return request_run(group, &request);
}

kv_group_counts kv_group_counts_of(kv_group *group)
{
    pthread_mutex_lock(&group->mutex);
    kv_group_counts counts = group->counts;
    pthread_mutex_unlock(&group->mutex);
    return counts;
}

/* ---- Opening -------------------------------------------------------------- */

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
    marker_encode(group, index, 0, wanted);
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
    kv_slice ops = body_ops(body);
    struct reader reader = { ops.data, (const unsigned char *)ops.data + ops.size, false };
    struct op op = { 0 };
    while (read_op(&reader, &op) && op.member < group->member_count)
        continue;
    return reader.bad || reader.at != reader.end ? ops_bad(group, status) : KV_OK;
}

static kv_code body_replay(void *context, uint64_t sequence, kv_slice body, kv_status *status)
{
    kv_group *group = context;
    enum body_kind kind = (enum body_kind)((const unsigned char *)body.data)[0];
    struct prepared *prepared = NULL;
    kv_slice ops = body_ops(body);
    group->counts.replayed++;
    if (kind == BODY_PREPARE)
        return prepared_add(group, body, status);
    if (kind != BODY_COMMIT) {
        prepared = prepared_find(group, body_id(body));
        if (prepared == NULL)
            return kv_fail(status, KV_CORRUPT, "%s: record %llu resolves what was not prepared",
                           group->journal.path, (unsigned long long)sequence);
        ops =
            kind == BODY_RESOLVE_COMMIT ? body_ops(prepared_body(prepared)) : kv_bytes(NULL, 0);
    }
    kv_code code = members_gather(group, ops, status);
    for (size_t i = 0; i < group->member_count; i++) {
        struct member *member = &group->members[i];
        if (member->durable)
            continue;
        kv_batch_clear(member->batch); /* it begins empty, not in the middle */
        member->touched = false;
    }
    if (code == KV_OK)
        code = members_commit(group, sequence, 0, status);
    if (code == KV_OK && prepared != NULL)
        prepared_remove(group, prepared);
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

static void group_free(kv_group *group)
{
    journal_close(&group->journal);
    for (size_t i = 0; i < group->member_count; i++)
        kv_batch_free(group->members[i].batch);
    while (group->prepared_count > 0)
        prepared_remove(group, &group->prepared[group->prepared_count - 1]);
    free(group->resolved.data);
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
    pthread_mutex_init(&group->mutex, NULL);

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
