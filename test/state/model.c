/* model.c - what a state must hold, and an oracle for its roots. */
#include "model.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const model_names[MODEL_MAPS] = { "acc", "bank", "ibc" };

/* ---- The oracle: the rules of the tree, word by word --------------------- */

struct hash {
    uint8_t bytes[200 + MODEL_KEY_SIZE_MAX];
    size_t size;
};
struct item {
    kv_slice first;
    uint8_t digest[32];
    uint64_t size, height;
};

static void sha256(const void *bytes, size_t size, uint8_t out[32])
{
    if (EVP_Digest(bytes, size, out, NULL, EVP_sha256(), NULL) != 1)
        abort();
}
static void add(struct hash *hash, const void *bytes, size_t size)
{
    memcpy(hash->bytes + hash->size, bytes, size);
    hash->size += size;
}
static void add_varint(struct hash *hash, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        hash->bytes[hash->size++] = (uint8_t)(128 | (number & 127));
    hash->bytes[hash->size++] = (uint8_t)number;
}
static unsigned rank(kv_slice key, unsigned page_bits)
{
    uint8_t digest[32];
    unsigned zeros = 0;
    sha256(key.data, key.size, digest);
    while (zeros < 256 && (digest[zeros / 8] & (128 >> zeros % 8)) == 0)
        zeros++;
    return zeros / page_bits;
}
static struct item fold(const struct item *items, size_t count)
{
    if (count == 1)
        return items[0];
    size_t left = 1; /* the largest power of two below count: pairing's split */
    while (left * 2 < count)
        left *= 2;
    struct item a = fold(items, left), b = fold(items + left, count - left);
    struct hash hash = { .size = 0 };
    struct item made = { .first = a.first,
                         .size = a.size + b.size,
                         .height = 1 + (a.height > b.height ? a.height : b.height) };
    add_varint(&hash, made.height * 2);
    add_varint(&hash, made.size * 2);
    add(&hash, "\0\x20", 2);
    add(&hash, a.digest, 32);
    add(&hash, "\x20", 1);
    add(&hash, b.digest, 32);
    sha256(hash.bytes, hash.size, made.digest);
    return made;
}
static struct item build(struct item *items, size_t count, unsigned level, unsigned page_bits)
{
    size_t pages = 0, begin = 0;
    for (size_t i = 1; i <= count; i++) {
        if (i < count && rank(items[i].first, page_bits) <= level)
            continue;
        items[pages++] = fold(items + begin, i - begin);
        begin = i;
    }
    return pages == 1 ? items[0] : build(items, pages, level + 1, page_bits);
}
vmap_digest oracle_root(const struct pair *pairs, size_t count, unsigned page_bits)
{
    vmap_digest root;
    sha256("", 0, root.bytes);
    if (count == 0)
        return root;
    struct item *items = calloc(count, sizeof(*items));
    for (size_t i = 0; i < count; i++) {
        struct hash hash = { .size = 0 };
        uint8_t value[32];
        sha256(pairs[i].value.data, pairs[i].value.size, value);
        add(&hash, "\0\x02\0", 3);
        add_varint(&hash, pairs[i].key.size);
        add(&hash, pairs[i].key.data, pairs[i].key.size);
        add(&hash, "\x20", 1);
        add(&hash, value, 32);
        items[i].first = pairs[i].key;
        items[i].size = 1;
        sha256(hash.bytes, hash.size, items[i].digest);
    }
    struct item top = build(items, count, 0, page_bits);
    memcpy(root.bytes, top.digest, 32);
    free(items);
    return root;
}

/* ---- Chance -------------------------------------------------------------- */

uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t limit)
{
    return random_next(random) % limit;
}

/* ---- Keys and values ----------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    return kv_compare(*(const kv_slice *)a, *(const kv_slice *)b);
}

/* Keys of every kind: numbers in text, short ones, zeros, all-0xff ones, long
 * ones, and extensions of others by bytes that look like anything. */
