/*
 * race.c - the session over TCP with threads about: two learners at once from three
 * teachers, each a thread of its own; one teacher commits meanwhile, one is stopped half
 * way. ThreadSanitizer looks on in the preset "race".
 *
 * usage: race ROUNDS
 */
#include "pair.h"
#include "reconnect/transport.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEACHERS = 3, LEARNERS = 2, KEYS = 4000 };

struct lesson {
    struct side side;
    const reconnect_place *places;
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
    lesson->code = reconnect_run(lesson->side.db, lesson->side.state, &usual, &lesson->goal,
                                 lesson->places, TEACHERS, NULL, NULL, report, &lesson->status);
    free(report);
    return NULL;
}

static void run_round(void)
{
    struct side teachers[TEACHERS];
    reconnect_server *servers[TEACHERS];
    reconnect_place places[TEACHERS];
    char addresses[TEACHERS][32];
    reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    settings.rate_max = 100000; /* so that all of it happens at the same time */
    for (unsigned i = 0; i < TEACHERS; i++) {
        kv_status status = KV_STATUS_INIT;
        side_open(&teachers[i], "memory", NULL);
        side_fill(&teachers[i], "map", 0, KEYS, 0);
        side_commit(&teachers[i]);
        REQUIRE(reconnect_server_start(teachers[i].state, &settings, "tcp://127.0.0.1:0", NULL,
                                       NULL, &servers[i], &status) == KV_OK,
                "%s", status.message);
        snprintf(addresses[i], sizeof(addresses[i]), "127.0.0.1:%u",
                 reconnect_server_port(servers[i]));
        places[i] = (reconnect_place){ addresses[i], -1 };
    }
    struct lesson lessons[LEARNERS] = { 0 };
    for (unsigned i = 0; i < LEARNERS; i++) {
        side_open(&lessons[i].side, "memory", NULL);
        lessons[i].places = places;
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

int main(int argc, char **argv)
{
    long rounds = argc == 2 ? strtol(argv[1], NULL, 10) : 1;
    for (long i = 0; i < rounds; i++)
        run_round();
    printf("%ld rounds of %d learners and %d teachers\n", rounds, LEARNERS, TEACHERS);
    return 0;
}
