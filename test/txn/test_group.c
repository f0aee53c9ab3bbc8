/* test_group.c - groups: commits, two-step commits, identities, refusals. */
#include "kv/driver.h"
#include "kv/group.h"
#include "test/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(group, .timeout = 60);

/* Two durable drivers, the same twice where only one is built. */
static const char *driver_of(unsigned index)
{
    const char *names[2] = { "memory", "memory" };
    unsigned count = 0;
    const kv_driver *driver;
    for (size_t i = 0; (driver = kv_driver_at(i)) != NULL; i++)
        if ((driver->caps & KV_CAP_DURABLE) != 0 && count < 2 &&
            strcmp(driver->name, "shadow") != 0)
            names[count++] = driver->name;
    return count < 2 ? names[0] : names[index];
}

struct pair {
    struct store a, b;
    char dir[TEST_PATH_SIZE + 16];
    kv_group *group;
};

static kv_code group_open_at(struct pair *pair, kv_status *status)
{
    kv_group_member members[] = { { "first", pair->a.db }, { "second", pair->b.db } };
    kv_group_options options = { .journal_size = KV_GROUP_JOURNAL_SIZE_MIN };
    return kv_group_open(pair->dir, members, 2, &options, &pair->group, status);
}

static void pair_open(struct pair *pair)
{
    kv_status status = KV_STATUS_INIT;
    store_new(&pair->a, driver_of(0));
    store_new(&pair->b, driver_of(1));
    snprintf(pair->dir, sizeof(pair->dir), "%s-group", pair->a.dir);
    cr_assert_eq(group_open_at(pair, &status), KV_OK, "%s", status.message);
}

static void pair_close(struct pair *pair)
{
    kv_status status = KV_STATUS_INIT;
    cr_assert_eq(kv_group_close(pair->group, &status), KV_OK, "%s", status.message);
    store_close(&pair->a);
    store_close(&pair->b);
}

static void pair_reopen(struct pair *pair)
{
    kv_status status = KV_STATUS_INIT;
    store_open(&pair->a);
    store_open(&pair->b);
    cr_assert_eq(group_open_at(pair, &status), KV_OK, "%s", status.message);
}

static void pair_remove(struct pair *pair)
{
    cr_assert_eq(kv_group_close(pair->group, NULL), KV_OK);
    store_free(&pair->a);
    store_free(&pair->b);
}

static bool holds(kv_space *space, const char *key, const char *value)
{
    kv_value found = KV_VALUE_INIT;
    kv_code code = kv_get(space, NULL, kv_text(key), &found, NULL);
    bool same = value == NULL ? code == KV_NOT_FOUND
                              : code == KV_OK && kv_compare(found.bytes, kv_text(value)) == 0;
    kv_value_release(&found);
    return same;
}

static kv_group_batch *batch_of(struct pair *pair, const char *key, const char *value)
{
    kv_group_batch *batch;
    cr_assert_eq(kv_group_batch_new(pair->group, &batch, NULL), KV_OK);
    kv_group_batch_put(batch, pair->a.space, kv_text(key), kv_text(value));
    kv_group_batch_put(batch, pair->b.space, kv_text(key), kv_text(value));
    return batch;
}

static void commit(struct pair *pair, const char *key, const char *value)
{
    kv_status status = KV_STATUS_INIT;
    kv_group_batch *batch = batch_of(pair, key, value);
    cr_assert_eq(kv_group_batch_commit(batch, KV_SYNC, &status), KV_OK, "%s", status.message);
    cr_expect_eq(kv_group_batch_count(batch), 0);
    kv_group_batch_free(batch);
}

Test(group, a_commit_is_in_both_and_stays)
{
    struct pair pair;
    pair_open(&pair);
    commit(&pair, "k", "1");
    cr_expect(holds(pair.a.space, "k", "1") && holds(pair.b.space, "k", "1"));
    cr_expect_eq(kv_group_counts_of(pair.group).commits, 1);
    cr_expect_eq(kv_group_counts_of(pair.group).syncs, 1);
    kv_group_batch *batch;
    cr_assert_eq(kv_group_batch_new(pair.group, &batch, NULL), KV_OK);
    kv_group_batch_put(batch, pair.a.space, kv_text("k"), kv_text("2"));
    kv_group_batch_delete(batch, pair.b.space, kv_text("k"));
    kv_group_batch_put(batch, pair.a.space, kv_text("k"), kv_text("3"));
    cr_expect_eq(kv_group_close(pair.group, NULL), KV_BUSY);
    cr_expect_eq(kv_group_batch_commit(batch, 0, NULL), KV_OK);
    kv_group_batch_free(batch);
    pair_close(&pair);
    pair_reopen(&pair);
    cr_expect(holds(pair.a.space, "k", "3") && holds(pair.b.space, "k", NULL));
    pair_remove(&pair);
}

