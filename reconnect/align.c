/* align.c - the longest common subsequence of short lists; long ones greedily, with
 * a window and an index for the gaps. */
#include "reconnect/align.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    EVIDENCE_BITS = 18,        /* equal bits in a row before two places count as the same, */
    INDEX_BITS = 48,           /* and when the whole list is searched */
    LONG_BITS = 12,            /* marks of so many are believed one by one */
    LOOK_AHEAD = 8,            /* entries that are compared where they are not */
    WINDOW = 24,               /* longest gap looked for entry by entry */
    EXACT_CELLS_MAX = 1 << 16, /* pairs of entries that are all compared */
    RUNS_MIN = 16
};

uint64_t align_of_leaf(uint64_t salt, const vmap_digest *digest)
{
    return XXH3_64bits_withSeed(digest->bytes, sizeof(digest->bytes), salt);
}

uint64_t align_of_page(const vmap_digest *digest)
{
    uint64_t mark = 0;
    for (int i = 7; i >= 0; i--)
        mark = mark << 8 | digest->bytes[i];
    return mark;
}

void align_clear(struct align *align)
{
    free(align->runs);
    *align = (struct align){ 0 };
}

/* A position of our list and the mark of the entries from there on. */
struct place {
    uint64_t mark;
    size_t at;
};

struct lists {
    const uint64_t *theirs, *ours;
    size_t their_count, our_count;
    uint64_t mask;
    bool long_marks;
    size_t evidence;     /* entries that must agree in a row, */
    size_t mark_size;    /* and when the whole list is searched */
    struct place *index; /* of our list, sorted; made when first needed */
    size_t index_count;
    struct align *out;
};

static kv_code add_run(struct align *align, enum wire_step step, size_t count)
{
    if (count == 0)
        return KV_OK;
    if (align->count > 0 && align->runs[align->count - 1].step == step) {
        align->runs[align->count - 1].count += (uint32_t)count;
        return KV_OK;
    }
    if (align->count == align->capacity) {
        size_t capacity = align->capacity == 0 ? RUNS_MIN : 2 * align->capacity;
        struct align_run *runs = realloc(align->runs, capacity * sizeof(*runs));
        if (runs == NULL)
            return KV_NO_MEMORY;
        align->runs = runs;
        align->capacity = capacity;
    }
    align->runs[align->count++] = (struct align_run){ step, (uint32_t)count };
    return KV_OK;
}

static bool same(const struct lists *lists, size_t their, size_t our)
{
    return ((lists->theirs[their] ^ lists->ours[our]) & lists->mask) == 0;
}

/* Whether both lists go on alike from here for `count` entries; both ending
 * together is as good. */
static bool resumes(const struct lists *lists, size_t their, size_t our, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool their_end = their + i >= lists->their_count, our_end = our + i >= lists->our_count;
        if (their_end || our_end)
            return their_end && our_end;
        if (!same(lists, their + i, our + i))
            return false;
    }
    return true;
}

/* How well the lists go on alike from here: 0 if not at all well. Short marks
 * agree by chance, so many are looked at, and not all need to agree: what follows
 * a change is often another one. */
static size_t score(const struct lists *lists, size_t their, size_t our)
{
    size_t matches = 0;
    for (size_t i = 0; i < LOOK_AHEAD; i++) {
        bool their_end = their + i >= lists->their_count, our_end = our + i >= lists->our_count;
        if (their_end && our_end)
            return matches + LOOK_AHEAD - i;
        if (their_end || our_end)
            break;
        matches += same(lists, their + i, our + i);
    }
    return matches >= lists->evidence ? matches : 0;
}

/* The same for marks long enough to be believed one by one: changed entries are
 * the likeliest, so that gaps of equal length need one match only. */
static size_t proof(const struct lists *lists, size_t their, size_t our, bool equal)
{
    return resumes(lists, their, our, equal ? 1 : lists->evidence) ? 1 : 0;
}