static kv_slice make_key(struct universe *universe, size_t made, struct random *random)
{
    static const uint8_t alphabet[] = { 0x00, 0x01, 0xff, 'a', 'b' };
    uint8_t bytes[MODEL_KEY_SIZE_MAX];
    size_t size = 0;
    switch (random_below(random, 6)) {
    case 0:
        size = (size_t)snprintf((char *)bytes, sizeof(bytes), "key/%06u", (unsigned)made);
        break;
    case 1:
        size = 1 + random_below(random, 6);
        for (size_t i = 0; i < size; i++)
            bytes[i] = alphabet[random_below(random, sizeof(alphabet))];
        break;
    case 2:
        size = 1 + random_below(random, 40);
        memset(bytes, random_below(random, 2) == 0 ? 0xff : 0x00, size);
        break;
    case 3:
        if (made > 0) {
            kv_slice stem = universe->keys[random_below(random, made)];
            size = stem.size < 500 ? stem.size : 500;
            memcpy(bytes, stem.data, size);
        }
        for (size_t more = 1 + random_below(random, 9); more > 0; more--)
            bytes[size++] = alphabet[random_below(random, sizeof(alphabet))];
        break;
    case 4:
        size = 240 + random_below(random, MODEL_KEY_SIZE_MAX - 240);
        memset(bytes, 'k', size);
        for (size_t i = size - 8; i < size; i++)
            bytes[i] = (uint8_t)random_next(random);
        break;
    default:
        size = 32;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)random_next(random);
        break;
    }
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    return kv_bytes(copy, size);
}

static void key_free(kv_slice key)
{
    void *bytes;
    memcpy(&bytes, &key.data, sizeof(bytes));
    free(bytes);
}

void universe_make(struct universe *universe, size_t count, uint64_t seed)
{
    struct random random = { seed };
    universe->keys = calloc(count, sizeof(*universe->keys));
    for (size_t i = 0; i < count; i++)
        universe->keys[i] = make_key(universe, i, &random);
    qsort(universe->keys, count, sizeof(*universe->keys), compare_keys);
    size_t kept = 1;
    for (size_t i = 1; i < count; i++) {
        if (kv_compare(universe->keys[i], universe->keys[kept - 1]) != 0)
            universe->keys[kept++] = universe->keys[i];
        else
            key_free(universe->keys[i]);
    }
    universe->count = kept;
}

void universe_free(struct universe *universe)
{
    for (size_t i = 0; i < universe->count; i++)
        key_free(universe->keys[i]);
    free(universe->keys);
}

kv_slice model_value(uint32_t number, uint8_t *buffer)
{
    struct random random = { number };
    size_t size = 1 + (number % 7 == 0 ? random_below(&random, MODEL_VALUE_SIZE_MAX)
                                       : random_below(&random, 40));
    for (size_t i = 0; i < size; i++)
        buffer[i] = (uint8_t)random_next(&random);
    return kv_bytes(buffer, size);
}

/* ---- The model ----------------------------------------------------------- */

void model_init(struct model *model, const struct universe *universe)
{
    memset(model, 0, sizeof(*model));
    for (size_t i = 0; i < MODEL_MAPS; i++)
        model->numbers[i] = calloc(universe->count, sizeof(uint32_t));
}

void model_free(struct model *model)
{
    for (size_t i = 0; i < MODEL_MAPS; i++)
        free(model->numbers[i]);
}

void model_copy(struct model *to, const struct model *from, const struct universe *universe)
{
    to->version = from->version;
    memcpy(to->exists, from->exists, sizeof(to->exists));
    for (size_t i = 0; i < MODEL_MAPS; i++)
        memcpy(to->numbers[i], from->numbers[i], universe->count * sizeof(uint32_t));
}

vmap_digest model_root(const struct model *model, size_t map, const struct universe *universe,
                       unsigned page_bits)
{
    struct pair *pairs = calloc(universe->count + 1, sizeof(*pairs));
    uint8_t *values = malloc(universe->count * MODEL_VALUE_SIZE_MAX);
    size_t count = 0;
    for (size_t i = 0; i < universe->count; i++) {
        if (model->numbers[map][i] == 0)
            continue;
        pairs[count].key = universe->keys[i];
        pairs[count].value =
            model_value(model->numbers[map][i], values + count * MODEL_VALUE_SIZE_MAX);
        count++;
    }
    vmap_digest root = oracle_root(pairs, count, page_bits);
    free(pairs);
    free(values);
    return root;
}

vmap_digest model_app_hash(const struct model *model, const struct universe *universe,
                           unsigned page_bits)
{
    vmap_named_root roots[MODEL_MAPS];
    size_t count = 0;
    for (size_t i = 0; i < MODEL_MAPS; i++) {
        if (model->exists[i])
            roots[count++] =
                (vmap_named_root){ model_names[i], model_root(model, i, universe, page_bits) };
    }
    return vmap_app_hash(roots, count);
}
