/* pages.c - pages as lists: assembled from an answer, folded, staged. */
#include "reconnect/align.h"
#include "reconnect/leaves.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_MIN = 64, GUESS_SIZE_MAX = 64 << 10 /* bytes of a guess */ };

/* A key inside pages.text. */
struct key_place {
    size_t at, size;
};

/* An entry of a list of pages; of leaves, only those that came are kept. */
struct entry {
    struct key_place key;
    vmap_node node;
    kv_slice value; /* of a leaf that came; inside the frame */
    size_t own;     /* which of our entries it is, or SIZE_MAX */
};

struct entries {
    struct entry *list;
    size_t count, capacity;
};

/* Scratch, kept between answers. */
struct pages {
    struct wire_out text; /* keys */
    struct entries own;   /* what we have of the page; of leaves, those skipped */
    struct entries all;   /* what the page is; of leaves, those that came */
    vmap_node *nodes;     /* being folded */
    size_t node_capacity;
    uint64_t *marks;
    size_t mark_count;
    unsigned char *ranks;
    struct wire_out last; /* the key before, for the order */
    struct wire_key key;  /* decoding of staged lists */
    bool guessable;       /* what came last of leaves is in order */
};

kv_code pages_new(struct pages **out)
{
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return KV_NO_MEMORY;
    (*out)->marks = malloc(WIRE_HAVES_MAX * sizeof(*(*out)->marks));
    if ((*out)->marks == NULL) {
        free(*out);
        *out = NULL;
        return KV_NO_MEMORY;
    }
    return KV_OK;
}

void pages_free(struct pages *pages)
{
    if (pages == NULL)
        return;
    wire_out_clear(&pages->text);
    wire_out_clear(&pages->last);
    free(pages->own.list);
    free(pages->all.list);
    free(pages->nodes);
    free(pages->marks);
    free(pages->ranks);
    free(pages);
}

static void reset(struct pages *pages)
{
    pages->text.size = pages->last.size = 0;
    pages->own.count = pages->all.count = 0;
    pages->mark_count = 0;
}

static kv_slice key_of(const struct pages *pages, const struct entry *entry)
{
    return kv_bytes(pages->text.data + entry->key.at, entry->key.size);
}

static struct entry *add_entry(struct pages *pages, struct entries *entries, kv_slice key,
                               const vmap_node *node)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? LIST_MIN : 2 * entries->capacity;
        struct entry *list = realloc(entries->list, capacity * sizeof(*list));
        if (list == NULL)
            return NULL;
        entries->list = list;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->list[entries->count];
    *entry = (struct entry){ .key = { pages->text.size, key.size }, .own = SIZE_MAX };
    if (node != NULL)
        entry->node = *node;
    wire_put(&pages->text, key.data, key.size);
    if (pages->text.failed)
        return NULL;
    entries->count++;
    return entry;
}

static kv_code add_node(struct pages *pages, size_t at, const vmap_node *node)
{
    if (at >= pages->node_capacity) {
        size_t capacity = at < LIST_MIN ? LIST_MIN : 2 * at;
        vmap_node *nodes = realloc(pages->nodes, capacity * sizeof(*nodes));
        if (nodes == NULL)
            return KV_NO_MEMORY;
        pages->nodes = nodes;
        pages->node_capacity = capacity;
    }
    pages->nodes[at] = *node;
    return KV_OK;
}

static bool node_equal(const vmap_node *a, const vmap_node *b)
{
    return a->size == b->size && a->height == b->height &&
           memcmp(a->digest.bytes, b->digest.bytes, sizeof(a->digest.bytes)) == 0;
}

static kv_code no_memory(kv_status *status)
{
    return kv_fail(status, KV_NO_MEMORY, "no memory for a page");
}

/* ---- What we have ------------------------------------------------------- */

struct gathering {
    struct pages *pages;
    size_t max;
};

static kv_code gather_page(void *context, kv_slice first, const vmap_node *node)
{
    struct gathering *gathering = context;
    struct pages *pages = gathering->pages;
    if (pages->own.count >= gathering->max)
        return KV_TOO_BIG;
    return add_entry(pages, &pages->own, first, node) == NULL ? KV_NO_MEMORY : KV_OK;
}

/* Our pages that start in the want's range, or none where there are too many
 * to be worth telling. */
