/* base64.c - nettle's base64 on texts. */
#include "tools/base64.h"

#include <nettle/base64.h>

void base64_encode(struct text *text, kv_slice bytes)
{
    const unsigned char *from = bytes.data;
    enum { GROUP = 3, GROUP_SIZE = 4 };
    for (size_t i = 0; i < bytes.size; i += GROUP) {
        char group[GROUP_SIZE];
        size_t size = bytes.size - i < GROUP ? bytes.size - i : GROUP;
        base64_encode_raw(group, size, from + i);
        text_append(text, group, GROUP_SIZE);
    }
    text_append(text, NULL, 0);
}

bool base64_decode(struct text *text, kv_slice source)
{
    struct base64_decode_ctx context;
    const char *from = source.data;
    base64_decode_init(&context);
    for (size_t i = 0; i < source.size; i++) {
        unsigned char byte;
        int count = base64_decode_single(&context, &byte, from[i]);
        if (count < 0)
            return false;
        if (count == 1)
            text_append_byte(text, byte);
    }
    text_append(text, NULL, 0);
    return base64_decode_final(&context) == 1;
}
