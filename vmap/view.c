/* view.c - all maps at one version, for any thread. */
#include "vmap/state_private.h"

#include <stdlib.h>
#include <string.h>

kv_code state_check_kept(const struct state *self, uint64_t version, kv_status *status)
{
    uint64_t oldest = state_version_oldest(self), newest = state_version(self);
    if (newest == 0)
        return kv_fail(status, KV_TOO_NEW, "there is no version yet, so no version %llu",
                       (unsigned long long)version);
    if (version < oldest)
        return kv_fail(status, KV_TOO_OLD, "version %llu is no longer kept: %llu to %llu are",
                       (unsigned long long)version, (unsigned long long)oldest,
                       (unsigned long long)newest);
    if (version > newest)
        return kv_fail(status, KV_TOO_NEW,
                       "version %llu is not committed yet: %llu to %llu are",
                       (unsigned long long)version, (unsigned long long)oldest,
                       (unsigned long long)newest);
    return KV_OK;
}

/* ---- Opening ------------------------------------------------------------ */

/* Take part in the newest moment, with a snapshot. */
static kv_code moment_take(struct state *self, struct state_moment **out, kv_status *status)
{
    kv_code code = KV_OK;
    *out = NULL;
    pthread_mutex_lock(&self->lock);
    if (self->newest->snapshot == NULL)
        code = kv_snapshot_take(self->store.db, &self->newest->snapshot, status);
    if (code == KV_OK) {
        *out = self->newest;
        self->newest->references++;
        self->view_count++;
    }
    pthread_mutex_unlock(&self->lock);
    return code;
}

/* Find the older version `version` as of the view's moment. */
static kv_code open_older(state_view *view, uint64_t version, kv_status *status)
{
    kv_code code = state_check_kept(view->self, version, status);
    if (code != KV_OK)
        return code;
    kv_read read = { .snapshot = view->moment->snapshot };
    code = state_version_read(view->self, &read, version, &view->info, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_TOO_OLD, "there was no version %llu: %llu is the newest",
                       (unsigned long long)version,
                       (unsigned long long)view->moment->info->version);
    view->historic = code == KV_OK;
    return code;
}

kv_code state_view_open(struct state *self, uint64_t version, state_view **out,
                        kv_status *status)
{
    *out = NULL;
    state_view *view = calloc(1, sizeof(*view));
    if (view == NULL)
        return state_no_memory(status);
    view->self = self;
    pthread_mutex_init(&view->lock, NULL);
    kv_code code = moment_take(self, &view->moment, status);
    if (code == KV_OK) {
        view->info = view->moment->info;
        if (version != 0 && version != view->info->version)
            code = open_older(view, version, status);
    }
    if (code != KV_OK) {
        state_view_close(view);
        return code;
    }
    *out = view;
    return KV_OK;
}

void state_view_close(state_view *view)
{
    if (view == NULL)
        return;
    while (view->readers != NULL) {
        struct vtree_reader *reader = view->readers;
        view->readers = reader->next;
        vtree_reader_clear(reader);
        free(reader);
    }
    if (view->historic)
        meta_version_free(view->info);
    if (view->moment != NULL) {
        struct state *self = view->self;
        state_moment_release(self, view->moment);
        pthread_mutex_lock(&self->lock);
        self->view_count--;
        pthread_mutex_unlock(&self->lock);
    }
    pthread_mutex_destroy(&view->lock);
    free(view);
}

uint64_t state_view_version(const state_view *view)
{
    return view->info->version;
}

vmap_digest state_view_app_hash(const state_view *view)
{
    return view->info->app_hash;
}

const vmap_named_root *state_view_maps(const state_view *view, size_t *count)
{
    *count = view->info->count;
    return view->info->roots;
}

/* ---- Readers ------------------------------------------------------------ */

void state_view_reader_init(const state_view *view, struct vtree_reader *reader)
{
    vtree_reader_init(reader, &view->self->store, view->moment->snapshot,
                      view->historic ? view->info->version : 0);
}

