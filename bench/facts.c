/* facts.c - where and with what something was measured. */
#include "bench/build.h"
#include "bench/harness.h"
#include "bench/statistics.h"
#include "kv/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_WRITES = 100, PROBE_SIZE = 4096 };

/* The first line of a small file, "" when there is none. */
static void read_line(const char *path, char *out, size_t size)
{
    out[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(out, (int)size, file) == NULL)
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(file);
}

json_t *bench_facts_program(void)
{
    json_t *engines = json_object();
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        json_object_set_new(engines, driver->name, json_string(driver->engine_version));
    return json_pack("{s:s,s:b,s:s,s:s,s:s,s:b,s:o}", "commit", BENCH_COMMIT, "modified",
                     BENCH_MODIFIED, "compiler", BENCH_COMPILER, "flags", BENCH_FLAGS,
                     "build_type", BENCH_BUILD_TYPE, "sanitized", BENCH_SANITIZED, "engines",
                     engines);
}

static void read_cpu(char *out, size_t size)
{
    char line[512];
    out[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && out[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strstr(line, ": ");
        if (strncmp(line, "model name", 10) == 0 && colon != NULL)
            snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file != NULL)
        fclose(file);
}

json_t *bench_facts_machine(void)
{
    struct utsname name;
    char cpu[256], pages[128], governor[64];
    if (uname(&name) != 0)
        memset(&name, 0, sizeof(name));
    read_cpu(cpu, sizeof(cpu));
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", pages, sizeof(pages));
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
              sizeof(governor));
    return json_pack("{s:s,s:s,s:s,s:i,s:I,s:s,s:s}", "kernel", name.release, "architecture",
                     name.machine, "cpu", cpu, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN),
                     "memory_bytes",
                     (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), "huge_pages",
                     pages, "governor", governor);
}

/* ---- A folder ---------------------------------------------------------------- */

/*
 * Find the mount of a device in /proc/self/mountinfo, whose lines read
 * "36 35 98:0 /root /mount/point options ... - type source super-options".
 */
static void find_mount(dev_t device, char *type, char *source, char *options)
{
    char line[4096], wanted[32];
    snprintf(wanted, sizeof(wanted), "%u:%u", major(device), minor(device));
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char id[32], mount_options[256];
        const char *dash = strstr(line, " - ");
        if (dash == NULL ||
            sscanf(line, "%*d %*d %31s %*s %*s %255s", id, mount_options) != 2 ||
            strcmp(id, wanted) != 0)
            continue;
        if (sscanf(dash + 3, "%63s %255s", type, source) == 2)
            snprintf(options, 256, "%s", mount_options);
    }
    if (file != NULL)
        fclose(file);
}

static bool is_volatile(const struct statfs *about)
{
    return about->f_type == TMPFS_MAGIC || about->f_type == RAMFS_MAGIC;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What one durable 4 KiB write costs here: appended, then fdatasync. */
static json_t *probe_fsync(const char *dir)
{
    static const char block[PROBE_SIZE];
    double times[PROBE_WRITES];
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/fsync-probe", dir);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = file >= 0;
    for (int i = 0; good && i < PROBE_WRITES; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        good = pwrite(file, block, PROBE_SIZE, (off_t)i * PROBE_SIZE) == PROBE_SIZE &&
               fdatasync(file) == 0;
        clock_gettime(CLOCK_MONOTONIC, &end);
        times[i] = (double)(end.tv_sec - start.tv_sec) * 1e6 +
                   (double)(end.tv_nsec - start.tv_nsec) / 1e3;
    }
    int error = errno;
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    if (!good)
        return json_pack("{s:s}", "error", strerror(error));
    qsort(times, PROBE_WRITES, sizeof(times[0]), compare_times);
    return json_pack("{s:i,s:i,s:f,s:f}", "writes", PROBE_WRITES, "size", PROBE_SIZE, "p50_us",
                     times[PROBE_WRITES / 2], "p99_us", times[PROBE_WRITES * 99 / 100]);
}

json_t *bench_facts_folder(const char *dir)
{
    struct stat about;
    char type[64] = "", source[256] = "", options[256] = "", path[128], rotational[8] = "";
    struct statfs system;
    if (stat(dir, &about) != 0 || statfs(dir, &system) != 0)
        return json_pack("{s:s,s:s}", "dir", dir, "error", strerror(errno));
    find_mount(about.st_dev, type, source, options);
    if (type[0] == 0) /* its mount is out of sight, as in a changed root */
        snprintf(type, sizeof(type), "type %#lx", (unsigned long)system.f_type);
    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/rotational", major(about.st_dev),
             minor(about.st_dev));
    read_line(path, rotational, sizeof(rotational));
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:b,s:o}", "dir", dir, "filesystem", type, "device",
                     source, "mount_options", options, "rotational", rotational, "volatile",
                     is_volatile(&system), "fsync_probe", probe_fsync(dir));
}
