/* session_basic.c - the promises of session.h, one by one. */
#include "session_test.h"

#include <stdlib.h>

TestSuite(session_wants, .timeout = 30);
TestSuite(session_peers, .timeout = 30);
TestSuite(session_answers, .timeout = 30);
TestSuite(session_limits, .timeout = 30);
TestSuite(session_inventory, .timeout = 30);
TestSuite(session_figures, .timeout = 30);

static struct asked asked;

/* ---- Wants -------------------------------------------------------------- */

Test(session_wants, one_want_one_peer_one_block)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 10000);

    want(session, 0, 7, 1);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked.count, 1);
    cr_assert_eq(asked_count(&asked, peer, SESSION_ASK_BLOCK, 7), 1);
    cr_assert(session_wanted(session, id_of(7).bytes, NULL));
    cr_assert_eq(block(session, 10000, peer, 7), SESSION_DELIVERED);
    cr_assert(!session_wanted(session, id_of(7).bytes, NULL));
    poll_all(session, 10000, &asked);
    cr_assert_eq(asked.count, 0, "nothing to cancel at the peer that answered");
    assert_idle(session);
    session_free(session);
}

Test(session_wants, the_same_id_is_asked_for_once)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 10000);
    struct id id = id_of(3);
    session_request twice[2] = { { id.bytes, 3 }, { id.bytes, 99 } };

    cr_assert_eq(session_want(session, 0, twice, 2, NULL), KV_OK);
    cr_assert_eq(figures_of(session).wants, 1);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked.count, 1);
    cr_assert_eq(block(session, 1, peer, 3), SESSION_DELIVERED, "the first tag stays");
    session_free(session);
}

Test(session_wants, waits_without_peers_and_goes_to_the_first_that_appears)
{
    session_machine *session = session_make(NULL);

    want(session, 0, 0, 20);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked.count, 0);
    cr_assert_eq(asked.need_peers, 1);
    cr_assert_eq(figures_of(session).starved, 20);

    session_peer peer = join(session, 5000, 1, 0);

    poll_all(session, 5000, &asked);
    cr_assert_eq(asked_count(&asked, peer, SESSION_ASK_BLOCK, UINT64_MAX), 16);
    cr_assert_eq(asked.messages, 1);
    session_free(session);
}

Test(session_wants, siblings_go_to_one_peer_in_one_message)
{
    session_machine *session = session_make(NULL);

    for (uint64_t i = 0; i < 4; i++)
        join(session, 0, i, 10000);
    want(session, 0, 0, 32);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked.count, 32);
    cr_assert_eq(asked.messages, 4);
    for (size_t i = 0; i < 32; i += 8)
        for (size_t j = 1; j < 8; j++) {
            cr_expect_eq(asked.entries[i].peer, asked.entries[i + j].peer);
            cr_expect_eq(asked.entries[i].number + j, asked.entries[i + j].number);
        }
    session_free(session);
}

Test(session_wants, cancel_tells_the_peer_and_leaves_nothing)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 10000);

    want(session, 0, 0, 3);
    poll_all(session, 0, &asked);
    cr_assert_eq(session_cancel(session, 1, id_of(1).bytes), KV_OK);
    cr_assert_eq(session_cancel(session, 1, id_of(1).bytes), KV_NOT_FOUND);
    poll_all(session, 1, &asked);
    cr_assert_eq(asked_count(&asked, peer, SESSION_CANCEL, 1), 1);
    cr_assert_eq(asked.count, 1);
    cr_assert_eq(block(session, 2, peer, 1), SESSION_DUPLICATE, "it crossed the cancel");
    cr_assert_eq(block(session, 2, peer, 1), SESSION_UNASKED);
    session_cancel_all(session, 3);
    poll_all(session, 3, &asked);
    cr_assert_eq(asked_count(&asked, peer, SESSION_CANCEL, UINT64_MAX), 2);
    assert_idle(session);
    session_free(session);
}

/* ---- Peers -------------------------------------------------------------- */

Test(session_peers, what_a_gone_peer_was_asked_for_goes_to_others_at_once)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 10000);

    want(session, 0, 0, 10);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, a, SESSION_ASK_BLOCK, UINT64_MAX), 10);

    session_peer b = join(session, 1, 2, 10000);

    session_leave(session, 2, a);
    poll_all(session, 2, &asked);
    cr_assert_eq(asked_count(&asked, b, SESSION_ASK_BLOCK, UINT64_MAX), 10);
    cr_assert_eq(asked.count, 10);
    cr_assert_eq(asked.entries[0].number, 0, "in their old order");
    cr_assert_eq(figures_of(session).requeued, 10);
    session_free(session);
}

