/*
 * damage.c - the newest log cut at every byte, and single bytes flipped in every
 * file of a closed database.
 *
 * The database holds write after write, each a batch of two keys, all synced. Every
 * variant is a copy with one thing wrong; it is opened, read by gets and by walks,
 * and held against the states after each write. What may come out:
 *
 *     whole      all data is there (the byte did not matter)
 *     told       an error, at opening or at reading, and every answer that was
 *                given is right
 *     shorter    the state after an earlier write, without an error: right for a
 *                log cut short, which is what a torn write looks like
 *     silent     anything else without an error: a hole or a wrong value
 *
 *     fault_damage DRIVER cut|flip [STEP [FILE]]      FILE: a part of the files' names
 */
#include "kv/driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITES = 24, PATH_MAX_HERE = 600, FILES_MAX = 512 };
enum verdict { WHOLE, TOLD_BY_NAME, TOLD, SHORTER, SILENT, VERDICTS };

static const char *const verdict_names[VERDICTS] = { "whole", "told with the file's name",
                                                     "told", "shorter", "SILENT" };

static char root[256];
static const char *driver;

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    return remove(path);
}

static void copy_tree(const char *from, const char *to)
{
    char command[3 * PATH_MAX_HERE];
    snprintf(command, sizeof(command), "cp -r --sparse=always '%s' '%s'", from, to);
    if (system(command) != 0) {
        fprintf(stderr, "%s\n", command);
        exit(2);
    }
}

static kv_code open_at(const char *dir, unsigned flags, kv_db **db, kv_space **space,
                       kv_status *status)
{
    kv_options *options = NULL;
    *db = NULL;
    kv_code code = kv_options_new(driver, dir, NULL, &options, status);
    if (code == KV_OK)
        code = kv_open(options, flags, db, status);
    if (code == KV_OK)
        code = kv_space_open(*db, "s", flags, space, status);
    kv_options_free(options);
    return code;
}

static kv_slice key_of(char text[16], char kind, unsigned n)
{
    return kv_bytes(text, (size_t)snprintf(text, 16, "%c%04u", kind, n));
}

/* Write n puts a<n> and sets "last" to n. */
static kv_slice value_of(char text[64], unsigned n)
{
    return kv_bytes(text, (size_t)snprintf(text, 64, "value of write %u, in full", n));
}

static void make(const char *dir)
{
    kv_db *db;
    kv_space *space;
    kv_batch *batch = NULL;
    if (open_at(dir, KV_CREATE, &db, &space, NULL) != KV_OK ||
        kv_batch_new(db, &batch, NULL) != KV_OK)
        exit(2);
    for (unsigned n = 1; n <= WRITES; n++) {
        char key[16];
        char value[64];
        kv_batch_put(batch, space, key_of(key, 'a', n), value_of(value, n));
        kv_batch_put(batch, space, kv_text("last"), value_of(value, n));
        if (kv_batch_commit(batch, KV_SYNC, NULL) != KV_OK)
            exit(2);
        if (n == WRITES / 2 && kv_compact(space, NULL, NULL) != KV_OK) /* into a table */
            exit(2);
    }
    kv_batch_free(batch);
    if (kv_close(db, NULL) != KV_OK)
        exit(2);
}

/* ---- Judging --------------------------------------------------------------------- */

struct view {
    bool wrong; /* an answer that no state gives */
    bool there[WRITES + 1];
    unsigned last;
    kv_status fault; /* the first error */
};

static void fault_note(struct view *view, kv_code code, const kv_status *status)
{
    if (code != KV_OK && code != KV_NOT_FOUND && view->fault.code == KV_OK)
        view->fault = *status;
}

static unsigned number_of(struct view *view, kv_slice value)
{
    char expected[64];
    for (unsigned n = 1; n <= WRITES; n++)
        if (kv_compare(value, value_of(expected, n)) == 0)
            return n;
    view->wrong = true;
    return 0;
}

static unsigned get_number(struct view *view, kv_space *space, kv_slice key)
{
    kv_value value = KV_VALUE_INIT;
    kv_status status = KV_STATUS_INIT;
    kv_read read = { .verify = true };
    kv_code code = kv_get(space, &read, key, &value, &status);
    fault_note(view, code, &status);
    unsigned number = code == KV_OK ? number_of(view, value.bytes) : 0;
    kv_value_release(&value);
    return number;
}

