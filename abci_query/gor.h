/*
 * gor.h - recordings in GoReplay's .gor format (docs/gor.md): bytes in, bytes out.
 */
#ifndef ABCI_QUERY_GOR_H
#define ABCI_QUERY_GOR_H

#include "abci_query/buffer.h"

#define QUERY_GOR_SEPARATOR "\n\xf0\x9f\x90\xb5\xf0\x9f\x99\x88\xf0\x9f\x99\x89\n"

enum {
    QUERY_GOR_REQUEST = '1',
    QUERY_GOR_RESPONSE = '2',
    QUERY_GOR_REPLAYED = '3',
    QUERY_GOR_ID_MAX = 64,
    QUERY_GOR_HEADER_MAX = 256,
    QUERY_GOR_RECORD_MAX = 64 << 20
};

struct query_gor_record {
    char type;
    kv_slice id;
    int64_t timestamp_ns; /* since 1970 */
    int64_t latency_ns;   /* -1: not known */
    kv_slice bytes;       /* HTTP as on the wire */
};

/* What query_gor_next found. */
enum query_gor_found {
    QUERY_GOR_RECORD,    /* a record */
    QUERY_GOR_TORN,      /* the last record, without its separator: taken all the same */
    QUERY_GOR_MALFORMED, /* a record whose header does not fit: skipped */
    QUERY_GOR_MORE,      /* more bytes are needed */
    QUERY_GOR_END        /* nothing left */
};

/* Take the next record off the front of `rest`. `last`: no bytes will follow. */
enum query_gor_found query_gor_next(kv_slice *rest, bool last, struct query_gor_record *out);

/* Append a record with its separator. */
void query_gor_write(struct query_buffer *out, const struct query_gor_record *record);

#endif /* ABCI_QUERY_GOR_H */
