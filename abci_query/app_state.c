/*
 * app_state.c - a state as an application: the paths of the Cosmos SDK's
 * multistore, with its codes, codespaces and logs.
 */
#include "abci_query/buffer.h"
#include "abci_query/query.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_PARTS_MAX = 5, PAIRS_SIZE_MAX = 8 << 20 };

/* Codes of the SDK (v0.50): codespace "sdk", then codespace "store". */
enum {
    SDK_UNKNOWN_REQUEST = 6,
    SDK_INVALID_REQUEST = 18,
    SDK_INVALID_HEIGHT = 26,
    STORE_TX_PARSE = 3,
    STORE_UNKNOWN_REQUEST = 4
};

/* A thread's session: a view that moves on with the state. */
struct session {
    state *state;
    state_view *view; /* NULL until the first use, and after a failure */
    vmap_digest app_hash;
};

struct path {
    size_t count; /* PATH_PARTS_MAX + 1: more than that */
    kv_slice parts[PATH_PARTS_MAX];
};

static kv_code session_open(void *context, void **out, kv_status *status)
{
    struct session *session = calloc(1, sizeof(*session));
    *out = session;
    if (session == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a session");
    session->state = context;
    return KV_OK;
}

static void session_close(void *opaque)
{
    struct session *session = opaque;
    if (session->view != NULL)
        state_view_close(session->view);
    free(session);
}

static bool same_digest(vmap_digest a, vmap_digest b)
{
    return memcmp(a.bytes, b.bytes, VMAP_DIGEST_SIZE) == 0;
}

/* Let an outdated view go, also while nobody asks: it would hold up pruning. A state that
 * went back (state_load_version) may come to the same version with other values. */
static bool session_versions(void *opaque, uint64_t *oldest, uint64_t *newest)
{
    struct session *session = opaque;
    *newest = state_version(session->state);
    *oldest = state_version_oldest(session->state);
    if (session->view == NULL)
        return false;
    if (state_view_version(session->view) == *newest &&
        same_digest(state_view_app_hash(session->view), state_app_hash(session->state)))
        return false;
    state_view_close(session->view);
    session->view = NULL;
    return true;
}

/* The view of the newest version. */
static kv_code newest_view(struct session *session, kv_status *status)
{
    if (session->view != NULL)
        return KV_OK;
    return state_view_open(session->state, 0, &session->view, status);
}

static kv_code session_info(void *opaque, query_info *out, kv_status *status)
{
    struct session *session = opaque;
    kv_code code = newest_view(session, status);
    if (code != KV_OK)
        return code;
    session->app_hash = state_view_app_hash(session->view);
    out->data = kv_text("statekv");
    out->version = kv_text(STATEKV_VERSION);
    out->app_version = 1;
    out->height = state_view_version(session->view);
    out->app_hash = kv_bytes(session->app_hash.bytes, VMAP_DIGEST_SIZE);
    return KV_OK;
}

static kv_code session_app_hash(void *opaque, uint64_t version, vmap_digest *out,
                                kv_status *status)
{
    struct session *session = opaque;
    kv_code code = newest_view(session, status);
    if (code != KV_OK)
        return code;
    if (version == state_view_version(session->view)) {
        *out = state_view_app_hash(session->view);
        return KV_OK;
    }
    if (version == 0)
        return kv_fail(status, KV_TOO_OLD, "version 0 is not kept");

    state_view *view;
    code = state_view_open(session->state, version, &view, status);
    if (code != KV_OK)
        return code;
    *out = state_view_app_hash(view);
    state_view_close(view);
    return KV_OK;
}

/* ---- Answers ------------------------------------------------------------ */

static void refuse(query_answer *answer, const char *codespace, uint32_t code,
                   const char *format, ...) KV_PRINTF(4, 5);

/* A code, its codespace and a log; nothing else is told. */
static void refuse(query_answer *answer, const char *codespace, uint32_t code,
                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer->log, sizeof(answer->log), format, arguments);
    va_end(arguments);
    answer->code = code;
    answer->codespace = codespace;
}

