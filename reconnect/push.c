/* push.c - the teacher's side of push and level-by-level. */
#include "reconnect/push.h"

#include <stdlib.h>
#include <string.h>

enum item_status { ITEM_UNKNOWN, ITEM_KNOWN, ITEM_NOT_KNOWN };

/* A page or leaf whose lesson is to be sent. */
struct item {
    struct item *next;   /* in its queue */
    struct item *asked;  /* the next one whose answer is awaited */
    struct item *parent; /* held until its entries are done with */
    uint32_t refs;
    uint32_t map;
    bool leaf;
    uint8_t level;
    enum item_status status;
    size_t key_size;
    uint8_t key[];
};

struct queue {
    struct item *first, **last;
    size_t count;
};

struct push {
    uint32_t *maps; /* to push, by index in the offer */
    size_t map_count, map_at;
    struct queue processing, accumulating;
    struct item *asked_first, **asked_last; /* answers awaited */
    struct item *awaited;                   /* the last item sent before its answer came */
    int64_t wait_begin_us, wake_us;
    struct wire_out key; /* of the page being listed */
};

/* The analyzer does not count references, and takes a child's release of its parent
 * for the last one. NOLINTBEGIN(clang-analyzer-unix.Malloc) */
static void item_release(struct item *item)
{
    while (item != NULL && --item->refs == 0) {
        struct item *parent = item->parent;
        free(item);
        item = parent;
    }
}

static void queue_add(struct queue *queue, struct item *item)
{
    if (queue->last == NULL)
        queue->last = &queue->first;
    item->next = NULL;
    *queue->last = item;
    queue->last = &item->next;
    queue->count++;
}

static struct item *queue_take(struct queue *queue)
{
    struct item *item = queue->first;
    if (item == NULL)
        return NULL;
    queue->first = item->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    queue->count--;
    return item;
}

static void queue_swap(struct push *push)
{
    struct queue from = push->accumulating;
    push->accumulating = (struct queue){ 0 };
    push->processing =
        (struct queue){ from.first, from.count > 0 ? from.last : NULL, from.count };
}

static struct item *item_new(struct item *parent, uint32_t map, bool leaf, unsigned level,
                             kv_slice key)
{
    struct item *item = malloc(sizeof(*item) + key.size);
    if (item == NULL)
        return NULL;
    *item = (struct item){ .parent = parent,
                           .refs = 1,
                           .map = map,
                           .leaf = leaf,
                           .level = (uint8_t)level,
                           .key_size = key.size };
    if (key.size > 0)
        memcpy(item->key, key.data, key.size);
    if (parent != NULL)
        parent->refs++;
    return item;
}

kv_code push_begin(reconnect_link *link, kv_slice body, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    size_t count = (size_t)wire_get_number(&in, link->map_count);
    struct push *push = calloc(1, sizeof(*push));
    uint32_t *maps = calloc(count + 1, sizeof(*maps));
    if (push == NULL || maps == NULL) {
        free(push);
        free(maps);
        return kv_fail(status, KV_NO_MEMORY, "no memory to push");
    }
    for (size_t i = 0; i < count && !in.bad; i++)
        maps[i] = (uint32_t)wire_get_number(&in, link->map_count - 1);
    if (in.bad || in.at != in.end) {
        free(push);
        free(maps);
        return kv_fail(status, KV_UNPROVEN, "BEGIN frame that does not decode");
    }
    push->maps = maps;
    push->map_count = count;
    push->asked_last = &push->asked_first;
    push->wake_us = INT64_MAX;
    link->push = push;
    return KV_OK;
}

void push_free(struct push *push)
{
    if (push == NULL)
        return;
    for (struct item *item; (item = queue_take(&push->processing)) != NULL;)
        item_release(item);
    for (struct item *item; (item = queue_take(&push->accumulating)) != NULL;)
        item_release(item);
    while (push->asked_first != NULL) {
        struct item *item = push->asked_first;
        push->asked_first = item->asked;
        item_release(item);
    }
    item_release(push->awaited);
    wire_out_clear(&push->key);
    free(push->maps);
    free(push);
}

kv_code push_answer(reconnect_link *link, kv_slice body, kv_status *status)
{
    struct push *push = link->push;
    struct wire_in in = wire_in_of(body);
    uint64_t count = wire_get_number(&in, UINT32_MAX);
    const uint8_t *bits = wire_get(&in, (size_t)(count + 7) / 8);
    bool whole = !in.bad && in.at == in.end && count > 0;
    for (uint64_t i = 0; i < count && whole; i++) {
        struct item *item = push->asked_first;
        whole = item != NULL;
        if (!whole)
            break;
        push->asked_first = item->asked;
        if (push->asked_first == NULL)
            push->asked_last = &push->asked_first;
        item->status = (bits[i / 8] >> (i % 8) & 1) != 0 ? ITEM_KNOWN : ITEM_NOT_KNOWN;
        item_release(item);
    }
    return whole ? KV_OK : kv_fail(status, KV_UNPROVEN, "ANSWER frame that answers nothing");
}

