/* page_record.c - the record that holds a level-1 page's entries. */
#include "vmap/page.h"

#include <assert.h>
#include <string.h>

/*
 * varint count, then for each entry: varint bytes shared with the key before
 * (the first: with the record's own first key), varint bytes that follow, these
 * bytes, the node.
 */
bool vtree_page_encode(const struct vtree_page *page, struct vtree_buffer *out)
{
    assert(page->level == 1);
    out->size = 0;
    if (!vtree_buffer_add_varint(out, page->count))
        return false;
    kv_slice before = vtree_page_key(page, 0);
    for (size_t i = 0; i < page->count; i++) {
        kv_slice key = vtree_page_key(page, i);
        const uint8_t *bytes = key.data, *before_bytes = before.data;
        size_t shared = 0;
        while (shared < key.size && shared < before.size &&
               bytes[shared] == before_bytes[shared])
            shared++;
        vmap_node node = vtree_page_entry(page, i);
        if (!vtree_buffer_add_varint(out, shared) ||
            !vtree_buffer_add_varint(out, key.size - shared) ||
            !vtree_buffer_add(out, bytes + shared, key.size - shared) ||
            !record_node_add(out, &node))
            return false;
        before = key;
    }
    return true;
}

/* Read the entries of a record into `entries`, keys into `arena`. */
static bool decode_entries(kv_slice first, kv_slice record, struct vtree_arena *arena,
                           struct vtree_entries *entries)
{
    uint64_t count;
    kv_slice before = first;
    if (!record_take_varint(&record, &count) || count == 0)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t shared, size;
        const uint8_t *bytes;
        vmap_node node;
        if (!record_take_varint(&record, &shared) || !record_take_varint(&record, &size) ||
            shared > before.size || size > VMAP_KEY_SIZE_MAX || shared + size == 0 ||
            !record_take_bytes(&record, (size_t)size, &bytes) ||
            !record_take_node(&record, &node))
            return false;
        uint8_t *key = vtree_arena_take(arena, (size_t)(shared + size));
        if (key == NULL)
            return false;
        memcpy(key, before.data, (size_t)shared);
        memcpy(key + shared, bytes, (size_t)size);
        before = kv_bytes(key, (size_t)(shared + size));
        if (!vtree_entries_add(entries, before, &node))
            return false;
    }
    return record.size == 0;
}

struct vtree_page *vtree_page_decode(kv_slice first, kv_slice record, const vmap_node *node)
{
    struct vtree_arena arena = { NULL, 0, 0, 0 };
    struct vtree_entries entries = { NULL, NULL, 0, 0, 0 };
    struct vtree_page *page = NULL;
    uint64_t inner_count = 0;
    if (decode_entries(first, record, &arena, &entries))
        page = vtree_page_make(1, &entries, NULL, &inner_count);
    if (page != NULL) {
        vmap_node own = vtree_page_node(page);
        if (memcmp(own.digest.bytes, node->digest.bytes, VMAP_DIGEST_SIZE) != 0) {
            vtree_page_release(page);
            page = NULL;
        }
    }
    vtree_entries_clear(&entries);
    vtree_arena_clear(&arena);
    return page;
}
