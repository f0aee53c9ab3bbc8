/* session_inventory.c - the filter in which a peer says what it holds. */
#include "reconnect/session.h"

#include <string.h>

/* In a smaller filter the probes of one id, evenly spaced, would meet too often. */
enum { FILTER_HEAD = 4, BITS_MIN = 1024, BITS_GOOD = 24, BITS_LEAST = 8, PROBES_MAX = 32 };

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word = 0;

    for (int i = 7; i >= 0; i--)
        word = word << 8 | bytes[i];
    return word;
}

size_t session_filter_size(size_t count)
{
    size_t bits = BITS_MIN;

    if (count > SIZE_MAX / BITS_GOOD)
        return 0;
    while (bits < count * BITS_GOOD && bits / 8 < SESSION_FILTER_SIZE_MAX - FILTER_HEAD)
        bits *= 2;
    return bits < count * BITS_LEAST ? 0 : FILTER_HEAD + bits / 8;
}

void session_filter_init(uint8_t *filter, size_t size, size_t count)
{
    /* Fewest false answers at ln 2 times the bits for each id. */
    size_t per_id = (size - FILTER_HEAD) * 8 / (count == 0 ? 1 : count);
    size_t probes = per_id * 7 / 10;

    memset(filter, 0, size);
    filter[0] = (uint8_t)(probes < 1 ? 1 : probes > PROBES_MAX ? PROBES_MAX : probes);
}

void session_filter_add(uint8_t *filter, size_t size, const uint8_t *id)
{
    uint64_t mask = (uint64_t)(size - FILTER_HEAD) * 8 - 1;
    uint64_t at = word_at(id), step = word_at(id + 8) | 1;

    for (unsigned i = 0; i < filter[0]; i++, at += step)
        filter[FILTER_HEAD + (at & mask) / 8] |= (uint8_t)(1u << (at & 7));
}

bool session_filter_has(const uint8_t *filter, size_t size, const uint8_t *id)
{
    uint64_t mask = (uint64_t)(size - FILTER_HEAD) * 8 - 1;
    uint64_t at = word_at(id), step = word_at(id + 8) | 1;

    for (unsigned i = 0; i < filter[0]; i++, at += step)
        if ((filter[FILTER_HEAD + (at & mask) / 8] >> (at & 7) & 1) == 0)
            return false;
    return true;
}
