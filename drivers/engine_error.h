/*
 * engine_error.h - codes for the texts with which the engines' C interfaces
 * report errors. They pass on no code, only Status::ToString(): a class such as
 * "IO error: ", then what happened and often the file.
 */
#ifndef DRIVERS_ENGINE_ERROR_H
#define DRIVERS_ENGINE_ERROR_H

#include "kv/kv.h"

struct engine_error {
    const char *begins;   /* how the text begins */
    const char *contains; /* and what else is in it, or NULL */
    kv_code code;
};

/* Per engine, in the order in which they are tried; ended by an empty
 * `begins`, which every text matches. */
extern const struct engine_error leveldb_errors[];
extern const struct engine_error rocksdb_errors[];

kv_code engine_error_code(const struct engine_error *table, const char *text);

/* Record the engine's error `text` about the database in `dir`; about its file `file`,
 * where the engine does not say so itself, else NULL. */
kv_code engine_fail(kv_status *status, const struct engine_error *table, const char *dir,
                    const char *file, const char *text);

#endif /* DRIVERS_ENGINE_ERROR_H */
