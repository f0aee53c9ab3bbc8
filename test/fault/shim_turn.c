/*
 * shim_turn.c - fail every call of a driver in turn, with each of the codes that
 * matter, and see that the core hands on the code, leaks nothing and loses nothing.
 */
#include "test/fault/scenario.h"
#include "test/fault/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum verdict { ABSORBED, TOLD, WRONG, END };
enum {
    VERDICTS_FROM = 40, /* exit status; a sanitizer's is below */
    WRONG_MAX = 20      /* a campaign that fails at every call says so and ends */
};

/* In a process of its own, so that a leak has a name. */
static int turn(const char *driver, unsigned long nth, kv_code code)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct scenario scenario;
        fault_shim_fail(0, KV_OK, false);
        scenario_init(&scenario, driver);
        scenario_prepare(&scenario);
        fault_shim_fail(nth, code, false);
        scenario_run(&scenario);
        unsigned long calls = fault_shim_calls();
        fault_shim_fail(0, KV_OK, false);
        bool good = scenario_check(&scenario);
        bool same = scenario.errors == 0 || scenario.first.code == code;
        if (!good || !same)
            fprintf(stderr, "%s, call %lu, %s: told %s, \"%s\"\n", driver, nth,
                    kv_code_name(code), kv_code_name(scenario.first.code),
                    scenario.first.message);
        scenario_free(&scenario);
        enum verdict verdict = scenario.errors > 0 ? TOLD : ABSORBED;
        if (!good || !same)
            verdict = WRONG;
        else if (calls < nth)
            verdict = END;
        exit(VERDICTS_FROM + (int)verdict);
    }
    int state = 0;
    waitpid(child, &state, 0);
    if (WIFEXITED(state) && WEXITSTATUS(state) >= VERDICTS_FROM)
        return WEXITSTATUS(state) - VERDICTS_FROM;
    fprintf(stderr, "%s, call %lu, %s: died\n", driver, nth, kv_code_name(code));
    return WRONG;
}

int main(int argc, char **argv)
{
    static const kv_code codes[] = { KV_IO, KV_NO_MEMORY, KV_CORRUPT, KV_NO_SPACE };
    unsigned long step = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    char name[32];
    const kv_driver *inner = argc > 1 ? kv_driver_find(argv[1]) : NULL;
    if (inner == NULL) {
        fprintf(stderr, "usage: %s DRIVER [STEP]\n", argv[0]);
        return 2;
    }
    fault_shim_register(inner);
    snprintf(name, sizeof(name), "f.%.24s", inner->name);
    unsigned long counts[4] = { 0, 0, 0, 0 };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        int verdict = ABSORBED;
        for (unsigned long nth = 1 + i % step; verdict != END && counts[WRONG] < WRONG_MAX;
             nth += step)
            counts[verdict = turn(name, nth, codes[i])]++;
    }
    printf("%s: %lu calls failed in turn: %lu told, %lu absorbed, %lu wrong\n", name,
           counts[TOLD] + counts[ABSORBED] + counts[WRONG], counts[TOLD], counts[ABSORBED],
           counts[WRONG]);
    return counts[WRONG] > 0 || counts[TOLD] == 0;
}
