/*
 * fair.c - one teacher of bounded bandwidth and several learners, in virtual time:
 * nobody starves behind a big one, and one that takes nothing holds nobody up.
 */
#include "pair.h"

#include <criterion/criterion.h>

TestSuite(fair, .timeout = 110);

enum {
    RATE = 32 << 10,
    MANY = 16000,
    LEARNERS = 3,
    START_US = 1000000,
    FRAME_MOST = 32 << 10, /* a frame is full at 16 KiB, and may end in a page */
    ASKED_SIZE = 60 << 10, /* of a request */
    ASKED_MOST = 5 << 20   /* of those waiting; 4 MiB is the limit */
};

struct pupil {
    struct side side;
    reconnect_learner *learner;
    reconnect_link *link;
    unsigned peer;
    bool deaf; /* takes nothing of what is sent to it */
    int64_t done_us;
    uint64_t taken, frames;
};

struct school {
    struct side side;
    reconnect_teacher *teacher;
    struct pupil pupils[LEARNERS];
    unsigned count;
    int64_t now_us;
};

static void school_open(struct school *school)
{
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;

    settings.rate_max = RATE;
    school->now_us = START_US;
    school->count = 0;
    side_open(&school->side, "memory", NULL);
    side_fill(&school->side, "map", 0, MANY, 0);
    side_commit(&school->side);
    side_put(&school->side, "map", 7, 99);
    side_commit(&school->side);
    cr_assert_eq(reconnect_teacher_new(school->side.state, &settings, &school->teacher, NULL),
                 KV_OK);
}

/* One that lacks everything, or all but one pair. */
static struct pupil *pupil_add(struct school *school, bool big)
{
    struct pupil *pupil = &school->pupils[school->count++];
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    reconnect_goal goal = { .traversal = RECONNECT_DIFF };

    *pupil = (struct pupil){ .done_us = -1 };
    side_open(&pupil->side, "memory", NULL);
    if (!big) {
        side_fill(&pupil->side, "map", 0, MANY, 0);
        side_commit(&pupil->side);
    }
    cr_assert_eq(
        reconnect_link_new(school->teacher, school->now_us, "pupil", &pupil->link, NULL),
        KV_OK);
    cr_assert_eq(reconnect_learner_new(pupil->side.db, pupil->side.state, &settings, &goal,
                                       &pupil->learner, NULL),
                 KV_OK);
    cr_assert_eq(
        reconnect_learner_join(pupil->learner, school->now_us, "teacher", &pupil->peer, NULL),
        KV_OK);
    return pupil;
}

static void pupil_turn(struct school *school, struct pupil *pupil)
{
    kv_slice bytes = reconnect_learner_output(pupil->learner, school->now_us, pupil->peer);

    if (bytes.size > 0) {
        cr_assert_eq(reconnect_link_input(pupil->link, school->now_us, bytes, NULL), KV_OK);
        reconnect_learner_sent(pupil->learner, pupil->peer, bytes.size);
    }
    bytes = reconnect_link_output(pupil->link, school->now_us);
    if (bytes.size == 0 || pupil->deaf)
        return;
    pupil->taken += bytes.size;
    pupil->frames++;
    if (reconnect_learner_phase(pupil->learner) == RECONNECT_RUNNING) {
        kv_status status = KV_STATUS_INIT;

        if (!reconnect_learner_input(pupil->learner, school->now_us, pupil->peer, bytes,
                                     &status))
            cr_assert_eq(status.code, KV_OK, "%s", status.message); /* it has all it wanted */
    }
    reconnect_link_sent(pupil->link, bytes.size);
    if (reconnect_learner_phase(pupil->learner) != RECONNECT_RUNNING && pupil->done_us < 0)
        pupil->done_us = school->now_us - START_US;
}

/* Everyone gets a turn every millisecond, always in the same order. */
static void school_run(struct school *school, int64_t for_us)
{
    for (int64_t end_us = school->now_us + for_us; school->now_us < end_us;
         school->now_us += 1000)
        for (unsigned i = 0; i < school->count; i++)
            for (int turns = 0; turns < 4; turns++)
                pupil_turn(school, &school->pupils[i]);
}