Test(session_peers, one_that_returns_is_asked_again)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 10000);

    want(session, 0, 0, 5);
    poll_all(session, 0, &asked);
    session_leave(session, 1, peer);
    poll_all(session, 1, &asked);
    cr_assert_eq(asked.need_peers, 1);
    peer = join(session, 2, 1, 10000);
    poll_all(session, 2, &asked);
    cr_assert_eq(asked_count(&asked, peer, SESSION_ASK_BLOCK, UINT64_MAX), 5);
    session_free(session);
}

Test(session_peers, a_liar_is_out_for_good_and_nothing_of_it_counts)
{
    session_machine *session = session_make(NULL);
    session_peer liar = join(session, 0, 1, 1000);
    kv_status status = KV_STATUS_INIT;
    session_peer again;

    want(session, 0, 0, 6);
    poll_all(session, 0, &asked);

    session_peer honest = join(session, 1, 2, 50000);

    session_lie(session, 2, liar);
    poll_all(session, 2, &asked);
    cr_assert_eq(asked_count(&asked, honest, SESSION_ASK_BLOCK, UINT64_MAX), 6);
    cr_assert_eq(session_join(session, 3, 1, NULL, &again, &status), KV_UNPROVEN);
    cr_assert_eq(again, SESSION_NO_PEER);
    cr_assert_neq(strstr(status.message, "0000000000000001"), NULL);
    cr_assert_eq(figures_of(session).lies, 1);
    cr_assert_eq(figures_of(session).blocks, 0);
    session_free(session);
}

Test(session_peers, the_record_of_the_longest_gone_makes_room)
{
    session_config config = { .peers_max = 3 };
    session_machine *session = session_make(&config);
    session_peer a = join(session, 0, 1, 1000), b = join(session, 0, 2, 1000);
    session_peer c = join(session, 0, 3, 1000), d;

    (void)c;
    cr_assert_eq(session_join(session, 1, 4, NULL, &d, NULL), KV_TOO_BIG);
    cr_assert_eq(session_join(session, 1, 2, NULL, &d, NULL), KV_BUSY);
    session_leave(session, 2, b);
    session_leave(session, 3, a);
    cr_assert_eq(join(session, 4, 4, 0), b);
    cr_assert_eq(join(session, 4, 1, 0), a, "it had a record");
    session_free(session);
}

Test(session_peers, marks_of_a_slot_do_not_pass_to_its_next_owner)
{
    session_config config = { .peers_max = 1 };
    session_machine *session = session_make(&config);
    session_peer a = join(session, 0, 1, 1000);

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    missing(session, 1, a, 0);
    poll_all(session, 1, &asked);
    cr_assert_eq(asked.count, 0);
    session_leave(session, 2, a);

    session_peer b = join(session, 3, 2, 1000);

    poll_all(session, 3, &asked);
    cr_assert_eq(asked_count(&asked, b, SESSION_ASK_BLOCK, 0), 1);
    session_free(session);
}

/* ---- Answers ------------------------------------------------------------ */

Test(session_answers, missing_goes_to_the_next_best_at_once)
{
    session_machine *session = session_make(NULL);
    session_peer fast = join(session, 0, 1, 1000), slow = join(session, 0, 2, 20000);

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, fast, SESSION_ASK_BLOCK, 0), 1);
    missing(session, 1000, fast, 0);
    poll_all(session, 1000, &asked);
    cr_assert_eq(asked_count(&asked, slow, SESSION_ASK_BLOCK, 0), 1);
    cr_assert_eq(asked.count, 1);
    session_free(session);
}

Test(session_answers, an_overdue_want_gets_one_copy_more_and_the_loser_a_cancel)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 10000), b = join(session, 0, 2, 11000);
    int64_t now_us;

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, a, SESSION_ASK_BLOCK, 0), 1);
    now_us = session_wake_us(session);
    cr_assert_lt(now_us, 1000000);
    poll_all(session, now_us - 1, &asked);
    cr_assert_eq(asked.count, 0);
    poll_all(session, now_us, &asked);
    cr_assert_eq(asked_count(&asked, b, SESSION_ASK_BLOCK, 0), 1);
    cr_assert_eq(asked.count, 1);
    cr_assert_eq(block(session, now_us + 100, a, 0), SESSION_DELIVERED, "late is not never");
    poll_all(session, now_us + 100, &asked);
    cr_assert_eq(asked_count(&asked, b, SESSION_CANCEL, 0), 1);
    cr_assert_eq(block(session, now_us + 200, b, 0), SESSION_DUPLICATE);
    cr_assert_eq(figures_of(session).duplicate_blocks, 1);
    cr_assert_eq(figures_of(session).hedged, 1);
    assert_idle(session);
    session_free(session);
}

