/* teacher.h - inside the teacher: one link, and the two ways of serving it. */
#ifndef RECONNECT_TEACHER_H
#define RECONNECT_TEACHER_H

#include "reconnect/align.h"
#include "reconnect/reconnect.h"
#include "reconnect/walk.h"

/* Answers are gathered into frames of about this size; the first is shorter, and each twice
 * as long as the one before, so that the learner has something to do at once. */
#define LINK_FRAME_SIZE (16u << 10)
#define LINK_FRAME_SIZE_FIRST (4u << 10)
/* Want frames that wait; beyond, the link takes no input until some are served. */
#define LINK_WAITING_SIZE_MAX (4u << 20)

struct push; /* push.h */

enum link_phase {
    LINK_HELLO, /* waiting for it */
    LINK_PROOF,
    LINK_SERVING,
    LINK_PUSHING,
    LINK_PARTING, /* all is pushed and END sent; the learner may not have read it yet */
    LINK_ENDING,  /* END or ERROR is in the output */
    LINK_OVER
};

struct reconnect_teacher {
    state *state;
    reconnect_settings settings;
    reconnect_teacher_figures figures;
    double allowance; /* bytes that may be sent now, under rate_max */
    int64_t allowance_us;
    reconnect_link *queue; /* links that were refused for want of it, in turn */
};

/* A want frame that waits, and how far it is served. */
struct waiting {
    struct waiting *next;
    struct wire_in in; /* what is left of it */
    struct wire_want want;
    size_t served;
    bool gone; /* there is no such list here, whatever it asks */
    size_t size;
    uint8_t body[];
};

struct reconnect_link {
    reconnect_teacher *teacher;
    reconnect_link *queue_next;
    bool queued; /* in the teacher's queue */
    char name[RECONNECT_PEER_NAME_SIZE];
    enum link_phase phase;
    bool tell_peers;  /* it asked for other teachers */
    kv_status status; /* why it ended badly */
    int64_t begun_us, heard_us;

    struct wire_frames in;
    struct wire_out out; /* the frame being sent */
    size_t sent;

    uint8_t learner_nonce[WIRE_NONCE_SIZE], teacher_nonce[WIRE_NONCE_SIZE];
    uint64_t salt; /* of leaf fingerprints */
    struct wire_renew goal;
    vmap_digest learner_own;
    enum wire_traversal traversal;

    state_view *view;
    size_t map_count;
    struct walk **walks; /* made when first asked for */

    struct waiting *first, **last;
    size_t waiting_size;
    size_t frame_size;    /* of the next answer, at least; 0: it is the first */
    struct wire_key *key; /* decoding of the frame being served */
    struct align align;
    uint64_t *theirs, *ours; /* fingerprints, WIRE_HAVES_MAX and as many as needed */
    size_t ours_capacity;

    struct push *push;
};

/* ---- serve.c: answering wants ------------------------------------------- */

KV_MUST_CHECK kv_code serve_add(reconnect_link *link, kv_slice body, kv_status *status);
/* An AHEAD frame: of the view, if it has such a map and list. */
KV_MUST_CHECK kv_code serve_add_ahead(reconnect_link *link, kv_slice body, kv_status *status);
/* Put the next frame of answers into link->out. KV_NOT_FOUND: nothing waits. */
KV_MUST_CHECK kv_code serve_next(reconnect_link *link, kv_status *status);
void serve_clear(reconnect_link *link);

/* The walk over the `map`th map of the view. */
KV_MUST_CHECK kv_code link_walk(reconnect_link *link, unsigned map, struct walk **out,
                                kv_status *status);

#endif /* RECONNECT_TEACHER_H */
