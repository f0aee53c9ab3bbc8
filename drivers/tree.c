/* tree.c - records, spaces, gets and changes of the copy-on-write tree. */
#include "drivers/tree_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- Items ----------------------------------------------------------------- */

static size_t record_bytes(size_t key_size, size_t value_size)
{
    return offsetof(struct tree_record, bytes) + key_size + value_size;
}

static size_t roots_bytes(unsigned count)
{
    return sizeof(struct tree_roots) + count * sizeof(tree_slot);
}

size_t tree_item_bytes(const struct tree_item *item)
{
    switch ((enum tree_kind)item->kind) {
    case TREE_RECORD:
        return record_bytes(item->size, ((const struct tree_record *)item)->value_size);
    case TREE_NODE:
        return tree_node_bytes(item->level, ((const struct tree_node *)item)->capacity);
    case TREE_ROOTS:
        return roots_bytes(item->size);
    }
    return 0;
}

struct tree_record *tree_record_new(kv_slice key, kv_slice value)
{
    struct tree_record *record = malloc(record_bytes(key.size, value.size));
    if (record == NULL)
        return NULL;
    record->item = (struct tree_item){ .kind = TREE_RECORD, .size = (uint16_t)key.size };
    atomic_init(&record->item.refs, 1);
    record->value_size = (uint32_t)value.size;
    if (key.size > 0)
        memcpy(record->bytes, key.data, key.size);
    if (value.size > 0)
        memcpy(record->bytes + key.size, value.data, value.size);
    return record;
}

struct tree_record *tree_record_take(struct tree_record *record)
{
    atomic_fetch_add_explicit(&record->item.refs, 1, memory_order_relaxed);
    return record;
}

void tree_record_release(struct tree_record *record)
{
    if (record != NULL &&
        atomic_fetch_sub_explicit(&record->item.refs, 1, memory_order_acq_rel) == 1)
        free(record);
}

static void record_return(kv_value *value)
{
    tree_record_release(value->owner);
}

void tree_record_lend(struct tree_record *record, kv_value *out)
{
    out->bytes = tree_record_value(record);
    out->release = record_return;
    out->owner = record;
}

void tree_item_free(struct tree *tree, struct tree_item *item)
{
    (void)tree;
    if (item->kind == TREE_RECORD)
        tree_record_release((struct tree_record *)item);
    else
        free(item);
}

static void made(struct tree *tree, const struct tree_item *item)
{
    uint64_t bytes = atomic_load_explicit(&tree->bytes_made, memory_order_relaxed);
    atomic_store_explicit(&tree->bytes_made, bytes + tree_item_bytes(item),
                          memory_order_relaxed);
}

/* Free what the write being made has made itself. */
static void unmake(struct tree *tree, struct tree_item *item)
{
    uint64_t bytes = atomic_load_explicit(&tree->bytes_made, memory_order_relaxed);
    atomic_store_explicit(&tree->bytes_made, bytes - tree_item_bytes(item),
                          memory_order_relaxed);
    tree_item_free(tree, item);
}

/* The tree lets go of an item. */
static void retire(struct tree *tree, struct tree_item *item)
{
    if (item->birth == tree->now)
        unmake(tree, item);
    else
        tree_chain_push(&tree->dead, item);
}

static struct tree_roots *roots_now(const struct tree *tree)
{
    return (struct tree_roots *)tree_slot_load(&tree->roots);
}

static struct tree_roots *roots_copy(struct tree *tree, const struct tree_roots *from,
                                     unsigned count)
{
    struct tree_roots *roots = malloc(roots_bytes(count));
    if (roots == NULL)
        return NULL;
    roots->item =
        (struct tree_item){ .birth = tree->now, .kind = TREE_ROOTS, .size = (uint16_t)count };
    for (unsigned i = 0; i < count; i++)
        atomic_init(&roots->root[i], from != NULL && i < from->item.size
                                         ? tree_slot_load(&from->root[i])
                                         : NULL);
    made(tree, &roots->item);
    return roots;
}

static struct tree_node *node_alloc(unsigned level, unsigned capacity)
{
    struct tree_node *node = malloc(tree_node_bytes(level, capacity));
    if (node == NULL)
        return NULL;
    node->item = (struct tree_item){ .kind = TREE_NODE, .level = (uint8_t)level };
    node->capacity = (uint16_t)capacity;
    node->skip = 0;
    node->unused = 0;
    return node;
}

