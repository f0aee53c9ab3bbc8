/*
 * group_crash.c - a process that writes to two stores through a group ends at every
 * numbered step, a step being any write, sync, rename or unlink that it, its engines
 * included, asks the kernel for. Then, from each such ruin, opening it again ends at
 * steps of its own. In the end both stores must hold the same prefix of the history,
 * no shorter than what was acknowledged, nothing of it partial.
 *
 * usage: group_crash steps STRIDE        every STRIDE-th step
 *        group_crash kills COUNT SEED    that many kill -9 under four writer threads
 *        group_crash cuts STRIDE         the journal cut, and flipped, at every STRIDE-th byte
 *        group_crash logs COUNT SEED     power lost: each engine's log cut back on its own
 *        group_crash faults STRIDE       every STRIDE-th sync or write fails once, EIO or
 * ENOSPC
 *        group_crash rivals COUNT SEED  two processes recover one folder at the same time, one
 * of them killed at times
 */
#include "kv/group.h"
#include "test/base.h"
#include "test/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMITS = 24, THREADS = 4, EXIT_AT_STEP = 99 };
enum { LEFT_COMMITS = 6, RIVAL_TRIES_MAX = 20000 };
enum { FILE_PATH_SIZE = TEST_PATH_SIZE + 128 }; /* of one in the folder */

/* ---- Steps: the calls below stand before libc's ---------------------------- */

static _Atomic long steps_left = -1;  /* below zero: do not count */
static _Atomic long faults_left = -1; /* likewise; then one call fails */
static int fault_error;

static void step(void)
{
    if (atomic_load(&steps_left) >= 0 && atomic_fetch_sub(&steps_left, 1) == 0)
        _exit(EXIT_AT_STEP);
}

/* What the failing call was about, of these. */
static const char *const fault_places[] = { "/group/journal", "/rocksdb/", "/leveldb/" };
static long fault_counts[3];

static void fault_note(int fd)
{
    char link[40], path[300];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof(path) - 1);
    path[size < 0 ? 0 : size] = '\0';
    for (size_t i = 0; i < 3; i++)
        fault_counts[i] += strstr(path, fault_places[i]) != NULL;
}

static bool fault(int fd)
{
    if (atomic_load(&faults_left) < 0 || atomic_fetch_sub(&faults_left, 1) != 0)
        return false;
    fault_note(fd);
    errno = fault_error;
    return true;
}

/* Visible to the engines' shared libraries too. */
#pragma GCC visibility push(default)

