/*
 * kill.c - learners and teachers killed at random moments of a reconnect, the
 * switch included. After each kill the learner's database is opened again: it must
 * stand at the old version or at the new one, whole, and asking again must end at
 * the new one.
 *
 *     test_reconnect_kill [LEARNER_KILLS [TEACHER_KILLS [DRIVER [SEED]]]]
 */
#include "pair.h"
#include "reconnect/transport.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 2000 };

static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void make_learner(struct side *side)
{
    side_fill(side, "map", 0, KEYS, 0);
    side_fill(side, "gone", 0, KEYS / 10, 0);
    side_commit(side);
}

static void make_teacher(struct side *side)
{
    side_fill(side, "map", 0, KEYS, 0);
    side_fill(side, "new", 0, KEYS, 0);
    side_commit(side);
    for (uint64_t key = 0; key < KEYS; key += 2)
        side_put(side, "map", key, key + 1);
    for (uint64_t key = 1; key < KEYS; key += 10)
        side_delete(side, "map", key);
    side_commit(side);
}

static void remove_folder(const char *dir)
{
    char command[200];
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    REQUIRE(system(command) == 0, "%s", command);
}

static void copy_folder(const char *from, const char *to)
{
    char command[300];
    remove_folder(to);
    snprintf(command, sizeof(command), "cp -r '%s' '%s'", from, to);
    REQUIRE(system(command) == 0, "%s", command);
}

/* ---- In the child: a reconnect ------------------------------------------ */

static kv_code reconnect_once(struct side *side, const char *address, kv_status *status)
{
    const reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    const reconnect_goal goal = { 0 };
    const reconnect_place place = { address, -1 };
    reconnect_run_report *report = calloc(1, sizeof(*report));
    kv_code code = reconnect_run(side->db, side->state, &settings, &goal, &place, 1, NULL, NULL,
                                 report, status);
    free(report);
    return code;
}

static int learn(const char *driver, const char *dir, const char *address)
{
    struct side side;
    kv_status status = KV_STATUS_INIT;
    side_open_at(&side, driver, dir);
    kv_code code = reconnect_once(&side, address, &status);
    if (code != KV_OK)
        fprintf(stderr, "learner: %s\n", status.message);
    side_shut(&side);
    return code == KV_OK ? 0 : 1;
}

static int teach(void)
{
    struct side side;
    reconnect_server *server;
    kv_status status = KV_STATUS_INIT;
    const reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    side_open(&side, "memory", NULL);
    make_teacher(&side);
    REQUIRE(reconnect_server_start(side.state, &settings, "127.0.0.1:0", NULL, NULL, &server,
                                   &status) == KV_OK,
            "%s", status.message);
    printf("%u\n", reconnect_server_port(server));
    fflush(stdout);
    for (;;)
        pause();
}

/* ---- In the parent ------------------------------------------------------ */

static const char *self;

static pid_t spawn(char *const arguments[], int *out)
{
    int ends[2] = { -1, -1 };
    if (out != NULL)
        REQUIRE(pipe(ends) == 0, "%s", strerror(errno));
    pid_t child = fork();
    REQUIRE(child >= 0, "%s", strerror(errno));
    if (child == 0) {
        if (out != NULL)
            dup2(ends[1], 1);
        execv(self, arguments);
        _exit(127);
    }
    if (out != NULL) {
        close(ends[1]);
        *out = ends[0];
    }
    return child;
}

/* Kill the child after `us`, unless it ended by itself. True: it was killed. */
static bool kill_after(pid_t child, uint64_t us)
{
    int status;
    usleep((useconds_t)us);
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, &status, 0) == child, "%s", strerror(errno));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

struct tally {
    unsigned kills, old, new, syncs;
};

/* What the learner's database says after a kill. */
static bool at_new_version(const char *driver, const char *dir, struct side *teacher)
{
    struct side side;
    kv_status status = KV_STATUS_INIT;
    side_open_at(&side, driver, dir);
    uint64_t version = state_version(side.state);
    REQUIRE(version == 1 || version == state_version(teacher->state), "version %d",
            (int)version);
    bool new = version != 1;
    if (new) {
        sides_equal(&side, teacher);
    } else {
        state_view *view;
        REQUIRE(state_view_open(side.state, 0, &view, &status) == KV_OK, "%s", status.message);
        REQUIRE(state_view_verify(view, NULL, NULL, &status) == KV_OK, "%s", status.message);
        state_view_close(view);
        side_staged_true(&side, teacher);
    }
    side_shut(&side);
    return new;
}

