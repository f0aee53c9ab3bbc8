/*
 * json.h - reading JSON: simdjson's DOM behind a C face, and what it does not
 * tell: the source text of a value and a refusal in the words of Go's decoder,
 * which CometBFT's clients know.
 */
#ifndef ABCI_QUERY_JSON_H
#define ABCI_QUERY_JSON_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum query_json_type {
    QUERY_JSON_NULL,
    QUERY_JSON_BOOL,
    QUERY_JSON_INT,     /* fits int64 */
    QUERY_JSON_NATURAL, /* only fits uint64 */
    QUERY_JSON_REAL,
    QUERY_JSON_TEXT,
    QUERY_JSON_ARRAY,
    QUERY_JSON_OBJECT
};

/* A value of the last text parsed; texts last until the next parse. */
struct query_json {
    enum query_json_type type;
    union {
        bool boolean;
        int64_t integer;
        uint64_t natural;
        double real;
        kv_slice text; /* unescaped UTF-8 */
    } as;
    const void *document; /* private */
    size_t index;         /* private */
};

struct query_json_member {
    kv_slice name; /* empty in an array */
    struct query_json value;
};

/* Where a walk over an array or object stands. */
struct query_json_walk {
    const void *document;
    size_t index, end;
    bool object;
};

struct query_json_parser;

/* A parser for texts of up to `size_max` bytes, nested up to `depth_max`. */
KV_MUST_CHECK kv_code query_json_parser_new(size_t size_max, size_t depth_max,
                                            struct query_json_parser **out);
void query_json_parser_free(struct query_json_parser *parser);

/*
 * Parse `text`, after which QUERY_BUFFER_PADDING bytes must be readable.
 * KV_INVALID: no JSON, or not UTF-8. KV_TOO_BIG: nested too deep.
 */
KV_MUST_CHECK kv_code query_json_parse(struct query_json_parser *parser, kv_slice text,
                                       struct query_json *out);

void query_json_walk_start(struct query_json_walk *walk, const struct query_json *value);
/* The next up to `limit` members; 0 at the end. */
size_t query_json_walk_next(struct query_json_walk *walk, struct query_json_member *out,
                            size_t limit);

/* The number of members of an array or object. */
size_t query_json_count(const struct query_json *value);

/* True if `text` is UTF-8. */
bool query_json_utf8(kv_slice text);

/* ---- On the text itself ------------------------------------------------- */

/* A walk over the source of an array's or object's values, in step with a
 * query_json_walk. Start from { text, 0 }; `text` has been parsed without fault. */
struct query_json_source_walk {
    kv_slice text;
    size_t at;
};

/* The source of the next value; empty at the end. */
kv_slice query_json_source_next(struct query_json_source_walk *walk);

/* The source of the `index`-th member's value; empty if there is none. */
kv_slice query_json_source(kv_slice text, size_t index);

/* Why `text` is refused, as Go's encoding/json says it, into `out`. True when
 * Go would find nothing wrong; then `out` says what we do. */
bool query_json_complain(kv_slice text, size_t depth_max, char *out, size_t out_size);

/* Go's name for a JSON type: "string", "number", "bool", "array", "object". */
const char *query_json_type_name(enum query_json_type type);

#ifdef __cplusplus
}
#endif

#endif /* ABCI_QUERY_JSON_H */
