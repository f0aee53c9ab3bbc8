/* options.c - the keys of [query]. */
#include "abci_query/query.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define HOUR ((uint64_t)3600 * 1000)

static const kv_option_spec specs[] = {
    { "laddr", KV_OPTION_TEXT, "tcp://127.0.0.1:26657", 0, 0,
      "Addresses to serve, tcp://HOST:PORT or unix://PATH, joined by commas", "rpc.laddr" },
    { "metrics_laddr", KV_OPTION_TEXT, "", 0, 0,
      "Addresses that serve Prometheus figures under /metrics; none by default", NULL },
    { "threads", KV_OPTION_INT, "0", 0, 64,
      "Threads that answer requests; 0 takes one for each core, up to 8", NULL },
    { "max_open_connections", KV_OPTION_INT, "4096", 1, 1000000,
      "Connections at once; more are told 503. Lowered when the process may not open so many "
      "files: 256 are kept for the store",
      "rpc.max_open_connections" },
    { "max_body_size", KV_OPTION_SIZE, "1000000", 1 * KIB, 1 * GIB,
      "Bytes in a request's body or a WebSocket message", "rpc.max_body_bytes" },
    { "max_header_size", KV_OPTION_SIZE, "64KiB", 256, 16 * MIB,
      "Bytes in a request's line and headers", "rpc.max_header_bytes" },
    { "max_header_count", KV_OPTION_INT, "256", 8, 100000, "Headers in a request", NULL },
    { "max_batch_count", KV_OPTION_INT, "10", 0, 1000000,
      "Requests in a JSON-RPC batch; 0 for any number", "rpc.max_request_batch_size" },
    { "max_depth", KV_OPTION_INT, "128", 4, 1024, "Nesting of JSON in a request", NULL },
    { "max_answer_size", KV_OPTION_SIZE, "32MiB", 64 * KIB, 1 * GIB,
      "Bytes in an answer, or in the answers of a batch together", NULL },
    { "header_timeout", KV_OPTION_DURATION, "10s", 10, HOUR,
      "Time for a request's headers to come in, from their first byte", NULL },
    { "body_timeout", KV_OPTION_DURATION, "10s", 10, HOUR,
      "Time for a request's body to come in, from the end of its headers", NULL },
    { "write_timeout", KV_OPTION_DURATION, "10s", 10, HOUR,
      "Time for an answer to be taken, from its first byte", NULL },
    { "idle_timeout", KV_OPTION_DURATION, "60s", 10, 24 * HOUR,
      "Time a connection may rest between requests", NULL },
    { "drain_timeout", KV_OPTION_DURATION, "5s", 0, HOUR,
      "Time that requests in flight get to finish when the server ends", NULL },
    { "gzip_min_size", KV_OPTION_SIZE, "4KiB", 256, 1 * GIB,
      "Answers from this size on are compressed for clients that ask", NULL },
    { "cors_origins", KV_OPTION_TEXT, "", 0, 0,
      "Origins whose web pages may ask, joined by commas, or *; none by default",
      "rpc.cors_allowed_origins" },
    { "cache_size", KV_OPTION_SIZE, "16MiB", 0, 16 * GIB,
      "Memory for answers kept until the next commit; shared out among the threads", NULL },
    { "tls_cert", KV_OPTION_TEXT, "", 0, 0,
      "File with the certificate chain (PEM); with tls_key, tcp addresses speak TLS",
      "rpc.tls_cert_file" },
    { "tls_key", KV_OPTION_TEXT, "", 0, 0, "File with the private key (PEM)",
      "rpc.tls_key_file" },
    { "log_level", KV_OPTION_TEXT, "warn", 0, 0,
      "What is told on standard error, one line an event: none, error, warn, info or debug",
      NULL },
    { "log_format", KV_OPTION_TEXT, "text", 0, 0, "How it is told: text or json", NULL },
    { "record", KV_OPTION_TEXT, "", 0, 0,
      "File that traffic is recorded to in the .gor format; none by default", NULL },
    { "chain_id", KV_OPTION_TEXT, "statekv", 0, 0, "The chain's name, at most 50 bytes", NULL },
    { "moniker", KV_OPTION_TEXT, "statekv", 0, 0, "The node's name", "moniker" },
    { "genesis_file", KV_OPTION_TEXT, "", 0, 0, "A genesis file (JSON) to serve", NULL },
    { "genesis_time", KV_OPTION_INT, "0", 0, (uint64_t)1 << 36,
      "Seconds since 1970 of the genesis; header heights count on from it", NULL },
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

const kv_option_table query_option_table = { "query", specs };
