/*
 * spaces.c - named spaces, native or by prefixes.
 *
 * Where a driver has no spaces of its own, every key in the engine begins with
 * the number of its space: one byte below 0x80, two bytes (0x80 | high, low)
 * above, so that no prefix begins another and each space is one run of keys.
 * Space 0 is the list itself:
 *
 *     00 <name>        -> number, 2 bytes, big endian
 *     00 00 <number>   -> empty: dropped, its keys may not all be deleted yet
 *
 * A drop turns the first record into the second, durably, and then deletes the
 * keys in steps; opening finishes what a crash cut short. A number is given
 * out again only once its keys are gone.
 */
#include "kv/core.h"

#include <stdlib.h>
#include <string.h>

enum {
    ONE_BYTE_NUMBERS = 0x80,
    DELETE_STEP_KEYS = 10000 /* keys deleted per batch when a space is dropped */
};

static bool is_native(const kv_db *db)
{
    return (db->driver->caps & KV_CAP_SPACES) != 0;
}

static void set_prefix(kv_space *space, unsigned id)
{
    if (id < ONE_BYTE_NUMBERS) {
        space->prefix[0] = (unsigned char)id;
        space->prefix_size = 1;
    } else {
        space->prefix[0] = (unsigned char)(ONE_BYTE_NUMBERS | id >> 8);
        space->prefix[1] = (unsigned char)id;
        space->prefix_size = 2;
    }
}

/* ---- The list of a driver without spaces --------------------------------- */

struct list_record {
    unsigned char bytes[KV_SPACE_NAME_SIZE_MAX + 3];
    size_t size;
};

static kv_slice name_record(struct list_record *record, const char *name)
{
    record->size = 1 + strlen(name);
    record->bytes[0] = 0;
    memcpy(record->bytes + 1, name, record->size - 1);
    return kv_bytes(record->bytes, record->size);
}

static kv_slice drop_record(struct list_record *record, unsigned id)
{
    record->bytes[0] = 0;
    record->bytes[1] = 0;
    record->bytes[2] = (unsigned char)(id >> 8);
    record->bytes[3] = (unsigned char)id;
    record->size = 4;
    return kv_bytes(record->bytes, record->size);
}

static unsigned read_number(const void *data)
{
    const unsigned char *bytes = data;
    return (unsigned)bytes[0] << 8 | bytes[1];
}

/* What the list says: numbers in use, among them those still to be emptied. */
struct space_list {
    bool taken[KV_SPACES_MAX + 1];
    unsigned dropped[KV_SPACES_MAX];
    size_t dropped_count, name_count;
};

static kv_code list_fault(const kv_db *db, kv_status *status)
{
    return kv_fail(status, KV_CORRUPT,
                   "the list of spaces in %s holds a record that is not ours", db->dir);
}

static kv_code list_record_read(const kv_db *db, const kv_iter *iter, struct space_list *list,
                                kv_status *status)
{
    const unsigned char *key = iter->key.data;
    size_t size = iter->key.size;
    bool dropped = size >= 2 && key[1] == 0;
    if (dropped ? size != 4 : size < 2 || iter->value.size != 2)
        return list_fault(db, status);

    unsigned id = read_number(dropped ? key + 2 : iter->value.data);
    if (id == 0 || id > KV_SPACES_MAX || list->taken[id])
        return list_fault(db, status);
    list->taken[id] = true;
    if (dropped)
        list->dropped[list->dropped_count++] = id;
    else
        list->name_count++;
    return KV_OK;
}

/* Walk the list, calling `visit`, unless it is NULL, with each living name. */
static kv_code list_read(kv_db *db, struct space_list *list,
                         bool (*visit)(void *context, const char *name), void *context,
                         kv_status *status)
{
    memset(list, 0, sizeof(*list));
    kv_space root = { .db = db, .name = "", .prefix_size = 1 };
    const unsigned char one = 1;
    const kv_range range = { kv_bytes(root.prefix, 1), kv_bytes(&one, 1) };
    kv_iter *iter = kv_driver_iter_open(&root, NULL, &range, status);
    if (iter == NULL)
        return status->code;

    kv_code code = KV_OK;
    bool on = db->driver->iter_first(iter);
    for (; on && code == KV_OK; on = db->driver->iter_next(iter)) {
        code = list_record_read(db, iter, list, status);
        const unsigned char *key = iter->key.data;
        if (code != KV_OK || visit == NULL || key[1] == 0)
            continue;
        char name[KV_SPACE_NAME_SIZE_MAX + 1] = { 0 };
        memcpy(name, key + 1,
               iter->key.size <= sizeof(name) ? iter->key.size - 1 : sizeof(name) - 1);
        if (!visit(context, name))
            break;
    }
    if (code == KV_OK && iter->status.code != KV_OK)
        code = kv_fail(status, iter->status.code, "%s", iter->status.message);
    kv_driver_iter_close(iter);
    return code;
}

