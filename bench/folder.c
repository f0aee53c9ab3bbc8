/* folder.c - databases and folders for workloads. */
#include "bench/harness.h"

#include <errno.h>
#include <ftw.h>
#include <string.h>

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

kv_code bench_remove(const char *dir, kv_status *status)
{
    if (nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return kv_fail(status, KV_IO, "%s: is not removed: %s", dir, strerror(errno));
    return KV_OK;
}

kv_code bench_open(const bench_process *process, const char *dir, unsigned flags, kv_db **out,
                   kv_status *status)
{
    kv_options *options = NULL;
    *out = NULL;
    kv_code code =
        bench_plan_options(process->cell->plan, process->backend, dir, &options, status);
    if (code == KV_OK)
        code = kv_open(options, flags, out, status);
    kv_options_free(options);
    return code;
}