static void kill_learners(const char *driver, unsigned count, struct tally *tally)
{
    struct side teacher, first;
    reconnect_server *server;
    kv_status status = KV_STATUS_INIT;
    const reconnect_settings settings = RECONNECT_SETTINGS_INIT;
    char base[] = "/tmp/reconnect-kill-XXXXXX", old[64], work[64], address[32];
    REQUIRE(mkdtemp(base) != NULL, "%s", strerror(errno));
    snprintf(old, sizeof(old), "%s/old", base);
    snprintf(work, sizeof(work), "%s/work", base);
    side_open_at(&first, driver, old);
    make_learner(&first);
    side_shut(&first);
    side_open(&teacher, "memory", NULL);
    make_teacher(&teacher);
    REQUIRE(reconnect_server_start(teacher.state, &settings, "127.0.0.1:0", NULL, NULL, &server,
                                   &status) == KV_OK,
            "%s", status.message);
    snprintf(address, sizeof(address), "127.0.0.1:%u", reconnect_server_port(server));
    char *arguments[] = { strdup(self), strdup("learn"), strdup(driver),
                          strdup(work), address,         NULL };

    /* How long a whole one takes, so that kills fall on all of it. */
    copy_folder(old, work);
    double begin = now_s();
    int outcome;
    pid_t child = spawn(arguments, NULL);
    REQUIRE(waitpid(child, &outcome, 0) == child && outcome == 0, "the first one fails");
    uint64_t whole_us = (uint64_t)((now_s() - begin) * 1e6);

    while (tally->kills < count) {
        copy_folder(old, work);
        for (bool new = false; !new && tally->kills < count;) {
            bool killed = kill_after(spawn(arguments, NULL), draw(whole_us + whole_us / 4));
            tally->kills += killed;
            new = at_new_version(driver, work, &teacher);
            tally->new += killed &&new;
            tally->old += killed && !new;
        }
        tally->syncs++;
        fprintf(stderr, "\r%u learners killed", tally->kills);
    }
    fprintf(stderr, "\n");
    reconnect_server_stop(server, NULL);
    side_close(&teacher);
    remove_folder(base);
    for (int i = 0; i < 4; i++)
        free(arguments[i]);
}

static void kill_teachers(const char *driver, unsigned count, struct tally *tally)
{
    struct side right;
    char *arguments[] = { strdup(self), strdup("teach"), NULL };
    side_open(&right, "memory", NULL);
    make_teacher(&right);
    uint64_t whole_us = 30000;
    while (tally->kills < count) {
        struct side learner;
        side_open(&learner, driver, NULL);
        make_learner(&learner);
        for (bool new = false; !new;) {
            int out;
            char port[16] = "", address[32];
            pid_t teacher = spawn(arguments, &out);
            REQUIRE(read(out, port, sizeof(port) - 1) > 0, "no port");
            snprintf(address, sizeof(address), "127.0.0.1:%d", atoi(port));
            close(out);
            uint64_t wait_us = draw(whole_us);
            pid_t killer = fork();
            if (killer == 0) {
                usleep((useconds_t)wait_us);
                kill(teacher, SIGKILL);
                _exit(0);
            }
            kv_status status = KV_STATUS_INIT;
            double begin = now_s();
            kv_code code = reconnect_once(&learner, address, &status);
            REQUIRE(now_s() - begin < 20, "it took %.1f s to notice", now_s() - begin);
            kill(teacher, SIGKILL);
            waitpid(teacher, NULL, 0);
            waitpid(killer, NULL, 0);
            new = state_version(learner.state) != 1;
            REQUIRE(new == (code == KV_OK), "%s", status.message);
            REQUIRE(code == KV_OK || status.message[0] != '\0', "no reason");
            tally->kills += code != KV_OK;
            tally->old += code != KV_OK;
            if (strcmp(driver, "memory") != 0)
                side_reopen(&learner);
        }
        sides_equal(&learner, &right);
        side_close(&learner);
        tally->syncs++;
        fprintf(stderr, "\r%u teachers killed", tally->kills);
    }
    fprintf(stderr, "\n");
    side_close(&right);
    free(arguments[0]);
    free(arguments[1]);
}

int main(int argc, char **argv)
{
    char path[4096] = "";
    REQUIRE(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0, "%s", strerror(errno));
    self = path;
    if (argc == 5 && strcmp(argv[1], "learn") == 0)
        return learn(argv[2], argv[3], argv[4]);
    if (argc == 2 && strcmp(argv[1], "teach") == 0)
        return teach();

    unsigned learners = argc > 1 ? (unsigned)atoi(argv[1]) : 12;
    unsigned teachers = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
    const char *driver = argc > 3 ? argv[3] : "rocksdb";
    seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    struct tally of_learners = { 0 }, of_teachers = { 0 };
    kill_learners(driver, learners, &of_learners);
    kill_teachers(driver, teachers, &of_teachers);
    printf("%s: %u learners killed over %u reconnects: %u at the old version, %u at the new\n",
           driver, of_learners.kills, of_learners.syncs, of_learners.old, of_learners.new);
    printf("%u teachers killed over %u reconnects\n", of_teachers.kills, of_teachers.syncs);
    return 0;
}