/* An empty node with room for `count` entries and, in a draft, for some more.
 * Never fails: see reserve_fill. */
static struct tree_node *node_new(struct tree *tree, unsigned level, unsigned count)
{
    unsigned capacity = count;
    if (tree->draft != NULL)
        capacity = count + 8 < TREE_FAN ? count + 8 : TREE_FAN;
    struct tree_node *node = node_alloc(level, capacity);
    if (node == NULL) {
        node = (struct tree_node *)tree->reserve;
        assert(node != NULL);
        tree->reserve = node->item.next;
        tree->reserved--;
        node->item = (struct tree_item){ .kind = TREE_NODE, .level = (uint8_t)level };
        /* It keeps the size of an inner node: a leaf of that has more room. */
        node->capacity = level == 0 ? TREE_FAN * 3 / 2 : TREE_FAN;
    }
    node->item.birth = tree->now;
    made(tree, &node->item);
    return node;
}

/* Have enough nodes at hand that a change cannot run out of memory half way. */
static kv_code reserve_fill(struct tree *tree, kv_status *status)
{
    while (tree->reserved < TREE_RESERVE) {
        struct tree_node *node = node_alloc(1, TREE_FAN);
        if (node == NULL)
            return kv_fail(status, KV_NO_MEMORY, "out of memory for the tree's nodes");
        node->item.next = tree->reserve;
        tree->reserve = &node->item;
        tree->reserved++;
    }
    return KV_OK;
}

/* Let go of all below and including `item` that the write being made has made. */
static void discard(struct tree *tree, struct tree_item *item)
{
    if (item == NULL || item->birth != tree->now)
        return;
    if (item->kind == TREE_ROOTS) {
        struct tree_roots *roots = (struct tree_roots *)item;
        for (unsigned i = 0; i < item->size; i++)
            discard(tree, tree_slot_load(&roots->root[i]));
    } else if (item->kind == TREE_NODE) {
        struct tree_node *node = (struct tree_node *)item;
        for (unsigned i = 0; i < item->size; i++) {
            discard(tree, (struct tree_item *)tree_node_key(node, i));
            if (item->level > 0)
                discard(tree, (struct tree_item *)tree_node_child(node, i));
        }
    }
    unmake(tree, item);
}

/* Let go of all below and including `item`. */
static uint64_t retire_all(struct tree *tree, struct tree_item *item)
{
    uint64_t records = 0;
    if (item == NULL)
        return 0;
    struct tree_node *node = (struct tree_node *)item;
    for (unsigned i = 0; i < item->size; i++) {
        struct tree_item *key = (struct tree_item *)tree_node_key(node, i);
        if (key != NULL)
            retire(tree, key);
        if (item->level > 0)
            records += retire_all(tree, (struct tree_item *)tree_node_child(node, i));
        else
            records++;
    }
    retire(tree, item);
    return records;
}

/* ---- Changing -------------------------------------------------------------- */

/* The way from a root to an entry of a leaf. */
struct way {
    unsigned depth; /* of `at`; the leaf is the last */
    struct {
        struct tree_node *node;
        unsigned index;
        bool rightmost; /* nothing in the space lies right of the node */
    } at[TREE_HEIGHT_MAX];
    bool found;
};

static void way_find(struct way *way, struct tree_node *root, kv_slice key)
{
    bool rightmost = true;
    struct tree_node *node = root;
    way->depth = 0;
    for (;;) {
        assert(way->depth < TREE_HEIGHT_MAX);
        unsigned index = node->item.level > 0 ? tree_node_route(node, key)
                                              : tree_node_find(node, key, &way->found);
        way->at[way->depth].node = node;
        way->at[way->depth].index = index;
        way->at[way->depth].rightmost = rightmost;
        way->depth++;
        if (node->item.level == 0)
            return;
        rightmost = rightmost && index + 1u == node->item.size;
        node = tree_node_child(node, index);
    }
}

/* Where the write being made finds the roots. */
static struct tree_roots *roots_here(const struct tree *tree)
{
    return tree->draft != NULL ? tree->draft : roots_now(tree);
}

/* Store in a slot of a node the write may edit: at once in a draft, which
 * nobody sees, and else when the change is published, by this store alone. */
