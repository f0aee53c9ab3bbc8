/*
 * session_faults.c - the faults that others met, each by its name: those of the
 * algorithm of 2018, and threads of ipfs/go-bitswap, ipfs/kubo, ipfs/boxo and
 * projects built on them.
 */
#include "bench/session_sim.h"
#include "session_test.h"

#include <stdlib.h>

TestSuite(session_faults_2018, .timeout = 60);
TestSuite(session_faults_later, .timeout = 60);

static struct asked asked;

static struct sim_result run_row(const struct sim_row *row, session_mode mode,
                                 enum sim_greeting greeting)
{
    struct sim_run run = { .row = row, .mode = mode, .greeting = greeting, .seed = 5 };
    struct sim_result result = sim_run(&run);

    cr_assert(result.finished);
    return result;
}

/* Answers for everything that was asked of `peer`, in order; how many. */
static size_t answer_all(session_machine *session, int64_t now_us, session_peer peer)
{
    size_t count = 0;

    for (size_t i = 0; i < asked.count; i++)
        if (asked.entries[i].peer == peer && asked.entries[i].op == SESSION_ASK_BLOCK) {
            block(session, now_us, peer, asked.entries[i].number);
            count++;
        }
    return count;
}

/* ---- The algorithm of 2018 ---------------------------------------------- */

/* go-bitswap 120: the first block of its own drops the split, so each key goes to
 * all known peers, and half of what comes is duplicates. */
Test(session_faults_2018, go_bitswap_120_each_key_goes_to_one_peer_where_all_have_all)
{
    static const struct sim_row row = {
        .name = "120", .peers = 9, .blocks = 500, .block_size = 100, .order = ORDER_BY_10
    };

    cr_assert_eq(run_row(&row, SESSION_DEFAULT, GREETING_NOTHING).dups_late, 0);
    cr_assert_gt(run_row(&row, SESSION_ROUND1, GREETING_NOTHING).dups_late, 0);
}

/* Late responders to a broadcast are not credited: one peer does all the work. */
Test(session_faults_2018, every_peer_that_can_help_helps)
{
    session_machine *session = session_make(NULL);
    session_peer peers[6];
    session_peer_figures figures;

    for (uint64_t i = 0; i < 6; i++)
        peers[i] = join(session, 0, i, 0);
    want(session, 0, 0, 600);
    for (int64_t now_us = 0; figures_of(session).wants > 0; now_us += 20000) {
        poll_all(session, now_us, &asked);
        for (int i = 0; i < 6; i++)
            answer_all(session, now_us + 20000, peers[i]);
    }
    for (size_t i = 0; session_measure_peer(session, i, &figures); i++)
        cr_expect_geq(figures.blocks, 60, "peer %zu: %llu of 600", i,
                      (unsigned long long)figures.blocks);
    session_free(session);
}

/* go-bitswap 163: duplicates caused by the fallback change how wants are split. */
Test(session_faults_2018, go_bitswap_163_duplicates_of_hedges_change_no_window)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 10000), b = join(session, 0, 2, 10500);
    session_peer_figures before, after;

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);

    int64_t late_us = session_wake_us(session);

    poll_all(session, late_us, &asked);
    cr_assert_eq(block(session, late_us + 1000, a, 0), SESSION_DELIVERED);
    session_measure_peer(session, b, &before);
    cr_assert_eq(block(session, late_us + 2000, b, 0), SESSION_DUPLICATE);
    session_measure_peer(session, b, &after);
    cr_assert_eq(before.window, after.window);
    cr_assert_eq(before.have_percent, after.have_percent);
    cr_assert_eq(before.rtt_us, after.rtt_us);
    session_free(session);
}