static kv_code emulated_find(kv_db *db, const char *name, unsigned *id, kv_status *status)
{
    static const kv_read plain;
    struct list_record record;
    kv_space root = { .db = db, .name = "", .prefix_size = 1 };
    kv_value value = KV_VALUE_INIT;
    kv_code code = db->driver->get(&root, &plain, name_record(&record, name), &value, status);
    if (code != KV_OK)
        return code;
    if (value.bytes.size == 2)
        *id = read_number(value.bytes.data);
    if (value.bytes.size != 2 || *id == 0 || *id > KV_SPACES_MAX)
        code = list_fault(db, status);
    kv_value_release(&value);
    return code;
}

/* Write one change of the list durably: a name with its number, or a drop. */
static kv_code list_write(kv_db *db, const char *put_name, const char *delete_name,
                          bool put_drop, bool delete_drop, unsigned id, kv_status *status)
{
    kv_batch *batch = kv_driver_batch_open(db, status);
    if (batch == NULL)
        return status->code;

    const kv_driver *driver = db->driver;
    kv_space root = { .db = db, .name = "", .prefix_size = 1 };
    struct list_record record;
    const unsigned char number[2] = { (unsigned char)(id >> 8), (unsigned char)id };
    if (put_name != NULL)
        driver->batch_put(batch, &root, name_record(&record, put_name), kv_bytes(number, 2));
    if (delete_name != NULL)
        driver->batch_delete(batch, &root, name_record(&record, delete_name));
    if (put_drop)
        driver->batch_put(batch, &root, drop_record(&record, id), kv_bytes(NULL, 0));
    if (delete_drop)
        driver->batch_delete(batch, &root, drop_record(&record, id));
    kv_code code = kv_driver_commit(batch, KV_SYNC, status);
    kv_driver_batch_close(batch);
    return code;
}

