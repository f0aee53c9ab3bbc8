/* cursor.c - walk records as they stood at a version, or will stand. */
#include "vmap/cursor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { UNTIL_SIZE = 8, STEPS_BEFORE_SEEK = 8 };

/* ---- Sources over an iterator ------------------------------------------- */

static bool in_prefix(const struct cursor_source *source, kv_slice key)
{
    return key.size > source->prefix_size &&
           memcmp(key.data, source->prefix, source->prefix_size) == 0;
}

static kv_slice behind_prefix(const struct cursor_source *source, kv_slice key)
{
    return kv_bytes((const uint8_t *)key.data + source->prefix_size,
                    key.size - source->prefix_size);
}

/* Split a marked value; false when damaged. */
static bool take_mark(kv_slice record, bool *absent, kv_slice *value)
{
    const uint8_t *mark;
    if (!record_take_bytes(&record, 1, &mark) || *mark > RECORD_PRESENT)
        return false;
    *absent = *mark == RECORD_ABSENT;
    *value = record;
    return true;
}

/* The first damaged record is the one that is told of. */
static void set_damaged(struct vtree_cursor *cursor, const struct cursor_source *source)
{
    if (cursor->fault != KV_OK)
        return;
    cursor->fault = KV_CORRUPT;
    cursor->faulty = source;
}

/* Take over what the iterator of a plain or staged source stands on. */
static void settle_plain(struct vtree_cursor *cursor, struct cursor_source *source, bool on)
{
    kv_slice key = kv_iter_key(source->iter);
    source->on = on && in_prefix(source, key);
    if (!source->on)
        return;
    source->key = behind_prefix(source, key);
    source->value = kv_iter_value(source->iter);
    source->absent = false;
    if (source->kind == CURSOR_STAGED &&
        !take_mark(source->value, &source->absent, &source->value))
        set_damaged(cursor, source);
}

/* The version of the history record under the iterator; 0 off the prefix. */
static uint64_t history_until(const struct cursor_source *source)
{
    kv_slice key = kv_iter_key(source->iter);
    uint64_t until;
    if (key.size < source->prefix_size + UNTIL_SIZE || !in_prefix(source, key))
        return 0;
    memcpy(&until, (const uint8_t *)key.data + key.size - UNTIL_SIZE, sizeof(until));
    return __builtin_bswap64(until);
}

/* Keep the record key under the iterator, with another version, in scratch. */
static bool history_key_at(struct cursor_source *source, uint64_t until)
{
    kv_slice key = kv_iter_key(source->iter);
    source->scratch.size = 0;
    return vtree_buffer_add(&source->scratch, key.data, key.size - UNTIL_SIZE) &&
           vtree_buffer_add_be64(&source->scratch, until);
}

/* Take over the record under the iterator, the answer for its key. */
static void history_take(struct vtree_cursor *cursor, struct cursor_source *source)
{
    kv_slice key = behind_prefix(source, kv_iter_key(source->iter));
    key.size -= UNTIL_SIZE;
    source->on = false;
    if (record_ordered_read(key, &source->decoded) != key.size ||
        !take_mark(kv_iter_value(source->iter), &source->absent, &source->value)) {
        set_damaged(cursor, source);
        return;
    }
    source->key = vtree_buffer_slice(&source->decoded);
    source->on = true;
}

/* From the iterator's place on, find the first key that has a record until
 * `version` or later, and its earliest such record. */
static void history_forward(struct vtree_cursor *cursor, struct cursor_source *source, bool on)
{
    source->on = false;
    while (on) {
        uint64_t until = history_until(source);
        if (until == 0)
            return;
        if (until >= source->version) {
            history_take(cursor, source);
            return;
        }
        if (!history_key_at(source, source->version)) {
            cursor->fault = KV_NO_MEMORY;
            return;
        }
        on = kv_iter_seek(source->iter, vtree_buffer_slice(&source->scratch));
    }
}

