/* maps.c - the maps of the working set, and single pairs in them. */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- Handles ------------------------------------------------------------ */

vmap *state_map_new(struct state *self, const char *name, uint32_t id, unsigned page_bits)
{
    vmap *map = calloc(1, sizeof(*map));
    if (map == NULL)
        return NULL;
    map->self = self;
    map->top.map = id;
    map->top.page_bits = page_bits;
    map->made = true;
    strncpy(map->name, name, sizeof(map->name) - 1);
    return map;
}

void state_map_free(vmap *map)
{
    vtree_changes_clear(&map->changes);
    free(map);
}

size_t state_map_place(const struct state *self, const char *name, bool *exact)
{
    size_t low = 0, high = self->map_count;
    *exact = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(self->maps[middle]->name, name);
        if (order == 0) {
            *exact = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

kv_code state_map_insert(struct state *self, vmap *map, kv_status *status)
{
    bool exact;
    void *grown = self->maps;
    if (!vtree_grow(&grown, &self->map_capacity, self->map_count + 1, sizeof(*self->maps))) {
        state_map_free(map);
        return state_no_memory(status);
    }
    self->maps = grown;
    size_t place = state_map_place(self, map->name, &exact);
    memmove(self->maps + place + 1, self->maps + place,
            (self->map_count - place) * sizeof(*self->maps));
    self->maps[place] = map;
    self->map_count++;
    return KV_OK;
}

static kv_code check_name(const char *name, kv_status *status)
{
    size_t size = strlen(name);
    if (size == 0 || size > STATE_MAP_NAME_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "a map's name has 1 to %u bytes, this has %zu",
                       STATE_MAP_NAME_SIZE_MAX, size);
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= 0x20 || name[i] > 0x7e || name[i] == '/')
            return kv_fail(status, KV_INVALID,
                           "a map's name is printable ASCII without space and '/': byte %zu "
                           "is 0x%02x",
                           i, (unsigned)(unsigned char)name[i]);
    }
    return KV_OK;
}

kv_code state_map_open(struct state *self, const char *name, unsigned flags, vmap **out,
                       kv_status *status)
{
    bool exact;
    *out = NULL;
    kv_code code = check_name(name, status);
    if (code != KV_OK)
        return code;
    size_t place = state_map_place(self, name, &exact);
    if (exact) {
        *out = self->maps[place];
        return KV_OK;
    }
    if ((flags & KV_CREATE) == 0)
        return KV_NOT_FOUND;
    if (self->map_count >= STATE_MAPS_MAX)
        return kv_fail(status, KV_TOO_BIG, "a state holds at most %u maps", STATE_MAPS_MAX);
    if (self->map_next == UINT32_MAX)
        return kv_fail(status, KV_TOO_BIG, "the state has used up its numbers for maps");
    code = state_undo_reserve(self, status);
    if (code != KV_OK)
        return code;
    vmap *map = state_map_new(self, name, self->map_next, self->options.page_bits);
    if (map == NULL)
        return state_no_memory(status);
    code = state_map_insert(self, map, status);
    if (code != KV_OK)
        return code;
    state_undo_note(self, (struct state_undo){ .map = map });
    self->map_next++;
    *out = map;
    return KV_OK;
}

kv_code state_map_drop(struct state *self, const char *name, kv_status *status)
{
    bool exact;
    kv_code code = check_name(name, status);
    if (code != KV_OK)
        return code;
    size_t place = state_map_place(self, name, &exact);
    if (!exact)
        return KV_NOT_FOUND;
    if (self->mark_count > 0)
        return kv_fail(status, KV_BAD_STATE,
                       "map '%s' cannot be dropped while a savepoint is open", name);
    vmap *map = self->maps[place];
    void *grown = self->gone;
    if (!vtree_grow(&grown, &self->gone_capacity, self->gone_count + 1, sizeof(*self->gone)))
        return state_no_memory(status);
    self->gone = grown;
    memmove(self->maps + place, self->maps + place + 1,
            (self->map_count - place - 1) * sizeof(*self->maps));
    self->map_count--;
    vtree_changes_clear(&map->changes);
    self->gone[self->gone_count++] = map;
    return KV_OK;
}

kv_code state_map_list(struct state *self, bool (*visit)(void *context, const char *name),
                       void *context, kv_status *status)
{
    (void)status;
    for (size_t i = 0; i < self->map_count; i++) {
        if (!visit(context, self->maps[i]->name))
            break;
    }
    return KV_OK;
}

const char *vmap_name(const vmap *map)
{
    return map->name;
}

void state_forget_changes(struct state *self)
{
    state_savepoints_end(self);
    size_t kept = 0;
    for (size_t i = 0; i < self->map_count; i++) {
        vmap *map = self->maps[i];
        if (map->made) {
            state_map_discard(self, map);
            continue;
        }
        vtree_changes_clear(&map->changes);
        map->staged = false;
        self->maps[kept++] = map;
    }
    self->map_count = kept;
    for (size_t i = 0; i < self->gone_count; i++) {
        vmap *map = self->gone[i];
        bool exact;
        if (map->made) {
            state_map_discard(self, map);
            continue;
        }
        map->staged = false;
        /* There was room for it before it was dropped. */
        size_t place = state_map_place(self, map->name, &exact);
        memmove(self->maps + place + 1, self->maps + place,
                (self->map_count - place) * sizeof(*self->maps));
        self->maps[place] = map;
        self->map_count++;
    }
    self->gone_count = 0;
    pthread_mutex_lock(&self->lock);
    self->map_next = self->head.map_next;
    pthread_mutex_unlock(&self->lock);
}

