/* tcp.c - the transport: real sockets, several teachers, and what can go wrong. */
#include "pair.h"
#include "reconnect/transport.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEYS = 2500 };

static void make_sides(struct side *learner, struct side *teachers, unsigned count)
{
    side_open(learner, "memory", NULL);
    side_fill(learner, "map", 0, KEYS / 2, 0);
    side_commit(learner);
    for (unsigned i = 0; i < count; i++) {
        side_open(&teachers[i], "memory", NULL);
        side_fill(&teachers[i], "map", KEYS / 4, KEYS, i == 99 ? 1 : 0);
        side_commit(&teachers[i]);
        side_commit(&teachers[i]);
    }
}

struct rig {
    struct side learner, teachers[3];
    reconnect_server *servers[3];
    reconnect_settings settings;
    char addresses[3][32];
    reconnect_place places[3];
    unsigned count;
    reconnect_goal goal;
    reconnect_run_report *report;
};

static void rig_open(struct rig *rig, unsigned count, const reconnect_settings *settings)
{
    const reconnect_settings usual = RECONNECT_SETTINGS_INIT;
    kv_status status = KV_STATUS_INIT;
    memset(rig, 0, sizeof(*rig));
    rig->settings = usual;
    rig->count = count;
    rig->report = calloc(1, sizeof(*rig->report));
    make_sides(&rig->learner, rig->teachers, count);
    for (unsigned i = 0; i < count; i++) {
        cr_assert_eq(
            reconnect_server_start(rig->teachers[i].state, settings == NULL ? &usual : settings,
                                   "tcp://127.0.0.1:0", NULL, NULL, &rig->servers[i], &status),
            KV_OK, "%s", status.message);
        snprintf(rig->addresses[i], sizeof(rig->addresses[i]), "127.0.0.1:%u",
                 reconnect_server_port(rig->servers[i]));
        rig->places[i] = (reconnect_place){ rig->addresses[i], -1 };
    }
}

static kv_code rig_run(struct rig *rig, kv_status *status)
{
    return reconnect_run(rig->learner.db, rig->learner.state, &rig->settings, &rig->goal,
                         rig->places, rig->count, NULL, NULL, rig->report, status);
}

static void rig_close(struct rig *rig)
{
    for (unsigned i = 0; i < rig->count; i++) {
        reconnect_server_stop(rig->servers[i], NULL);
        side_close(&rig->teachers[i]);
    }
    side_close(&rig->learner);
    free(rig->report);
}

Test(tcp, one_teacher_by_every_traversal)
{
    for (int i = RECONNECT_DIFF; i <= RECONNECT_PUSH; i++) {
        struct rig rig;
        kv_status status = KV_STATUS_INIT;
        rig_open(&rig, 1, NULL);
        rig.goal.traversal = (reconnect_traversal)i;
        cr_assert_eq(rig_run(&rig, &status), KV_OK, "%s", status.message);
        sides_equal(&rig.learner, &rig.teachers[0]);
        cr_expect_eq(rig.report->version, state_version(rig.teachers[0].state));
        cr_expect_gt(rig.report->figures.bytes_in, 0);
        rig_close(&rig);
    }
}

Test(tcp, three_teachers_share_the_work)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    rig_open(&rig, 3, NULL);
    cr_assert_eq(rig_run(&rig, &status), KV_OK, "%s", status.message);
    sides_equal(&rig.learner, &rig.teachers[1]);
    cr_expect_eq(rig.report->peer_count, 3);
    rig_close(&rig);
}

Test(tcp, socket_pair)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    int ends[2];
    rig_open(&rig, 1, NULL);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(reconnect_server_adopt(rig.servers[0], ends[0], &status), KV_OK);
    rig.places[0] = (reconnect_place){ NULL, ends[1] };
    cr_assert_eq(rig_run(&rig, &status), KV_OK, "%s", status.message);
    sides_equal(&rig.learner, &rig.teachers[0]);
    rig_close(&rig);
}

Test(tcp, nobody_there)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    rig_open(&rig, 1, NULL);
    rig.places[0].address = "127.0.0.1:1";
    cr_expect_eq(rig_run(&rig, &status), KV_IO);
    cr_expect(strstr(status.message, "127.0.0.1:1") != NULL, "%s", status.message);
    cr_expect_eq(state_version(rig.learner.state), 1);
    rig_close(&rig);
}

Test(tcp, a_socket_that_is_closed_at_once)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    int ends[2];
    rig_open(&rig, 1, NULL);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    close(ends[0]);
    rig.places[0] = (reconnect_place){ NULL, ends[1] };
    cr_expect_eq(rig_run(&rig, &status), KV_IO);
    cr_expect_eq(state_version(rig.learner.state), 1);
    rig_close(&rig);
}

Test(tcp, one_of_three_is_not_there)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    rig_open(&rig, 3, NULL);
    rig.places[0].address = "127.0.0.1:1";
    cr_assert_eq(rig_run(&rig, &status), KV_OK, "%s", status.message);
    sides_equal(&rig.learner, &rig.teachers[1]);
    rig_close(&rig);
}

Test(tcp, secrets_and_chains)
{
    const struct {
        const char *theirs, *ours, *their_chain, *our_chain;
        kv_code code;
    } rows[] = {
        { "word", "word", "a", "a", KV_OK },     { "word", "other", "", "", KV_IO },
        { "word", "", "", "", KV_IO },           { "", "word", "", "", KV_IO },
        { "", "", "chain-1", "chain-2", KV_IO },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig rig;
        kv_status status = KV_STATUS_INIT;
        reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
        theirs.secret = rows[i].theirs;
        theirs.chain_id = rows[i].their_chain;
        rig_open(&rig, 1, &theirs);
        rig.settings.secret = rows[i].ours;
        rig.settings.chain_id = rows[i].our_chain;
        rig.goal.app_hash = state_app_hash(rig.teachers[0].state);
        rig.goal.app_hash_known = true;
        kv_code code = rig_run(&rig, &status);
        cr_log_info("%s", status.message);
        cr_expect((code == KV_OK) == (rows[i].code == KV_OK), "row %zu: %s", i, status.message);
        const char *why = rows[i].their_chain == rows[i].our_chain ? "secret" : "chain";
        cr_expect(code == KV_OK || strstr(status.message, why) != NULL, "row %zu: %s", i,
                  status.message);
        cr_expect_eq(state_version(rig.learner.state), code == KV_OK ? 2 : 1);
        rig_close(&rig);
    }
}

/* A learner that connects and says nothing does not hold a place for ever. */
Test(tcp, silent_learners_are_dropped)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
    theirs.idle_timeout_us = 200000;
    theirs.learners_max = 1;
    rig_open(&rig, 1, &theirs);
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(reconnect_server_adopt(rig.servers[0], ends[0], &status), KV_OK);
    /* While it holds the only place another is refused, and tries again. */
    cr_assert_eq(rig_run(&rig, &status), KV_OK, "%s", status.message);
    char byte;
    while (read(ends[1], &byte, 1) > 0)
        continue;
    close(ends[1]);
    sides_equal(&rig.learner, &rig.teachers[0]);
    rig_close(&rig);
}
