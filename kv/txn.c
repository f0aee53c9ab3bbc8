/* txn.c - managers, the life of a transaction, reads, writes, savepoints. */
#include "kv/txn_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { SPARES_MAX = 64 };            /* closed transactions kept for reuse */
enum { RETRY_PAUSE_US_MAX = 16000 }; /* longest pause between tries of kv_txn_run */

/* ---- Managers ------------------------------------------------------------- */

static kv_code options_check(kv_txn_options *options, kv_status *status)
{
    if (options->mode != KV_TXN_OPTIMISTIC && options->mode != KV_TXN_PESSIMISTIC)
        return kv_fail(status, KV_INVALID, "no transaction mode %d", (int)options->mode);
    if (options->isolation != KV_TXN_SERIALIZABLE && options->isolation != KV_TXN_SNAPSHOT)
        return kv_fail(status, KV_INVALID, "no isolation level %d", (int)options->isolation);
    if ((options->flags & ~(unsigned)KV_SYNC) != 0)
        return kv_fail(status, KV_INVALID, "no transaction flags 0x%x", options->flags);
    if (options->timeout_ms == 0)
        options->timeout_ms = KV_TXN_TIMEOUT_MS_DEFAULT;
    if (options->attempts_max == 0)
        options->attempts_max = KV_TXN_ATTEMPTS_MAX_DEFAULT;
    if (options->size_max == 0)
        options->size_max = KV_TXN_SIZE_MAX_DEFAULT;
    return KV_OK;
}

