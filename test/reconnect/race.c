/*
 * race.c - reconnects over TCP with threads about: learners at once from several
 * teachers, each a thread of its own; teachers commit and prune meanwhile, one is stopped
 * half way. ThreadSanitizer looks on in the preset "race".
 *
 * usage: race ROUNDS
 */
#include "pair.h"
#include "reconnect/transport.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEACHERS = 3, LEARNERS = 3, KEYS = 4000, VERSIONS = 25 };

struct lesson {
    struct side side;
    const reconnect_place *places;
    size_t place_count;
    reconnect_goal goal;
    pthread_t thread;
    kv_code code;
    kv_status status;
};

static void *learn(void *context)
{
    struct lesson *lesson = context;
    const reconnect_settings usual = RECONNECT_SETTINGS_INIT;
    reconnect_run_report *report = calloc(1, sizeof(*report));
    REQUIRE(report != NULL, "no memory");
    lesson->code =
        reconnect_run(lesson->side.db, lesson->side.state, &usual, &lesson->goal,
                      lesson->places, lesson->place_count, NULL, NULL, report, &lesson->status);
    free(report);
    return NULL;
}

static reconnect_server *teach(struct side *side, const reconnect_settings *settings,
                               char address[32])
{
    kv_status status = KV_STATUS_INIT;
    reconnect_server *server;
    REQUIRE(reconnect_server_start(side->state, settings, "tcp://127.0.0.1:0", NULL, NULL,
                                   &server, &status) == KV_OK,
            "%s", status.message);
    snprintf(address, 32, "127.0.0.1:%u", reconnect_server_port(server));
    return server;
}

/* Three teachers share the work; one goes on, one goes away. */
static void share_work(void)
{
    struct side teachers[TEACHERS];
    reconnect_server *servers[TEACHERS];
    reconnect_place places[TEACHERS];
    char addresses[TEACHERS][32];
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    settings.rate_max = 100000; /* so that all of it happens at the same time */
    for (unsigned i = 0; i < TEACHERS; i++) {
        side_open(&teachers[i], "memory", NULL);
        side_fill(&teachers[i], "map", 0, KEYS, 0);
        side_commit(&teachers[i]);
        servers[i] = teach(&teachers[i], &settings, addresses[i]);
        places[i] = (reconnect_place){ addresses[i], -1 };
    }
    struct lesson lessons[LEARNERS] = { 0 };
    for (unsigned i = 0; i < LEARNERS; i++) {
        side_open(&lessons[i].side, "memory", NULL);
        lessons[i].places = places;
        lessons[i].place_count = TEACHERS;
        lessons[i].goal = (reconnect_goal){ .version = 1,
                                            .app_hash_known = true,
                                            .app_hash = state_app_hash(teachers[0].state) };
        pthread_create(&lessons[i].thread, NULL, learn, &lessons[i]);
    }
    side_fill(&teachers[1], "map", KEYS, KEYS + 500, 0);
    side_commit(&teachers[1]);
    usleep(200000);
    reconnect_server_stop(servers[2], NULL);
    for (unsigned i = 0; i < LEARNERS; i++) {
        pthread_join(lessons[i].thread, NULL);
        REQUIRE(lessons[i].code == KV_OK, "learner %u: %s", i, lessons[i].status.message);
        sides_equal(&lessons[i].side, &teachers[0]);
        side_close(&lessons[i].side);
    }
    reconnect_server_stop(servers[0], NULL);
    reconnect_server_stop(servers[1], NULL);
    for (unsigned i = 0; i < TEACHERS; i++)
        side_close(&teachers[i]);
}

/* One teacher commits and prunes all the time, and serves learners by every traversal,
 * each of which ends at a version that there was. */
static void learn_from_a_writer(void)
{
    struct side teacher;
    char address[32];
    vmap_digest app_hashes[VERSIONS + 1];
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    settings.rate_max = 1000000;
    side_open(&teacher, "memory", NULL);
    side_fill(&teacher, "map", 0, KEYS, 0);
    side_fill(&teacher, "small", 0, 100, 0);
    side_commit(&teacher);
    app_hashes[1] = state_app_hash(teacher.state);
    reconnect_server *server = teach(&teacher, &settings, address);
    const reconnect_place place = { address, -1 };
    static const reconnect_traversal traversals[LEARNERS] = { RECONNECT_DIFF, RECONNECT_PULL,
                                                              RECONNECT_LEVEL };
    struct lesson lessons[LEARNERS] = { 0 };
    for (unsigned i = 0; i < LEARNERS; i++) {
        side_open(&lessons[i].side, "memory", NULL);
        side_fill(&lessons[i].side, "map", 0, i * KEYS / 4, 0); /* the first builds both maps */
        lessons[i].places = &place;
        lessons[i].place_count = 1;
        lessons[i].goal = (reconnect_goal){ .traversal = traversals[i] };
        pthread_create(&lessons[i].thread, NULL, learn, &lessons[i]);
    }
    for (unsigned version = 2; version <= VERSIONS; version++) {
        side_fill(&teacher, "map", version * 50, version * 50 + 100, version);
        side_delete(&teacher, "map", version);
        side_commit(&teacher);
        app_hashes[version] = state_app_hash(teacher.state);
        REQUIRE(state_prune(teacher.state, 1 + version % 3, NULL) == KV_OK, "cannot prune");
        usleep(10000);
    }
    for (unsigned i = 0; i < LEARNERS; i++) {
        pthread_join(lessons[i].thread, NULL);
        REQUIRE(lessons[i].code == KV_OK, "learner %u: %s", i, lessons[i].status.message);
        uint64_t version = state_version(lessons[i].side.state);
        vmap_digest app_hash = state_app_hash(lessons[i].side.state);
        REQUIRE(version > 0 && version <= VERSIONS &&
                    memcmp(&app_hash, &app_hashes[version], sizeof(app_hash)) == 0,
                "learner %u ended at no version of the teacher's", i);
        side_close(&lessons[i].side);
    }
    reconnect_server_stop(server, NULL);
    side_close(&teacher);
}

int main(int argc, char **argv)
{
    long rounds = argc == 2 ? strtol(argv[1], NULL, 10) : 1;
    for (long i = 0; i < rounds; i++) {
        share_work();
        learn_from_a_writer();
    }
    printf("%ld rounds of %d learners and %d teachers\n", rounds, LEARNERS, TEACHERS);
    return 0;
}