static uint64_t mark_at(const uint64_t *list, size_t at, size_t count, uint64_t mask)
{
    uint64_t mark = 0;
    for (size_t i = 0; i < count; i++)
        mark = (mark ^ (list[at + i] & mask)) * 0x9e3779b97f4a7c15u + (mark >> 29);
    return mark;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    if (left->mark != right->mark)
        return left->mark < right->mark ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

static kv_code make_index(struct lists *lists)
{
    if (lists->index != NULL || lists->our_count < lists->mark_size)
        return KV_OK;
    size_t count = lists->our_count - lists->mark_size + 1;
    lists->index = malloc(count * sizeof(*lists->index));
    if (lists->index == NULL)
        return KV_NO_MEMORY;
    lists->index_count = count;
    for (size_t i = 0; i < count; i++)
        lists->index[i] =
            (struct place){ mark_at(lists->ours, i, lists->mark_size, lists->mask), i };
    qsort(lists->index, count, sizeof(*lists->index), compare_places);
    return KV_OK;
}

/* The first place of our list from `least` on that is marked `mark`. */
static size_t find_mark(const struct lists *lists, uint64_t mark, size_t least)
{
    size_t low = 0, high = lists->index_count;
    struct place wanted = { mark, least };
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_places(&lists->index[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == lists->index_count || lists->index[low].mark != mark)
        return lists->our_count;
    return lists->index[low].at;
}

/* How much of each list to pass by at (their, our) before they agree again. */
static kv_code find_gap(struct lists *lists, size_t their, size_t our, size_t *their_gap,
                        size_t *our_gap)
{
    size_t their_left = lists->their_count - their, our_left = lists->our_count - our;
    for (size_t sum = 1; sum <= (size_t)2 * WINDOW; sum++) {
        size_t best = 0;
        for (size_t a = sum > WINDOW ? sum - WINDOW : 0; a <= sum && a <= WINDOW; a++) {
            if (a > their_left || sum - a > our_left)
                continue;
            size_t found = lists->long_marks
                               ? proof(lists, their + a, our + sum - a, 2 * a == sum)
                               : score(lists, their + a, our + sum - a);
            if (found > best) {
                best = found;
                *their_gap = a;
                *our_gap = sum - a;
            }
        }
        if (best > 0)
            return KV_OK;
    }

    kv_code code = make_index(lists);
    if (code != KV_OK)
        return code;
    for (size_t a = 0; a + lists->mark_size <= their_left; a++) {
        uint64_t mark = mark_at(lists->theirs, their + a, lists->mark_size, lists->mask);
        size_t at = find_mark(lists, mark, our);
        if (at < lists->our_count && resumes(lists, their + a, at, lists->mark_size)) {
            *their_gap = a;
            *our_gap = at - our;
            return KV_OK;
        }
    }
    *their_gap = their_left;
    *our_gap = our_left;
    return KV_OK;
}

static kv_code walk_lists(struct lists *lists)
{
    size_t their = 0, our = 0;
    while (their < lists->their_count || our < lists->our_count) {
        size_t equal = 0;
        while (their + equal < lists->their_count && our + equal < lists->our_count &&
               same(lists, their + equal, our + equal))
            equal++;
        kv_code code = add_run(lists->out, WIRE_STEP_COPY, equal);
        if (code != KV_OK)
            return code;
        their += equal;
        our += equal;
        if (their == lists->their_count && our == lists->our_count)
            break;

        size_t skip, take;
        code = find_gap(lists, their, our, &skip, &take);
        if (code == KV_OK)
            code = add_run(lists->out, WIRE_STEP_SKIP, skip);
        if (code == KV_OK)
            code = add_run(lists->out, WIRE_STEP_NEW, take);
        if (code != KV_OK)
            return code;
        their += skip;
        our += take;
    }
    return KV_OK;
}

/* ---- Short lists, exactly ----------------------------------------------- */

/* Put the steps of the longest common subsequence of what is left between the
 * lists' common ends: `lengths` holds it for every pair of suffixes. */
static kv_code follow(struct lists *lists, size_t begin, size_t their_end, size_t our_end,
                      const uint16_t *lengths, size_t width)
{
    size_t their = begin, our = begin;
    kv_code code = KV_OK;
    while (code == KV_OK && (their < their_end || our < our_end)) {
        const uint16_t *here = lengths + (their - begin) * width + (our - begin);
        if (their < their_end && our < our_end && same(lists, their, our) &&
            here[0] == here[width + 1] + 1) {
            code = add_run(lists->out, WIRE_STEP_COPY, 1);
            their++;
            our++;
        } else if (their < their_end && here[0] == here[width]) {
            code = add_run(lists->out, WIRE_STEP_SKIP, 1);
            their++;
        } else {
            code = add_run(lists->out, WIRE_STEP_NEW, 1);
            our++;
        }
    }
    return code;
}

static kv_code align_exactly(struct lists *lists)
{
    size_t begin = 0, their_end = lists->their_count, our_end = lists->our_count;
    while (begin < their_end && begin < our_end && same(lists, begin, begin))
        begin++;
    while (their_end > begin && our_end > begin && same(lists, their_end - 1, our_end - 1)) {
        their_end--;
        our_end--;
    }
    size_t height = their_end - begin + 1, width = our_end - begin + 1;
    uint16_t *lengths = calloc(height * width, sizeof(*lengths));
    if (lengths == NULL)
        return KV_NO_MEMORY;
    for (size_t i = height - 1; i-- > 0;) {
        uint16_t *row = lengths + i * width;
        const uint16_t *below = row + width;
        for (size_t k = width - 1; k-- > 0;) {
            uint16_t longer = row[k + 1] > below[k] ? row[k + 1] : below[k];
            bool both = same(lists, begin + i, begin + k) && below[k + 1] >= longer;
            row[k] = both ? (uint16_t)(below[k + 1] + 1) : longer;
        }
    }
    kv_code code = add_run(lists->out, WIRE_STEP_COPY, begin);
    if (code == KV_OK)
        code = follow(lists, begin, their_end, our_end, lengths, width);
    if (code == KV_OK)
        code = add_run(lists->out, WIRE_STEP_COPY, lists->their_count - their_end);
    free(lengths);
    return code;
}

kv_code align_lists(const uint64_t *theirs, size_t their_count, const uint64_t *ours,
                    size_t our_count, unsigned bits, struct align *out)
{
    out->count = 0;
    if (their_count == 0 || bits == 0) {
        kv_code code = add_run(out, WIRE_STEP_SKIP, their_count);
        return code != KV_OK ? code : add_run(out, WIRE_STEP_NEW, our_count);
    }

    struct lists lists = { .theirs = theirs,
                           .ours = ours,
                           .their_count = their_count,
                           .our_count = our_count,
                           .mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1,
                           .long_marks = bits >= LONG_BITS,
                           .evidence = (EVIDENCE_BITS + bits - 1) / bits,
                           .mark_size = (INDEX_BITS + bits - 1) / bits,
                           .out = out };
    bool exactly = !lists.long_marks && their_count < EXACT_CELLS_MAX &&
                   our_count < EXACT_CELLS_MAX && their_count * our_count < EXACT_CELLS_MAX;
    kv_code code = exactly ? align_exactly(&lists) : walk_lists(&lists);
    free(lists.index);
    return code;
}
