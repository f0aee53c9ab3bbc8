/* messages.c - what the frames say. */
#include "reconnect/wire.h"

#include <arpa/inet.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t magic[4] = { 'S', 'K', 'V', 'R' };

enum { FLAG_WANTED = 1u, FLAG_PEERS = 2u };

/* One answer for all decoders: whole and nothing left over, or not this message. */
static kv_code finish(const struct wire_in *in, enum wire_type type, kv_status *status)
{
    if (in->bad || in->at != in->end)
        return kv_fail(status, KV_UNPROVEN, "%s frame that does not decode",
                       wire_type_name(type));
    return KV_OK;
}

static void put_wanted(struct wire_out *out, uint64_t version, bool known,
                       const vmap_digest *wanted, unsigned flags)
{
    wire_put_number(out, version);
    wire_put_byte(out, flags | (known ? FLAG_WANTED : 0));
    if (known)
        wire_put(out, wanted->bytes, sizeof(wanted->bytes));
}

/* Returns the flags that are there besides, of those `allowed`. */
static unsigned get_wanted(struct wire_in *in, uint64_t *version, bool *known,
                           vmap_digest *wanted, unsigned allowed)
{
    *version = wire_get_number(in, UINT64_MAX);
    unsigned flags = wire_get_byte(in);
    if ((flags & ~(FLAG_WANTED | allowed)) != 0)
        in->bad = true;
    *known = (flags & FLAG_WANTED) != 0;
    *wanted = (vmap_digest){ { 0 } };
    if (*known)
        *wanted = wire_get_digest(in);
    return flags & allowed;
}

void wire_put_hello(struct wire_out *out, const struct wire_hello *hello)
{
    size_t frame = wire_frame_begin(out, WIRE_HELLO);
    wire_put(out, magic, sizeof(magic));
    wire_put_byte(out, hello->version_min);
    wire_put_byte(out, hello->version_max);
    wire_put_byte(out, hello->format);
    wire_put_text(out, hello->chain);
    wire_put(out, hello->nonce, sizeof(hello->nonce));
    wire_put_byte(out, hello->traversal);
    put_wanted(out, hello->version, hello->wanted_known, &hello->wanted,
               hello->peers ? FLAG_PEERS : 0);
    wire_put(out, hello->own.bytes, sizeof(hello->own.bytes));
    wire_frame_end(out, frame);
}

kv_code wire_get_hello(kv_slice body, struct wire_hello *hello, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    const uint8_t *begin = wire_get(&in, sizeof(magic));
    if (begin == NULL || memcmp(begin, magic, sizeof(magic)) != 0)
        return kv_fail(status, KV_UNPROVEN, "not a statekv learner: HELLO without its mark");

    hello->version_min = wire_get_byte(&in);
    hello->version_max = wire_get_byte(&in);
    hello->format = wire_get_byte(&in);
    hello->chain = wire_get_text(&in, WIRE_CHAIN_SIZE_MAX);
    wire_get_copy(&in, hello->nonce, sizeof(hello->nonce));
    unsigned traversal = wire_get_byte(&in);
    if (traversal > WIRE_LEVEL_STRICT || hello->version_min > hello->version_max)
        in.bad = true;
    hello->traversal = (enum wire_traversal)traversal;
    hello->peers =
        get_wanted(&in, &hello->version, &hello->wanted_known, &hello->wanted, FLAG_PEERS) != 0;
    hello->own = wire_get_digest(&in);
    /* A later protocol may say more in its HELLO; what is there is understood. */
    if (!in.bad && hello->version_max > WIRE_VERSION)
        in.at = in.end;
    return finish(&in, WIRE_HELLO, status);
}

void wire_put_challenge(struct wire_out *out, const struct wire_challenge *challenge)
{
    size_t frame = wire_frame_begin(out, WIRE_CHALLENGE);
    wire_put(out, challenge->nonce, sizeof(challenge->nonce));
    wire_put(out, challenge->mac, sizeof(challenge->mac));
    wire_frame_end(out, frame);
}

kv_code wire_get_challenge(kv_slice body, struct wire_challenge *challenge, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    wire_get_copy(&in, challenge->nonce, sizeof(challenge->nonce));
    wire_get_copy(&in, challenge->mac, sizeof(challenge->mac));
    return finish(&in, WIRE_CHALLENGE, status);
}

