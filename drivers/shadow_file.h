/*
 * shadow_file.h - the files of the shadow driver: one a record, and the intent of
 * a change to several. docs/shadow.md gives every byte.
 */
#ifndef DRIVERS_SHADOW_FILE_H
#define DRIVERS_SHADOW_FILE_H

#include "kv/kv.h"

enum {
    SHADOW_NAME_SIZE = 64, /* hexadecimal digits of SHA-256(space, key) */
    SHADOW_FOLDERS = 256   /* folders in records/, named by two digits */
};

/* The name of a record's file. */
struct shadow_name {
    char text[SHADOW_NAME_SIZE + 1];
};

/* The folders that a change touched and that are to be synced. */
struct shadow_touched {
    uint64_t bits[SHADOW_FOLDERS / 64];
};

struct shadow_files {
    const char *path; /* of the database, for messages */
    int dir, records; /* open folders */
    bool read_only;
};

/* One change of a record's file. An empty key stands for the space itself. */
struct shadow_change {
    struct shadow_name name;
    size_t order; /* among the changes; the last on a name wins */
    const char *space;
    kv_slice key, value;
    bool put;
};

struct shadow_name shadow_name_of(const char *space, kv_slice key);

kv_code shadow_files_open(struct shadow_files *files, const char *path, unsigned flags,
                          kv_status *status);
void shadow_files_close(struct shadow_files *files);

/* Make the changes, all or none, and durable. Sorts them. An interrupted change
 * is finished by shadow_intent_redo. */
kv_code shadow_change(struct shadow_files *files, struct shadow_change *changes, size_t count,
                      kv_status *status);

/* What a visitor of the records is given: a good one, or the name and the fault
 * of a bad one, which is put aside afterwards. */
struct shadow_seen {
    struct shadow_name name;
    const char *space; /* NULL: bad */
    kv_slice key, value;
    const char *fault;
};

typedef kv_code shadow_visit(void *context, const struct shadow_seen *seen, kv_status *status);

/* Visit every record; clean up what is left over of unfinished writes. The files
 * put aside earlier are visited too, as bad ones. */
kv_code shadow_records_visit(struct shadow_files *files, shadow_visit *visit, void *context,
                             kv_status *status);

/* Finish an interrupted change; where nothing may be written only visit what it
 * would do, a deletion having a value of NULL. */
kv_code shadow_intent_redo(struct shadow_files *files, kv_status *status);
kv_code shadow_intent_visit(struct shadow_files *files,
                            kv_code (*visit)(void *context, const struct shadow_change *change,
                                             kv_status *status),
                            void *context, kv_status *status);

/* Forget that a record was put aside: its file there is renamed, or removed when
 * the record was written anew. */
void shadow_aside_remove(struct shadow_files *files, const struct shadow_name *name);
kv_code shadow_aside_accept(struct shadow_files *files, kv_status *status);

#endif /* DRIVERS_SHADOW_FILE_H */
