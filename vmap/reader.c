/* reader.c - read a map's records and pages at a version. */
#include "vmap/reader.h"

#include "vmap/brief.h"
#include "vmap/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vtree_reader_init(struct vtree_reader *reader, struct vtree_store *store,
                       const kv_snapshot *snapshot, uint64_t version)
{
    memset(reader, 0, sizeof(*reader));
    reader->store = store;
    reader->read.snapshot = snapshot;
    reader->version = version;
}

void vtree_reader_clear(struct vtree_reader *reader)
{
    kv_iter_close(reader->values);
    kv_iter_close(reader->pages);
    kv_iter_close(reader->history);
    vtree_cursor_clear(&reader->cursor);
    vtree_arena_clear(&reader->arena);
    vtree_entries_clear(&reader->entries);
    reader->values = reader->pages = reader->history = NULL;
}

void vtree_page_name(uint32_t map, unsigned level, kv_slice first, char name[READER_NAME_SIZE])
{
    int used =
        snprintf(name, READER_NAME_SIZE, "level-%u page of map number %u at key ", level, map);
    const uint8_t *bytes = first.data;
    for (size_t i = 0; i < first.size && used + 3 < READER_NAME_SIZE; i++)
        used += snprintf(name + used, (size_t)(READER_NAME_SIZE - used), "%02x", bytes[i]);
}

static kv_code iter_need(struct vtree_reader *reader, kv_space *space, kv_iter **iter,
                         kv_status *status)
{
    return *iter != NULL ? KV_OK : kv_iter_open(space, &reader->read, NULL, iter, status);
}

/* ---- Records ------------------------------------------------------------ */

/* Look for what stood at `key` until the reader's version or later. */
static kv_code history_get(struct vtree_reader *reader, uint32_t map, kv_slice key,
                           kv_slice *record, kv_status *status)
{
    struct record_key sought;
    kv_code code = iter_need(reader, reader->store->history, &reader->history, status);
    if (code != KV_OK)
        return code;
    if (!record_key_history(&sought, map, RECORD_LEVEL_VALUES, key, reader->version))
        return kv_fail(status, KV_NO_MEMORY, "no memory for a key");
    bool on = kv_iter_seek(reader->history, record_slice(&sought));
    kv_slice found = kv_iter_key(reader->history);
    code = KV_NOT_FOUND;
    if (on && found.size == sought.size &&
        memcmp(found.data, sought.data, sought.size - sizeof(uint64_t)) == 0) {
        *record = kv_iter_value(reader->history);
        code = KV_OK;
    } else if (!on) {
        code = kv_iter_status(reader->history, status);
        if (code == KV_OK)
            code = KV_NOT_FOUND;
    }
    record_key_clear(&sought);
    return code;
}

static void copied_release(kv_value *value)
{
    free(value->owner);
}

kv_code vtree_reader_get(struct vtree_reader *reader, uint32_t map, kv_slice key, kv_value *out,
                         kv_status *status)
{
    kv_slice record;
    *out = (kv_value)KV_VALUE_INIT;
    kv_code code =
        reader->version == 0 ? KV_NOT_FOUND : history_get(reader, map, key, &record, status);
    if (code == KV_OK) {
        const uint8_t *mark;
        if (!record_take_bytes(&record, 1, &mark) || *mark > RECORD_PRESENT)
            return kv_fail(status, KV_CORRUPT, "a history record of map number %u is damaged",
                           map);
        if (*mark == RECORD_ABSENT)
            return KV_NOT_FOUND;
        out->owner = malloc(record.size + 1);
        if (out->owner == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for a value");
        memcpy(out->owner, record.data, record.size);
        out->bytes = kv_bytes(out->owner, record.size);
        out->release = copied_release;
        return KV_OK;
    }
    if (code != KV_NOT_FOUND)
        return code;

    struct record_key stored;
    if (!record_key_value(&stored, map, key))
        return kv_fail(status, KV_NO_MEMORY, "no memory for a key");
    code = kv_get(reader->store->values, &reader->read, record_slice(&stored), out, status);
    record_key_clear(&stored);
    return code;
}

kv_code vtree_reader_cursor(struct vtree_reader *reader, uint32_t map, unsigned level,
                            struct vtree_cursor **out, kv_status *status)
{
    struct vtree_store *store = reader->store;
    bool values = level == RECORD_LEVEL_VALUES;
    kv_code code = values ? iter_need(reader, store->values, &reader->values, status)
                          : iter_need(reader, store->pages, &reader->pages, status);
    if (code == KV_OK && reader->version != 0)
        code = iter_need(reader, store->history, &reader->history, status);
    if (code != KV_OK)
        return code;
    vtree_cursor_reset(&reader->cursor);
    if (reader->version != 0)
        vtree_cursor_add(&reader->cursor, CURSOR_HISTORY, reader->history, map, (int)level,
                         reader->version);
    vtree_cursor_add(&reader->cursor, CURSOR_PLAIN, values ? reader->values : reader->pages,
                     map, values ? -1 : (int)level, 0);
    *out = &reader->cursor;
    return KV_OK;
}

/* ---- Pages from records ------------------------------------------------- */

enum {
    LEAF_GROUP = 32,
    LEAF_VALUE_SIZE = 1024 /* longer values are not copied */
};

static kv_code no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a page");
}