void wire_put_proof(struct wire_out *out, const uint8_t mac[WIRE_MAC_SIZE])
{
    size_t frame = wire_frame_begin(out, WIRE_PROOF);
    wire_put(out, mac, WIRE_MAC_SIZE);
    wire_frame_end(out, frame);
}

kv_code wire_get_proof(kv_slice body, uint8_t mac[WIRE_MAC_SIZE], kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    wire_get_copy(&in, mac, WIRE_MAC_SIZE);
    return finish(&in, WIRE_PROOF, status);
}

void wire_mac(kv_slice secret, const char *speaker, const uint8_t learner[WIRE_NONCE_SIZE],
              const uint8_t teacher[WIRE_NONCE_SIZE], uint8_t mac[WIRE_MAC_SIZE])
{
    struct hmac_sha256_ctx context;
    hmac_sha256_set_key(&context, secret.size, secret.data);
    hmac_sha256_update(&context, strlen(speaker), (const uint8_t *)speaker);
    hmac_sha256_update(&context, WIRE_NONCE_SIZE, learner);
    hmac_sha256_update(&context, WIRE_NONCE_SIZE, teacher);
    hmac_sha256_digest(&context, WIRE_MAC_SIZE, mac);
}

bool wire_mac_equal(const uint8_t a[WIRE_MAC_SIZE], const uint8_t b[WIRE_MAC_SIZE])
{
    return memeql_sec(a, b, WIRE_MAC_SIZE) != 0;
}

void wire_put_renew(struct wire_out *out, const struct wire_renew *renew)
{
    size_t frame = wire_frame_begin(out, WIRE_RENEW);
    put_wanted(out, renew->version, renew->wanted_known, &renew->wanted, 0);
    wire_frame_end(out, frame);
}

kv_code wire_get_renew(kv_slice body, struct wire_renew *renew, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    get_wanted(&in, &renew->version, &renew->wanted_known, &renew->wanted, 0);
    return finish(&in, WIRE_RENEW, status);
}

void wire_put_offer(struct wire_out *out, const struct wire_offer *offer)
{
    size_t frame = wire_frame_begin(out, WIRE_OFFER);
    wire_put_byte(out, offer->version_used);
    wire_put_number(out, offer->oldest);
    wire_put_number(out, offer->newest);
    wire_put_number(out, offer->version);
    wire_put(out, offer->app_hash.bytes, sizeof(offer->app_hash.bytes));
    wire_put_byte(out, offer->same ? 1 : 0);
    if (!offer->same) {
        wire_put_number(out, offer->map_count);
        for (size_t i = 0; i < offer->map_count; i++) {
            const struct wire_map *map = &offer->maps[i];
            wire_put_text(out, map->name);
            wire_put_byte(out, map->level);
            wire_put_byte(out, map->page_bits);
            wire_put(out, map->node.digest.bytes, sizeof(map->node.digest.bytes));
            wire_put_number(out, map->node.size);
            wire_put_number(out, map->node.height);
        }
    }
    wire_frame_end(out, frame);
}

static void get_map(struct wire_in *in, struct wire_map *map)
{
    map->name = wire_get_text(in, WIRE_MAP_NAME_SIZE_MAX);
    map->level = wire_get_byte(in);
    map->page_bits = wire_get_byte(in);
    map->node.digest = wire_get_digest(in);
    map->node.size = wire_get_number(in, INT64_MAX);
    map->node.height = (uint32_t)wire_get_number(in, INT32_MAX);
    if (map->name.size == 0 || map->level >= VMAP_LEVELS_MAX ||
        map->page_bits < VMAP_PAGE_BITS_MIN || map->page_bits > VMAP_PAGE_BITS_MAX ||
        (map->node.size <= 1 && (map->node.height > 0 || map->level > 0)))
        in->bad = true;
}