/* The ratio was cumulative: after 1,000 blocks it barely moves. */
Test(session_faults_2018, the_have_rate_follows_the_last_64_answers)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    session_peer_figures figures;

    for (uint64_t i = 0; i < 1064; i++) {
        want(session, (int64_t)i * 1000, i, 1);
        poll_all(session, (int64_t)i * 1000, &asked);
        if (i < 1000)
            block(session, (int64_t)i * 1000 + 1000, peer, i);
        else
            missing(session, (int64_t)i * 1000 + 1000, peer, i);
        session_measure_peer(session, 0, &figures);
        if (i == 999)
            cr_assert_eq(figures.have_percent, 100);
    }
    cr_assert_eq(figures.have_percent, 0);
    session_free(session);
}

/* The idle tick sent all live wants to all peers: 10,700 duplicates in one cell. */
Test(session_faults_2018, silence_never_makes_a_storm)
{
    session_machine *session = session_make(NULL);
    size_t entries = 0;

    for (uint64_t i = 0; i < 300; i++)
        join(session, 0, i, 50000);
    want(session, 0, 0, 32);
    for (int64_t now_us = 0; now_us < 10000000; now_us = session_wake_us(session)) {
        poll_all(session, now_us, &asked);
        entries += asked.count;
    }
    cr_assert_geq(entries, 64, "each was hedged");
    cr_assert_leq(entries, 32 * 40, "%zu requests in ten silent seconds", entries);
    session_free(session);

    struct sim_row slow = *sim_row_find("RealWorld-SlowVariableSpeedNetwork-bandwidth");

    slow.name = "storm";
    cr_assert_leq(run_row(&slow, SESSION_DEFAULT, GREETING_NOTHING).dups, 75);
}

/* Dead peers stayed in their groups, and their keys waited for a whole tick. */
Test(session_faults_2018, wants_of_a_dead_peer_do_not_wait_for_a_timer)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 1000), b = join(session, 0, 2, 300000);

    want(session, 0, 0, 8);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, a, SESSION_ASK_BLOCK, UINT64_MAX), 8);
    session_leave(session, 5, a);
    poll_all(session, 5, &asked);
    cr_assert_eq(asked_count(&asked, b, SESSION_ASK_BLOCK, UINT64_MAX), 8);
    session_free(session);
}

/* One block made room for one want: no batches after the first. */
Test(session_faults_2018, blocks_of_one_message_are_refilled_together)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 10000);

    want(session, 0, 0, 500);
    poll_all(session, 0, &asked);

    size_t first = answer_all(session, 10000, peer);

    cr_assert_geq(first, 16);
    poll_all(session, 10000, &asked);
    cr_assert_eq(asked.messages, 1);
    cr_assert_geq(asked.count, first);
    session_free(session);
}

/* Past wants, and the queue's backing array, grew without bound. */
Test(session_faults_2018, nothing_grows_with_what_was_fetched)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    size_t memory = 0;

    for (uint64_t i = 0; i < 50000; i++) {
        want(session, (int64_t)i, i, 1);
        poll_all(session, (int64_t)i, &asked);
        block(session, (int64_t)i, peer, i);
        if (i == 1000)
            memory = figures_of(session).memory;
    }
    cr_assert_eq(figures_of(session).memory, memory);
    assert_idle(session);
    session_free(session);
}

/* The mean latency was divided by zero before the first block. */
Test(session_faults_2018, a_tick_before_the_first_block_is_harmless)
{
    for (int mode = SESSION_DEFAULT; mode <= SESSION_BROADCAST; mode++) {
        session_config config = { .mode = (session_mode)mode };
        session_machine *session = session_make(&config);

        join(session, 0, 1, 0);
        want(session, 0, 0, 3);
        poll_all(session, 0, &asked);
        for (int i = 0; i < 3; i++)
            poll_all(session, session_wake_us(session), &asked);
        session_free(session);
    }
}