kv_code state_view_reader_take(state_view *view, struct vtree_reader **out, kv_status *status)
{
    pthread_mutex_lock(&view->lock);
    struct vtree_reader *reader = view->readers;
    if (reader != NULL)
        view->readers = reader->next;
    pthread_mutex_unlock(&view->lock);
    if (reader == NULL) {
        reader = malloc(sizeof(*reader));
        if (reader != NULL)
            state_view_reader_init(view, reader);
    }
    *out = reader;
    return reader != NULL ? KV_OK : state_no_memory(status);
}

void state_view_reader_give(state_view *view, struct vtree_reader *reader)
{
    pthread_mutex_lock(&view->lock);
    reader->next = view->readers;
    view->readers = reader;
    pthread_mutex_unlock(&view->lock);
}

kv_code state_view_find(const state_view *view, const char *name, const struct meta_map **out,
                        kv_status *status)
{
    *out = meta_version_find(view->info, name);
    if (*out == NULL)
        return kv_fail(status, KV_NOT_FOUND, "version %llu has no map '%.*s'",
                       (unsigned long long)view->info->version, (int)STATE_MAP_NAME_SIZE_MAX,
                       name);
    return KV_OK;
}

/* ---- Reading ------------------------------------------------------------ */

kv_code state_view_root(state_view *view, const char *name, vmap_digest *out, kv_status *status)
{
    const struct meta_map *map;
    kv_code code = state_view_find(view, name, &map, status);
    if (code == KV_OK)
        *out = view->info->roots[map - view->info->maps].root;
    return code;
}

kv_code state_view_get(state_view *view, const char *name, kv_slice key, kv_value *out,
                       kv_status *status)
{
    const struct meta_map *map;
    *out = (kv_value)KV_VALUE_INIT;
    kv_code code = state_view_find(view, name, &map, status);
    if (code != KV_OK)
        return code;
    if (key.size == 0)
        return kv_fail(status, KV_INVALID, "an empty key: keys have at least 1 byte");
    if (key.size > VMAP_KEY_SIZE_MAX)
        return KV_NOT_FOUND;
    if (!view->historic) {
        struct record_key stored;
        kv_read read = { .snapshot = view->moment->snapshot };
        if (!record_key_value(&stored, map->top.map, key))
            return state_no_memory(status);
        code = kv_get(view->self->store.values, &read, record_slice(&stored), out, status);
        record_key_clear(&stored);
        return code;
    }
    struct vtree_reader *reader;
    code = state_view_reader_take(view, &reader, status);
    if (code != KV_OK)
        return code;
    code = vtree_reader_get(reader, map->top.map, key, out, status);
    state_view_reader_give(view, reader);
    return code;
}

/* ---- Proofs ------------------------------------------------------------- */

/* A leaf of a proof with what it owns. */
struct shown_leaf {
    struct proof_leaf leaf;
    struct vtree_buffer key;
    kv_value value;
};

static void shown_clear(struct shown_leaf *shown)
{
    vtree_buffer_clear(&shown->key);
    kv_value_release(&shown->value);
}

/* Take the leaf at the end of `path`, with its value. */
static kv_code show_leaf(struct vtree_reader *reader, const struct vtree_top *top,
                         const struct vtree_path *path, struct shown_leaf *shown,
                         kv_status *status)
{
    kv_slice key = vtree_path_key(path);
    if (!vtree_buffer_add(&shown->key, key.data, key.size))
        return state_no_memory(status);
    if (!vtree_path_steps(path, &shown->leaf))
        return kv_fail(status, KV_TOO_BIG, "a leaf of map number %u is too deep for a proof",
                       top->map);
    kv_code code = vtree_reader_get(reader, top->map, key, &shown->value, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_CORRUPT, "a key of map number %u has lost its value",
                       top->map);
    shown->leaf.key = vtree_buffer_slice(&shown->key);
    shown->leaf.value = shown->value.bytes;
    return code;
}

