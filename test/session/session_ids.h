/* session_ids.h - ids by number. */
#ifndef TEST_SESSION_SESSION_IDS_H
#define TEST_SESSION_SESSION_IDS_H

#include "reconnect/session.h"

#include <string.h>

struct id {
    uint8_t bytes[SESSION_ID_SIZE];
};

/* An id that looks like a digest: every byte depends on `number`. */
static inline struct id id_of(uint64_t number)
{
    struct id id;
    uint64_t word = number + 1;

    for (size_t i = 0; i < SESSION_ID_SIZE / 8; i++) {
        word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9u + i;
        word ^= word >> 32;
        memcpy(&id.bytes[8 * i], &word, 8);
    }
    return id;
}

#endif /* TEST_SESSION_SESSION_IDS_H */