Test(group, a_full_journal_checkpoints_by_itself)
{
    struct pair pair;
    pair_open(&pair);
    char value[1001];
    memset(value, 'v', 1000);
    value[1000] = '\0';
    for (unsigned i = 0; i < 200; i++)
        commit(&pair, "k", value);
    cr_expect_geq(kv_group_counts_of(pair.group).checkpoints, 5);
    static char big[KV_GROUP_JOURNAL_SIZE_MIN];
    memset(big, 'v', sizeof(big) - 1);
    kv_status status = KV_STATUS_INIT;
    kv_group_batch *batch = batch_of(&pair, "big", big);
    cr_expect_eq(kv_group_batch_commit(batch, 0, &status), KV_TOO_BIG);
    kv_group_batch_free(batch);
    commit(&pair, "k", "after"); /* no harm done */
    pair_remove(&pair);
}

Test(group, prepared_is_invisible_in_doubt_and_resolved_once)
{
    struct pair pair;
    pair_open(&pair);
    kv_group_batch *batch = batch_of(&pair, "k", "1");
    kv_slice id = kv_text("gtid-1");
    cr_assert_eq(kv_group_batch_prepare(batch, id, NULL), KV_OK);
    cr_expect(holds(pair.a.space, "k", NULL));
    kv_group_batch_put(batch, pair.b.space, kv_text("k"), kv_text("2"));
    cr_expect_eq(kv_group_batch_commit(batch, 0, NULL), KV_BUSY);
    cr_expect_eq(kv_group_batch_prepare(batch, id, NULL), KV_CONFLICT);
    kv_group_batch_free(batch);
    commit(&pair, "other", "1");
    pair_close(&pair);
    pair_reopen(&pair); /* in doubt over a restart and a checkpoint */
    cr_expect(holds(pair.a.space, "k", NULL));
    cr_expect_eq(kv_group_checkpoint(pair.group, NULL), KV_OK);
    cr_expect_eq(kv_group_resolve(pair.group, kv_text("unknown"), true, NULL), KV_NOT_FOUND);
    cr_expect_eq(kv_group_resolve(pair.group, id, true, NULL), KV_OK);
    cr_expect(holds(pair.a.space, "k", "1") && holds(pair.b.space, "k", "1"));
    cr_expect_eq(kv_group_resolve(pair.group, id, true, NULL), KV_NOT_FOUND);
    batch = batch_of(&pair, "k", "3");
    cr_expect_eq(kv_group_batch_prepare(batch, id, NULL), KV_CONFLICT); /* never reused */
    cr_expect_eq(kv_group_batch_prepare(batch, kv_text("gtid-2"), NULL), KV_OK);
    kv_group_batch_free(batch);
    cr_expect_eq(kv_group_resolve(pair.group, kv_text("gtid-2"), false, NULL), KV_OK);
    cr_expect(holds(pair.a.space, "k", "1"));
    pair_remove(&pair);
}

static bool count_one(void *context, kv_slice id)
{
    (void)id;
    ++*(unsigned *)context;
    return true;
}

Test(group, ids_in_doubt_are_listed)
{
    struct pair pair;
    pair_open(&pair);
    const char *const keys[] = { "a", "b", "c" };
    for (size_t i = 0; i < 3; i++) {
        kv_group_batch *batch = batch_of(&pair, keys[i], "1");
        cr_assert_eq(kv_group_batch_prepare(batch, kv_text(keys[i]), NULL), KV_OK);
        kv_group_batch_free(batch);
    }
    unsigned count = 0;
    kv_group_in_doubt(pair.group, count_one, &count);
    cr_expect_eq(count, 3);
    cr_expect_eq(kv_group_resolve(pair.group, kv_text("b"), false, NULL), KV_OK);
    count = 0;
    kv_group_in_doubt(pair.group, count_one, &count);
    cr_expect_eq(count, 2);
    pair_remove(&pair);
}

