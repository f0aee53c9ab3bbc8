/* tcp.c - the transport: real sockets, several teachers, and what can go wrong. */
#include "pair.h"
#include "reconnect/transport.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
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

/* Serve one end of a socket pair, and return the other. */
static int rig_use_pair(struct rig *rig)
{
    int ends[2];
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(reconnect_server_adopt(rig->servers[0], ends[0], &status), KV_OK, "%s",
                 status.message);
    return ends[1];
}

static kv_code rig_run(struct rig *rig, kv_status *status)
{
    return reconnect_run(rig->learner.db, rig->learner.state, &rig->settings, &rig->goal,
                         rig->places, rig->count, NULL, NULL, rig->report, status);
}

static kv_code run_from_first(struct rig *rig, kv_status *status)
{
    return reconnect_run(rig->learner.db, rig->learner.state, &rig->settings, &rig->goal,
                         rig->places, 1, NULL, NULL, rig->report, status);
}

/* A reconnect that must end well, at what `teacher` has; from all places, or the first. */
static void rig_succeeds(struct rig *rig, kv_code (*run)(struct rig *, kv_status *),
                         unsigned teacher)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(run(rig, &status), KV_OK, "%s", status.message);
    sides_equal(&rig->learner, &rig->teachers[teacher]);
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
        rig_open(&rig, 1, NULL);
        rig.goal.traversal = (reconnect_traversal)i;
        rig_succeeds(&rig, rig_run, 0);
        cr_expect_eq(rig.report->version, state_version(rig.teachers[0].state));
        cr_expect_gt(rig.report->figures.bytes_in, 0);
        rig_close(&rig);
    }
}

Test(tcp, three_teachers_share_the_work)
{
    struct rig rig;
    rig_open(&rig, 3, NULL);
    rig_succeeds(&rig, rig_run, 1);
    cr_expect_eq(rig.report->peer_count, 3);
    rig_close(&rig);
}

Test(tcp, socket_pair)
{
    struct rig rig;
    rig_open(&rig, 1, NULL);
    rig.places[0] = (reconnect_place){ NULL, rig_use_pair(&rig) };
    rig_succeeds(&rig, rig_run, 0);
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
    rig_open(&rig, 3, NULL);
    rig.places[0].address = "127.0.0.1:1";
    rig_succeeds(&rig, rig_run, 1);
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

/* ---- Peers that tell of others ------------------------------------------- */

/* Teach again with other settings, at a port of its own choice or at the same one. */
static void rig_teach(struct rig *rig, unsigned i, const reconnect_settings *settings)
{
    kv_status status = KV_STATUS_INIT;
    reconnect_server_stop(rig->servers[i], NULL);
    cr_assert_eq(reconnect_server_start(rig->teachers[i].state, settings, rig->addresses[i],
                                        NULL, NULL, &rig->servers[i], &status),
                 KV_OK, "%s", status.message);
}

/* Enough to fetch that those who come late find something left. */
static void rig_fill(struct rig *rig)
{
    for (unsigned i = 0; i < rig->count; i++) {
        side_fill(&rig->teachers[i], "more", 0, 12000, 0);
        side_commit(&rig->teachers[i]);
    }
}

static unsigned givers(const struct rig *rig)
{
    unsigned count = 0;
    for (unsigned i = 0; i < rig->report->peer_count; i++)
        count += rig->report->peers[i].blocks > 0;
    return count;
}

Test(tcp, peers_told_of_give_their_share)
{
    for (int discover = 0; discover < 2; discover++) {
        struct rig rig;
        reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
        theirs.rate_max = 60000; /* so that none is done before the others come */
        rig_open(&rig, 3, &theirs);
        rig_fill(&rig);
        char peers[100];
        snprintf(peers, sizeof(peers), "%s,%s,%s", rig.addresses[1], rig.addresses[2],
                 rig.addresses[0]);
        theirs.peers = peers;
        rig_teach(&rig, 0, &theirs);
        rig.settings.discover = discover == 1;
        rig_succeeds(&rig, run_from_first, 0);
        cr_expect_eq(rig.report->peer_count, discover == 1 ? 3 : 1);
        cr_expect_eq(givers(&rig), discover == 1 ? 3 : 1);
        rig_close(&rig);
    }
}

Test(tcp, one_told_of_tells_of_another_and_the_secret_guards_both)
{
    struct rig rig;
    reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
    theirs.secret = "word";
    theirs.rate_max = 60000;
    rig_open(&rig, 3, &theirs);
    rig_fill(&rig);
    rig.settings.secret = "word";
    for (unsigned i = 0; i < 2; i++) {
        theirs.peers = rig.addresses[i + 1];
        rig_teach(&rig, i, &theirs);
    }
    rig_succeeds(&rig, run_from_first, 0);
    cr_expect_eq(givers(&rig), 3);
    rig_close(&rig);
}

/* The first has not what is wanted, but knows who has. */
Test(tcp, one_that_fell_behind_tells_of_one_that_did_not)
{
    struct rig rig;
    rig_open(&rig, 2, NULL);
    side_fill(&rig.teachers[1], "map", 0, 3, 7);
    side_commit(&rig.teachers[1]);
    rig.goal.version = state_version(rig.teachers[1].state);
    rig.goal.app_hash = state_app_hash(rig.teachers[1].state);
    rig.goal.app_hash_known = true;
    cr_expect_neq(run_from_first(&rig, NULL), KV_OK);
    reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
    theirs.peers = rig.addresses[1];
    rig_teach(&rig, 0, &theirs);
    rig_succeeds(&rig, run_from_first, 1);
    rig_close(&rig);
}

Test(tcp, addresses_that_lead_nowhere_cost_little)
{
    struct rig rig;
    rig_open(&rig, 1, NULL);
    char peers[32 * 16] = "";
    for (unsigned i = 1; i <= 32; i++)
        snprintf(peers + strlen(peers), sizeof(peers) - strlen(peers), "%s127.0.0.1:%u",
                 i == 1 ? "" : ",", i);
    reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
    theirs.peers = peers;
    rig_teach(&rig, 0, &theirs);
    rig_succeeds(&rig, run_from_first, 0);
    cr_expect_eq(rig.report->peer_count, 1);
    rig_close(&rig);
}

Test(tcp, what_a_teacher_would_tell_is_checked_at_its_start)
{
    struct rig rig;
    rig_open(&rig, 1, NULL);
    char many[33 * 10] = "1.1.1.1:1";
    for (unsigned i = 1; i < 33; i++)
        strcat(many, ",1.1.1.1:1");
    const char *const bad[] = { "localhost:1", "127.0.0.1:1,,127.0.0.1:2", many };
    for (size_t i = 0; i < 3; i++) {
        reconnect_settings theirs = RECONNECT_SETTINGS_INIT;
        kv_status status = KV_STATUS_INIT;
        reconnect_server *server;
        theirs.peers = bad[i];
        cr_expect_eq(reconnect_server_start(rig.teachers[0].state, &theirs, "tcp://127.0.0.1:0",
                                            NULL, NULL, &server, &status),
                     KV_INVALID);
        cr_expect(strstr(status.message, "reconnect.peers") != NULL, "%s", status.message);
    }
    rig_close(&rig);
}

static void *teach_later(void *context)
{
    struct rig *rig = context;
    const reconnect_settings usual = RECONNECT_SETTINGS_INIT;
    usleep(2500000); /* five tries are long over */
    if (reconnect_server_start(rig->teachers[0].state, &usual, rig->addresses[0], NULL, NULL,
                               &rig->servers[0], NULL) != KV_OK)
        abort();
    return NULL;
}

Test(tcp, a_learner_without_peers_takes_the_first_that_appears)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    rig_open(&rig, 1, NULL);
    reconnect_server_stop(rig.servers[0], NULL);
    cr_expect_eq(run_from_first(&rig, NULL), KV_IO);
    pthread_t thread;
    pthread_create(&thread, NULL, teach_later, &rig);
    rig.settings.peer_wait_us = 60000000;
    cr_expect_eq(run_from_first(&rig, &status), KV_OK, "%s", status.message);
    pthread_join(thread, NULL);
    sides_equal(&rig.learner, &rig.teachers[0]);
    rig_close(&rig);
}

