/*
 * resume.c - a reconnect that is interrupted, moved to a newer goal, hindered by
 * its own store, watched while it runs, or held up by limits.
 */
#include "kv/driver.h"
#include "pair.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 2800 };

static void make_sides(struct side *learner, struct side *teacher, const char *driver)
{
    side_open(learner, driver, NULL);
    side_open(teacher, "memory", NULL);
    side_fill(learner, "map", 0, KEYS, 0);
    side_fill(teacher, "map", 0, KEYS, 0);
    side_fill(teacher, "new", 0, KEYS / 4, 0);
    side_commit(learner);
    side_commit(teacher);
    for (uint64_t key = 0; key < KEYS; key += 3)
        side_put(teacher, "map", key, key + 1);
    for (uint64_t key = 1; key < KEYS; key += 7)
        side_delete(teacher, "map", key);
    side_commit(teacher);
}

static void close_sides(struct side *learner, struct side *teacher)
{
    side_close(learner);
    side_close(teacher);
}

static void run_to_end(struct side *learner, struct side *teacher, reconnect_figures *figures)
{
    struct wire wire = WIRE(learner, teacher);
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
    sides_equal(learner, teacher);
    side_nothing_staged(learner);
    if (figures != NULL)
        *figures = wire.figures;
}

Test(resume, nothing_verified_is_fetched_again)
{
    const char *const drivers[] = { "memory", "rocksdb" };
    for (int d = 0; d < 2; d++) {
        struct side learner, teacher;
        reconnect_figures whole;
        make_sides(&learner, &teacher, "memory");
        run_to_end(&learner, &teacher, &whole);
        close_sides(&learner, &teacher);

        for (uint64_t part = 1; part < 8; part++) {
            if (kv_driver_find(drivers[d]) == NULL)
                continue;
            make_sides(&learner, &teacher, drivers[d]);
            uint64_t changes = 0, pages = 0;
            for (uint64_t stop = 1; stop <= 3; stop++) {
                struct wire wire = WIRE(&learner, &teacher);
                wire.stop_after = whole.bytes_in * part / 16;
                cr_assert_eq(wire_run(&wire, NULL), KV_OK);
                changes += wire.figures.leaves_changed;
                pages += wire.figures.pages;
                if (wire.switched)
                    break;
                side_staged_true(&learner, &teacher);
                if (d > 0)
                    side_reopen(&learner);
            }
            reconnect_figures rest;
            run_to_end(&learner, &teacher, &rest);
            changes += rest.leaves_changed;
            pages += rest.pages;
            /* A leaf or two that an unlucky fingerprint sent twice. */
            cr_expect_leq(changes, whole.leaves_changed + whole.leaves_changed / 50, "%d of %d",
                          (int)changes, (int)whole.leaves_changed);
            cr_expect_leq(pages, whole.pages);
            close_sides(&learner, &teacher);
        }
    }
}

Test(resume, cut_at_every_frame_and_between)
{
    struct side learner, teacher;
    reconnect_figures whole;
    make_sides(&learner, &teacher, "memory");
    run_to_end(&learner, &teacher, &whole);
    close_sides(&learner, &teacher);
    make_sides(&learner, &teacher, "memory");
    vmap_digest before = state_app_hash(learner.state);
    for (uint64_t cut = 1; cut < 200; cut += 1 + cut / 8) {
        struct wire wire = WIRE(&learner, &teacher);
        kv_status status = KV_STATUS_INIT;
        wire.cut_after = cut;
        kv_code code = wire_run(&wire, &status);
        cr_assert_eq(code, KV_IO, "cut after %d: %s %s", (int)cut, kv_code_name(code),
                     status.message);
        vmap_digest after = state_app_hash(learner.state);
        cr_assert_arr_eq(before.bytes, after.bytes, sizeof(before.bytes));
    }
    run_to_end(&learner, &teacher, NULL);
    close_sides(&learner, &teacher);
}

/* ---- Maps that are built ------------------------------------------------ */

static size_t count_values(struct side *side)
{
    kv_space *space;
    kv_iter *iter;
    size_t count = 0;
    cr_assert_eq(state_settle(side->state, NULL), KV_OK);
    cr_assert_eq(kv_space_open(side->db, "state.values", 0, &space, NULL), KV_OK);
    cr_assert_eq(kv_iter_open(space, NULL, NULL, &iter, NULL), KV_OK);
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        count++;
    kv_iter_close(iter);
    return count;
}