static void slot_store(struct tree *tree, tree_slot *slot, struct tree_item *value)
{
    if (tree->draft != NULL) {
        atomic_store_explicit(slot, value, memory_order_relaxed);
        return;
    }
    tree->slot = slot;
    tree->value = value;
}

static void root_store(struct tree *tree, uint32_t space, struct tree_item *root,
                       struct tree_roots *spare)
{
    struct tree_roots *roots = roots_here(tree);
    if (roots->item.birth > tree->floor) {
        slot_store(tree, &roots->root[space], root);
        return;
    }
    assert(spare != NULL);
    atomic_store_explicit(&spare->root[space], root, memory_order_relaxed);
    slot_store(tree, &tree->roots, &spare->item);
    retire(tree, &roots->item);
}

/* A key that parts `left` from `right`: the shortest that does. */
static struct tree_record *parting_new(struct tree *tree, const struct tree_record *left,
                                       const struct tree_record *right)
{
    size_t size = 0;
    while (size < left->item.size && left->bytes[size] == right->bytes[size])
        size++;
    struct tree_record *key =
        tree_record_new(kv_bytes(right->bytes, size + 1), kv_bytes(NULL, 0));
    if (key != NULL) {
        key->item.birth = tree->now;
        made(tree, &key->item);
    }
    return key;
}

/*
 * Replace `remove` entries of `old` from `at` by `add`. Gives the nodes that take
 * its place: none, one (perhaps `old`, edited), or two with the key that parts
 * them. Nothing has changed when it answers false: out of memory.
 */
static bool edit(struct tree *tree, struct tree_node *old, unsigned at, unsigned remove,
                 const struct tree_entry *add, unsigned add_count, bool rightmost,
                 struct tree_entry out[2], unsigned *out_count)
{
    unsigned level = old->item.level;
    unsigned total = old->item.size - remove + add_count;
    if (total <= TREE_FAN) {
        *out_count = total > 0 ? 1 : 0;
        if (total == 0) {
            retire(tree, &old->item);
            return true;
        }
        struct tree_node *node = old;
        if (old->item.birth != tree->now || total > old->capacity)
            node = node_new(tree, level, total);
        tree_node_compose(node, old, at, remove, add, add_count);
        if (node != old)
            retire(tree, &old->item);
        out[0] = (struct tree_entry){ NULL, node };
        return true;
    }

    struct tree_node *both = tree->scratch;
    both->item.level = (uint8_t)level;
    tree_node_compose(both, old, at, remove, add, add_count);
    /* Keys that arrive in order leave full nodes behind. */
    unsigned middle = total / 2;
    if (rightmost && at + remove == old->item.size)
        middle = total - (level > 0 ? 2 : 1);
    struct tree_record *parting = tree_node_key(both, middle);
    if (level == 0)
        parting = parting_new(tree, tree_node_key(both, middle - 1), parting);
    if (parting == NULL)
        return false;

    for (unsigned i = 0; i < 2; i++) {
        unsigned begin = i == 0 ? 0 : middle;
        unsigned end = i == 0 ? middle : total;
        struct tree_node *node = node_new(tree, level, end - begin);
        tree_node_slice(node, both, begin, end);
        out[i] = (struct tree_entry){ i == 0 ? NULL : parting, node };
    }
    *out_count = 2;
    retire(tree, &old->item);
    return true;
}

/* Join a node grown small with the one beside it, if both fit well in one.
 * Widens what is to be replaced in their parent. */
static void join(struct tree *tree, const struct tree_node *parent, unsigned *at,
                 unsigned *remove, struct tree_entry *small)
{
    assert(small->child != NULL);
    if (small->child->item.size >= TREE_FAN / 4 || parent->item.size < 2)
        return;
    unsigned beside = *at > 0 ? *at - 1 : 1;
    struct tree_node *other = tree_node_child(parent, beside);
    unsigned total = (unsigned)small->child->item.size + other->item.size;
    if (total > TREE_FAN * 3 / 4)
        return;

    struct tree_node *left = beside < *at ? other : small->child;
    struct tree_node *right = beside < *at ? small->child : other;
    unsigned right_at = beside < *at ? *at : beside;
    struct tree_record *parting = tree_node_key(parent, right_at);
    struct tree_node *node = node_new(tree, left->item.level, total);
    tree_node_append(node, left, NULL);
    tree_node_append(node, right, parting);
    if (node->item.level == 0)
        retire(tree, &parting->item);
    retire(tree, &left->item);
    retire(tree, &right->item);
    small->child = node;
    *at = right_at - 1;
    *remove = 2;
}

