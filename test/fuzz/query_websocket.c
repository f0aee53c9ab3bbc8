/* query_websocket.c - frames after the upgrade. */
#include "test/abci_query/echo.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char upgrade[] =
        "GET /websocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    struct echo echo;
    echo_start(&echo);
    echo_feed(&echo, upgrade);
    if (echo.conn.phase != QUERY_HTTP_SOCKET)
        abort();
    echo.in.size = echo.out.size = 0;
    query_buffer_add(&echo.in, data, size);
    for (size_t at = 0; at < echo.in.size; at++)
        query_http_feed(&echo.conn, echo.in.data + at, 1, &echo.out);
    echo_stop(&echo);
    return 0;
}
