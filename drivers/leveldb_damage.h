/*
 * leveldb_damage.h - which table is damaged.
 *
 * LevelDB says "block checksum mismatch" and not where. So when it has said so,
 * the tables are read until one shows it.
 */
#ifndef DRIVERS_LEVELDB_DAMAGE_H
#define DRIVERS_LEVELDB_DAMAGE_H

#ifdef __cplusplus
extern "C" {
#endif

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

/* What is known of one open database; all zeros to begin with. */
struct level_damage {
    bool looked;
    char name[NAME_MAX + 1]; /* of the first damaged table; empty if none was found */
};

/* The name of a damaged table in `dir`, or NULL where none is found. The tables
 * are read once, and of a large database only a part. */
const char *level_damage_find(struct level_damage *damage, const char *dir);

/* Whether a block of the table `path`, which is read in full, is damaged. */
bool level_table_is_damaged(const char *path);

#ifdef __cplusplus
}
#endif

#endif /* DRIVERS_LEVELDB_DAMAGE_H */