void state_rollback(struct state *self)
{
    bool staged = self->staged;
    state_forget_changes(self);
    if (staged && state_clear_staged(self, NULL) != KV_OK)
        self->broken = true; /* old staged changes must not be taken for new ones */
}

/* ---- Pairs -------------------------------------------------------------- */

static kv_code check_key(const vmap *map, kv_slice key, kv_status *status)
{
    if (key.size == 0)
        return kv_fail(status, KV_INVALID,
                       "an empty key in map '%s': keys have at least 1 byte", map->name);
    if (key.size > VMAP_KEY_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG, "a key of %zu bytes in map '%s': the limit is %u",
                       key.size, map->name, VMAP_KEY_SIZE_MAX);
    return state_usable(map->self, status);
}

static uint64_t changes_size(const struct state *self)
{
    uint64_t size = 0;
    for (size_t i = 0; i < self->map_count; i++)
        size += self->maps[i]->changes.arena.size +
                self->maps[i]->changes.slot_count * sizeof(struct vtree_change *);
    return size;
}

static kv_code change(vmap *map, kv_slice key, bool present, kv_slice value, kv_status *status)
{
    struct state *self = map->self;
    uint64_t before = map->changes.arena.size;
    struct state_undo undo = { .map = map };
    bool noted = self->mark_count > 0;
    kv_code code = state_undo_reserve(self, status);
    if (code != KV_OK)
        return code;
    const struct vtree_change *old = noted ? vtree_changes_find(&map->changes, key) : NULL;
    if (old != NULL)
        undo = (struct state_undo){ map, NULL, old->value, old->present, false };
    else
        undo.made = true;
    if (!vtree_changes_set(&map->changes, key, present, value))
        return kv_fail(status, KV_NO_MEMORY, "no memory for a change of map '%s'", map->name);
    if (noted) {
        undo.change = vtree_changes_find(&map->changes, key);
        state_undo_note(self, undo);
        return KV_OK; /* staged, it could not be taken back */
    }
    if (map->changes.arena.size != before &&
        changes_size(map->self) > map->self->options.batch_size)
        return state_stage(map->self, status);
    return KV_OK;
}

kv_code vmap_put(vmap *map, kv_slice key, kv_slice value, kv_status *status)
{
    kv_code code = check_key(map, key, status);
    if (code != KV_OK)
        return code;
    if (value.size == 0)
        return kv_fail(status, KV_INVALID,
                       "an empty value in map '%s': proofs cannot show one, so values have at "
                       "least 1 byte",
                       map->name);
    if (value.size > VMAP_VALUE_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG, "a value of %zu bytes in map '%s': the limit is %u",
                       value.size, map->name, VMAP_VALUE_SIZE_MAX);
    return change(map, key, true, value, status);
}

kv_code vmap_delete(vmap *map, kv_slice key, kv_status *status)
{
    kv_code code = check_key(map, key, status);
    return code == KV_OK ? change(map, key, false, kv_bytes(NULL, 0), status) : code;
}

static void value_free(kv_value *value)
{
    free(value->owner);
}

static kv_code value_copy(kv_slice bytes, kv_value *out, kv_status *status)
{
    out->owner = malloc(bytes.size + 1);
    if (out->owner == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a value of %zu bytes", bytes.size);
    memcpy(out->owner, bytes.data, bytes.size);
    out->bytes = kv_bytes(out->owner, bytes.size);
    out->release = value_free;
    return KV_OK;
}

/* Look among the staged changes; KV_NOT_FOUND: none of `key`. */
static kv_code staged_get(vmap *map, const struct record_key *stored, bool *present,
                          kv_value *out, kv_status *status)
{
    kv_value record = KV_VALUE_INIT;
    kv_code code = kv_get(map->self->store.staged, NULL, record_slice(stored), &record, status);
    if (code != KV_OK)
        return code;
    const uint8_t *mark;
    kv_slice bytes = record.bytes;
    if (!record_take_bytes(&bytes, 1, &mark) || *mark > RECORD_PRESENT)
        code = kv_fail(status, KV_CORRUPT, "a staged change of map '%s' is damaged", map->name);
    else if (*mark == RECORD_PRESENT)
        code = value_copy(bytes, out, status);
    *present = code == KV_OK && *mark == RECORD_PRESENT;
    kv_value_release(&record);
    return code;
}

kv_code vmap_get(vmap *map, kv_slice key, kv_value *out, kv_status *status)
{
    *out = (kv_value)KV_VALUE_INIT;
    kv_code code = check_key(map, key, status);
    if (code != KV_OK)
        return code;
    const struct vtree_change *found = vtree_changes_find(&map->changes, key);
    if (found != NULL)
        return found->present ? value_copy(found->value, out, status) : KV_NOT_FOUND;

    struct record_key stored;
    if (!record_key_value(&stored, map->top.map, key))
        return state_no_memory(status);
    bool present = false;
    code = map->staged ? staged_get(map, &stored, &present, out, status) : KV_NOT_FOUND;
    if (code == KV_OK && !present)
        code = KV_NOT_FOUND;
    else if (code == KV_NOT_FOUND)
        code = kv_get(map->self->store.values, NULL, record_slice(&stored), out, status);
    record_key_clear(&stored);
    return code;
}

kv_code vmap_has(vmap *map, kv_slice key, bool *out, kv_status *status)
{
    kv_value value;
    kv_code code = vmap_get(map, key, &value, status);
    *out = code == KV_OK;
    kv_value_release(&value);
    return code == KV_NOT_FOUND ? KV_OK : code;
}
