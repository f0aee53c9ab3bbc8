/*
 * checkpoints.c - the newest checkpoint of a folder as an application. A thread of its own
 * looks for newer ones, opens them beside the one that is served, and closes that one when
 * the last session has moved on.
 */
#include "abci_query/checkpoint_folder.h"
#include "abci_query/query.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 100 }; /* between two looks at the folder */

/* An open checkpoint. */
struct edition {
    struct edition *next; /* older */
    uint64_t number;
    size_t sessions; /* guarded by the lock */
    kv_db *db;
    state *state;
    query_app app;
};

struct query_checkpoints {
    kv_options *options; /* the caller's; db_dir is ours to change */
    char dir[QUERY_CHECKPOINT_PATH_MAX];
    void (*failed)(void *context, const kv_status *status);
    void *context;
    uint64_t refused;         /* the newest that could not be opened: told of once */
    _Atomic uint64_t newest;  /* editions->number, for a look without the lock */
    pthread_mutex_t lock;     /* guards what follows */
    struct edition *editions; /* newest first */
    pthread_cond_t wake;
    bool stop;
    pthread_t thread;
};

/* A thread's session: a session of the edition it is at. */
struct session {
    query_checkpoints *checkpoints;
    struct edition *edition;
    void *inner;
};

/* ---- Editions ----------------------------------------------------------- */

static void edition_close(struct edition *edition)
{
    if (edition == NULL)
        return;
    /* Nothing is written here and no view is left, so neither can refuse. */
    if (state_close(edition->state, NULL) != KV_OK || kv_close(edition->db, NULL) != KV_OK)
        abort();
    free(edition);
}

static kv_code edition_open(query_checkpoints *checkpoints, uint64_t number,
                            struct edition **out, kv_status *status)
{
    char path[QUERY_CHECKPOINT_PATH_MAX];
    struct edition *edition = calloc(1, sizeof(*edition));
    *out = NULL;
    if (edition == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a checkpoint");
    edition->number = number;
    kv_code code = query_checkpoint_path(checkpoints->dir, number, path, status);
    if (code == KV_OK)
        code = kv_options_set(checkpoints->options, "db_dir", path, status);
    if (code == KV_OK)
        code = kv_open(checkpoints->options, KV_OPEN_READ, &edition->db, status);
    if (code == KV_OK)
        code = state_open(edition->db, checkpoints->options, KV_OPEN_READ, &edition->state,
                          status);
    if (code != KV_OK) {
        edition_close(edition);
        return code;
    }
    edition->app = query_app_of_state(edition->state);
    *out = edition;
    return KV_OK;
}

/* Take the older editions that no session is at out of the list. */
static struct edition *take_idle(query_checkpoints *checkpoints)
{
    struct edition *idle = NULL, **at;
    pthread_mutex_lock(&checkpoints->lock);
    at = checkpoints->editions == NULL ? NULL : &checkpoints->editions->next;
    while (at != NULL && *at != NULL) {
        struct edition *edition = *at;
        if (edition->sessions > 0) {
            at = &edition->next;
            continue;
        }
        *at = edition->next;
        edition->next = idle;
        idle = edition;
    }
    pthread_mutex_unlock(&checkpoints->lock);
    return idle;
}

/* Open the newest checkpoint, unless it is open already. */
static kv_code move_on(query_checkpoints *checkpoints, kv_status *status)
{
    struct edition *edition;
    uint64_t newest;
    kv_code code = query_checkpoint_newest(checkpoints->dir, &newest, status);
    if (code != KV_OK || newest <= atomic_load(&checkpoints->newest))
        return code;
    code = edition_open(checkpoints, newest, &edition, status);
    if (code != KV_OK) {
        /* It may have been removed meanwhile, since there is a newer one. */
        bool told = newest <= checkpoints->refused;
        checkpoints->refused = newest;
        return told ? KV_OK : code;
    }
    pthread_mutex_lock(&checkpoints->lock);
    edition->next = checkpoints->editions;
    checkpoints->editions = edition;
    atomic_store(&checkpoints->newest, newest);
    pthread_mutex_unlock(&checkpoints->lock);
    return KV_OK;
}

/* Rest until the next look; false: it is over. */
static bool rest(query_checkpoints *checkpoints)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)LOOK_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&checkpoints->lock);
    int fault = 0;
    while (!checkpoints->stop && fault == 0)
        fault = pthread_cond_timedwait(&checkpoints->wake, &checkpoints->lock, &until);
    bool on = !checkpoints->stop;
    pthread_mutex_unlock(&checkpoints->lock);
    return on;
}

static void *look_after(void *context)
{
    query_checkpoints *checkpoints = context;
    while (rest(checkpoints)) {
        kv_status status = KV_STATUS_INIT;
        struct edition *next;
        if (move_on(checkpoints, &status) != KV_OK && checkpoints->failed != NULL)
            checkpoints->failed(checkpoints->context, &status);
        for (struct edition *idle = take_idle(checkpoints); idle != NULL; idle = next) {
            next = idle->next;
            edition_close(idle);
        }
    }
    return NULL;
}

/* ---- Sessions ----------------------------------------------------------- */

static void leave(struct session *session)
{
    struct edition *edition = session->edition;
    edition->app.close(session->inner);
    pthread_mutex_lock(&session->checkpoints->lock);
    edition->sessions--;
    pthread_mutex_unlock(&session->checkpoints->lock);
}

