/*
 * writer.c - a process that keeps a state open and commits when told.
 *
 *     test_writer DRIVER:DIR
 *
 * Each line of standard input is a key, a blank and a value for the map "ibc"; an empty line
 * commits, and the version is printed.
 */
#include "vmap/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(kv_code code, const kv_status *status)
{
    if (code == KV_OK)
        return;
    fprintf(stderr, "writer: %s\n", status->message);
    exit(1);
}

int main(int argc, char **argv)
{
    char line[4096];
    char *dir = argc == 2 ? strchr(argv[1], ':') : NULL;
    kv_status status = KV_STATUS_INIT;
    kv_options *options;
    kv_db *db;
    state *source;
    vmap *map;
    if (dir == NULL)
        return 2;
    *dir = '\0';
    dir++;
    need(kv_options_new(argv[1], dir, NULL, &options, &status), &status);
    need(kv_open(options, KV_CREATE, &db, &status), &status);
    need(state_open(db, NULL, KV_CREATE, &source, &status), &status);
    need(state_map_open(source, "ibc", KV_CREATE, &map, &status), &status);
    printf("open\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *value = strchr(line, ' ');
        uint64_t version;
        line[strcspn(line, "\n")] = '\0';
        if (value != NULL) {
            *value++ = '\0';
            need(vmap_put(map, kv_text(line), kv_text(value), &status), &status);
            continue;
        }
        need(state_commit(source, 0, &version, &status), &status);
        printf("%" PRIu64 "\n", version);
        fflush(stdout);
    }
    need(state_close(source, &status), &status);
    need(kv_close(db, &status), &status);
    kv_options_free(options);
    return 0;
}