/* Find the leaf of `key`, or its neighbours. KV_NOT_FOUND: it is absent. */
static kv_code show_subject(struct vtree_reader *reader, const struct vtree_top *top,
                            kv_slice key, struct shown_leaf shown[2],
                            struct proof_subject *subject, kv_status *status)
{
    struct vtree_path path;
    kv_code code = vtree_path_find(reader, top, key, &path, status);
    if (code != KV_OK && code != KV_NOT_FOUND)
        return code;
    bool first = code == KV_NOT_FOUND; /* no leaf <= key: the path leads to the next */
    struct shown_leaf *at = &shown[first ? 1 : 0];
    code = show_leaf(reader, top, &path, at, status);
    subject->key = key;
    subject->exists = code == KV_OK && kv_compare(at->leaf.key, key) == 0;
    if (first)
        subject->right = &at->leaf;
    else
        subject->left = &at->leaf;
    if (code == KV_OK && !subject->exists && !first) {
        code = vtree_path_next(reader, top, &path, status);
        if (code == KV_OK)
            code = show_leaf(reader, top, &path, &shown[1], status);
        if (code == KV_OK)
            subject->right = &shown[1].leaf;
        else if (code == KV_NOT_FOUND)
            code = KV_OK;
    }
    vtree_path_clear(&path);
    if (code != KV_OK)
        return code;
    return subject->exists ? KV_OK : KV_NOT_FOUND;
}

static kv_code prove(state_view *view, const struct meta_map *map, kv_slice key,
                     struct vtree_reader *reader, kv_value *value, vmap_proof *out,
                     kv_status *status)
{
    size_t index = (size_t)(map - view->info->maps);
    struct proof_subject subject = { key, false, NULL, NULL };
    kv_code answer = KV_NOT_FOUND;
    struct shown_leaf *shown = malloc(2 * sizeof(*shown));
    if (shown == NULL)
        return state_no_memory(status);
    for (size_t i = 0; i < 2; i++) { /* their room for steps is long and needs no zeros */
        shown[i].leaf.count = 0;
        shown[i].key = (struct vtree_buffer){ NULL, 0, 0 };
        shown[i].value = (kv_value)KV_VALUE_INIT;
    }
    bool empty = map->top.node.size == 0;
    if (!empty)
        answer = show_subject(reader, &map->top, key, shown, &subject, status);
    if (answer == KV_OK || answer == KV_NOT_FOUND) {
        kv_code code = vmap_proof_encode(empty ? NULL : &subject, view->info->roots,
                                         view->info->count, index, out, status);
        if (code != KV_OK)
            answer = code;
    }
    if (answer == KV_OK && value != NULL) {
        *value = shown[0].value;
        shown[0].value = (kv_value)KV_VALUE_INIT;
    }
    shown_clear(&shown[0]);
    shown_clear(&shown[1]);
    free(shown);
    return answer;
}

kv_code state_view_prove(state_view *view, const char *name, kv_slice key, kv_value *value,
                         vmap_proof *out, kv_status *status)
{
    const struct meta_map *map;
    *out = (vmap_proof)VMAP_PROOF_INIT;
    if (value != NULL)
        *value = (kv_value)KV_VALUE_INIT;
    map = meta_version_find(view->info, name);
    if (map == NULL)
        return kv_fail(status, KV_INVALID, "version %llu has no map '%.*s'",
                       (unsigned long long)view->info->version, (int)STATE_MAP_NAME_SIZE_MAX,
                       name);
    if (key.size == 0 || key.size > VMAP_KEY_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "a key of %zu bytes: keys have 1 to %u", key.size,
                       VMAP_KEY_SIZE_MAX);
    struct vtree_reader *reader;
    kv_code code = state_view_reader_take(view, &reader, status);
    if (code != KV_OK)
        return code;
    code = prove(view, map, key, reader, value, out, status);
    state_view_reader_give(view, reader);
    return code;
}
