/*
 * turn.c - fail every allocation, open, read, write, sync and rename in turn.
 *
 * Each turn is a process of its own, so that a crash or a leak is seen and named:
 * it prepares a database, lets the n-th call of a kind fail in a small life of it,
 * and checks afterwards that nothing acknowledged and nothing older is lost.
 *
 *     fault_turn DRIVER KIND [STEP [ERRNO]]     every STEP-th turn, from 1
 */
#include "test/fault/inject.h"
#include "test/fault/scenario.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum verdict { ABSORBED, TOLD, WRONG, ABORTED, VERDICTS };
enum { VERDICTS_FROM = 40 /* exit status; a sanitizer's is below */ };

/* Shared with the child that lives it. */
struct shared {
    struct scenario scenario;
    unsigned long calls;
};

static enum verdict turn(struct shared *shared, enum inject_kind kind, unsigned long nth,
                         int error)
{
    struct scenario *scenario = &shared->scenario;
    scenario_prepare(scenario);
    inject_start(kind, nth, error, 0);
    scenario_run(scenario);
    shared->calls = inject_stop();
    bool good = scenario_check(scenario);
    if (!good)
        fprintf(stderr, "%s, %s %lu: told \"%s\"\n", scenario->driver, inject_names[kind], nth,
                scenario->first.message);
    return !good ? WRONG : scenario->errors > 0 ? TOLD : ABSORBED;
}

/* Debian builds RocksDB with its assertions; one that fails after an error we made
 * is the engine's own end, and what matters is that all is there afterwards. The
 * engine's threads must not be in this process, which forks again. */
static enum verdict verdict_of_death(struct shared *shared, int state)
{
    if (!WIFSIGNALED(state) || WTERMSIG(state) != SIGABRT ||
        strcmp(shared->scenario.driver, "rocksdb") != 0)
        return WRONG;
    pid_t child = fork();
    if (child == 0)
        _exit(scenario_check(&shared->scenario) ? ABORTED : WRONG);
    waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) == ABORTED ? ABORTED : WRONG;
}

static enum verdict turn_apart(struct shared *shared, const char *driver, enum inject_kind kind,
                               unsigned long nth, int error)
{
    int state = 0;
    enum verdict verdict = WRONG;
    scenario_init(&shared->scenario, driver);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        exit(VERDICTS_FROM + (int)turn(shared, kind, nth, error)); /* exit looks for leaks */
    waitpid(child, &state, 0);
    if (WIFEXITED(state) && WEXITSTATUS(state) >= VERDICTS_FROM)
        verdict = (enum verdict)(WEXITSTATUS(state) - VERDICTS_FROM);
    else
        verdict = verdict_of_death(shared, state);
    if (verdict == WRONG || verdict == ABORTED)
        fprintf(stderr, "%s, %s %lu: wait status %x\n", driver, inject_names[kind], nth,
                (unsigned)state);
    scenario_free(&shared->scenario);
    return verdict;
}

static int kind_of(const char *name)
{
    int kind = 0;
    while (kind < INJECT_KINDS && strcmp(inject_names[kind], name) != 0)
        kind++;
    return kind;
}

int main(int argc, char **argv)
{
    if (argc < 3 || kv_driver_find(argv[1]) == NULL || kind_of(argv[2]) == INJECT_KINDS) {
        fprintf(stderr,
                "usage: %s DRIVER allocation|open|read|write|sync|rename [STEP "
                "[ERRNO]]\n",
                argv[0]);
        return 2;
    }
    enum inject_kind kind = (enum inject_kind)kind_of(argv[2]);
    unsigned long step = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    int error = argc > 4 ? atoi(argv[4]) : kind == INJECT_ALLOCATION ? ENOMEM : EIO;
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long counts[VERDICTS] = { 0 };
    if (shared == MAP_FAILED || turn_apart(shared, argv[1], kind, 0, error) != ABSORBED) {
        fprintf(stderr, "%s fails with nothing injected\n", argv[1]);
        return 1;
    }
    unsigned long all = shared->calls;
    if (all < 2) {
        fprintf(stderr, "%s makes no calls of kind %s that are seen\n", argv[1], argv[2]);
        return 1;
    }
    for (unsigned long nth = 1; nth <= all; nth += step)
        counts[turn_apart(shared, argv[1], kind, nth, error)]++;
    printf("%s: %lu calls of kind %s; failed in turn: %lu told, %lu absorbed with all data "
           "there, %lu aborted by an assertion of the engine with all data there, %lu wrong\n",
           argv[1], all, argv[2], counts[TOLD], counts[ABSORBED], counts[ABORTED],
           counts[WRONG]);
    return counts[WRONG] > 0;
}
