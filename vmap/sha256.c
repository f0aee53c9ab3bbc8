/* sha256.c - many SHA-256 digests at once. */
#include "vmap/sha256.h"

#include <nettle/sha2.h>
#include <string.h>

enum { LENGTH_SIZE = 8, TAIL_SIZE = 2 * SHA256_BLOCK_SIZE, LANES = 2 };

size_t vmap_sha256_pad(uint8_t *block, size_t size, size_t message_size)
{
    size_t blocks = (size + LENGTH_SIZE) / SHA256_BLOCK_SIZE + 1;
    size_t length_at = blocks * SHA256_BLOCK_SIZE - LENGTH_SIZE;
    uint64_t bits = __builtin_bswap64((uint64_t)message_size * 8);
    block[size] = 0x80;
    memset(block + size + 1, 0, length_at - size - 1);
    memcpy(block + length_at, &bits, sizeof(bits));
    return blocks;
}

static void digest_plain(const void *bytes, size_t size, vmap_digest *out)
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, bytes);
    sha256_digest(&context, sizeof(out->bytes), out->bytes);
}

static void pair_plain(uint8_t *const blocks[2], vmap_digest *const out[2])
{
    for (unsigned i = 0; i < 2; i++) {
        uint64_t bits;
        memcpy(&bits, blocks[i] + TAIL_SIZE - LENGTH_SIZE, sizeof(bits));
        digest_plain(blocks[i], (size_t)(__builtin_bswap64(bits) / 8), out[i]);
    }
}

static void many_plain(const kv_slice *messages, vmap_digest *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        digest_plain(messages[i].data, messages[i].size, &out[i]);
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))
#define SHA_INLINE SHA_TARGET static inline __attribute__((always_inline))

static const uint32_t round_constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2
};

/* The eight words in the order that the instructions want. */
struct words {
    __m128i abef, cdgh;
};

SHA_INLINE __m128i load_words(const uint8_t *bytes)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)bytes), big_endian);
}

SHA_INLINE void four_rounds(struct words *words, __m128i message, unsigned round)
{
    __m128i sum = _mm_add_epi32(
        message, _mm_load_si128((const __m128i *)(const void *)(round_constants + round)));
    words->cdgh = _mm_sha256rnds2_epu32(words->cdgh, words->abef, sum);
    words->abef = _mm_sha256rnds2_epu32(words->abef, words->cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

/* The next four words of a message from the sixteen before. */
SHA_INLINE __m128i next_words(const __m128i *message, unsigned i)
{
    __m128i sum = _mm_sha256msg1_epu32(message[i % 4], message[(i + 1) % 4]);
    sum = _mm_add_epi32(sum, _mm_alignr_epi8(message[(i + 3) % 4], message[(i + 2) % 4], 4));
    return _mm_sha256msg2_epu32(sum, message[(i + 3) % 4]);
}

SHA_INLINE void compress(struct words *words, const uint8_t *const *blocks, unsigned lanes)
{
    struct words at[LANES];
    __m128i message[LANES][4];
    for (unsigned lane = 0; lane < lanes; lane++)
        at[lane] = words[lane];
#pragma GCC unroll 16
    for (unsigned i = 0; i < 16; i++) {
#pragma GCC unroll 2
        for (unsigned lane = 0; lane < lanes; lane++) {
            __m128i *four = &message[lane][i % 4];
            *four = i < 4 ? load_words(blocks[lane] + (size_t)16 * i)
                          : next_words(message[lane], i);
            four_rounds(&at[lane], *four, 4 * i);
        }
    }
    for (unsigned lane = 0; lane < lanes; lane++) {
        words[lane].abef = _mm_add_epi32(words[lane].abef, at[lane].abef);
        words[lane].cdgh = _mm_add_epi32(words[lane].cdgh, at[lane].cdgh);
    }
}

SHA_TARGET static void compress_two(struct words words[2], const uint8_t *const blocks[2])
{
    compress(words, blocks, 2);
}

SHA_TARGET static void compress_one(struct words *words, const uint8_t *block)
{
    compress(words, &block, 1);
}

SHA_INLINE struct words first_words(void)
{
    return (
        struct words){ _mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c),
                       _mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19) };
}

