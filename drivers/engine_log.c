/* engine_log.c - the records of a log, as LevelDB's doc/log_format.md gives them. */
#include "drivers/engine_log.h"

#include "kv/little_endian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK_SIZE = 32768,
    HEADER_SIZE = 7, /* masked CRC-32C of type and data, size of the data, type */
    TYPE_MAX = 4,    /* full, first, middle, last; RocksDB has more, for reused logs */
    NAME_SIZE = 64   /* of a log or MANIFEST */
};

/* ---- CRC-32C ------------------------------------------------------------------- */

static uint32_t crc_table[256];

static void crc_table_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
        crc_table[i] = crc;
    }
}

static uint32_t crc_step(uint32_t crc, unsigned char byte)
{
    return crc_table[(crc ^ byte) & 0xff] ^ (crc >> 8);
}

/* As LevelDB stores it. */
static uint32_t crc_masked(uint32_t crc)
{
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}

/* The least size, up to `most`, of data that `header` has the checksum of; or -1. */
static long crc_fit(const unsigned char *header, size_t least, size_t most)
{
    uint32_t stored = get_u32(header);
    uint32_t crc = crc_step(UINT32_MAX, header[6]);
    for (size_t size = 0; size <= most; size++) {
        if (size >= least && crc_masked(crc) == stored)
            return (long)size;
        if (size < most)
            crc = crc_step(crc, header[HEADER_SIZE + size]);
    }
    return -1;
}

/* ---- Blocks --------------------------------------------------------------------- */

struct place {
    const char *dir, *name;
    size_t at; /* of the block in the file */
    kv_status *suspect;
    kv_status *status;
};

/* Check the records of one block. True to go on with the next. */
static bool block_check(const struct place *place, const unsigned char *block, size_t size)
{
    for (size_t at = 0; at + HEADER_SIZE <= size;) {
        const unsigned char *header = block + at;
        size_t length = (size_t)header[4] | (size_t)header[5] << 8;
        size_t left = size - at - HEADER_SIZE;
        if (header[6] == 0 && length == 0)
            return true;            /* room set aside and not used */
        if (header[6] > TYPE_MAX) { /* not ours to judge: the engine knows, or refuses it */
            kv_fail(place->suspect, KV_CORRUPT,
                    "%s/%s: the record at byte %zu is of no known kind", place->dir,
                    place->name, place->at + at);
            return false;
        }
        if (length > left) {
            if (size == BLOCK_SIZE || crc_fit(header, 0, left) >= 0)
                kv_fail(place->status, KV_CORRUPT,
                        "%s/%s: the size of the record at byte %zu is damaged", place->dir,
                        place->name, place->at + at);
            return false; /* or else torn: written when the power went */
        }
        if (crc_fit(header, length, length) < 0) {
            kv_fail(place->suspect, KV_CORRUPT, "%s/%s: the record at byte %zu fails its check",
                    place->dir, place->name, place->at + at);
            return false;
        }
        at += HEADER_SIZE + length;
    }
    return true;
}

static kv_code fail_read(const struct place *place)
{
    return kv_fail(place->status, KV_IO, "cannot read %s/%s: %s", place->dir, place->name,
                   strerror(errno));
}

static kv_code file_check(struct place *place)
{
    char path[4096];
    unsigned char *block = malloc(BLOCK_SIZE);
    if (block == NULL)
        return kv_fail(place->status, KV_NO_MEMORY, "no memory to read the logs of %s",
                       place->dir);
    snprintf(path, sizeof(path), "%s/%s", place->dir, place->name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        free(block);
        return errno == ENOENT ? KV_OK : fail_read(place); /* the engine has its own words */
    }
    kv_code code = KV_OK;
    for (bool more = true; more && code == KV_OK;) {
        size_t size = 0;
        ssize_t got = 1;
        while (size < BLOCK_SIZE && got > 0) {
            got = TEMP_FAILURE_RETRY(
                pread(file, block + size, BLOCK_SIZE - size, (off_t)(place->at + size)));
            size += got > 0 ? (size_t)got : 0;
        }
        if (got < 0)
            code = fail_read(place);
        else
            more = block_check(place, block, size) && size == BLOCK_SIZE;
        place->at += size;
    }
    close(file);
    free(block);
    return code;
}

/* ---- The folder ------------------------------------------------------------------ */

static bool is_log(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits > 0 && strcmp(name + digits, ".log") == 0;
}

/* The name in CURRENT, which ends in a newline; empty when there is none. */
static void current_read(const char *dir, char name[NAME_SIZE])
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/CURRENT", dir);
    FILE *file = fopen(path, "re");
    name[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(name, NAME_SIZE, file) == NULL)
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    if (strchr(name, '/') != NULL)
        name[0] = '\0';
    fclose(file);
}

kv_code engine_logs_check(const char *dir, kv_status *suspect, kv_status *status)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char name[NAME_SIZE];
    kv_status fault = KV_STATUS_INIT;
    struct place place = { dir, name, 0, suspect, &fault };
    kv_code code = KV_OK;
    pthread_once(&once, crc_table_fill);
    current_read(dir, name);
    if (name[0] != '\0')
        code = file_check(&place);
    DIR *list = code == KV_OK ? opendir(dir) : NULL;
    struct dirent *entry;
    while (list != NULL && fault.code == KV_OK && (entry = readdir(list)) != NULL)
        if (is_log(entry->d_name)) {
            place = (struct place){ dir, entry->d_name, 0, suspect, &fault };
            if (file_check(&place) != KV_OK)
                break;
        }
    if (list != NULL)
        closedir(list);
    return fault.code == KV_OK ? KV_OK : kv_fail(status, fault.code, "%s", fault.message);
}
