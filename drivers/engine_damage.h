/*
 * engine_damage.h - which table is damaged.
 *
 * LevelDB says "block checksum mismatch" and not where; RocksDB blames the MANIFEST
 * for a table that it cannot open. So when an engine has met damage and named no
 * table, the tables are read until one shows it.
 */
#ifndef DRIVERS_ENGINE_DAMAGE_H
#define DRIVERS_ENGINE_DAMAGE_H

#ifdef __cplusplus
extern "C" {
#endif

#include <limits.h>
#include <stdbool.h>

/* What is known of one open database; all zeros to begin with. */
struct engine_damage {
    bool looked;
    char name[NAME_MAX + 1]; /* of the first damaged table; empty if none was found */
};

/* The name of a damaged table in `dir`, or NULL where none is found. The tables
 * are read once, and of a large database only a part. */
const char *engine_damage_find(struct engine_damage *damage, const char *dir,
                               bool (*is_damaged)(const char *path));

/* Whether a file of this name is a table. */
bool engine_is_table(const char *name);

/* Whether a block of the table `path`, which is read in full, is damaged. */
bool level_table_is_damaged(const char *path);
bool rocks_table_is_damaged(const char *path);

#ifdef __cplusplus
}
#endif

#endif /* DRIVERS_ENGINE_DAMAGE_H */