static kv_code page_damaged(const struct vtree_top *top, unsigned level, kv_slice first,
                            kv_status *status)
{
    char name[READER_NAME_SIZE];
    vtree_page_name(top->map, level, first, name);
    return kv_fail(status, KV_CORRUPT, "%s does not give its digest again", name);
}

/* A copy of a key that lasts as long as the reader's arena. */
static bool entry_copy(struct vtree_reader *reader, struct vtree_entries *entries, kv_slice key,
                       const vmap_node *node)
{
    kv_slice copy = vtree_arena_copy(&reader->arena, key);
    return copy.data != NULL && vtree_entries_add(entries, copy, node);
}

/* Leaves whose digests are not computed yet: many at a time are cheaper than
 * each alone. */
struct leaf_group {
    kv_slice keys[LEAF_GROUP], values[LEAF_GROUP];
    size_t count;
};

static bool group_finish(struct leaf_group *group, struct vtree_entries *entries)
{
    vmap_node nodes[LEAF_GROUP];
    vmap_leaves(group->keys, group->values, nodes, group->count);
    for (size_t i = 0; i < group->count; i++) {
        if (!vtree_entries_add(entries, group->keys[i], &nodes[i]))
            return false;
    }
    group->count = 0;
    return true;
}

/* Add the pair under the cursor. */
static bool group_add(struct vtree_reader *reader, struct leaf_group *group,
                      const struct vtree_cursor *cursor, struct vtree_entries *entries)
{
    kv_slice value = vtree_cursor_value(cursor);
    kv_slice key = vtree_arena_copy(&reader->arena, vtree_cursor_key(cursor));
    if (key.data == NULL)
        return false;
    if (value.size > LEAF_VALUE_SIZE) {
        vmap_node node = vmap_leaf(key, value);
        return group_finish(group, entries) && vtree_entries_add(entries, key, &node);
    }
    value = vtree_arena_copy(&reader->arena, value);
    if (value.data == NULL)
        return false;
    group->keys[group->count] = key;
    group->values[group->count++] = value;
    return group->count < LEAF_GROUP || group_finish(group, entries);
}

/* Gather the leaves from `first` on that make up `size` leaves. */
static kv_code gather_leaves(struct vtree_reader *reader, const struct vtree_top *top,
                             kv_slice first, uint64_t size, struct vtree_entries *entries,
                             kv_status *status)
{
    struct vtree_cursor *cursor;
    struct leaf_group group;
    uint64_t gathered = 0;
    group.count = 0;
    kv_code code = vtree_reader_cursor(reader, top->map, 0, &cursor, status);
    if (code != KV_OK)
        return code;
    for (bool on = vtree_cursor_seek(cursor, first); on && gathered < size;
         on = gathered < size && vtree_cursor_next(cursor)) {
        if (!group_add(reader, &group, cursor, entries))
            return no_memory(status);
        gathered++;
    }
    if (!group_finish(&group, entries))
        return no_memory(status);
    atomic_fetch_add_explicit(&reader->store->leaf_digests, gathered, memory_order_relaxed);
    return gathered >= size ? KV_OK : vtree_cursor_status(cursor, status);
}

/* Gather the nodes of pages of `level` from `first` on that make up `size`
 * leaves. */