/* A list handed out shared its memory with the list inside. */
Test(session_faults_2018, what_is_handed_out_is_not_what_is_kept)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    struct id id = id_of(1), copy = id;
    session_request request = { id.bytes, 1 };
    session_action action;

    cr_assert_eq(session_want(session, 0, &request, 1, NULL), KV_OK);
    memset(&id, 0xee, sizeof id);
    cr_assert(session_poll(session, 0, &action));
    cr_assert_eq(memcmp(action.entries[0].id, copy.bytes, SESSION_ID_SIZE), 0);
    cr_assert(session_wanted(session, copy.bytes, NULL));
    /* The id of an action may be given back although the want dies of it. */
    cr_assert_eq(session_block(session, 1, peer, action.entries[0].id, 9, NULL),
                 SESSION_DELIVERED);
    session_free(session);
}

/* Counters went to all sessions under one lock. */
Test(session_faults_2018, sessions_do_not_hear_of_each_other)
{
    session_machine *one = session_make(NULL), *two = session_make(NULL);
    session_peer peer = join(one, 0, 1, 1000);

    join(two, 0, 1, 1000);
    want(one, 0, 0, 1);
    want(two, 0, 0, 1);
    poll_all(one, 0, &asked);
    block(one, 1, peer, 0);
    block(one, 1, peer, 0);
    cr_assert_eq(figures_of(two).blocks, 0);
    cr_assert_eq(figures_of(two).unasked_blocks + figures_of(two).duplicate_blocks, 0);
    cr_assert_eq(figures_of(two).wants, 1);
    session_free(one);
    session_free(two);
}

/* ---- Threads ------------------------------------------------------------ */

/* go-bitswap 8: all wants went out before anything was known of the peers. */
Test(session_faults_later, go_bitswap_8_unknown_peers_get_a_first_helping_only)
{
    session_machine *session = session_make(NULL);

    for (uint64_t i = 0; i < 20; i++)
        join(session, 0, i, 0);
    want(session, 0, 0, 10000);
    poll_all(session, 0, &asked);
    cr_assert_leq(asked.count, 20 * 16);
    for (size_t i = 0; i < asked.count; i++)
        cr_assert_eq(
            asked_count(&asked, SESSION_NO_PEER, SESSION_ASK_BLOCK, asked.entries[i].number),
            1);
    session_free(session);
}

/* go-bitswap 366: 76 percent duplicates, for answers a little slow were given up. */
Test(session_faults_later, go_bitswap_366_a_slowish_answer_is_not_given_up)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 100000);

    join(session, 0, 2, 120000);
    for (uint64_t i = 0; i < 50; i++) {
        int64_t start_us = (int64_t)i * 1000000;

        want(session, start_us, i, 1);
        poll_all(session, start_us, &asked);
        poll_all(session, start_us + 139000, &asked);
        cr_assert_eq(asked.count, 0, "asked again after 139 of 140 ms");
        block(session, start_us + 140000, a, i);
        poll_all(session, start_us + 140000, &asked);
    }
    cr_assert_eq(figures_of(session).hedged, 0);
    session_free(session);
}

/* go-bitswap 165: a block that another session had asked for was taken for an answer,
 * so its latency was what that session's question took. */
Test(session_faults_later, go_bitswap_165_what_came_unasked_says_nothing_of_latency)
{
    session_machine *session = session_make(NULL);
    session_peer near = join(session, 0, 1, 1000), far = join(session, 0, 2, 80000);
    session_peer_figures before, after;

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, near, SESSION_ASK_BLOCK, 0), 1);
    session_measure_peer(session, far, &before);
    cr_assert_eq(block(session, 5, far, 0), SESSION_DELIVERED, "good all the same");
    session_measure_peer(session, far, &after);
    cr_assert_eq(before.rtt_us, after.rtt_us);
    cr_assert_eq(before.service_us, after.service_us);
    cr_assert_eq(before.window, after.window);
    session_free(session);
}

/* go-bitswap 166: the wait in a batch was taken for latency. */
Test(session_faults_later, go_bitswap_166_a_batch_tells_service_from_latency)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 20000);
    session_peer_figures figures;
    uint64_t next = 0;

    want(session, 0, 0, 2000);
    for (int64_t now_us = 0; next < 2000;) {
        poll_all(session, now_us, &asked);
        now_us += 20000;
        for (size_t i = 0; i < asked.count; i++, next++)
            block(session, now_us += 2000, peer, asked.entries[i].number);
    }
    session_measure_peer(session, 0, &figures);
    cr_expect_leq(figures.rtt_us, 40000, "%lld", (long long)figures.rtt_us);
    cr_expect(figures.service_us >= 1000 && figures.service_us <= 3000, "%lld",
              (long long)figures.service_us);
    session_free(session);
}