static kv_code gather_own(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    struct walk *walk;
    kv_code code = learner_walk(learner, want->map, &walk, status);
    if (code != KV_OK)
        return code;
    struct gathering gathering = { learner->pages, WIRE_HAVES_MAX };
    kv_range range = want_range(want);
    code = walk_pages(walk, want->tier - 1u, &range, gather_page, &gathering, status);
    if (code == KV_TOO_BIG) {
        learner->pages->own.count = 0;
        return KV_OK;
    }
    return code == KV_NO_MEMORY ? no_memory(status) : code;
}

/* A have list longer than this costs more than it can save. */
static size_t haves_worth(const struct want *want)
{
    uint64_t worth =
        want->node.size < WIRE_HAVES_MAX / 4 ? 4 * want->node.size + 64 : WIRE_HAVES_MAX;
    return worth < WIRE_HAVES_MAX ? (size_t)worth : WIRE_HAVES_MAX;
}

static kv_code mark_leaves(reconnect_learner *learner, const struct want *want,
                           kv_status *status)
{
    struct pages *pages = learner->pages;
    struct leaves leaves;
    size_t worth = haves_worth(want);
    kv_code code = leaves_open(&leaves, learner, want, status);
    while (code == KV_OK && leaves.on) {
        if (pages->mark_count == worth) {
            pages->mark_count = 0;
            break;
        }
        pages->marks[pages->mark_count++] = align_of_leaf(learner->salt, &leaves.node.digest);
        code = leaves_next(&leaves);
    }
    return leaves_close(&leaves, code);
}

kv_code pages_put_haves(reconnect_learner *learner, struct want *want, unsigned bits,
                        struct wire_out *out, kv_status *status)
{
    struct pages *pages = learner->pages;
    reset(pages);
    kv_code code = KV_OK;
    if (bits > 0 && want->tier == 0) {
        code = mark_leaves(learner, want, status);
    } else if (bits > 0) {
        code = gather_own(learner, want, status);
        for (size_t i = 0; i < pages->own.count && code == KV_OK; i++)
            pages->marks[pages->mark_count++] = align_of_page(&pages->own.list[i].node.digest);
    }
    if (code != KV_OK)
        return code;
    want->have_count = (uint32_t)pages->mark_count;
    wire_put_number(out, pages->mark_count);
    wire_put_bits(out, pages->marks, pages->mark_count, bits);
    return out->failed ? no_memory(status) : KV_OK;
}

/* ---- Lists of pages ----------------------------------------------------- */

