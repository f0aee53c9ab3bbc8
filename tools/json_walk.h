/*
 * json_walk.h - reading JSON of any size as a run of events: simdjson's
 * On-Demand parser behind a C face. Strict: UTF-8, escapes, numbers, brackets
 * and trailing text are all checked.
 */
#ifndef TOOLS_JSON_WALK_H
#define TOOLS_JSON_WALK_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { JSON_WALK_DEPTH_MAX = 256, JSON_WALK_PADDING = 64 };

#define JSON_WALK_SIZE_MAX 0xffffff00u /* bytes of one text */

enum json_event {
    JSON_WALK_OBJECT, /* { */
    JSON_WALK_ARRAY,  /* [ */
    JSON_WALK_END,    /* } or ] */
    JSON_WALK_NAME,   /* a member's name, unescaped */
    JSON_WALK_TEXT,   /* a string, unescaped */
    JSON_WALK_PLAIN   /* a number, true, false or null, as written */
};

/* Anything but KV_OK ends the walk. */
typedef kv_code json_walk_visit(void *context, enum json_event event, kv_slice text,
                                kv_status *status);

/*
 * Walk `text`, after which JSON_WALK_PADDING bytes must be readable and whose
 * top must be an object. On failure `at` tells how far the walk had come, in
 * bytes, and the message what is wrong there; the caller knows the file.
 */
KV_MUST_CHECK kv_code json_walk(kv_slice text, json_walk_visit *visit, void *context,
                                size_t *at, kv_status *status);

#ifdef __cplusplus
}
#endif

#endif /* TOOLS_JSON_WALK_H */
