/*
 * liar.c - a teacher whose frames are changed on the way: bytes flipped, added
 * and taken away, frames lost, doubled, cut short, exchanged, of another kind.
 * Whatever comes, the learner ends at its old or at the right new version, says
 * which, has staged nothing that is not true, and reaches the goal when an honest
 * teacher is asked next.
 *
 *     test_reconnect_liar [ROUNDS [SEED]]
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum lie {
    LIE_FLIP,    /* a bit */
    LIE_BYTE,    /* a byte */
    LIE_INSERT,  /* a byte too many */
    LIE_DELETE,  /* one too few */
    LIE_CUT,     /* the end of a frame */
    LIE_EMPTY,   /* all of a frame */
    LIE_LOSE,    /* a frame, so that silence follows */
    LIE_TWICE,   /* the same frame again */
    LIE_KIND,    /* another kind of frame */
    LIE_GARBAGE, /* random bytes */
    LIE_REPLAY,  /* an earlier frame instead: right somewhere else */
    LIE_HUGE,    /* lengths of 2^32 and more inside */
    LIE_KINDS
};

struct liar {
    uint64_t random;
    enum lie lie;
    size_t number; /* of the frame that is changed */
    bool to_learner;
    bool told;
    uint8_t *kept; /* an earlier frame's body */
    size_t kept_size;
    unsigned kept_type;
};

static uint64_t draw(struct liar *liar, uint64_t below)
{
    liar->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = liar->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below == 0 ? 0 : (z ^ (z >> 31)) % below;
}

static void grow(struct liar *liar, struct frame *frame)
{
    size_t at = (size_t)draw(liar, frame->size + 1);
    frame->grown = malloc(frame->size + 1);
    memcpy(frame->grown, frame->body, at);
    frame->grown[at] = (uint8_t)draw(liar, 256);
    memcpy(frame->grown + at + 1, frame->body + at, frame->size - at);
    frame->size++;
}

static void garble(struct liar *liar, struct frame *frame)
{
    size_t size = (size_t)draw(liar, 2000);
    frame->grown = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        frame->grown[i] = (uint8_t)draw(liar, 256);
    frame->size = size;
}

static void make_huge(struct liar *liar, struct frame *frame)
{
    size_t at = (size_t)draw(liar, frame->size);
    for (size_t i = at; i < frame->size && i < at + 9; i++)
        frame->body[i] = 0xff;
}

static void replay(const struct liar *liar, struct frame *frame)
{
    frame->grown = malloc(liar->kept_size + 1);
    memcpy(frame->grown, liar->kept, liar->kept_size);
    frame->size = liar->kept_size;
    frame->type = liar->kept_type;
}

static void tell(struct liar *liar, struct frame *frame)
{
    size_t at = (size_t)draw(liar, frame->size);
    bool some = frame->size > 0;
    switch (liar->lie) {
    case LIE_FLIP:
        if (some)
            frame->body[at] ^= (uint8_t)(1u << draw(liar, 8));
        return;
    case LIE_BYTE:
        if (some)
            frame->body[at] = (uint8_t)draw(liar, 256);
        return;
    case LIE_INSERT:
        grow(liar, frame);
        return;
    case LIE_DELETE:
        if (some)
            memmove(frame->body + at, frame->body + at + 1, --frame->size - at);
        return;
    case LIE_CUT:
        frame->size = at;
        return;
    case LIE_EMPTY:
        frame->size = 0;
        return;
    case LIE_LOSE:
        frame->copies = 0;
        return;
    case LIE_TWICE:
        frame->copies = 2;
        return;
    case LIE_KIND:
        frame->type = 1 + (unsigned)draw(liar, 14);
        return;
    case LIE_GARBAGE:
        garble(liar, frame);
        return;
    case LIE_REPLAY:
        replay(liar, frame);
        return;
    default:
        make_huge(liar, frame);
    }
}

static void filter(void *context, struct frame *frame)
{
    struct liar *liar = context;
    if (frame->to_learner != liar->to_learner)
        return;
    if (frame->number == liar->number) {
        tell(liar, frame);
        liar->told = true;
        return;
    }
    if (draw(liar, 3) != 0)
        return;
    free(liar->kept);
    liar->kept = malloc(frame->size + 1);
    memcpy(liar->kept, frame->body, frame->size);
    liar->kept_size = frame->size;
    liar->kept_type = frame->type;
}

