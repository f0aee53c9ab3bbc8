/* pairs_json.c - pairs from the scalars of a JSON object. */
#include "tools/json_walk.h"
#include "tools/pairs.h"
#include "tools/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert((int)INPUT_PADDING >= (int)JSON_WALK_PADDING, "simdjson reads past the end");

/* One open object or array: where its name ends in the pointer. */
struct level {
    size_t pointer_size;
    uint64_t count; /* members or elements so far */
    bool array;
};

struct reader {
    pairs_visit *visit;
    void *context;
    const char *only;    /* the one map wanted, or NULL */
    bool found;          /* `only` came by */
    bool app_state;      /* maps are the members of app_state */
    bool looking;        /* only for whether there is an app_state */
    unsigned depth;      /* levels open */
    unsigned map_depth;  /* depth at which members are maps */
    struct text map;     /* the map's name, once in one */
    struct text pointer; /* within the map, each step with a slash in front */
    struct text value;
    struct level levels[JSON_WALK_DEPTH_MAX + 1];
};

/* RFC 6901: ~ is ~0 and / is ~1. */
static void append_step(struct text *pointer, kv_slice name)
{
    const char *bytes = name.data;
    text_append_byte(pointer, '/');
    for (size_t i = 0; i < name.size; i++) {
        if (bytes[i] == '~')
            text_append(pointer, "~0", 2);
        else if (bytes[i] == '/')
            text_append(pointer, "~1", 2);
        else
            text_append(pointer, bytes + i, 1);
    }
}

/* Inside a map's own value, where scalars are pairs. */
static bool in_map(const struct reader *reader)
{
    return reader->map_depth != 0 && reader->depth > reader->map_depth;
}

/* Before an element: its index is its step. */
static void start_value(struct reader *reader)
{
    struct level *level = &reader->levels[reader->depth];
    if (in_map(reader) && level->array) {
        char index[24];
        int size = snprintf(index, sizeof(index), "%llu", (unsigned long long)level->count);
        reader->pointer.size = level->pointer_size;
        append_step(&reader->pointer, kv_bytes(index, (size_t)size));
    }
    level->count++;
}

static kv_code tell(struct reader *reader, kv_slice value, kv_status *status)
{
    if (!in_map(reader))
        return KV_OK;
    if (reader->only != NULL && strcmp(reader->only, reader->map.data) != 0)
        return KV_OK;
    kv_slice key = text_bytes(&reader->pointer);
    if (key.size > 0) /* the leading slash */
        key = kv_bytes(reader->pointer.data + 1, reader->pointer.size - 1);
    return reader->visit(reader->context, reader->map.data, key, &value, status);
}

static void open_level(struct reader *reader, bool array)
{
    if (reader->depth > 0)
        start_value(reader);
    reader->depth++;
    reader->levels[reader->depth] = (struct level){ reader->pointer.size, 0, array };
    if (reader->map_depth == 0 && !reader->app_state && !reader->looking)
        reader->map_depth = 1;
}

static kv_code close_level(struct reader *reader, kv_status *status)
{
    struct level level = reader->levels[reader->depth];
    kv_code code = KV_OK;
    reader->depth--;
    if (reader->app_state && reader->depth < reader->map_depth)
        reader->map_depth = 0;
    if (level.count == 0) {
        reader->pointer.size = level.pointer_size;
        code = tell(reader, kv_text(level.array ? "[]" : "{}"), status);
    }
    return code;
}

static bool is_app_state(const struct reader *reader, kv_slice name)
{
    return reader->depth == 1 && kv_compare(name, kv_text("app_state")) == 0;
}

static kv_code take_name(struct reader *reader, kv_slice name, kv_status *status)
{
    struct level *level = &reader->levels[reader->depth];
    if (reader->app_state && reader->depth == 1)
        reader->map_depth = is_app_state(reader, name) ? 2 : 0;
    if (reader->map_depth != 0 && reader->depth == reader->map_depth) {
        if (memchr(name.data, '\0', name.size) != NULL)
            return kv_fail(status, KV_INVALID, "a map's name holds a NUL");
        reader->map.size = 0;
        text_append(&reader->map, name.data, name.size);
        reader->found = reader->found ||
                        (reader->only != NULL && strcmp(reader->only, reader->map.data) == 0);
        reader->pointer.size = 0;
    } else if (in_map(reader)) {
        reader->pointer.size = level->pointer_size;
        append_step(&reader->pointer, name);
    }
    return KV_OK;
}

/* While looking, `found` tells that the value to come is app_state's. */
static kv_code look(struct reader *reader, enum json_event event, kv_slice text)
{
    switch (event) {
    case JSON_WALK_OBJECT:
        reader->app_state = reader->app_state || (reader->depth == 1 && reader->found);
        reader->depth++;
        break;
    case JSON_WALK_ARRAY:
        reader->depth++;
        break;
    case JSON_WALK_END:
        reader->depth--;
        break;
    case JSON_WALK_NAME:
        if (reader->depth == 1)
            reader->found = is_app_state(reader, text);
        break;
    default:
        break;
    }
    return KV_OK;
}

static kv_code take(void *context, enum json_event event, kv_slice text, kv_status *status)
{
    struct reader *reader = context;
    if (reader->looking)
        return look(reader, event, text);
    switch (event) {
    case JSON_WALK_OBJECT:
    case JSON_WALK_ARRAY:
        open_level(reader, event == JSON_WALK_ARRAY);
        return KV_OK;
    case JSON_WALK_END:
        return close_level(reader, status);
    case JSON_WALK_NAME:
        return take_name(reader, text, status);
    case JSON_WALK_TEXT:
        start_value(reader);
        reader->value.size = 0;
        text_append_json(&reader->value, text);
        return tell(reader, text_bytes(&reader->value), status);
    default:
        start_value(reader);
        return tell(reader, text, status);
    }
}

static kv_code walk(const struct input *input, struct reader *reader, kv_status *status)
{
    kv_status why = KV_STATUS_INIT;
    size_t at = 0;
    kv_code code = json_walk(input->bytes, take, reader, &at, &why);
    if (code != KV_OK)
        kv_fail(status, code, "%s:%zu: %s", input->name, input_line(input, at), why.message);
    return code;
}

kv_code pairs_of_json(const struct input *input, const char *map, pairs_visit *visit,
                      void *context, kv_status *status)
{
    struct reader look_for = { .looking = true };
    kv_code code = walk(input, &look_for, status);
    if (code != KV_OK)
        return code;
    struct reader reader = {
        .visit = visit, .context = context, .only = map, .app_state = look_for.app_state
    };
    code = walk(input, &reader, status);
    if (code == KV_OK && map != NULL && !reader.found)
        code = kv_fail(status, KV_INVALID, "%s: no member called %s%s", input->name, map,
                       reader.app_state ? " in app_state" : "");
    text_clear(&reader.map);
    text_clear(&reader.pointer);
    text_clear(&reader.value);
    return code;
}
