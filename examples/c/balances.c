/*
 * balances.c - statekv inside a C program: accounts of a small chain.
 *
 *     balances rocksdb:data        any driver: leveldb:dir, shadow:dir, memory:
 *
 * docs/embedding.md goes through it step by step.
 */
#include <kv/kv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Open the database "DRIVER:FOLDER". */
static kv_code open_place(const char *place, kv_db **out, kv_status *status)
{
    char driver[32];
    kv_options *options = NULL;
    const char *colon = strchr(place, ':');
    *out = NULL;
    if (colon == NULL || (size_t)(colon - place) >= sizeof(driver))
        return kv_fail(status, KV_INVALID, "%s is not DRIVER:FOLDER", place);
    snprintf(driver, sizeof(driver), "%.*s", (int)(colon - place), place);
    kv_code code = kv_options_new(driver, colon + 1, NULL, &options, status);
    if (code == KV_OK)
        code = kv_open(options, KV_CREATE, out, status);
    kv_options_free(options); /* kv_open copied them */
    return code;
}

/* Move `amount` from one account to another: both balances change, or none. */
static kv_code transfer(kv_db *db, kv_space *accounts, const char *from, const char *to,
                        long amount, kv_status *status)
{
    const char *names[2] = { from, to };
    kv_batch *batch = NULL;
    kv_code code = kv_batch_new(db, &batch, status);
    for (int i = 0; i < 2 && code == KV_OK; i++) {
        char text[32] = "0";
        kv_value value = KV_VALUE_INIT;
        code = kv_get(accounts, NULL, kv_text(names[i]), &value, status);
        if (code == KV_OK) /* lent, without an end mark */
            snprintf(text, sizeof(text), "%.*s", (int)value.bytes.size,
                     (const char *)value.bytes.data);
        kv_value_release(&value);
        if (code == KV_NOT_FOUND) /* an answer, not a fault: nothing there yet */
            code = KV_OK;
        snprintf(text, sizeof(text), "%ld",
                 strtol(text, NULL, 10) + (i == 0 ? -amount : amount));
        kv_batch_put(batch, accounts, kv_text(names[i]), kv_text(text)); /* copies */
    }
    if (code == KV_OK)
        code = kv_batch_commit(batch, KV_SYNC, status); /* durable on return */
    kv_batch_free(batch);
    return code;
}

/* Print the accounts whose names begin with `prefix`. */
static kv_code print_accounts(kv_space *accounts, const char *prefix, kv_status *status)
{
    char limit[64];
    kv_iter *iter = NULL;
    kv_range range = kv_range_of_prefix(kv_text(prefix), limit);
    kv_code code = kv_iter_open(accounts, NULL, &range, &iter, status);
    if (code != KV_OK)
        return code;
    for (bool on = kv_iter_first(iter); on; on = kv_iter_next(iter)) {
        kv_slice key = kv_iter_key(iter);
        kv_slice value = kv_iter_value(iter);
        printf("%.*s %.*s\n", (int)key.size, (const char *)key.data, (int)value.size,
               (const char *)value.data);
    }
    code = kv_iter_status(iter, status); /* the walk may have ended on a fault */
    kv_iter_close(iter);
    return code;
}

int main(int argc, char **argv)
{
    kv_status status = KV_STATUS_INIT;
    kv_db *db = NULL;
    kv_space *accounts = NULL;
    kv_code code = open_place(argc > 1 ? argv[1] : "memory:", &db, &status);
    if (code == KV_OK)
        code = kv_space_open(db, "accounts", KV_CREATE, &accounts, &status);
    if (code == KV_OK)
        code = transfer(db, accounts, "bank", "user/alice", 100, &status);
    if (code == KV_OK)
        code = transfer(db, accounts, "user/alice", "user/bob", 30, &status);
    if (code == KV_OK)
        code = print_accounts(accounts, "user/", &status);
    if (code != KV_OK)
        fprintf(stderr, "balances: %s: %s\n", kv_code_text(code), status.message);
    kv_code closed = kv_close(db, NULL); /* NULL is fine */
    return code == KV_OK && closed == KV_OK ? 0 : 1;
}
