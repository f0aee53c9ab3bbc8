/* guess.c - what an answer would have made of a page of leaves, had it folded. */
#include "reconnect/pages.h"

#include <stdlib.h>
#include <string.h>

enum { GUESS_SIZE_MAX = 64 << 10 };

void guess_free(struct guess *guess)
{
    if (guess == NULL)
        return;
    wire_out_clear(&guess->text);
    free(guess->leaves);
    free(guess);
}

kv_slice guess_key(const struct guess *guess, size_t at)
{
    return kv_bytes(guess->text.data + guess->leaves[at].at, guess->leaves[at].key_size);
}

kv_slice guess_value(const struct guess *guess, size_t at)
{
    const struct guess_leaf *leaf = &guess->leaves[at];
    return kv_bytes(guess->text.data + leaf->at + leaf->key_size, leaf->value_size);
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
        return pages_no_memory(status);
    }
    kv_code code = KV_OK;
    while (code == KV_OK && (own < pages->own.count || all < pages->all.count)) {
        const struct entry *old = &pages->own.list[own], *new = &pages->all.list[all];
        int order = pages_order(pages, own, all);
        code = order < 0 ? add_guess(guess, pages_key(pages, old), kv_bytes(NULL, 0))
                         : add_guess(guess, pages_key(pages, new), new->value);
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
    return code == KV_OK ? KV_OK : pages_no_memory(status);
}

static int compare_keys(const void *a, const void *b, void *context)
{
    return kv_compare(pages_key(context, a), pages_key(context, b));
}

/* What the guess removed is ours still: it counts as skipped. */
kv_code guess_skip(reconnect_learner *learner, const struct guess *guess, kv_status *status)
{
    struct pages *pages = learner->pages;
    for (size_t i = 0; i < guess->count; i++)
        if (guess->leaves[i].value_size == 0 &&
            pages_add(pages, &pages->own, guess_key(guess, i), NULL) == NULL)
            return pages_no_memory(status);
    qsort_r(pages->own.list, pages->own.count, sizeof(*pages->own.list), compare_keys, pages);
    return KV_OK;
}
