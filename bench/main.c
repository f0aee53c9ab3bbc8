/* main.c - statekv-bench: chooses the suite or command. */
#include "bench/harness.h"

#include <argp.h>
#include <string.h>

static int usage(FILE *out)
{
    fprintf(out, "Usage: statekv-bench SUITE [WORKLOAD...] [OPTION...]\n"
                 "       statekv-bench compare BASE.json NEW.json\n"
                 "       statekv-bench compare --run \"COMMAND A\" \"COMMAND B\"\n"
                 "       statekv-bench report FILE.json... -o report.html\n\n"
                 "Suites (each has its own --help):\n");
    for (const bench_suite *const *each = bench_suites; *each != NULL; each++)
        fprintf(out, "  %-10s %s\n", (*each)->name, (*each)->help);
    return out == stdout ? BENCH_DONE : BENCH_USAGE;
}

int main(int argc, char **argv)
{
    bench_counters_init();
    argp_err_exit_status = BENCH_USAGE;
    if (argc < 2)
        return usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return usage(stdout);
    if (strcmp(argv[1], "compare") == 0)
        return bench_compare_main(argc - 1, argv + 1);
    if (strcmp(argv[1], "report") == 0)
        return bench_report_main(argc - 1, argv + 1);

    const bench_suite *suite = bench_suite_find(argv[1]);
    if (suite == NULL) {
        fprintf(stderr, "statekv-bench: there is no suite or command '%s'\n", argv[1]);
        return usage(stderr);
    }
    static struct bench_plan plan; /* too big for a stack */
    char name[64];
    snprintf(name, sizeof(name), "statekv-bench %s", suite->name);
    char *own_name = argv[1];
    argv[1] = name;
    bench_plan_parse(&plan, suite, argc - 1, argv + 1);
    argv[1] = own_name;
    return plan.child_file >= 0 ? bench_child_run(&plan)
                                : bench_parent_run(&plan, argc - 1, argv + 1);
}