/* The root of a space is now out[0], or none, or one above two. */
static void climb_out(struct tree *tree, uint32_t space, const struct tree_node *was,
                      struct tree_entry out[2], unsigned count, struct tree_roots *spare)
{
    struct tree_node *root = count > 0 ? out[0].child : NULL;
    if (count == 2) {
        root = node_new(tree, out[0].child->item.level + 1u, 2);
        root->item.size = 0;
        tree_node_compose(root, root, 0, 0, out, 2);
    }
    while (root != NULL && root->item.level > 0 && root->item.size == 1) {
        struct tree_node *only = tree_node_child(root, 0);
        retire(tree, &root->item);
        root = only;
    }
    if (root != was)
        root_store(tree, space, root == NULL ? NULL : &root->item, spare);
}

/*
 * Carry a change of a leaf upwards: out[0..count) stand in the place of the node
 * at `way->depth`. Ends at the lowest node that may be edited where it stands.
 * Never fails: an inner node parts at a key it has.
 */
static void climb(struct tree *tree, uint32_t space, struct way *way, struct tree_entry out[2],
                  unsigned count, struct tree_roots *spare)
{
    struct tree_node *below = way->at[way->depth - 1].node;
    for (unsigned depth = way->depth - 1; depth-- > 0;) {
        struct tree_node *parent = way->at[depth].node;
        unsigned at = way->at[depth].index;
        unsigned remove = 1;
        if (count == 1)
            join(tree, parent, &at, &remove, &out[0]);
        if (count == 1 && remove == 1) {
            if (out[0].child == below)
                return;
            if (parent->item.birth > tree->floor) {
                slot_store(tree, tree_node_child_slot(parent, at), &out[0].child->item);
                return;
            }
        }
        struct tree_entry add[2] = { out[0], out[1] };
        struct tree_record *first = tree_node_key(parent, at);
        struct tree_record *dropped = NULL;
        if (count > 0)
            add[0].key = first;
        else if (at > 0)
            dropped = first;
        else if (parent->item.size > 1)
            dropped = tree_node_key(parent, 1); /* the new first has no key */
        if (dropped != NULL)
            retire(tree, &dropped->item);
        if (!edit(tree, parent, at, remove, add, count, way->at[depth].rightmost, out, &count))
            abort();
        below = parent;
    }
    climb_out(tree, space, way->at[0].node, out, count, spare);
}

/* Change the leaf the way leads to: put `record` there, or delete what was found.
 * Nothing has changed when it answers false: out of memory. */
static bool change_leaf(struct tree *tree, uint32_t space, struct way *way,
                        struct tree_record *record, struct tree_roots *spare)
{
    struct tree_node *leaf = way->at[way->depth - 1].node;
    unsigned at = way->at[way->depth - 1].index;
    struct tree_record *old = way->found ? tree_node_key(leaf, at) : NULL;
    struct tree_entry out[2] = { { record, NULL }, { NULL, NULL } };
    unsigned count = record != NULL;
    if (old != NULL && record != NULL && leaf->item.birth > tree->floor) {
        slot_store(tree, tree_node_key_slot(leaf, at), &record->item);
    } else {
        if (!edit(tree, leaf, at, old != NULL, out, count, way->at[way->depth - 1].rightmost,
                  out, &count))
            return false;
        climb(tree, space, way, out, count, spare);
    }
    if (old != NULL)
        retire(tree, &old->item);
    tree->keys_added += (record != NULL) - (old != NULL);
    return true;
}

static void plant(struct tree *tree, uint32_t space, struct tree_record *record,
                  struct tree_roots *spare)
{
    struct tree_entry entry = { record, NULL };
    struct tree_node *leaf = node_new(tree, 0, 1);
    tree_node_compose(leaf, leaf, 0, 0, &entry, 1);
    root_store(tree, space, &leaf->item, spare);
    tree->keys_added++;
}

/* Put `record`, whose reference the tree takes, or delete `key`. Nothing has
 * changed when this fails. */
