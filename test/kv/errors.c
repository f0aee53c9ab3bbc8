/* errors.c - the engines' error texts and our codes. The texts are the engines'
 * own, most of them taken from runs. */
#include "drivers/engine_error.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(errors, .timeout = 30);

struct text_case {
    const char *text;
    kv_code code;
};

static const struct text_case level_cases[] = {
    { "IO error: /d/000005.log: No space left on device", KV_NO_SPACE },
    { "IO error: /d/000005.log: Disk quota exceeded", KV_NO_SPACE },
    { "IO error: /d/000005.log: File too large", KV_NO_SPACE },
    { "IO error: lock /d/LOCK: already held by process", KV_BUSY },
    { "IO error: lock /d/LOCK: Resource temporarily unavailable", KV_BUSY },
    { "IO error: /d/000005.ldb: Input/output error", KV_IO },
    { "IO error: /d/CURRENT: Permission denied", KV_IO },
    { "IO error: /d/000005.ldb: Too many open files", KV_IO },
    { "IO error: /d/000005.ldb: Cannot allocate memory", KV_NO_MEMORY },
    { "NotFound: /d/MANIFEST-000002: No such file or directory", KV_CORRUPT },
    { "Corruption: 3 missing files; e.g.: /d/000005.ldb", KV_CORRUPT },
    { "Corruption: CURRENT file does not end with newline", KV_CORRUPT },
    { "Corruption: block checksum mismatch: /d/000005.ldb", KV_CORRUPT },
    { "Invalid argument: /d: does not exist (create_if_missing is false)", KV_CORRUPT },
    { "Invalid argument: /d: exists (error_if_exists is true)", KV_INVALID },
    { "Not implemented: x", KV_UNSUPPORTED },
    { "Unknown code(9): x", KV_INTERNAL },
    { "", KV_INTERNAL },
};

static const struct text_case rocks_cases[] = {
    { "IO error: No space left on device: While appending to file: /d/000004.log: No space "
      "left "
      "on device",
      KV_NO_SPACE },
    { "IO error: No space left on deviceWhile appending to file: /d/000004.log", KV_NO_SPACE },
    { "IO error: While appending to file: /d/000004.log: Disk quota exceeded", KV_NO_SPACE },
    { "IO error: lock hold by current process, acquire time 1 acquiring thread 2: /d/LOCK: No "
      "locks available",
      KV_BUSY },
    { "IO error: While lock file: /d/LOCK: Resource temporarily unavailable", KV_BUSY },
    { "IO error: While appending to file: /d/000004.log: File too large", KV_NO_SPACE },
    { "IO error: While mmap: /d/000004.sst: Cannot allocate memory", KV_NO_MEMORY },
    { "NotFound: /d/MANIFEST-000002", KV_CORRUPT },
    { "Operation expired: ", KV_TIMEOUT },
    { "IO error: While fsync: /d/000004.log: Input/output error", KV_IO },
    { "IO error: While open a file for random read: /d/000012.sst: Too many open files",
      KV_IO },
    { "IO error: No such file or directory: While open a file for random read: /d/000012.sst: "
      "No "
      "such file or directory",
      KV_CORRUPT },
    { "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4 in "
      "/d/000009.sst "
      "offset 0 size 4087",
      KV_CORRUPT },
    { "Corruption: SST file is ahead of WALs in CF default", KV_CORRUPT },
    { "Invalid argument: /d: does not exist (create_if_missing is false)", KV_CORRUPT },
    { "Invalid argument: Column families not opened: x", KV_INVALID },
    { "Invalid argument: Compression type LZ4HC is not linked with the binary.", KV_INVALID },
    { "Operation failed. Try again.: Transaction could not check for conflicts", KV_CONFLICT },
    { "Operation timed out: Timeout waiting to lock key", KV_TIMEOUT },
    { "Resource busy: ", KV_BUSY },
    { "Shutdown in progress: ", KV_BAD_STATE },
    { "Not implemented: x", KV_UNSUPPORTED },
    { "Result incomplete: Write stall", KV_INTERNAL },
    { "", KV_INTERNAL },
};

static void expect_cases(const struct engine_error *table, const struct text_case *cases,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(engine_error_code(table, cases[i].text), cases[i].code, "%s: %s",
                     cases[i].text, kv_code_name(engine_error_code(table, cases[i].text)));

    /* every row of the table is reached by some text above */
    for (const struct engine_error *row = table;; row++) {
        bool reached = false;
        for (size_t i = 0; i < count; i++) {
            const struct engine_error *at = table;
            const char *text = cases[i].text;
            while (strncmp(text, at->begins, strlen(at->begins)) != 0 ||
                   (at->contains != NULL && strstr(text, at->contains) == NULL))
                at++;
            reached = reached || at == row;
        }
        cr_expect(reached, "no text for \"%s\" ... \"%s\"", row->begins,
                  row->contains == NULL ? "" : row->contains);
        if (row->begins[0] == '\0')
            break;
    }
}

Test(errors, leveldb)
{
    expect_cases(leveldb_errors, level_cases, sizeof(level_cases) / sizeof(level_cases[0]));
}

Test(errors, rocksdb)
{
    expect_cases(rocksdb_errors, rocks_cases, sizeof(rocks_cases) / sizeof(rocks_cases[0]));
}

/* The message names the folder, once. */
Test(errors, messages)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(engine_fail(&status, leveldb_errors, "/d", NULL, "Corruption: odd"),
                 KV_CORRUPT);
    cr_assert_str_eq(status.message, "/d: Corruption: odd");
    status = (kv_status)KV_STATUS_INIT;
    engine_fail(&status, leveldb_errors, "/d", NULL, "IO error: /d/CURRENT: odd");
    cr_assert_str_eq(status.message, "IO error: /d/CURRENT: odd");
    status = (kv_status)KV_STATUS_INIT;
    engine_fail(&status, rocksdb_errors, "/d", "7.sst", "Corruption: The file /d/MANIFEST-1");
    cr_assert_str_eq(status.message, "/d/7.sst: Corruption: The file /d/MANIFEST-1");
}
