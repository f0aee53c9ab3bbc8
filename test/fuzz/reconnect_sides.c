/* reconnect_sides.c - the small states that the reconnect targets work on. */
#include "reconnect_sides.h"

#include <stdio.h>
#include <stdlib.h>

static void must(kv_code code)
{
    if (code != KV_OK)
        abort();
}

void fuzz_side_open(struct fuzz_side *side, unsigned keys, unsigned salt, unsigned versions)
{
    static const kv_option_table *const tables[] = { &state_option_table, NULL };
    vmap *map;
    uint64_t version;
    must(kv_options_new("memory", "", tables, &side->options, NULL));
    must(kv_options_set(side->options, "vmap.page_bits", "3", NULL));
    must(kv_open(side->options, KV_CREATE, &side->db, NULL));
    must(state_open(side->db, side->options, KV_CREATE, &side->state, NULL));
    must(state_map_open(side->state, "m", KV_CREATE, &map, NULL));
    for (unsigned i = 0; i < keys; i++) {
        char key[16], value[16];
        snprintf(key, sizeof(key), "k%03u", i);
        snprintf(value, sizeof(value), "v%u", i % 7 == 0 ? i + salt : i);
        if (i % 11 != salt)
            must(vmap_put(map, kv_text(key), kv_text(value), NULL));
    }
    for (unsigned i = 0; i < versions; i++)
        must(state_commit(side->state, 0, &version, NULL));
}
