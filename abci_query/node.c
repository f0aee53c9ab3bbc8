/* node.c - what each method of a node answers. */
#include "abci_query/node.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BLOCKS_MAX = 20,                  /* headers in one answer of blockchain */
    GENESIS_CHUNK_SIZE = 16 << 20,    /* bytes before base64 */
    GENESIS_WHOLE_SIZE_MAX = 16 << 20 /* longer ones are only served in chunks */
};

#define CONSENSUS_PARAMS                                                           \
    "{\"block\":{\"max_bytes\":\"22020096\",\"max_gas\":\"-1\"},"                  \
    "\"evidence\":{\"max_age_num_blocks\":\"100000\","                             \
    "\"max_age_duration\":\"172800000000000\",\"max_bytes\":\"1048576\"},"         \
    "\"validator\":{\"pub_key_types\":[\"ed25519\"]},\"version\":{\"app\":\"0\"}," \
    "\"abci\":{\"vote_extensions_enable_height\":\"0\"}}"

#define ZEROS_20 "0000000000000000000000000000000000000000"

kv_code query_node_init(struct query_node *node, const query_app *app,
                        const struct query_chain *chain, size_t cache_size, kv_status *status)
{
    *node = (struct query_node){ .app = app, .chain = chain, .moves = 1 };
    if (cache_size > 0) {
        node->cache = query_cache_new(cache_size);
        if (node->cache == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for the cache of answers");
    }
    kv_code code = app->open(app->context, &node->session, status);
    if (code != KV_OK) {
        query_cache_free(node->cache);
        *node = (struct query_node){ 0 };
        return code;
    }
    query_node_refresh(node);
    return KV_OK;
}

void query_node_clear(struct query_node *node)
{
    if (node->app != NULL)
        node->app->close(node->session);
    query_cache_free(node->cache);
    *node = (struct query_node){ 0 };
}

bool query_node_refresh(struct query_node *node)
{
    uint64_t before = node->newest;
    bool moved = node->app->versions(node->session, &node->oldest, &node->newest) ||
                 node->newest != before;
    node->moves += moved ? 1 : 0;
    return moved;
}

/* ---- abci_query and abci_info ------------------------------------------- */

/* `"name":"base64"`, or null where there are no bytes at all. */
static void write_bytes(struct query_buffer *out, kv_slice bytes)
{
    if (bytes.data == NULL) {
        query_buffer_literal(out, "null");
        return;
    }
    query_buffer_literal(out, "\"");
    query_buffer_base64(out, bytes);
    query_buffer_literal(out, "\"");
}

static void write_proof(struct query_buffer *out, const vmap_proof *proof)
{
    if (proof->count == 0) {
        query_buffer_literal(out, "null");
        return;
    }
    for (size_t i = 0; i < proof->count; i++) {
        query_buffer_text(out, i == 0 ? "{\"ops\":[{\"type\":\"" : ",{\"type\":\"");
        query_buffer_text(out, proof->ops[i].type);
        query_buffer_literal(out, "\",\"key\":");
        write_bytes(out, proof->ops[i].key);
        query_buffer_literal(out, ",\"data\":");
        write_bytes(out, proof->ops[i].data);
        query_buffer_literal(out, "}");
    }
    query_buffer_literal(out, "]}");
}

static void write_answer(struct query_buffer *out, const query_answer *answer)
{
    query_buffer_literal(out, "{\"response\":{\"code\":");
    query_buffer_unsigned(out, answer->code);
    query_buffer_literal(out, ",\"log\":");
    query_buffer_json(out, kv_text(answer->log));
    query_buffer_literal(out, ",\"info\":");
    query_buffer_json(out, answer->info);
    query_buffer_literal(out, ",\"index\":\"0\",\"key\":");
    write_bytes(out, answer->key);
    query_buffer_literal(out, ",\"value\":");
    write_bytes(out, answer->value.bytes);
    query_buffer_literal(out, ",\"proofOps\":");
    write_proof(out, &answer->proof);
    query_buffer_literal(out, ",\"height\":\"");
    query_buffer_signed(out, answer->height);
    query_buffer_literal(out, "\",\"codespace\":");
    query_buffer_json(out, kv_text(answer->codespace == NULL ? "" : answer->codespace));
    query_buffer_literal(out, "}}");
}

static kv_code handle_abci_query(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    query_request request = { .path = call->args[0].bytes,
                              .data = call->args[1].bytes,
                              .height = call->args[2].integer,
                              .prove = call->args[3].boolean };
    uint64_t hash = 0;

    query_node_refresh(node);
    if (node->cache != NULL) {
        hash = query_cache_hash(&request);
        kv_slice kept = query_cache_get(node->cache, hash, node->moves, &request);
        if (kept.size > 0) {
            query_buffer_slice(call->out, kept);
            return KV_OK;
        }
    }

    query_answer answer = { 0 };
    size_t start = call->out->size;
    kv_code code = node->app->query(node->session, &request, &answer, status);
    if (code == KV_OK) {
        write_answer(call->out, &answer);
        if (answer.code == 0 && node->cache != NULL && !call->out->failed)
            query_cache_put(node->cache, hash, node->moves, &request,
                            kv_bytes(call->out->data + start, call->out->size - start));
    }
    kv_value_release(&answer.value);
    vmap_proof_clear(&answer.proof);
    return code;
}

static kv_code handle_abci_info(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    struct query_buffer *out = call->out;
    query_info info = { 0 };
    query_node_refresh(node);
    kv_code code = node->app->info(node->session, &info, status);
    if (code != KV_OK)
        return code;

    /* Here, unlike in abci_query, what is zero is left out. */
    query_buffer_literal(out, "{\"response\":{");
    size_t first = out->size;
    if (info.data.size > 0) {
        query_buffer_literal(out, "\"data\":");
        query_buffer_json(out, info.data);
    }
    if (info.version.size > 0) {
        query_buffer_text(out, out->size > first ? ",\"version\":" : "\"version\":");
        query_buffer_json(out, info.version);
    }
    if (info.app_version > 0) {
        query_buffer_text(out,
                          out->size > first ? ",\"app_version\":\"" : "\"app_version\":\"");
        query_buffer_unsigned(out, info.app_version);
        query_buffer_literal(out, "\"");
    }
    if (info.height > 0) {
        query_buffer_text(out, out->size > first ? ",\"last_block_height\":\""
                                                 : "\"last_block_height\":\"");
        query_buffer_unsigned(out, info.height);
        query_buffer_literal(out, "\"");
    }
    if (info.app_hash.size > 0) {
        query_buffer_text(out, out->size > first ? ",\"last_block_app_hash\":"
                                                 : "\"last_block_app_hash\":");
        write_bytes(out, info.app_hash);
    }
    query_buffer_literal(out, "}}");
    return KV_OK;
}

/* ---- The node ----------------------------------------------------------- */

static kv_code handle_health(struct query_rpc_call *call, kv_status *status)
{
    (void)status;
    query_buffer_literal(call->out, "{}");
    return KV_OK;
}

static kv_code handle_net_info(struct query_rpc_call *call, kv_status *status)
{
    (void)status;
    query_buffer_literal(call->out, "{\"listening\":true,\"listeners\":[\"Listener(@)\"],"
                                    "\"n_peers\":\"0\",\"peers\":[]}");
    return KV_OK;
}

/* hash, app hash, height and time of a header, under "latest" or "earliest". */
static kv_code write_sync(struct query_node *node, const char *which, uint64_t height,
                          struct query_buffer *out, kv_status *status)
{
    struct query_buffer header = QUERY_BUFFER_INIT;
    vmap_digest hash, app_hash;
    kv_code code = query_header_write(node, (int64_t)height, &header, &hash, status);
    query_buffer_clear(&header);
    if (code == KV_OK)
        code = node->app->app_hash(node->session, height - 1, &app_hash, status);
    if (code != KV_OK)
        return code;
    query_buffer_format(out, "\"%s_block_hash\":\"", which);
    query_buffer_hex(out, kv_bytes(hash.bytes, VMAP_DIGEST_SIZE));
    query_buffer_format(out, "\",\"%s_app_hash\":\"", which);
    query_buffer_hex(out, kv_bytes(app_hash.bytes, VMAP_DIGEST_SIZE));
    query_buffer_format(out, "\",\"%s_block_height\":\"%llu\",\"%s_block_time\":\"", which,
                        (unsigned long long)height, which);
    query_time_write(out, node->chain->genesis_time + (int64_t)height);
    query_buffer_literal(out, "\",");
    return KV_OK;
}

static kv_code handle_status(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    struct query_buffer *out = call->out;
    vmap_digest id = vmap_digest_of(kv_text(node->chain->chain_id));

    query_node_refresh(node);
    query_buffer_literal(out, "{\"node_info\":{\"protocol_version\":{\"p2p\":\"8\","
                              "\"block\":\"11\",\"app\":\"0\"},\"id\":\"");
    for (size_t i = 0; i < 20; i++)
        query_buffer_format(out, "%02x", id.bytes[i]);
    query_buffer_literal(out, "\",\"listen_addr\":");
    query_buffer_json(out, kv_text(node->chain->listen_addr));
    query_buffer_literal(out, ",\"network\":");
    query_buffer_json(out, kv_text(node->chain->chain_id));
    query_buffer_literal(out, ",\"version\":\"0.38.0\",\"channels\":\"\",\"moniker\":");
    query_buffer_json(out, kv_text(node->chain->moniker));
    query_buffer_literal(out, ",\"other\":{\"tx_index\":\"off\",\"rpc_address\":");
    query_buffer_json(out, kv_text(node->chain->listen_addr));
    query_buffer_literal(out, "}},\"sync_info\":{");
    kv_code code = write_sync(node, "latest", node->newest + 1, out, status);
    if (code == KV_OK)
        code = write_sync(node, "earliest", node->oldest + 1, out, status);
    query_buffer_literal(out, "\"catching_up\":false},\"validator_info\":{\"address\":"
                              "\"" ZEROS_20 "\","
                              "\"pub_key\":{\"type\":\"tendermint/PubKeyEd25519\",\"value\":"
                              "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"},"
                              "\"voting_power\":\"0\"}}");
    return code;
}

