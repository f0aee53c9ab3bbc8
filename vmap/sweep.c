/* sweep.c - apply edits to pages of one level, from left to right. */
#include "vmap/sweep.h"

#include "vmap/brief.h"
#include "vmap/digest.h"

#include <stdlib.h>
#include <string.h>

enum { FETCHED_TOGETHER = 16 };

static kv_code no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a commit's pages");
}

/* ---- Which pages -------------------------------------------------------- */

void sweep_items_clear(struct sweep_items *items)
{
    for (size_t i = 0; i < items->count; i++)
        vtree_page_release(items->items[i].page);
    free(items->items);
    *items = (struct sweep_items){ NULL, 0, 0 };
}

/* List the page under entry `index` of `above`. */
static kv_code add_item(const struct vtree_reader *reader, const struct sweep_item *above,
                        size_t index, unsigned level, size_t begin, size_t end,
                        struct sweep_items *out, kv_status *status)
{
    void *grown = out->items;
    if (!vtree_grow(&grown, &out->capacity, out->count + 1, sizeof(*out->items)))
        return no_memory(status);
    out->items = grown;
    struct sweep_item *item = &out->items[out->count++];
    *item = (struct sweep_item){ .first = vtree_page_key(above->page, index),
                                 .node = vtree_page_entry(above->page, index),
                                 .begin = begin,
                                 .end = end,
                                 .leftmost = above->leftmost && index == 0 };
    vtree_cache_expect(reader->store->cache, level, &item->node.digest);
    return KV_OK;
}

/* List the page to the left of entry `index` of above[place], if not there yet.
 */
static kv_code add_left(const struct vtree_reader *reader, const struct sweep_item *above,
                        size_t place, size_t index, unsigned level, size_t begin,
                        struct sweep_items *out, kv_status *status)
{
    /* An upper page whose first page joins joins too, so the one before it in
     * the list is its left neighbour. */
    if (index == 0)
        index = above[--place].page->count;
    kv_slice first = vtree_page_key(above[place].page, index - 1);
    if (out->count > 0 && kv_compare(out->items[out->count - 1].first, first) == 0)
        return KV_OK;
    return add_item(reader, &above[place], index - 1, level, begin, begin, out, status);
}

/* List the pages that edits touch under above[place]. */
static kv_code plan_page(const struct vtree_reader *reader, const struct vtree_edit *leaves,
                         const struct sweep_item *above, size_t place, unsigned level,
                         struct sweep_items *out, kv_status *status)
{
    const struct vtree_page *page = above[place].page;
    kv_code code = KV_OK;
    size_t edit = above[place].begin;
    while (code == KV_OK && edit < above[place].end) {
        bool exact;
        size_t index = vtree_page_find(page, leaves[edit].key, &exact);
        if (!exact && index > 0)
            index--;
        size_t begin = edit++;
        while (edit < above[place].end &&
               (index + 1 == page->count ||
                kv_compare(leaves[edit].key, vtree_page_key(page, index + 1)) < 0))
            edit++;
        bool join = exact && !leaves[begin].present && !(above[place].leftmost && index == 0);
        if (join)
            code = add_left(reader, above, place, index, level, begin, out, status);
        if (code == KV_OK)
            code = add_item(reader, &above[place], index, level, begin, edit, out, status);
        if (code == KV_OK)
            out->items[out->count - 1].join = join;
    }
    return code;
}

kv_code sweep_plan(struct vtree_reader *reader, const struct vtree_top *top,
                   const struct vtree_edit *leaves, const struct sweep_item *above,
                   size_t above_count, unsigned level, struct sweep_items *out,
                   kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t place = 0; code == KV_OK && place < above_count; place++) {
        size_t begin = out->count;
        code = plan_page(reader, leaves, above, place, level, out, status);
        for (size_t i = begin; i < out->count; i++)
            vtree_cache_fetch(reader->store->cache, level, &out->items[i].node.digest);
        for (size_t i = begin; code == KV_OK && i < out->count; i++) {
            struct sweep_item *item = &out->items[i];
            code = vtree_reader_page_or_brief(reader, top, level, item->first, &item->node,
                                              &item->page, status);
        }
    }
    return code;
}