enum { SHOWN_MAX = 128 }; /* bytes of a request a log repeats */

static int shown(kv_slice text)
{
    return text.size < SHOWN_MAX ? (int)text.size : SHOWN_MAX;
}

static bool part_is(const struct path *path, size_t index, const char *want)
{
    return index < path->count && path->parts[index].size == strlen(want) &&
           memcmp(path->parts[index].data, want, path->parts[index].size) == 0;
}

/* Split at every slash; one leading slash is dropped. */
static void split(kv_slice text, struct path *out)
{
    const char *at = text.data, *end = at + text.size;
    out->count = 0;
    if (text.size > 0 && *at == '/')
        at++;
    for (;;) {
        const char *slash = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
        size_t size = (size_t)((slash == NULL ? end : slash) - at);
        if (out->count == PATH_PARTS_MAX) {
            out->count++;
            return;
        }
        out->parts[out->count++] = kv_bytes(at, size);
        if (slash == NULL)
            return;
        at = slash + 1;
    }
}

/* ---- Stores ------------------------------------------------------------- */

/* A kv_value that owns bytes from malloc. */
static void free_owner(kv_value *value)
{
    free(value->owner);
}

static kv_code answer_key(state_view *view, const char *map, const query_request *request,
                          query_answer *answer, kv_status *status)
{
    kv_code code =
        request->prove
            ? state_view_prove(view, map, request->data, &answer->value, &answer->proof, status)
            : state_view_get(view, map, request->data, &answer->value, status);
    return code == KV_NOT_FOUND ? KV_OK : code; /* absent: value null, and the proof of it */
}

static void add_varint(struct query_buffer *out, uint64_t number)
{
    uint8_t bytes[10];
    size_t size = 0;
    for (; number >= 0x80; number >>= 7)
        bytes[size++] = (uint8_t)(number | 0x80);
    bytes[size++] = (uint8_t)number;
    query_buffer_add(out, bytes, size);
}

static size_t varint_size(uint64_t number)
{
    size_t size = 1;
    for (; number >= 0x80; number >>= 7)
        size++;
    return size;
}

/* Pairs { repeated Pair pairs = 1 }, Pair { bytes key = 1; bytes value = 2 }. */
static void add_pair(struct query_buffer *out, kv_slice key, kv_slice value)
{
    size_t size = 1 + varint_size(key.size) + key.size;
    if (value.size > 0)
        size += 1 + varint_size(value.size) + value.size;
    query_buffer_literal(out, "\x0a");
    add_varint(out, size);
    query_buffer_literal(out, "\x0a");
    add_varint(out, key.size);
    query_buffer_slice(out, key);
    if (value.size == 0)
        return;
    query_buffer_literal(out, "\x12");
    add_varint(out, value.size);
    query_buffer_slice(out, value);
}