Test(group, a_second_group_on_the_folder_is_busy)
{
    struct pair pair;
    pair_open(&pair);
    kv_group *first = pair.group;
    kv_status status = KV_STATUS_INIT;
    cr_expect_eq(group_open_at(&pair, &status), KV_BUSY);
    cr_expect(strstr(status.message, pair.dir) != NULL);
    cr_expect_null(pair.group);
    pair.group = first;
    pair_remove(&pair);
}

Test(group, swapped_foreign_and_lost_members_are_refused)
{
    struct pair pair, other;
    kv_status status = KV_STATUS_INIT;
    pair_open(&pair);
    commit(&pair, "k", "1");
    cr_assert_eq(kv_group_close(pair.group, NULL), KV_OK);

    struct pair swapped = pair; /* first and second changed places */
    swapped.a = pair.b;
    swapped.b = pair.a;
    cr_expect_eq(group_open_at(&swapped, &status), KV_CORRUPT, "%s", status.message);

    pair_open(&other);
    commit(&other, "k", "1");
    cr_assert_eq(kv_group_close(other.group, NULL), KV_OK);
    struct pair mixed = pair;
    mixed.b = other.b;
    status = (kv_status)KV_STATUS_INIT;
    cr_expect_eq(group_open_at(&mixed, &status), KV_CORRUPT);
    cr_expect(strstr(status.message, "second") != NULL, "%s", status.message);

    char path[TEST_PATH_SIZE + 32], away[TEST_PATH_SIZE + 32];
    snprintf(path, sizeof(path), "%s/journal", pair.dir);
    snprintf(away, sizeof(away), "%s/journal.away", pair.dir);
    cr_assert_eq(rename(path, away), 0);
    status = (kv_status)KV_STATUS_INIT;
    cr_expect_eq(group_open_at(&pair, &status), KV_CORRUPT, "%s", status.message);
    cr_assert_eq(rename(away, path), 0);
    cr_expect_eq(group_open_at(&pair, NULL), KV_OK);
    pair_remove(&pair);
    cr_expect_eq(group_open_at(&other, NULL), KV_OK);
    pair_remove(&other);
}

Test(group, bad_arguments_are_named)
{
    struct pair pair;
    pair_open(&pair);
    kv_group *group;
    kv_status status = KV_STATUS_INIT;
    kv_group_member twice[] = { { "one", pair.a.db }, { "two", pair.a.db } };
    cr_expect_eq(kv_group_open("/tmp/statekv-none", twice, 2, NULL, &group, &status),
                 KV_INVALID);
    cr_expect_eq(kv_group_open("/tmp/statekv-none", twice, 0, NULL, &group, NULL), KV_INVALID);
    struct store outside;
    store_new(&outside, "memory");
    kv_group_batch *batch;
    cr_assert_eq(kv_group_batch_new(pair.group, &batch, NULL), KV_OK);
    kv_group_batch_put(batch, outside.space, kv_text("k"), kv_text("v"));
    cr_expect_eq(kv_group_batch_commit(batch, 0, NULL), KV_INVALID);
    kv_group_batch_clear(batch);
    kv_group_batch_put(batch, pair.a.space, kv_text(""), kv_text("v"));
    cr_expect_eq(kv_group_batch_commit(batch, 0, NULL), KV_INVALID);
    kv_group_batch_clear(batch);
    cr_expect_eq(kv_group_batch_prepare(batch, kv_text(""), NULL), KV_INVALID);
    kv_group_batch_free(batch);
    store_free(&outside);
    pair_remove(&pair);
}

static void *commit_often(void *context)
{
    for (unsigned i = 0; i < 50; i++)
        commit(context, "k", "v");
    return NULL;
}

Test(group, concurrent_commits_all_count)
{
    struct pair pair;
    pair_open(&pair);
    pthread_t threads[16];
    for (size_t i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, commit_often, &pair);
    for (size_t i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    kv_group_counts counts = kv_group_counts_of(pair.group);
    cr_expect_eq(counts.commits, 800);
    cr_expect_leq(counts.syncs, counts.commits); /* how many share one is the bench's */
    pair_remove(&pair);
}
