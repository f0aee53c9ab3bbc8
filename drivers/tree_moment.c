/*
 * tree_moment.c - moments, and when what was unlinked may be freed.
 *
 * An item is in the tree for the writes [birth, death). What a write unlinks is
 * either seen by the newest moment, and then joins that moment's dead; or by no
 * moment, and then only readers that are inside tree_get may still hold it, and
 * it waits in limbo for them to leave.
 *
 * When a moment goes, those of its dead that were born after the next older
 * moment are seen by none and go to limbo; the others pass to that moment. The
 * dead are a pairing heap with the latest born on top, so both are cheap: an
 * item is looked at once when it goes, not once for each moment it outlives.
 */
#include "drivers/tree_private.h"

#include <stdlib.h>

/* ---- The dead, as a heap --------------------------------------------------- */

static struct tree_item *heap_meld(struct tree_item *a, struct tree_item *b)
{
    if (a == NULL)
        return b;
    if (b == NULL)
        return a;
    if (a->birth < b->birth) {
        struct tree_item *other = a;
        a = b;
        b = other;
    }
    b->next = a->child;
    a->child = b;
    return a;
}

static struct tree_item *heap_push(struct tree_item *heap, struct tree_item *item)
{
    item->child = NULL;
    item->next = NULL;
    return heap_meld(heap, item);
}

/* The heap without its top: children melded in pairs, then into one. */
static struct tree_item *heap_pop(struct tree_item *top)
{
    struct tree_item *pairs = NULL;
    for (struct tree_item *child = top->child; child != NULL;) {
        struct tree_item *second = child->next;
        struct tree_item *rest = second == NULL ? NULL : second->next;
        child->next = NULL;
        if (second != NULL)
            second->next = NULL;
        struct tree_item *pair = heap_meld(child, second);
        pair->next = pairs;
        pairs = pair;
        child = rest;
    }
    struct tree_item *heap = NULL;
    while (pairs != NULL) {
        struct tree_item *rest = pairs->next;
        pairs->next = NULL;
        heap = heap_meld(heap, pairs);
        pairs = rest;
    }
    return heap;
}

/* ---- Chains ---------------------------------------------------------------- */

void tree_chain_push(struct tree_chain *chain, struct tree_item *item)
{
    item->next = NULL;
    item->child = NULL;
    if (chain->tail == NULL)
        chain->head = item;
    else
        chain->tail->next = item;
    chain->tail = item;
    chain->count++;
}

static void chain_append(struct tree_chain *chain, struct tree_chain *more)
{
    if (more->head == NULL)
        return;
    if (chain->tail == NULL)
        chain->head = more->head;
    else
        chain->tail->next = more->head;
    chain->tail = more->tail;
    chain->count += more->count;
    *more = (struct tree_chain){ NULL, NULL, 0 };
}

static void chain_free(struct tree *tree, struct tree_chain *chain)
{
    uint64_t bytes = 0;
    while (chain->head != NULL) {
        struct tree_item *item = chain->head;
        chain->head = item->next;
        bytes += tree_item_bytes(item);
        tree_item_free(tree, item);
    }
    if (bytes > 0)
        atomic_fetch_add_explicit(&tree->bytes_freed, bytes, memory_order_relaxed);
    *chain = (struct tree_chain){ NULL, NULL, 0 };
}

/* ---- Readers and limbo ----------------------------------------------------- */

static _Atomic unsigned threads_seen;
static _Thread_local unsigned thread_number; /* from 1 */

/*
 * A reader counts itself in the epoch that is still current afterwards. Epoch e
 * gives way to e + 1 only when nobody is left from e - 1, so while a reader of
 * epoch e is inside, the epoch is at most e + 1, and what was unlinked in e or
 * later, which is all it can hold, is not freed before epoch e + 2.
 */
_Atomic uint32_t *tree_reader_enter(struct tree *tree)
{
    if (thread_number == 0)
        thread_number = 1 + atomic_fetch_add_explicit(&threads_seen, 1, memory_order_relaxed);
    struct tree_stripe *stripe = &tree->stripes[thread_number % TREE_STRIPES];
    for (;;) {
        uint64_t epoch = atomic_load(&tree->epoch);
        _Atomic uint32_t *inside = &stripe->inside[epoch % TREE_EPOCHS];
        atomic_fetch_add(inside, 1);
        if (atomic_load(&tree->epoch) == epoch)
            return inside;
        atomic_fetch_sub(inside, 1);
    }
}

void tree_reader_leave(_Atomic uint32_t *inside)
{
    atomic_fetch_sub_explicit(inside, 1, memory_order_release);
}

/* Go on to the next epoch if nobody is left from the one before; hand over
 * what that makes ripe. Under tree->publish. */
static bool epoch_advance(struct tree *tree, struct tree_chain *ripe)
{
    uint64_t epoch = atomic_load_explicit(&tree->epoch, memory_order_relaxed);
    unsigned before = (unsigned)((epoch + TREE_EPOCHS - 1) % TREE_EPOCHS);
    for (unsigned i = 0; i < TREE_STRIPES; i++)
        if (atomic_load(&tree->stripes[i].inside[before]) != 0)
            return false;
    epoch++;
    atomic_store(&tree->epoch, epoch);
    chain_append(ripe, &tree->limbo[(epoch + 1) % TREE_EPOCHS]);
    return true;
}

static size_t limbo_count(const struct tree *tree)
{
    return tree->limbo[0].count + tree->limbo[1].count + tree->limbo[2].count;
}

/* Hand over what is ripe; all of limbo when no reader is inside. */
static void limbo_collect(struct tree *tree, struct tree_chain *ripe)
{
    for (unsigned i = 0; i < TREE_EPOCHS && limbo_count(tree) > 0; i++)
        if (!epoch_advance(tree, ripe))
            return;
}