static void stop_half_way(struct side *learner, struct side *teacher)
{
    struct wire wire = WIRE(learner, teacher);
    wire.stop_after = 24000;
    cr_assert_eq(wire_run(&wire, NULL), KV_OK);
    cr_assert_not(wire.switched);
    side_staged_true(learner, teacher);
}

/* Half of a map is built; then the learner gets another map of that name. */
Test(resume, a_build_that_is_not_wanted_any_more_goes)
{
    struct side learner, teacher;
    side_open(&learner, "memory", NULL);
    side_open(&teacher, "memory", NULL);
    side_fill(&teacher, "new", 0, KEYS, 0);
    side_commit(&teacher);
    stop_half_way(&learner, &teacher);
    cr_assert_gt(count_values(&learner), 100);
    side_fill(&learner, "new", 0, 10, 1);
    side_commit(&learner);
    side_commit(&teacher);
    run_to_end(&learner, &teacher, NULL);
    cr_assert_eq(count_values(&learner), KEYS);
    close_sides(&learner, &teacher);
}

/* A crash between the switch and the end of the staging leaves the number of a map that
 * is a version's now. It must not be written to, nor go. */
Test(resume, a_number_that_the_switch_took_is_no_build)
{
    const uint8_t name_key[] = { 'N', 0, 0 }, build_key[] = { 'B', 0, 0 }, number = 1;
    for (int emptied = 0; emptied < 2; emptied++) {
        struct side learner, teacher;
        kv_space *space;
        side_open(&learner, "memory", NULL);
        side_open(&teacher, "memory", NULL);
        side_fill(&teacher, "new", 0, KEYS, 0);
        side_commit(&teacher);
        run_to_end(&learner, &teacher, NULL);
        cr_assert_eq(kv_space_open(learner.db, "reconnect", 0, &space, NULL), KV_OK);
        cr_assert_eq(kv_put(space, kv_bytes(name_key, 3), kv_text("new"), 0, NULL), KV_OK);
        cr_assert_eq(kv_put(space, kv_bytes(build_key, 3), kv_bytes(&number, 1), 0, NULL),
                     KV_OK);
        if (emptied == 1) { /* then the map is built again, under another number */
            for (uint64_t key = 0; key < KEYS; key++)
                side_delete(&learner, "new", key);
            side_commit(&learner);
        }
        side_fill(&teacher, "new", KEYS / 2, KEYS + 5, 3);
        side_commit(&teacher);
        side_commit(&teacher);
        run_to_end(&learner, &teacher, NULL);
        cr_assert_eq(count_values(&learner), KEYS + 5);
        cr_assert_eq(state_load_version(learner.state, 1, NULL), KV_OK);
        cr_assert_eq(state_load_version(teacher.state, 1, NULL), KV_OK);
        sides_equal(&learner, &teacher);
        close_sides(&learner, &teacher);
    }
}

/* The goal's page_bits change with the goal. */
Test(resume, a_build_goes_on_with_other_page_bits)
{
    struct side learner, teacher, other;
    side_open(&learner, "memory", NULL);
    side_open(&teacher, "memory", NULL);
    side_open(&other, "memory", "4");
    side_fill(&teacher, "new", 0, KEYS, 0);
    side_commit(&teacher);
    side_fill(&other, "new", 0, KEYS, 0);
    side_commit(&other);
    stop_half_way(&learner, &teacher);
    run_to_end(&learner, &other, NULL);
    close_sides(&learner, &teacher);
    side_close(&other);
}

/* Leftovers of one goal, then another: of another teacher, whose state differs. */
Test(resume, what_is_left_of_another_goal_does_no_harm)
{
    for (uint64_t seed = 1; seed < 12; seed++) {
        struct side learner, teacher, other;
        make_sides(&learner, &teacher, "memory");
        side_open(&other, "memory", NULL);
        side_fill(&other, "map", 40 * seed, KEYS - 30 * seed, seed % 2);
        side_commit(&other);
        side_commit(&other);
        side_commit(&other);
        struct wire wire = WIRE(&learner, &teacher);
        wire.stop_after = 2000 * seed;
        cr_assert_eq(wire_run(&wire, NULL), KV_OK);
        if (!wire.switched)
            run_to_end(&learner, &other, NULL);
        side_close(&other);
        close_sides(&learner, &teacher);
    }
}

/* ---- Another goal half way ---------------------------------------------- */

struct moving {
    struct side *teacher;
    uint64_t turns, at[3];
    unsigned moved;
};

