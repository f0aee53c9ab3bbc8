/* suites.c - the suites of statekv-bench. */
#include "bench/suites.h"

#include "bench/harness.h"

#include <string.h>

const bench_suite *const bench_suites[] = { &bench_suite_kv,      &bench_suite_reconnect,
                                            &bench_suite_query,   &bench_suite_self,
                                            &bench_suite_session, &bench_suite_txn,
                                            &bench_suite_vmap,    NULL };

const bench_suite *bench_suite_find(const char *name)
{
    for (const bench_suite *const *each = bench_suites; *each != NULL; each++)
        if (strcmp((*each)->name, name) == 0)
            return *each;
    return NULL;
}

const bench_workload *bench_workload_find(const bench_suite *suite, const char *name)
{
    for (const bench_workload *each = suite->workloads; each->name != NULL; each++)
        if (strcmp(each->name, name) == 0)
            return each;
    return NULL;
}
