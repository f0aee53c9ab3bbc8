/* state.c - a state behind the service: paths, codes, proofs, heights. */
#include "test/abci_query/echo.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct fixture {
    kv_options *options;
    kv_db *db;
    state *state;
    struct query_service service;
    struct query_http_conn conn;
    struct query_buffer in, out;
    json_t *answer;
};

static void must(kv_code code, const kv_status *status)
{
    cr_assert_eq(code, KV_OK, "%s", status->message);
}

static void put(struct fixture *fixture, const char *map, kv_slice key, kv_slice value)
{
    kv_status status = KV_STATUS_INIT;
    vmap *handle;
    must(state_map_open(fixture->state, map, KV_CREATE, &handle, &status), &status);
    must(vmap_put(handle, key, value, &status), &status);
}

static void commit(struct fixture *fixture)
{
    kv_status status = KV_STATUS_INIT;
    uint64_t version;
    must(state_commit(fixture->state, 0, &version, &status), &status);
}

static void start(struct fixture *fixture, const char *keep)
{
    static const kv_option_table *const tables[] = { &state_option_table, &query_option_table,
                                                     NULL };
    static const struct query_chain chain = { "chain", "m", "tcp://h:1", 0, { NULL, 0 } };
    static query_app app;
    struct query_http_limits http = { 65536, 256, 1000000, 1 << 20 };
    struct query_rpc_limits rpc = { 1000000, 10, 128, 32 << 20 };
    kv_status status = KV_STATUS_INIT;
    *fixture = (struct fixture){ 0 };
    must(kv_options_new("memory", "", tables, &fixture->options, &status), &status);
    must(kv_options_set(fixture->options, "vmap.keep_recent", keep, &status), &status);
    must(kv_open(fixture->options, KV_CREATE, &fixture->db, &status), &status);
    must(state_open(fixture->db, fixture->options, KV_CREATE, &fixture->state, &status),
         &status);
    app = query_app_of_state(fixture->state);
    must(query_service_init(&fixture->service, &app, &chain, 1 << 20, &http, &rpc, &status),
         &status);
    query_http_conn_init(&fixture->conn, &fixture->service.http, NULL);
}

static void stop(struct fixture *fixture)
{
    kv_status status = KV_STATUS_INIT;
    json_decref(fixture->answer);
    query_http_conn_clear(&fixture->conn);
    query_service_clear(&fixture->service);
    must(state_close(fixture->state, &status), &status);
    must(kv_close(fixture->db, &status), &status);
    kv_options_free(fixture->options);
    query_buffer_clear(&fixture->in);
    query_buffer_clear(&fixture->out);
}

/* POST a body; the parsed answer, which lasts until the next. */
static json_t *post(struct fixture *fixture, const char *body)
{
    struct query_buffer *in = &fixture->in, *out = &fixture->out;
    in->size = out->size = 0;
    query_buffer_format(in, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                        strlen(body));
    query_buffer_text(in, body);
    query_http_feed(&fixture->conn, in->data, in->size, out);
    query_buffer_add(out, "", 1);
    json_decref(fixture->answer);
    fixture->answer = json_loads(strstr(out->data, "\r\n\r\n") + 4, 0, NULL);
    cr_assert_not_null(fixture->answer, "%s", out->data);
    return fixture->answer;
}

/* abci_query; its response object. */
static json_t *query(struct fixture *fixture, const char *path, const char *hex,
                     long long height, bool prove)
{
    struct query_buffer body = QUERY_BUFFER_INIT;
    query_buffer_format(&body,
                        "{\"id\":1,\"method\":\"abci_query\",\"params\":{\"path\":\"%s\","
                        "\"height\":\"%lld\",\"prove\":%s,\"data\":\"",
                        path, height, prove ? "true" : "false");
    query_buffer_text(&body, hex);
    query_buffer_add(&body, "\"}}", 4);
    json_t *response =
        json_object_get(json_object_get(post(fixture, body.data), "result"), "response");
    cr_assert_not_null(response, "%s", fixture->out.data);
    query_buffer_clear(&body);
    return response;
}