/* go-bitswap 167: a peer that does not answer kept the latency of its last answer. */
Test(session_faults_later, go_bitswap_167_silence_is_not_taken_for_speed)
{
    session_machine *session = session_make(NULL);
    session_peer near = join(session, 0, 1, 1000), far = join(session, 0, 2, 80000);
    uint64_t to_near = 0, to_far = 0;

    for (uint64_t i = 0; i < 20; i++) {
        int64_t start_us = (int64_t)i * 1000000;
        bool silent = i >= 10;

        want(session, start_us, i, 1);
        for (int64_t us = start_us; us < start_us + 900000; us = session_wake_us(session)) {
            poll_all(session, us, &asked);
            if (silent)
                to_near += asked_count(&asked, near, SESSION_ASK_BLOCK, i);
            else
                answer_all(session, us + 1000, near);
            to_far += asked_count(&asked, far, SESSION_ASK_BLOCK, i);
            answer_all(session, us + 80000, far);
        }
        cr_assert(!session_wanted(session, id_of(i).bytes, NULL), "want %llu",
                  (unsigned long long)i);
    }
    cr_assert_leq(to_near, 1, "asked %llu times while it was silent",
                  (unsigned long long)to_near);
    cr_assert_eq(to_far, 10);
    session_free(session);
}

/* go-bitswap 168: windows should follow what a peer brings in the time an answer takes;
 * one for all of them starves the fast and floods the slow. */
Test(session_faults_later, go_bitswap_168_windows_follow_bandwidth_and_delay)
{
    static struct {
        uint64_t number;
        int64_t done_us;
    } queues[2][1024]; /* what each is about to send */
    const int64_t service_us[2] = { 500, 20000 };
    session_machine *session = session_make(NULL);
    session_peer peers[2] = { join(session, 0, 1, 20000), join(session, 0, 2, 20000) };
    session_peer_figures fast, slow;
    uint64_t first[2] = { 0, 0 }, last[2] = { 0, 0 };
    int64_t busy_until_us[2] = { 0, 0 };

    want(session, 0, 0, 20000);
    for (int64_t now_us = 0; now_us < 4000000; now_us += 500) {
        poll_all(session, now_us, &asked);
        for (size_t i = 0; i < asked.count; i++) {
            int to = asked.entries[i].peer == peers[1];

            if (asked.entries[i].op != SESSION_ASK_BLOCK)
                continue;
            if (busy_until_us[to] < now_us)
                busy_until_us[to] = now_us;
            busy_until_us[to] += service_us[to];
            queues[to][last[to] % 1024].number = asked.entries[i].number;
            queues[to][last[to]++ % 1024].done_us = busy_until_us[to] + 20000;
        }
        for (int from = 0; from < 2; from++)
            for (;
                 first[from] < last[from] && queues[from][first[from] % 1024].done_us <= now_us;
                 first[from]++)
                block(session, now_us, peers[from], queues[from][first[from] % 1024].number);
    }
    session_measure_peer(session, 0, &fast);
    session_measure_peer(session, 1, &slow);
    cr_expect_leq(slow.in_flight, (20000 + 200000) / 20000 + 3, "%u", slow.in_flight);
    cr_expect_geq(fast.in_flight, 20000 / 500, "%u: less leaves it idle", fast.in_flight);
    cr_expect_geq(fast.blocks, 7000, "%llu of 8,000 possible", (unsigned long long)fast.blocks);
    cr_expect_geq(slow.blocks, 180, "%llu of 200 possible", (unsigned long long)slow.blocks);
    session_free(session);
}

