/* pages.c - pages changed here and there are those that are made from all their entries. */
#include "vmap/brief.h"
#include "vmap/state.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ENTRIES_MAX = 200, KEY_SIZE = 12, ROUNDS = 3000 };

/* What a page should hold: keys that ascend, and their leaves. */
struct leaves {
    size_t count;
    uint8_t keys[ENTRIES_MAX][KEY_SIZE];
    vmap_node nodes[ENTRIES_MAX];
};

static uint64_t seed = 1;

static size_t below(size_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (size_t)(seed >> 33) % limit;
}

static vmap_node any_node(void)
{
    uint64_t value = below(SIZE_MAX);
    return vmap_leaf(kv_text("any"), kv_bytes(&value, sizeof(value)));
}

/* Key `number`, of numbers below 1 << 24; some of them share their first four bytes. */
static void make_key(uint8_t key[KEY_SIZE], size_t number)
{
    memset(key, 'k', KEY_SIZE);
    for (size_t i = 0; i < 6; i++)
        key[4 + i] = (uint8_t)("\0\1\x7f\xff"[(number >> (22 - 4 * i)) & 3]);
    key[10] = (uint8_t)(number >> 8);
    key[11] = (uint8_t)number;
}

static struct vtree_page *page_of(const struct leaves *leaves)
{
    struct vtree_entries entries = { NULL, NULL, 0, 0, 0 };
    uint64_t computed = 0;
    for (size_t i = 0; i < leaves->count; i++)
        cr_assert(vtree_entries_add(&entries, kv_bytes(leaves->keys[i], KEY_SIZE),
                                    &leaves->nodes[i]));
    struct vtree_page *page = vtree_page_make(0, &entries, NULL, &computed);
    cr_assert_not_null(page);
    vtree_entries_clear(&entries);
    return page;
}

static void fill(struct leaves *leaves, size_t count)
{
    leaves->count = count;
    size_t number = below(1000);
    for (size_t i = 0; i < count; i++) {
        number += 1 + below(50000);
        make_key(leaves->keys[i], number);
        leaves->nodes[i] = any_node();
    }
    for (size_t i = 1; i < count; i++) { /* by insertion; equal ones are made unequal */
        for (size_t j = i; j > 0 && memcmp(leaves->keys[j - 1], leaves->keys[j], KEY_SIZE) > 0;
             j--) {
            uint8_t key[KEY_SIZE];
            memcpy(key, leaves->keys[j], KEY_SIZE);
            memcpy(leaves->keys[j], leaves->keys[j - 1], KEY_SIZE);
            memcpy(leaves->keys[j - 1], key, KEY_SIZE);
        }
    }
    size_t kept = 1;
    for (size_t i = 1; i < count; i++) {
        if (memcmp(leaves->keys[i], leaves->keys[kept - 1], KEY_SIZE) != 0)
            memcpy(leaves->keys[kept++], leaves->keys[i], KEY_SIZE);
    }
    leaves->count = kept;
}

static void check_same(const struct vtree_page *page, const struct leaves *leaves)
{
    struct vtree_page *right = page_of(leaves);
    cr_assert_eq(page->count, right->count);
    cr_assert_eq(page->slots, right->slots);
    cr_assert_arr_eq(page->digests, right->digests, page->slots * sizeof(*page->digests));
    for (size_t i = 0; i < leaves->count; i++) {
        bool exact;
        kv_slice key = kv_bytes(leaves->keys[i], KEY_SIZE);
        cr_assert_eq(kv_compare(vtree_page_key(page, i), key), 0);
        cr_assert_eq(vtree_page_find(page, key, &exact), i);
        cr_assert(exact);
        key.size--; /* not there, and less than all keys that begin so */
        size_t first = i;
        while (first > 0 && memcmp(leaves->keys[first - 1], key.data, key.size) == 0)
            first--;
        cr_assert_eq(vtree_page_find(page, key, &exact), first);
        cr_assert(!exact);
    }
    vtree_page_release(right);
}

/* Change what `old` is a page of; answers the page with the same changes made. */
static struct vtree_page *change_some(const struct vtree_page *old, struct leaves *leaves)
{
    static struct leaves changed;
    static struct vtree_page_change changes[ENTRIES_MAX];
    static vmap_node nodes[ENTRIES_MAX];
    static uint8_t keys[ENTRIES_MAX][KEY_SIZE];
    size_t count = 0, share = 1 + below(20);
    uint64_t computed = 0;
    changed.count = 0;
    for (size_t i = 0; i < leaves->count; i++) {
        struct vtree_page_change change = { PAGE_REPLACE, (uint32_t)i, { NULL, 0 }, NULL };
        bool here = below(share) == 0 && (i == 0 || below(4) != 0);
        change.what = below(3) == 0 ? PAGE_DELETE : PAGE_REPLACE;
        memcpy(changed.keys[changed.count], leaves->keys[i], KEY_SIZE);
        if (i > 0 && below(share) == 0 && changed.count + 2 < ENTRIES_MAX) {
            /* A key just below this one, if there is one. */
            memcpy(keys[count], leaves->keys[i], KEY_SIZE);
            if (keys[count][KEY_SIZE - 1]-- > 0 &&
                memcmp(keys[count], leaves->keys[i - 1], KEY_SIZE) > 0 &&
                vtree_page_takes(old, kv_bytes(keys[count], KEY_SIZE))) {
                nodes[count] = any_node();
                memcpy(changed.keys[changed.count], keys[count], KEY_SIZE);
                changed.nodes[changed.count++] = nodes[count];
                changes[count] = (struct vtree_page_change){ PAGE_INSERT, (uint32_t)i,
                                                             kv_bytes(keys[count], KEY_SIZE),
                                                             &nodes[count] };
                count++;
            }
        }
        memcpy(changed.keys[changed.count], leaves->keys[i], KEY_SIZE);
        changed.nodes[changed.count] = leaves->nodes[i];
        if (here && change.what == PAGE_REPLACE)
            changed.nodes[changed.count] = nodes[count] = any_node();
        if (here && change.what == PAGE_REPLACE)
            change.node = &nodes[count];
        if (!here || change.what != PAGE_DELETE)
            changed.count++;
        if (here)
            changes[count++] = change;
    }
    if (count == 0 || changed.count == 0)
        return NULL;
    *leaves = changed;
    struct vtree_page *page = vtree_page_change(old, changes, count, &computed);
    cr_assert_not_null(page);
    return page;
}

