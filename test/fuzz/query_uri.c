/* query_uri.c - the parameters of a URI, for the method with all types of them. */
#include "test/abci_query/echo.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct echo echo;
    static struct query_json_parser *parser;
    static struct query_buffer out;
    struct query_rpc_reply reply;
    struct query_json root;
    if (parser == NULL) {
        echo_start(&echo);
        if (query_json_parser_new(64 << 20, 1024, &parser) != KV_OK)
            abort();
    }
    out.size = 0;
    if (query_rpc_uri(&echo.service.rpc, kv_text("abci_query"), kv_bytes(data, size), &out,
                      &reply) != KV_OK ||
        query_json_parse(parser, kv_bytes(out.data, out.size), &root) != KV_OK)
        abort();
    return 0;
}
