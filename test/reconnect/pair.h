/*
 * pair.h - two states and a wire between them that a test can cut, slow down and
 * lie on. No sockets and no clock: time is a number that the wire advances.
 */
#ifndef TEST_RECONNECT_PAIR_H
#define TEST_RECONNECT_PAIR_H

#include "reconnect/reconnect.h"
#include "reconnect/wire.h"

/* In programs and in Criterion alike: say what is wrong, and abort. */
#define REQUIRE(condition, ...)                              \
    do {                                                     \
        if (!(condition))                                    \
            require_failed(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)
_Noreturn void require_failed(const char *file, int line, const char *format, ...)
    KV_PRINTF(3, 4);

struct side {
    kv_options *options;
    kv_db *db;
    state *state;
    char dir[64];
    char driver[16];
};

/* Open a state of its own; every failure of these ends the test. */
void side_open(struct side *side, const char *driver, const char *page_bits);
/* Open the state in `dir`, which side_shut leaves. */
void side_open_at(struct side *side, const char *driver, const char *dir);
void side_shut(struct side *side);
/* Close and open again. */
void side_reopen(struct side *side);
/* Close, and remove the folder. */
void side_close(struct side *side);
vmap *side_map(struct side *side, const char *map);
void side_put(struct side *side, const char *map, uint64_t key, uint64_t value);
void side_delete(struct side *side, const char *map, uint64_t key);
/* Keys [first, limit) with value = key + salt. */
void side_fill(struct side *side, const char *map, uint64_t first, uint64_t limit,
               uint64_t salt);
uint64_t side_commit(struct side *side);

/* A frame on its way; see wire_filter. */
struct frame {
    bool to_learner;
    unsigned type;
    size_t number;   /* of frames in this direction, from 0 */
    uint8_t *body;   /* may be changed in place, */
    size_t size;     /* or made shorter, */
    uint8_t *grown;  /* or replaced by malloc'ed bytes, which the wire frees */
    unsigned copies; /* 1; 0 loses it, 2 sends it twice */
};

struct wire {
    struct side *learner, *teacher;
    reconnect_goal goal;
    reconnect_settings settings, teacher_settings;
    /* Called with each frame; may be NULL. */
    void (*filter)(void *context, struct frame *frame);
    void *context;
    size_t chunk;        /* bytes handed over at once; 0: all there are */
    int64_t latency_us;  /* one way */
    uint64_t cut_after;  /* bytes to the learner after which it is cut; 0: never */
    uint64_t stop_after; /* the same, but the test simply stops there */
    void (*each_turn)(void *context, reconnect_learner *learner); /* may be NULL */
    bool keep_staged; /* after stop_after: leave the learner's staging */
    /* Outcome. */
    reconnect_figures figures;
    reconnect_peer_figures peer;
    reconnect_teacher_figures teacher_figures;
    uint64_t version;
    int64_t elapsed_us; /* of the wire's time */
    bool switched;
    kv_status teacher_status;
};

#define WIRE(learner_side, teacher_side)                                                 \
    {                                                                                    \
        .learner = (learner_side), .teacher = (teacher_side),                            \
        .settings = RECONNECT_SETTINGS_INIT, .teacher_settings = RECONNECT_SETTINGS_INIT \
    }

/* Tell the learner the teacher's app hash, as consensus does. */
void wire_tell(struct wire *wire);
/* Run until the learner has switched, failed, or was stopped (KV_OK). */
kv_code wire_run(struct wire *wire, kv_status *status);

/* Both states hold the same: app hash, every map, every pair, every key below
 * `keys` looked up in `maps`, and the digests recomputed from the values. */
void sides_equal(struct side *a, struct side *b);
/* Nothing is staged in the learner's database, or looks as if it were. */
void side_nothing_staged(struct side *side);
/* What is staged is what `teacher` holds: no lie is kept. */
void side_staged_true(struct side *side, struct side *teacher);
/* A second reconnect moves nothing: under 1 KiB and no page. */
void sides_at_rest(struct side *learner, struct side *teacher, reconnect_traversal traversal);

#endif /* TEST_RECONNECT_PAIR_H */