/* The time before the first block, and later pauses, were taken for its pace, so that a
 * peer that fell silent then was given seconds. */
Test(session_answers, silence_is_noticed_soon_on_a_clock_that_is_old)
{
    const int64_t start_us = 1000000000000;
    session_machine *session = session_make(NULL);
    session_peer silent = join(session, start_us, 1, 2000),
                 good = join(session, start_us, 2, 0);
    int64_t now_us = start_us;
    unsigned answers = 0;

    want(session, start_us, 0, 100);
    while (figures_of(session).wants > 0 && now_us < start_us + 5000000) {
        poll_all(session, now_us, &asked);
        now_us += 20000;
        for (size_t i = 0; i < asked.count; i++)
            if (asked.entries[i].op == SESSION_ASK_BLOCK &&
                (asked.entries[i].peer == good || answers++ < 4))
                block(session, now_us, asked.entries[i].peer, asked.entries[i].number);
    }
    cr_assert_geq(answers, 8, "it was to be asked for more");
    cr_assert_leq(now_us - start_us, 500000, "%lld us", (long long)(now_us - start_us));
    cr_assert_geq(figures_of(session).overdue, 1);
    (void)silent;
    session_free(session);
}

Test(session_answers, never_more_than_two_copies)
{
    session_machine *session = session_make(NULL);
    session_peer peers[5];

    for (uint64_t i = 0; i < 5; i++)
        peers[i] = join(session, 0, i, 10000);
    want(session, 0, 0, 1);

    int out[5] = { 0 };

    for (int64_t now_us = 0; now_us < 60000000 && now_us >= 0;
         now_us = session_wake_us(session)) {
        int flying = 0;

        poll_all(session, now_us, &asked);
        for (int i = 0; i < 5; i++) {
            out[i] += (int)asked_count(&asked, peers[i], SESSION_ASK_BLOCK, 0);
            out[i] -= (int)asked_count(&asked, peers[i], SESSION_CANCEL, 0);
            cr_assert(out[i] == 0 || out[i] == 1, "peer %d holds %d copies", i, out[i]);
            flying += out[i];
        }
        cr_assert_leq(flying, 2);
        cr_assert_leq(figures_of(session).in_flight, 2);
    }
    session_free(session);
}

Test(session_answers, the_last_wants_move_from_a_slow_peer_to_a_fast_one)
{
    session_machine *session = session_make(NULL);
    session_peer slow = join(session, 0, 1, 400000);

    want(session, 0, 0, 20);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, slow, SESSION_ASK_BLOCK, UINT64_MAX), 20);

    session_peer fast = join(session, 1000, 2, 1000);

    poll_all(session, 1000, &asked);
    cr_assert_eq(asked_count(&asked, fast, SESSION_ASK_BLOCK, UINT64_MAX), 20);
    cr_assert_eq(asked_count(&asked, slow, SESSION_CANCEL, UINT64_MAX), 20);
    cr_assert_eq(figures_of(session).moved, 20);
    session_free(session);
}

Test(session_answers, others_are_asked_whether_they_have_what_was_missing)
{
    session_machine *session = session_make(NULL);
    session_peer first = join(session, 0, 1, 1000);

    for (uint64_t i = 2; i < 40; i++)
        join(session, 0, i, 2000);
    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    missing(session, 1000, first, 0);
    poll_all(session, 1000, &asked);
    cr_assert_eq(asked_count(&asked, SESSION_NO_PEER, SESSION_ASK_BLOCK, 0), 1);
    cr_assert_eq(asked_count(&asked, SESSION_NO_PEER, SESSION_ASK_HAVE, 0), 4);

    session_peer owner = SESSION_NO_PEER, holder = SESSION_NO_PEER;

    for (size_t i = 0; i < asked.count; i++)
        if (asked.entries[i].op == SESSION_ASK_HAVE)
            holder = asked.entries[i].peer;
        else
            owner = asked.entries[i].peer;
    session_have(session, 2500, holder, id_of(0).bytes);
    poll_all(session, 2500, &asked);
    cr_assert_eq(asked.count, 0, "one copy is in flight");
    missing(session, 3000, owner, 0);
    poll_all(session, 3000, &asked);
    cr_assert_eq(asked_count(&asked, holder, SESSION_ASK_BLOCK, 0), 1);
    session_free(session);
}