kv_code wire_get_offer(kv_slice body, struct wire_offer *offer, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    *offer = (struct wire_offer){ 0 };
    offer->version_used = wire_get_byte(&in);
    offer->oldest = wire_get_number(&in, UINT64_MAX);
    offer->newest = wire_get_number(&in, UINT64_MAX);
    offer->version = wire_get_number(&in, UINT64_MAX);
    offer->app_hash = wire_get_digest(&in);
    unsigned same = wire_get_byte(&in);
    offer->same = same == 1;
    if (same > 1)
        in.bad = true;
    if (!offer->same && !in.bad) {
        offer->map_count = (size_t)wire_get_number(&in, 1024);
        offer->maps = calloc(offer->map_count + 1, sizeof(*offer->maps));
        if (offer->maps == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for the maps of an offer");
        for (size_t i = 0; i < offer->map_count && !in.bad; i++) {
            get_map(&in, &offer->maps[i]);
            if (i > 0 && kv_compare(offer->maps[i - 1].name, offer->maps[i].name) >= 0)
                in.bad = true;
        }
    }

    kv_code code = finish(&in, WIRE_OFFER, status);
    if (code != KV_OK) {
        free(offer->maps);
        *offer = (struct wire_offer){ 0 };
    }
    return code;
}

void wire_put_error(struct wire_out *out, kv_code code, const char *text)
{
    size_t size = strlen(text);
    size_t frame = wire_frame_begin(out, WIRE_ERROR);
    wire_put_number(out, (uint64_t)code);
    wire_put_text(out, kv_bytes(text, size < WIRE_TEXT_SIZE_MAX ? size : WIRE_TEXT_SIZE_MAX));
    wire_frame_end(out, frame);
}

kv_code wire_get_error(kv_slice body, const char *peer, kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    uint64_t code = wire_get_number(&in, 1000);
    kv_slice text = wire_get_text(&in, WIRE_TEXT_SIZE_MAX);
    if (finish(&in, WIRE_ERROR, NULL) != KV_OK || code == KV_OK)
        return kv_fail(status, KV_UNPROVEN, "%s: ERROR frame that does not decode", peer);

    char words[WIRE_TEXT_SIZE_MAX + 1];
    const uint8_t *bytes = text.data;
    for (size_t i = 0; i < text.size; i++)
        words[i] = (char)(bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '?');
    words[text.size] = '\0';
    /* Only codes that a peer may rightly give; anything else is its own affair. */
    kv_code known = code <= KV_UNPROVEN ? (kv_code)code : KV_INTERNAL;
    return kv_fail(status, known, "%s hung up: %s", peer, words);
}

/* ---- Other teachers ----------------------------------------------------- */

bool wire_address_holds(kv_slice address)
{
    char text[WIRE_ADDRESS_SIZE_MAX + 1];
    if (address.size == 0 || address.size > WIRE_ADDRESS_SIZE_MAX ||
        memchr(address.data, '\0', address.size) != NULL)
        return false;
    memcpy(text, address.data, address.size);
    text[address.size] = '\0';
    char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (colon[1] == '\0' || strlen(colon + 1) > 5 || port == 0 || port > UINT16_MAX)
        return false;
    struct in6_addr number; /* room for either kind */
    *colon = '\0';
    if (text[0] != '[')
        return inet_pton(AF_INET, text, &number) == 1;
    if (colon[-1] != ']')
        return false;
    colon[-1] = '\0';
    return inet_pton(AF_INET6, text + 1, &number) == 1;
}

void wire_put_peers(struct wire_out *out, const kv_slice *addresses, size_t count)
{
    size_t frame = wire_frame_begin(out, WIRE_PEERS);
    wire_put_number(out, count);
    for (size_t i = 0; i < count; i++)
        wire_put_text(out, addresses[i]);
    wire_frame_end(out, frame);
}

kv_code wire_get_peers(kv_slice body, kv_slice addresses[WIRE_PEERS_MAX], size_t *count,
                       kv_status *status)
{
    struct wire_in in = wire_in_of(body);
    *count = (size_t)wire_get_number(&in, WIRE_PEERS_MAX);
    for (size_t i = 0; i < *count && !in.bad; i++) {
        addresses[i] = wire_get_text(&in, WIRE_ADDRESS_SIZE_MAX);
        if (!in.bad && !wire_address_holds(addresses[i]))
            in.bad = true;
    }
    return finish(&in, WIRE_PEERS, status);
}

/* ---- Pages -------------------------------------------------------------- */

void wire_put_want(struct wire_out *out, const struct wire_want *want)
{
    wire_put_number(out, want->id);
    wire_put_number(out, want->map);
    wire_put_byte(out, want->level);
    wire_put_byte(out, want->tier);
    wire_put_byte(out, want->have_bits);
    wire_put_byte(out, want->check_size);
    wire_put_number(out, want->count);
}

bool wire_get_want(struct wire_in *in, struct wire_want *want)
{
    want->id = wire_get_number(in, UINT64_MAX);
    want->map = (unsigned)wire_get_number(in, UINT32_MAX);
    want->level = wire_get_byte(in);
    want->tier = wire_get_byte(in);
    want->have_bits = wire_get_byte(in);
    want->check_size = wire_get_byte(in);
    want->count = (size_t)wire_get_number(in, WIRE_PAGES_MAX);
    if (want->level >= VMAP_LEVELS_MAX || want->tier > want->level ||
        (want->tier == 0 && want->level > 0) || want->have_bits > WIRE_HAVE_BITS_MAX ||
        want->check_size > VMAP_DIGEST_SIZE || want->count == 0)
        in->bad = true;
    return !in->bad;
}

void wire_put_ahead(struct wire_out *out, const struct wire_ahead *ahead)
{
    wire_put_number(out, ahead->id);
    wire_put_text(out, ahead->map);
    wire_put_byte(out, ahead->tier);
    wire_put_byte(out, ahead->have_bits);
}

bool wire_get_ahead(struct wire_in *in, struct wire_ahead *ahead)
{
    ahead->id = wire_get_number(in, UINT64_MAX);
    ahead->map = wire_get_text(in, WIRE_MAP_NAME_SIZE_MAX);
    ahead->tier = wire_get_byte(in);
    ahead->have_bits = wire_get_byte(in);
    if (ahead->tier == 0 || ahead->tier >= VMAP_LEVELS_MAX ||
        ahead->have_bits > WIRE_HAVE_BITS_MAX)
        in->bad = true;
    return !in->bad;
}

bool wire_get_want_page(struct wire_in *in, const struct wire_want *want, struct wire_key *key,
                        struct wire_want_page *page)
{
    page->first = wire_get_key(in, key, true);
    page->check = wire_get(in, want->check_size);
    page->have_count = (size_t)wire_get_number(in, WIRE_HAVES_MAX);
    if (want->have_bits == 0 && page->have_count > 0)
        in->bad = true;
    size_t size = (page->have_count * want->have_bits + 7) / 8;
    const uint8_t *haves = wire_get(in, size);
    page->haves = wire_in_of(kv_bytes(haves, haves == NULL ? 0 : size));
    return !in->bad;
}

void wire_put_step(struct wire_out *out, enum wire_step step, uint64_t count)
{
    wire_put_number(out, count << 2 | (uint64_t)step);
}

bool wire_get_step(struct wire_in *in, enum wire_step *step, uint64_t *count)
{
    uint64_t both = wire_get_number(in, (uint64_t)UINT32_MAX << 2);
    *step = (enum wire_step)(both & 3);
    *count = both >> 2;
    if ((both & 3) > WIRE_STEP_NEW || (*count == 0 && both != 0))
        in->bad = true;
    return !in->bad && both != 0;
}

/* A page of leaves has the height of its fold, so only higher ones say theirs. */
static uint32_t fold_height(uint64_t size)
{
    uint32_t height = 0;
    for (uint64_t reach = 1; reach < size; reach *= 2)
        height++;
    return height;
}

void wire_put_entry(struct wire_out *out, unsigned tier, kv_slice before, kv_slice first,
                    const vmap_node *node)
{
    wire_put_key(out, before, first);
    wire_put(out, node->digest.bytes, sizeof(node->digest.bytes));
    wire_put_number(out, node->size);
    if (tier > 1)
        wire_put_number(out, node->height);
}

bool wire_get_entry(struct wire_in *in, unsigned tier, struct wire_key *key, vmap_node *node)
{
    kv_slice first = wire_get_key(in, key, false);
    node->digest = wire_get_digest(in);
    node->size = wire_get_number(in, (uint64_t)1 << 62);
    node->height =
        tier > 1 ? (uint32_t)wire_get_number(in, INT32_MAX) : fold_height(node->size);
    if (first.size == 0 || node->size == 0)
        in->bad = true;
    return !in->bad;
}

void wire_put_leaf(struct wire_out *out, kv_slice before, kv_slice key, kv_slice value)
{
    wire_put_key(out, before, key);
    wire_put_text(out, value);
}

bool wire_get_leaf(struct wire_in *in, struct wire_key *key, kv_slice *value)
{
    kv_slice got = wire_get_key(in, key, false);
    *value = wire_get_text(in, VMAP_VALUE_SIZE_MAX);
    if (got.size == 0 || value->size == 0)
        in->bad = true;
    return !in->bad;
}