/* Restarts the teacher until told to stop; each time it may send little. */
struct flapping {
    struct rig *rig;
    atomic_bool enough;
    unsigned restarts;
};

static void *teach_in_bits(void *context)
{
    struct flapping *flapping = context;
    struct rig *rig = flapping->rig;
    reconnect_settings little = RECONNECT_SETTINGS_INIT;
    little.rate_max = 1000;
    while (!atomic_load(&flapping->enough)) {
        reconnect_server_stop(rig->servers[0], NULL);
        if (reconnect_server_start(rig->teachers[0].state, &little, rig->addresses[0], NULL,
                                   NULL, &rig->servers[0], NULL) != KV_OK)
            abort();
        flapping->restarts++;
        usleep(450000); /* the learner tries again after 300 ms */
    }
    return NULL;
}

/* boxo 1163: given up although each connection to it brought something. */
Test(tcp, boxo_1163_a_teacher_that_breaks_off_again_and_again)
{
    struct rig rig;
    kv_status status = KV_STATUS_INIT;
    rig_open(&rig, 1, NULL);
    side_fill(&rig.teachers[0], "map", KEYS, 4 * KEYS, 0);
    side_commit(&rig.teachers[0]);
    struct flapping flapping = { .rig = &rig };
    pthread_t thread;
    pthread_create(&thread, NULL, teach_in_bits, &flapping);
    usleep(50000);
    cr_expect_eq(run_from_first(&rig, &status), KV_OK, "%s", status.message);
    atomic_store(&flapping.enough, true);
    pthread_join(thread, NULL);
    cr_expect_geq(flapping.restarts, 7, "%u: too few to be given up", flapping.restarts);
    sides_equal(&rig.learner, &rig.teachers[0]);
    rig_close(&rig);
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
    int silent = rig_use_pair(&rig);
    /* While it holds the only place another is refused, and tries again. */
    cr_assert_eq(rig_run(&rig, &status), KV_OK, "%s", status.message);
    char byte;
    while (read(silent, &byte, 1) > 0)
        continue;
    close(silent);
    sides_equal(&rig.learner, &rig.teachers[0]);
    rig_close(&rig);
}