static kv_code answer_subspace(state_view *view, const char *map, const query_request *request,
                               query_answer *answer, kv_status *status)
{
    struct query_buffer pairs = QUERY_BUFFER_INIT;
    vmap_iter *iter = NULL;
    kv_code code;
    bool whole = true;
    void *limit = malloc(request->data.size);
    if (limit == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a prefix");
    kv_range range = kv_range_of_prefix(request->data, limit);
    code = state_view_iter_open(view, map, &range, &iter, status);
    if (code != KV_OK)
        goto out;

    for (bool on = vmap_iter_first(iter); on && whole; on = vmap_iter_next(iter)) {
        add_pair(&pairs, vmap_iter_key(iter), vmap_iter_value(iter));
        whole = pairs.size <= PAIRS_SIZE_MAX;
    }
    code = vmap_iter_status(iter, status);
    if (code == KV_OK && pairs.failed)
        code = kv_fail(status, KV_NO_MEMORY, "no memory for the pairs of a subspace");
    if (code != KV_OK)
        goto out;
    if (!whole) {
        refuse(
            answer, "sdk", SDK_INVALID_REQUEST,
            "the subspace holds more than %d bytes; ask for a longer prefix: invalid request",
            PAIRS_SIZE_MAX);
        goto out;
    }
    answer->value.bytes = kv_bytes(pairs.data == NULL ? "" : pairs.data, pairs.size);
    answer->value.owner = pairs.data;
    answer->value.release = free_owner;
    pairs = (struct query_buffer)QUERY_BUFFER_INIT;

out:
    vmap_iter_close(iter);
    query_buffer_clear(&pairs);
    free(limit);
    return code;
}

/* Ask a view; `parts` are store, name, subpath. */
static kv_code answer_store(state_view *view, const struct path *path,
                            const query_request *request, query_answer *answer,
                            kv_status *status)
{
    char map[STATE_MAP_NAME_SIZE_MAX + 1];
    kv_slice name = path->parts[1];
    vmap_digest root;
    kv_code code = KV_NOT_FOUND;

    if (name.size < sizeof(map) && memchr(name.data, '\0', name.size) == NULL) {
        memcpy(map, name.data, name.size);
        map[name.size] = '\0';
        code = state_view_root(view, map, &root, NULL);
    }
    if (code == KV_NOT_FOUND || code == KV_INVALID) {
        refuse(answer, "store", STORE_UNKNOWN_REQUEST, "no such store: %.*s: unknown request",
               shown(name), (const char *)name.data);
        return KV_OK;
    }
    if (code != KV_OK)
        return kv_fail(status, code, "map %s: %s", map, kv_code_text(code));

    bool key = part_is(path, 2, "key") && path->count == 3;
    bool subspace = part_is(path, 2, "subspace") && path->count == 3;
    if (!key && !subspace) {
        const char *first = path->parts[2].data;
        const char *end = (const char *)request->path.data + request->path.size;
        kv_slice rest = kv_bytes(first, (size_t)(end - first));
        refuse(answer, "store", STORE_UNKNOWN_REQUEST,
               "unexpected query path: /%.*s: unknown request", shown(rest), first);
        return KV_OK;
    }
    if (request->data.size == 0) {
        refuse(answer, "store", STORE_TX_PARSE, "query cannot be zero length: tx parse error");
        return KV_OK;
    }
    if (request->data.size > VMAP_KEY_SIZE_MAX) {
        refuse(answer, "sdk", SDK_INVALID_REQUEST,
               "a key has at most %u bytes, not %zu: invalid request",
               (unsigned)VMAP_KEY_SIZE_MAX, request->data.size);
        return KV_OK;
    }
    answer->height = (int64_t)state_view_version(view);
    answer->key = request->data;
    return key ? answer_key(view, map, request, answer, status)
               : answer_subspace(view, map, request, answer, status);
}

/* Find the version asked for, then ask it. */
static kv_code query_store(struct session *session, const struct path *path,
                           const query_request *request, query_answer *answer,
                           kv_status *status)
{
    state_view *view = NULL;
    kv_status why = KV_STATUS_INIT;
    if (path->count < 3) {
        refuse(answer, "store", STORE_UNKNOWN_REQUEST, "invalid path: %.*s: unknown request",
               shown(request->path), (const char *)request->path.data);
        return KV_OK;
    }
    if (request->height < 0) {
        refuse(answer, "sdk", SDK_INVALID_HEIGHT,
               "cannot query with height < 0; please provide a valid height: invalid height");
        return KV_OK;
    }

    kv_code code = newest_view(session, status);
    if (code != KV_OK)
        return code;
    uint64_t newest = state_view_version(session->view), height = (uint64_t)request->height;
    if (height == 0 || height == newest)
        return answer_store(session->view, path, request, answer, status);

    code = state_view_open(session->state, height, &view, &why);
    if (code == KV_TOO_NEW || code == KV_TOO_OLD) {
        refuse(answer, "sdk", SDK_INVALID_HEIGHT,
               "height %llu is %s: heights %llu to %llu can be queried: invalid height",
               (unsigned long long)height,
               code == KV_TOO_NEW ? "in the future" : "no longer kept",
               (unsigned long long)state_version_oldest(session->state),
               (unsigned long long)newest);
        return KV_OK;
    }
    if (code != KV_OK)
        return kv_fail(status, code, "%s", why.message);
    code = answer_store(view, path, request, answer, status);
    state_view_close(view);
    return code;
}

/* ---- Other paths -------------------------------------------------------- */

static void query_application(const struct path *path, const query_request *request,
                              query_answer *answer)
{
    if (path->count < 2) {
        refuse(answer, "sdk", SDK_UNKNOWN_REQUEST,
               "expected second parameter to be either 'simulate' or 'version', neither was "
               "present: unknown request");
    } else if (part_is(path, 1, "version")) {
        answer->codespace = "sdk";
        answer->height = request->height;
        answer->value.bytes = kv_text(STATEKV_VERSION);
    } else if (part_is(path, 1, "simulate")) {
        refuse(answer, "sdk", SDK_INVALID_REQUEST,
               "there are no transactions here to simulate: invalid request");
    } else {
        kv_slice name = path->parts[1];
        refuse(answer, "sdk", SDK_UNKNOWN_REQUEST, "unknown query: [app %.*s]: unknown request",
               shown(name), (const char *)name.data);
    }
}

/* CometBFT asks these of an application before it takes a peer; any will do. */
static void query_peer(const struct path *path, query_answer *answer)
{
    if (path->count < 4)
        refuse(answer, "sdk", SDK_UNKNOWN_REQUEST,
               "path should be p2p filter <addr|id> <parameter>: unknown request");
    else if (!part_is(path, 1, "filter"))
        refuse(answer, "sdk", SDK_UNKNOWN_REQUEST,
               "expected second parameter to be 'filter': unknown request");
}

static kv_code session_query(void *opaque, const query_request *request, query_answer *answer,
                             kv_status *status)
{
    struct path path;
    split(request->path.data == NULL ? kv_text("") : request->path, &path);
    if (part_is(&path, 0, "store"))
        return query_store(opaque, &path, request, answer, status);
    if (part_is(&path, 0, "app"))
        query_application(&path, request, answer);
    else if (part_is(&path, 0, "p2p"))
        query_peer(&path, answer);
    else
        refuse(answer, "sdk", SDK_UNKNOWN_REQUEST, "unknown query path: unknown request");
    return KV_OK;
}

struct visitor {
    void (*visit)(void *visitor, const kv_stat *stat);
    void *context;
};

/* The state's own figures, under a name that the engine's do not have. A map's are left
 * out: their names are the maps'. */
static void visit_state(void *context, const kv_stat *stat)
{
    const struct visitor *visitor = context;
    char name[64];
    kv_stat named = *stat;
    if (strchr(stat->name, '.') != NULL)
        return;
    snprintf(name, sizeof(name), "state.%s", stat->name);
    named.name = name;
    visitor->visit(visitor->context, &named);
}

static void visit_engine(void *context, const kv_stat *stat)
{
    const struct visitor *visitor = context;
    char name[128];
    kv_stat named = *stat;
    snprintf(name, sizeof(name), "engine.%s", stat->name);
    named.name = name;
    visitor->visit(visitor->context, &named);
}

static void state_figures(void *context, void (*visit)(void *visitor, const kv_stat *stat),
                          void *visitor)
{
    struct visitor both = { visit, visitor };
    kv_code code = kv_stats(state_database(context), visit_engine, &both, NULL);
    if (code == KV_OK)
        code = state_stats(context, visit_state, &both, NULL);
    kv_stat failed = { "figures_failed", NULL, code == KV_OK ? 0 : 1 };
    visit(visitor, &failed);
}

query_app query_app_of_state(state *source)
{
    query_app app = { .context = source,
                      .open = session_open,
                      .close = session_close,
                      .versions = session_versions,
                      .info = session_info,
                      .query = session_query,
                      .app_hash = session_app_hash,
                      .figures = state_figures };
    return app;
}
