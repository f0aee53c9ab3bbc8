/*
 * push.h - the traversals that the teacher decides: push and level-by-level.
 *
 * The teacher sends lessons breadth first: PAGE (the entries of a page) and LEAF
 * (a pair), and for each entry of a page that it sent one lesson. The learner
 * answers whether it has the entries, one ANSWER for each PAGE, in the order in which
 * they came. Where an answer came in time the lesson is KEEP, one for a whole run.
 */
#ifndef RECONNECT_PUSH_H
#define RECONNECT_PUSH_H

#include "reconnect/teacher.h"

/* Entries whose lessons are not sent yet; beyond, the teacher waits for nothing
 * but sends no page that would add to them. */
#define PUSH_QUEUE_MAX (1u << 22)

/* Begin: push the maps marked in the BEGIN frame. */
KV_MUST_CHECK kv_code push_begin(reconnect_link *link, kv_slice body, kv_status *status);
/* An ANSWER frame. */
KV_MUST_CHECK kv_code push_answer(reconnect_link *link, kv_slice body, kv_status *status);
/* Put the next lesson, or at last END, into link->out. KV_NOT_FOUND: waiting. */
KV_MUST_CHECK kv_code push_next(reconnect_link *link, int64_t now_us, kv_status *status);
int64_t push_wake_us(const reconnect_link *link);
void push_free(struct push *push);

#endif /* RECONNECT_PUSH_H */
