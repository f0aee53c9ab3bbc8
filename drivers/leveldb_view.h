/*
 * leveldb_view.h - reading a LevelDB folder without changing it.
 *
 * LevelDB has no read-only mode: opening writes a new manifest and log. A view
 * is a private folder with links to the table files, which never change, and
 * copies of the few files that LevelDB rewrites. LevelDB opens the view; what
 * it writes or merges lands there and is thrown away.
 */
#ifndef DRIVERS_LEVELDB_VIEW_H
#define DRIVERS_LEVELDB_VIEW_H

#include "kv/kv.h"

/* Make a view of the folder `dir`, in $TMPDIR or /tmp; *out is its path, to be
 * given to level_view_remove. */
kv_code level_view_make(const char *dir, char **out, kv_status *status);

/* Remove the view and free its path; harmless on NULL. */
void level_view_remove(char *view);

#endif /* DRIVERS_LEVELDB_VIEW_H */