static kv_code unproven(const reconnect_learner *learner, const struct want *want,
                        const char *what, kv_status *status)
{
    char key[33];
    kv_slice first = want_first(want);
    const uint8_t *bytes = first.data;
    size_t size = first.size < 16 ? first.size : 16;
    for (size_t i = 0; i < size; i++) {
        key[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        key[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    key[2 * size] = '\0';
    return kv_fail(status, KV_UNPROVEN, "map %s, page of level %u at key %s%s: %s",
                   learner->maps[want->map].name, want->level, size == 0 ? "(first)" : key,
                   first.size > size ? "..." : "", what);
}

/* Read the steps of a list of pages into pages->all. */
static kv_code read_pages(reconnect_learner *learner, const struct want *want,
                          struct wire_in *in, kv_status *status)
{
    struct pages *pages = learner->pages;
    size_t own = 0, have = want->have_count;
    enum wire_step step;
    uint64_t count;
    learner->key->size = 0;
    while (wire_get_step(in, &step, &count)) {
        if (step != WIRE_STEP_NEW && count > have - own) {
            in->bad = true;
            break;
        }
        if (step == WIRE_STEP_SKIP)
            own += (size_t)count;
        for (uint64_t i = 0; i < count && step != WIRE_STEP_SKIP && !in->bad; i++) {
            struct entry *entry;
            vmap_node node;
            if (step == WIRE_STEP_COPY) {
                struct entry from = pages->own.list[own];
                entry = add_entry(pages, &pages->all, kv_bytes(NULL, 0), &from.node);
                if (entry != NULL) {
                    entry->key = from.key;
                    entry->own = own++;
                }
            } else {
                if (!wire_get_entry(in, want->tier, learner->key, &node))
                    break;
                entry = add_entry(pages, &pages->all,
                                  kv_bytes(learner->key->bytes, learner->key->size), &node);
            }
            if (entry == NULL)
                return no_memory(status);
        }
    }
    if (in->bad || own != have) {
        in->bad = true;
        return unproven(learner, want, "list that does not decode", status);
    }
    learner->figures.pages++;
    return KV_OK;
}

/* Whether keys ascend inside the range, start where they must, and are cut
 * where they must be. Fills pages->ranks. */
static kv_code check_keys(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range range = want_range(want);
    kv_slice first = want_first(want);
    size_t count = pages->all.count;
    unsigned page_bits = learner->maps[want->map].page_bits;
    unsigned char *ranks = realloc(pages->ranks, count + 1);
    if (ranks == NULL)
        return no_memory(status);
    pages->ranks = ranks;
    if (count == 0)
        return unproven(learner, want, "empty list", status);
    for (size_t i = 0; i < count; i++) {
        kv_slice key = key_of(pages, &pages->all.list[i]);
        ranks[i] = (unsigned char)vmap_rank(key, page_bits);
        bool right = i == 0 ? first.size == 0 || kv_compare(key, first) == 0
                            : kv_compare(key_of(pages, &pages->all.list[i - 1]), key) < 0 &&
                                  ranks[i] >= want->tier && ranks[i] <= want->level;
        if (!right || kv_compare(key, range.first) < 0 ||
            (range.limit.size > 0 && kv_compare(key, range.limit) >= 0))
            return unproven(learner, want, "keys out of place", status);
    }
    return KV_OK;
}

/* Fold a list of tier `tier` up to one page of `level`, cutting as the rules say. */
static kv_code fold_pages(reconnect_learner *learner, const struct want *want, vmap_node *out,
                          kv_status *status)
{
    struct pages *pages = learner->pages;
    size_t count = pages->all.count;
    for (size_t i = 0; i < count; i++)
        if (add_node(pages, i, &pages->all.list[i].node) != KV_OK)
            return no_memory(status);
    for (unsigned level = want->tier; level <= want->level; level++) {
        size_t made = 0;
        for (size_t begin = 0; begin < count;) {
            size_t end = begin + 1;
            while (end < count && (level == want->level || pages->ranks[end] <= level))
                end++;
            vmap_node node = vmap_fold(pages->nodes + begin, end - begin);
            pages->ranks[made] = pages->ranks[begin];
            pages->nodes[made++] = node;
            begin = end;
        }
        count = made;
    }
    *out = pages->nodes[0];
    return KV_OK;
}

/* Our entry that is this one, by key and digest; both lists ascend. */
static void match_own(struct pages *pages)
{
    size_t own = 0;
    for (size_t i = 0; i < pages->all.count; i++) {
        struct entry *entry = &pages->all.list[i];
        int order = -1;
        while (own < pages->own.count && order < 0) {
            order = kv_compare(key_of(pages, &pages->own.list[own]), key_of(pages, entry));
            if (order < 0)
                own++;
        }
        bool equal = order == 0 && node_equal(&pages->own.list[own].node, &entry->node);
        entry->own = equal ? own : SIZE_MAX;
    }
}

kv_code pages_remove(reconnect_learner *learner, uint32_t map, const kv_range *range,
                     kv_status *status)
{
    struct walk *walk;
    kv_code code = learner_walk(learner, map, &walk, status);
    if (code == KV_OK)
        code = walk_seek(walk, range->first, status);
    while (code == KV_OK && walk_below(walk, range->limit)) {
        code = stage_remove(&learner->stage, learner->maps[map].stage, walk_key(walk), status);
        learner->figures.leaves_removed++;
        if (code == KV_OK)
            code = walk_next(walk, status);
    }
    return code;
}

/* An entry that is a page of ours: what else we have in its range goes. */
static kv_code keep_page(reconnect_learner *learner, const struct want *want,
                         const struct entry *entry, const kv_range *range, kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_slice first = key_of(pages, entry);
    kv_code code = KV_OK;
    learner->figures.leaves_done += entry->node.size;
    if (learner->stage.found)
        code = stage_forget(&learner->stage, learner->maps[want->map].stage, range, status);
    if (code == KV_OK && kv_compare(range->first, first) < 0) {
        kv_range before = { range->first, first };
        code = pages_remove(learner, want->map, &before, status);
    }
    if (code == KV_OK && entry->own + 1 < pages->own.count) {
        kv_slice next = key_of(pages, &pages->own.list[entry->own + 1]);
        kv_range after = { next, range->limit };
        if (range->limit.size == 0 || kv_compare(next, range->limit) < 0)
            code = pages_remove(learner, want->map, &after, status);
    }
    return code;
}

/* Keep what we have, want the rest. */
static kv_code settle_pages(reconnect_learner *learner, const struct want *want,
                            uint32_t teller, kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range whole = want_range(want);
    kv_code code = KV_OK;
    match_own(pages);
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        kv_slice first = key_of(pages, entry);
        kv_range range = { i == 0 ? whole.first : first,
                           i + 1 < pages->all.count ? key_of(pages, &pages->all.list[i + 1])
                                                    : whole.limit };
        if (entry->own != SIZE_MAX)
            code = keep_page(learner, want, entry, &range, status);
        else
            code = diff_want(learner, want->map, want->tier - 1u, &entry->node, first, &range,
                             want->trip + 1, teller, status);
    }
    return code;
}

static kv_code stage_list(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    struct pages *pages = learner->pages;
    struct wire_out list = { 0 };
    kv_slice before = kv_bytes(NULL, 0);
    wire_put_number(&list, pages->all.count);
    for (size_t i = 0; i < pages->all.count; i++) {
        kv_slice first = key_of(pages, &pages->all.list[i]);
        wire_put_entry(&list, want->tier, before, first, &pages->all.list[i].node);
        before = first;
    }
    kv_code code = list.failed ? no_memory(status)
                               : stage_put_page(&learner->stage, want->tier, &want->node.digest,
                                                kv_bytes(list.data, list.size), status);
    wire_out_clear(&list);
    return code;
}

/* pages->all is read: prove it. */
static kv_code prove_pages(reconnect_learner *learner, const struct want *want,
                           kv_status *status)
{
    kv_code code = check_keys(learner, want, status);
    vmap_node node = { { { 0 } }, 0, 0 };
    if (code == KV_OK)
        code = fold_pages(learner, want, &node, status);
    if (code == KV_OK && !node_equal(&node, &want->node))
        code = unproven(learner, want, "does not fold to its digest", status);
    return code;
}

static kv_code take_pages(reconnect_learner *learner, const struct want *want,
                          struct wire_in *in, uint32_t teller, kv_status *status)
{
    kv_code code = gather_own(learner, want, status);
    if (code == KV_OK)
        code = read_pages(learner, want, in, status);
    if (code == KV_OK)
        code = prove_pages(learner, want, status);
    if (code == KV_OK)
        code = stage_list(learner, want, status);
    return code == KV_OK ? settle_pages(learner, want, teller, status) : code;
}

static kv_code take_staged_pages(reconnect_learner *learner, const struct want *want,
                                 kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_value list = KV_VALUE_INIT;
    kv_code code =
        stage_get_page(&learner->stage, want->tier, &want->node.digest, &list, status);
    if (code != KV_OK)
        return code;

    struct wire_in in = wire_in_of(list.bytes);
    uint64_t count = wire_get_number(&in, UINT32_MAX);
    pages->key.size = 0;
    for (uint64_t i = 0; i < count && code == KV_OK; i++) {
        vmap_node node;
        if (!wire_get_entry(&in, want->tier, &pages->key, &node))
            code = KV_NOT_FOUND;
        else if (add_entry(pages, &pages->all, kv_bytes(pages->key.bytes, pages->key.size),
                           &node) == NULL)
            code = no_memory(status);
    }
    kv_value_release(&list);
    if (code == KV_OK && prove_pages(learner, want, NULL) != KV_OK)
        code = KV_NOT_FOUND; /* it is fetched again */
    if (code == KV_OK)
        code = gather_own(learner, want, status);
    return code == KV_OK ? settle_pages(learner, want, LEARNER_NO_PEER, status) : code;
}

/* ---- Lists of leaves ---------------------------------------------------- */

/* A list of leaves being read. */
struct reading {
    reconnect_learner *learner;
    const struct want *want;
    struct wire_in *in;
    struct leaves leaves; /* ours */
    size_t own, count;    /* of ours passed, of the page read */
    bool ordered, placed; /* keys ascend; the first is where the page starts */
    kv_status *status;
};

/* The next leaf of the page. */
static kv_code add_leaf(struct reading *reading, kv_slice key, const vmap_node *node)
{
    struct pages *pages = reading->learner->pages;
    kv_slice first = want_first(reading->want);
    if (reading->count == 0)
        reading->placed = first.size == 0 || kv_compare(first, key) == 0;
    else if (kv_compare(kv_bytes(pages->last.data, pages->last.size), key) >= 0)
        reading->ordered = false;
    pages->last.size = 0;
    wire_put(&pages->last, key.data, key.size);
    return pages->last.failed ? KV_NO_MEMORY : add_node(pages, reading->count++, node);
}

static kv_code read_own(struct reading *reading, enum wire_step step)
{
    struct pages *pages = reading->learner->pages;
    struct leaves *leaves = &reading->leaves;
    if (!leaves->on) /* we told of more than there is now: cannot be */
        return kv_fail(reading->status, KV_INTERNAL, "own leaves changed under a learner");
    kv_code code = KV_OK;
    struct entry *entry = NULL;
    if (step == WIRE_STEP_COPY)
        code = add_leaf(reading, leaves->key, &leaves->node);
    if (code == KV_OK && (step != WIRE_STEP_COPY || leaves->from_guess)) {
        /* What was guessed is new to us all the same. */
        struct entries *to = step == WIRE_STEP_COPY ? &pages->all : &pages->own;
        entry = add_entry(pages, to, leaves->key, &leaves->node);
        if (entry == NULL)
            code = KV_NO_MEMORY;
        else
            entry->value = leaves->value;
    }
    reading->own++;
    if (code != KV_OK)
        return no_memory(reading->status);
    return leaves_next(leaves);
}

static kv_code read_new(struct reading *reading)
{
    struct pages *pages = reading->learner->pages;
    struct wire_key *key = reading->learner->key;
    kv_slice value;
    if (!wire_get_leaf(reading->in, key, &value))
        return KV_OK;
    kv_slice name = kv_bytes(key->bytes, key->size);
    vmap_node node = vmap_leaf(name, value);
    struct entry *entry = add_entry(pages, &pages->all, name, &node);
    kv_code code = entry == NULL ? KV_NO_MEMORY : KV_OK;
    if (entry != NULL)
        entry->value = value;
    if (code == KV_OK)
        code = add_leaf(reading, name, &node);
    reading->learner->figures.leaves++;
    reading->learner->figures.leaf_bytes += name.size + value.size;
    return code == KV_OK ? KV_OK : no_memory(reading->status);
}

static kv_code read_leaves(struct reading *reading)
{
    struct wire_in *in = reading->in;
    size_t have = reading->want->have_count;
    enum wire_step step;
    uint64_t count;
    kv_code code = KV_OK;
    reading->learner->key->size = 0;
    reading->ordered = true;
    while (code == KV_OK && wire_get_step(in, &step, &count)) {
        if (step != WIRE_STEP_NEW && count > have - reading->own)
            in->bad = true;
        for (uint64_t i = 0; i < count && code == KV_OK && !in->bad; i++)
            code = step == WIRE_STEP_NEW ? read_new(reading) : read_own(reading, step);
    }
    if (code == KV_OK && (in->bad || reading->own != have)) {
        in->bad = true;
        code = unproven(reading->learner, reading->want, "list that does not decode",
                        reading->status);
    }
    return code;
}

static kv_code prove_leaves(struct reading *reading)
{
    reconnect_learner *learner = reading->learner;
    struct pages *pages = learner->pages;
    const struct want *want = reading->want;
    kv_range range = want_range(want);
    kv_slice last = kv_bytes(pages->last.data, pages->last.size);
    if (!reading->ordered)
        return unproven(learner, want, "keys out of place", reading->status);
    if (reading->count != want->node.size)
        return unproven(learner, want, "wrong number of leaves", reading->status);
    vmap_node node = vmap_fold(pages->nodes, reading->count);
    if (!node_equal(&node, &want->node))
        return unproven(learner, want, "does not fold to its digest", reading->status);
    /* These are the leaves of that digest. Where they stand was told with the
     * list above, whose digest does not cover it: then that was the lie. */
    if (!reading->placed || (range.limit.size > 0 && kv_compare(last, range.limit) >= 0)) {
        learner->misled = true;
        return unproven(learner, want, "is not where the list above it said", reading->status);
    }
    return KV_OK;
}

/* Stage what came and is new; `skipped` are ours that the page has not. */
static kv_code settle_leaves(reconnect_learner *learner, const struct want *want,
                             kv_status *status)
{
    struct pages *pages = learner->pages;
    unsigned map = learner->maps[want->map].stage;
    size_t own = 0, all = 0;
    kv_code code = KV_OK;
    while (code == KV_OK && (own < pages->own.count || all < pages->all.count)) {
        const struct entry *old = &pages->own.list[own], *new = &pages->all.list[all];
        int order = own == pages->own.count ? 1
                    : all == pages->all.count
                        ? -1
                        : kv_compare(key_of(pages, old), key_of(pages, new));
        if (order < 0) {
            code = stage_remove(&learner->stage, map, key_of(pages, old), status);
            learner->figures.leaves_removed++;
        } else if (order == 0 && node_equal(&old->node, &new->node)) {
            learner->figures.leaves_clean++;
        } else {
            code = stage_put(&learner->stage, map, key_of(pages, new), new->value, status);
            learner->figures.leaves_changed++;
        }
        own += order <= 0;
        all += order >= 0;
    }
    return code;
}

/* Without fingerprints the whole page came: pass over all of ours. Longer runs
 * of ours than of the page's are removed as they are met. */
static kv_code skip_all_own(struct reading *reading)
{
    reconnect_learner *learner = reading->learner;
    struct pages *pages = learner->pages;
    size_t all = 0;
    kv_code code = KV_OK;
    while (code == KV_OK && reading->leaves.on) {
        kv_slice key = reading->leaves.key;
        while (all < pages->all.count &&
               kv_compare(key_of(pages, &pages->all.list[all]), key) < 0)
            all++;
        if (all < pages->all.count &&
            kv_compare(key_of(pages, &pages->all.list[all]), key) == 0) {
            if (add_entry(pages, &pages->own, key, &reading->leaves.node) == NULL)
                code = no_memory(reading->status);
        } else {
            code = stage_remove(&learner->stage, learner->maps[reading->want->map].stage, key,
                                reading->status);
            learner->figures.leaves_removed++;
        }
        if (code == KV_OK)
            code = leaves_next(&reading->leaves);
    }
    return code;
}

static int compare_keys(const void *a, const void *b, void *context)
{
    return kv_compare(key_of(context, a), key_of(context, b));
}

/* What the guess removed is ours still: it counts as skipped. */
static kv_code skip_guessed(reconnect_learner *learner, const struct guess *guess,
                            kv_status *status)
{
    struct pages *pages = learner->pages;
    for (size_t i = 0; i < guess->count; i++)
        if (guess->leaves[i].value_size == 0 &&
            add_entry(pages, &pages->own, guess_key(guess, i), NULL) == NULL)
            return no_memory(status);
    qsort_r(pages->own.list, pages->own.count, sizeof(*pages->own.list), compare_keys, pages);
    return KV_OK;
}

static kv_code add_guess(struct guess *guess, kv_slice key, kv_slice value)
{
    struct guess_leaf *leaf = &guess->leaves[guess->count++];
    *leaf = (struct guess_leaf){ guess->text.size, key.size, value.size };
    wire_put(&guess->text, key.data, key.size);
    wire_put(&guess->text, value.data, value.size);
    return guess->text.failed ? KV_NO_MEMORY : KV_OK;
}

kv_code pages_guess(reconnect_learner *learner, struct want *want, kv_status *status)
{
    struct pages *pages = learner->pages;
    size_t own = 0, all = 0;
    guess_free(want->guess);
    want->guess = NULL;
    if (want->tier > 0 || want->attempt != ATTEMPT_SURE || !pages->guessable)
        return KV_OK;
    struct guess *guess = calloc(1, sizeof(*guess));
    if (guess != NULL)
        guess->leaves = calloc(pages->own.count + pages->all.count + 1, sizeof(*guess->leaves));
    if (guess == NULL || guess->leaves == NULL) {
        free(guess);
        return no_memory(status);
    }
    kv_code code = KV_OK;
    while (code == KV_OK && (own < pages->own.count || all < pages->all.count)) {
        const struct entry *old = &pages->own.list[own], *new = &pages->all.list[all];
        int order = own == pages->own.count ? 1
                    : all == pages->all.count
                        ? -1
                        : kv_compare(key_of(pages, old), key_of(pages, new));
        code = order < 0 ? add_guess(guess, key_of(pages, old), kv_bytes(NULL, 0))
                         : add_guess(guess, key_of(pages, new), new->value);
        own += order <= 0;
        all += order >= 0;
        if (guess->text.size > GUESS_SIZE_MAX)
            break;
    }
    if (code == KV_OK && guess->text.size <= GUESS_SIZE_MAX) {
        want->guess = guess;
        return KV_OK;
    }
    guess_free(guess);
    return code == KV_OK ? KV_OK : no_memory(status);
}

static kv_code take_leaves(reconnect_learner *learner, const struct want *want,
                           struct wire_in *in, kv_status *status)
{
    struct reading reading = { .learner = learner, .want = want, .in = in, .status = status };
    kv_code code = leaves_open(&reading.leaves, learner, want, status);
    if (code == KV_OK)
        code = read_leaves(&reading);
    if (code == KV_OK)
        code = prove_leaves(&reading);
    if (code == KV_OK && want->have_count == 0)
        code = skip_all_own(&reading);
    code = leaves_close(&reading.leaves, code);
    learner->pages->guessable = reading.ordered;
    if (code == KV_OK && want->guess != NULL)
        code = skip_guessed(learner, want->guess, status);
    if (code == KV_OK)
        code = settle_leaves(learner, want, status);
    if (code == KV_OK)
        learner->figures.leaves_done += want->node.size;
    return code;
}

/* Whether what we have, with what is staged, is the page already. */
static kv_code take_staged_leaves(reconnect_learner *learner, const struct want *want,
                                  kv_status *status)
{
    struct pages *pages = learner->pages;
    struct leaves leaves;
    size_t count = 0;
    kv_code code = leaves_open(&leaves, learner, want, status);
    while (code == KV_OK && leaves.on && count < want->node.size) {
        code = add_node(pages, count++, &leaves.node);
        if (code == KV_OK)
            code = leaves_next(&leaves);
    }
    bool whole = code == KV_OK && !leaves.on && count == want->node.size;
    code = leaves_close(&leaves, code);
    if (code == KV_NO_MEMORY)
        return no_memory(status);
    if (code != KV_OK)
        return code;
    if (!whole)
        return KV_NOT_FOUND;
    vmap_node node = vmap_fold(pages->nodes, count);
    if (!node_equal(&node, &want->node))
        return KV_NOT_FOUND;
    learner->figures.leaves_done += want->node.size;
    return KV_OK;
}

/* ---- Either ------------------------------------------------------------- */

kv_code pages_take(reconnect_learner *learner, const struct want *want, struct wire_in *in,
                   uint32_t teller, kv_status *status)
{
    reset(learner->pages);
    return want->tier == 0 ? take_leaves(learner, want, in, status)
                           : take_pages(learner, want, in, teller, status);
}

kv_code pages_take_staged(reconnect_learner *learner, const struct want *want,
                          kv_status *status)
{
    if (!learner->stage.found)
        return KV_NOT_FOUND;
    reset(learner->pages);
    kv_code code = want->tier == 0 ? take_staged_leaves(learner, want, status)
                                   : take_staged_pages(learner, want, status);
    if (code == KV_OK)
        learner->figures.resumed_pages++;
    return code;
}

void pages_skip(reconnect_learner *learner, unsigned tier, struct wire_in *in)
{
    enum wire_step step;
    uint64_t count;
    learner->key->size = 0;
    while (wire_get_step(in, &step, &count)) {
        for (uint64_t i = 0; i < count && step == WIRE_STEP_NEW && !in->bad; i++) {
            vmap_node node;
            kv_slice value;
            if (!(tier == 0 ? wire_get_leaf(in, learner->key, &value)
                            : wire_get_entry(in, tier, learner->key, &node)))
                return;
        }
    }
}

/* ---- Pages that are pushed ---------------------------------------------- */

/* The list of a page of level >= 1. */
static kv_code read_pushed_pages(reconnect_learner *learner, const struct want *want,
                                 struct wire_in *in, kv_status *status)
{
    struct pages *pages = learner->pages;
    uint64_t count = wire_get_number(in, UINT32_MAX);
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        vmap_node node;
        if (wire_get_entry(in, want->level, learner->key, &node) &&
            add_entry(pages, &pages->all, kv_bytes(learner->key->bytes, learner->key->size),
                      &node) == NULL)
            return no_memory(status);
    }
    if (in->bad || in->at != in->end)
        return unproven(learner, want, "list that does not decode", status);
    kv_code code = prove_pages(learner, want, status);
    return code == KV_OK ? gather_own(learner, want, status) : code;
}

static kv_code take_pushed_pages(reconnect_learner *learner, const struct want *want,
                                 struct wire_in *in, pages_visit visit, kv_status *status)
{
    struct pages *pages = learner->pages;
    kv_range whole = want_range(want);
    kv_code code = read_pushed_pages(learner, want, in, status);
    if (code != KV_OK)
        return code;
    match_own(pages);
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        kv_slice first = key_of(pages, entry);
        kv_range range = { i == 0 ? whole.first : first,
                           i + 1 < pages->all.count ? key_of(pages, &pages->all.list[i + 1])
                                                    : whole.limit };
        bool have = entry->own != SIZE_MAX;
        code = visit(learner, want, first, &range, &entry->node, have, status);
        if (code == KV_OK && have)
            code = keep_page(learner, want, entry, &range, status);
    }
    return code;
}