static kv_code emulated_make(kv_db *db, const char *name, unsigned *id, kv_status *status)
{
    kv_code code = kv_check_write(db, status);
    if (code != KV_OK)
        return code;
    struct space_list *list = malloc(sizeof(*list));
    if (list == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to make a space");
    code = list_read(db, list, NULL, NULL, status);
    if (code != KV_OK)
        goto out;

    *id = 1;
    while (*id <= KV_SPACES_MAX && list->taken[*id])
        (*id)++;
    if (*id > KV_SPACES_MAX)
        code =
            kv_fail(status, KV_TOO_BIG, "a database has no more than %u spaces", KV_SPACES_MAX);
    else
        code = list_write(db, name, NULL, false, false, *id, status);
out:
    free(list);
    return code;
}

kv_code kv_delete_in_steps(kv_space *space, const kv_range *range, kv_status *status)
{
    const kv_driver *driver = space->db->driver;
    kv_code code = KV_OK;
    size_t count = 0;
    kv_batch *batch = kv_driver_batch_open(space->db, status);
    kv_iter *iter = kv_driver_iter_open(space, NULL, range, status);
    if (batch == NULL || iter == NULL) {
        code = status->code;
        goto out;
    }

    for (bool on = driver->iter_first(iter); on && code == KV_OK;
         on = driver->iter_next(iter)) {
        driver->batch_delete(batch, space, iter->key);
        if (++count % DELETE_STEP_KEYS == 0) {
            code = kv_driver_commit(batch, 0, status);
            driver->batch_clear(batch);
        }
    }
    if (code == KV_OK && iter->status.code != KV_OK)
        code = kv_fail(status, iter->status.code, "%s", iter->status.message);
    if (code == KV_OK)
        code = kv_driver_commit(batch, KV_SYNC, status);
out:
    kv_driver_iter_close(iter);
    kv_driver_batch_close(batch);
    return code;
}

/* Delete the keys of a dropped space, then forget it. */
static kv_code emulated_empty(kv_db *db, unsigned id, kv_status *status)
{
    kv_space space = { .db = db, .name = "" };
    set_prefix(&space, id);
    unsigned char end[KV_SPACE_PREFIX_SIZE_MAX];
    kv_range range = kv_range_of_prefix(kv_bytes(space.prefix, space.prefix_size), end);
    kv_code code = kv_delete_in_steps(&space, &range, status);
    return code == KV_OK ? list_write(db, NULL, NULL, false, true, id, status) : code;
}

kv_code kv_spaces_recover(kv_db *db, kv_status *status)
{
    if (is_native(db) || (db->flags & KV_OPEN_READ) != 0)
        return KV_OK;

    kv_status local;
    kv_status_start(&local);
    struct space_list *list = malloc(sizeof(*list));
    if (list == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the list of spaces");
    kv_code code = list_read(db, list, NULL, NULL, &local);
    for (size_t i = 0; code == KV_OK && i < list->dropped_count; i++)
        code = emulated_empty(db, list->dropped[i], &local);
    free(list);
    return code == KV_OK ? KV_OK : kv_fail(status, code, "%s", local.message);
}

/* ---- Handles ------------------------------------------------------------- */

static void space_free(kv_space *space)
{
    free(space->core);
    free(space);
}

static kv_space *space_new(kv_db *db, const char *name)
{
    kv_space *space = calloc(1, db->driver->space_size);
    struct kv_space_core *core = calloc(1, sizeof(*core));
    if (space == NULL || core == NULL) {
        free(space);
        free(core);
        return NULL;
    }
    memcpy(core->name, name, strlen(name) + 1); /* its length was checked */
    space->db = db;
    space->core = core;
    space->name = core->name;
    return space;
}

/* Find or make the space in the engine; the mutex is held. */
static kv_code space_resolve(kv_space *space, unsigned flags, kv_status *status)
{
    kv_db *db = space->db;
    if (is_native(db)) {
        kv_code code = db->driver->space_open(space, 0, status);
        if (code != KV_NOT_FOUND || (flags & KV_CREATE) == 0)
            return code;
        code = kv_check_write(db, status);
        return code == KV_OK ? db->driver->space_open(space, KV_CREATE, status) : code;
    }
    kv_code code = emulated_find(db, space->name, &space->core->id, status);
    if (code == KV_NOT_FOUND && (flags & KV_CREATE) != 0)
        code = emulated_make(db, space->name, &space->core->id, status);
    if (code == KV_OK)
        set_prefix(space, space->core->id);
    return code;
}

static kv_space *find_opened(const struct kv_core *core, const char *name)
{
    for (size_t i = 0; i < core->space_count; i++)
        if (strcmp(core->spaces[i]->name, name) == 0)
            return core->spaces[i];
    return NULL;
}

static kv_code space_add(kv_db *db, const char *name, unsigned flags, kv_space **out,
                         kv_status *status)
{
    struct kv_core *core = db->core;
    if (core->space_count == KV_SPACES_MAX)
        return kv_fail(status, KV_TOO_BIG, "a database has no more than %u spaces",
                       KV_SPACES_MAX);
    kv_space **spaces = realloc(core->spaces, (core->space_count + 1) * sizeof(kv_space *));
    if (spaces == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the space %s", name);
    core->spaces = spaces;

    kv_space *space = space_new(db, name);
    if (space == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the space %s", name);
    kv_code code = space_resolve(space, flags, status);
    if (code != KV_OK) {
        space_free(space);
        return code;
    }
    core->spaces[core->space_count++] = space;
    *out = space;
    return KV_OK;
}

kv_code kv_space_open(kv_db *db, const char *name, unsigned flags, kv_space **out,
                      kv_status *status)
{
    *out = NULL;
    size_t size = strlen(name);
    if (size == 0 || size > KV_SPACE_NAME_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "a space's name has 1 to %u bytes, not %zu",
                       KV_SPACE_NAME_SIZE_MAX, size);

    kv_status local; /* our own calls read the code back from it */
    kv_status_start(&local);
    kv_code code = KV_OK;
    pthread_mutex_lock(&db->core->mutex);
    *out = find_opened(db->core, name);
    if (*out == NULL)
        code = space_add(db, name, flags, out, &local);
    pthread_mutex_unlock(&db->core->mutex);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return kv_fail(status, code, "%s", local.message);
    return code;
}

static kv_code space_drop_locked(kv_space *space, kv_status *status)
{
    kv_db *db = space->db;
    size_t live = atomic_load(&space->core->iterators);
    if (live > 0)
        return kv_fail(status, KV_BUSY, "space %s has %zu iterators open", space->name, live);

    if (is_native(db)) {
        if (db->driver->space_drop == NULL)
            return kv_fail(status, KV_UNSUPPORTED, "%s cannot drop a space", db->driver->name);
        kv_code code = db->driver->space_drop(space, status);
        if (code == KV_OK)
            db->driver->space_close(space);
        return code;
    }
    unsigned id = space->core->id;
    kv_code code = list_write(db, NULL, space->name, true, false, id, status);
    if (code != KV_OK)
        return code;
    kv_status later; /* the space is gone; its keys go now or at the next opening */
    kv_status_start(&later);
    if (emulated_empty(db, id, &later) != KV_OK) {
        /* what stopped it has made the database refuse writes, if it must */
    }
    return KV_OK;
}

kv_code kv_space_drop(kv_space *space, kv_status *status)
{
    kv_db *db = space->db;
    struct kv_core *core = db->core;
    kv_code code = kv_check_write(db, status);
    if (code != KV_OK)
        return code;

    kv_status local;
    kv_status_start(&local);
    pthread_mutex_lock(&core->mutex);
    code = space_drop_locked(space, &local);
    if (code == KV_OK) {
        size_t i = 0;
        while (core->spaces[i] != space)
            i++;
        core->spaces[i] = core->spaces[--core->space_count];
        atomic_fetch_add(&core->drops, 1);
        space_free(space);
    }
    pthread_mutex_unlock(&core->mutex);
    return code == KV_OK ? KV_OK : kv_write_failed(db, &local, status);
}

struct names {
    char **items;
    size_t count;
    bool failed;
};

static bool gather_name(void *context, const char *name)
{
    struct names *names = context;
    char **items = realloc(names->items, (names->count + 1) * sizeof(char *));
    if (items != NULL)
        names->items = items;
    char *copy = items == NULL ? NULL : strdup(name);
    if (copy == NULL) {
        names->failed = true;
        return false;
    }
    names->items[names->count++] = copy;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static kv_code gather_names(kv_db *db, struct names *names, kv_status *status)
{
    kv_code code;
    if (is_native(db)) {
        code = db->driver->space_list(db, gather_name, names, status);
    } else {
        struct space_list *list = malloc(sizeof(*list));
        if (list == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for the list of spaces");
        code = list_read(db, list, gather_name, names, status);
        free(list);
    }
    if (code == KV_OK && names->failed)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for the list of spaces");
    return code;
}

/* The names are gathered first, so that `visit` may open spaces and write. */
kv_code kv_space_list(kv_db *db, bool (*visit)(void *context, const char *name), void *context,
                      kv_status *status)
{
    struct names names = { NULL, 0, false };
    kv_status local;
    kv_status_start(&local);
    pthread_mutex_lock(&db->core->mutex);
    kv_code code = gather_names(db, &names, &local);
    pthread_mutex_unlock(&db->core->mutex);
    if (code == KV_OK && names.count > 0) {
        qsort(names.items, names.count, sizeof(char *), compare_names);
        for (size_t i = 0; i < names.count; i++)
            if (!visit(context, names.items[i]))
                break;
    }
    for (size_t i = 0; i < names.count; i++)
        free(names.items[i]);
    free(names.items);
    return code == KV_OK ? KV_OK : kv_fail(status, code, "%s", local.message);
}

const char *kv_space_name(const kv_space *space)
{
    return space->name;
}

void kv_spaces_close(kv_db *db)
{
    struct kv_core *core = db->core;
    for (size_t i = 0; i < core->space_count; i++) {
        if (is_native(db))
            db->driver->space_close(core->spaces[i]);
        space_free(core->spaces[i]);
    }
    free(core->spaces);
    core->spaces = NULL;
    core->space_count = 0;
}