/* ---- Limits ------------------------------------------------------------- */

Test(session_limits, bad_config_is_refused_with_a_reason)
{
    session_config bad[] = { { .wants_max = SESSION_WANTS_MAX + 1 },
                             { .peers_max = SESSION_PEERS_MAX + 1 },
                             { .mode = (session_mode)7 },
                             { .timeout_min_us = 5, .timeout_max_us = 4 } };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kv_status status = KV_STATUS_INIT;
        session_machine *session = (session_machine *)&status;

        cr_expect_eq(session_new(&bad[i], &session, &status), KV_INVALID);
        cr_expect_eq(session, NULL);
        cr_expect_neq(status.message[0], 0);
    }
}

Test(session_limits, wants_past_the_limit_are_refused_all_or_none)
{
    session_config config = { .wants_max = 10 };
    session_machine *session = session_make(&config);
    struct id ids[11];
    session_request requests[11];

    for (uint64_t i = 0; i < 11; i++) {
        ids[i] = id_of(i);
        requests[i] = (session_request){ ids[i].bytes, i };
    }
    cr_assert_eq(session_want(session, 0, requests, 11, NULL), KV_TOO_BIG);
    cr_assert_eq(figures_of(session).wants, 0);
    cr_assert_eq(session_want(session, 0, requests, 10, NULL), KV_OK);
    cr_assert_eq(session_want(session, 0, &requests[10], 1, NULL), KV_TOO_BIG);
    session_free(session);
}

Test(session_limits, a_window_bounds_what_is_in_flight)
{
    session_config config = { .window_max = 40 };
    session_machine *session = session_make(&config);
    session_peer peer = join(session, 0, 1, 10000);
    uint64_t next = 0;

    want(session, 0, 0, 2000);
    for (int64_t now_us = 0; next < 2000; now_us += 10000) {
        poll_all(session, now_us, &asked);
        cr_assert_leq(figures_of(session).in_flight, 40);
        cr_assert_gt(figures_of(session).in_flight, 0);
        while (next < 2000 && block(session, now_us + 10000, peer, next) == SESSION_DELIVERED &&
               figures_of(session).in_flight > 0)
            next++;
        next = figures_of(session).blocks;
    }
    assert_idle(session);
    session_free(session);
}

Test(session_limits, a_want_costs_at_most_200_bytes_and_the_steady_state_none)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 10000);
    size_t empty = figures_of(session).memory;

    want(session, 0, 0, 200000);

    size_t full = figures_of(session).memory;

    cr_assert_leq((full - empty) / 200000, 200, "%zu bytes a want", (full - empty) / 200000);
    for (uint64_t i = 0; i < 200000; i++) {
        cr_assert_eq(block(session, 1, peer, i), SESSION_DELIVERED);
        want(session, 1, 200000 + i, 1);
    }
    cr_assert_eq(figures_of(session).memory, full);
    session_free(session);
}

/* ---- Inventories -------------------------------------------------------- */

Test(session_inventory, a_filter_knows_what_was_added_and_little_else)
{
    for (size_t count = 1; count <= 20000; count = count * 5 + 1) {
        size_t size = session_filter_size(count);
        uint8_t *filter = malloc(size);
        size_t wrong = 0;

        cr_assert_leq(size, SESSION_FILTER_SIZE_MAX);
        session_filter_init(filter, size, count);
        for (uint64_t i = 0; i < count; i++)
            session_filter_add(filter, size, id_of(i).bytes);
        for (uint64_t i = 0; i < count; i++)
            cr_assert(session_filter_has(filter, size, id_of(i).bytes));
        for (uint64_t i = 0; i < 20000; i++)
            wrong += session_filter_has(filter, size, id_of(1000000 + i).bytes);
        cr_expect_leq(wrong, 20, "%zu of 20,000 for %zu ids", wrong, count);
        free(filter);
    }
    cr_assert_eq(session_filter_size(100000), 0, "too many for a filter");
}