/* go-bitswap 194: a get that hung until its deadline with nobody told. */
Test(session_faults_later, go_bitswap_194_a_want_that_cannot_be_had_is_reported)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    size_t reports = 0;

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    missing(session, 1000, peer, 0);
    for (int64_t now_us = 1000; now_us < 100000000; now_us = session_wake_us(session)) {
        poll_all(session, now_us, &asked);
        reports += asked.need_peers;
        if (asked_count(&asked, peer, SESSION_ASK_BLOCK, 0) > 0)
            missing(session, now_us, peer, 0);
        poll_all(session, now_us, &asked);
        reports += asked.need_peers;
    }
    cr_assert(reports >= 3 && reports <= 12, "%zu reports in 100 s", reports);
    session_free(session);
}

/* go-bitswap 244: hangs if the one peer asked never answers. */
Test(session_faults_later, go_bitswap_244_silence_sends_the_want_elsewhere)
{
    session_machine *session = session_make(NULL);
    session_peer silent = join(session, 0, 1, 1000), other = join(session, 0, 2, 90000);

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked_count(&asked, silent, SESSION_ASK_BLOCK, 0), 1);
    cr_assert_leq(session_wake_us(session), 500000);
    poll_all(session, session_wake_us(session), &asked);
    cr_assert_eq(asked_count(&asked, other, SESSION_ASK_BLOCK, 0), 1);
    session_free(session);
}

/* go-bitswap 258: an unresponsive peer stays in the session and is given more. */
Test(session_faults_later, go_bitswap_258_a_silent_peer_gets_one_want_at_a_time)
{
    session_machine *session = session_make(NULL);
    session_peer silent = join(session, 0, 1, 1000), good = join(session, 0, 2, 5000);
    session_peer_figures figures;
    uint64_t next = 0;

    for (int64_t now_us = 0; now_us < 5000000; now_us += 5000) {
        if (figures_of(session).wants < 50) {
            want(session, now_us, next, 50);
            next += 50;
        }
        poll_all(session, now_us, &asked);
        answer_all(session, now_us + 4999, good);
    }
    session_measure_peer(session, silent, &figures);
    cr_assert_leq(figures.asked, 100, "%llu", (unsigned long long)figures.asked);
    cr_assert_gt(figures_of(session).blocks, 5000);
    session_free(session);
}

/* go-bitswap 259: all peers exhausted, and nobody looks for others. */
Test(session_faults_later, go_bitswap_259_exhausted_peers_mean_more_are_needed)
{
    session_machine *session = session_make(NULL);

    for (uint64_t i = 0; i < 3; i++)
        join(session, 0, i, 1000);
    want(session, 0, 0, 1);

    bool needed = false;

    for (int64_t now_us = 0; now_us < 3000000 && !needed; now_us += 1000) {
        poll_all(session, now_us, &asked);
        needed = asked.need_peers > 0;
        for (size_t i = 0; i < asked.count; i++)
            missing(session, now_us, asked.entries[i].peer, 0);
    }
    cr_assert(needed);
    session_free(session);
}

/* go-bitswap 260: a peer says HAVE and then DONT_HAVE. */
Test(session_faults_later, go_bitswap_260_a_peer_that_contradicts_itself_is_passed_over)
{
    session_machine *session = session_make(NULL);
    session_peer a = join(session, 0, 1, 1000), b = join(session, 0, 2, 90000);

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    missing(session, 10, a, 0);
    session_have(session, 11, a, id_of(0).bytes);
    missing(session, 12, a, 0);
    poll_all(session, 13, &asked);
    cr_assert_eq(asked_count(&asked, b, SESSION_ASK_BLOCK, 0), 1);
    cr_assert_eq(asked_count(&asked, a, SESSION_ASK_BLOCK, 0), 0);
    session_free(session);
}

