/* query_gor.c - recordings: what is read and written again is the same. */
#include "abci_query/gor.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct query_buffer text = QUERY_BUFFER_INIT;
    struct query_gor_record record, again;
    kv_slice rest = kv_bytes(data, size);
    for (;;) {
        enum query_gor_found found = query_gor_next(&rest, true, &record);
        if (found == QUERY_GOR_END)
            break;
        if (found == QUERY_GOR_MORE)
            abort();
        if (found == QUERY_GOR_MALFORMED)
            continue;
        text.size = 0;
        query_gor_write(&text, &record);
        kv_slice copy = kv_bytes(text.data, text.size);
        if (query_gor_next(&copy, true, &again) != QUERY_GOR_RECORD || copy.size != 0 ||
            again.type != record.type || again.timestamp_ns != record.timestamp_ns ||
            again.latency_ns != record.latency_ns || again.bytes.size != record.bytes.size)
            abort();
    }
    query_buffer_clear(&text);
    return 0;
}
