/* stage_tree.c - the tree of a map that is built, from the lists of pages that are staged:
 * nothing is hashed again below the pages of leaves. */
#include "reconnect/stage.h"

#include <stdlib.h>

struct tree {
    struct stage *stage;
    const struct stage_goal *goal;
    state_build *build;
    kv_status *status;
};

/* The list of a page, as it was asked for: of the lowest tier that is short enough, or
 * of the next pages. */
static kv_code find_list(const struct tree *tree, unsigned level, const vmap_node *node,
                         unsigned *tier, kv_value *out)
{
    *tier = stage_tier(level, tree->goal->page_bits, node->size);
    kv_code code = stage_get_page(tree->stage, *tier, &node->digest, out, tree->status);
    if (code == KV_NOT_FOUND && *tier != level) {
        *tier = level;
        code = stage_get_page(tree->stage, level, &node->digest, out, tree->status);
    }
    return code == KV_NOT_FOUND ? kv_fail(tree->status, KV_CORRUPT,
                                          "map %s: the list of a page of level %u is lost",
                                          tree->goal->name, level)
                                : code;
}

/* List the pages of leaves under a page, which starts at `first`. */
static kv_code list_pages(const struct tree *tree, unsigned level, kv_slice first,
                          const vmap_node *node)
{
    if (level == 0) {
        kv_code code =
            state_build_page(tree->build, tree->stage->batch, first, node, tree->status);
        return code == KV_OK ? stage_flush_if_full(tree->stage, tree->status) : code;
    }
    kv_value list = KV_VALUE_INIT;
    unsigned tier;
    kv_code code = find_list(tree, level, node, &tier, &list);
    struct wire_key *key = code == KV_OK ? calloc(1, sizeof(*key)) : NULL;
    if (code == KV_OK && key == NULL)
        code = kv_fail(tree->status, KV_NO_MEMORY, "no memory for a list of pages");
    struct wire_in in = wire_in_of(list.bytes);
    uint64_t count = code == KV_OK ? wire_get_number(&in, UINT32_MAX) : 0;
    for (uint64_t i = 0; i < count && code == KV_OK; i++) {
        vmap_node entry;
        if (!wire_get_entry(&in, tier, key, &entry))
            code = kv_fail(tree->status, KV_CORRUPT,
                           "map %s: the list of a page of level %u is damaged",
                           tree->goal->name, level);
        else
            code = list_pages(tree, tier - 1, kv_bytes(key->bytes, key->size), &entry);
    }
    free(key);
    kv_value_release(&list);
    return code;
}

kv_code stage_tree(struct stage *stage, unsigned map, const struct stage_goal *goal,
                   kv_status *status)
{
    struct tree tree = { stage, goal, stage->maps[map].build, status };
    stage->built = true;
    kv_code code = list_pages(&tree, goal->level, kv_bytes(NULL, 0), &goal->node);
    return code == KV_OK ? state_build_take(tree.build, stage->batch, goal->name,
                                            &goal->node.digest, status)
                         : code;
}