Test(pages, changed_are_as_made)
{
    static struct leaves leaves;
    size_t compared = 0;
    for (int round = 0; round < ROUNDS; round++) {
        fill(&leaves, 1 + below(round % 2 == 0 ? 100 : 9));
        struct vtree_page *old = page_of(&leaves);
        check_same(old, &leaves);
        struct vtree_page *page = change_some(old, &leaves);
        if (page != NULL) {
            check_same(page, &leaves);
            compared++;
        }
        vtree_page_release(page);
        vtree_page_release(old);
    }
    cr_assert_gt(compared, ROUNDS / 4);
}

/* Every key finds the group that it is in, and what lies between two keys one beside it. */
static void check_groups(const struct vtree_page *brief, const struct leaves *leaves)
{
    for (size_t i = 0; i < leaves->count; i++) {
        kv_slice from, key = kv_bytes(leaves->keys[i], KEY_SIZE);
        size_t group = vtree_brief_find(brief, key, &from), first = group * BRIEF_GROUP;
        cr_assert_eq(group, i / BRIEF_GROUP);
        cr_assert_leq(kv_compare(from, kv_bytes(leaves->keys[first], KEY_SIZE)), 0);
        if (group > 0)
            cr_assert_gt(kv_compare(from, kv_bytes(leaves->keys[first - 1], KEY_SIZE)), 0);
        vmap_node nodes[BRIEF_GROUP];
        size_t size = vtree_brief_group_size(brief, group);
        memcpy(nodes, leaves->nodes + first, size * sizeof(*nodes));
        cr_assert_arr_eq(vmap_fold(nodes, size).digest.bytes,
                         vtree_brief_group(brief, group)->bytes, VMAP_DIGEST_SIZE);
    }
}

Test(pages, brief_ones_fold_to_the_same)
{
    static struct leaves leaves;
    for (int round = 0; round < ROUNDS; round++) {
        fill(&leaves, 1 + below(ENTRIES_MAX));
        struct vtree_page *page = page_of(&leaves), *brief = vtree_brief_make(page);
        vtree_page_release(page);
        cr_assert_eq(brief != NULL, leaves.count > (BRIEF_GROUPS_MIN - 1) * BRIEF_GROUP);
        if (brief == NULL)
            continue;
        cr_assert(vtree_page_is_brief(brief));
        check_groups(brief, &leaves);
        size_t place = below(leaves.count), group = place / BRIEF_GROUP;
        vmap_node nodes[BRIEF_GROUP];
        leaves.nodes[place] = any_node();
        size_t size = vtree_brief_group_size(brief, group);
        memcpy(nodes, leaves.nodes + group * BRIEF_GROUP, size * sizeof(*nodes));
        vmap_digest digest = vmap_fold(nodes, size).digest;
        vtree_brief_set(brief, group, &digest);
        vtree_brief_refold(brief);
        page = page_of(&leaves);
        vmap_node right = vtree_page_node(page), found = vtree_page_node(brief);
        cr_assert_arr_eq(found.digest.bytes, right.digest.bytes, VMAP_DIGEST_SIZE);
        cr_assert_eq(found.size, right.size);
        cr_assert_eq(found.height, right.height);
        vtree_page_release(page);
        vtree_page_release(brief);
    }
}

Test(pages, lent_ones_help_to_fold)
{
    static struct leaves leaves;
    static vmap_node nodes[ENTRIES_MAX], same[ENTRIES_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        fill(&leaves, 1 + below(ENTRIES_MAX / 2));
        struct vtree_page *page = page_of(&leaves);
        vmap_page lent = { 0, page->count, page };
        struct vtree_page *changed = below(4) > 0 ? change_some(page, &leaves) : NULL;
        vtree_page_release(changed);
        if (below(8) == 0) /* much longer or shorter than the page */
            fill(&leaves, 1 + below(ENTRIES_MAX / 2));
        memcpy(nodes, leaves.nodes, leaves.count * sizeof(*nodes));
        memcpy(same, leaves.nodes, leaves.count * sizeof(*nodes));
        vmap_node right = vmap_fold(nodes, leaves.count);
        vmap_node found = vmap_page_fold(&lent, same, leaves.count);
        cr_assert_arr_eq(found.digest.bytes, right.digest.bytes, VMAP_DIGEST_SIZE);
        cr_assert_eq(found.size, right.size);
        cr_assert_eq(found.height, right.height);
        vmap_page_clear(&lent);
    }
}