static const char *text(json_t *response, const char *name)
{
    const char *value = json_string_value(json_object_get(response, name));
    return value == NULL ? "(null)" : value;
}

static int code(json_t *response)
{
    return (int)json_integer_value(json_object_get(response, "code"));
}

/* ---- Paths and codes ---------------------------------------------------- */

static const struct refusal {
    const char *path, *hex;
    int code;
    const char *codespace, *log;
} refusals[] = {
    { "", "61", 6, "sdk", "unknown query path: unknown request" },
    { "/custom/x", "61", 6, "sdk", "unknown query path: unknown request" },
    { "/cosmos.tx.v1beta1.Service/BroadcastTx", "61", 6, "sdk",
      "unknown query path: unknown request" },
    { "/store", "61", 4, "store", "invalid path: /store: unknown request" },
    { "/store/bank", "61", 4, "store", "invalid path: /store/bank: unknown request" },
    { "/store/nope/key", "61", 4, "store", "no such store: nope: unknown request" },
    { "/store//key", "61", 4, "store", "no such store: : unknown request" },
    { "/store/bank/key/x", "61", 4, "store", "unexpected query path: /key/x: unknown request" },
    { "/store/bank/x", "61", 4, "store", "unexpected query path: /x: unknown request" },
    { "/store/bank/", "61", 4, "store", "unexpected query path: /: unknown request" },
    { "/store/bank/key", "", 3, "store", "query cannot be zero length: tx parse error" },
    { "/store/bank/subspace", "", 3, "store", "query cannot be zero length: tx parse error" },
    { "/app", "", 6, "sdk",
      "expected second parameter to be either 'simulate' or 'version', neither was present: "
      "unknown request" },
    { "/app/x", "", 6, "sdk", "unknown query: [app x]: unknown request" },
    { "/app/simulate", "00", 18, "sdk",
      "there are no transactions here to simulate: invalid request" },
    { "/p2p/filter/addr", "", 6, "sdk",
      "path should be p2p filter <addr|id> <parameter>: unknown request" },
    { "/p2p/other/addr/x", "", 6, "sdk",
      "expected second parameter to be 'filter': unknown request" },
};

Test(state, refusals_say_what_the_sdk_says)
{
    struct fixture fixture;
    start(&fixture, "10");
    put(&fixture, "bank", kv_text("a"), kv_text("1"));
    commit(&fixture);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
        for (int prove = 0; prove < 2; prove++) {
            json_t *response =
                query(&fixture, refusals[i].path, refusals[i].hex, 0, prove == 1);
            cr_expect_eq(code(response), refusals[i].code, "%s", refusals[i].path);
            cr_expect_str_eq(text(response, "codespace"), refusals[i].codespace, "%s",
                             refusals[i].path);
            cr_expect_str_eq(text(response, "log"), refusals[i].log);
            cr_expect(json_is_null(json_object_get(response, "value")));
            cr_expect(json_is_null(json_object_get(response, "proofOps")));
        }
    json_t *version = query(&fixture, "/app/version", "", 5, false);
    cr_expect_eq(code(version), 0);
    cr_expect_str_eq(text(version, "codespace"), "sdk");
    cr_expect_str_eq(text(version, "height"), "5");
    cr_expect_eq(code(query(&fixture, "/p2p/filter/id/abc", "", 0, false)), 0);
    stop(&fixture);
}

Test(state, with_and_without_the_first_slash)
{
    struct fixture fixture;
    start(&fixture, "10");
    put(&fixture, "ibc", kv_text("abc"), kv_text("def"));
    commit(&fixture);
    for (int slash = 0; slash < 2; slash++) {
        json_t *response =
            query(&fixture, slash ? "/store/ibc/key" : "store/ibc/key", "616263", 0, false);
        cr_expect_str_eq(text(response, "value"), "ZGVm");
        cr_expect_str_eq(text(response, "key"), "YWJj");
        cr_expect_str_eq(text(response, "height"), "1");
    }
    json_t *pairs = query(&fixture, "/store/ibc/subspace", "61", 0, false);
    cr_expect_str_eq(text(pairs, "value"), "CgoKA2FiYxIDZGVm"); /* 0a 0a 0a 03 abc 12 03 def */
    pairs = query(&fixture, "/store/ibc/subspace", "62", 0, true);
    cr_expect_str_eq(text(pairs, "value"), "");
    cr_expect(json_is_null(json_object_get(pairs, "proofOps")));
    stop(&fixture);
}