/* Go to the newest edition; on failure the session stays where it is. */
static kv_code enter(struct session *session, kv_status *status)
{
    query_checkpoints *checkpoints = session->checkpoints;
    struct session there = { .checkpoints = checkpoints };
    pthread_mutex_lock(&checkpoints->lock);
    there.edition = checkpoints->editions;
    there.edition->sessions++;
    pthread_mutex_unlock(&checkpoints->lock);
    kv_code code = there.edition->app.open(there.edition->app.context, &there.inner, status);
    if (code != KV_OK) {
        pthread_mutex_lock(&checkpoints->lock);
        there.edition->sessions--;
        pthread_mutex_unlock(&checkpoints->lock);
        return code;
    }
    if (session->edition != NULL)
        leave(session);
    *session = there;
    return KV_OK;
}

static kv_code session_open(void *context, void **out, kv_status *status)
{
    struct session *session = calloc(1, sizeof(*session));
    *out = NULL;
    if (session == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a session");
    session->checkpoints = context;
    kv_code code = enter(session, status);
    if (code != KV_OK) {
        free(session);
        return code;
    }
    *out = session;
    return KV_OK;
}

static void session_close(void *opaque)
{
    leave(opaque);
    free(opaque);
}

static bool session_versions(void *opaque, uint64_t *oldest, uint64_t *newest)
{
    struct session *session = opaque;
    bool moved = session->edition->number != atomic_load(&session->checkpoints->newest) &&
                 enter(session, NULL) == KV_OK; /* else the next call tries again */
    return session->edition->app.versions(session->inner, oldest, newest) || moved;
}

static kv_code session_info(void *opaque, query_info *out, kv_status *status)
{
    struct session *session = opaque;
    return session->edition->app.info(session->inner, out, status);
}

static kv_code session_query(void *opaque, const query_request *request, query_answer *answer,
                             kv_status *status)
{
    struct session *session = opaque;
    return session->edition->app.query(session->inner, request, answer, status);
}

static kv_code session_app_hash(void *opaque, uint64_t version, vmap_digest *out,
                                kv_status *status)
{
    struct session *session = opaque;
    return session->edition->app.app_hash(session->inner, version, out, status);
}

static void figures(void *context, void (*visit)(void *visitor, const kv_stat *stat),
                    void *visitor)
{
    query_checkpoints *checkpoints = context;
    pthread_mutex_lock(&checkpoints->lock);
    struct edition *edition = checkpoints->editions;
    edition->sessions++; /* so that it stays open */
    pthread_mutex_unlock(&checkpoints->lock);
    const kv_stat stat = { "checkpoint", NULL, edition->number };
    visit(visitor, &stat);
    edition->app.figures(edition->app.context, visit, visitor);
    pthread_mutex_lock(&checkpoints->lock);
    edition->sessions--;
    pthread_mutex_unlock(&checkpoints->lock);
}

/* ---- Opening ------------------------------------------------------------ */

static kv_code start(query_checkpoints *checkpoints, kv_status *status)
{
    const char *dir = kv_options_dir(checkpoints->options);
    if (snprintf(checkpoints->dir, sizeof(checkpoints->dir), "%s", dir) >=
        (int)sizeof(checkpoints->dir))
        return kv_fail(status, KV_INVALID, "%.64s...: the path is too long", dir);
    kv_code code = move_on(checkpoints, status);
    if (code == KV_OK && checkpoints->editions == NULL)
        code = kv_fail(status, KV_NOT_FOUND,
                       "%s: no checkpoint was written there yet (query_checkpoint_write)",
                       checkpoints->dir);
    if (code != KV_OK)
        return code;
    int fault = pthread_create(&checkpoints->thread, NULL, look_after, checkpoints);
    return fault == 0 ? KV_OK : kv_fail(status, KV_INTERNAL, "thread: %s", strerror(fault));
}

static void end(query_checkpoints *checkpoints)
{
    struct edition *next;
    for (struct edition *edition = checkpoints->editions; edition != NULL; edition = next) {
        next = edition->next;
        edition_close(edition);
    }
    pthread_cond_destroy(&checkpoints->wake);
    pthread_mutex_destroy(&checkpoints->lock);
    free(checkpoints);
}

kv_code query_checkpoints_open(kv_options *options,
                               void (*failed)(void *context, const kv_status *status),
                               void *context, query_checkpoints **out, kv_status *status)
{
    pthread_condattr_t clock;
    query_checkpoints *checkpoints = calloc(1, sizeof(*checkpoints));
    *out = NULL;
    if (checkpoints == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a folder of checkpoints");
    checkpoints->options = options;
    checkpoints->failed = failed;
    checkpoints->context = context;
    pthread_mutex_init(&checkpoints->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&checkpoints->wake, &clock);
    pthread_condattr_destroy(&clock);
    kv_code code = start(checkpoints, status);
    if (code != KV_OK) {
        end(checkpoints);
        return code;
    }
    *out = checkpoints;
    return KV_OK;
}

void query_checkpoints_close(query_checkpoints *checkpoints)
{
    if (checkpoints == NULL)
        return;
    pthread_mutex_lock(&checkpoints->lock);
    checkpoints->stop = true;
    pthread_cond_signal(&checkpoints->wake);
    pthread_mutex_unlock(&checkpoints->lock);
    pthread_join(checkpoints->thread, NULL);
    end(checkpoints);
}

query_app query_app_of_checkpoints(query_checkpoints *checkpoints)
{
    return (query_app){ .context = checkpoints,
                        .open = session_open,
                        .close = session_close,
                        .versions = session_versions,
                        .info = session_info,
                        .query = session_query,
                        .app_hash = session_app_hash,
                        .figures = figures };
}
