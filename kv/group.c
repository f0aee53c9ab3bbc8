/*
 * group.c - commits to several databases behind one redo journal.
 *
 * Who commits queues a request. The first in the queue leads: it waits a moment for
 * those whom the group before has just let go, takes all that are there, writes them
 * to the journal at once, syncs once if any asked for it, hands them to the members
 * in journal order, and wakes the rest.
 *
 *     commit -> queue -> leader: gather -> journal (write, sync) -> members -> done
 *
 * Without the wait, committers fall into two halves that take turns, each syncing
 * for itself. Who commits alone finds nobody away and never waits.
 */
#include "kv/group_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct kv_group_batch {
    kv_group *group;
    struct bytes ops;
    const kv_space *last; /* the space of the last operation */
    size_t count;
    kv_status status; /* the first fault while gathering */
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

/* ---- Ids resolved since the last checkpoint ------------------------------- */

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
    if (!group_bytes_append(&group->resolved, &size, 1) ||
        !group_bytes_append(&group->resolved, id.data, id.size))
        group->resolved.size = before; /* without memory reuse goes unnoticed, no more */
}

/* ---- The leader ----------------------------------------------------------- */

kv_code group_checkpoint(kv_group *group, kv_status *status)
{
    kv_code code = group_members_sync(group, status);
    if (code != KV_OK)
        return code;
    kv_slice bodies[KV_GROUP_PREPARED_MAX];
    for (size_t i = 0; i < group->prepared_count; i++)
        bodies[i] = group_prepared_body(&group->prepared[i]);
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
        if (group_prepared_find(group, request->id) != NULL || resolved_has(group, request->id))
            return kv_fail(request->status, KV_CONFLICT, "the global id was used before");
    }
    if (request->kind == REQUEST_RESOLVE) {
        const struct prepared *prepared = group_prepared_find(group, request->id);
        if (prepared == NULL)
            return KV_NOT_FOUND;
        if (request->resolve_commit)
            request->ops = group_body_ops(group_prepared_body(prepared));
        return KV_OK;
    }
    if (group_ops_in_doubt(group, request->ops))
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
        return group_prepared_add(group, kv_bytes(request->body.data, request->body.size),
                                  request->status);
    if (request->ops.size > 0)
        return group_members_gather(group, request->ops, request->status);
    return KV_OK;
}

static void request_finish(kv_group *group, struct request *request)
{
    if (!request->written || request->kind != REQUEST_RESOLVE)
        return;
    resolved_note(group, request->id);
    group_prepared_remove(group, group_prepared_find(group, request->id));
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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
    uint64_t start = clock_ns();
    code = journal_write(&group->journal, sync, status);
    if (sync)
        group->gather.sync_ns = (7 * group->gather.sync_ns + clock_ns() - start) / 8;
    if (code == KV_OK)
        code = group_members_commit(group, group->journal.sequence, status);
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

/* With the mutex held, and leading: wait for those on their way back. */
static void gather_wait(kv_group *group)
{
    struct gather *gather = &group->gather;
    if (gather->away == 0 || gather->sync_ns < GATHER_NS_MIN)
        return;
    if (gather->quiet > 0) {
        gather->quiet--;
        return;
    }
    uint64_t patience = gather->sync_ns < GATHER_NS_MAX ? gather->sync_ns : GATHER_NS_MAX;
    uint64_t until_ns = clock_ns() + patience;
    const struct timespec until = { (time_t)(until_ns / 1000000000u),
                                    (long)(until_ns % 1000000000u) };
    size_t before = gather->queued;
    gather->wanted = before + gather->away;
    while (gather->queued < gather->wanted &&
           pthread_cond_timedwait(&gather->full, &group->mutex, &until) == 0)
        continue;
    gather->wanted = 0;
    bool in_vain = gather->queued == before;
    gather->pause = !in_vain ? 0 : gather->pause == 0 ? 1 : 2 * gather->pause;
    if (gather->pause > GATHER_PAUSE_MAX)
        gather->pause = GATHER_PAUSE_MAX;
    gather->quiet = gather->pause;
}

/* With the mutex held. */
static void queue_join(kv_group *group, struct request *request)
{
    struct gather *gather = &group->gather;
    *group->queue_end = request;
    group->queue_end = &request->next;
    gather->queued++;
    if (gather->away > 0)
        gather->away--;
    if (gather->queued == gather->wanted)
        pthread_cond_signal(&gather->full);
}

/* With the mutex held, and nobody leading: run all that queue, `own` among them. */
static void queue_lead(kv_group *group, const struct request *own)
{
    group->led = true;
    if (own->sync)
        gather_wait(group);
    struct request *first = group->queue;
    group->queue = NULL;
    group->queue_end = &group->queue;
    size_t count = group->gather.queued;
    group->gather.queued = 0;
    group->gather.away = 0; /* who comes from here on is not of this group */
    pthread_mutex_unlock(&group->mutex);
    queue_run(group, first);
    pthread_mutex_lock(&group->mutex);
    group->led = false;
    group->gather.away = count;
    group->counts = group->work;
    for (struct request *next; first != NULL; first = next) {
        next = first->next; /* gone as soon as its owner sees it done */
        first->done = true;
        if (first != own)
            pthread_cond_signal(&first->wake);
    }
    if (group->queue != NULL)
        pthread_cond_signal(&group->queue->wake);
}

static kv_code request_run(kv_group *group, struct request *request)
{
    pthread_cond_init(&request->wake, NULL);
    pthread_mutex_lock(&group->mutex);
    queue_join(group, request);
    while (!request->done && (group->led || group->queue != request))
        pthread_cond_wait(&request->wake, &group->mutex);
    if (!request->done)
        queue_lead(group, request);
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
    bool memory = group_bytes_append_number(&batch->ops, member) &&
                  group_bytes_append_number(&batch->ops, kind) &&
                  group_bytes_append_slice(&batch->ops, name) &&
                  group_bytes_append_slice(&batch->ops, key) &&
                  (kind != OP_PUT || group_bytes_append_slice(&batch->ops, value));
    if (memory) {
        batch->last = space;
        batch->count++;
        return;
    }
    batch->ops.size = before;
    kv_fail(&batch->status, KV_NO_MEMORY, "no memory for a batch");
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
    return group_bytes_append(body, head, sizeof(head)) &&
           group_bytes_append(body, id.data, id.size) &&
           (ops == NULL || group_bytes_append(body, ops->data, ops->size));
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
    request.ops = group_body_ops(kv_bytes(request.body.data, request.body.size));
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
        more = visit(context, group_body_id(group_prepared_body(&group->prepared[i])));
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
