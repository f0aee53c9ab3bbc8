/*
 * pairs.h - what import reads, as pairs: tsv lines, or the scalars of JSON.
 * A reader checks everything it tells, and names file and line when it fails.
 */
#ifndef TOOLS_PAIRS_H
#define TOOLS_PAIRS_H

#include "tools/input.h"

/* One pair for a map; `value` NULL deletes the key. Anything but KV_OK ends the reading. */
typedef kv_code pairs_visit(void *context, const char *map, kv_slice key, const kv_slice *value,
                            kv_status *status);

/* Lines `<hex key> TAB <hex value>`; one with no tab deletes its key. */
KV_MUST_CHECK kv_code pairs_of_tsv(const struct input *input, const char *map,
                                   pairs_visit *visit, void *context, kv_status *status);

/*
 * Every scalar and every empty container of every member of `app_state`, or of
 * the top level where there is none; `map` NULL, or only that member. The key
 * is its JSON Pointer inside the member without the leading slash, the value
 * its compact JSON, numbers as written. A name given twice in one object is told twice.
 */
KV_MUST_CHECK kv_code pairs_of_json(const struct input *input, const char *map,
                                    pairs_visit *visit, void *context, kv_status *status);

#endif /* TOOLS_PAIRS_H */