Test(session_inventory, nobody_is_asked_for_what_it_does_not_hold)
{
    session_machine *session = session_make(NULL);
    session_peer even = join(session, 0, 1, 1000), odd = join(session, 0, 2, 30000);
    size_t size = session_filter_size(50);
    uint8_t *filter = malloc(size);

    for (uint64_t parity = 0; parity < 2; parity++) {
        session_filter_init(filter, size, 50);
        for (uint64_t i = parity; i < 100; i += 2)
            session_filter_add(filter, size, id_of(i).bytes);
        cr_assert_eq(session_inventory(session, 0, parity == 0 ? even : odd,
                                       kv_bytes(filter, size), NULL),
                     KV_OK);
    }
    want(session, 0, 0, 40);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked.count, 40);
    for (size_t i = 0; i < asked.count; i++)
        cr_expect_eq(asked.entries[i].peer, asked.entries[i].number % 2 == 0 ? even : odd);
    free(filter);
    session_free(session);
}

Test(session_inventory, bytes_that_are_no_filter_are_refused)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    uint8_t bytes[SESSION_FILTER_SIZE_MAX + 1] = { 5 };
    static const size_t wrong[] = { 0, 3, 4, 11, 13, 21, SESSION_FILTER_SIZE_MAX + 1 };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_expect_eq(session_inventory(session, 0, peer, kv_bytes(bytes, wrong[i]), NULL),
                     KV_INVALID, "%zu bytes", wrong[i]);
    cr_assert_eq(session_inventory(session, 0, peer, kv_bytes(bytes, 12), NULL), KV_OK);
    bytes[0] = 0;
    cr_assert_eq(session_inventory(session, 0, peer, kv_bytes(bytes, 12), NULL), KV_INVALID);
    bytes[0] = 33;
    cr_assert_eq(session_inventory(session, 0, peer, kv_bytes(bytes, 12), NULL), KV_INVALID);
    bytes[0] = 5;
    bytes[2] = 1;
    cr_assert_eq(session_inventory(session, 0, peer, kv_bytes(bytes, 12), NULL), KV_INVALID);
    session_free(session);
}

/* ---- Figures ------------------------------------------------------------ */

Test(session_figures, useful_duplicate_and_unasked_are_told_apart)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 10000), b = join(session, 0, 2, 99000);
    session_peer_figures peer;

    want(session, 0, 0, 2);
    poll_all(session, 0, &asked);
    cr_assert_eq(block(session, 10000, a, 0), SESSION_DELIVERED);
    cr_assert_eq(block(session, 10000, b, 0), SESSION_UNASKED);
    cr_assert_eq(block(session, 10000, b, 1), SESSION_DELIVERED,
                 "asked of another: still good");
    cr_assert_eq(block(session, 10000, a, 1), SESSION_DUPLICATE);
    cr_assert_eq(block(session, 10000, a, 77), SESSION_UNASKED);

    session_figures figures = figures_of(session);

    cr_assert_eq(figures.blocks, 2);
    cr_assert_eq(figures.bytes, 200);
    cr_assert_eq(figures.duplicate_blocks, 1);
    cr_assert_eq(figures.unasked_blocks, 2);
    cr_assert(session_measure_peer(session, 0, &peer));
    cr_assert_eq(peer.blocks, 1);
    cr_assert_eq(peer.duplicate_blocks, 1);
    cr_assert_eq(peer.asked, 2);
    cr_assert(!session_measure_peer(session, 2, &peer));
    session_free(session);
}

Test(session_figures, the_text_form_reads_like_bitswap_stat)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 0xabc, 10000);
    char text[1024], cut[40];

    want(session, 0, 0, 3);
    poll_all(session, 0, &asked);
    block(session, 10000, peer, 0);

    size_t length = session_print(session, text, sizeof text, NULL, NULL);

    cr_assert_eq(length, strlen(text));
    cr_assert_neq(strstr(text, "\tblocks received: 1\n"), NULL, "%s", text);
    cr_assert_neq(strstr(text, "\tdup blocks received: 0\n"), NULL);
    cr_assert_neq(strstr(text, "\twantlist [2 keys]\n"), NULL);
    cr_assert_neq(strstr(text, "\tpartners [1]\n\t\t0000000000000abc"), NULL);
    cr_assert_eq(session_print(session, cut, sizeof cut, NULL, NULL), length);
    cr_assert_eq(strncmp(cut, text, sizeof cut - 1), 0);
    cr_assert_eq(session_print(session, NULL, 0, NULL, NULL), length);
    session_free(session);
}
