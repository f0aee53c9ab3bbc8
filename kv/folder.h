/*
 * folder.h - the folder of a durable database: who it belongs to, and whether
 * somebody else has it open.
 *
 * A file named STATEKV in it says which engine's data it holds and whether
 * that database was ever finished. It is three lines of fixed size,
 *
 *     statekv database 1
 *     engine rocksdb
 *     state made
 *
 * where the state is "new " until the engine has opened once. The file carries
 * the lock (flock): alone for writing, shared for reading. flock belongs to the
 * open file, so a second open in this process is caught through any spelling
 * of the path, a failed attempt takes nothing from the holder, and a killed
 * holder leaves no lock behind.
 */
#ifndef KV_FOLDER_H
#define KV_FOLDER_H

#include "kv/kv.h"

#define KV_FOLDER_MARKER "STATEKV"

struct kv_folder {
    char *path;     /* absolute; NULL without a folder */
    char *made_top; /* the highest folder made by us, or NULL */
    int marker;     /* open and locked, or -1 */
    bool fresh;     /* no database was ever finished here */
};

#define KV_FOLDER_INIT        \
    {                         \
        NULL, NULL, -1, false \
    }

/*
 * Find, or with KV_CREATE make, the folder `dir` for `driver` and lock it.
 * KV_NOT_FOUND, KV_INVALID (not a folder, or another engine's), KV_BUSY.
 */
kv_code kv_folder_open(struct kv_folder *folder, const char *dir, const kv_driver *driver,
                       unsigned flags, kv_status *status);

/* Record that the engine opened: from now on missing files are damage. */
kv_code kv_folder_finish(struct kv_folder *folder, kv_status *status);

/* Take back what kv_folder_open made, where the engine left nothing. */
void kv_folder_undo(struct kv_folder *folder, const kv_driver *driver);

void kv_folder_close(struct kv_folder *folder);

/* Write a finished marker into `dir`, which nobody else knows of yet. */
kv_code kv_folder_mark(const char *dir, const kv_driver *driver, kv_status *status);

/* fsync a folder, so that its entries survive power loss. */
kv_code kv_folder_sync(const char *dir, kv_status *status);

/* Bytes of disk that the files in a folder, and below, occupy. */
uint64_t kv_folder_size(const char *dir);

/* Whether a name in the folder begins with `prefix`. */
bool kv_folder_has(const char *dir, const char *prefix);

/* Remove a folder and all in it, as far as that goes. */
void kv_folder_remove(const char *dir);

#endif /* KV_FOLDER_H */