static kv_code gather_nodes(struct vtree_reader *reader, const struct vtree_top *top,
                            unsigned level, kv_slice first, uint64_t size,
                            struct vtree_entries *entries, kv_status *status)
{
    struct vtree_cursor *cursor;
    kv_code code = vtree_reader_cursor(reader, top->map, level, &cursor, status);
    if (code != KV_OK)
        return code;
    uint64_t gathered = 0;
    for (bool on = vtree_cursor_seek(cursor, first); on && gathered < size;
         on = gathered < size && vtree_cursor_next(cursor)) {
        vmap_node node;
        kv_slice record = vtree_cursor_value(cursor);
        if (!record_take_node(&record, &node) || record.size != 0 || node.size == 0)
            return page_damaged(top, level + 1, first, status);
        if (!entry_copy(reader, entries, vtree_cursor_key(cursor), &node))
            return no_memory(status);
        gathered += node.size;
    }
    return gathered >= size ? KV_OK : vtree_cursor_status(cursor, status);
}

/* Make a page and keep it only if it is the one asked for. */
static kv_code make_checked(struct vtree_reader *reader, const struct vtree_top *top,
                            unsigned level, const struct vtree_entries *entries,
                            const vmap_node *node, struct vtree_page **out, kv_status *status)
{
    uint64_t computed = 0;
    if (entries->count == 0)
        return page_damaged(top, level, kv_bytes(NULL, 0), status);
    struct vtree_page *page = vtree_page_make(level, entries, NULL, &computed);
    atomic_fetch_add_explicit(&reader->store->inner_digests, computed, memory_order_relaxed);
    if (page == NULL)
        return no_memory(status);
    vmap_node own = vtree_page_node(page);
    if (memcmp(own.digest.bytes, node->digest.bytes, VMAP_DIGEST_SIZE) != 0 ||
        own.size != node->size) {
        vtree_page_release(page);
        return page_damaged(top, level, entries->keys[0], status);
    }
    *out = page;
    return KV_OK;
}

/* Cut a level-1 page's leaves into level-0 pages by their keys' ranks. */
static kv_code cut_leaves(struct vtree_reader *reader, const struct vtree_top *top,
                          struct vtree_entries *leaves, struct vtree_entries *pages,
                          kv_status *status)
{
    unsigned ranks[LEAF_GROUP];
    size_t begin = 0;
    atomic_fetch_add_explicit(&reader->store->rank_digests, leaves->count,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->store->inner_digests, leaves->count,
                              memory_order_relaxed);
    for (size_t i = 0; i <= leaves->count; i++) {
        size_t left = leaves->count - i;
        if (i % LEAF_GROUP == 0)
            vmap_ranks(leaves->keys + i, top->page_bits, ranks,
                       left < LEAF_GROUP ? left : LEAF_GROUP);
        if (i == 0 || (i < leaves->count && ranks[i % LEAF_GROUP] == 0))
            continue;
        vmap_node node = vmap_fold(leaves->nodes + begin, i - begin);
        if (!vtree_entries_add(pages, leaves->keys[begin], &node))
            return no_memory(status);
        begin = i;
    }
    return KV_OK;
}

kv_code vtree_reader_entries(struct vtree_reader *reader, const struct vtree_top *top,
                             kv_slice first, const vmap_node *node, struct vtree_page **out,
                             kv_status *status)
{
    struct record_key key;
    kv_value record = KV_VALUE_INIT;
    if (!record_key_page(&key, top->map, RECORD_LEVEL_ENTRIES, first))
        return no_memory(status);
    kv_code code =
        kv_get(reader->store->pages, &reader->read, record_slice(&key), &record, status);
    record_key_clear(&key);
    if (code != KV_OK)
        return code;
    *out = vtree_page_decode(first, record.bytes, node);
    kv_value_release(&record);
    return *out != NULL ? KV_OK : KV_NOT_FOUND;
}

/* An empty `first` becomes the first key of the map's pages of level 1. */
static kv_code first_known(struct vtree_reader *reader, const struct vtree_top *top,
                           kv_slice *first, kv_status *status)
{
    struct vtree_cursor *cursor;
    if (first->size > 0)
        return KV_OK;
    kv_code code = vtree_reader_cursor(reader, top->map, 1, &cursor, status);
    if (code != KV_OK)
        return code;
    if (vtree_cursor_first(cursor)) {
        *first = vtree_arena_copy(&reader->arena, vtree_cursor_key(cursor));
        return first->data != NULL ? KV_OK : no_memory(status);
    }
    code = vtree_cursor_status(cursor, status);
    return code != KV_OK ? code : page_damaged(top, 1, *first, status);
}