static void move_goal(void *context, reconnect_learner *learner)
{
    struct moving *moving = context;
    if (moving->moved == 3 || moving->turns++ < moving->at[moving->moved])
        return;
    uint64_t salt = ++moving->moved;
    for (uint64_t key = 100 * salt; key < 100 * salt + 50; key++)
        side_put(moving->teacher, "map", key, key + 7 * salt);
    for (uint64_t key = 900 * salt; key < 900 * salt + 40; key++)
        side_delete(moving->teacher, "map", key);
    side_put(moving->teacher, "map", 3 * salt, 3 * salt);
    side_commit(moving->teacher);
    reconnect_goal goal = { 0 };
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(reconnect_learner_retarget(learner, 1000000, &goal, &status), KV_OK, "%s",
                 status.message);
}

Test(resume, the_goal_moves_on)
{
    for (uint64_t first = 1; first < 60; first += 4) {
        struct side learner, teacher;
        make_sides(&learner, &teacher, "memory");
        struct moving moving = { &teacher, 0, { first, first + 5, first + 30 }, 0 };
        struct wire wire = WIRE(&learner, &teacher);
        kv_status status = KV_STATUS_INIT;
        wire.each_turn = move_goal;
        wire.context = &moving;
        wire.chunk = 500;
        cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
        if (moving.moved < 3) {
            /* it was done before the last move */
            run_to_end(&learner, &teacher, NULL);
        } else {
            sides_equal(&learner, &teacher);
            side_nothing_staged(&learner);
        }
        close_sides(&learner, &teacher);
    }
}

/* The teacher commits and prunes while it teaches; the learner gets what it was
 * offered, and its own old version can be read until the switch. */
static void commit_meanwhile(void *context, reconnect_learner *learner)
{
    struct moving *moving = context;
    (void)learner;
    if (moving->turns++ % 5 != 0 || moving->moved > 20)
        return;
    moving->moved++;
    for (uint64_t key = 0; key < 200; key++)
        side_put(moving->teacher, "map", 10 * key, moving->turns);
    side_commit(moving->teacher);
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(state_prune(moving->teacher->state, 1, &status), KV_OK, "%s", status.message);
}

Test(resume, a_teacher_that_commits_and_prunes)
{
    struct side learner, teacher;
    make_sides(&learner, &teacher, "memory");
    vmap_digest offered = state_app_hash(teacher.state);
    struct moving moving = { &teacher, 1, { 0 }, 0 };
    struct wire wire = WIRE(&learner, &teacher);
    kv_status status = KV_STATUS_INIT;
    wire.each_turn = commit_meanwhile;
    wire.context = &moving;
    wire.chunk = 300;
    cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
    vmap_digest got = state_app_hash(learner.state);
    cr_expect_arr_eq(got.bytes, offered.bytes, VMAP_DIGEST_SIZE);
    cr_expect_gt(moving.moved, 5);
    run_to_end(&learner, &teacher, NULL);
    close_sides(&learner, &teacher);
}

/* ---- A store that fails ------------------------------------------------- */

static kv_driver flaky;
static kv_code (*real_commit)(kv_batch *, unsigned, kv_status *);
static long commits_left = -1;

static kv_code flaky_commit(kv_batch *batch, unsigned flags, kv_status *status)
{
    if (commits_left == 0)
        return kv_fail(status, KV_NO_SPACE, "no space left, says the test");
    if (commits_left > 0)
        commits_left--;
    return real_commit(batch, flags, status);
}

Test(resume, a_store_that_fails_at_any_write)
{
    const kv_driver *memory = kv_driver_find("memory");
    memcpy(&flaky, memory, sizeof(flaky));
    flaky.name = "flaky";
    real_commit = memory->batch_commit;
    flaky.batch_commit = flaky_commit;
    cr_assert_eq(kv_driver_register(&flaky, NULL), KV_OK);
    for (long at = 0; at < 6; at++) {
        struct side learner, teacher;
        commits_left = -1;
        make_sides(&learner, &teacher, "flaky");
        vmap_digest before = state_app_hash(learner.state);
        struct wire wire = WIRE(&learner, &teacher);
        kv_status status = KV_STATUS_INIT;
        commits_left = at;
        kv_code code = wire_run(&wire, &status);
        commits_left = -1;
        if (code == KV_OK) {
            sides_equal(&learner, &teacher);
        } else {
            cr_expect_eq(code, KV_NO_SPACE, "at %ld: %s", at, status.message);
            vmap_digest after = state_app_hash(learner.state);
            cr_expect_arr_eq(before.bytes, after.bytes, sizeof(before.bytes));
        }
        close_sides(&learner, &teacher);
    }
}

