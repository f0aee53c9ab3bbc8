/* records.c - what a state keeps, counted record by record. */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(kv_code code, const kv_status *status)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "records: %s: %s\n", kv_code_name(code), status->message);
    exit(1);
}

/* Count the records whose keys `fits` takes. */
static uint64_t count(kv_db *db, const char *name,
                      bool (*fits)(kv_slice key, uint64_t parameter), uint64_t parameter)
{
    kv_space *space;
    kv_iter *iter;
    uint64_t counted = 0;
    kv_status status = KV_STATUS_INIT;
    need(kv_space_open(db, name, 0, &space, &status), &status);
    need(kv_iter_open(space, NULL, NULL, &iter, &status), &status);
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter))
        counted += fits(kv_iter_key(iter), parameter);
    need(kv_iter_status(iter, &status), &status);
    kv_iter_close(iter);
    return counted;
}

static bool fits(kv_slice key, uint64_t which)
{
    return which == RECORDS_ALL || ((const uint8_t *)key.data)[4] != 0;
}

uint64_t records_count(kv_db *db, const char *space, enum records_which which)
{
    return count(db, space, fits, which);
}

/* A record of history ends with the version until which it stood. */
static bool is_older(kv_slice key, uint64_t oldest)
{
    uint64_t until;
    memcpy(&until, (const uint8_t *)key.data + key.size - sizeof(until), sizeof(until));
    return __builtin_bswap64(until) < oldest;
}

struct sought {
    const char *name;
    uint64_t number;
};

static void seek_figure(void *context, const kv_stat *stat)
{
    struct sought *sought = context;
    if (strcmp(stat->name, sought->name) == 0)
        sought->number = stat->number;
}

uint64_t records_figure(state *self, const char *name)
{
    struct sought sought = { name, UINT64_MAX };
    kv_status status = KV_STATUS_INIT;
    need(state_stats(self, seek_figure, &sought, &status), &status);
    return sought.number;
}

bool records_history_exact(kv_db *db, state *self)
{
    kv_status status = KV_STATUS_INIT;
    need(state_settle(self, &status), &status);
    uint64_t there = records_count(db, "state.history", RECORDS_ALL);
    uint64_t left = count(db, "state.history", is_older, state_version_oldest(self));
    uint64_t figure = records_figure(self, "history_records");
    uint64_t garbage = records_figure(self, "history_garbage");
    if (figure == there && garbage == 0 && left == 0)
        return true;
    fprintf(stderr,
            "history: %llu records, %llu of them garbage; the figures are %llu and %llu\n",
            (unsigned long long)there, (unsigned long long)left, (unsigned long long)figure,
            (unsigned long long)garbage);
    return false;
}
