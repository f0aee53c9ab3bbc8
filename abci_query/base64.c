/*
 * base64.c - base64 of answers: values, keys and proofs. Where the processor has AVX2, 24 bytes
 * a turn after Mula and Lemire ("Faster Base64 Encoding and Decoding Using AVX2 Instructions");
 * elsewhere, and for the rest, three.
 */
#include "abci_query/buffer.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#ifdef __x86_64__
#include <immintrin.h>

enum { TURN_SIZE = 24, TURN_READS = 28 /* bytes that a turn reads */ };

__attribute__((target("avx2"))) static __m128i load(const uint8_t *in)
{
    return _mm_loadu_si128((const __m128i *)(const void *)in);
}

/* Encode whole turns; returns how many bytes. */
__attribute__((target("avx2"))) static size_t encode_turns(const uint8_t *in, size_t size,
                                                           char *out)
{
    const __m256i order = _mm256_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10, 1,
                                           0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* What to add to 0..25, 26..51, each of 52..61, 62 and 63, by the index below. */
    const __m256i shift = _mm256_setr_epi8(
        'A', 'a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
        '0' - 52, '0' - 52, '0' - 52, '+' - 62, '/' - 63, 0, 0, 'A', 'a' - 26, '0' - 52,
        '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
        '0' - 52, '+' - 62, '/' - 63, 0, 0);
    size_t at = 0;
    for (; size - at >= TURN_READS; at += TURN_SIZE, out += 32) {
        __m256i bytes = _mm256_set_m128i(load(in + at + 12), load(in + at));
        bytes = _mm256_shuffle_epi8(bytes, order);
        __m256i high =
            _mm256_mulhi_epu16(_mm256_and_si256(bytes, _mm256_set1_epi32(0x0fc0fc00)),
                               _mm256_set1_epi32(0x04000040));
        __m256i low = _mm256_mullo_epi16(_mm256_and_si256(bytes, _mm256_set1_epi32(0x003f03f0)),
                                         _mm256_set1_epi32(0x01000010));
        __m256i sixes = _mm256_or_si256(high, low);
        __m256i index = _mm256_subs_epu8(sixes, _mm256_set1_epi8(51));
        index = _mm256_sub_epi8(index, _mm256_cmpgt_epi8(sixes, _mm256_set1_epi8(25)));
        __m256i text = _mm256_add_epi8(sixes, _mm256_shuffle_epi8(shift, index));
        _mm256_storeu_si256((__m256i *)(void *)out, text);
    }
    return at;
}

static size_t encode_fast(const uint8_t *in, size_t size, char *out)
{
    return size >= TURN_READS && __builtin_cpu_supports("avx2") ? encode_turns(in, size, out)
                                                                : 0;
}
#else
static size_t encode_fast(const uint8_t *in, size_t size, char *out)
{
    (void)in;
    (void)size;
    (void)out;
    return 0;
}
#endif

void query_buffer_base64(struct query_buffer *buffer, kv_slice bytes)
{
    size_t size = (bytes.size + 2) / 3 * 4;
    if (bytes.size == 0 || !query_buffer_reserve(buffer, size))
        return;

    char *out = buffer->data + buffer->size;
    size_t done = encode_fast(bytes.data, bytes.size, out), left = bytes.size - done;
    const uint8_t *in = (const uint8_t *)bytes.data + done;
    out += done / 3 * 4;
    for (; left >= 3; left -= 3, in += 3, out += 4) {
        uint32_t bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        out[0] = digits[bits >> 18];
        out[1] = digits[bits >> 12 & 63];
        out[2] = digits[bits >> 6 & 63];
        out[3] = digits[bits & 63];
    }
    if (left > 0) {
        uint32_t bits = (uint32_t)in[0] << 16 | (left == 2 ? (uint32_t)in[1] << 8 : 0);
        out[0] = digits[bits >> 18];
        out[1] = digits[bits >> 12 & 63];
        out[2] = (char)(left == 2 ? digits[bits >> 6 & 63] : '=');
        out[3] = '=';
    }
    buffer->size += size;
}
