/* toml.h - what kv needs of a TOML parser, in C. */
#ifndef KV_TOML_H
#define KV_TOML_H

#include "kv/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kv_toml_kind {
    KV_TOML_TABLE, /* a table by its name, before its members */
    KV_TOML_BOOL,  /* number 0 or 1 */
    KV_TOML_INT,   /* number */
    KV_TOML_TEXT,  /* text; a list of texts comes joined by commas */
    KV_TOML_OTHER  /* a kind that no option takes: float, date, mixed list */
};

struct kv_toml_item {
    const char *name; /* dotted: "kv.rocksdb.block_cache" */
    enum kv_toml_kind kind;
    const char *text;
    int64_t number;
    unsigned line;
};

/*
 * Parse a document and call `visit` with each table and value, until one answer
 * is not KV_OK. `name` stands for the document in messages. KV_INVALID: not
 * TOML, with line and column in the message.
 */
KV_MUST_CHECK kv_code kv_toml_read(const char *document, size_t size, const char *name,
                                   kv_code (*visit)(void *context,
                                                    const struct kv_toml_item *item),
                                   void *context, kv_status *status);

#ifdef __cplusplus
}
#endif

#endif /* KV_TOML_H */