/* ---- Heights ------------------------------------------------------------ */

Test(state, heights_that_are_kept_pruned_and_to_come)
{
    struct fixture fixture;
    start(&fixture, "3");
    for (int version = 1; version <= 6; version++) {
        char value[16];
        snprintf(value, sizeof(value), "v%d", version);
        put(&fixture, "bank", kv_text("a"), kv_text(value));
        commit(&fixture);
    }
    kv_status status = KV_STATUS_INIT;
    must(state_prune(fixture.state, 3, &status), &status);
    cr_assert_eq(state_version_oldest(fixture.state), 4);
    static const char *const values[] = { "djQ=", "djU=", "djY=" };
    for (int prove = 0; prove < 2; prove++)
        for (long long height = 4; height <= 6; height++) {
            json_t *response = query(&fixture, "/store/bank/key", "61", height, prove == 1);
            cr_expect_eq(code(response), 0);
            cr_expect_str_eq(text(response, "value"), values[height - 4]);
            cr_expect_eq(json_is_null(json_object_get(response, "proofOps")), prove == 0);
        }
    static const struct {
        long long height;
        const char *log;
    } bad[] = {
        { 3, "height 3 is no longer kept: heights 4 to 6 can be queried: invalid height" },
        { 7, "height 7 is in the future: heights 4 to 6 can be queried: invalid height" },
        { INT64_MAX,
          "height 9223372036854775807 is in the future: heights 4 to 6 can be queried: "
          "invalid height" },
        { -1, "cannot query with height < 0; please provide a valid height: invalid height" },
    };
    for (size_t i = 0; i < 4; i++) {
        json_t *response = query(&fixture, "/store/bank/key", "61", bad[i].height, i % 2 == 1);
        cr_expect_eq(code(response), 26);
        cr_expect_str_eq(text(response, "log"), bad[i].log);
    }
    stop(&fixture);
}

