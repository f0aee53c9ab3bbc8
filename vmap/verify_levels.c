/* verify_levels.c - pages of levels >= 2 against their records, and records that no page
 * has. */
#include "vmap/verify.h"

#include <stdio.h>
#include <string.h>

/* ---- What is said -------------------------------------------------------- */

enum {
    SHOWN_KEY = 32,   /* bytes of a key in a message, */
    SHOWN_DIGEST = 8, /* of a digest: enough to tell two apart */
    NODE_TEXT_SIZE = 64,
    NAME_SHOWN = 40
};

static void hex(const uint8_t *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = 0;
}

static void key_text(kv_slice key, char out[2 * SHOWN_KEY + 4])
{
    size_t shown = key.size <= SHOWN_KEY ? key.size : SHOWN_KEY;
    hex(key.data, shown, out);
    if (shown < key.size)
        memcpy(out + 2 * shown, "..", sizeof(".."));
}

static void node_text(const vmap_node *node, char out[NODE_TEXT_SIZE])
{
    char digest[2 * SHOWN_DIGEST + 1];
    if (node == NULL) {
        memcpy(out, "no page", sizeof("no page"));
        return;
    }
    hex(node->digest.bytes, SHOWN_DIGEST, digest);
    snprintf(out, NODE_TEXT_SIZE, "%llu pairs, digest %s", (unsigned long long)node->size,
             digest);
}

kv_code verify_differs(const struct meta_map *map, unsigned level, kv_slice first,
                       const vmap_node *expected, const vmap_node *found, kv_status *status)
{
    char key[2 * SHOWN_KEY + 4], wanted[NODE_TEXT_SIZE], is[NODE_TEXT_SIZE];
    key_text(first, key);
    node_text(expected, wanted);
    node_text(found, is);
    return kv_fail(status, KV_CORRUPT,
                   "map '%.*s': page of level %u at key %s: expected %s, found %s", NAME_SHOWN,
                   map->name, level, key, wanted, is);
}

kv_code verify_wrong(const struct meta_map *map, unsigned level, kv_slice key, const char *what,
                     kv_status *status)
{
    char text[2 * SHOWN_KEY + 4];
    key_text(key, text);
    return kv_fail(status, KV_CORRUPT, "map '%.*s': level %u, key %s: %s", NAME_SHOWN,
                   map->name, level, text, what);
}

bool verify_same(const vmap_node *one, const vmap_node *other)
{
    return one->size == other->size &&
           memcmp(one->digest.bytes, other->digest.bytes, VMAP_DIGEST_SIZE) == 0;
}

/* ---- Records of a level -------------------------------------------------- */

/* The first record of `level` behind the page before must be the one at `first` (NULL:
 * there must be none); `stored` receives its node. */
static kv_code next_record(struct verification *check, unsigned level, const kv_slice *first,
                           const vmap_node *found, vmap_node *stored, kv_status *status)
{
    kv_slice behind = vtree_buffer_slice(&check->levels[level].behind);
    struct vtree_cursor *cursor;
    kv_code code =
        vtree_reader_cursor(check->reader, check->map->top.map, level, &cursor, status);
    if (code != KV_OK)
        return code;
    bool on = behind.size == 0 ? vtree_cursor_first(cursor) : vtree_cursor_seek(cursor, behind);
    code = vtree_cursor_status(cursor, status);
    if (code != KV_OK)
        return code;
    kv_slice key = vtree_cursor_key(cursor), record = vtree_cursor_value(cursor);
    if (on && (first == NULL || kv_compare(key, *first) < 0))
        return verify_wrong(check->map, level, key, "a record where no page begins", status);
    if (first == NULL)
        return KV_OK;
    if (!on || kv_compare(key, *first) != 0)
        return verify_differs(check->map, level, *first, NULL, found, status);
    if (!record_take_node(&record, stored) || record.size != 0)
        return verify_wrong(check->map, level, *first, "a damaged record", status);
    return KV_OK;
}

/* Fold the gathered page of `level`, hold it against its record, pass it up. */
static kv_code close_page(struct verification *check, unsigned level, kv_status *status)
{
    struct verify_level *at = &check->levels[level];
    const struct vtree_top *top = &check->map->top;
    kv_slice first = vtree_buffer_slice(&at->first);
    vmap_node node = vmap_fold(at->nodes.nodes, at->nodes.count), stored = { 0 };
    at->nodes.count = 0;
    check->page_counts[level]++;
    kv_code code = next_record(check, level, &first, &node, &stored, status);
    if (code != KV_OK)
        return code;
    if (!verify_same(&stored, &node))
        return verify_differs(check->map, level, first, &stored, &node, status);
    if (level == top->level && !verify_same(&top->node, &node))
        return verify_differs(check->map, level, first, &top->node, &node, status);
    at->behind.size = 0;
    if (!vtree_buffer_add(&at->behind, first.data, first.size) ||
        !vtree_buffer_add(&at->behind, "", 1))
        return state_no_memory(status);
    return level < top->level ? verify_add(check, level + 1, first, &node, status) : KV_OK;
}

kv_code verify_add(struct verification *check, unsigned level, kv_slice first,
                   const vmap_node *node, kv_status *status)
{
    struct verify_level *at = &check->levels[level];
    if (at->nodes.count > 0 && vmap_rank(first, check->map->top.page_bits) > level) {
        kv_code code = close_page(check, level, status);
        if (code != KV_OK)
            return code;
    }
    if (at->nodes.count == 0) {
        at->first.size = 0;
        if (!vtree_buffer_add(&at->first, first.data, first.size))
            return state_no_memory(status);
    }
    return vtree_entries_add(&at->nodes, kv_bytes(NULL, 0), node) ? KV_OK
                                                                  : state_no_memory(status);
}