/* go-bitswap 271: the loop posted to its own full queue while dropping a peer. */
Test(session_faults_later, go_bitswap_271_peers_may_go_in_the_middle_of_polling)
{
    session_machine *session = session_make(NULL);
    session_peer peers[4];
    session_action action;
    size_t actions = 0;

    for (uint64_t i = 0; i < 4; i++)
        peers[i] = join(session, 0, i, 1000);
    want(session, 0, 0, 100);
    while (session_poll(session, 0, &action)) {
        actions++;
        if (action.kind == SESSION_SEND && action.peer != peers[3])
            session_lie(session, 0, action.peer);
    }
    cr_assert_leq(actions, 20);
    cr_assert_eq(figures_of(session).lies, 3);
    cr_assert_eq(figures_of(session).wants, 100);
    session_free(session);
}

/* go-bitswap 276 and lotus 4118: a peer pruned for 16 DONT_HAVEs had the rest. */
Test(session_faults_later, go_bitswap_276_and_lotus_4118_many_missing_do_not_cost_the_rest)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    uint64_t found = 0;

    want(session, 0, 0, 600);
    for (int64_t now_us = 0; now_us < 900000; now_us += 1000) {
        poll_all(session, now_us, &asked);
        for (size_t i = 0; i < asked.count; i++)
            if (asked.entries[i].number < 500)
                missing(session, now_us + 900, peer, asked.entries[i].number);
            else
                found += block(session, now_us + 900, peer, asked.entries[i].number) ==
                         SESSION_DELIVERED;
    }
    cr_assert_eq(found, 100);
    cr_assert_leq(figures_of(session).messages_out, 100);
    session_free(session);
}

/* go-bitswap 310: wants were never cancelled at the peers. */
Test(session_faults_later, go_bitswap_310_every_peer_asked_hears_of_the_cancel)
{
    session_machine *session = session_make(NULL);
    size_t sent = 0;

    for (uint64_t i = 0; i < 10; i++)
        join(session, 0, i, 1000);
    want(session, 0, 0, 300);
    poll_all(session, 0, &asked);
    sent = asked.count;
    session_cancel_all(session, 1);
    poll_all(session, 1, &asked);
    cr_assert_eq(asked_count(&asked, SESSION_NO_PEER, SESSION_CANCEL, UINT64_MAX), sent);
    assert_idle(session);
    session_free(session);
}

/* kubo 5183 and 7972: stalls although a connected peer has the block by now. */
Test(session_faults_later, kubo_5183_and_7972_a_peer_that_lacked_it_once_is_asked_again)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    int64_t now_us;

    want(session, 0, 0, 1);
    poll_all(session, 0, &asked);
    missing(session, 1000, peer, 0);
    poll_all(session, 1000, &asked);
    cr_assert_eq(asked.count, 0);
    session_refresh(session, 2000, peer);
    poll_all(session, 2000, &asked);
    cr_assert_eq(asked_count(&asked, peer, SESSION_ASK_BLOCK, 0), 1, "told: at once");
    missing(session, 3000, peer, 0);
    for (now_us = 3000; now_us < 5000000; now_us = session_wake_us(session)) {
        poll_all(session, now_us, &asked);
        if (asked_count(&asked, peer, SESSION_ASK_BLOCK, 0) > 0)
            break;
    }
    cr_assert_leq(now_us, 1100000, "not told: after a pause");
    session_free(session);
}

/* The same, when an older want had been waiting in vain for long: its pauses had grown. */
Test(session_faults_later, kubo_5183_pauses_of_one_want_do_not_delay_the_next)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    int64_t now_us;
    size_t reports = 0;

    want(session, 0, 0, 1);
    for (now_us = 0; now_us < 200000000; now_us = session_wake_us(session)) {
        poll_all(session, now_us, &asked);
        if (asked_count(&asked, peer, SESSION_ASK_BLOCK, 0) > 0)
            missing(session, now_us, peer, 0);
        poll_all(session, now_us, &asked);
    }
    cr_assert_eq(session_cancel(session, 200000000, id_of(0).bytes), KV_OK);
    want(session, 200000000, 1, 1);
    poll_all(session, 200000000, &asked);
    missing(session, 200001000, peer, 1);
    for (now_us = 200001000; now_us < 300000000; now_us = session_wake_us(session)) {
        poll_all(session, now_us, &asked);
        reports += asked.need_peers;
        if (asked_count(&asked, peer, SESSION_ASK_BLOCK, 1) > 0)
            break;
    }
    cr_assert_leq(now_us, 201100000, "asked again %lld ms later",
                  (long long)(now_us - 200001000) / 1000);
    cr_assert_leq(reports, 1);
    session_free(session);
}