/* Whether the learner said that it has the item, or any page above it. */
static bool known(const struct item *item)
{
    for (; item != NULL; item = item->parent)
        if (item->status == ITEM_KNOWN)
            return true;
    return false;
}

static kv_code expect(struct push *push, reconnect_link *link, struct item *item,
                      kv_status *status)
{
    if (item == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to push");
    if (push->processing.count + push->accumulating.count >= PUSH_QUEUE_MAX) {
        item_release(item);
        return kv_fail(status, KV_TOO_BIG,
                       "more than %u entries differ at one level: use traversal diff",
                       PUSH_QUEUE_MAX);
    }
    queue_add(link->traversal == WIRE_PUSH ? &push->processing : &push->accumulating, item);
    item->refs++;
    item->asked = NULL;
    *push->asked_last = item;
    push->asked_last = &item->asked;
    return KV_OK;
}

static kv_code put_pages(reconnect_link *link, struct walk *walk, struct item *item,
                         kv_status *status)
{
    vmap_page page = { 0 };
    kv_code code = state_view_page(link->view, walk->map, item->level,
                                   kv_bytes(item->key, item->key_size), &page, status);
    if (code != KV_OK)
        return code == KV_NOT_FOUND
                   ? kv_fail(status, KV_CORRUPT, "map %s: a page is missing", walk->map)
                   : code;
    kv_slice before = kv_bytes(NULL, 0);
    wire_put_number(&link->out, page.count);
    for (size_t i = 0; i < page.count && code == KV_OK; i++) {
        kv_slice first = vmap_page_key(&page, i);
        vmap_node node = vmap_page_node(&page, i);
        wire_put_entry(&link->out, item->level, before, first, &node);
        before = first;
        code = expect(link->push, link,
                      item_new(item, item->map, false, item->level - 1u, first), status);
    }
    vmap_page_clear(&page);
    return code;
}

static kv_code put_leaves(reconnect_link *link, struct walk *walk, struct item *item,
                          kv_status *status)
{
    vmap_node node;
    kv_range range;
    kv_slice first = kv_bytes(item->key, item->key_size);
    kv_code code = walk_find(walk, 0, first, &node, &range, status);
    if (code == KV_NOT_FOUND)
        return kv_fail(status, KV_CORRUPT, "map %s: a page is missing", walk->map);
    if (code == KV_OK)
        code = walk_leaf_seek(walk, first, range.limit, status);
    struct wire_out *before = &link->push->key;
    before->size = 0;
    wire_put_number(&link->out, node.size);
    for (uint64_t i = 0; i < node.size && code == KV_OK; i++) {
        if (!walk->leaf_on)
            return kv_fail(status, KV_CORRUPT, "map %s: leaves are missing", walk->map);
        kv_slice key = walk_leaf_key(walk);
        vmap_node leaf = walk_leaf_node(walk);
        wire_put_key(&link->out, kv_bytes(before->data, before->size), key);
        wire_put(&link->out, leaf.digest.bytes, sizeof(leaf.digest.bytes));
        before->size = 0;
        wire_put(before, key.data, key.size);
        code = expect(link->push, link, item_new(item, item->map, true, 0, key), status);
        if (code == KV_OK)
            code = walk_leaf_pass(walk, 1, status);
    }
    return code;
}

static kv_code put_leaf(reconnect_link *link, struct walk *walk, struct item *item,
                        kv_status *status)
{
    kv_value value = KV_VALUE_INIT;
    kv_code code = state_view_get(link->view, walk->map, kv_bytes(item->key, item->key_size),
                                  &value, status);
    if (code == KV_OK)
        wire_put(&link->out, value.bytes.data, value.bytes.size);
    kv_value_release(&value);
    return code == KV_NOT_FOUND
               ? kv_fail(status, KV_CORRUPT, "map %s: a leaf is missing", walk->map)
               : code;
}

/* The item was sent: if its answer is still to come, it is the last such one. */
static void note_sent(struct push *push, struct item *item)
{
    if (item->status == ITEM_UNKNOWN) {
        item_release(push->awaited);
        push->awaited = item;
        item->refs++;
    }
}

/* KEEP, for this item and those behind it that the learner has, too. */
static void put_keep(reconnect_link *link)
{
    struct push *push = link->push;
    uint64_t count = 1;
    while (push->processing.first != NULL && known(push->processing.first)) {
        struct item *item = queue_take(&push->processing);
        note_sent(push, item);
        item_release(item);
        count++;
    }
    size_t frame = wire_frame_begin(&link->out, WIRE_KEEP);
    wire_put_number(&link->out, count);
    wire_frame_end(&link->out, frame);
}

static kv_code put_lesson(reconnect_link *link, struct item *item, kv_status *status)
{
    if (known(item)) {
        put_keep(link);
        return KV_OK;
    }
    struct walk *walk;
    kv_code code = link_walk(link, item->map, &walk, status);
    if (code != KV_OK)
        return code;
    size_t frame = wire_frame_begin(&link->out, item->leaf ? WIRE_LEAF : WIRE_PAGE);
    if (item->leaf)
        code = put_leaf(link, walk, item, status);
    else if (item->level == 0)
        code = put_leaves(link, walk, item, status);
    else
        code = put_pages(link, walk, item, status);
    if (code == KV_OK && link->out.size > link->teacher->settings.frame_size_max)
        code = kv_fail(status, KV_TOO_BIG,
                       "map %s: a page is over %llu bytes: raise "
                       "reconnect.frame_size_max on both sides",
                       walk->map, (unsigned long long)link->teacher->settings.frame_size_max);
    if (code != KV_OK) {
        link->out.size = frame;
        return code;
    }
    wire_frame_end(&link->out, frame);
    link->teacher->figures.leaves += item->leaf;
    link->teacher->figures.pages += !item->leaf;
    return KV_OK;
}

/* The root of the next map to push, or NULL. */
static kv_code next_root(reconnect_link *link, struct item **out, kv_status *status)
{
    struct push *push = link->push;
    *out = NULL;
    if (push->map_at == push->map_count)
        return KV_OK;
    uint32_t map = push->maps[push->map_at++];
    struct walk *walk;
    kv_code code = link_walk(link, map, &walk, status);
    if (code != KV_OK)
        return code;
    if (walk->node.size == 0)
        return kv_fail(status, KV_UNPROVEN, "BEGIN frame that asks for an empty map");
    *out = item_new(NULL, map, false, walk->top, kv_bytes(walk->start.data, walk->start.size));
    if (*out == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to push");
    (*out)->status = ITEM_NOT_KNOWN;
    return KV_OK;
}

/* Level-by-level, between two levels: whether the answers to wait for are in.
 * The original waits for those about the level just sent, and looks once in a
 * period; the strict form for those about the level that is next, as they come. */
static bool answered(reconnect_link *link, int64_t now_us)
{
    struct push *push = link->push;
    const reconnect_settings *settings = &link->teacher->settings;
    bool strict = link->traversal == WIRE_LEVEL_STRICT;
    bool in = strict ? push->asked_first == NULL
                     : push->awaited == NULL || push->awaited->status != ITEM_UNKNOWN;
    int64_t cap_us = push->wait_begin_us + (int64_t)settings->level_cap_us;
    if (push->wait_begin_us == 0) {
        if (in)
            return true;
        push->wait_begin_us = now_us;
        cap_us = now_us + (int64_t)settings->level_cap_us;
        push->wake_us = strict ? cap_us : now_us + (int64_t)settings->level_poll_us;
        return false;
    }
    if (!strict && now_us < push->wake_us)
        return false;
    if (!in && now_us < cap_us) {
        push->wake_us = strict ? cap_us : now_us + (int64_t)settings->level_poll_us;
        return false;
    }
    push->wait_begin_us = 0;
    push->wake_us = INT64_MAX;
    return true;
}

static kv_code next_item(reconnect_link *link, int64_t now_us, struct item **out,
                         kv_status *status)
{
    struct push *push = link->push;
    if (push->processing.count == 0 && push->accumulating.count > 0) {
        if (!answered(link, now_us))
            return KV_NOT_FOUND;
        queue_swap(push);
    }
    *out = queue_take(&push->processing);
    return *out != NULL ? KV_OK : next_root(link, out, status);
}

kv_code push_next(reconnect_link *link, int64_t now_us, kv_status *status)
{
    struct push *push = link->push;
    struct item *item;
    kv_code code = next_item(link, now_us, &item, status);
    if (code != KV_OK)
        return code;
    if (item == NULL) {
        /* Hanging up now would lose what the learner has not read: it still answers. */
        wire_frame_end(&link->out, wire_frame_begin(&link->out, WIRE_END));
        link->phase = LINK_PARTING;
        return KV_OK;
    }
    code = put_lesson(link, item, status);
    note_sent(push, item);
    item_release(item);
    return code;
}

int64_t push_wake_us(const reconnect_link *link)
{
    return link->push == NULL ? INT64_MAX : link->push->wake_us;
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */
