/* follow.c - a state that another process writes. */
#include "vmap/state_private.h"

#include <unistd.h>

/* While a writer that was killed opens again, the engine may show for a moment what was
 * there some commits ago. What is still so after this many looks is a state that went back. */
enum { BEHIND_LOOKS = 5, FIRST_LOOKS = 500, FIRST_REST_US = 10000 };

/* Read the head as it is now; the state's own stays. */
static kv_code head_read(const struct state *self, struct meta_head *head, kv_status *status)
{
    kv_value record = KV_VALUE_INIT;
    kv_code code = kv_get(self->store.meta, NULL, meta_key_head(), &record, status);
    if (code == KV_NOT_FOUND || (code == KV_OK && !meta_head_decode(record.bytes, head)))
        code = kv_fail(status, KV_CORRUPT, "the head record of the state in '%s' is damaged",
                       kv_db_dir(self->store.db));
    kv_value_release(&record);
    return code;
}

static bool stands_at(const struct state *self, const struct meta_head *head,
                      const struct meta_version *info)
{
    const struct meta_version *newest = self->newest->info;
    return newest->version == info->version && self->head.oldest == head->oldest &&
           kv_compare(kv_bytes(newest->app_hash.bytes, VMAP_DIGEST_SIZE),
                      kv_bytes(info->app_hash.bytes, VMAP_DIGEST_SIZE)) == 0;
}

kv_code state_follow(struct state *self, kv_status *status)
{
    struct meta_head head;
    struct meta_version *info;
    if (!self->follows)
        return kv_fail(status, KV_BAD_STATE, "the state in '%s' was not opened with KV_FOLLOW",
                       kv_db_dir(self->store.db));
    kv_code code = kv_catch_up(self->store.db, status);
    if (code == KV_OK)
        code = head_read(self, &head, status);
    if (code != KV_OK)
        return code;
    /* A large commit reaches the store in parts: the version before it stays in sight. */
    if (head.pending != META_PENDING_NONE || head.newest == 0)
        return KV_OK;
    bool behind = head.newest < self->head.newest;
    if (behind && ++self->behind_looks < BEHIND_LOOKS)
        return KV_OK;
    self->behind_looks = 0;
    code = state_version_read(self, NULL, head.newest, &info, status);
    if (code != KV_OK)
        return code == KV_NOT_FOUND
                   ? kv_fail(status, KV_CORRUPT, "the record of version %llu is missing",
                             (unsigned long long)head.newest)
                   : code;
    if (stands_at(self, &head, info)) {
        meta_version_free(info);
        return KV_OK;
    }
    code = state_publish(self, &head, info, status);
    self->dropped_count = 0; /* cleaning up is the writer's */
    return code == KV_OK ? state_pin_newest(self, status) : code;
}

kv_code state_follow_first(struct state *self, kv_status *status)
{
    kv_code code = KV_OK;
    bool pending = self->head.pending != META_PENDING_NONE;
    for (int i = 0; i < FIRST_LOOKS && pending && code == KV_OK; i++) {
        struct meta_head head;
        usleep(FIRST_REST_US);
        code = kv_catch_up(self->store.db, status);
        if (code == KV_OK)
            code = head_read(self, &head, status);
        pending = code == KV_OK && head.pending != META_PENDING_NONE;
        if (code == KV_OK && !pending) {
            self->head.newest = 0; /* what was read half way is none */
            code = state_follow(self, status);
        }
    }
    if (pending)
        return kv_fail(status, KV_BUSY,
                       "the writer of the state in '%s' has been in the middle of a commit for "
                       "long: try again, or open it for writing once if it has died",
                       kv_db_dir(self->store.db));
    return code == KV_OK ? state_pin_newest(self, status) : code;
}
