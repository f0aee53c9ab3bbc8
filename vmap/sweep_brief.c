/* sweep_brief.c - apply edits to a page that is there in brief. */
#include "vmap/brief.h"
#include "vmap/sweep.h"

static kv_code no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a commit's pages");
}

/* Give a group of `page` the nodes of its edits, from edits[*edit] on; KV_NOT_FOUND: not all
 * of them replace a value. */
static kv_code replace_in_group(struct sweep *sweep, const struct sweep_item *item,
                                struct vtree_page *page, struct vtree_edit *edits, size_t *edit,
                                kv_status *status)
{
    kv_slice from;
    struct vtree_entries *leaves;
    size_t place = 0, group = vtree_brief_find(page, edits[*edit].key, &from);
    kv_code code = vtree_reader_groups(sweep->reader, sweep->top, page, group, 1,
                                       group == 0 ? item->first : from, &leaves, status);
    if (code != KV_OK)
        return code;
    do {
        struct vtree_edit *here = &edits[*edit];
        int order = -1;
        while (place < leaves->count &&
               (order = kv_compare(leaves->keys[place], here->key)) < 0)
            place++;
        if (order != 0 || !here->present)
            return KV_NOT_FOUND;
        here->old = leaves->nodes[place];
        leaves->nodes[place] = here->node;
        (*edit)++;
    } while (*edit < item->end && vtree_brief_find(page, edits[*edit].key, &from) == group);
    vmap_node node = vmap_fold(leaves->nodes, leaves->count);
    sweep->inner_digests += leaves->count - 1;
    vtree_brief_set(page, group, &node.digest);
    return KV_OK;
}

/* Put a brief page, which is folded, in the place of the item's. */
static kv_code list_brief(struct sweep *sweep, const struct sweep_item *item,
                          struct vtree_page *page, kv_status *status)
{
    kv_code code = sweep_close_page(sweep, status);
    if (code == KV_OK)
        code = sweep_finish_refolds(sweep, status);
    if (code != KV_OK) {
        vtree_page_release(page);
        return code;
    }
    sweep_let_go(sweep, item);
    return sweep_list_page(sweep, page, item->first, status);
}

/* Change values in a page that is there in brief; KV_NOT_FOUND: the edits are not only such.
 */
static kv_code replace_in_brief(struct sweep *sweep, const struct sweep_item *item,
                                struct vtree_edit *edits, kv_status *status)
{
    kv_code code = KV_OK;
    struct vtree_page *page = vtree_page_copy(item->page);
    if (page == NULL)
        return no_memory(status);
    for (size_t edit = item->begin; code == KV_OK && edit < item->end;)
        code = replace_in_group(sweep, item, page, edits, &edit, status);
    for (size_t edit = item->begin; code == KV_OK && edit < item->end; edit++) {
        vmap_node old = edits[edit].old;
        code = sweep_meet(sweep, &edits[edit], &old, status);
    }
    if (code != KV_OK) {
        vtree_page_release(page);
        return code;
    }
    sweep->inner_digests += vtree_brief_refold(page);
    return list_brief(sweep, item, page, status);
}

/* Merge `leaves` with the item's edits into sweep->tail; KV_NOT_FOUND: they may make pages.
 */
static kv_code merge_tail(struct sweep *sweep, const struct sweep_item *item,
                          const struct vtree_entries *leaves, const struct vtree_edit *edits,
                          kv_status *status)
{
    size_t leaf = 0, edit = item->begin;
    sweep->tail.count = 0;
    while (leaf < leaves->count || edit < item->end) {
        int order = leaf == leaves->count ? 1
                    : edit == item->end   ? -1
                                          : kv_compare(leaves->keys[leaf], edits[edit].key);
        const struct vtree_edit *here = order >= 0 ? &edits[edit++] : NULL;
        const vmap_node *old = order <= 0 ? &leaves->nodes[leaf] : NULL;
        kv_slice key = here != NULL ? here->key : leaves->keys[leaf];
        const vmap_node *node = here == NULL ? old : here->present ? &here->node : NULL;
        leaf += order <= 0;
        if (old == NULL && node != NULL) {
            sweep->rank_digests++;
            if (vmap_rank(key, sweep->top->page_bits) > 0)
                return KV_NOT_FOUND;
        }
        if (node != NULL && !vtree_entries_add(&sweep->tail, key, node))
            return no_memory(status);
    }
    return KV_OK;
}

/* Fill in what edits need of the leaves that they meet. */
static kv_code meet_all(struct sweep *sweep, const struct sweep_item *item,
                        const struct vtree_entries *leaves, struct vtree_edit *edits,
                        kv_status *status)
{
    kv_code code = KV_OK;
    size_t leaf = 0;
    for (size_t edit = item->begin; code == KV_OK && edit < item->end; edit++) {
        int order = 1;
        while (leaf < leaves->count &&
               (order = kv_compare(leaves->keys[leaf], edits[edit].key)) < 0)
            leaf++;
        code = sweep_meet(sweep, &edits[edit],
                          leaf < leaves->count && order == 0 ? &leaves->nodes[leaf] : NULL,
                          status);
    }
    return code;
}

/* Let keys come and go in a page that is there in brief, all behind its first group: what is
 * before them is not read. KV_NOT_FOUND: it has to be read whole. */
static kv_code change_brief(struct sweep *sweep, const struct sweep_item *item,
                            struct vtree_edit *edits, kv_status *status)
{
    kv_slice from;
    struct vtree_entries *leaves;
    size_t group = vtree_brief_find(item->page, edits[item->begin].key, &from);
    if (group == 0)
        return KV_NOT_FOUND;
    kv_code code =
        vtree_reader_groups(sweep->reader, sweep->top, item->page, group,
                            vtree_brief_groups(item->page) - group, from, &leaves, status);
    if (code == KV_OK)
        code = merge_tail(sweep, item, leaves, edits, status);
    if (code != KV_OK)
        return code;
    struct vtree_page *page =
        vtree_brief_change(item->page, group, &sweep->tail, &sweep->inner_digests);
    if (page == NULL)
        return KV_NOT_FOUND;
    code = meet_all(sweep, item, leaves, edits, status);
    if (code != KV_OK) {
        vtree_page_release(page);
        return code;
    }
    if (page->count > sweep->longest)
        sweep->longest = page->count;
    return list_brief(sweep, item, page, status);
}

kv_code sweep_brief(struct sweep *sweep, const struct sweep_item *item,
                    struct vtree_edit *edits, kv_status *status)
{
    kv_code code = replace_in_brief(sweep, item, edits, status);
    return code == KV_NOT_FOUND ? change_brief(sweep, item, edits, status) : code;
}