/* The walk must give what the gets gave, or end in an error. */
static void walk(struct view *view, kv_space *space, bool back)
{
    kv_iter *iter = NULL;
    kv_read read = { .verify = true };
    kv_status status = KV_STATUS_INIT;
    kv_code code = kv_iter_open(space, &read, NULL, &iter, &status);
    fault_note(view, code, &status);
    if (code != KV_OK)
        return;
    unsigned count = 0;
    unsigned expected = view->last > 0;
    bool on = back ? kv_iter_last(iter) : kv_iter_first(iter);
    while (on) {
        number_of(view, kv_iter_value(iter));
        count++;
        on = back ? kv_iter_prev(iter) : kv_iter_next(iter);
    }
    code = kv_iter_status(iter, &status);
    fault_note(view, code, &status);
    kv_iter_close(iter);
    for (unsigned n = 1; n <= WRITES; n++)
        expected += view->there[n];
    if (code == KV_OK && view->fault.code == KV_OK && count != expected)
        view->wrong = true;
}

static enum verdict judge(const struct view *view, const char *file)
{
    unsigned count = 0;
    for (unsigned n = 1; n <= WRITES; n++)
        count += view->there[n];
    if (view->wrong)
        return SILENT;
    if (view->fault.code != KV_OK)
        return strstr(view->fault.message, file) != NULL ? TOLD_BY_NAME : TOLD;
    if (count == WRITES && view->last == WRITES)
        return WHOLE;
    for (unsigned n = 1; n <= view->last; n++)
        if (!view->there[n])
            return SILENT; /* a hole */
    return count == view->last ? SHORTER : SILENT;
}

static enum verdict look(const char *dir, const char *file, char *message)
{
    struct view view = { .last = 0 };
    kv_db *db;
    kv_space *space = NULL;
    kv_status status = KV_STATUS_INIT;
    kv_code code = open_at(dir, 0, &db, &space, &status);
    fault_note(&view, code, &status);
    if (code == KV_NOT_FOUND) /* not told, if the database was simply not seen */
        view.wrong = true;
    if (code == KV_OK) {
        for (unsigned n = 1; n <= WRITES; n++) {
            char key[16];
            unsigned number = get_number(&view, space, key_of(key, 'a', n));
            view.there[n] = number != 0;
            if (number != 0 && number != n)
                view.wrong = true;
        }
        view.last = get_number(&view, space, kv_text("last"));
        walk(&view, space, false);
        walk(&view, space, true);
    }
    if (db != NULL && kv_close(db, NULL) != KV_OK)
        view.wrong = true;
    snprintf(message, KV_MESSAGE_SIZE, "%s", view.fault.message);
    return judge(&view, file);
}

/* ---- Variants ---------------------------------------------------------------------- */

/* In a process of its own: an engine may abort on what it reads. */
static enum verdict look_apart(const char *dir, const char *file, char *message)
{
    int ends[2];
    int state = 0;
    fflush(NULL);
    if (pipe(ends) != 0)
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        char text[KV_MESSAGE_SIZE] = "";
        enum verdict verdict = look(dir, file, text);
        if (write(ends[1], text, sizeof(text)) < 0)
            _exit(SILENT);
        _exit((int)verdict);
    }
    close(ends[1]);
    if (read(ends[0], message, KV_MESSAGE_SIZE) <= 0)
        snprintf(message, KV_MESSAGE_SIZE, "died");
    close(ends[0]);
    waitpid(child, &state, 0);
    return WIFEXITED(state) && WEXITSTATUS(state) < VERDICTS ? (enum verdict)WEXITSTATUS(state)
                                                             : SILENT;
}

struct tally {
    unsigned long counts[VERDICTS];
};

static bool flip_byte(int file, long at)
{
    unsigned char byte = 0;
    if (pread(file, &byte, 1, at) != 1)
        return false;
    byte = (unsigned char)~byte;
    return pwrite(file, &byte, 1, at) == 1;
}