/* ---- The sweep ---------------------------------------------------------- */

/* Remember a page's first key beyond its page, and its node. */
static bool note_page(struct sweep *sweep, struct vtree_entries *list, kv_slice first,
                      const vmap_node *node)
{
    kv_slice copy = vtree_arena_copy(sweep->arena, first);
    return copy.data != NULL && vtree_entries_add(list, copy, node);
}

kv_code sweep_list_page(struct sweep *sweep, struct vtree_page *page, kv_slice first,
                        kv_status *status)
{
    vmap_node node = vtree_page_node(page);
    page->map = sweep->top->map;
    bool noted = note_page(sweep, &sweep->made, first, &node);
    vtree_cache_put(sweep->reader->store->cache, page, sweep->level == 1);
    vtree_page_release(page);
    sweep->made_count++;
    return noted ? KV_OK : no_memory(status);
}

kv_code sweep_finish_refolds(struct sweep *sweep, kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; i < sweep->refold_count; i++)
        sweep->refolds[i].indices = sweep->places + sweep->refold_begin[i];
    sweep->inner_digests += vtree_pages_refold(sweep->refolds, sweep->refold_count);
    for (size_t i = 0; i < sweep->refold_count; i++) {
        vmap_node node = vtree_page_node(sweep->refolds[i].page);
        vtree_cache_expect(sweep->reader->store->cache, sweep->level, &node.digest);
    }
    for (size_t i = 0; i < sweep->refold_count; i++) {
        if (code == KV_OK)
            code = sweep_list_page(sweep, sweep->refolds[i].page,
                                   vtree_page_key(sweep->refolds[i].page, 0), status);
        else
            vtree_page_release(sweep->refolds[i].page);
    }
    sweep->refold_count = 0;
    return code;
}

kv_code sweep_close_page(struct sweep *sweep, kv_status *status)
{
    if (sweep->open.count == 0)
        return KV_OK;
    kv_code code = sweep_finish_refolds(sweep, status);
    struct vtree_page *page = NULL;
    if (code == KV_OK)
        page =
            vtree_page_make(sweep->level, &sweep->open, sweep->open_old, &sweep->inner_digests);
    if (code == KV_OK)
        code = page != NULL ? sweep_list_page(sweep, page, vtree_page_key(page, 0), status)
                            : no_memory(status);
    if (sweep->level == 0 && sweep->open.count > sweep->longest)
        sweep->longest = sweep->open.count;
    sweep->open.count = 0;
    sweep->open_old = NULL;
    return code;
}

/* Append an entry to the open page; a cut comes before it if it must. */
static kv_code append(struct sweep *sweep, kv_slice key, const vmap_node *node, bool may_cut,
                      kv_status *status)
{
    if (may_cut && sweep->open.count > 0) {
        sweep->rank_digests++;
        if (vmap_rank(key, sweep->top->page_bits) > sweep->level) {
            kv_code code = sweep_close_page(sweep, status);
            if (code != KV_OK)
                return code;
        }
    }
    return vtree_entries_add(&sweep->open, key, node) ? KV_OK : no_memory(status);
}

kv_code sweep_meet(struct sweep *sweep, struct vtree_edit *edit, const vmap_node *entry,
                   kv_status *status)
{
    edit->existed = entry != NULL;
    if (entry != NULL)
        edit->old = *entry;
    if (sweep->level > 0)
        return KV_OK;
    if (!sweep->want_old_values || !edit->existed || vtree_edit_is_idle(edit))
        return KV_OK;
    kv_code code =
        vtree_reader_get(sweep->reader, sweep->top->map, edit->key, &edit->old_value, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_CORRUPT, "a key of map number %u has lost its value",
                       sweep->top->map);
    return code;
}

static kv_code insert(struct sweep *sweep, struct vtree_edit *edit, kv_status *status)
{
    kv_code code = sweep_meet(sweep, edit, NULL, status);
    if (code != KV_OK || !edit->present)
        return code;
    return append(sweep, edit->key, &edit->node, true, status);
}

/* Whether all edits give entries of the page other nodes, and no more: then it
 * keeps its shape. Their places go behind those in sweep->places. */