static void school_close(struct school *school)
{
    for (unsigned i = 0; i < school->count; i++) {
        reconnect_learner_free(school->pupils[i].learner);
        reconnect_link_free(school->pupils[i].link);
        side_close(&school->pupils[i].side);
    }
    reconnect_teacher_free(school->teacher);
    side_close(&school->side);
}

/* boxo 1141: a newcomer with one want starved behind learners with long lists. Here it
 * waits for one frame of the other before each of its own. */
Test(fair, boxo_1141_a_small_learner_does_not_wait_for_a_big_one)
{
    struct school school;

    school_open(&school);

    struct pupil *big = pupil_add(&school, true);

    school_run(&school, 2000000);

    struct pupil *small = pupil_add(&school, false);
    uint64_t taken = big->taken;

    for (int ms = 0; ms < 4000 && small->done_us < 0; ms++)
        school_run(&school, 1000);
    cr_assert_lt(big->done_us, 0, "the big one is meant to take long");
    cr_assert_geq(small->done_us, 0, "it starved");
    cr_assert_leq(big->taken - taken, (small->frames + 1) * FRAME_MOST,
                  "%llu bytes went to the big one for %llu frames to the small one",
                  (unsigned long long)(big->taken - taken), (unsigned long long)small->frames);
    school_close(&school);
}

/* boxo 644: nothing held back those who ask for more than they take. */
Test(fair, boxo_644_who_asks_without_taking_is_not_read_on)
{
    struct school school;
    struct wire_want want = { .id = 1000, .count = WIRE_PAGES_MAX };
    struct wire_out out = { 0 };
    static const char filler[ASKED_SIZE];
    size_t asked = 0;

    school_open(&school);

    struct pupil *greedy = pupil_add(&school, true);

    school_run(&school, 1000000);
    greedy->deaf = true;

    size_t frame = wire_frame_begin(&out, WIRE_WANT);

    wire_put_want(&out, &want);
    wire_put(&out, filler, sizeof filler);
    wire_frame_end(&out, frame);
    while (reconnect_link_hungry(greedy->link)) {
        cr_assert_leq(asked, ASKED_MOST, "it takes whatever is asked");
        cr_assert_eq(reconnect_link_input(greedy->link, school.now_us,
                                          kv_bytes(out.data, out.size), NULL),
                     KV_OK);
        asked += out.size;
        cr_assert_leq(reconnect_link_output(greedy->link, school.now_us).size, FRAME_MOST);
    }
    cr_assert_geq(asked, ASKED_MOST / 2);

    struct pupil *small = pupil_add(&school, false);

    school_run(&school, 4000000);
    cr_assert_geq(small->done_us, 0, "it starved");
    wire_out_clear(&out);
    school_close(&school);
}

Test(fair, equal_learners_get_equal_shares)
{
    struct school school;

    school_open(&school);
    for (int i = 0; i < LEARNERS; i++)
        pupil_add(&school, true);
    school_run(&school, 9000000);

    uint64_t all = 0;

    for (int i = 0; i < LEARNERS; i++)
        all += school.pupils[i].taken;
    cr_assert_leq(all, 11 * RATE, "rate_max is kept");
    for (int i = 0; i < LEARNERS; i++)
        cr_expect(school.pupils[i].taken * LEARNERS > all / 2 &&
                      school.pupils[i].taken * LEARNERS < all * 2,
                  "learner %d got %llu of %llu bytes", i,
                  (unsigned long long)school.pupils[i].taken, (unsigned long long)all);
    school_close(&school);
}

/* boxo 1083 and 1142: workers blocked on silent peers, and nobody was served. */
Test(fair, boxo_1083_and_1142_one_that_takes_nothing_holds_nobody_up)
{
    struct school school;

    school_open(&school);

    struct pupil *deaf = pupil_add(&school, true);

    school_run(&school, 1000000);
    deaf->deaf = true;

    struct pupil *small = pupil_add(&school, false);

    school_run(&school, 4000000);
    cr_assert_geq(small->done_us, 0, "it starved");
    school_close(&school);
}
