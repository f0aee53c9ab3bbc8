/* session_test.h - what the session's tests share: actions on record. */
#ifndef TEST_SESSION_SESSION_TEST_H
#define TEST_SESSION_SESSION_TEST_H

#include "session_ids.h"

#include <criterion/criterion.h>
#include <string.h>

static inline session_machine *session_make(const session_config *config)
{
    session_machine *session;
    kv_status status = KV_STATUS_INIT;

    cr_assert_eq(session_new(config, &session, &status), KV_OK, "%s", status.message);
    return session;
}

static inline session_peer join(session_machine *session, int64_t now_us, uint64_t name,
                                int64_t rtt_us)
{
    session_hello hello = { .rtt_us = rtt_us };
    session_peer peer;
    kv_status status = KV_STATUS_INIT;

    cr_assert_eq(session_join(session, now_us, name, &hello, &peer, &status), KV_OK, "%s",
                 status.message);
    return peer;
}

/* Wants `first` .. `first + count - 1`, each tagged with its number. */
static inline void want(session_machine *session, int64_t now_us, uint64_t first, size_t count)
{
    kv_status status = KV_STATUS_INIT;

    for (size_t i = 0; i < count; i++) {
        struct id id = id_of(first + i);
        session_request request = { .id = id.bytes, .tag = first + i };

        cr_assert_eq(session_want(session, now_us, &request, 1, &status), KV_OK, "%s",
                     status.message);
    }
}

enum { ASKED_MAX = 1 << 18 };

/* What a round of polling asked for. */
struct asked {
    size_t messages, count, need_peers;
    struct {
        session_peer peer;
        session_op op;
        uint64_t number;
    } entries[ASKED_MAX];
};

static inline void poll_all(session_machine *session, int64_t now_us, struct asked *asked)
{
    session_action action;

    asked->messages = asked->count = asked->need_peers = 0;
    while (session_poll(session, now_us, &action)) {
        if (action.kind == SESSION_NEED_PEERS) {
            asked->need_peers++;
            continue;
        }
        asked->messages++;
        for (size_t i = 0; i < action.count; i++) {
            struct id id = id_of(action.entries[i].tag);

            cr_assert_eq(memcmp(id.bytes, action.entries[i].id, SESSION_ID_SIZE), 0);
            cr_assert_lt(asked->count, ASKED_MAX);
            asked->entries[asked->count].peer = action.peer;
            asked->entries[asked->count].op = action.entries[i].op;
            asked->entries[asked->count++].number = action.entries[i].tag;
        }
    }
}

/* How many entries match; SESSION_NO_PEER and UINT64_MAX match any. */
static inline size_t asked_count(const struct asked *asked, session_peer peer, session_op op,
                                 uint64_t number)
{
    size_t count = 0;

    for (size_t i = 0; i < asked->count; i++)
        count += (peer == SESSION_NO_PEER || asked->entries[i].peer == peer) &&
                 asked->entries[i].op == op &&
                 (number == UINT64_MAX || asked->entries[i].number == number);
    return count;
}

static inline session_verdict block(session_machine *session, int64_t now_us, session_peer peer,
                                    uint64_t number)
{
    struct id id = id_of(number);
    uint64_t tag = UINT64_MAX;
    session_verdict verdict = session_block(session, now_us, peer, id.bytes, 100, &tag);

    if (verdict == SESSION_DELIVERED)
        cr_assert_eq(tag, number);
    return verdict;
}

static inline void missing(session_machine *session, int64_t now_us, session_peer peer,
                           uint64_t number)
{
    struct id id = id_of(number);

    session_missing(session, now_us, peer, id.bytes);
}

static inline session_figures figures_of(const session_machine *session)
{
    session_figures figures;

    session_measure(session, &figures);
    return figures;
}

/* Everything that counts what is under way stands at zero. */
static inline void assert_idle(session_machine *session)
{
    session_figures figures = figures_of(session);

    cr_assert_eq(figures.wants, 0);
    cr_assert_eq(figures.queued, 0);
    cr_assert_eq(figures.starved, 0);
    cr_assert_eq(figures.in_flight, 0);
    cr_assert_eq(session_wake_us(session), INT64_MAX);
}

#endif /* TEST_SESSION_SESSION_TEST_H */