Test(state, headers_carry_the_app_hash_of_the_version_before)
{
    struct fixture fixture;
    start(&fixture, "3");
    json_t *status =
        json_object_get(post(&fixture, "{\"id\":1,\"method\":\"status\"}"), "result");
    cr_expect_str_eq(text(json_object_get(status, "sync_info"), "latest_block_height"), "1",
                     "before the first commit");
    char hashes[5][65];
    for (int version = 1; version <= 5; version++) {
        char value[16];
        snprintf(value, sizeof(value), "v%d", version);
        put(&fixture, "bank", kv_text("a"), kv_text(value));
        commit(&fixture);
        vmap_digest hash = state_app_hash(fixture.state);
        for (size_t i = 0; i < 32; i++)
            snprintf(hashes[version - 1] + 2 * i, 3, "%02X", hash.bytes[i]);
    }
    kv_status prune = KV_STATUS_INIT;
    must(state_prune(fixture.state, 3, &prune), &prune);
    json_t *sync = json_object_get(
        json_object_get(post(&fixture, "{\"id\":1,\"method\":\"status\"}"), "result"),
        "sync_info");
    cr_expect_str_eq(text(sync, "latest_block_height"), "6");
    cr_expect_str_eq(text(sync, "latest_app_hash"), hashes[4]);
    cr_expect_str_eq(text(sync, "earliest_block_height"), "4");
    cr_expect_str_eq(text(sync, "earliest_app_hash"), hashes[2]);
    json_t *header = json_object_get(
        json_object_get(
            post(&fixture, "{\"id\":1,\"method\":\"header\",\"params\":{\"height\":\"5\"}}"),
            "result"),
        "header");
    cr_expect_str_eq(text(header, "app_hash"), hashes[3]);
    static const struct {
        const char *height, *data;
    } bad[] = {
        { "0", "height must be greater than 0, but got 0" },
        { "-3", "height must be greater than 0, but got -3" },
        { "7", "height 7 must be less than or equal to the current blockchain height 6" },
        { "3", "height 3 is not available, lowest height is 4" },
    };
    for (size_t i = 0; i < 4; i++) {
        char body[128];
        snprintf(body, sizeof(body), "{\"id\":1,\"method\":\"header\",\"params\":[\"%s\"]}",
                 bad[i].height);
        json_t *error = json_object_get(post(&fixture, body), "error");
        cr_expect_str_eq(text(error, "data"), bad[i].data);
    }
    json_t *chain = json_object_get(
        post(&fixture, "{\"id\":1,\"method\":\"blockchain\",\"params\":[\"1\",\"0\"]}"),
        "result");
    cr_expect_str_eq(text(chain, "last_height"), "6");
    json_t *metas = json_object_get(chain, "block_metas");
    cr_assert_eq(json_array_size(metas), 3);
    for (size_t i = 0; i < 3; i++)
        cr_expect_str_eq(text(json_object_get(json_array_get(metas, i), "header"), "app_hash"),
                         hashes[4 - i]);
    json_t *error = json_object_get(
        post(&fixture, "{\"id\":1,\"method\":\"blockchain\",\"params\":[\"6\",\"5\"]}"),
        "error");
    cr_expect_str_eq(text(error, "data"), "min height 6 can't be greater than max height 5");
    stop(&fixture);
}

/* ---- Proofs ------------------------------------------------------------- */

static size_t decode(const char *base64, uint8_t *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    size_t size = 0, count = 0;
    for (; *base64 != '\0' && *base64 != '='; base64++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *base64) - digits);
        if (++count % 4 != 1)
            out[size++] = (uint8_t)(bits >> (6 - 2 * ((count - 1) % 4)));
    }
    return size;
}

/* Verify an answer's proof against the newest app hash. */
static void verify(struct fixture *fixture, json_t *response, const char *map, kv_slice key)
{
    static uint8_t data[2][65536], value[1024];
    json_t *ops = json_object_get(json_object_get(response, "proofOps"), "ops");
    vmap_proof proof = VMAP_PROOF_INIT;
    kv_status status = KV_STATUS_INIT;
    proof.count = json_array_size(ops);
    cr_assert(proof.count == 1 || proof.count == 2, "%zu ops", proof.count);
    for (size_t i = 0; i < proof.count; i++) {
        json_t *op = json_array_get(ops, i);
        proof.ops[i].type = text(op, "type");
        proof.ops[i].key = i + 1 == proof.count ? kv_text(map) : key;
        proof.ops[i].data = kv_bytes(data[i], decode(text(op, "data"), data[i]));
    }
    bool present = !json_is_null(json_object_get(response, "value"));
    kv_slice held = kv_bytes(value, present ? decode(text(response, "value"), value) : 0);
    vmap_digest root = state_app_hash(fixture->state);
    must(vmap_proof_verify(&proof, &root, map, key, present ? &held : NULL, &status), &status);
    cr_expect_neq(vmap_proof_verify(&proof, &root, map, key, present ? NULL : &held, NULL),
                  KV_OK);
    root.bytes[0] ^= 1;
    cr_expect_neq(vmap_proof_verify(&proof, &root, map, key, present ? &held : NULL, NULL),
                  KV_OK);
}