static struct tree_chain *limbo_now(struct tree *tree)
{
    return &tree->limbo[atomic_load_explicit(&tree->epoch, memory_order_relaxed) % TREE_EPOCHS];
}

void tree_limbo_drain(struct tree *tree)
{
    struct tree_chain ripe = { NULL, NULL, 0 };
    pthread_mutex_lock(&tree->publish);
    limbo_collect(tree, &ripe);
    pthread_mutex_unlock(&tree->publish);
    chain_free(tree, &ripe);
}

/* ---- Publishing ------------------------------------------------------------ */

/* Part `dead` into what a moment of this version sees and what none does. */
static struct tree_item *dead_part(struct tree_chain *dead, uint64_t version,
                                   struct tree_chain *unseen)
{
    struct tree_item *heap = NULL;
    for (struct tree_item *item = dead->head; item != NULL;) {
        struct tree_item *rest = item->next;
        if (item->birth <= version)
            heap = heap_push(heap, item);
        else
            tree_chain_push(unseen, item);
        item = rest;
    }
    *dead = (struct tree_chain){ NULL, NULL, 0 };
    return heap;
}

/* Undo dead_part. */
static void dead_join(struct tree_chain *dead, struct tree_item *heap,
                      struct tree_chain *unseen)
{
    chain_append(dead, unseen);
    while (heap != NULL) {
        struct tree_item *top = heap;
        heap = heap_pop(top);
        tree_chain_push(dead, top);
    }
}

bool tree_publish(struct tree *tree, bool force)
{
    struct tree_chain ripe = { NULL, NULL, 0 };
    struct tree_chain unseen = { NULL, NULL, 0 };
    /* The long part is done before the lock, for the moment that is likely. */
    uint64_t version = atomic_load_explicit(&tree->newest_version, memory_order_relaxed);
    struct tree_item *heap = dead_part(&tree->dead, version, &unseen);

    pthread_mutex_lock(&tree->publish);
    uint64_t newest = atomic_load_explicit(&tree->newest_version, memory_order_relaxed);
    if (newest != version) {
        dead_join(&tree->dead, heap, &unseen);
        heap = force ? dead_part(&tree->dead, newest, &unseen) : NULL;
    }
    bool fits = force || (newest == version && newest == tree->floor);
    if (fits) {
        atomic_store_explicit(tree->slot, tree->value, memory_order_release);
        tree->version = tree->now;
        if (heap != NULL)
            tree->newest->dead = heap_meld(tree->newest->dead, heap);
        chain_append(limbo_now(tree), &unseen);
        if (limbo_count(tree) >= TREE_LIMBO_ITEMS)
            limbo_collect(tree, &ripe);
    }
    pthread_mutex_unlock(&tree->publish);

    if (!fits)
        return false;
    uint64_t keys = atomic_load_explicit(&tree->keys, memory_order_relaxed);
    atomic_store_explicit(&tree->keys, keys + (uint64_t)tree->keys_added, memory_order_relaxed);
    tree->keys_added = 0;
    chain_free(tree, &ripe);
    return true;
}

/* ---- Moments --------------------------------------------------------------- */

struct tree_moment *tree_moment_take(struct tree *tree)
{
    struct tree_moment *made = malloc(sizeof(*made));
    if (made == NULL)
        return NULL;

    pthread_mutex_lock(&tree->publish);
    struct tree_moment *moment = tree->newest;
    if (moment == NULL || moment->version != tree->version) {
        moment = made;
        made = NULL;
        *moment = (struct tree_moment){
            .version = tree->version,
            .roots =
                (struct tree_roots *)atomic_load_explicit(&tree->roots, memory_order_relaxed),
            .older = tree->newest,
        };
        if (tree->newest != NULL)
            tree->newest->newer = moment;
        tree->newest = moment;
        atomic_store_explicit(&tree->newest_version, moment->version, memory_order_relaxed);
        tree->moments++;
    }
    moment->refs++;
    pthread_mutex_unlock(&tree->publish);
    free(made);
    return moment;
}

/* Take a moment nobody holds out of the row; the next older one is kept alive
 * for its dead. Under tree->publish. */
static struct tree_moment *moment_unlink(struct tree *tree, struct tree_moment *moment)
{
    struct tree_moment *older = moment->older;
    if (older != NULL) {
        older->newer = moment->newer;
        older->refs++;
    }
    if (moment->newer != NULL) {
        moment->newer->older = older;
    } else {
        tree->newest = older;
        atomic_store_explicit(&tree->newest_version, older == NULL ? 0 : older->version,
                              memory_order_relaxed);
    }
    tree->moments--;
    return older;
}

void tree_moment_release(struct tree *tree, struct tree_moment *moment)
{
    struct tree_chain ripe = { NULL, NULL, 0 };
    pthread_mutex_lock(&tree->publish);
    while (moment != NULL && --moment->refs == 0) {
        struct tree_moment *older = moment_unlink(tree, moment);
        pthread_mutex_unlock(&tree->publish);

        uint64_t version = older == NULL ? 0 : older->version;
        struct tree_item *heap = moment->dead;
        struct tree_chain unseen = { NULL, NULL, 0 };
        while (heap != NULL && heap->birth > version) {
            struct tree_item *top = heap;
            heap = heap_pop(top);
            tree_chain_push(&unseen, top);
        }
        free(moment);

        pthread_mutex_lock(&tree->publish);
        chain_append(limbo_now(tree), &unseen);
        limbo_collect(tree, &ripe);
        if (older != NULL)
            older->dead = heap_meld(older->dead, heap);
        moment = older;
    }
    pthread_mutex_unlock(&tree->publish);
    chain_free(tree, &ripe);
}