static bool only_replaces(struct sweep *sweep, const struct sweep_item *item,
                          const struct vtree_edit *edits)
{
    void *grown = sweep->places;
    size_t count = item->end - item->begin;
    if (sweep->refold_count == 0)
        sweep->place_count = 0;
    if (count == 0 || !vtree_grow(&grown, &sweep->place_capacity, sweep->place_count + count,
                                  sizeof(*sweep->places)))
        return false;
    sweep->places = grown;
    for (size_t i = item->begin; i < item->end; i++) {
        bool exact;
        size_t place = vtree_page_find(item->page, edits[i].key, &exact);
        if (!exact || !edits[i].present)
            return false;
        sweep->places[sweep->place_count + i - item->begin] = (uint32_t)place;
    }
    return true;
}

bool sweep_let_go(const struct sweep *sweep, const struct sweep_item *item)
{
    if (sweep->exclusive && vtree_cache_claim(sweep->reader->store->cache, item->page))
        return true;
    vtree_cache_retire(sweep->reader->store->cache, sweep->level, &item->node.digest);
    return false;
}

/* The item's page to change: itself, or a copy. NULL: out of memory. */
static struct vtree_page *own_page(const struct sweep *sweep, const struct sweep_item *item)
{
    return sweep_let_go(sweep, item) ? vtree_page_hold(item->page)
                                     : vtree_page_copy(item->page);
}

static kv_code replace_entries(struct sweep *sweep, const struct sweep_item *item,
                               struct vtree_edit *edits, kv_status *status)
{
    size_t count = item->end - item->begin;
    const uint32_t *places = sweep->places + sweep->place_count;
    kv_code code = sweep_close_page(sweep, status);
    for (size_t i = 0; code == KV_OK && i < count; i++) {
        vmap_node old = vtree_page_entry(item->page, places[i]);
        code = sweep_meet(sweep, &edits[item->begin + i], &old, status);
    }
    if (code != KV_OK)
        return code;
    struct vtree_page *page = own_page(sweep, item);
    if (page == NULL)
        return no_memory(status);
    for (size_t i = 0; i < count; i++)
        vtree_page_set(page, places[i], &edits[item->begin + i].node);
    sweep->refolds[sweep->refold_count] = (struct vtree_refold){ .page = page, .count = count };
    sweep->refold_begin[sweep->refold_count++] = sweep->place_count;
    sweep->place_count += count;
    return sweep->refold_count == SWEEP_REFOLDS ? sweep_finish_refolds(sweep, status) : KV_OK;
}

/* Merge a page's entries with its edits into the open page. */
static kv_code merge_entries(struct sweep *sweep, const struct sweep_item *item,
                             struct vtree_edit *edits, bool *reshaped, kv_status *status)
{
    const struct vtree_page *page = item->page;
    size_t edit = item->begin;
    kv_code code = item->join ? KV_OK : sweep_close_page(sweep, status);
    for (size_t i = 0; code == KV_OK && i < page->count; i++) {
        kv_slice key = vtree_page_key(page, i);
        int order = -1;
        while (code == KV_OK && edit < item->end &&
               (order = kv_compare(edits[edit].key, key)) < 0) {
            *reshaped = true;
            code = insert(sweep, &edits[edit++], status);
        }
        if (code != KV_OK)
            break;
        vmap_node node = vtree_page_entry(page, i);
        if (edit < item->end && order == 0) {
            struct vtree_edit *here = &edits[edit++];
            code = sweep_meet(sweep, here, &node, status);
            if (!here->present) {
                *reshaped = true;
                continue;
            }
            node = here->node;
        }
        if (code != KV_OK)
            break;
        if (i == 0 && sweep->open.count == 0)
            sweep->open_old = page;
        code = append(sweep, key, &node, i == 0 && item->leftmost, status);
    }
    for (; code == KV_OK && edit < item->end; edit++) {
        *reshaped = true;
        code = insert(sweep, &edits[edit], status);
    }
    return code;
}

/* What a level-0 page's edits come to, in sweep->changes; answers their number. 0: they may
 * make pages, or leave none, or are not worth it. */