/* ---- What no page has ---------------------------------------------------- */

/* The entries that lie beside level-1 pages: each beside one that there is. */
static kv_code check_entries(const struct verification *check, kv_status *status)
{
    const struct vtree_store *store = &check->view->self->store;
    const kv_read *read = &check->reader->read;
    uint32_t map = check->map->top.map;
    uint8_t limit[RECORD_MAP_SIZE + 1];
    struct record_key prefix;
    kv_iter *iter;
    if (!record_key_page(&prefix, map, RECORD_LEVEL_ENTRIES, kv_bytes(NULL, 0)))
        return state_no_memory(status);
    kv_range range = kv_range_of_prefix(record_slice(&prefix), limit);
    kv_code code = kv_iter_open(store->pages, read, &range, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); code == KV_OK && on; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        kv_slice first =
            kv_bytes((const uint8_t *)key.data + prefix.size, key.size - prefix.size);
        struct record_key node;
        kv_value value = KV_VALUE_INIT;
        if (!record_key_page(&node, map, 1, first)) {
            code = state_no_memory(status);
            break;
        }
        code = kv_get(store->pages, read, record_slice(&node), &value, status);
        if (code == KV_NOT_FOUND)
            code = verify_wrong(check->map, 1, first, "entries where no page begins", status);
        kv_value_release(&value);
        record_key_clear(&node);
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

kv_code verify_end(struct verification *check, kv_status *status)
{
    const struct vtree_top *top = &check->map->top;
    vmap_node none;
    kv_code code = KV_OK;
    for (unsigned level = 2; code == KV_OK && level <= top->level; level++) {
        if (check->levels[level].nodes.count > 0)
            code = close_page(check, level, status);
    }
    for (unsigned level = 0; code == KV_OK && top->node.size > 0 && level <= top->level;
         level++) {
        if (check->page_counts[level] != top->page_counts[level])
            code = kv_fail(status, KV_CORRUPT,
                           "map '%.*s': %llu pages of level %u, its version's record says %llu",
                           NAME_SHOWN, check->map->name,
                           (unsigned long long)check->page_counts[level], level,
                           (unsigned long long)top->page_counts[level]);
    }
    unsigned beyond = top->level == 0 || top->node.size == 0 ? 1 : 2;
    for (unsigned level = beyond; code == KV_OK && level < VMAP_LEVELS_MAX; level++)
        code = next_record(check, level, NULL, NULL, &none, status);
    return code == KV_OK && !check->view->historic ? check_entries(check, status) : code;
}

/* Whether the newest version has the map, or it is being built, or waits for its removal. */
static kv_code find_map(const state_view *view, const kv_read *read, uint32_t map,
                        kv_status *status)
{
    uint8_t key[META_KEY_SIZE];
    kv_value value = KV_VALUE_INIT;
    if (meta_version_find_id(view->moment->info, map) != NULL)
        return KV_OK;
    kv_space *meta = view->self->store.meta;
    kv_code code = kv_get(meta, read, meta_key_building(key, map), &value, status);
    if (code == KV_NOT_FOUND)
        code = kv_get(meta, read, meta_key_dropped(key, map), &value, status);
    kv_value_release(&value);
    return code;
}

/* Look at one record of each map that `space` has. */
static kv_code check_space(const state_view *view, const char *name, kv_space *space,
                           kv_status *status)
{
    kv_read read = { .snapshot = view->moment->snapshot };
    kv_iter *iter;
    kv_code code = kv_iter_open(space, &read, NULL, &iter, status);
    if (code != KV_OK)
        return code;
    bool on = kv_iter_first(iter);
    while (code == KV_OK && on) {
        uint32_t map = 0;
        kv_slice key = kv_iter_key(iter);
        if (key.size >= sizeof(map))
            memcpy(&map, key.data, sizeof(map));
        map = __builtin_bswap32(map);
        code = find_map(view, &read, map, status);
        if (code == KV_NOT_FOUND)
            code =
                kv_fail(status, KV_CORRUPT,
                        "%s holds records of map number %u, which no version has", name, map);
        if (map == UINT32_MAX)
            break;
        uint32_t next = __builtin_bswap32(map + 1);
        on = kv_iter_seek(iter, kv_bytes(&next, sizeof(next)));
    }
    if (code == KV_OK)
        code = kv_iter_status(iter, status);
    kv_iter_close(iter);
    return code;
}

kv_code verify_maps(const state_view *view, kv_status *status)
{
    const struct vtree_store *store = &view->self->store;
    kv_code code = check_space(view, "state.values", store->values, status);
    if (code == KV_OK)
        code = check_space(view, "state.pages", store->pages, status);
    return code == KV_OK ? check_space(view, "state.history", store->history, status) : code;
}

void verify_levels_reset(struct verification *check)
{
    memset(check->page_counts, 0, sizeof(check->page_counts));
    for (unsigned level = 0; level < VMAP_LEVELS_MAX; level++) {
        check->levels[level].behind.size = 0;
        check->levels[level].nodes.count = 0;
    }
}

void verify_levels_clear(struct verification *check)
{
    for (unsigned level = 0; level < VMAP_LEVELS_MAX; level++) {
        vtree_buffer_clear(&check->levels[level].first);
        vtree_buffer_clear(&check->levels[level].behind);
        vtree_entries_clear(&check->levels[level].nodes);
    }
}