/* The list of a page of level 0: keys and leaf digests. */
static kv_code read_pushed_leaves(struct reading *reading)
{
    reconnect_learner *learner = reading->learner;
    struct pages *pages = learner->pages;
    struct wire_in *in = reading->in;
    uint64_t count = wire_get_number(in, UINT32_MAX);
    reading->ordered = true;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        kv_slice key = wire_get_key(in, learner->key, false);
        vmap_node node = { wire_get_digest(in), 1, 0 };
        if (in->bad)
            break;
        if (add_entry(pages, &pages->all, key, &node) == NULL ||
            add_leaf(reading, key, &node) != KV_OK)
            return no_memory(reading->status);
    }
    if (in->bad || in->at != in->end)
        return unproven(learner, reading->want, "list that does not decode", reading->status);
    return prove_leaves(reading);
}

static kv_code take_pushed_leaves(reconnect_learner *learner, const struct want *want,
                                  struct wire_in *in, pages_visit visit, kv_status *status)
{
    struct pages *pages = learner->pages;
    struct reading reading = { .learner = learner, .want = want, .in = in, .status = status };
    kv_code code = read_pushed_leaves(&reading);
    if (code == KV_OK)
        code = leaves_open(&reading.leaves, learner, want, status);
    for (size_t i = 0; i < pages->all.count && code == KV_OK; i++) {
        const struct entry *entry = &pages->all.list[i];
        kv_slice key = key_of(pages, entry);
        while (code == KV_OK && reading.leaves.on && kv_compare(reading.leaves.key, key) < 0) {
            code = stage_remove(&learner->stage, learner->maps[want->map].stage,
                                reading.leaves.key, status);
            learner->figures.leaves_removed++;
            if (code == KV_OK)
                code = leaves_next(&reading.leaves);
        }
        if (code != KV_OK)
            break;
        bool have = reading.leaves.on && kv_compare(reading.leaves.key, key) == 0;
        if (have) {
            have = node_equal(&reading.leaves.node, &entry->node);
            code = leaves_next(&reading.leaves);
        }
        kv_range none = { key, key };
        if (code == KV_OK)
            code = visit(learner, want, key, &none, &entry->node, have, status);
    }
    while (code == KV_OK && reading.leaves.on) {
        code = stage_remove(&learner->stage, learner->maps[want->map].stage, reading.leaves.key,
                            status);
        learner->figures.leaves_removed++;
        if (code == KV_OK)
            code = leaves_next(&reading.leaves);
    }
    return leaves_close(&reading.leaves, code);
}

kv_code pages_take_pushed(reconnect_learner *learner, const struct want *want, kv_slice body,
                          pages_visit visit, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    reset(learner->pages);
    learner->key->size = 0;
    return want->level == 0 ? take_pushed_leaves(learner, want, &in, visit, status)
                            : take_pushed_pages(learner, want, &in, visit, status);
}