/* ---- Limits ------------------------------------------------------------- */

Test(resume, one_learner_to_a_database)
{
    struct side learner, teacher;
    make_sides(&learner, &teacher, "memory");
    const reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    const reconnect_goal goal = { 0 };
    reconnect_learner *first, *second;
    cr_assert_eq(
        reconnect_learner_new(learner.db, learner.state, &settings, &goal, &first, NULL),
        KV_OK);
    cr_expect_eq(
        reconnect_learner_new(learner.db, learner.state, &settings, &goal, &second, NULL),
        KV_BUSY);
    reconnect_learner_free(first);
    run_to_end(&learner, &teacher, NULL);
    close_sides(&learner, &teacher);
}

static void lose_all(void *context, struct frame *frame)
{
    (void)context;
    if (frame->to_learner && frame->type == WIRE_GOT)
        frame->copies = 0;
}

Test(resume, silence_ends_in_a_timeout)
{
    struct side learner, teacher;
    make_sides(&learner, &teacher, "memory");
    struct wire wire = WIRE(&learner, &teacher);
    kv_status status = KV_STATUS_INIT;
    wire.filter = lose_all;
    cr_expect_eq(wire_run(&wire, &status), KV_TIMEOUT, "%s", status.message);
    run_to_end(&learner, &teacher, NULL);
    close_sides(&learner, &teacher);
}

Test(resume, slow_streams_and_small_pieces)
{
    for (int i = RECONNECT_DIFF; i <= RECONNECT_PUSH; i++) {
        struct side learner, teacher;
        make_sides(&learner, &teacher, "memory");
        struct wire wire = WIRE(&learner, &teacher);
        kv_status status = KV_STATUS_INIT;
        wire.goal.traversal = (reconnect_traversal)i;
        wire.latency_us = 3000;
        wire.chunk = 64;
        cr_assert_eq(wire_run(&wire, &status), KV_OK, "%s", status.message);
        sides_equal(&learner, &teacher);
        close_sides(&learner, &teacher);
    }
}

Test(resume, goals_that_cannot_be_reached)
{
    struct side learner, teacher;
    make_sides(&learner, &teacher, "memory");
    kv_status status = KV_STATUS_INIT;
    struct wire wire = WIRE(&learner, &teacher);
    wire.goal.version = 99;
    cr_expect_eq(wire_run(&wire, &status), KV_TOO_NEW, "%s", status.message);

    wire = (struct wire)WIRE(&learner, &teacher);
    wire.goal.app_hash_known = true; /* all zeros */
    status = (kv_status)KV_STATUS_INIT;
    cr_expect_eq(wire_run(&wire, &status), KV_TOO_OLD, "%s", status.message);

    run_to_end(&learner, &teacher, NULL);
    side_commit(&learner);
    wire = (struct wire)WIRE(&learner, &teacher);
    status = (kv_status)KV_STATUS_INIT;
    cr_expect_eq(wire_run(&wire, &status), KV_TOO_OLD, "%s", status.message);

    side_put(&teacher, "map", 1, 1);
    side_commit(&teacher);
    wire = (struct wire)WIRE(&learner, &teacher);
    status = (kv_status)KV_STATUS_INIT;
    cr_expect_eq(wire_run(&wire, &status), KV_CONFLICT, "%s", status.message);
    close_sides(&learner, &teacher);
}

Test(resume, pages_over_the_frame_limit_are_refused_with_the_reason)
{
    struct side learner, teacher;
    side_open(&learner, "memory", NULL);
    side_open(&teacher, "memory", NULL);
    char *value = malloc(200000);
    memset(value, 'v', 200000);
    cr_assert_eq(
        vmap_put(side_map(&teacher, "map"), kv_text("big"), kv_bytes(value, 200000), NULL),
        KV_OK);
    side_commit(&teacher);
    struct wire wire = WIRE(&learner, &teacher);
    kv_status status = KV_STATUS_INIT;
    wire.teacher_settings.frame_size_max = WIRE_FRAME_SIZE_MIN;
    cr_expect_eq(wire_run(&wire, &status), KV_IO, "%s", status.message);
    cr_expect(strstr(status.message, "frame_size_max") != NULL, "%s", status.message);
    free(value);
    run_to_end(&learner, &teacher, NULL);
    close_sides(&learner, &teacher);
}
