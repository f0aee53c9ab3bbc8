/*
 * folder.c - a disk that fills up, and a folder that vanishes, under a database.
 *
 *     fault_folder fill DRIVER FOLDER BALLAST    FOLDER on a small filesystem
 *     fault_folder vanish DRIVER FOLDER
 */
#include "kv/driver.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUE_SIZE = 60000, BALLAST_SIZE = 16 << 20, WRITES_MAX = 100000 };

#define CHECK(condition, ...)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fputc('\n', stderr);                                            \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static kv_code open_at(const char *driver, const char *dir, kv_db **db, kv_space **space,
                       kv_status *status)
{
    kv_options *options = NULL;
    *db = NULL;
    kv_code code = kv_options_new(driver, dir, NULL, &options, status);
    if (code == KV_OK)
        code = kv_open(options, KV_CREATE, db, status);
    if (code == KV_OK)
        code = kv_space_open(*db, "s", KV_CREATE, space, status);
    kv_options_free(options);
    return code;
}

/* Bytes that do not compress, another row for each key. */
static kv_slice value_of(unsigned n)
{
    static unsigned char bytes[VALUE_SIZE];
    uint64_t state = n + 1;
    for (size_t i = 0; i + 8 <= sizeof(bytes); i += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = state ^ (state >> 29);
        memcpy(bytes + i, &mixed, 8);
    }
    return kv_bytes(bytes, sizeof(bytes));
}

static kv_code put(kv_space *space, unsigned n, kv_status *status)
{
    char key[16];
    int size = snprintf(key, sizeof(key), "%06u", n);
    return kv_put(space, kv_bytes(key, (size_t)size), value_of(n), KV_SYNC, status);
}

static bool has(kv_space *space, unsigned n)
{
    char key[16];
    kv_status status = KV_STATUS_INIT;
    kv_value value = KV_VALUE_INIT;
    int size = snprintf(key, sizeof(key), "%06u", n);
    kv_code code = kv_get(space, NULL, kv_bytes(key, (size_t)size), &value, &status);
    CHECK(code == KV_OK || code == KV_NOT_FOUND, "key %u: %s", n, status.message);
    CHECK(code == KV_NOT_FOUND || kv_compare(value.bytes, value_of(n)) == 0, "key %u", n);
    kv_value_release(&value);
    return code == KV_OK;
}

static void ballast_make(const char *path)
{
    static char bytes[BALLAST_SIZE];
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    CHECK(file >= 0 && write(file, bytes, sizeof(bytes)) == BALLAST_SIZE, "ballast %s", path);
    close(file);
}

/* Write until nothing fits, counting in `*written` what was acknowledged. */
static void fill_up(const char *driver, const char *dir, unsigned *written)
{
    kv_db *db;
    kv_space *space;
    kv_status status = KV_STATUS_INIT;
    CHECK(open_at(driver, dir, &db, &space, &status) == KV_OK, "%s", status.message);
    kv_code code = KV_OK;
    while (*written < WRITES_MAX && (code = put(space, *written, &status)) == KV_OK)
        ++*written;
    CHECK(*written > 0, "nothing fits");
    CHECK(code == KV_NO_SPACE || code == KV_READ_ONLY, "%s: %s", kv_code_name(code),
          status.message);
    printf("%s: full after %u writes: %s: %s\n", driver, *written, kv_code_name(code),
           status.message);
    for (unsigned n = 0; n < *written; n++)
        CHECK(has(space, n), "key %u is lost while full", n);
    status = (kv_status)KV_STATUS_INIT;
    code = put(space, *written + 1, &status);
    CHECK(code == KV_READ_ONLY && strstr(status.message, "pace") != NULL, "%s: %s",
          kv_code_name(code), status.message);
    CHECK(kv_close(db, NULL) == KV_OK, "close");
}

/* In a process of its own: Debian builds RocksDB with its assertions, and at times
 * one fails on a full disk. That is the engine's own end; what matters is that all
 * is there afterwards. */
static void fill_apart(const char *driver, const char *dir, unsigned *written)
{
    int state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        fill_up(driver, dir, written);
        exit(0);
    }
    waitpid(child, &state, 0);
    bool aborted = WIFSIGNALED(state) && WTERMSIG(state) == SIGABRT;
    CHECK((WIFEXITED(state) && WEXITSTATUS(state) == 0) ||
              (aborted && strcmp(driver, "rocksdb") == 0),
          "%s ended with %d", driver, state);
    if (aborted)
        printf("rocksdb: full after %u writes: aborted by an assertion of the engine\n",
               *written);
}

static void fill(const char *driver, const char *dir, const char *ballast)
{
    kv_db *db;
    kv_space *space;
    kv_status status = KV_STATUS_INIT;
    unsigned *written =
        mmap(NULL, sizeof(*written), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(written != MAP_FAILED, "mmap");
    ballast_make(ballast);
    fill_apart(driver, dir, written);

    CHECK(unlink(ballast) == 0, "unlink");
    CHECK(open_at(driver, dir, &db, &space, &status) == KV_OK, "%s", status.message);
    for (unsigned n = 0; n < *written; n++)
        CHECK(has(space, n), "key %u is lost", n);
    CHECK(!has(space, *written + 1), "a refused write is there");
    CHECK(put(space, *written + 1, &status) == KV_OK, "%s", status.message);
    CHECK(kv_close(db, NULL) == KV_OK, "close");
    munmap(written, sizeof(*written));
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    return remove(path);
}

/* Whoever removes a database under a writer gets no data back, but an answer. */
static void vanish(const char *driver, const char *dir)
{
    kv_db *db;
    kv_space *space;
    kv_status status = KV_STATUS_INIT;
    CHECK(open_at(driver, dir, &db, &space, &status) == KV_OK, "%s", status.message);
    for (unsigned n = 0; n < 20; n++)
        CHECK(put(space, n, &status) == KV_OK, "%s", status.message);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    kv_code code = KV_OK;
    for (unsigned n = 0; n < 3000 && code == KV_OK; n++) {
        code = put(space, n, &status);
        if (code == KV_OK && n % 500 == 499)
            code = kv_compact(space, NULL, &status);
    }
    CHECK(code == KV_IO || code == KV_READ_ONLY || code == KV_CORRUPT, "%s: %s",
          kv_code_name(code), status.message);
    printf("%s: vanished: %s: %s\n", driver, kv_code_name(code), status.message);
    if (kv_close(db, NULL) != KV_OK)
        exit(1);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "fill") == 0 && kv_driver_find(argv[2]) != NULL)
        fill(argv[2], argv[3], argv[4]);
    else if (argc == 4 && strcmp(argv[1], "vanish") == 0 && kv_driver_find(argv[2]) != NULL)
        vanish(argv[2], argv[3]);
    else
        return 2;
    return 0;
}
