/* query_jsonrpc.c - bodies: whatever comes in, what goes out is JSON or nothing. */
#include "test/abci_query/echo.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct echo echo;
    static struct query_json_parser *parser;
    static struct query_buffer body, out;
    struct query_rpc_reply reply;
    struct query_json root;
    if (parser == NULL) {
        echo_start(&echo);
        if (query_json_parser_new(64 << 20, 1024, &parser) != KV_OK)
            abort();
    }
    body.size = out.size = 0;
    query_buffer_add(&body, data, size);
    query_buffer_reserve(&body, 1);
    query_rpc_post(&echo.service.rpc, kv_bytes(body.data, body.size), kv_text("h"), &out,
                   &reply);
    if (out.size > 0 && size > 0 &&
        query_json_parse(parser, kv_bytes(out.data, out.size), &root) != KV_OK)
        abort();
    if (reply.http_status != 200 && reply.http_status != 500)
        abort();
    return 0;
}
