/* store.h - a database in a temporary folder, for the tests of this folder. */
#ifndef TEST_TXN_STORE_H
#define TEST_TXN_STORE_H

#include "kv/kv.h"

struct store {
    char dir[64];
    kv_db *db;
    kv_space *space; /* "default" */
};

/* Each aborts with a message when it fails. */
void store_open(struct store *store, const char *driver);
void store_close(struct store *store);   /* keeps the folder */
void store_abandon(struct store *store); /* close, whatever comes of it */
/* As store_reopen, for one that may be in use by another process (KV_BUSY). */
kv_code store_try(struct store *store, const char *driver, kv_status *status);
void store_reopen(struct store *store, const char *driver);
void store_remove(struct store *store); /* close and delete the folder */

#endif /* TEST_TXN_STORE_H */