Test(state, proofs_of_presence_and_absence_in_small_stores)
{
    struct fixture fixture;
    start(&fixture, "10");
    kv_status status = KV_STATUS_INIT;
    vmap *empty;
    must(state_map_open(fixture.state, "empty", KV_CREATE, &empty, &status), &status);
    put(&fixture, "one", kv_text("m"), kv_text("1"));
    put(&fixture, "two", kv_text("f"), kv_text("1"));
    put(&fixture, "two", kv_text("t"), kv_text("2"));
    put(&fixture, "full", kv_text("\xff"), kv_text("1"));
    commit(&fixture);
    static const char *const stores[] = { "empty", "one", "two", "full" };
    static const char *const keys[] = { "a", "f", "m", "p", "t", "z", "\xff", "\xff\xff" };
    for (size_t store = 0; store < 4; store++)
        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
            char path[64], hex[8] = "";
            snprintf(path, sizeof(path), "/store/%s/key", stores[store]);
            for (size_t c = 0; keys[i][c] != '\0'; c++)
                snprintf(hex + 2 * c, 3, "%02x", (unsigned char)keys[i][c]);
            json_t *response = query(&fixture, path, hex, 0, true);
            cr_expect_eq(code(response), 0, "%s %s: %s", path, hex, text(response, "log"));
            verify(&fixture, response, stores[store], kv_text(keys[i]));
        }
    stop(&fixture);
}

Test(state, a_key_of_64_kib_and_one_too_long)
{
    struct fixture fixture;
    start(&fixture, "10");
    put(&fixture, "one", kv_text("m"), kv_text("1"));
    commit(&fixture);
    char *hex = calloc(1, 2 * 70000 + 1);
    memset(hex, 'a', (size_t)2 * VMAP_KEY_SIZE_MAX);
    json_t *response = query(&fixture, "/store/one/key", hex, 0, true);
    cr_expect_eq(code(response), 0, "%s", text(response, "log"));
    cr_expect(json_is_null(json_object_get(response, "value")));
    memset(hex, 'a', 2 * 65536);
    response = query(&fixture, "/store/one/key", hex, 0, true);
    cr_expect_eq(code(response), 18);
    free(hex);
    stop(&fixture);
}

/* ---- The state moves on ------------------------------------------------- */

Test(state, answers_follow_the_state)
{
    struct fixture fixture;
    start(&fixture, "2");
    for (int round = 0; round < 20; round++) {
        char value[16], want[32];
        snprintf(value, sizeof(value), "%03d", round);
        put(&fixture, "bank", kv_text("a"), kv_text(value));
        commit(&fixture);
        struct query_buffer encoded = QUERY_BUFFER_INIT;
        query_buffer_base64(&encoded, kv_text(value));
        query_buffer_add(&encoded, "", 1);
        snprintf(want, sizeof(want), "%d", round + 1);
        for (int again = 0; again < 2; again++) { /* the second from the cache */
            json_t *response = query(&fixture, "/store/bank/key", "61", 0, false);
            cr_expect_str_eq(text(response, "value"), encoded.data);
            cr_expect_str_eq(text(response, "height"), want);
        }
        query_buffer_clear(&encoded);
    }
    const struct query_cache_counts *counts = query_cache_counts(fixture.service.node.cache);
    cr_expect_eq(query_counter_read(&counts->hits), 20);
    cr_expect_eq(query_counter_read(&counts->misses), 20);
    stop(&fixture);
}

/* Rolled back and committed again between two requests: the same version, another value. */
Test(state, answers_follow_a_state_that_went_back)
{
    struct fixture fixture;
    kv_status status = KV_STATUS_INIT;
    start(&fixture, "3");
    put(&fixture, "bank", kv_text("a"), kv_text("one"));
    commit(&fixture);
    put(&fixture, "bank", kv_text("a"), kv_text("two"));
    commit(&fixture);
    json_t *response = query(&fixture, "/store/bank/key", "61", 0, false);
    cr_expect_str_eq(text(response, "value"), "dHdv");
    must(state_load_version(fixture.state, 1, &status), &status);
    put(&fixture, "bank", kv_text("a"), kv_text("too"));
    commit(&fixture);
    response = query(&fixture, "/store/bank/key", "61", 0, false);
    cr_expect_str_eq(text(response, "height"), "2");
    cr_expect_str_eq(text(response, "value"), "dG9v");
    stop(&fixture);
}
