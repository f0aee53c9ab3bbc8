/* savepoint.c - taking back what the working set was told since some moment. */
#include "vmap/state_private.h"

#include <string.h>

kv_code state_undo_reserve(struct state *self, kv_status *status)
{
    if (self->mark_count == 0)
        return KV_OK;
    void *grown = self->undo;
    if (!vtree_grow(&grown, &self->undo_capacity, self->undo_count + 1, sizeof(*self->undo)))
        return state_no_memory(status);
    self->undo = grown;
    return KV_OK;
}

void state_undo_note(struct state *self, struct state_undo undo)
{
    if (self->mark_count > 0)
        self->undo[self->undo_count++] = undo;
}

void state_savepoints_end(struct state *self)
{
    self->mark_count = 0;
    self->undo_count = 0;
}

/* The newest map of all comes off the list again. */
static void map_unmake(struct state *self, vmap *map)
{
    bool exact;
    size_t place = state_map_place(self, map->name, &exact);
    memmove(self->maps + place, self->maps + place + 1,
            (self->map_count - place - 1) * sizeof(*self->maps));
    self->map_count--;
    state_map_free(map);
}

static void undo_one(struct state *self, const struct state_undo *undo)
{
    if (undo->change == NULL)
        map_unmake(self, undo->map);
    else if (undo->made)
        vtree_changes_remove(&undo->map->changes, undo->change);
    else
        vtree_changes_restore(&undo->map->changes, undo->change, undo->present, undo->value);
}

kv_code state_savepoint_take(struct state *self, state_savepoint *out, kv_status *status)
{
    *out = (state_savepoint){ 0, 0 };
    kv_code code = state_usable(self, status);
    if (code != KV_OK)
        return code;
    if (self->mark_count == STATE_SAVEPOINTS_MAX)
        return kv_fail(status, KV_TOO_BIG, "savepoints nest at most %u deep",
                       STATE_SAVEPOINTS_MAX);
    void *grown = self->marks;
    if (!vtree_grow(&grown, &self->mark_capacity, self->mark_count + 1, sizeof(*self->marks)))
        return state_no_memory(status);
    self->marks = grown;
    *out = (state_savepoint){ (uint32_t)self->mark_count, ++self->mark_serial };
    self->marks[self->mark_count++] = (struct state_mark){ self->undo_count, out->serial };
    return KV_OK;
}

static kv_code check_open(const struct state *self, state_savepoint savepoint,
                          kv_status *status)
{
    if (savepoint.depth >= self->mark_count ||
        self->marks[savepoint.depth].serial != savepoint.serial)
        return kv_fail(status, KV_BAD_STATE, "the savepoint has ended already");
    return state_usable(self, status);
}

kv_code state_savepoint_rollback(struct state *self, state_savepoint savepoint,
                                 kv_status *status)
{
    kv_code code = check_open(self, savepoint, status);
    if (code != KV_OK)
        return code;
    size_t undo_count = self->marks[savepoint.depth].undo_count;
    while (self->undo_count > undo_count)
        undo_one(self, &self->undo[--self->undo_count]);
    self->mark_count = savepoint.depth;
    return KV_OK;
}

kv_code state_savepoint_release(struct state *self, state_savepoint savepoint,
                                kv_status *status)
{
    kv_code code = check_open(self, savepoint, status);
    if (code != KV_OK)
        return code;
    self->mark_count = savepoint.depth;
    if (self->mark_count == 0)
        self->undo_count = 0;
    return KV_OK;
}
