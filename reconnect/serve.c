/* serve.c - the teacher's answers to wants: what is in a page that the learner lacks. */
#include "reconnect/teacher.h"

#include <stdlib.h>
#include <string.h>

enum { MARKS_MIN = 256 };

/* Queue a copy of `body`, of which nothing is decoded yet. */
static struct waiting *add_waiting(reconnect_link *link, kv_slice body)
{
    struct waiting *waiting = malloc(sizeof(*waiting) + body.size);
    if (waiting == NULL)
        return NULL;
    *waiting = (struct waiting){ .size = body.size };
    memcpy(waiting->body, body.data, body.size);
    waiting->in = wire_in_of(kv_bytes(waiting->body, body.size));
    if (link->last == NULL)
        link->last = &link->first;
    *link->last = waiting;
    link->last = &waiting->next;
    link->waiting_size += waiting->size + sizeof(*waiting);
    return waiting;
}

kv_code serve_add(reconnect_link *link, kv_slice body, kv_status *status)
{
    struct waiting *waiting = add_waiting(link, body);
    if (waiting == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a WANT frame");
    if (!wire_get_want(&waiting->in, &waiting->want) || waiting->want.map >= link->map_count)
        return kv_fail(status, KV_UNPROVEN, "WANT frame that does not decode");
    return KV_OK;
}

kv_code serve_add_ahead(reconnect_link *link, kv_slice body, kv_status *status)
{
    struct wire_ahead ahead;
    struct waiting *waiting = add_waiting(link, body);
    if (waiting == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for an AHEAD frame");
    if (!wire_get_ahead(&waiting->in, &ahead))
        return kv_fail(status, KV_UNPROVEN, "AHEAD frame that does not decode");
    waiting->want = (struct wire_want){
        .id = ahead.id, .tier = ahead.tier, .have_bits = ahead.have_bits, .count = 1
    };
    waiting->gone = true;
    size_t count;
    const vmap_named_root *maps = state_view_maps(link->view, &count);
    for (unsigned i = 0; i < count; i++) {
        if (kv_compare(kv_text(maps[i].name), ahead.map) != 0)
            continue;
        vmap_node node;
        unsigned page_bits;
        waiting->want.map = i;
        kv_code code = state_view_top(link->view, maps[i].name, &waiting->want.level, &node,
                                      &page_bits, status);
        if (code != KV_OK)
            return code;
        waiting->gone = ahead.tier > waiting->want.level;
    }
    return KV_OK;
}

static void drop_first(reconnect_link *link)
{
    struct waiting *waiting = link->first;
    link->first = waiting->next;
    if (link->first == NULL)
        link->last = &link->first;
    link->waiting_size -= waiting->size + sizeof(*waiting);
    free(waiting);
}

void serve_clear(reconnect_link *link)
{
    while (link->first != NULL)
        drop_first(link);
    align_clear(&link->align);
    free(link->key);
    free(link->theirs);
    free(link->ours);
    link->key = NULL;
    link->theirs = link->ours = NULL;
    link->ours_capacity = 0;
}

/* One page being answered. */
struct serving {
    reconnect_link *link;
    struct walk *walk;
    const struct wire_want *want;
    size_t count;           /* our entries so far */
    size_t run;             /* the run that the next entry is in, */
    uint32_t left;          /* and what is left of it */
    struct wire_out before; /* the key sent last */
    struct wire_out *out;
    kv_status *status;
};

static kv_code add_mark(reconnect_link *link, size_t at, uint64_t mark)
{
    if (at == link->ours_capacity) {
        size_t capacity = at == 0 ? MARKS_MIN : 2 * at;
        uint64_t *marks = realloc(link->ours, capacity * sizeof(*marks));
        if (marks == NULL)
            return KV_NO_MEMORY;
        link->ours = marks;
        link->ours_capacity = capacity;
    }
    link->ours[at] = mark;
    return KV_OK;
}

static kv_code mark_page(void *context, kv_slice first, const vmap_node *node)
{
    struct serving *serving = context;
    (void)first;
    return add_mark(serving->link, serving->count++, align_of_page(&node->digest));
}

/* Step to the run that the next of our entries is in, writing the steps passed. */
static enum wire_step next_step(struct serving *serving)
{
    const struct align *align = &serving->link->align;
    while (serving->left == 0) {
        const struct align_run *run = &align->runs[serving->run++];
        wire_put_step(serving->out, run->step, run->count);
        if (run->step != WIRE_STEP_SKIP)
            serving->left = run->count;
    }
    serving->left--;
    return align->runs[serving->run - 1].step;
}

/* The steps after our last entry, and the end. */
static void end_steps(struct serving *serving)
{
    const struct align *align = &serving->link->align;
    for (; serving->run < align->count; serving->run++)
        wire_put_step(serving->out, align->runs[serving->run].step,
                      align->runs[serving->run].count);
    wire_put_step(serving->out, WIRE_STEP_COPY, 0);
}

static void set_before(struct serving *serving, kv_slice key)
{
    serving->before.size = 0;
    wire_put(&serving->before, key.data, key.size);
}

static kv_code send_page(void *context, kv_slice first, const vmap_node *node)
{
    struct serving *serving = context;
    if (next_step(serving) != WIRE_STEP_NEW)
        return KV_OK;
    wire_put_entry(serving->out, serving->want->tier,
                   kv_bytes(serving->before.data, serving->before.size), first, node);
    set_before(serving, first);
    serving->link->teacher->figures.pages++;
    return serving->out->failed || serving->before.failed ? KV_NO_MEMORY : KV_OK;
}

static kv_code leaves_missing(const struct serving *serving)
{
    return kv_fail(serving->status, KV_CORRUPT, "map %s: leaves are missing",
                   serving->walk->map);
}

/* The fingerprints of the page's leaves, `size` in all. */
static kv_code mark_leaves(struct serving *serving, const kv_range *range, uint64_t size)
{
    struct walk *walk = serving->walk;
    kv_code code = walk_leaf_seek(walk, range->first, range->limit, serving->status);
    while (code == KV_OK && walk->leaf_on) {
        size_t run = walk_leaf_run(walk);
        for (size_t i = 0; i < run && code == KV_OK; i++) {
            const vmap_digest *digest =
                vmap_page_digest(&walk->pages[0].page, walk->leaf_at + i);
            code = add_mark(serving->link, serving->count++,
                            align_of_leaf(serving->link->salt, digest));
        }
        if (code == KV_OK)
            code = walk_leaf_pass(walk, run, serving->status);
    }
    return code != KV_OK || serving->count == size ? code : leaves_missing(serving);
}

/* Put the leaf that the walk's iterator stands on. */
static kv_code put_leaf(struct serving *serving)
{
    const struct walk *walk = serving->walk;
    kv_slice key = walk_key(walk);
    wire_put_leaf(serving->out, kv_bytes(serving->before.data, serving->before.size), key,
                  walk_value(walk));
    set_before(serving, key);
    serving->link->teacher->figures.leaves++;
    uint64_t size_max = serving->link->teacher->settings.frame_size_max;
    if (serving->out->size > size_max)
        return kv_fail(serving->status, KV_TOO_BIG,
                       "map %s: a page is over %llu bytes: raise reconnect.frame_size_max on "
                       "both sides",
                       walk->map, (unsigned long long)size_max);
    return serving->out->failed || serving->before.failed ? KV_NO_MEMORY : KV_OK;
}

/* All of the page's leaves, of which the learner has none: straight from the values. */
static kv_code send_all_leaves(struct serving *serving, kv_slice first, uint64_t size)
{
    struct walk *walk = serving->walk;
    kv_code code = walk_seek(walk, first, serving->status);
    for (uint64_t i = 0; i < size && code == KV_OK; i++) {
        if (!walk->on)
            return leaves_missing(serving);
        if (next_step(serving) != WIRE_STEP_NEW)
            return KV_INTERNAL;
        code = put_leaf(serving);
        if (code == KV_OK)
            code = walk_next(walk, serving->status);
    }
    return code;
}

/* Those of the page's leaves that are new; values are read of these only. */
static kv_code send_leaves(struct serving *serving, const kv_range *range, uint64_t size)
{
    struct walk *walk = serving->walk;
    bool behind = false; /* the iterator stands on the leaf before */
    kv_code code = walk_leaf_seek(walk, range->first, range->limit, serving->status);
    for (uint64_t i = 0; i < size && code == KV_OK; i++) {
        if (!walk->leaf_on)
            return leaves_missing(serving);
        bool new = next_step(serving) == WIRE_STEP_NEW;
        if (new) {
            kv_slice key = walk_leaf_key(walk);
            code = behind ? walk_next(walk, serving->status)
                          : walk_seek(walk, key, serving->status);
            if (code == KV_OK && (!walk->on || kv_compare(walk_key(walk), key) != 0))
                return leaves_missing(serving);
            if (code == KV_OK)
                code = put_leaf(serving);
        }
        behind = new;
        if (code == KV_OK)
            code = walk_leaf_pass(walk, 1, serving->status);
    }
    return code;
}

/* Our list is as long as `count` says whatever the fingerprints: no need of them. */
static kv_code all_new(reconnect_link *link, size_t their_count, size_t count)
{
    return align_lists(NULL, their_count, NULL, count, 0, &link->align);
}

static kv_code list_page(struct serving *serving, const struct wire_want_page *page,
                         const vmap_node *node, const kv_range *range)
{
    reconnect_link *link = serving->link;
    const struct wire_want *want = serving->want;
    struct wire_in haves = page->haves;
    if (!wire_get_bits(&haves, link->theirs, page->have_count, want->have_bits))
        return kv_fail(serving->status, KV_UNPROVEN, "WANT frame that does not decode");

    kv_code code;
    if (want->tier == 0 && page->have_count == 0)
        serving->count = (size_t)node->size;
    else if (want->tier == 0) {
        code = mark_leaves(serving, range, node->size);
        if (code != KV_OK)
            return code;
    } else {
        code = walk_pages(serving->walk, want->tier - 1, range, mark_page, serving,
                          serving->status);
        if (code != KV_OK)
            return code;
    }
    code = page->have_count == 0 ? all_new(link, 0, serving->count)
                                 : align_lists(link->theirs, page->have_count, link->ours,
                                               serving->count, want->have_bits, &link->align);
    if (code != KV_OK)
        return code;

    wire_put_byte(serving->out, WIRE_GOT_LIST);
    if (want->tier > 0)
        code = walk_pages(serving->walk, want->tier - 1, range, send_page, serving,
                          serving->status);
    else if (page->have_count == 0)
        code = send_all_leaves(serving, range->first, node->size);
    else
        code = send_leaves(serving, range, node->size);
    if (code == KV_OK)
        end_steps(serving);
    return code;
}

/* Bytes of keys are borrowed from the walk's pages, which the next read may
 * replace: keep the range while the page is listed. */
static kv_code answer_page(reconnect_link *link, const struct wire_want *want,
                           const struct wire_want_page *page, kv_status *status)
{
    struct serving serving = {
        .link = link, .want = want, .out = &link->out, .status = status
    };
    kv_code code = link_walk(link, want->map, &serving.walk, status);
    if (code != KV_OK)
        return code;

    vmap_node node;
    kv_range range;
    code = walk_find(serving.walk, want->level, page->first, &node, &range, status);
    if (code == KV_NOT_FOUND ||
        (code == KV_OK && memcmp(page->check, node.digest.bytes, want->check_size) != 0)) {
        wire_put_byte(&link->out, WIRE_GOT_GONE);
        return KV_OK;
    }
    if (code != KV_OK)
        return code;

    struct wire_out keys = { 0 };
    wire_put(&keys, range.first.data, range.first.size);
    wire_put(&keys, range.limit.data, range.limit.size);
    if (keys.failed) {
        code = KV_NO_MEMORY;
    } else {
        range.first = kv_bytes(keys.data, range.first.size);
        if (range.limit.size > 0)
            range.limit = kv_bytes(keys.data + range.first.size, range.limit.size);
        code = list_page(&serving, page, &node, &range);
    }
    wire_out_clear(&keys);
    wire_out_clear(&serving.before);
    return code;
}

static kv_code make_room(reconnect_link *link)
{
    if (link->key == NULL)
        link->key = malloc(sizeof(*link->key));
    if (link->theirs == NULL)
        link->theirs = malloc(WIRE_HAVES_MAX * sizeof(*link->theirs));
    return link->key == NULL || link->theirs == NULL ? KV_NO_MEMORY : KV_OK;
}

kv_code serve_next(reconnect_link *link, kv_status *status)
{
    struct waiting *waiting = link->first;
    if (waiting == NULL)
        return KV_NOT_FOUND;
    if (make_room(link) != KV_OK)
        return kv_fail(status, KV_NO_MEMORY, "no memory to serve");
    if (waiting->served == 0)
        link->key->size = 0;
    if (link->frame_size < LINK_FRAME_SIZE)
        link->frame_size = link->frame_size == 0 ? LINK_FRAME_SIZE_FIRST : 2 * link->frame_size;

    size_t frame = wire_frame_begin(&link->out, WIRE_GOT);
    wire_put_number(&link->out, waiting->want.id);
    wire_put_number(&link->out, waiting->served);
    while (waiting->served < waiting->want.count && link->out.size < link->frame_size) {
        struct wire_want_page page;
        size_t mark = link->out.size;
        if (!wire_get_want_page(&waiting->in, &waiting->want, link->key, &page))
            return kv_fail(status, KV_UNPROVEN, "WANT frame that does not decode");
        kv_code code = KV_OK;
        if (waiting->gone)
            wire_put_byte(&link->out, WIRE_GOT_GONE);
        else
            code = answer_page(link, &waiting->want, &page, status);
        if (code != KV_OK) {
            link->out.size = mark;
            return code == KV_NO_MEMORY ? kv_fail(status, code, "no memory to serve") : code;
        }
        waiting->served++;
    }
    wire_frame_end(&link->out, frame);
    if (link->out.failed)
        return kv_fail(status, KV_NO_MEMORY, "no memory to serve");
    if (waiting->served == waiting->want.count) {
        bool whole = waiting->in.at == waiting->in.end;
        drop_first(link);
        if (!whole)
            return kv_fail(status, KV_UNPROVEN, "WANT frame with bytes left over");
    }
    return KV_OK;
}