/* ---- Blocks ------------------------------------------------------------- */

/* The height asked for, or the newest; asked for, it can be kept for ever. */
static int64_t height_of(struct query_rpc_call *call)
{
    struct query_node *node = call->context;
    query_node_refresh(node);
    if (!call->args[0].given)
        return (int64_t)node->newest + 1;
    call->cacheable = true;
    return call->args[0].integer;
}

static kv_code handle_header(struct query_rpc_call *call, kv_status *status)
{
    int64_t height = height_of(call);
    query_buffer_literal(call->out, "{\"header\":");
    kv_code code = query_header_write(call->context, height, call->out, NULL, status);
    query_buffer_literal(call->out, "}");
    return code;
}

static kv_code handle_consensus_params(struct query_rpc_call *call, kv_status *status)
{
    int64_t height = height_of(call);
    kv_code code = query_header_check(call->context, height, status);
    query_buffer_literal(call->out, "{\"block_height\":\"");
    query_buffer_signed(call->out, height);
    query_buffer_literal(call->out, "\",\"consensus_params\":" CONSENSUS_PARAMS "}");
    return code;
}

static kv_code write_meta(struct query_node *node, int64_t height, struct query_buffer *out,
                          kv_status *status)
{
    struct query_buffer header = QUERY_BUFFER_INIT;
    vmap_digest hash;
    kv_code code = query_header_write(node, height, &header, &hash, status);
    if (code == KV_OK) {
        kv_slice bytes = kv_bytes(hash.bytes, VMAP_DIGEST_SIZE);
        query_buffer_literal(out, "{\"block_id\":{\"hash\":\"");
        query_buffer_hex(out, bytes);
        query_buffer_literal(out, "\",\"parts\":{\"total\":1,\"hash\":\"");
        query_buffer_hex(out, bytes);
        query_buffer_literal(out, "\"}},\"block_size\":\"0\",\"header\":");
        query_buffer_add(out, header.data, header.size);
        query_buffer_literal(out, ",\"num_txs\":\"0\"}");
    }
    query_buffer_clear(&header);
    return code;
}

