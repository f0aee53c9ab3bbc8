/*
 * scenario.h - a small life of a database, in which anything may fail.
 *
 * prepare() writes what must never be lost. run() then does one of each: opens,
 * writes singly and in batches over two spaces, reads, walks, copies, closes; it
 * notes which writes were acknowledged and goes on after an error. check() opens
 * again with nothing failing, the copy too, and holds the contents against the notes.
 */
#ifndef TEST_FAULT_SCENARIO_H
#define TEST_FAULT_SCENARIO_H

#include "kv/driver.h"

enum { SCENARIO_OLD = 40, SCENARIO_NEW = 24, SCENARIO_PATH_MAX = 256 };

struct scenario {
    const char *driver;
    char root[SCENARIO_PATH_MAX]; /* under mkdtemp; removed by scenario_free */
    char dir[SCENARIO_PATH_MAX];
    char copy[SCENARIO_PATH_MAX]; /* beside it, made when all is written */
    bool durable;
    bool acknowledged[SCENARIO_NEW];
    unsigned errors; /* calls that failed in run() */
    kv_status first; /* the first error's message */
};

void scenario_init(struct scenario *scenario, const char *driver);
void scenario_free(struct scenario *scenario);
void scenario_prepare(struct scenario *scenario); /* aborts on any fault */
void scenario_run(struct scenario *scenario);

/* Whether all is as it must be; else says what is not, on standard error. */
bool scenario_check(struct scenario *scenario);

#endif /* TEST_FAULT_SCENARIO_H */