static kv_code change(struct tree *tree, uint32_t space, kv_slice key,
                      struct tree_record *record, kv_status *status)
{
    struct tree_roots *roots = roots_here(tree);
    struct tree_node *root = (struct tree_node *)tree_slot_load(&roots->root[space]);
    struct way way;
    way.found = false;
    kv_code code = reserve_fill(tree, status);
    if (code != KV_OK)
        return code;
    if (root != NULL)
        way_find(&way, root, key);
    if (record == NULL && !way.found)
        return KV_OK;

    struct tree_roots *spare = NULL;
    if (roots->item.birth <= tree->floor) {
        spare = roots_copy(tree, roots, roots->item.size);
        if (spare == NULL)
            return kv_fail(status, KV_NO_MEMORY, "out of memory for the tree's roots");
    }
    if (record != NULL)
        record->item.birth = tree->now;
    if (root == NULL)
        plant(tree, space, record, spare);
    else if (!change_leaf(tree, space, &way, record, spare)) {
        if (spare != NULL)
            unmake(tree, &spare->item);
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a key of the tree");
    }
    if (record != NULL)
        made(tree, &record->item);
    return KV_OK;
}

/* ---- One change ------------------------------------------------------------ */

static kv_code change_one(struct tree *tree, uint32_t space, kv_slice key,
                          struct tree_record *record, kv_status *status)
{
    kv_code code;
    pthread_mutex_lock(&tree->writer);
    for (;;) {
        tree->now = tree->version + 1; /* it changes under both locks only */
        tree->floor = atomic_load_explicit(&tree->newest_version, memory_order_relaxed);
        tree->slot = NULL;
        tree->value = NULL;
        code = change(tree, space, key, record, status);
        if (code != KV_OK || tree->slot == NULL || tree_publish(tree, false))
            break;
        /* A moment was taken meanwhile, and may see what was to be edited. */
        if (record != NULL)
            tree_record_take(record);
        discard(tree, tree->value);
        tree->dead = (struct tree_chain){ NULL, NULL, 0 };
        tree->keys_added = 0;
    }
    pthread_mutex_unlock(&tree->writer);
    return code;
}

kv_code tree_put(struct tree *tree, uint32_t space, struct tree_record *record,
                 kv_status *status)
{
    return change_one(tree, space, tree_record_key(record), record, status);
}

kv_code tree_delete(struct tree *tree, uint32_t space, kv_slice key, kv_status *status)
{
    return change_one(tree, space, key, NULL, status);
}

/* ---- Drafts ---------------------------------------------------------------- */