static void make_sides(struct side *learner, struct side *teacher, struct liar *liar)
{
    side_open(learner, "memory", liar->random % 2 == 0 ? "3" : NULL);
    side_open(teacher, "memory", liar->random % 2 == 0 ? "3" : NULL);
    uint64_t size = 1 + draw(liar, 600);
    side_fill(learner, "map", 0, size, 0);
    side_fill(teacher, "map", 0, size, 0);
    side_fill(learner, "other", 0, draw(liar, 200), 0);
    side_fill(teacher, "other", 0, draw(liar, 200), draw(liar, 2));
    side_commit(learner);
    side_commit(teacher);
    for (uint64_t i = draw(liar, size); i > 0; i--) {
        uint64_t key = draw(liar, 2 * size);
        if (draw(liar, 3) == 0)
            side_delete(teacher, "map", key);
        else
            side_put(teacher, "map", key, key + 1);
    }
    side_commit(teacher);
}

/* Frames that a run without lies has in a direction. */
static size_t count_frames(struct side *learner, struct side *teacher,
                           reconnect_traversal traversal, bool to_learner)
{
    struct wire wire = WIRE(learner, teacher);
    kv_status status = KV_STATUS_INIT;
    wire.goal.traversal = traversal;
    wire_tell(&wire);
    wire.stop_after = UINT64_MAX;
    REQUIRE(wire_run(&wire, &status) == KV_OK, "%s", status.message);
    return (size_t)(to_learner ? wire.figures.messages_in : wire.figures.messages_out);
}

struct tally {
    unsigned rounds, harmless, refused;
};

static void round_of_lies(struct liar *liar, struct tally *tally)
{
    struct side learner, teacher, twin;
    reconnect_traversal traversal = (reconnect_traversal)draw(liar, 5);
    uint64_t begin = liar->random;
    make_sides(&learner, &teacher, liar);
    liar->random = begin;
    side_close(&teacher);
    make_sides(&twin, &teacher, liar); /* the same again, to count frames on */
    liar->to_learner = draw(liar, 4) != 0;
    size_t frames = count_frames(&twin, &teacher, traversal, liar->to_learner);
    side_close(&twin);

    liar->lie = (enum lie)draw(liar, LIE_KINDS);
    liar->number = (size_t)draw(liar, frames);
    liar->kept = calloc(1, 1);
    liar->kept_size = 0;
    liar->kept_type = WIRE_OFFER;
    struct wire wire = WIRE(&learner, &teacher);
    kv_status status = KV_STATUS_INIT;
    vmap_digest before = state_app_hash(learner.state);
    wire.goal.traversal = traversal;
    wire_tell(&wire);
    wire.filter = filter;
    wire.context = liar;
    wire.chunk = 1 + (size_t)draw(liar, 5000);
    kv_code code = wire_run(&wire, &status);
    free(liar->kept);

    if (code == KV_OK) {
        REQUIRE(wire.switched, "it ended without a switch");
        tally->harmless++;
    } else {
        vmap_digest after = state_app_hash(learner.state);
        REQUIRE(status.message[0] != '\0', "a refusal without a reason");
        REQUIRE(memcmp(&before, &after, sizeof(before)) == 0, "refused, but not as it was: %s",
                status.message);
        side_staged_true(&learner, &teacher);
        tally->refused++;
        struct wire honest = WIRE(&learner, &teacher);
        kv_status why = KV_STATUS_INIT;
        honest.goal.traversal = draw(liar, 2) == 0 ? RECONNECT_DIFF : traversal;
        REQUIRE(wire_run(&honest, &why) == KV_OK, "after \"%s\": %s", status.message,
                why.message);
    }
    sides_equal(&learner, &teacher);
    side_nothing_staged(&learner);
    side_close(&learner);
    side_close(&teacher);
    tally->rounds++;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 60;
    struct liar liar = { .random = argc > 2 ? strtoull(argv[2], NULL, 10) : 1 };
    struct tally tally = { 0 };
    for (unsigned long i = 0; i < rounds; i++) {
        uint64_t seed = liar.random;
        /* The seed of a round that aborts is the last one printed. */
        fprintf(stderr, "\rround %lu, seed %llu ", i, (unsigned long long)seed);
        round_of_lies(&liar, &tally);
    }
    fprintf(stderr, "\n");
    printf("%u rounds: %u lies refused, %u harmless\n", tally.rounds, tally.refused,
           tally.harmless);
    return tally.refused > 0 && tally.harmless < tally.rounds ? 0 : 1;
}
