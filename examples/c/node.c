/*
 * node.c - a process that commits a block every 100 ms, as a validator does, and lets its
 * state be queried in one of two ways.
 *
 *     node rocksdb:data serve tcp://127.0.0.1:26657     it answers by itself
 *     node rocksdb:data checkpoints published           another process answers:
 *                                   statekv serve --db rocksdb:published --checkpoints
 *
 * It prints the height and the app hash of each block, and ends at the end of standard input.
 * docs/embedding.md goes through it.
 */
#include <abci_query/query.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_MS = 100, ACCOUNTS = 100, KEEP = 2 /* checkpoints */ };

struct node {
    kv_options *options;
    kv_db *db;
    state *state;
    query_server *server;    /* NULL: checkpoints are written */
    const char *checkpoints; /* the folder, or NULL */
};

/* Open the state "DRIVER:FOLDER", with the options of all that is used. */
static kv_code open_state(struct node *node, const char *place, kv_status *status)
{
    static const kv_option_table *const tables[] = { &state_option_table, &query_option_table,
                                                     NULL };
    char driver[32];
    const char *colon = strchr(place, ':');
    if (colon == NULL || (size_t)(colon - place) >= sizeof(driver))
        return kv_fail(status, KV_INVALID, "%s is not DRIVER:FOLDER", place);
    snprintf(driver, sizeof(driver), "%.*s", (int)(colon - place), place);
    kv_code code = kv_options_new(driver, colon + 1, tables, &node->options, status);
    if (code == KV_OK)
        code = kv_options_set(node->options, "vmap.keep_recent", "100", status);
    if (code == KV_OK)
        code = kv_open(node->options, KV_CREATE, &node->db, status);
    if (code == KV_OK)
        code = state_open(node->db, node->options, KV_CREATE, &node->state, status);
    return code;
}

/* Threads of the server answer from views: they never hold up a commit. */
static kv_code open_server(struct node *node, const char *address, kv_status *status)
{
    query_app app = query_app_of_state(node->state);
    kv_code code = kv_options_set(node->options, "query.laddr", address, status);
    if (code == KV_OK)
        code = query_server_open(node->options, &app, &node->server, status);
    if (code == KV_OK)
        printf("serving at %s\n", query_server_address(node->server, 0));
    return code;
}

/* A block: every account gets the height as its balance, and "height" tells it. */
static kv_code commit_block(struct node *node, kv_status *status)
{
    vmap *bank;
    uint64_t version = state_version(node->state) + 1;
    char key[32], value[32];
    snprintf(value, sizeof(value), "%" PRIu64, version);
    kv_code code = state_map_open(node->state, "bank", KV_CREATE, &bank, status);
    if (code == KV_OK)
        code = vmap_put(bank, kv_text("height"), kv_text(value), status);
    for (int i = 0; i < ACCOUNTS && code == KV_OK; i++) {
        snprintf(key, sizeof(key), "account/%d", i);
        code = vmap_put(bank, kv_text(key), kv_text(value), status);
    }
    if (code == KV_OK)
        code = state_commit(node->state, KV_SYNC, &version, status);
    if (code != KV_OK)
        return code;

    vmap_digest app_hash = state_app_hash(node->state);
    printf("%" PRIu64 " ", version);
    for (size_t i = 0; i < VMAP_DIGEST_SIZE; i++)
        printf("%02x", app_hash.bytes[i]);
    printf("\n");
    fflush(stdout);
    if (node->checkpoints != NULL)
        return query_checkpoint_write(node->state, node->checkpoints, KEEP, status);
    query_server_notify(node->server); /* subscribers hear of the header at once */
    return KV_OK;
}

static kv_code run(struct node *node, char **argv, kv_status *status)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    char ignored[256];
    kv_code code = open_state(node, argv[1], status);
    if (code == KV_OK && strcmp(argv[2], "serve") == 0)
        code = open_server(node, argv[3], status);
    else if (code == KV_OK)
        node->checkpoints = argv[3];
    while (code == KV_OK) {
        code = commit_block(node, status);
        if (poll(&input, 1, BLOCK_MS) > 0 && read(input.fd, ignored, sizeof(ignored)) <= 0)
            break;
    }
    return code;
}

int main(int argc, char **argv)
{
    struct node node = { 0 };
    kv_status status = KV_STATUS_INIT;
    if (argc != 4 || (strcmp(argv[2], "serve") != 0 && strcmp(argv[2], "checkpoints") != 0)) {
        fprintf(stderr, "node DRIVER:FOLDER serve ADDRESS | checkpoints FOLDER\n");
        return 2;
    }
    kv_code code = run(&node, argv, &status);
    query_server_close(node.server); /* finishes what is in flight; NULL is harmless */
    kv_code closed = state_close(node.state, &status);
    code = code == KV_OK ? closed : code;
    closed = kv_close(node.db, &status);
    code = code == KV_OK ? closed : code;
    kv_options_free(node.options);
    if (code != KV_OK)
        fprintf(stderr, "node: %s: %s\n", kv_code_text(code), status.message);
    return code == KV_OK ? 0 : 1;
}