/* boxo 1163: a peer that failed once and came back at once was left aside for ever. */
Test(session_faults_later, boxo_1163_one_failure_is_forgotten_on_return)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);
    int64_t late_us;

    want(session, 0, 0, 16);
    poll_all(session, 0, &asked);
    cr_assert_eq(asked.count, 16);
    late_us = session_wake_us(session);
    poll_all(session, late_us, &asked);
    cr_assert_geq(figures_of(session).overdue, 1);
    session_leave(session, late_us + 1, peer);
    peer = join(session, late_us + 1, 1, 1000); /* in the same moment */
    poll_all(session, late_us + 1, &asked);
    cr_assert_eq(asked_count(&asked, peer, SESSION_ASK_BLOCK, UINT64_MAX), 16);
    cr_assert_eq(answer_all(session, late_us + 2000, peer), 16);
    assert_idle(session);
    session_free(session);
}

/* kubo 7301: no resuming after the only provider reconnects. */
Test(session_faults_later, kubo_7301_the_only_provider_returns)
{
    session_machine *session = session_make(NULL);
    session_peer peer = join(session, 0, 1, 1000);

    want(session, 0, 0, 4);
    for (int64_t now_us = 0; now_us < 20000000; now_us += 1000000) {
        poll_all(session, now_us, &asked);
        cr_assert_eq(asked_count(&asked, peer, SESSION_ASK_BLOCK, UINT64_MAX), 4);
        session_leave(session, now_us + 1, peer);
        peer = join(session, now_us + 1, 1, 0); /* in the same moment */
    }
    poll_all(session, 20000000, &asked);
    cr_assert_eq(answer_all(session, 20001000, peer), 4);
    assert_idle(session);
    session_free(session);
}

/* kubo 8797: 10,000 wants times 600 peers in memory. */
Test(session_faults_later, kubo_8797_memory_does_not_multiply_wants_by_peers)
{
    session_machine *session = session_make(NULL);
    size_t empty = figures_of(session).memory;

    for (uint64_t i = 0; i < 600; i++)
        join(session, 0, i, 0);
    want(session, 0, 0, 10000);
    for (int64_t now_us = 0; now_us < 12000; now_us += 1000) {
        poll_all(session, now_us, &asked);
        for (size_t i = 0; i < asked.count; i++)
            if (asked.entries[i].op == SESSION_ASK_BLOCK)
                missing(session, now_us, asked.entries[i].peer, asked.entries[i].number);
    }

    size_t full = figures_of(session).memory;

    cr_assert_leq(full - empty, 10000 * 200 + (4 << 20), "%zu bytes", full - empty);
    session_free(session);
}

/* kubo 4657 and boxo 574: what is kept of wants piles up. */
Test(session_faults_later, kubo_4657_and_boxo_574_marks_and_notes_are_given_back)
{
    session_machine *session = session_make(NULL);
    session_peer peers[40];
    size_t memory = 0;

    for (uint64_t i = 0; i < 40; i++)
        peers[i] = join(session, 0, i, 1000);
    for (uint64_t round = 0; round < 60; round++) {
        int64_t now_us = (int64_t)round * 1000;

        want(session, now_us, round * 100, 100);
        poll_all(session, now_us, &asked);
        for (uint64_t i = 0; i < 100; i++)
            for (int p = 0; p < 30; p++)
                missing(session, now_us, peers[p], round * 100 + i);
        poll_all(session, now_us, &asked);
        for (uint64_t i = 0; i < 100; i++)
            if (i % 2 == 0)
                block(session, now_us, peers[35], round * 100 + i);
        session_cancel_all(session, now_us);
        poll_all(session, now_us, &asked);
        if (round == 5)
            memory = figures_of(session).memory;
    }
    cr_assert_eq(figures_of(session).memory, memory);
    assert_idle(session);
    session_free(session);
}

