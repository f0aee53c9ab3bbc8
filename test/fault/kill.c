/*
 * kill.c - kill -9 under a writer, again and again, and count what is lost.
 *
 * Write number n, for n = 1, 2, 3 ..., is one batch: key n mod KEYS gets n in the
 * spaces "left" and "right", and is put into "odd" or deleted from it as n is odd
 * or even. Every fourth is synced. The writer notes in shared memory what was
 * acknowledged. After the kill all must stand as after some write M: no less than
 * the last synced one, each space as M says, walks agreeing with gets. So a batch
 * that is torn, a hole, and a lost write all show.
 *
 *     fault_kill DRIVER KILLS [SEED]
 */
#include "kv/driver.h"

#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 64, SYNC_EVERY = 4, WAIT_MAX_US = 30000 };

struct notes {
    atomic_ulong acknowledged, synced; /* the last write so far */
    atomic_int opened;
};

struct spaces {
    kv_db *db;
    kv_space *left, *right, *odd;
};

static char root[256];
static char dir[300];
static const char *driver;

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    return remove(path);
}

/* Small buffers, so that tables and compactions come soon. */
static void set_small(kv_options *options)
{
    kv_code code = KV_OK;
    if (strcmp(driver, "leveldb") == 0)
        code = kv_options_set(options, "kv.leveldb.write_buffer", "64KiB", NULL);
    else if (strcmp(driver, "rocksdb") == 0)
        code = kv_options_set(options, "kv.rocksdb.write_buffers", "256KiB", NULL);
    if (code != KV_OK)
        abort();
}

static bool open_all(struct spaces *spaces, kv_status *status)
{
    kv_options *options = NULL;
    kv_code code = kv_options_new(driver, dir, NULL, &options, status);
    spaces->db = NULL;
    if (code == KV_OK) {
        set_small(options);
        code = kv_open(options, KV_CREATE, &spaces->db, status);
    }
    if (code == KV_OK)
        code = kv_space_open(spaces->db, "left", KV_CREATE, &spaces->left, status);
    if (code == KV_OK)
        code = kv_space_open(spaces->db, "right", KV_CREATE, &spaces->right, status);
    if (code == KV_OK)
        code = kv_space_open(spaces->db, "odd", KV_CREATE, &spaces->odd, status);
    kv_options_free(options);
    return code == KV_OK;
}

static kv_slice key_of(char text[16], unsigned long n)
{
    int size = snprintf(text, 16, "key-%04lu", n % KEYS);
    return kv_bytes(text, (size_t)size);
}

static size_t value_size(unsigned long n)
{
    return 8 + n * 7919 % 700;
}

static kv_slice value_of(unsigned char bytes[1024], unsigned long n)
{
    uint64_t number = n;
    memset(bytes, (int)(n & 0xff), value_size(n));
    memcpy(bytes, &number, sizeof(number));
    return kv_bytes(bytes, value_size(n));
}

static void write_for_ever(struct notes *notes)
{
    struct spaces spaces;
    kv_status status = KV_STATUS_INIT;
    kv_batch *batch = NULL;
    if (!open_all(&spaces, &status) || kv_batch_new(spaces.db, &batch, &status) != KV_OK) {
        fprintf(stderr, "the writer: %s\n", status.message);
        _exit(1);
    }
    atomic_store(&notes->opened, 1);
    for (unsigned long n = atomic_load(&notes->acknowledged) + 1;; n++) {
        char key_bytes[16];
        unsigned char value_bytes[1024];
        kv_slice key = key_of(key_bytes, n);
        kv_slice value = value_of(value_bytes, n);
        kv_batch_put(batch, spaces.left, key, value);
        kv_batch_put(batch, spaces.right, key, value);
        if (n % 2 == 1)
            kv_batch_put(batch, spaces.odd, key, value);
        else
            kv_batch_delete(batch, spaces.odd, key);
        unsigned flags = n % SYNC_EVERY == 0 ? KV_SYNC : 0;
        if (kv_batch_commit(batch, flags, &status) != KV_OK) {
            fprintf(stderr, "the writer, %lu: %s\n", n, status.message);
            _exit(1);
        }
        if (flags != 0)
            atomic_store(&notes->synced, n);
        atomic_store(&notes->acknowledged, n);
    }
}

/* The write that left `key` as it is after write `last`; 0 for none. */
static unsigned long writer_of(unsigned long key, unsigned long last)
{
    if (last < key || last == 0)
        return 0;
    unsigned long n = last - (last - key) % KEYS;
    return n;
}

static unsigned long number_in(kv_space *space, unsigned long key, bool *wrong)
{
    char key_bytes[16];
    unsigned char expected[1024];
    kv_value value = KV_VALUE_INIT;
    kv_status status = KV_STATUS_INIT;
    uint64_t number = 0;
    kv_code code = kv_get(space, NULL, key_of(key_bytes, key), &value, &status);
    if (code == KV_OK && value.bytes.size >= sizeof(number)) {
        memcpy(&number, value.bytes.data, sizeof(number));
        if (kv_compare(value.bytes, value_of(expected, number)) != 0)
            *wrong = true;
    } else if (code != KV_NOT_FOUND) {
        fprintf(stderr, "key %lu: %s %s\n", key, kv_code_name(code), status.message);
        *wrong = true;
    }
    kv_value_release(&value);
    return number;
}

