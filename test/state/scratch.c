/* scratch.c - a state in a folder of its own, for Criterion tests. */
#include "scratch.h"

#include "test/base.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_inside(struct scratch *scratch)
{
    kv_status status = KV_STATUS_INIT;
    if (scratch->db == NULL)
        cr_assert_eq(kv_open(scratch->options, KV_CREATE, &scratch->db, &status), KV_OK, "%s",
                     status.message);
    cr_assert_eq(state_open(scratch->db, scratch->options, KV_CREATE, &scratch->state, &status),
                 KV_OK, "%s", status.message);
}

void scratch_open(struct scratch *scratch, const char *driver)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    char dir[80];
    memset(scratch, 0, sizeof(*scratch));
    snprintf(scratch->driver, sizeof(scratch->driver), "%s", driver);
    snprintf(scratch->dir, sizeof(scratch->dir), "%.36s/statekv-state-XXXXXX", test_base());
    cr_assert_not_null(mkdtemp(scratch->dir));
    snprintf(dir, sizeof(dir), "%s/db", scratch->dir);
    need(kv_options_new(driver, dir, tables, &scratch->options, NULL));
    need(kv_options_set(scratch->options, "vmap.threads", "2", NULL));
    open_inside(scratch);
}

void scratch_set(struct scratch *scratch, const char *name, const char *value)
{
    need(kv_options_set(scratch->options, name, value, NULL));
}

void scratch_reopen(struct scratch *scratch)
{
    need(state_close(scratch->state, NULL));
    scratch->state = NULL;
    if (strcmp(scratch->driver, "memory") != 0) {
        need(kv_close(scratch->db, NULL));
        scratch->db = NULL;
    }
    open_inside(scratch);
}

void scratch_verify(const struct scratch *scratch)
{
    state_view *view;
    kv_status status = KV_STATUS_INIT;
    need(state_view_open(scratch->state, 0, &view, NULL));
    cr_assert_eq(state_view_verify(view, NULL, NULL, &status), KV_OK, "%s", status.message);
    state_view_close(view);
}

void scratch_close(struct scratch *scratch)
{
    kv_status status = KV_STATUS_INIT;
    char command[80];
    cr_assert_eq(state_close(scratch->state, &status), KV_OK, "%s", status.message);
    cr_assert_eq(kv_close(scratch->db, &status), KV_OK, "%s", status.message);
    kv_options_free(scratch->options);
    snprintf(command, sizeof(command), "rm -rf '%s'", scratch->dir);
    cr_assert_eq(system(command), 0);
}