static kv_code load_branch_1(struct vtree_reader *reader, const struct vtree_top *top,
                             kv_slice first, const vmap_node *node, struct vtree_page **out,
                             kv_status *status)
{
    struct vtree_entries leaves = { NULL, NULL, 0, 0, 0 }, pages = leaves;
    kv_code code = first_known(reader, top, &first, status);
    if (code == KV_OK) {
        code = vtree_reader_entries(reader, top, first, node, out, status);
        if (code != KV_NOT_FOUND)
            return code;
        code = gather_leaves(reader, top, first, node->size, &leaves, status);
    }
    if (code == KV_OK)
        code = cut_leaves(reader, top, &leaves, &pages, status);
    if (code == KV_OK)
        code = make_checked(reader, top, 1, &pages, node, out, status);
    vtree_entries_clear(&leaves);
    vtree_entries_clear(&pages);
    return code;
}

kv_code vtree_reader_cut(struct vtree_reader *reader, const struct vtree_top *top,
                         kv_slice first, size_t count, struct vtree_entries *pages, bool *end,
                         kv_status *status)
{
    struct vtree_entries *leaves = &reader->entries;
    vtree_arena_reset(&reader->arena);
    leaves->count = 0;
    pages->count = 0;
    kv_code code = gather_leaves(reader, top, first, count, leaves, status);
    if (code == KV_OK && leaves->count > 0)
        code = cut_leaves(reader, top, leaves, pages, status);
    *end = leaves->count < count;
    return code;
}

static kv_code load_gathered(struct vtree_reader *reader, const struct vtree_top *top,
                             unsigned level, kv_slice first, const vmap_node *node,
                             struct vtree_page **out, kv_status *status)
{
    struct vtree_entries *entries = &reader->entries;
    entries->count = 0;
    kv_code code =
        level == 0 ? gather_leaves(reader, top, first, node->size, entries, status)
                   : gather_nodes(reader, top, level - 1, first, node->size, entries, status);
    return code == KV_OK ? make_checked(reader, top, level, entries, node, out, status) : code;
}

static kv_code load_page(struct vtree_reader *reader, const struct vtree_top *top,
                         unsigned level, kv_slice first, const vmap_node *node,
                         struct vtree_page **out, kv_status *status)
{
    kv_code code = level == 1 ? load_branch_1(reader, top, first, node, out, status)
                              : load_gathered(reader, top, level, first, node, out, status);
    vtree_arena_reset(&reader->arena);
    if (code == KV_OK)
        vtree_cache_put(reader->store->cache, *out, false);
    return code;
}

/* Whether leaves that begin with those of `group` fold to the digests of `count` groups. */
static bool groups_fold(const struct vtree_page *page, size_t group, size_t count,
                        const vmap_node *leaves)
{
    vmap_node nodes[BRIEF_GROUP];
    for (size_t i = group; i < group + count; i++) {
        size_t size = vtree_brief_group_size(page, i);
        memcpy(nodes, leaves, size * sizeof(*nodes));
        if (memcmp(vmap_fold(nodes, size).digest.bytes, vtree_brief_group(page, i)->bytes,
                   VMAP_DIGEST_SIZE) != 0)
            return false;
        leaves += size;
    }
    return true;
}

kv_code vtree_reader_groups(struct vtree_reader *reader, const struct vtree_top *top,
                            const struct vtree_page *page, size_t group, size_t count,
                            kv_slice from, struct vtree_entries **out, kv_status *status)
{
    struct vtree_entries *entries = &reader->entries;
    size_t size = (count - 1) * BRIEF_GROUP + vtree_brief_group_size(page, group + count - 1);
    vtree_arena_reset(&reader->arena);
    entries->count = 0;
    kv_code code = gather_leaves(reader, top, from, size, entries, status);
    if (code != KV_OK)
        return code;
    atomic_fetch_add_explicit(&reader->store->inner_digests, size - count,
                              memory_order_relaxed);
    if (entries->count != size || !groups_fold(page, group, count, entries->nodes))
        return page_damaged(top, 0, from, status);
    *out = entries;
    return KV_OK;
}