/* kubo 1750: most of the bandwidth was duplicates, and they went on afterwards. */
Test(session_faults_later, kubo_1750_nothing_comes_after_the_last_block)
{
    struct sim_result result =
        run_row(sim_row_find("10Nodes-AllToAll-BigBatch"), SESSION_DEFAULT, GREETING_FULL);

    cr_assert_eq(result.dups_late, 0);
    cr_assert_eq(result.figures.unasked_blocks, 0);
}

/* boxo 629 and 644: new wants were dropped while the list was full of hopeless ones. */
Test(session_faults_later, boxo_629_and_644_hopeless_wants_do_not_hold_others_up)
{
    session_config config = { .wants_max = 10100 };
    session_machine *session = session_make(&config);
    session_peer peer = join(session, 0, 1, 1000);
    uint64_t found = 0;
    struct id last = id_of(20000);
    session_request request = { last.bytes, 20000 };

    want(session, 0, 0, 10000);
    for (int64_t now_us = 0; figures_of(session).starved < 10000; now_us += 1000) {
        cr_assert_lt(now_us, 5000000);
        poll_all(session, now_us, &asked);
        for (size_t i = 0; i < asked.count; i++)
            missing(session, now_us + 900, peer, asked.entries[i].number);
    }
    want(session, 5000000, 10000, 100);
    cr_assert_eq(session_want(session, 5000000, &request, 1, NULL), KV_TOO_BIG,
                 "said, not lost");
    for (int64_t now_us = 5000000; now_us < 5100000; now_us += 1000) {
        poll_all(session, now_us, &asked);
        for (size_t i = 0; i < asked.count; i++)
            if (asked.entries[i].number < 10000)
                missing(session, now_us + 900, peer, asked.entries[i].number);
            else
                found += block(session, now_us + 900, peer, asked.entries[i].number) ==
                         SESSION_DELIVERED;
    }
    cr_assert_eq(found, 100);
    session_free(session);
}

/* celestia-node 4151: a leak under churn, and a broadcast for every newcomer. */
Test(session_faults_later, celestia_4151_churn_leaks_nothing_and_broadcasts_nothing)
{
    session_machine *session = session_make(NULL);
    session_peer old = join(session, 0, 1, 1000);
    size_t memory = figures_of(session).memory, entries = 0;

    want(session, 0, 0, 10);
    poll_all(session, 0, &asked);
    for (uint64_t i = 2; i < 5000; i++) {
        session_peer guest = join(session, (int64_t)i, i, 50000);

        poll_all(session, (int64_t)i, &asked);
        entries += asked.count;
        session_leave(session, (int64_t)i, guest);
    }
    cr_assert_eq(entries, 0, "nothing to ask a newcomer for: it is all under way");
    for (uint64_t i = 0; i < 10; i++)
        block(session, 6000, old, i);
    cr_assert_leq(figures_of(session).memory, memory + (400u << 10));
    session_free(session);
}

/* flow-go 2718: stuck when peers had connected before the session wanted anything. */
Test(session_faults_later, flow_go_2718_peers_first_or_wants_first)
{
    for (int peers_first = 0; peers_first < 2; peers_first++) {
        session_machine *session = session_make(NULL);

        if (!peers_first)
            want(session, 0, 0, 5);
        join(session, 1, 1, 1000);
        poll_all(session, 1, &asked);
        if (peers_first) {
            cr_assert_eq(asked.count, 0);
            want(session, 2, 0, 5);
            poll_all(session, 2, &asked);
        }
        cr_assert_eq(asked_count(&asked, SESSION_NO_PEER, SESSION_ASK_BLOCK, UINT64_MAX), 5);
        session_free(session);
    }
}