static size_t gather_changes(struct sweep *sweep, const struct sweep_item *item,
                             const struct vtree_edit *edits)
{
    const struct vtree_page *page = item->page;
    size_t count = 0, deletes = 0;
    void *grown = sweep->changes;
    if (sweep->level > 0 || page->key_size == 0 ||
        !vtree_grow(&grown, &sweep->change_capacity, item->end - item->begin,
                    sizeof(*sweep->changes)))
        return 0;
    sweep->changes = grown;
    for (size_t i = item->begin; i < item->end; i++) {
        bool exact;
        size_t place = vtree_page_find(page, edits[i].key, &exact);
        struct vtree_page_change change = { PAGE_REPLACE, (uint32_t)place, edits[i].key,
                                            &edits[i].node };
        if (!exact && !edits[i].present)
            continue;
        if (!exact) {
            sweep->rank_digests++;
            if (place == 0 || !vtree_page_takes(page, edits[i].key) ||
                vmap_rank(edits[i].key, sweep->top->page_bits) > 0)
                return 0;
            change.what = PAGE_INSERT;
        } else if (!edits[i].present) {
            change.what = PAGE_DELETE;
            deletes++;
        }
        sweep->changes[count++] = change;
    }
    return deletes < page->count ? count : 0;
}

/* Make a level-0 page anew with the changes that were gathered. */
static kv_code change_page(struct sweep *sweep, struct sweep_item *item,
                           struct vtree_edit *edits, size_t count, kv_status *status)
{
    kv_code code = sweep_close_page(sweep, status);
    size_t next = 0;
    for (size_t i = item->begin; code == KV_OK && i < item->end; i++) {
        /* The gathered changes keep the edits' order, but lack the idle ones. */
        const struct vtree_page_change *change = &sweep->changes[next];
        bool gathered = next < count && change->node == &edits[i].node;
        bool met = gathered && change->what != PAGE_INSERT;
        vmap_node old = vtree_page_entry(item->page, met ? change->index : 0);
        code = sweep_meet(sweep, &edits[i], met ? &old : NULL, status);
        next += gathered;
    }
    if (code != KV_OK)
        return code;
    struct vtree_page *page =
        vtree_page_change(item->page, sweep->changes, count, &sweep->inner_digests);
    if (page == NULL)
        return no_memory(status);
    if (sweep_let_go(sweep, item)) {
        /* The next one is made where this one was, which the processor has at hand. */
        vtree_page_release(item->page);
        item->page = NULL;
    }
    if (page->count > sweep->longest)
        sweep->longest = page->count;
    /* It is folded already, but has its place behind those that are not. */
    if (sweep->refold_count == 0)
        sweep->place_count = 0;
    sweep->refolds[sweep->refold_count] = (struct vtree_refold){ .page = page };
    sweep->refold_begin[sweep->refold_count++] = sweep->place_count;
    return sweep->refold_count == SWEEP_REFOLDS ? sweep_finish_refolds(sweep, status) : KV_OK;
}

static kv_code sweep_item(struct sweep *sweep, struct sweep_item *item, bool joined,
                          struct vtree_edit *edits, kv_status *status)
{
    bool reshaped = false, alone = !joined && !item->join;
    if (!note_page(sweep, &sweep->consumed, item->first, &item->node))
        return no_memory(status);
    sweep->consumed_count++;
    if (vtree_page_is_brief(item->page)) {
        kv_code code = alone && item->end > item->begin
                           ? sweep_brief(sweep, item, edits, status)
                           : KV_NOT_FOUND;
        if (code != KV_NOT_FOUND)
            return code;
        vtree_page_release(item->page);
        code = vtree_reader_page(sweep->reader, sweep->top, sweep->level, item->first,
                                 &item->node, &item->page, status);
        if (code != KV_OK)
            return code;
    }
    if (alone && only_replaces(sweep, item, edits))
        return replace_entries(sweep, item, edits, status);
    size_t changes = alone ? gather_changes(sweep, item, edits) : 0;
    if (changes > 0)
        return change_page(sweep, item, edits, changes, status);
    sweep_let_go(sweep, item);
    kv_code code = merge_entries(sweep, item, edits, &reshaped, status);
    if (code == KV_OK && sweep->level == 1 && reshaped &&
        !note_page(sweep, &sweep->dropped, item->first, &item->node))
        code = no_memory(status);
    return code;
}