SHA_INLINE void store_words(const struct words *words, vmap_digest *out)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(words->abef, 0x1b);  /* f e b a, reversed: a b e f */
    __m128i high = _mm_shuffle_epi32(words->cdgh, 0x1b); /* c d g h */
    __m128i abcd = _mm_unpacklo_epi64(low, high);
    __m128i efgh = _mm_unpackhi_epi64(low, high);
    __m128i *bytes = (__m128i *)(void *)out->bytes;
    _mm_storeu_si128(bytes, _mm_shuffle_epi8(abcd, big_endian));
    _mm_storeu_si128(bytes + 1, _mm_shuffle_epi8(efgh, big_endian));
}

static bool has_instructions(void)
{
    static int known; /* 0: not asked yet; races agree */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == 0) {
        unsigned a, b = 0, c = 0, d;
        bool sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0 &&
                   (c & bit_SSSE3) != 0;
        bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
        answer = sse && sha ? 1 : 2;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 1;
}

SHA_TARGET void vmap_sha256_pair(uint8_t *const blocks[2], vmap_digest *const out[2])
{
    struct words words[2] = { first_words(), first_words() };
    if (!has_instructions()) {
        pair_plain(blocks, out);
        return;
    }
    for (size_t at = 0; at < TAIL_SIZE; at += SHA256_BLOCK_SIZE) {
        const uint8_t *const here[2] = { blocks[0] + at, blocks[1] + at };
        compress_two(words, here);
    }
    store_words(&words[0], out[0]);
    store_words(&words[1], out[1]);
}

/* A message on its way: whole blocks from where it stands, the rest padded. */
struct lane {
    const uint8_t *next;
    size_t whole, padded; /* blocks */
    vmap_digest *out;
    uint8_t tail[TAIL_SIZE];
};

static void lane_begin(struct lane *lane, kv_slice message, vmap_digest *out)
{
    size_t rest = message.size % SHA256_BLOCK_SIZE;
    lane->next = message.data;
    lane->whole = message.size / SHA256_BLOCK_SIZE;
    lane->out = out;
    if (rest > 0)
        memcpy(lane->tail, lane->next + (message.size - rest), rest);
    lane->padded = vmap_sha256_pad(lane->tail, rest, message.size);
    if (lane->whole == 0)
        lane->next = lane->tail;
}

/* Step to the next block; false when there is none. */
static bool lane_step(struct lane *lane)
{
    lane->next += SHA256_BLOCK_SIZE;
    if (lane->whole > 0) {
        if (--lane->whole == 0)
            lane->next = lane->tail;
        return true;
    }
    return --lane->padded > 0;
}

SHA_TARGET void vmap_sha256_many(const kv_slice *messages, vmap_digest *out, size_t count)
{
    struct lane lanes[LANES];
    struct words words[LANES] = { first_words(), first_words() };
    bool busy[LANES] = { false, false };
    size_t begun = 0;
    if (!has_instructions()) {
        many_plain(messages, out, count);
        return;
    }
    for (;;) {
        for (unsigned i = 0; i < LANES; i++) {
            if (busy[i] || begun == count)
                continue;
            lane_begin(&lanes[i], messages[begun], &out[begun]);
            words[i] = first_words();
            busy[i] = true;
            begun++;
        }
        if (busy[0] && busy[1]) {
            const uint8_t *const blocks[LANES] = { lanes[0].next, lanes[1].next };
            compress_two(words, blocks);
        } else if (busy[0] || busy[1]) {
            compress_one(&words[busy[0] ? 0 : 1], lanes[busy[0] ? 0 : 1].next);
        } else {
            return;
        }
        for (unsigned i = 0; i < LANES; i++) {
            if (busy[i] && !lane_step(&lanes[i])) {
                store_words(&words[i], lanes[i].out);
                busy[i] = false;
            }
        }
    }
}

#else

void vmap_sha256_pair(uint8_t *const blocks[2], vmap_digest *const out[2])
{
    pair_plain(blocks, out);
}

void vmap_sha256_many(const kv_slice *messages, vmap_digest *out, size_t count)
{
    many_plain(messages, out, count);
}

#endif