/* The same, walking back: the iterator stands on a key's latest record. */
static void history_backward(struct vtree_cursor *cursor, struct cursor_source *source, bool on)
{
    source->on = false;
    while (on) {
        uint64_t until = history_until(source);
        if (until == 0)
            return;
        bool has = until >= source->version;
        if (!history_key_at(source, has ? source->version : 0)) {
            cursor->fault = KV_NO_MEMORY;
            return;
        }
        if (has) {
            if (kv_iter_seek(source->iter, vtree_buffer_slice(&source->scratch)))
                history_take(cursor, source);
            return;
        }
        on = kv_iter_seek_for_prev(source->iter, vtree_buffer_slice(&source->scratch));
    }
}

/* Leave the key under the iterator for the next one. */
static void history_next(struct vtree_cursor *cursor, struct cursor_source *source)
{
    if (!history_key_at(source, UINT64_MAX)) {
        cursor->fault = KV_NO_MEMORY;
        source->on = false;
        return;
    }
    size_t same = source->scratch.size - UNTIL_SIZE;
    bool on = true;
    for (int steps = 0; steps < STEPS_BEFORE_SEEK; steps++) {
        on = kv_iter_next(source->iter);
        kv_slice key = kv_iter_key(source->iter);
        if (!on || key.size != source->scratch.size ||
            memcmp(key.data, source->scratch.data, same) != 0) {
            history_forward(cursor, source, on);
            return;
        }
    }
    on = kv_iter_seek(source->iter, vtree_buffer_slice(&source->scratch));
    history_forward(cursor, source, on);
}

/* Put prefix | key (ordered, with `until`, for history) in scratch. */
static bool seek_key(struct cursor_source *source, kv_slice key, uint64_t until)
{
    source->scratch.size = 0;
    if (!vtree_buffer_add(&source->scratch, source->prefix, source->prefix_size))
        return false;
    if (source->kind != CURSOR_HISTORY)
        return vtree_buffer_add(&source->scratch, key.data, key.size);
    return record_ordered_add(&source->scratch, key) &&
           vtree_buffer_add_be64(&source->scratch, until);
}

/* The least key behind the prefix, in scratch. */
static bool prefix_limit(struct cursor_source *source)
{
    size_t size = source->prefix_size;
    source->scratch.size = 0;
    while (size > 0 && source->prefix[size - 1] == 0xff)
        size--;
    if (size == 0 || !vtree_buffer_add(&source->scratch, source->prefix, size))
        return false;
    source->scratch.data[size - 1]++;
    return true;
}

static void iter_seek(struct vtree_cursor *cursor, struct cursor_source *source, kv_slice key)
{
    bool made = false;
    if (key.size > 0) {
        made = seek_key(source, key, 0);
    } else {
        source->scratch.size = 0;
        made = vtree_buffer_add(&source->scratch, source->prefix, source->prefix_size);
    }
    if (!made) {
        cursor->fault = KV_NO_MEMORY;
        source->on = false;
        return;
    }
    bool on = kv_iter_seek(source->iter, vtree_buffer_slice(&source->scratch));
    if (source->kind == CURSOR_HISTORY)
        history_forward(cursor, source, on);
    else
        settle_plain(cursor, source, on);
}

/* An empty key stands for the end. */
static void iter_seek_back(struct vtree_cursor *cursor, struct cursor_source *source,
                           kv_slice key)
{
    bool made = key.size > 0 ? seek_key(source, key, UINT64_MAX) : prefix_limit(source);
    if (!made) {
        cursor->fault = KV_NO_MEMORY;
        source->on = false;
        return;
    }
    bool on = kv_iter_seek_for_prev(source->iter, vtree_buffer_slice(&source->scratch));
    if (source->kind == CURSOR_HISTORY)
        history_backward(cursor, source, on);
    else
        settle_plain(cursor, source, on);
}

static void history_prev(struct vtree_cursor *cursor, struct cursor_source *source)
{
    if (!history_key_at(source, 0)) {
        cursor->fault = KV_NO_MEMORY;
        source->on = false;
        return;
    }
    bool on = kv_iter_seek_for_prev(source->iter, vtree_buffer_slice(&source->scratch));
    history_backward(cursor, source, on);
}

/* ---- Changes in memory -------------------------------------------------- */