kv_code kv_txn_manager_open(kv_db *db, const kv_txn_options *options, kv_txn_manager **out,
                            kv_status *status)
{
    *out = NULL;
    kv_txn_options wanted = options == NULL ? (kv_txn_options){ 0 } : *options;
    kv_code code = options_check(&wanted, status);
    if (code != KV_OK)
        return code;

    kv_txn_manager *manager = calloc(1, sizeof(*manager));
    if (manager == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a transaction manager");
    manager->db = db;
    manager->options = wanted;
    if (getrandom(manager->id_prefix, sizeof(manager->id_prefix), 0) !=
        (ssize_t)sizeof(manager->id_prefix))
        code = kv_fail(status, KV_INTERNAL, "no random bytes for transaction ids");
    if (code == KV_OK)
        code = oracle_init(&manager->oracle, status);
    if (code == KV_OK && (code = lock_table_init(&manager->locks, status)) != KV_OK)
        oracle_free(&manager->oracle);
    if (code == KV_OK && kv_mutex_init(&manager->spare_mutex) != 0) {
        lock_table_free(&manager->locks);
        oracle_free(&manager->oracle);
        code = kv_fail(status, KV_NO_MEMORY, "no memory for a mutex");
    }
    if (code != KV_OK) {
        free(manager);
        return code;
    }
    *out = manager;
    return KV_OK;
}

static void txn_free(kv_txn *txn)
{
    kv_batch_free(txn->batch);
    txn_buffer_free(&txn->buffer);
    lock_owner_free(&txn->locks);
    free(txn->reads);
    free(txn->ranges);
    free(txn->marks);
    free(txn);
}

kv_code kv_txn_manager_close(kv_txn_manager *manager, kv_status *status)
{
    if (manager == NULL)
        return KV_OK;
    uint64_t live = atomic_load(&manager->live);
    if (live > 0)
        return kv_fail(status, KV_BUSY, "%llu transactions are not closed",
                       (unsigned long long)live);
    while (manager->spares != NULL) {
        kv_txn *txn = manager->spares;
        manager->spares = txn->next_spare;
        txn_free(txn);
    }
    pthread_mutex_destroy(&manager->spare_mutex);
    lock_table_free(&manager->locks);
    oracle_free(&manager->oracle);
    free(manager);
    return KV_OK;
}

kv_txn_counts kv_txn_manager_counts(const kv_txn_manager *manager)
{
    return (kv_txn_counts){
        .commits = atomic_load(&manager->commits),
        .aborts = atomic_load(&manager->aborts),
        .conflicts = atomic_load(&manager->conflicts),
        .deadlocks = atomic_load(&manager->locks.deadlocks),
        .timeouts = atomic_load(&manager->locks.timeouts),
        .lock_waits = atomic_load(&manager->locks.waits),
    };
}

/* ---- Identity ------------------------------------------------------------- */

kv_txn_id kv_txn_identity(const kv_txn *txn)
{
    kv_txn_id id;
    memcpy(id.bytes, txn->manager->id_prefix, 8);
    for (unsigned i = 0; i < 8; i++)
        id.bytes[8 + i] = (uint8_t)(txn->id >> (56 - 8 * i));
    return id;
}

char *kv_txn_id_text(const kv_txn_id *id, char text[KV_TXN_ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof(id->bytes); i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    text[KV_TXN_ID_TEXT_SIZE - 1] = '\0';
    return text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

kv_code kv_txn_id_parse(const char *text, kv_txn_id *out, kv_status *status)
{
    kv_txn_id id = { { 0 } };
    size_t size = strnlen(text, KV_TXN_ID_TEXT_SIZE);
    for (size_t i = 0; i < size && size == 2 * sizeof(id.bytes); i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            size = 0;
        else
            id.bytes[i / 2] = (uint8_t)(id.bytes[i / 2] << 4 | digit);
    }
    *out = size == 2 * sizeof(id.bytes) ? id : (kv_txn_id){ { 0 } };
    if (size != 2 * sizeof(id.bytes))
        return kv_fail(status, KV_INVALID, "a transaction id is 32 lower-case hex digits");
    return KV_OK;
}

/* ---- Begin, end ----------------------------------------------------------- */

kv_code txn_grow(void *array, size_t count, size_t *room, size_t size, kv_status *status)
{
    if (count < *room)
        return KV_OK;
    size_t wanted = *room == 0 ? 16 : *room * 2;
    void *memory;
    memcpy(&memory, array, sizeof(memory));
    memory = realloc(memory, wanted * size);
    if (memory == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for %zu entries of a transaction",
                       wanted);
    memcpy(array, &memory, sizeof(memory));
    *room = wanted;
    return KV_OK;
}

static kv_txn *spare_take(kv_txn_manager *manager)
{
    pthread_mutex_lock(&manager->spare_mutex);
    kv_txn *txn = manager->spares;
    if (txn != NULL) {
        manager->spares = txn->next_spare;
        manager->spare_count--;
    }
    pthread_mutex_unlock(&manager->spare_mutex);
    return txn;
}

static bool spare_give(kv_txn_manager *manager, kv_txn *txn)
{
    pthread_mutex_lock(&manager->spare_mutex);
    bool kept = manager->spare_count < SPARES_MAX;
    if (kept) {
        txn->next_spare = manager->spares;
        manager->spares = txn;
        manager->spare_count++;
    }
    pthread_mutex_unlock(&manager->spare_mutex);
    return kept;
}

/* NULL: out of memory. */
static kv_txn *txn_new(kv_txn_manager *manager, kv_status *status)
{
    kv_txn *txn = calloc(1, sizeof(*txn));
    if (txn == NULL) {
        kv_fail(status, KV_NO_MEMORY, "no memory for a transaction");
        return NULL;
    }
    txn->manager = manager;
    txn_buffer_init(&txn->buffer);
    return txn;
}

kv_code kv_txn_begin(kv_txn_manager *manager, kv_txn **out, kv_status *status)
{
    kv_txn *txn = spare_take(manager);
    if (txn == NULL)
        txn = txn_new(manager, status);
    *out = txn;
    if (txn == NULL)
        return KV_NO_MEMORY;
    txn->id = atomic_fetch_add_explicit(&manager->id_next, 1, memory_order_relaxed);
    txn->state = KV_TXN_ACTIVE;
    txn->start = atomic_load_explicit(&manager->oracle.newest, memory_order_acquire);
    atomic_fetch_add_explicit(&manager->live, 1, memory_order_relaxed);
    return KV_OK;
}

kv_txn_state kv_txn_state_of(const kv_txn *txn)
{
    return txn->state;
}

kv_code txn_check_active(const kv_txn *txn, kv_status *status)
{
    static const char *const names[] = { "active", "failed", "committed", "aborted" };
    if (txn->state == KV_TXN_ACTIVE)
        return KV_OK;
    return kv_fail(status, KV_BAD_STATE, "the transaction is %s already", names[txn->state]);
}

/* Note that only abort is left, when `code` says so. */
static kv_code txn_failed(kv_txn *txn, kv_code code)
{
    if (code == KV_OK || code == KV_NOT_FOUND || code == KV_INVALID || code == KV_TOO_BIG)
        return code;
    txn->state = KV_TXN_FAILED;
    if (code == KV_CONFLICT || code == KV_TOO_OLD)
        atomic_fetch_add_explicit(&txn->manager->conflicts, 1, memory_order_relaxed);
    return code;
}

/* Let go of everything but the memory. */
static void txn_release(kv_txn *txn)
{
    lock_release_to(txn, 0);
    kv_snapshot_release(txn->snapshot);
    txn->snapshot = NULL;
    if (txn->range_count > 0) {
        pthread_mutex_lock(&txn->manager->oracle.commit);
        txn->manager->oracle.scanners--;
        pthread_mutex_unlock(&txn->manager->oracle.commit);
    }
    for (size_t i = 0; i < txn->range_count; i++)
        free(txn->ranges[i].bytes);
    txn->range_count = 0;
    txn->read_count = 0;
    txn->mark_count = 0;
    txn_buffer_clear(&txn->buffer);
}

void kv_txn_abort(kv_txn *txn)
{
    if (txn == NULL || txn->state == KV_TXN_COMMITTED || txn->state == KV_TXN_ABORTED)
        return;
    txn->state = KV_TXN_ABORTED;
    atomic_fetch_add_explicit(&txn->manager->aborts, 1, memory_order_relaxed);
    txn_release(txn);
}

void kv_txn_close(kv_txn *txn)
{
    if (txn == NULL)
        return;
    kv_txn_abort(txn);
    kv_txn_manager *manager = txn->manager;
    if (!spare_give(manager, txn))
        txn_free(txn);
    atomic_fetch_sub_explicit(&manager->live, 1, memory_order_relaxed);
}

/* ---- Checks against what others committed --------------------------------- */

static uint64_t version_of(const kv_txn_manager *manager, uint32_t slot)
{
    return atomic_load_explicit(&manager->oracle.versions[slot], memory_order_acquire);
}

static kv_code conflict(kv_status *status)
{
    return kv_fail(status, KV_CONFLICT, "something read was written by another transaction");
}

static bool reads_hold(const kv_txn *txn)
{
    for (size_t i = 0; i < txn->read_count; i++)
        if (version_of(txn->manager, txn->reads[i]) > txn->start)
            return false;
    return true;
}

/* With the commit mutex held. */
static kv_code ranges_check(const kv_txn *txn, kv_status *status)
{
    for (size_t i = 0; i < txn->range_count; i++) {
        const struct txn_range *range = &txn->ranges[i];
        kv_code code =
            oracle_check_range(&txn->manager->oracle, txn->start, range->space, &range->keys);
        if (code == KV_TOO_OLD)
            return kv_fail(status, code,
                           "too much was written since a range was read to tell whether it "
                           "still holds");
        if (code != KV_OK)
            return conflict(status);
    }
    return KV_OK;
}

/*
 * Move the moment that is read to now, which is to show commit `version`; what was read
 * must hold until then. A commit marks its keys before it writes them, and writing may
 * take as long as a sync: who met the mark waits for it, and does not look again and
 * again on the processor that the commit needs.
 */
static kv_code start_extend(kv_txn *txn, uint64_t version, kv_status *status)
{
    struct oracle *oracle = &txn->manager->oracle;
    uint64_t now = atomic_load_explicit(&oracle->newest, memory_order_acquire);
    if (now < version) {
        pthread_mutex_lock(&oracle->commit);
        now = atomic_load_explicit(&oracle->newest, memory_order_relaxed);
        pthread_mutex_unlock(&oracle->commit);
    }
    if (!reads_hold(txn))
        return conflict(status);
    txn->start = now;
    return KV_OK;
}

/* Read from one view from here on. With the commit mutex held no commit is half
 * done, so the view is exactly of `newest`. */
static kv_code snapshot_start(kv_txn *txn, bool scans, kv_status *status)
{
    struct oracle *oracle = &txn->manager->oracle;
    if (txn->snapshot != NULL && !scans)
        return KV_OK;

    pthread_mutex_lock(&oracle->commit);
    kv_code code = KV_OK;
    if (txn->snapshot == NULL) {
        if (!reads_hold(txn))
            code = conflict(status);
        else
            code = kv_snapshot_take(txn->manager->db, &txn->snapshot, status);
        if (code == KV_OK)
            txn->start = atomic_load(&oracle->newest);
    }
    if (code == KV_OK && scans && txn->range_count == 0)
        oracle->scanners++;
    pthread_mutex_unlock(&oracle->commit);
    return code;
}

static kv_code read_note(kv_txn *txn, uint32_t slot, kv_status *status)
{
    if (txn->read_count > 0 && txn->reads[txn->read_count - 1] == slot)
        return KV_OK;
    if (txn->read_count == KV_TXN_READS_MAX)
        return kv_fail(status, KV_TOO_BIG, "the transaction read more than %u keys",
                       KV_TXN_READS_MAX);
    kv_code code =
        txn_grow(&txn->reads, txn->read_count, &txn->read_room, sizeof(txn->reads[0]), status);
    if (code == KV_OK)
        txn->reads[txn->read_count++] = slot;
    return code;
}

/* ---- Reading -------------------------------------------------------------- */

static bool is_serializable(const kv_txn *txn)
{
    return txn->manager->options.isolation == KV_TXN_SERIALIZABLE;
}

static bool is_pessimistic(const kv_txn *txn)
{
    return txn->manager->options.mode == KV_TXN_PESSIMISTIC;
}

static kv_code lock_key(kv_txn *txn, kv_space *space, kv_slice key, bool exclusive,
                        kv_status *status)
{
    kv_code code =
        lock_take(txn, space, kv_bytes(NULL, 0), exclusive ? LOCK_IX : LOCK_IS, status);
    if (code == KV_OK)
        code = lock_take(txn, space, key, exclusive ? LOCK_X : LOCK_S, status);
    return code;
}

static kv_code read_own(const struct txn_node *node, kv_value *out)
{
    if (node->kind == TXN_DELETE)
        return KV_NOT_FOUND;
    *out = (kv_value){ .bytes = node->value }; /* lives as long as the transaction */
    return KV_OK;
}

static kv_code read_store(kv_txn *txn, kv_space *space, kv_slice key, kv_value *out,
                          kv_status *status)
{
    kv_read read = { .snapshot = txn->snapshot };
    return kv_get(space, &read, key, out, status);
}

/* Read the newest value and, unless a view is open, make sure it is of the moment
 * that all reads are of. */
static kv_code read_checked(kv_txn *txn, kv_space *space, kv_slice key, kv_value *out,
                            kv_status *status)
{
    uint32_t slot = oracle_slot(txn_hash(space, key));
    for (;;) {
        kv_code code = read_store(txn, space, key, out, status);
        if (code != KV_OK && code != KV_NOT_FOUND)
            return code;
        uint64_t version = version_of(txn->manager, slot);
        if (txn->snapshot != NULL || version <= txn->start) {
            kv_code noted = read_note(txn, slot, status);
            if (noted != KV_OK)
                kv_value_release(out);
            return noted == KV_OK ? code : noted;
        }
        kv_value_release(out);
        code = start_extend(txn, version, status);
        if (code != KV_OK)
            return code;
    }
}

static kv_code txn_read(kv_txn *txn, kv_space *space, kv_slice key, bool for_update,
                        kv_value *out, kv_status *status)
{
    kv_code code = KV_OK;
    if (is_pessimistic(txn) && (for_update || is_serializable(txn)))
        code = lock_key(txn, space, key, for_update, status);
    if (code == KV_OK && !is_serializable(txn))
        code = snapshot_start(txn, false, status);
    if (code != KV_OK)
        return code;

    if (is_serializable(txn))
        return is_pessimistic(txn) ? read_store(txn, space, key, out, status)
                                   : read_checked(txn, space, key, out, status);
    if (!for_update)
        return read_store(txn, space, key, out, status);
    uint32_t slot = oracle_slot(txn_hash(space, key));
    if (version_of(txn->manager, slot) > txn->start)
        return conflict(status);
    return read_checked(txn, space, key, out, status);
}

static kv_code txn_get(kv_txn *txn, kv_space *space, kv_slice key, bool for_update,
                       kv_value *out, kv_status *status)
{
    kv_code code = txn_check_active(txn, status);
    if (code != KV_OK)
        return code;
    struct txn_node *node = txn_buffer_find(&txn->buffer, space, key);
    if (node != NULL && node->kind != TXN_NONE)
        return read_own(node, out);
    return txn_failed(txn, txn_read(txn, space, key, for_update, out, status));
}

kv_code kv_txn_get(kv_txn *txn, kv_space *space, kv_slice key, kv_value *out, kv_status *status)
{
    return txn_get(txn, space, key, false, out, status);
}

kv_code kv_txn_get_for_update(kv_txn *txn, kv_space *space, kv_slice key, kv_value *out,
                              kv_status *status)
{
    return txn_get(txn, space, key, true, out, status);
}

kv_code txn_range_copy(struct txn_range *to, kv_space *space, const kv_range *range,
                       kv_status *status)
{
    size_t first_size = range == NULL ? 0 : range->first.size;
    size_t limit_size = range == NULL ? 0 : range->limit.size;
    char *bytes = malloc(first_size + limit_size + 1);
    if (bytes == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a range");
    if (first_size > 0)
        memcpy(bytes, range->first.data, first_size);
    if (limit_size > 0)
        memcpy(bytes + first_size, range->limit.data, limit_size);
    *to = (struct txn_range){
        space, { kv_bytes(bytes, first_size), kv_bytes(bytes + first_size, limit_size) }, bytes
    };
    return KV_OK;
}

static kv_code range_note(kv_txn *txn, kv_space *space, const kv_range *range,
                          kv_status *status)
{
    kv_code code = txn_grow(&txn->ranges, txn->range_count, &txn->range_room,
                            sizeof(txn->ranges[0]), status);
    struct txn_range copy = { 0 };
    if (code == KV_OK)
        code = txn_range_copy(&copy, space, range, status);
    if (code != KV_OK)
        return code;
    code = snapshot_start(txn, true, status);
    if (code != KV_OK) {
        free(copy.bytes);
        return code;
    }
    txn->ranges[txn->range_count++] = copy;
    return KV_OK;
}

kv_code txn_guard_range(kv_txn *txn, kv_space *space, const kv_range *range, kv_status *status)
{
    kv_code code;
    if (!is_serializable(txn))
        code = snapshot_start(txn, false, status);
    else if (is_pessimistic(txn))
        code = lock_take(txn, space, kv_bytes(NULL, 0), LOCK_S, status);
    else
        code = range_note(txn, space, range, status);
    return txn_failed(txn, code);
}

/* ---- Writing -------------------------------------------------------------- */

static kv_code write_check(const kv_txn *txn, kv_slice key, kv_slice value, kv_status *status)
{
    kv_code code = txn_check_active(txn, status);
    if (code != KV_OK)
        return code;
    if (key.size == 0 || key.size > KV_KEY_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "a key is 1 to %u bytes, not %zu", KV_KEY_SIZE_MAX,
                       key.size);
    if (value.size > KV_VALUE_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "a value is at most %u bytes, not %zu",
                       KV_VALUE_SIZE_MAX, value.size);
    if (txn->buffer.size + key.size + value.size > txn->manager->options.size_max)
        return kv_fail(status, KV_TOO_BIG,
                       "the transaction would write more than %zu bytes: split it, or raise "
                       "size_max",
                       txn->manager->options.size_max);
    return KV_OK;
}

static kv_code txn_write(kv_txn *txn, kv_space *space, kv_slice key, enum txn_kind kind,
                         kv_slice value, kv_status *status)
{
    kv_code code = write_check(txn, key, value, status);
    if (code != KV_OK)
        return code;
    if (is_pessimistic(txn)) {
        code = lock_key(txn, space, key, true, status);
        if (code == KV_OK && !is_serializable(txn) &&
            version_of(txn->manager, oracle_slot(txn_hash(space, key))) > txn->start)
            code = conflict(status);
    }
    if (code == KV_OK)
        code = txn_buffer_set(&txn->buffer, space, key, kind, value, status);
    return txn_failed(txn, code);
}

kv_code kv_txn_put(kv_txn *txn, kv_space *space, kv_slice key, kv_slice value,
                   kv_status *status)
{
    return txn_write(txn, space, key, TXN_PUT, value, status);
}

kv_code kv_txn_delete(kv_txn *txn, kv_space *space, kv_slice key, kv_status *status)
{
    return txn_write(txn, space, key, TXN_DELETE, kv_bytes(NULL, 0), status);
}

/* ---- Savepoints ----------------------------------------------------------- */

kv_code kv_txn_savepoint_take(kv_txn *txn, kv_txn_savepoint *out, kv_status *status)
{
    *out = (kv_txn_savepoint){ 0, 0 };
    kv_code code = txn_check_active(txn, status);
    if (code != KV_OK)
        return code;
    if (txn->mark_count == KV_TXN_SAVEPOINTS_MAX)
        return kv_fail(status, KV_TOO_BIG, "savepoints nest at most %u deep",
                       KV_TXN_SAVEPOINTS_MAX);
    size_t room = txn->mark_room;
    code = txn_grow(&txn->marks, txn->mark_count, &room, sizeof(txn->marks[0]), status);
    if (code != KV_OK)
        return code;
    txn->mark_room = (uint32_t)room;
    txn->marks[txn->mark_count] =
        (struct txn_mark){ txn->buffer.undo_count, txn->locks.count, ++txn->serial };
    *out = (kv_txn_savepoint){ txn->mark_count++, txn->serial };
    return KV_OK;
}

static kv_code savepoint_find(const kv_txn *txn, kv_txn_savepoint savepoint, kv_status *status)
{
    kv_code code = txn_check_active(txn, status);
    if (code != KV_OK)
        return code;
    if (savepoint.depth >= txn->mark_count ||
        txn->marks[savepoint.depth].serial != savepoint.serial)
        return kv_fail(status, KV_BAD_STATE, "the savepoint has ended already");
    return KV_OK;
}

kv_code kv_txn_savepoint_rollback(kv_txn *txn, kv_txn_savepoint savepoint, kv_status *status)
{
    kv_code code = savepoint_find(txn, savepoint, status);
    if (code != KV_OK)
        return code;
    const struct txn_mark *mark = &txn->marks[savepoint.depth];
    txn_buffer_rollback(&txn->buffer, mark->undo_count);
    lock_release_to(txn, mark->lock_count);
    txn->mark_count = savepoint.depth;
    return KV_OK;
}

kv_code kv_txn_savepoint_release(kv_txn *txn, kv_txn_savepoint savepoint, kv_status *status)
{
    kv_code code = savepoint_find(txn, savepoint, status);
    if (code == KV_OK)
        txn->mark_count = savepoint.depth;
    return code;
}

/* ---- Commit --------------------------------------------------------------- */

static struct txn_node *first_written(const kv_txn *txn)
{
    struct txn_node *node = txn->buffer.head[0];
    while (node != NULL && node->kind == TXN_NONE)
        node = node->next[0];
    return node;
}

static kv_code batch_fill(kv_txn *txn, kv_status *status)
{
    kv_code code = KV_OK;
    if (txn->batch == NULL)
        code = kv_batch_new(txn->manager->db, &txn->batch, status);
    if (code != KV_OK)
        return code;
    kv_batch_clear(txn->batch);
    for (struct txn_node *node = first_written(txn); node != NULL; node = node->next[0]) {
        if (node->kind == TXN_PUT)
            kv_batch_put(txn->batch, node->space, node->key, node->value);
        else if (node->kind == TXN_DELETE)
            kv_batch_delete(txn->batch, node->space, node->key);
    }
    return KV_OK;
}

/* With the commit mutex held: does everything still hold that must? */
static kv_code commit_check(const kv_txn *txn, kv_status *status)
{
    if (is_pessimistic(txn) && is_serializable(txn))
        return KV_OK;
    if (!reads_hold(txn))
        return conflict(status);
    if (is_serializable(txn))
        return ranges_check(txn, status);
    for (const struct txn_node *node = first_written(txn); node != NULL; node = node->next[0]) {
        uint32_t slot = oracle_slot(txn_hash(node->space, node->key));
        if (node->kind != TXN_NONE && version_of(txn->manager, slot) > txn->start)
            return conflict(status);
    }
    return KV_OK;
}

static kv_code commit_writes(kv_txn *txn, unsigned flags, kv_status *status)
{
    struct oracle *oracle = &txn->manager->oracle;
    pthread_mutex_lock(&oracle->commit);
    kv_code code = commit_check(txn, status);
    if (code == KV_OK) {
        /* Marked before it is written: who sees the new value sees the mark. A
         * commit that fails has used up its version, no more. */
        uint64_t version = atomic_load_explicit(&oracle->newest, memory_order_relaxed) + 1;
        for (const struct txn_node *node = first_written(txn); node != NULL;
             node = node->next[0])
            if (node->kind != TXN_NONE)
                oracle_note(oracle, version, node->space, node->key);
        code = kv_batch_commit(txn->batch, flags, status);
        atomic_store_explicit(&oracle->newest, version, memory_order_release);
    }
    pthread_mutex_unlock(&oracle->commit);
    return code;
}

/* A transaction that only read is of one moment already; under snapshot isolation
 * it may have asked to guard what it read. */
static kv_code commit_reads(kv_txn *txn, kv_status *status)
{
    return is_serializable(txn) || reads_hold(txn) ? KV_OK : conflict(status);
}

kv_code kv_txn_commit(kv_txn *txn, kv_status *status)
{
    kv_code code = txn_check_active(txn, status);
    if (code != KV_OK)
        return code;
    if (txn->iterators > 0)
        return kv_fail(status, KV_BAD_STATE, "%u iterators of the transaction are open",
                       txn->iterators);

    /* Alone, the write itself syncs. With others about, the sync comes after, outside
     * the mutex and the locks, so that one serves many: who read this before it is
     * durable syncs after it. */
    bool writes = first_written(txn) != NULL;
    unsigned flags = txn->manager->options.flags & KV_SYNC;
    bool sync_after = flags != 0 && atomic_load(&txn->manager->live) > 1;
    if (writes)
        code = batch_fill(txn, status);
    if (code == KV_OK)
        code = writes ? commit_writes(txn, sync_after ? 0 : flags, status)
                      : commit_reads(txn, status);
    if (code != KV_OK)
        return txn_failed(txn, code);

    txn->state = KV_TXN_COMMITTED;
    atomic_fetch_add_explicit(&txn->manager->commits, 1, memory_order_relaxed);
    txn_release(txn);
    return writes && sync_after ? kv_sync(txn->manager->db, status) : KV_OK;
}

/* ---- Retrying ------------------------------------------------------------- */

static bool is_retryable(kv_code code)
{
    return code == KV_CONFLICT || code == KV_DEADLOCK || code == KV_TIMEOUT ||
           code == KV_TOO_OLD;
}

static void retry_pause(uint32_t attempt, uint64_t id)
{
    uint64_t limit_us = attempt < 14 ? 1ull << attempt : RETRY_PAUSE_US_MAX;
    if (limit_us > RETRY_PAUSE_US_MAX)
        limit_us = RETRY_PAUSE_US_MAX;
    uint64_t random = (id + attempt) * 0x9e3779b97f4a7c15u;
    uint64_t pause_us = (random >> 32) % limit_us + 1;
    struct timespec pause = { 0, (long)(pause_us * 1000) };
    nanosleep(&pause, NULL);
}

kv_code kv_txn_run(kv_txn_manager *manager,
                   kv_code (*body)(kv_txn *txn, void *context, kv_status *status),
                   void *context, kv_status *status)
{
    kv_code code = KV_OK;
    for (uint32_t attempt = 0; attempt < manager->options.attempts_max; attempt++) {
        kv_status why = KV_STATUS_INIT;
        kv_txn *txn;
        code = kv_txn_begin(manager, &txn, status);
        if (code != KV_OK)
            return code;
        uint64_t id = txn->id;
        code = body(txn, context, &why);
        if (code == KV_OK)
            code = kv_txn_commit(txn, &why);
        kv_txn_close(txn);
        if (!is_retryable(code)) {
            if (code != KV_OK && why.code != KV_OK)
                return kv_fail(status, code, "%s", why.message);
            return code;
        }
        retry_pause(attempt, id);
    }
    return kv_fail(status, code, "gave up after %u tries", manager->options.attempts_max);
}