kv_code vtree_reader_page(struct vtree_reader *reader, const struct vtree_top *top,
                          unsigned level, kv_slice first, const vmap_node *node,
                          struct vtree_page **out, kv_status *status)
{
    *out = vtree_cache_get(reader->store->cache, level, &node->digest, false);
    return *out != NULL ? KV_OK : load_page(reader, top, level, first, node, out, status);
}

kv_code vtree_reader_page_or_brief(struct vtree_reader *reader, const struct vtree_top *top,
                                   unsigned level, kv_slice first, const vmap_node *node,
                                   struct vtree_page **out, kv_status *status)
{
    *out = vtree_cache_get(reader->store->cache, level, &node->digest, true);
    return *out != NULL ? KV_OK : load_page(reader, top, level, first, node, out, status);
}

kv_code vtree_reader_descend(struct vtree_reader *reader, const struct vtree_top *top,
                             unsigned level, kv_slice key, struct vtree_page **out,
                             kv_status *status)
{
    struct vtree_page *page;
    kv_code code = vtree_reader_page(reader, top, top->level, kv_bytes(NULL, 0), &top->node,
                                     &page, status);
    for (unsigned above = top->level; code == KV_OK && above > level; above--) {
        bool exact;
        size_t index = vtree_page_find(page, key, &exact);
        if (!exact && index > 0)
            index--;
        vmap_node node = vtree_page_entry(page, index);
        struct vtree_page *below;
        code = vtree_reader_page(reader, top, above - 1, vtree_page_key(page, index), &node,
                                 &below, status);
        vtree_page_release(page);
        page = below;
    }
    *out = code == KV_OK ? page : NULL;
    return code;
}

/* ---- Paths -------------------------------------------------------------- */

kv_slice vtree_path_key(const struct vtree_path *path)
{
    return vtree_page_key(path->pages[0], path->index[0]);
}

void vtree_path_clear(struct vtree_path *path)
{
    for (unsigned level = 0; level <= path->level; level++) {
        vtree_page_release(path->pages[level]);
        path->pages[level] = NULL;
    }
}

/* Load the page under pages[level + 1] at its index into pages[level]. */
static kv_code path_enter(struct vtree_reader *reader, const struct vtree_top *top,
                          unsigned level, struct vtree_path *path, kv_status *status)
{
    const struct vtree_page *above = path->pages[level + 1];
    vmap_node node = vtree_page_entry(above, path->index[level + 1]);
    struct vtree_page *page;
    kv_code code =
        vtree_reader_page(reader, top, level, vtree_page_key(above, path->index[level + 1]),
                          &node, &page, status);
    if (code != KV_OK)
        return code;
    vtree_page_release(path->pages[level]);
    path->pages[level] = page;
    path->index[level] = 0;
    return KV_OK;
}

kv_code vtree_path_find(struct vtree_reader *reader, const struct vtree_top *top, kv_slice key,
                        struct vtree_path *out, kv_status *status)
{
    memset(out, 0, sizeof(*out));
    out->level = top->level;
    kv_code code = vtree_reader_page(reader, top, top->level, kv_bytes(NULL, 0), &top->node,
                                     &out->pages[top->level], status);
    bool before = false;
    for (unsigned level = top->level; code == KV_OK; level--) {
        bool exact;
        size_t index = vtree_page_find(out->pages[level], key, &exact);
        before = !exact && index == 0;
        out->index[level] = exact || index == 0 ? index : index - 1;
        if (level == 0)
            break;
        code = path_enter(reader, top, level - 1, out, status);
    }
    if (code != KV_OK) {
        vtree_path_clear(out);
        return code;
    }
    return before ? KV_NOT_FOUND : KV_OK;
}

kv_code vtree_path_next(struct vtree_reader *reader, const struct vtree_top *top,
                        struct vtree_path *path, kv_status *status)
{
    unsigned level = 0;
    while (level <= path->level && path->index[level] + 1 == path->pages[level]->count)
        level++;
    if (level > path->level)
        return KV_NOT_FOUND;
    path->index[level]++;
    while (level > 0) {
        kv_code code = path_enter(reader, top, --level, path, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

bool vtree_path_steps(const struct vtree_path *path, struct proof_leaf *leaf)
{
    leaf->key = vtree_path_key(path);
    leaf->count = 0;
    for (unsigned level = 0; level <= path->level; level++) {
        if (!vtree_page_path(path->pages[level], path->index[level], leaf))
            return false;
    }
    return true;
}
