/* vectors.c - ranks, roots and app hashes against an independent builder's. */
#include "../state/scratch.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(vectors, .timeout = 100);

static json_t *load_vectors(void)
{
    static const char *const places[] = { "../shared/data/vmap_vectors.json",
                                          "../../shared/data/vmap_vectors.json" };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        json_t *vectors = json_load_file(places[i], 0, NULL);
        if (vectors != NULL)
            return vectors;
    }
    cr_log_warn("vmap_vectors.json is not there: skipped");
    return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    cr_assert_not_null(text, "no %s", name);
    return text;
}

static void expect_digest(const vmap_digest *digest, const char *hex)
{
    char found[2 * VMAP_DIGEST_SIZE + 1];
    for (size_t i = 0; i < VMAP_DIGEST_SIZE; i++)
        snprintf(found + 2 * i, 3, "%02x", digest->bytes[i]);
    cr_assert_str_eq(found, hex);
}

Test(vectors, ranks)
{
    json_t *vectors = load_vectors();
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(vectors, "rank"), i, each)
    {
        kv_slice key = kv_text(text_of(each, "key"));
        vmap_digest digest = vmap_digest_of(key);
        expect_digest(&digest, text_of(each, "sha256"));
        cr_assert_eq(vmap_rank(key, 5), json_integer_value(json_object_get(each, "rank")));
    }
    json_decref(vectors);
}

Test(vectors, app_hashes)
{
    json_t *vectors = load_vectors();
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(vectors, "app_hash"), i, each)
    {
        vmap_named_root maps[8];
        size_t count = 0;
        const char *name;
        json_t *root;
        json_object_foreach(json_object_get(each, "maps"), name, root)
        {
            maps[count].name = name;
            for (size_t j = 0; j < VMAP_DIGEST_SIZE; j++)
                sscanf(json_string_value(root) + 2 * j, "%2hhx", &maps[count].root.bytes[j]);
            count++;
        }
        vmap_digest app_hash = vmap_app_hash(maps, count);
        expect_digest(&app_hash, text_of(each, "app_hash"));
    }
    json_decref(vectors);
}

static void put_text_key(vmap *map, unsigned i)
{
    char key[32], value[32];
    snprintf(key, sizeof(key), "key/%06u", i);
    snprintf(value, sizeof(value), "value/%06u", i);
    need(vmap_put(map, kv_text(key), kv_text(value), NULL));
}

static void sha256_of(const void *bytes, size_t size, uint8_t out[32])
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, bytes);
    sha256_digest(&context, 32, out);
}

static void put_binary_key(vmap *map, unsigned i)
{
    char seed[32];
    uint8_t hash[32], value[32];
    int size = snprintf(seed, sizeof(seed), "seed %u", i);
    sha256_of(seed, (size_t)size, hash);
    sha256_of(hash, sizeof(hash), value);
    need(vmap_put(map, kv_bytes(hash, 1 + i % 32), kv_bytes(value, 1 + i % 29), NULL));
}

static void note_longest(void *context, const kv_stat *stat)
{
    uint64_t *longest = context;
    if (strcmp(stat->name, "m.page_longest") == 0)
        *longest = stat->number;
}

/* Build each root of `list` as a map of its own; look again after reopening. */
static void check_roots(const char *driver, const char *list, void (*put)(vmap *, unsigned))
{
    json_t *vectors = load_vectors();
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(vectors, list), i, each)
    {
        struct scratch scratch;
        vmap *map;
        state_view *view;
        vmap_digest root;
        unsigned level, page_bits;
        vmap_node node;
        scratch_open(&scratch, driver);
        need(state_map_open(scratch.state, "m", KV_CREATE, &map, NULL));
        unsigned count = (unsigned)json_integer_value(json_object_get(each, "n"));
        for (unsigned j = 0; j < count; j++)
            put(map, j);
        need(state_commit(scratch.state, 0, NULL, NULL));
        scratch_reopen(&scratch);
        need(state_view_open(scratch.state, 0, &view, NULL));
        need(state_view_root(view, "m", &root, NULL));
        expect_digest(&root, text_of(each, "root"));
        need(state_view_top(view, "m", &level, &node, &page_bits, NULL));
        json_t *levels = json_object_get(each, "levels");
        if (levels != NULL && count > 0)
            cr_assert_eq(level + 1, json_integer_value(levels));
        json_t *distinct = json_object_get(each, "distinct");
        if (distinct != NULL)
            cr_assert_eq(node.size, (uint64_t)json_integer_value(distinct));
        json_t *longest = json_object_get(each, "longest_page");
        uint64_t found = 0;
        need(state_stats(scratch.state, note_longest, &found, NULL));
        if (longest != NULL)
            cr_assert_eq(found, (uint64_t)json_integer_value(longest));
        need(state_view_verify(view, NULL, NULL, NULL));
        state_view_close(view);
        scratch_close(&scratch);
    }
    json_decref(vectors);
}

struct driver_row {
    char driver[16];
};

static struct driver_row rows[] = { { "memory" }, { "leveldb" }, { "rocksdb" } };

ParameterizedTestParameters(vectors, text_keys)
{
    return cr_make_param_array(struct driver_row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct driver_row *row, vectors, text_keys)
{
    if (kv_driver_find(row->driver) != NULL)
        check_roots(row->driver, "text_keys", put_text_key);
}

ParameterizedTestParameters(vectors, binary_keys)
{
    return cr_make_param_array(struct driver_row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct driver_row *row, vectors, binary_keys)
{
    if (kv_driver_find(row->driver) != NULL)
        check_roots(row->driver, "binary_keys", put_binary_key);
}
