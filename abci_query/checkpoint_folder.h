/*
 * checkpoint_folder.h - a folder in which one process publishes checkpoints of a state and
 * others open them. A checkpoint is a database folder named by 12 digits; a higher number is
 * a newer one, and a name without an ending is whole. Whoever has one open holds its lock
 * (kv/folder.h), and only what nobody holds is removed.
 */
#ifndef ABCI_QUERY_CHECKPOINT_FOLDER_H
#define ABCI_QUERY_CHECKPOINT_FOLDER_H

#include "kv/kv.h"

enum {
    QUERY_CHECKPOINT_DIGITS = 12,
    QUERY_CHECKPOINT_PATH_MAX = 4096 /* bytes of the path of one, with its end */
};

/* The path of a checkpoint of `dir`; KV_INVALID: longer than QUERY_CHECKPOINT_PATH_MAX. */
KV_MUST_CHECK kv_code query_checkpoint_path(const char *dir, uint64_t number,
                                            char path[QUERY_CHECKPOINT_PATH_MAX],
                                            kv_status *status);

/* The number a whole checkpoint's name stands for; 0: it is none's. */
uint64_t query_checkpoint_number(const char *name);

/* The newest of `dir`; *out is 0 where there is none. KV_IO, KV_NOT_FOUND. */
KV_MUST_CHECK kv_code query_checkpoint_newest(const char *dir, uint64_t *out,
                                              kv_status *status);

#endif /* ABCI_QUERY_CHECKPOINT_FOLDER_H */