static void settle_changes(struct cursor_source *source)
{
    source->on = source->position < source->changes->sorted_count;
    if (!source->on)
        return;
    const struct vtree_change *change = source->changes->sorted[source->position];
    source->key = change->key;
    source->value = change->value;
    source->absent = !change->present;
}

static void changes_seek(struct cursor_source *source, kv_slice key)
{
    size_t low = 0, high = source->changes->sorted_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kv_compare(source->changes->sorted[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    source->position = low;
    settle_changes(source);
}

static void changes_seek_back(struct cursor_source *source, kv_slice key)
{
    size_t count = source->changes->sorted_count;
    if (key.size == 0) {
        source->position = count - 1; /* past every count when there is none */
    } else {
        changes_seek(source, key);
        if (!source->on || kv_compare(source->key, key) != 0)
            source->position--;
    }
    settle_changes(source);
}

/* ---- Any source --------------------------------------------------------- */

static void source_seek(struct vtree_cursor *cursor, struct cursor_source *source, kv_slice key,
                        bool backward)
{
    if (source->kind == CURSOR_CHANGES && backward)
        changes_seek_back(source, key);
    else if (source->kind == CURSOR_CHANGES)
        changes_seek(source, key);
    else if (backward)
        iter_seek_back(cursor, source, key);
    else
        iter_seek(cursor, source, key);
}

static void source_step(struct vtree_cursor *cursor, struct cursor_source *source,
                        bool backward)
{
    switch (source->kind) {
    case CURSOR_CHANGES:
        source->position += backward ? SIZE_MAX : 1;
        settle_changes(source);
        break;
    case CURSOR_HISTORY:
        if (backward)
            history_prev(cursor, source);
        else
            history_next(cursor, source);
        break;
    case CURSOR_PLAIN:
    case CURSOR_STAGED:
        settle_plain(cursor, source,
                     backward ? kv_iter_prev(source->iter) : kv_iter_next(source->iter));
        break;
    }
}

/* ---- The merge ---------------------------------------------------------- */

/* Move every source off the winner's key, the winner last: its bytes are the
 * key that is compared with. */
static void step_off(struct vtree_cursor *cursor)
{
    struct cursor_source *winner = &cursor->sources[cursor->winner];
    for (size_t i = cursor->winner + 1; i < cursor->count; i++) {
        struct cursor_source *source = &cursor->sources[i];
        if (source->on && kv_compare(source->key, winner->key) == 0)
            source_step(cursor, source, cursor->backward);
    }
    source_step(cursor, winner, cursor->backward);
}

static bool settle(struct vtree_cursor *cursor)
{
    for (;;) {
        cursor->on = false;
        for (size_t i = 0; i < cursor->count && cursor->fault == KV_OK; i++) {
            const struct cursor_source *source = &cursor->sources[i];
            if (!source->on)
                continue;
            int order =
                cursor->on ? kv_compare(source->key, cursor->sources[cursor->winner].key) : 0;
            if (!cursor->on || (cursor->backward ? order > 0 : order < 0)) {
                cursor->on = true;
                cursor->winner = i;
            }
        }
        if (!cursor->on || !cursor->sources[cursor->winner].absent)
            return cursor->on;
        step_off(cursor);
    }
}

static bool seek_all(struct vtree_cursor *cursor, kv_slice key, bool backward)
{
    cursor->backward = backward;
    for (size_t i = 0; i < cursor->count; i++)
        source_seek(cursor, &cursor->sources[i], key, backward);
    return settle(cursor);
}

static bool step(struct vtree_cursor *cursor, bool backward)
{
    if (!cursor->on)
        return false;
    if (cursor->backward == backward) {
        step_off(cursor);
        return settle(cursor);
    }
    /* A turn: every source goes to this key, and then past it. */
    kv_slice key = cursor->sources[cursor->winner].key;
    cursor->here.size = 0;
    if (!vtree_buffer_add(&cursor->here, key.data, key.size)) {
        cursor->fault = KV_NO_MEMORY;
        cursor->on = false;
        return false;
    }
    key = vtree_buffer_slice(&cursor->here);
    cursor->backward = backward;
    for (size_t i = 0; i < cursor->count; i++) {
        struct cursor_source *source = &cursor->sources[i];
        source_seek(cursor, source, key, backward);
        if (source->on && kv_compare(source->key, key) == 0)
            source_step(cursor, source, backward);
    }
    return settle(cursor);
}

void vtree_cursor_reset(struct vtree_cursor *cursor)
{
    cursor->count = 0;
    cursor->on = false;
    cursor->backward = false;
    cursor->fault = KV_OK;
}

void vtree_cursor_clear(struct vtree_cursor *cursor)
{
    for (size_t i = 0; i < CURSOR_SOURCES_MAX; i++) {
        vtree_buffer_clear(&cursor->sources[i].scratch);
        vtree_buffer_clear(&cursor->sources[i].decoded);
    }
    vtree_buffer_clear(&cursor->here);
    vtree_cursor_reset(cursor);
}

void vtree_cursor_add(struct vtree_cursor *cursor, enum cursor_kind kind, kv_iter *iter,
                      uint32_t map, int level, uint64_t version)
{
    assert(cursor->count < CURSOR_SOURCES_MAX);
    struct cursor_source *source = &cursor->sources[cursor->count++];
    uint32_t big = __builtin_bswap32(map);
    memcpy(source->prefix, &big, sizeof(big));
    source->prefix_size = sizeof(big);
    if (level >= 0)
        source->prefix[source->prefix_size++] = (uint8_t)level;
    source->kind = kind;
    source->iter = iter;
    source->version = version;
    source->on = false;
}

void vtree_cursor_add_changes(struct vtree_cursor *cursor, const struct vtree_changes *changes)
{
    assert(cursor->count < CURSOR_SOURCES_MAX);
    struct cursor_source *source = &cursor->sources[cursor->count++];
    source->kind = CURSOR_CHANGES;
    source->changes = changes;
    source->on = false;
}

bool vtree_cursor_first(struct vtree_cursor *cursor)
{
    return seek_all(cursor, kv_bytes(NULL, 0), false);
}

bool vtree_cursor_last(struct vtree_cursor *cursor)
{
    return seek_all(cursor, kv_bytes(NULL, 0), true);
}

bool vtree_cursor_seek(struct vtree_cursor *cursor, kv_slice key)
{
    return seek_all(cursor, key, false);
}

bool vtree_cursor_seek_back(struct vtree_cursor *cursor, kv_slice key)
{
    return key.size > 0 ? seek_all(cursor, key, true) : (cursor->on = false);
}

bool vtree_cursor_next(struct vtree_cursor *cursor)
{
    return step(cursor, false);
}

bool vtree_cursor_prev(struct vtree_cursor *cursor)
{
    return step(cursor, true);
}

kv_slice vtree_cursor_key(const struct vtree_cursor *cursor)
{
    return cursor->on ? cursor->sources[cursor->winner].key : kv_bytes(NULL, 0);
}

kv_slice vtree_cursor_value(const struct vtree_cursor *cursor)
{
    return cursor->on ? cursor->sources[cursor->winner].value : kv_bytes(NULL, 0);
}

static kv_code damaged(const struct cursor_source *source, kv_status *status)
{
    enum { SHOWN = 64 };
    char hex[2 * SHOWN + 1] = "";
    kv_slice key = kv_iter_key(source->iter);
    for (size_t i = 0; i < key.size && i < SHOWN; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)key.data)[i]);
    return kv_fail(status, KV_CORRUPT, "%s: the record at key %s%s is damaged",
                   source->kind == CURSOR_HISTORY ? "state.history" : "state.staged", hex,
                   key.size > SHOWN ? ".." : "");
}

kv_code vtree_cursor_status(const struct vtree_cursor *cursor, kv_status *status)
{
    if (cursor->fault == KV_NO_MEMORY)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a walk");
    if (cursor->fault != KV_OK)
        return damaged(cursor->faulty, status);
    for (size_t i = 0; i < cursor->count; i++) {
        if (cursor->sources[i].kind == CURSOR_CHANGES)
            continue;
        kv_code code = kv_iter_status(cursor->sources[i].iter, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}