static bool push_edit(struct sweep_edits *edits, const struct vtree_edit *edit)
{
    void *grown = edits->edits;
    if (!vtree_grow(&grown, &edits->capacity, edits->count + 1, sizeof(*edits->edits)))
        return false;
    edits->edits = grown;
    edits->edits[edits->count++] = *edit;
    return true;
}

/* What was consumed and what was made, held against each other. */
static kv_code compare_pages(struct sweep *sweep, kv_status *status)
{
    const struct vtree_entries *consumed = &sweep->consumed, *made = &sweep->made;
    size_t i = 0, j = 0;
    while (i < consumed->count || j < made->count) {
        int order = i == consumed->count ? 1
                    : j == made->count   ? -1
                                         : kv_compare(consumed->keys[i], made->keys[j]);
        struct vtree_edit edit = { .key = order <= 0 ? consumed->keys[i] : made->keys[j],
                                   .existed = order <= 0,
                                   .present = order >= 0 };
        if (edit.existed)
            edit.old = consumed->nodes[i++];
        if (edit.present)
            edit.node = made->nodes[j++];
        if (vtree_edit_is_idle(&edit))
            continue;
        if (!push_edit(&sweep->out, &edit))
            return no_memory(status);
    }
    return KV_OK;
}

void sweep_leaves(struct vtree_edit *edits, size_t count, uint64_t *computed)
{
    enum { GROUP = 64 };
    kv_slice keys[GROUP], values[GROUP];
    vmap_node nodes[GROUP];
    for (size_t begin = 0; begin < count;) {
        size_t end = begin, gathered = 0;
        for (; end < count && gathered < GROUP; end++) {
            if (!edits[end].present)
                continue;
            keys[gathered] = edits[end].key;
            values[gathered++] = edits[end].change->value;
        }
        vmap_leaves(keys, values, nodes, gathered);
        *computed += gathered;
        for (size_t i = begin, next = 0; i < end; i++) {
            if (edits[i].present)
                edits[i].node = nodes[next++];
        }
        begin = end;
    }
}

/* Have what these items need come from memory side by side, not one after the other. */
static void fetch(const struct sweep_item *items, size_t count, const struct vtree_edit *edits)
{
    for (size_t i = 0; i < count; i++) {
        if (!vtree_page_is_brief(items[i].page))
            vtree_page_prefetch(items[i].page);
    }
    for (size_t i = 0; i < count; i++) {
        if (vtree_page_is_brief(items[i].page))
            continue;
        for (size_t edit = items[i].begin; edit < items[i].end; edit++)
            vtree_page_prefetch_entry(items[i].page, edits[edit].key);
    }
}

kv_code sweep_run(struct sweep *sweep, struct sweep_item *items, size_t item_count,
                  struct vtree_edit *edits, size_t edit_count, kv_status *status)
{
    kv_code code = KV_OK;
    for (size_t i = 0; code == KV_OK && i < item_count; i++) {
        if (i % FETCHED_TOGETHER == 0)
            fetch(items + i,
                  item_count - i < FETCHED_TOGETHER ? item_count - i : FETCHED_TOGETHER, edits);
        code = sweep_item(sweep, &items[i], i + 1 < item_count && items[i + 1].join, edits,
                          status);
    }
    for (size_t i = 0; item_count == 0 && code == KV_OK && i < edit_count; i++)
        code = insert(sweep, &edits[i], status);
    if (code == KV_OK)
        code = sweep_close_page(sweep, status);
    if (code == KV_OK)
        code = sweep_finish_refolds(sweep, status);
    if (code == KV_OK)
        code = compare_pages(sweep, status);
    return code;
}

void sweep_clear(struct sweep *sweep)
{
    vtree_entries_clear(&sweep->open);
    vtree_entries_clear(&sweep->consumed);
    vtree_entries_clear(&sweep->made);
    vtree_entries_clear(&sweep->dropped);
    vtree_entries_clear(&sweep->tail);
    for (size_t i = 0; i < sweep->refold_count; i++)
        vtree_page_release(sweep->refolds[i].page);
    free(sweep->places);
    free(sweep->changes);
}