static kv_code handle_blockchain(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    struct query_buffer *out = call->out;
    int64_t min = call->args[0].integer, max = call->args[1].integer;

    query_node_refresh(node);
    int64_t latest = (int64_t)node->newest + 1, lowest = (int64_t)node->oldest + 1;
    if (min < 0 || max < 0)
        return kv_fail(status, KV_INVALID, "heights must be non-negative");
    if (min == 0)
        min = 1;
    if (max == 0 || max > latest)
        max = latest;
    if (min < lowest)
        min = lowest;
    if (min < max - (BLOCKS_MAX - 1))
        min = max - (BLOCKS_MAX - 1);
    if (min > max)
        return kv_fail(status, KV_INVALID,
                       "min height %lld can't be greater than max height %lld", (long long)min,
                       (long long)max);

    kv_code code = KV_OK;
    query_buffer_literal(out, "{\"last_height\":\"");
    query_buffer_signed(out, latest);
    query_buffer_literal(out, "\",\"block_metas\":[");
    for (int64_t height = max; height >= min && code == KV_OK; height--) {
        query_buffer_text(out, height == max ? "" : ",");
        code = write_meta(node, height, out, status);
    }
    query_buffer_literal(out, "]}"); /* last_height moves on, so this is never cacheable */
    return code;
}