/* Start a draft of `count` spaces; the writer lock is held. */
static kv_code draft_open(struct tree *tree, unsigned count, kv_status *status)
{
    tree->now = tree->version + 1;
    tree->floor = tree->version;
    tree->draft = roots_copy(tree, roots_now(tree), count);
    if (tree->draft == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for the tree's roots");
    return KV_OK;
}

kv_code tree_draft_begin(struct tree *tree, kv_status *status)
{
    pthread_mutex_lock(&tree->writer);
    kv_code code = draft_open(tree, roots_now(tree)->item.size, status);
    if (code != KV_OK)
        pthread_mutex_unlock(&tree->writer);
    return code;
}

kv_code tree_draft_put(struct tree *tree, uint32_t space, struct tree_record *record,
                       kv_status *status)
{
    kv_code code = change(tree, space, tree_record_key(record), record, status);
    if (code == KV_OK)
        tree_record_take(record);
    return code;
}

kv_code tree_draft_delete(struct tree *tree, uint32_t space, kv_slice key, kv_status *status)
{
    return change(tree, space, key, NULL, status);
}

const struct tree_record *tree_draft_seek(struct tree *tree, uint32_t space, kv_slice key)
{
    struct tree_cursor cursor = { .root = (struct tree_node *)tree_slot_load(
                                      &tree->draft->root[space]) };
    return key.size == 0 ? tree_cursor_first(&cursor) : tree_cursor_seek(&cursor, key);
}

kv_code tree_draft_delete_range(struct tree *tree, uint32_t space, kv_slice first,
                                kv_slice limit, kv_status *status)
{
    const struct tree_record *record;
    while ((record = tree_draft_seek(tree, space, first)) != NULL) {
        kv_slice key = tree_record_key(record);
        if (limit.size > 0 && kv_compare(key, limit) >= 0)
            break;
        kv_code code = change(tree, space, key, NULL, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

void tree_draft_publish(struct tree *tree)
{
    retire(tree, &roots_now(tree)->item);
    tree->slot = &tree->roots;
    tree->value = &tree->draft->item;
    tree->draft = NULL;
    tree_publish(tree, true);
    pthread_mutex_unlock(&tree->writer);
}

void tree_draft_abandon(struct tree *tree)
{
    discard(tree, &tree->draft->item);
    tree->draft = NULL;
    tree->dead = (struct tree_chain){ NULL, NULL, 0 };
    tree->keys_added = 0;
    pthread_mutex_unlock(&tree->writer);
}

/* ---- Spaces ---------------------------------------------------------------- */

/* The index of the space called `name`, or `count`. */
static unsigned name_find(const struct tree *tree, unsigned count, const char *name)
{
    unsigned i = 0;
    while (i < count && (tree->names[i] == NULL || strcmp(tree->names[i], name) != 0))
        i++;
    return i;
}

/* An index for a new space. One that was dropped is used again only when no
 * moment is left that could take the new space for the old one. */
static unsigned index_choose(struct tree *tree, unsigned count)
{
    unsigned i = 0;
    if (atomic_load_explicit(&tree->newest_version, memory_order_relaxed) != 0)
        return count;
    while (i < count && tree->names[i] != NULL)
        i++;
    return i;
}

static kv_code space_make(struct tree *tree, const char *name, unsigned count, uint32_t *out,
                          kv_status *status)
{
    unsigned index = index_choose(tree, count);
    if (index == UINT16_MAX)
        return kv_fail(status, KV_TOO_BIG, "space \"%s\": %u spaces were made already", name,
                       index);
    char *copy = strdup(name);
    char **names = copy == NULL || index < count
                       ? tree->names
                       : realloc(tree->names, (count + 1) * sizeof(*names));
    if (copy == NULL || names == NULL) {
        free(copy);
        return kv_fail(status, KV_NO_MEMORY, "space \"%s\": out of memory", name);
    }
    tree->names = names;
    kv_code code = KV_OK;
    if (index == count) {
        code = draft_open(tree, count + 1, status);
        if (code != KV_OK) {
            free(copy);
            return code;
        }
        retire(tree, &roots_now(tree)->item);
        tree->slot = &tree->roots;
        tree->value = &tree->draft->item;
        tree->draft = NULL;
        tree_publish(tree, true);
    }
    tree->names[index] = copy;
    *out = index;
    return KV_OK;
}

kv_code tree_space_open(struct tree *tree, const char *name, unsigned flags, uint32_t *out,
                        kv_status *status)
{
    kv_code code = KV_OK;
    pthread_mutex_lock(&tree->writer);
    unsigned count = roots_now(tree)->item.size;
    unsigned index = name_find(tree, count, name);
    if (index < count)
        *out = index;
    else if ((flags & KV_CREATE) != 0)
        code = space_make(tree, name, count, out, status);
    else
        code = KV_NOT_FOUND;
    pthread_mutex_unlock(&tree->writer);
    return code;
}

kv_code tree_space_drop(struct tree *tree, uint32_t space, kv_status *status)
{
    kv_code code = tree_draft_begin(tree, status);
    if (code != KV_OK)
        return code;
    struct tree_item *root = tree_slot_load(&tree->draft->root[space]);
    tree->keys_added -= (int64_t)retire_all(tree, root);
    atomic_store_explicit(&tree->draft->root[space], NULL, memory_order_relaxed);
    free(tree->names[space]);
    tree->names[space] = NULL;
    tree_draft_publish(tree);
    return KV_OK;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

kv_code tree_space_list(struct tree *tree, bool (*visit)(void *context, const char *name),
                        void *context, kv_status *status)
{
    pthread_mutex_lock(&tree->writer);
    unsigned count = roots_now(tree)->item.size;
    unsigned named = 0;
    char **names = malloc((count + 1) * sizeof(*names));
    for (unsigned i = 0; names != NULL && i < count; i++)
        if (tree->names[i] != NULL)
            names[named++] = tree->names[i];
    if (names != NULL) {
        qsort(names, named, sizeof(*names), name_order);
        for (unsigned i = 0; i < named && visit(context, names[i]); i++)
            continue;
    }
    pthread_mutex_unlock(&tree->writer);
    kv_code code = names != NULL ? KV_OK : kv_fail(status, KV_NO_MEMORY, "out of memory");
    free(names);
    return code;
}

/* ---- Reading --------------------------------------------------------------- */

/* Ask for all of a node that a search may touch, at once: most of a large tree is in no
 * cache, and the lines would be waited for one after the other. */
static inline void node_prefetch(const struct tree_node *node)
{
    size_t size = offsetof(struct tree_node, head) + TREE_FAN * sizeof(node->head[0]);
    for (size_t at = 0; at < size; at += TREE_CACHE_LINE)
        __builtin_prefetch((const char *)node + at);
}

static struct tree_record *find(const struct tree_roots *roots, uint32_t space, kv_slice key)
{
    if (space >= roots->item.size)
        return NULL;
    struct tree_node *node = (struct tree_node *)tree_slot_load(&roots->root[space]);
    if (node == NULL)
        return NULL;
    while (node->item.level > 0) {
        node = tree_node_child(node, tree_node_route(node, key));
        node_prefetch(node);
    }
    struct tree_record *record = tree_node_get(node, key);
    return record == NULL ? NULL : tree_record_take(record);
}

struct tree_record *tree_get(struct tree *tree, const struct tree_moment *moment,
                             uint32_t space, kv_slice key)
{
    if (moment != NULL)
        return find(moment->roots, space, key);

    _Atomic uint32_t *inside = tree_reader_enter(tree);
    struct tree_record *record = find(roots_now(tree), space, key);
    tree_reader_leave(inside);
    return record;
}

void tree_figures(struct tree *tree, struct tree_figures *out)
{
    tree_limbo_drain(tree);
    uint64_t freed = atomic_load_explicit(&tree->bytes_freed, memory_order_relaxed);
    uint64_t ever = atomic_load_explicit(&tree->bytes_made, memory_order_relaxed);
    out->keys = atomic_load_explicit(&tree->keys, memory_order_relaxed);
    out->bytes = ever - freed;
    out->spaces = 0;
    pthread_mutex_lock(&tree->writer);
    unsigned count = roots_now(tree)->item.size;
    for (unsigned i = 0; i < count; i++)
        out->spaces += tree->names[i] != NULL;
    pthread_mutex_unlock(&tree->writer);
    pthread_mutex_lock(&tree->publish);
    out->moments = tree->moments;
    pthread_mutex_unlock(&tree->publish);
}

/* ---- A tree ---------------------------------------------------------------- */

kv_code tree_new(struct tree **out, kv_status *status)
{
    struct tree *tree = aligned_alloc(_Alignof(struct tree), sizeof(*tree));
    *out = NULL;
    if (tree == NULL)
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a tree");
    memset((void *)tree, 0, sizeof(*tree));
    pthread_mutex_init(&tree->publish, NULL);
    pthread_mutex_init(&tree->writer, NULL);
    atomic_init(&tree->epoch, TREE_EPOCHS);
    tree->version = 1; /* 0 stands for no moment */
    tree->now = 1;
    tree->scratch = node_alloc(1, TREE_FAN * 3 / 2 + 4);
    struct tree_roots *roots = roots_copy(tree, NULL, 0);
    atomic_init(&tree->roots, (struct tree_item *)roots);
    if (tree->scratch == NULL || roots == NULL) {
        tree_free(tree);
        return kv_fail(status, KV_NO_MEMORY, "out of memory for a tree");
    }
    *out = tree;
    return KV_OK;
}

void tree_free(struct tree *tree)
{
    if (tree == NULL)
        return;
    assert(tree->newest == NULL);
    tree->now = UINT64_MAX; /* nothing was born by it */
    struct tree_roots *roots = roots_now(tree);
    if (roots != NULL) {
        for (unsigned i = 0; i < roots->item.size; i++) {
            retire_all(tree, tree_slot_load(&roots->root[i]));
            free(tree->names[i]);
        }
        retire(tree, &roots->item);
    }
    while (tree->dead.head != NULL) {
        struct tree_item *item = tree->dead.head;
        tree->dead.head = item->next;
        tree_item_free(tree, item);
    }
    tree_limbo_drain(tree);
    while (tree->reserve != NULL) {
        struct tree_item *item = tree->reserve;
        tree->reserve = item->next;
        free(item);
    }
    free(tree->names);
    free(tree->scratch);
    pthread_mutex_destroy(&tree->writer);
    pthread_mutex_destroy(&tree->publish);
    free(tree);
}