static void variant(struct tally *tally, const char *file, long cut, long flip)
{
    char good[PATH_MAX_HERE];
    char copy[PATH_MAX_HERE];
    char path[3 * PATH_MAX_HERE];
    char message[KV_MESSAGE_SIZE];
    snprintf(good, sizeof(good), "%s/good", root);
    snprintf(copy, sizeof(copy), "%s/copy", root);
    copy_tree(good, copy);
    snprintf(path, sizeof(path), "%.600s/%.600s", copy, file);
    int handle = open(path, O_RDWR);
    if (handle < 0 || (cut >= 0 && ftruncate(handle, cut) != 0) ||
        (flip >= 0 && !flip_byte(handle, flip)))
        exit(2);
    close(handle);
    const char *name = strrchr(file, '/') == NULL ? file : strrchr(file, '/') + 1;
    enum verdict verdict = look_apart(copy, name, message);
    tally->counts[verdict]++;
    bool log = strstr(file, ".log") != NULL;
    if (verdict == SILENT || (verdict == SHORTER && !log) || getenv("STATEKV_LOUD") != NULL)
        fprintf(stderr, "%s %s %ld: %s; %s\n", file, cut >= 0 ? "cut at" : "flipped at",
                cut >= 0 ? cut : flip, verdict_names[verdict], message);
    nftw(copy, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char files[FILES_MAX][PATH_MAX_HERE];
static unsigned file_count;

static int note_file(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)where;
    const char *name = strrchr(path, '/') + 1;
    /* LOG is the engine's diary, LOCK is empty, OPTIONS- and IDENTITY are not data. */
    bool data = strcmp(name, "LOCK") != 0 && strncmp(name, "LOG", 3) != 0 &&
                strncmp(name, "OPTIONS", 7) != 0 && strcmp(name, "IDENTITY") != 0;
    if (type == FTW_F && data && stat->st_size > 0 && file_count < FILES_MAX)
        snprintf(files[file_count++], PATH_MAX_HERE, "%s", path + strlen(root) + 6);
    return 0;
}

static long size_of(const char *file)
{
    char path[2 * PATH_MAX_HERE];
    struct stat info;
    snprintf(path, sizeof(path), "%.250s/good/%.600s", root, file);
    return stat(path, &info) == 0 ? (long)info.st_size : 0;
}

static bool is_cuttable(const char *file)
{
    return strcmp(driver, "shadow") == 0 ? strstr(file, "records/") != NULL
                                         : strstr(file, ".log") != NULL;
}

int main(int argc, char **argv)
{
    if (argc < 3 || kv_driver_find(argv[1]) == NULL) {
        fprintf(stderr, "usage: %s DRIVER cut|flip [STEP [FILE]]\n", argv[0]);
        return 2;
    }
    driver = argv[1];
    bool cut = strcmp(argv[2], "cut") == 0;
    long step = argc > 3 ? atol(argv[3]) : 1;
    char good[PATH_MAX_HERE];
    const char *base = getenv("TMPDIR");
    if (base == NULL)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(root, sizeof(root), "%.200s/statekv-damage-XXXXXX", base);
    if (mkdtemp(root) == NULL)
        return 2;
    snprintf(good, sizeof(good), "%s/good", root);
    pid_t child = fork();
    if (child == 0) {
        make(good);
        _exit(0);
    }
    int state = 0;
    waitpid(child, &state, 0);
    if (state != 0)
        return 2;
    nftw(good, note_file, 16, FTW_PHYS);

    struct tally all = { { 0 } };
    for (unsigned i = 0; i < file_count; i++) {
        struct tally tally = { { 0 } };
        long size = size_of(files[i]);
        if ((cut && !is_cuttable(files[i])) || (argc > 4 && strstr(files[i], argv[4]) == NULL))
            continue;
        for (long at = 0; at < size; at += step)
            variant(&tally, files[i], cut ? at : -1, cut ? -1 : at);
        if (strcmp(driver, "shadow") != 0)
            printf("%s %s, %s, %ld bytes:", driver, argv[2], files[i], size);
        for (unsigned v = 0; v < VERDICTS; v++) {
            all.counts[v] += tally.counts[v];
            if (strcmp(driver, "shadow") != 0 && tally.counts[v] > 0)
                printf(" %lu %s;", tally.counts[v], verdict_names[v]);
        }
        if (strcmp(driver, "shadow") != 0)
            printf("\n");
    }
    printf("%s %s, all:", driver, argv[2]);
    for (unsigned v = 0; v < VERDICTS; v++)
        printf(" %lu %s;", all.counts[v], verdict_names[v]);
    printf("\n");
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return all.counts[SILENT] > 0;
}