/* ---- Genesis ------------------------------------------------------------ */

/* The genesis in `out`: the file's, or one that says what is known. */
static void write_genesis(const struct query_chain *chain, struct query_buffer *out)
{
    if (chain->genesis.size > 0) {
        query_buffer_slice(out, chain->genesis);
        return;
    }
    query_buffer_literal(out, "{\"genesis_time\":\"");
    query_time_write(out, chain->genesis_time);
    query_buffer_literal(out, "\",\"chain_id\":");
    query_buffer_json(out, kv_text(chain->chain_id));
    query_buffer_literal(out, ",\"initial_height\":\"1\",\"consensus_params\":" CONSENSUS_PARAMS
                              ",\"app_hash\":\"\",\"app_state\":{}}");
}

static kv_code handle_genesis(struct query_rpc_call *call, kv_status *status)
{
    const struct query_node *node = call->context;
    if (node->chain->genesis.size > GENESIS_WHOLE_SIZE_MAX)
        return kv_fail(status, KV_TOO_BIG,
                       "genesis response is large, please use the genesis_chunked API instead");
    query_buffer_literal(call->out, "{\"genesis\":");
    write_genesis(node->chain, call->out);
    query_buffer_literal(call->out, "}");
    call->cacheable = true;
    return KV_OK;
}

static kv_code handle_genesis_chunked(struct query_rpc_call *call, kv_status *status)
{
    const struct query_node *node = call->context;
    struct query_buffer whole = QUERY_BUFFER_INIT;
    struct query_buffer *out = call->out;
    int64_t chunk = call->args[0].integer;
    kv_slice text = node->chain->genesis;
    if (text.size == 0) {
        write_genesis(node->chain, &whole);
        text = kv_bytes(whole.data, whole.size);
    }

    kv_code code = KV_OK;
    int64_t total = (int64_t)((text.size + GENESIS_CHUNK_SIZE - 1) / GENESIS_CHUNK_SIZE);
    if (chunk < 0 || chunk >= total) {
        code = kv_fail(status, KV_INVALID, "there are %lld chunks, %lld is invalid",
                       (long long)total - 1, (long long)chunk);
    } else {
        size_t first = (size_t)chunk * GENESIS_CHUNK_SIZE;
        size_t size = text.size - first;
        query_buffer_format(out, "{\"chunk\":\"%lld\",\"total\":\"%lld\",\"data\":",
                            (long long)chunk, (long long)total);
        write_bytes(out, kv_bytes((const char *)text.data + first,
                                  size < GENESIS_CHUNK_SIZE ? size : GENESIS_CHUNK_SIZE));
        query_buffer_literal(out, "}");
        call->cacheable = true;
    }
    query_buffer_clear(&whole);
    return code;
}