static bool walk_agrees(kv_space *space)
{
    kv_iter *iter = NULL;
    if (kv_iter_open(space, NULL, NULL, &iter, NULL) != KV_OK)
        return false;
    bool good = true;
    unsigned count = 0;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_value value = KV_VALUE_INIT;
        if (kv_get(space, NULL, kv_iter_key(iter), &value, NULL) != KV_OK ||
            kv_compare(value.bytes, kv_iter_value(iter)) != 0)
            good = false;
        kv_value_release(&value);
        count++;
    }
    bool wrong = kv_iter_status(iter, NULL) != KV_OK;
    kv_iter_close(iter);
    unsigned there = 0;
    for (unsigned long key = 0; key < KEYS; key++)
        there += number_in(space, key, &wrong) != 0;
    return good && !wrong && there == count;
}

/* What stands after the kill; the number of the last write that is there. */
static bool check(struct notes *notes, unsigned long *last)
{
    struct spaces spaces;
    kv_status status = KV_STATUS_INIT;
    bool wrong = false;
    *last = 0;
    if (!open_all(&spaces, &status)) {
        fprintf(stderr, "reopening: %s\n", status.message);
        return false;
    }
    for (unsigned long key = 0; key < KEYS; key++) {
        unsigned long n = number_in(spaces.left, key, &wrong);
        if (n > *last)
            *last = n;
    }
    for (unsigned long key = 0; key < KEYS; key++) {
        unsigned long n = writer_of(key, *last);
        unsigned long left = number_in(spaces.left, key, &wrong);
        unsigned long right = number_in(spaces.right, key, &wrong);
        unsigned long odd = number_in(spaces.odd, key, &wrong);
        if (left != n || right != n || odd != (n % 2 == 1 ? n : 0)) {
            fprintf(stderr, "after write %lu key %lu is %lu, %lu, %lu, not %lu\n", *last, key,
                    left, right, odd, n);
            wrong = true;
        }
    }
    if (*last < atomic_load(&notes->synced)) {
        fprintf(stderr, "synced %lu, there is %lu\n", atomic_load(&notes->synced), *last);
        wrong = true;
    }
    if (!walk_agrees(spaces.left) || !walk_agrees(spaces.odd)) {
        fprintf(stderr, "a walk differs from gets\n");
        wrong = true;
    }
    if (kv_close(spaces.db, &status) != KV_OK)
        wrong = true;
    return !wrong;
}

/* In a process of its own: this one forks, and must have no threads. */
static bool check_apart(struct notes *notes, unsigned long *last)
{
    int ends[2];
    int state = 0;
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        bool good = check(notes, last);
        if (write(ends[1], last, sizeof(*last)) != (ssize_t)sizeof(*last))
            _exit(2);
        _exit(good ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], last, sizeof(*last)) != (ssize_t)sizeof(*last))
        *last = 0;
    close(ends[0]);
    waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

static bool kill_once(struct notes *notes, unsigned wait_us, unsigned long *lost)
{
    atomic_store(&notes->opened, 0);
    pid_t child = fork();
    if (child == 0)
        write_for_ever(notes);
    /* One in eight dies while it opens. */
    while (wait_us % 8 != 0 && atomic_load(&notes->opened) == 0 &&
           waitpid(child, NULL, WNOHANG) == 0)
        usleep(200);
    usleep(wait_us);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);

    unsigned long last = 0;
    bool good = check_apart(notes, &last);
    unsigned long acknowledged = atomic_load(&notes->acknowledged);
    if (last < acknowledged)
        *lost += acknowledged - last;
    atomic_store(&notes->acknowledged, last); /* the next writer goes on from there */
    atomic_store(&notes->synced,
                 last < atomic_load(&notes->synced) ? last : atomic_load(&notes->synced));
    return good;
}

int main(int argc, char **argv)
{
    if (argc < 3 || kv_driver_find(argv[1]) == NULL) {
        fprintf(stderr, "usage: %s DRIVER KILLS [SEED]\n", argv[0]);
        return 2;
    }
    driver = argv[1];
    unsigned long kills = strtoul(argv[2], NULL, 10);
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const char *base = getenv("TMPDIR");
    snprintf(root, sizeof(root), "%.200s/statekv-kill-XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(root) == NULL)
        return 2;
    snprintf(dir, sizeof(dir), "%s/db", root);
    struct notes *notes =
        mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long bad = 0;
    unsigned long lost = 0;
    for (unsigned long i = 0; i < kills; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bad += !kill_once(notes, (unsigned)(seed >> 33) % WAIT_MAX_US, &lost);
    }
    printf("%s: %lu kills under %lu writes of 3 changes each; %lu times wrong afterwards; "
           "acknowledged without sync and lost: %lu\n",
           driver, kills, atomic_load(&notes->acknowledged), bad, lost);
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return bad > 0;
}
