/* pairs_tsv.c - pairs from lines of hex. */
#include "tools/pairs.h"
#include "tools/text.h"

#include <string.h>

struct line {
    struct text key, value;
};

static kv_code read_line(struct line *line, const char *map, kv_slice text, pairs_visit *visit,
                         void *context, kv_status *status)
{
    const char *start = text.data;
    const char *tab = text.size == 0 ? NULL : memchr(start, '\t', text.size);
    size_t key_size = tab == NULL ? text.size : (size_t)(tab - start);
    line->key.size = 0;
    line->value.size = 0;
    if (key_size == 0)
        return kv_fail(status, KV_INVALID, "empty key");
    kv_code code = text_decode(&line->key, kv_bytes(start, key_size), true, "key", status);
    if (code != KV_OK || tab == NULL)
        return code == KV_OK ? visit(context, map, text_bytes(&line->key), NULL, status) : code;

    kv_slice rest = kv_bytes(tab + 1, text.size - key_size - 1);
    code = text_decode(&line->value, rest, true, "value", status);
    if (code != KV_OK)
        return code;
    kv_slice value = text_bytes(&line->value);
    return visit(context, map, text_bytes(&line->key), &value, status);
}

kv_code pairs_of_tsv(const struct input *input, const char *map, pairs_visit *visit,
                     void *context, kv_status *status)
{
    struct line line = { TEXT_INIT, TEXT_INIT };
    const char *text = input->bytes.data;
    size_t left = input->bytes.size;
    kv_code code = KV_OK;
    for (size_t number = 1; code == KV_OK && left > 0; number++) {
        const char *end = memchr(text, '\n', left);
        size_t size = end == NULL ? left : (size_t)(end - text);
        kv_status why = KV_STATUS_INIT;
        code = read_line(&line, map, kv_bytes(text, size), visit, context, &why);
        if (code != KV_OK)
            kv_fail(status, code, "%s:%zu: %s", input->name, number, why.message);
        size += end == NULL ? 0 : 1;
        text += size;
        left -= size;
    }
    text_clear(&line.key);
    text_clear(&line.value);
    return code;
}