/* ---- Subscriptions ------------------------------------------------------ */

static kv_code handle_subscribe(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    query_buffer_literal(call->out, "{}");
    return node->subscriptions->subscribe(call->connection, call->args[0].bytes,
                                          kv_bytes(call->id, call->id_size), status);
}

static kv_code handle_unsubscribe(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    query_buffer_literal(call->out, "{}");
    return node->subscriptions->unsubscribe(call->connection, call->args[0].bytes, status);
}

static kv_code handle_unsubscribe_all(struct query_rpc_call *call, kv_status *status)
{
    struct query_node *node = call->context;
    query_buffer_literal(call->out, "{}");
    return node->subscriptions->unsubscribe(call->connection, kv_bytes(NULL, 0), status);
}

kv_code query_node_event(struct query_node *node, uint64_t version, kv_slice id, kv_slice query,
                         struct query_buffer *out, kv_status *status)
{
    query_buffer_literal(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    query_buffer_slice(out, id);
    query_buffer_literal(out, ",\"result\":{\"query\":");
    query_buffer_json(out, query);
    query_buffer_literal(out, ",\"data\":{\"type\":\"tendermint/event/NewBlockHeader\","
                              "\"value\":{\"header\":");
    kv_code code = query_header_write(node, (int64_t)version + 1, out, NULL, status);
    query_buffer_literal(out, "}},\"events\":{\"tm.event\":[\"NewBlockHeader\"]}}}");
    return code;
}

/* ---- The table ---------------------------------------------------------- */

#define HEIGHT_ARG                     \
    {                                  \
        {                              \
            "height", QUERY_RPC_HEIGHT \
        }                              \
    }

const struct query_rpc_route query_node_routes[] = {
    { "abci_info", { { NULL, 0 } }, 0, 0, handle_abci_info },
    { "abci_query",
      { { "path", QUERY_RPC_TEXT },
        { "data", QUERY_RPC_BYTES },
        { "height", QUERY_RPC_HEIGHT },
        { "prove", QUERY_RPC_BOOL } },
      4,
      0,
      handle_abci_query },
    { "blockchain",
      { { "minHeight", QUERY_RPC_HEIGHT }, { "maxHeight", QUERY_RPC_HEIGHT } },
      2,
      0,
      handle_blockchain },
    { "consensus_params", HEIGHT_ARG, 1, 0, handle_consensus_params },
    { "genesis", { { NULL, 0 } }, 0, 0, handle_genesis },
    { "genesis_chunked", { { "chunk", QUERY_RPC_HEIGHT } }, 1, 0, handle_genesis_chunked },
    { "header", HEIGHT_ARG, 1, 0, handle_header },
    { "health", { { NULL, 0 } }, 0, 0, handle_health },
    { "net_info", { { NULL, 0 } }, 0, 0, handle_net_info },
    { "status", { { NULL, 0 } }, 0, 0, handle_status },
    { "subscribe",
      { { "query", QUERY_RPC_TEXT } },
      1,
      QUERY_RPC_WEBSOCKET_ONLY,
      handle_subscribe },
    { "unsubscribe",
      { { "query", QUERY_RPC_TEXT } },
      1,
      QUERY_RPC_WEBSOCKET_ONLY,
      handle_unsubscribe },
    { "unsubscribe_all", { { NULL, 0 } }, 0, QUERY_RPC_WEBSOCKET_ONLY, handle_unsubscribe_all },
};
const size_t query_node_route_count = sizeof(query_node_routes) / sizeof(query_node_routes[0]);