ssize_t write(int fd, const void *bytes, size_t size)
{
    step();
    if (fault(fd))
        return -1;
    return syscall(SYS_write, fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    step();
    if (fault(fd))
        return -1;
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    step();
    if (fault(fd))
        return -1;
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

int fsync(int fd)
{
    step();
    if (fault(fd))
        return -1;
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    step();
    if (fault(fd))
        return -1;
    return (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
    step();
    return (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
    step();
    return (int)syscall(SYS_unlink, path);
}

#pragma GCC visibility pop

/* ---- The stores ------------------------------------------------------------ */

static const char *const drivers[2] = { "rocksdb", "leveldb" };

struct world {
    char dir[TEST_PATH_SIZE];
    struct store stores[2];
    kv_group *group;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static kv_code world_group_open(struct world *world, kv_status *status)
{
    kv_group_member members[2];
    for (size_t i = 0; i < 2; i++)
        members[i] = (kv_group_member){ drivers[i], world->stores[i].db };
    char journal[FILE_PATH_SIZE];
    snprintf(journal, sizeof(journal), "%s/group", world->dir);
    kv_group_options options = { .journal_size = KV_GROUP_JOURNAL_SIZE_MIN };
    return kv_group_open(journal, members, 2, &options, &world->group, status);
}

/* The store of a driver in the folder `dir`, not open. */
static void store_at(struct store *store, const char *driver, const char *dir)
{
    memset(store, 0, sizeof(*store));
    snprintf(store->driver, sizeof(store->driver), "%s", driver);
    snprintf(store->dir, sizeof(store->dir), "%s/%s", dir, driver);
}

static void world_init(struct world *world, const char *dir)
{
    snprintf(world->dir, sizeof(world->dir), "%s", dir);
    for (size_t i = 0; i < 2; i++)
        store_at(&world->stores[i], drivers[i], dir);
}

static kv_code world_open(struct world *world, const char *dir, kv_status *status)
{
    world_init(world, dir);
    for (size_t i = 0; i < 2; i++)
        store_open(&world->stores[i]);
    return world_group_open(world, status);
}

static void world_close(struct world *world)
{
    if (kv_group_close(world->group, NULL) != KV_OK)
        die("close", "the group does not close");
    store_close(&world->stores[0]);
    store_close(&world->stores[1]);
}

/* Commit number `n` of `lane`: its count in both stores, and a key of its own. */
static kv_code commit(struct world *world, char lane, uint32_t n, kv_status *status)
{
    kv_group_batch *batch;
    kv_code code = kv_group_batch_new(world->group, &batch, status);
    if (code != KV_OK)
        return code;
    char count[2] = { lane, '#' }, own[16];
    int size = snprintf(own, sizeof(own), "%c%08u", lane, n);
    for (size_t i = 0; i < 2; i++) {
        kv_space *space = world->stores[i].space;
        kv_group_batch_put(batch, space, kv_bytes(count, 2), kv_bytes(&n, sizeof(n)));
        kv_group_batch_put(batch, space, kv_bytes(own, (size_t)size), kv_bytes(&n, sizeof(n)));
    }
    code = kv_group_batch_commit(batch, KV_SYNC, status);
    kv_group_batch_free(batch);
    return code;
}

static uint32_t count_of(kv_space *space, char lane)
{
    char key[2] = { lane, '#' };
    uint32_t count = 0;
    kv_value value = KV_VALUE_INIT;
    if (kv_get(space, NULL, kv_bytes(key, 2), &value, NULL) == KV_OK)
        memcpy(&count, value.bytes.data, sizeof(count));
    kv_value_release(&value);
    return count;
}

/* Both stores hold lane's commits 1..n and no other, n at least `acknowledged`. */
static void lane_check(struct world *world, char lane, uint32_t acknowledged)
{
    uint32_t counts[2];
    for (size_t i = 0; i < 2; i++) {
        kv_space *space = world->stores[i].space;
        counts[i] = count_of(space, lane);
        kv_range range = { kv_bytes((char[]){ lane, '0' }, 2),
                           kv_bytes((char[]){ lane, ':' }, 2) };
        kv_iter *iter;
        uint32_t found = 0;
        if (kv_iter_open(space, NULL, &range, &iter, NULL) != KV_OK)
            die("check", "no iterator");
        for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
            uint32_t n;
            memcpy(&n, kv_iter_value(iter).data, sizeof(n));
            if (n != ++found)
                die("check", "a hole in a store's history");
        }
        kv_iter_close(iter);
        if (found != counts[i])
            die("check", "a commit is partial");
    }
    if (counts[0] != counts[1])
        die("check", "the stores hold different prefixes");
    if (counts[0] < acknowledged)
        die("check", "an acknowledged commit is lost");
}

/* ---- Children -------------------------------------------------------------- */

static int child_commit(const char *dir, int report)
{
    struct world world;
    kv_status status = KV_STATUS_INIT;
    if (world_open(&world, dir, &status) != KV_OK)
        die("open", status.message);
    uint32_t from = count_of(world.stores[0].space, 'a');
    for (uint32_t n = from + 1; n <= COMMITS; n++) {
        if (commit(&world, 'a', n, &status) != KV_OK)
            die("commit", status.message);
        syscall(SYS_write, report, &n, sizeof(n));
        if (n % 10 == 0 && kv_group_checkpoint(world.group, &status) != KV_OK)
            die("checkpoint", status.message);
    }
    world_close(&world);
    return 0;
}

struct lane {
    struct world *world;
    int report;
    char name;
    pthread_t thread;
};

static void *lane_run(void *argument)
{
    const struct lane *lane = argument;
    uint32_t n = count_of(lane->world->stores[0].space, lane->name);
    for (;;) {
        kv_status status = KV_STATUS_INIT;
        if (commit(lane->world, lane->name, ++n, &status) != KV_OK)
            die("commit", status.message);
        uint32_t message[2] = { (uint32_t)lane->name, n };
        syscall(SYS_write, lane->report, message, sizeof(message));
    }
    return NULL;
}

static _Noreturn void child_lanes(const char *dir, int report)
{
    struct world world;
    kv_status status = KV_STATUS_INIT;
    if (world_open(&world, dir, &status) != KV_OK)
        die("open", status.message);
    struct lane lanes[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        lanes[i] = (struct lane){ &world, report, (char)('a' + i), 0 };
        pthread_create(&lanes[i].thread, NULL, lane_run, &lanes[i]);
    }
    for (;;)
        pause();
}

/* Leave commits in the journal that no checkpoint took: end without closing. */
static _Noreturn void child_leave(const char *dir, int report)
{
    struct world world;
    kv_status status = KV_STATUS_INIT;
    (void)report;
    if (world_open(&world, dir, &status) != KV_OK)
        die("open", status.message);
    for (uint32_t n = 1; n <= LEFT_COMMITS; n++)
        if (commit(&world, 'a', n, &status) != KV_OK)
            die("commit", status.message);
    _exit(0);
}

/* The newest log of an engine's folder, or "". */
static void newest_log(const char *dir, const char *driver, char path[FILE_PATH_SIZE])
{
    char folder[FILE_PATH_SIZE - 64];
    unsigned long newest = 0;
    snprintf(folder, sizeof(folder), "%s/%s", dir, driver);
    path[0] = '\0';
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        char *end;
        unsigned long number = strtoul(entry->d_name, &end, 10);
        if (strcmp(end, ".log") == 0 && number >= newest) {
            newest = number;
            snprintf(path, FILE_PATH_SIZE, "%s/%.60s", folder, entry->d_name);
        }
    }
    if (entries != NULL)
        closedir(entries);
}

static off_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? info.st_size : 0;
}

/* Report how long the engines' logs were when last synced, then commit and end. */
static _Noreturn void child_logs(const char *dir, int report)
{
    struct world world;
    kv_status status = KV_STATUS_INIT;
    if (world_open(&world, dir, &status) != KV_OK)
        die("open", status.message);
    for (size_t i = 0; i < 2; i++) {
        char path[FILE_PATH_SIZE];
        newest_log(dir, drivers[i], path);
        uint32_t size = (uint32_t)size_of(path);
        syscall(SYS_write, report, &size, sizeof(size));
    }
    uint32_t from = count_of(world.stores[0].space, 'a');
    for (uint32_t n = from + 1; n <= from + 8; n++)
        if (commit(&world, 'a', n, &status) != KV_OK)
            die("commit", status.message);
    _exit(0);
}

/* Open as soon as nobody else has it: the stores and the group each say KV_BUSY. */
static void world_open_when_free(struct world *world, const char *dir)
{
    world_init(world, dir);
    for (unsigned tries = 0; tries < RIVAL_TRIES_MAX; tries++) {
        kv_status status = KV_STATUS_INIT;
        kv_code code = store_try(&world->stores[0], &status);
        if (code == KV_OK) {
            code = store_try(&world->stores[1], &status);
            if (code == KV_OK)
                code = world_group_open(world, &status);
            if (code == KV_OK)
                return;
            if (world->stores[1].db != NULL)
                store_close(&world->stores[1]);
            store_close(&world->stores[0]);
        }
        if (code != KV_BUSY || strstr(status.message, dir) == NULL)
            die("open beside a rival", status.message);
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    die("open beside a rival", "it never was free");
}

/* Recover what another left, beside a rival that does the same, and add a commit. */
static int child_rival(const char *dir, int report)
{
    struct world world = { 0 };
    kv_status status = KV_STATUS_INIT;
    world_open_when_free(&world, dir);
    lane_check(&world, 'a', LEFT_COMMITS);
    uint32_t n = count_of(world.stores[0].space, 'a') + 1;
    if (commit(&world, 'a', n, &status) != KV_OK)
        die("commit", status.message);
    syscall(SYS_write, report, &n, sizeof(n));
    world_close(&world);
    return 0;
}

/* A group whose only member takes no lock of its own: the folder's is all there is. */
static kv_code lone_open(struct store *store, const char *dir, kv_group **group,
                         kv_status *status)
{
    store_at(store, "memory", dir);
    store_open(store);
    kv_group_member member = { "memory", store->db };
    kv_group_options options = { .journal_size = KV_GROUP_JOURNAL_SIZE_MIN };
    return kv_group_open(dir, &member, 1, &options, group, status);
}

static _Noreturn void child_hold(const char *dir, int report)
{
    struct store store;
    kv_group *group;
    kv_status status = KV_STATUS_INIT;
    if (lone_open(&store, dir, &group, &status) != KV_OK)
        die("open", status.message);
    syscall(SYS_write, report, &(uint32_t){ 1 }, sizeof(uint32_t));
    for (;;)
        pause();
}

/* Run this program again as `role` on `dir`, to end at `at` (below zero: never).
 * Returns its process; `report` is the reading end of what it acknowledges. */
static pid_t spawn(const char *role, const char *dir, long at, int *report)
{
    int ends[2];
    if (pipe(ends) != 0)
        die("pipe", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        char steps[32], fd[16];
        snprintf(steps, sizeof(steps), "%ld", at);
        snprintf(fd, sizeof(fd), "%d", ends[1]);
        execl("/proc/self/exe", "group_crash", "child", role, dir, steps, fd, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *report = ends[0];
    return pid;
}

static int run(const char *role, const char *dir, long at, uint32_t *acknowledged)
{
    int report, outcome;
    pid_t pid = spawn(role, dir, at, &report);
    uint32_t n;
    while (read(report, &n, sizeof(n)) == (ssize_t)sizeof(n))
        if (acknowledged != NULL)
            *acknowledged = n;
    close(report);
    waitpid(pid, &outcome, 0);
    if (!WIFEXITED(outcome))
        die(role, "was ended by a signal");
    if (WEXITSTATUS(outcome) != 0 && WEXITSTATUS(outcome) != EXIT_AT_STEP)
        die(role, "failed");
    return WEXITSTATUS(outcome);
}

/* ---- Campaigns ------------------------------------------------------------- */

static void folder_copy(const char *from, const char *to)
{
    char command[2 * FILE_PATH_SIZE];
    snprintf(command, sizeof(command), "cp -a %s/. %s/", from, to);
    if (system(command) != 0)
        die("cp", "failed");
}

static void world_check(const char *dir, uint32_t acknowledged)
{
    struct world world;
    kv_status status = KV_STATUS_INIT;
    if (world_open(&world, dir, &status) != KV_OK)
        die("open after a crash", status.message);
    lane_check(&world, 'a', acknowledged);
    world_close(&world);
}

static int campaign_steps(long stride)
{
    long first = 0, second = 0;
    for (long at = 0;; at += stride) {
        char dir[TEST_PATH_SIZE];
        test_folder_make(dir);
        uint32_t acknowledged = 0;
        int ended = run("commit", dir, at, &acknowledged);
        first++;
        /* Opening what is left ends too, at ever later steps, and then completes. */
        for (long again = at % 7; again < 60; again += 7 * stride) {
            if (run("commit", dir, again, &acknowledged) == 0)
                break;
            second++;
        }
        world_check(dir, acknowledged);
        test_folder_remove(dir);
        if (ended == 0)
            break;
    }
    printf("steps: %ld ends in commits and checkpoints, %ld in opening again, 0 losses\n",
           first, second);
    return 0;
}

static int campaign_kills(long count, uint64_t seed)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    uint32_t acknowledged[THREADS] = { 0 };
    for (long i = 0; i < count; i++) {
        int report, outcome;
        pid_t pid = spawn("lanes", dir, -1, &report);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        /* In opening at times; else at any moment after the first commit. */
        struct timespec pause = { 0, (long)((seed >> 33) % 100) * 1000000 };
        uint32_t message[2];
        if (i % 4 != 0 && read(report, message, sizeof(message)) == (ssize_t)sizeof(message))
            acknowledged[message[0] - 'a'] = message[1];
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        while (read(report, message, sizeof(message)) == (ssize_t)sizeof(message))
            acknowledged[message[0] - 'a'] = message[1];
        close(report);
        waitpid(pid, &outcome, 0);
        if (!WIFSIGNALED(outcome))
            die("kills", "the writers failed by themselves");
        struct world world;
        kv_status status = KV_STATUS_INIT;
        if (world_open(&world, dir, &status) != KV_OK)
            die("open after a kill", status.message);
        for (size_t lane = 0; lane < THREADS; lane++)
            lane_check(&world, (char)('a' + lane), acknowledged[lane]);
        world_close(&world);
    }
    printf("kills: %ld under %d writers, %u commits acknowledged, 0 losses\n", count, THREADS,
           acknowledged[0] + acknowledged[1] + acknowledged[2] + acknowledged[3]);
    test_folder_remove(dir);
    return 0;
}

static void journal_damage(const char *dir, off_t at, bool cut)
{
    char path[FILE_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/group/journal", dir);
    int fd = open(path, O_RDWR);
    unsigned char byte = 0;
    if (fd < 0 || pread(fd, &byte, 1, at) != 1)
        die("journal", strerror(errno));
    byte ^= 0x40;
    if (cut ? ftruncate(fd, at) != 0 : pwrite(fd, &byte, 1, at) != 1)
        die("journal", strerror(errno));
    close(fd);
}

/* Damage may be refused; what opens must hold the same prefix in both stores. */
static bool damaged_check(const char *dir)
{
    struct world world;
    kv_status status = KV_STATUS_INIT;
    bool opened = world_open(&world, dir, &status) == KV_OK;
    if (opened) {
        lane_check(&world, 'a', 0);
        world_close(&world);
        return true;
    }
    if (status.code != KV_CORRUPT || strstr(status.message, "journal") == NULL)
        die("damage", status.message);
    store_close(&world.stores[0]);
    store_close(&world.stores[1]);
    return false;
}

static int campaign_cuts(long stride)
{
    char origin[TEST_PATH_SIZE];
    test_folder_make(origin);
    run("leave", origin, -1, NULL);
    long opened = 0, refused = 0;
    const off_t size = 2 * 4096 + 2 * (off_t)KV_GROUP_JOURNAL_SIZE_MIN;
    for (int cut = 0; cut < 2; cut++)
        for (off_t at = 0; at < size; at += stride) {
            /* past the headers' and records' bytes all is zero: look at it sparsely */
            bool dense = at < 8192 ? at % 4096 < 700 : (at - 8192) % 65536 < 1200;
            if (!dense && at % 997 >= stride)
                continue;
            char dir[TEST_PATH_SIZE];
            test_folder_make(dir);
            folder_copy(origin, dir);
            journal_damage(dir, at, cut);
            if (damaged_check(dir))
                opened++;
            else
                refused++;
            test_folder_remove(dir);
        }
    printf("journal: %ld cuts and flips, %ld opened whole, %ld refused, 0 partial\n",
           opened + refused, opened, refused);
    test_folder_remove(origin);
    return 0;
}

static int campaign_logs(long count, uint64_t seed)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    long cuts = 0;
    for (long i = 0; i < count; i++) {
        uint32_t synced[2] = { 0 };
        int report, outcome;
        pid_t pid = spawn("logs", dir, -1, &report);
        for (size_t store = 0; store < 2; store++)
            if (read(report, &synced[store], sizeof(synced[store])) !=
                (ssize_t)sizeof(synced[store]))
                die("logs", "the child said nothing");
        close(report);
        waitpid(pid, &outcome, 0);
        for (size_t store = 0; store < 2; store++) {
            char path[FILE_PATH_SIZE];
            newest_log(dir, drivers[store], path);
            off_t size = size_of(path);
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (size <= (off_t)synced[store])
                continue;
            off_t at = synced[store] + (off_t)((seed >> 20) % (uint64_t)(size - synced[store]));
            if (truncate(path, at) != 0)
                die("truncate", strerror(errno));
            cuts++;
        }
        world_check(dir, (uint32_t)(i + 1) * 8);
    }
    printf("logs: %ld cut in %ld losses of power, 0 losses\n", cuts, count);
    test_folder_remove(dir);
    return cuts >= count ? 0 : 1;
}

/* One fault while committing: its call or a later one says so, the group refuses from
 * then on, and what was acknowledged is there when it is opened again. */
static bool fault_round(long at, int error)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    struct world world;
    kv_status status = KV_STATUS_INIT;
    if (world_open(&world, dir, &status) != KV_OK)
        die("open", status.message);
    fault_error = error;
    atomic_store(&faults_left, at);
    uint32_t acknowledged = 0, n = 1;
    bool failed = false;
    for (; n <= COMMITS && !failed; n++) {
        status = (kv_status)KV_STATUS_INIT;
        failed = commit(&world, 'a', n, &status) != KV_OK;
        if (!failed)
            acknowledged = n;
        if (!failed && n % 10 == 0)
            failed = kv_group_checkpoint(world.group, &status) != KV_OK;
    }
    bool reached = atomic_load(&faults_left) < 0;
    atomic_store(&faults_left, -1);
    if (failed && (status.code == KV_OK || commit(&world, 'a', n, NULL) != KV_READ_ONLY))
        die("fault", "the group was harmed and went on");
    if (kv_group_close(world.group, NULL) == KV_BUSY)
        die("fault", "the group does not close");
    store_abandon(&world.stores[0]);
    store_abandon(&world.stores[1]);
    world_check(dir, acknowledged);
    test_folder_remove(dir);
    return reached;
}

static int campaign_faults(long stride)
{
    const int errors[] = { EIO, ENOSPC };
    long faults = 0;
    for (size_t i = 0; i < 2; i++)
        for (long at = 0; fault_round(at, errors[i]); at += stride)
            faults++;
    printf("faults: %ld injected, %ld of them in the journal, %ld in rocksdb, %ld in leveldb, "
           "0 losses\n",
           faults, fault_counts[0], fault_counts[1], fault_counts[2]);
    return fault_counts[0] > 0 && fault_counts[1] > 0 && fault_counts[2] > 0 ? 0 : 1;
}

/* The end of a rival: true if it came to its commit, whose number goes to `n`. */
static bool rival_end(pid_t pid, int report, bool killed, uint32_t *n)
{
    uint32_t number = 0;
    int outcome;
    bool committed = read(report, &number, sizeof(number)) == (ssize_t)sizeof(number);
    close(report);
    waitpid(pid, &outcome, 0);
    if (!killed && (!WIFEXITED(outcome) || WEXITSTATUS(outcome) != 0 || !committed))
        die("rivals", "one failed");
    if (committed && number > *n)
        *n = number;
    return committed;
}

/* Who comes while another process has the group is told so, until that one is dead. */
static void lock_check(void)
{
    char dir[TEST_PATH_SIZE];
    test_folder_make(dir);
    int report;
    uint32_t holds = 0;
    pid_t pid = spawn("hold", dir, -1, &report);
    if (read(report, &holds, sizeof(holds)) != (ssize_t)sizeof(holds))
        die("rivals", "the first does not open");
    struct store store;
    kv_group *group;
    kv_status status = KV_STATUS_INIT;
    if (lone_open(&store, dir, &group, &status) != KV_BUSY ||
        strstr(status.message, dir) == NULL)
        die("rivals", "the group of another process was not refused");
    store_close(&store);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(report);
    status = (kv_status)KV_STATUS_INIT;
    if (lone_open(&store, dir, &group, &status) != KV_OK)
        die("rivals", status.message);
    if (kv_group_close(group, NULL) != KV_OK)
        die("rivals", "the group does not close");
    store_close(&store);
    test_folder_remove(dir);
}

static int campaign_rivals(long count, uint64_t seed)
{
    long kills = 0;
    lock_check();
    for (long i = 0; i < count; i++) {
        char dir[TEST_PATH_SIZE];
        test_folder_make(dir);
        run("leave", dir, -1, NULL);
        int reports[2];
        pid_t pids[2];
        for (size_t rival = 0; rival < 2; rival++)
            pids[rival] = spawn("rival", dir, -1, &reports[rival]);
        bool killed = i % 2 == 1;
        if (killed) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            nanosleep(&(struct timespec){ 0, (long)((seed >> 33) % 40) * 1000000 }, NULL);
            kill(pids[0], SIGKILL);
            kills++;
        }
        uint32_t newest = 0, commits = 0;
        for (size_t rival = 0; rival < 2; rival++)
            commits += rival_end(pids[rival], reports[rival], killed && rival == 0, &newest);
        if (!killed && newest != LEFT_COMMITS + 2)
            die("rivals", "one did not see what the other committed");
        world_check(dir, LEFT_COMMITS + commits);
        test_folder_remove(dir);
    }
    printf("rivals: %ld pairs recovered one folder, %ld with one killed, 0 losses\n", count,
           kills);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "child") == 0) {
        atomic_store(&steps_left, strtol(argv[4], NULL, 10));
        int report = (int)strtol(argv[5], NULL, 10);
        if (strcmp(argv[2], "lanes") == 0)
            child_lanes(argv[3], report);
        if (strcmp(argv[2], "logs") == 0)
            child_logs(argv[3], report);
        if (strcmp(argv[2], "leave") == 0)
            child_leave(argv[3], report);
        if (strcmp(argv[2], "hold") == 0)
            child_hold(argv[3], report);
        if (strcmp(argv[2], "rival") == 0)
            return child_rival(argv[3], report);
        return child_commit(argv[3], report);
    }
    if (argc == 3 && strcmp(argv[1], "steps") == 0)
        return campaign_steps(strtol(argv[2], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "kills") == 0)
        return campaign_kills(strtol(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "cuts") == 0)
        return campaign_cuts(strtol(argv[2], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "logs") == 0)
        return campaign_logs(strtol(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "faults") == 0)
        return campaign_faults(strtol(argv[2], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "rivals") == 0)
        return campaign_rivals(strtol(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    fprintf(stderr, "usage: group_crash steps STRIDE | kills COUNT SEED | cuts STRIDE | "
                    "logs COUNT SEED | faults STRIDE | rivals COUNT SEED\n");
    return 2;
}
