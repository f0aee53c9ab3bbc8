/* learner.c - a learner's life: goal, maps, phases, the switch, figures. */
#include "reconnect/learner.h"

#include "reconnect/settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- One learner to a database ------------------------------------------ */

struct busy {
    struct busy *next;
    kv_db *db;
};

static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static struct busy *busy_list;

static kv_code busy_take(kv_db *db, kv_status *status)
{
    struct busy *mine = malloc(sizeof(*mine));
    if (mine == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a learner");
    pthread_mutex_lock(&busy_lock);
    struct busy *other = busy_list;
    while (other != NULL && other->db != db)
        other = other->next;
    if (other == NULL) {
        *mine = (struct busy){ busy_list, db };
        busy_list = mine;
    }
    pthread_mutex_unlock(&busy_lock);
    if (other == NULL)
        return KV_OK;
    free(mine);
    return kv_fail(status, KV_BUSY, "%s: a reconnect is under way already", kv_db_dir(db));
}

static void busy_release(kv_db *db)
{
    pthread_mutex_lock(&busy_lock);
    struct busy **at = &busy_list;
    while (*at != NULL && (*at)->db != db)
        at = &(*at)->next;
    struct busy *mine = *at;
    if (mine != NULL)
        *at = mine->next;
    pthread_mutex_unlock(&busy_lock);
    free(mine);
}

/* ---- Making and freeing ------------------------------------------------- */

bool learner_pushes(const reconnect_learner *learner)
{
    return learner->goal.traversal >= RECONNECT_LEVEL;
}

static kv_code start_session(reconnect_learner *learner, kv_status *status)
{
    session_config config = { .wants_max = 2 * LEARNER_OPEN_MAX,
                              .peers_max = 4 * RECONNECT_PEERS_MAX,
                              .window_max = LEARNER_OPEN_MAX,
                              .window_bytes_max = 64u << 20,
                              .timeout_max_us = (int64_t)learner->settings.idle_timeout_us,
                              .seed = learner->salt };
    return session_new(&config, &learner->session, status);
}

static kv_code fill(reconnect_learner *learner, kv_status *status)
{
    if (getrandom(learner->nonce, sizeof(learner->nonce), 0) != (ssize_t)sizeof(learner->nonce))
        return kv_fail(status, KV_INTERNAL, "no random numbers for a nonce");
    memcpy(&learner->salt, learner->nonce, sizeof(learner->salt));
    learner->key = calloc(1, sizeof(*learner->key));
    if (learner->key == NULL || pages_new(&learner->pages) != KV_OK)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a learner");
    kv_code code = state_view_open(learner->state, 0, &learner->view, status);
    if (code != KV_OK)
        return code;
    learner->own_app_hash = state_view_app_hash(learner->view);
    code = stage_open(&learner->stage, learner->db, learner->state, status);
    return code == KV_OK ? start_session(learner, status) : code;
}

kv_code reconnect_learner_new(kv_db *db, state *to, const reconnect_settings *settings,
                              const reconnect_goal *goal, reconnect_learner **out,
                              kv_status *status)
{
    *out = NULL;
    kv_code code = reconnect_settings_check(settings, status);
    if (code == KV_OK)
        code = busy_take(db, status);
    if (code != KV_OK)
        return code;
    reconnect_learner *learner = calloc(1, sizeof(*learner));
    if (learner == NULL) {
        busy_release(db);
        return kv_fail(status, KV_NO_MEMORY, "no memory for a learner");
    }
    learner->db = db;
    learner->state = to;
    learner->settings = *settings;
    learner->goal = *goal;
    code = fill(learner, status);
    if (code != KV_OK) {
        reconnect_learner_free(learner);
        return code;
    }
    *out = learner;
    return KV_OK;
}

/* Let go of our own version. */
static void drop_view(reconnect_learner *learner)
{
    for (size_t i = 0; i < learner->map_count; i++) {
        if (learner->maps[i].own != NULL)
            walk_close(learner->maps[i].own);
        free(learner->maps[i].own);
        learner->maps[i].own = NULL;
    }
    state_view_close(learner->view);
    learner->view = NULL;
}

static void drop_maps(reconnect_learner *learner)
{
    for (size_t i = 0; i < learner->map_count; i++) {
        if (learner->maps[i].own != NULL)
            walk_close(learner->maps[i].own);
        free(learner->maps[i].own);
    }
    free(learner->maps);
    learner->maps = NULL;
    learner->map_count = 0;
}

void reconnect_learner_free(reconnect_learner *learner)
{
    if (learner == NULL)
        return;
    diff_clear(learner, 0);
    pushed_free(learner->pushed);
    /* What is verified is worth keeping for the next one. */
    if (learner->stage.batch != NULL && learner->phase != RECONNECT_DONE &&
        stage_flush(&learner->stage, NULL) != KV_OK) {
        /* then it is fetched again */
    }
    drop_maps(learner);
    state_view_close(learner->view);
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++)
        peer_clear(&learner->peers[i]);
    session_free(learner->session);
    stage_close(&learner->stage);
    pages_free(learner->pages);
    free(learner->key);
    busy_release(learner->db);
    free(learner);
}

/* ---- Phases ------------------------------------------------------------- */

void learner_fail(reconnect_learner *learner, kv_code code, const char *why)
{
    if (learner->phase == RECONNECT_FAILED || learner->phase == RECONNECT_DONE)
        return;
    kv_fail(&learner->result, code, "%s", why);
    learner->phase = RECONNECT_FAILED;
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++)
        peer_say_end(&learner->peers[i]);
}

void learner_fetched(reconnect_learner *learner)
{
    learner->phase = RECONNECT_FETCHED;
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        if (learner->peers[i].phase == PEER_SERVING)
            learner->figures.messages_out++;
        peer_say_end(&learner->peers[i]);
    }
}

void learner_starved(reconnect_learner *learner)
{
    if (learner->wait_for_peers)
        return;
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        const struct peer *peer = &learner->peers[i];
        if (peer->phase == PEER_GREETED || peer->phase == PEER_PROVED || peer->exact)
            return;
    }
    kv_status why = KV_STATUS_INIT;
    kv_fail(&why, KV_TOO_OLD, "version %llu: no peer has all of it any more",
            (unsigned long long)learner->goal.version);
    learner_fail(learner, why.code, why.message);
}

reconnect_phase reconnect_learner_phase(const reconnect_learner *learner)
{
    return learner->phase;
}

kv_code reconnect_learner_result(const reconnect_learner *learner, kv_status *status)
{
    if (learner->phase != RECONNECT_FAILED)
        return KV_OK;
    return kv_fail(status, learner->result.code, "%s", learner->result.message);
}

void reconnect_learner_sole_peer(reconnect_learner *learner, bool sole)
{
    learner->sole_peer = sole;
}

void reconnect_learner_discover(reconnect_learner *learner, bool discover)
{
    learner->discover = discover && !learner_pushes(learner);
}

bool reconnect_learner_take_told(reconnect_learner *learner, char out[RECONNECT_PEER_NAME_SIZE])
{
    if (learner->told_taken == learner->told_count)
        return false;
    memcpy(out, learner->told[learner->told_taken++], RECONNECT_PEER_NAME_SIZE);
    return true;
}

void reconnect_learner_wait_for_peers(reconnect_learner *learner, bool wait)
{
    learner->wait_for_peers = wait;
}

/* ---- The goal ----------------------------------------------------------- */

kv_code learner_walk(reconnect_learner *learner, uint32_t number, struct walk **out,
                     kv_status *status)
{
    struct learner_map *map = &learner->maps[number];
    *out = map->own;
    if (map->own != NULL)
        return KV_OK;
    struct walk *walk = malloc(sizeof(*walk));
    if (walk == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to walk map %s", map->name);
    kv_code code = walk_open(walk, learner->view, map->name, status);
    if (code != KV_OK) {
        free(walk);
        return code;
    }
    *out = map->own = walk;
    return KV_OK;
}

static bool same_digest(const vmap_digest *a, const vmap_digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Whether the maps make the app hash, and have names that a state may have. */
static kv_code check_offer(const struct wire_offer *offer, kv_status *status)
{
    if (offer->same)
        return KV_OK;
    char(*names)[STATE_MAP_NAME_SIZE_MAX + 1] = calloc(offer->map_count + 1, sizeof(*names));
    vmap_named_root *roots = calloc(offer->map_count + 1, sizeof(*roots));
    if (names == NULL || roots == NULL) {
        free(names);
        free(roots);
        return kv_fail(status, KV_NO_MEMORY, "no memory for an offer");
    }
    kv_code code = KV_OK;
    for (size_t i = 0; i < offer->map_count && code == KV_OK; i++) {
        const struct wire_map *map = &offer->maps[i];
        const char *bytes = map->name.data;
        for (size_t k = 0; k < map->name.size; k++)
            if (bytes[k] <= 0x20 || bytes[k] > 0x7e || bytes[k] == '/')
                code = kv_fail(status, KV_UNPROVEN, "offers a map of an impossible name");
        memcpy(names[i], bytes, map->name.size);
        roots[i] = (vmap_named_root){ names[i], map->node.digest };
        vmap_digest empty = vmap_empty_root();
        if ((map->node.size == 0) != same_digest(&map->node.digest, &empty))
            code = kv_fail(status, KV_UNPROVEN, "map %s: root and size do not fit", names[i]);
    }
    if (code == KV_OK) {
        vmap_digest app_hash = vmap_app_hash(roots, offer->map_count);
        if (!same_digest(&app_hash, &offer->app_hash))
            code =
                kv_fail(status, KV_UNPROVEN, "version %llu: its maps do not make its app hash",
                        (unsigned long long)offer->version);
    }
    free(names);
    free(roots);
    return code;
}

static bool is_goal(const reconnect_goal *goal, const struct wire_offer *offer)
{
    return (goal->version == 0 || goal->version == offer->version) &&
           (!goal->app_hash_known || same_digest(&goal->app_hash, &offer->app_hash));
}

/* The goal's maps are our own: the peer named none. */
static kv_code take_own_maps(reconnect_learner *learner, kv_status *status)
{
    size_t count;
    const vmap_named_root *maps = state_view_maps(learner->view, &count);
    learner->maps = calloc(count + 1, sizeof(*learner->maps));
    if (learner->maps == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for maps");
    learner->map_count = count;
    for (size_t i = 0; i < count; i++) {
        struct learner_map *map = &learner->maps[i];
        snprintf(map->name, sizeof(map->name), "%s", maps[i].name);
        map->same = true;
        kv_code code = state_view_top(learner->view, map->name, &map->level, &map->node,
                                      &map->page_bits, status);
        if (code != KV_OK)
            return code;
    }
    return KV_OK;
}

static kv_code take_map(reconnect_learner *learner, uint32_t number,
                        const struct wire_map *from, kv_status *status)
{
    struct learner_map *map = &learner->maps[number];
    memcpy(map->name, from->name.data, from->name.size);
    map->level = from->level;
    map->page_bits = from->page_bits;
    map->node = from->node;
    vmap_digest own;
    kv_code code = state_view_root(learner->view, map->name, &own, NULL);
    if (code != KV_OK)
        return code == KV_NOT_FOUND
                   ? KV_OK
                   : kv_fail(status, code, "map %s: its root is lost", map->name);
    map->same = same_digest(&own, &map->node.digest);
    struct walk *walk;
    code = learner_walk(learner, number, &walk, status);
    if (code == KV_OK && walk->node.size > 0 && walk->page_bits != map->page_bits)
        return kv_fail(status, KV_INVALID, "map %s: page_bits is %u here and %u there",
                       map->name, walk->page_bits, map->page_bits);
    return code;
}

/* A map of which we have no pairs is built where it will stay; pushed pages come in no
 * lists that its tree could be made from. */
static kv_code stage_goal_map(reconnect_learner *learner, struct learner_map *map,
                              kv_status *status)
{
    bool wanted = !learner_pushes(learner) && map->node.size > 0 && !map->same &&
                  (map->own == NULL || map->own->node.size == 0);
    kv_code code = stage_map(&learner->stage, kv_text(map->name), &map->stage, status);
    return code == KV_OK
               ? stage_build(&learner->stage, map->stage, wanted, map->page_bits, status)
               : code;
}

static kv_code take_maps(reconnect_learner *learner, const struct wire_offer *offer,
                         kv_status *status)
{
    kv_code code = KV_OK;
    drop_maps(learner);
    if (offer->same) {
        code = take_own_maps(learner, status);
    } else {
        learner->maps = calloc(offer->map_count + 1, sizeof(*learner->maps));
        if (learner->maps == NULL)
            return kv_fail(status, KV_NO_MEMORY, "no memory for maps");
        learner->map_count = offer->map_count;
        for (uint32_t i = 0; i < offer->map_count && code == KV_OK; i++)
            code = take_map(learner, i, &offer->maps[i], status);
    }
    for (size_t i = 0; i < learner->map_count && code == KV_OK; i++)
        code = stage_goal_map(learner, &learner->maps[i], status);
    learner->figures.leaves_total = 0;
    for (size_t i = 0; i < learner->map_count; i++)
        learner->figures.leaves_total += learner->maps[i].node.size;
    return code;
}

/* A goal that we cannot move to, or stand at already. True: nothing to fetch. */
static kv_code compare_goal(reconnect_learner *learner, const struct wire_offer *offer,
                            bool *done, kv_status *status)
{
    uint64_t own = state_view_version(learner->view);
    bool same = same_digest(&offer->app_hash, &learner->own_app_hash);
    *done = offer->version == own && same;
    if (*done || offer->version > own)
        return KV_OK;
    if (offer->version == own)
        return kv_fail(status, KV_CONFLICT,
                       "version %llu: its app hash is another than ours: the chains parted",
                       (unsigned long long)own);
    return kv_fail(status, KV_TOO_OLD, "it offers version %llu, ours is %llu already",
                   (unsigned long long)offer->version, (unsigned long long)own);
}

static kv_code set_goal(reconnect_learner *learner, struct peer *peer,
                        const struct wire_offer *offer, kv_status *status)
{
    bool done;
    kv_code code = compare_goal(learner, offer, &done, status);
    if (code != KV_OK)
        return code;
    learner->goal.version = offer->version;
    learner->goal.app_hash = offer->app_hash;
    learner->goal.app_hash_known = true;
    learner->figures.version = offer->version;
    learner->figures.round_trips = 1;
    if (done) {
        learner_fetched(learner);
        learner->phase = RECONNECT_DONE;
        return KV_OK;
    }
    code = take_maps(learner, offer, status);
    if (code == KV_OK)
        code = stage_goal(&learner->stage, offer->version, &offer->app_hash, status);
    if (code != KV_OK)
        return code;
    learner->goal_set = true;
    return learner_pushes(learner) && !offer->same ? pushed_begin(learner, peer, status)
                                                   : diff_begin(learner, status);
}

/* What the session calls a peer. */
static uint64_t session_name(const struct peer *peer)
{
    uint64_t name;
    vmap_digest digest = vmap_digest_of(kv_text(peer->name));
    memcpy(&name, digest.bytes, sizeof(name));
    return name;
}

kv_code learner_use(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                    const struct wire_offer *offer, kv_status *status)
{
    free(peer->maps);
    peer->maps = calloc(learner->map_count + 1, sizeof(*peer->maps));
    if (peer->maps == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a peer's maps");
    for (size_t i = 0; i < learner->map_count; i++) {
        peer->maps[i] = UINT16_MAX;
        for (size_t k = 0; k < offer->map_count; k++)
            if (kv_compare(kv_text(learner->maps[i].name), offer->maps[k].name) == 0)
                peer->maps[i] = (uint16_t)k;
    }
    session_hello hello = { .rtt_us = now_us - peer->asked_us,
                            .holds_all = peer->exact,
                            .window = learner->sole_peer && learner->told_count == 0
                                          ? LEARNER_OPEN_MAX
                                          : 0 };
    kv_code code = session_join(learner->session, now_us, session_name(peer), &hello,
                                &peer->session_peer, status);
    peer->joined = code == KV_OK;
    return code;
}

kv_code learner_offer(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                      const struct wire_offer *offer, kv_status *status)
{
    kv_code code = check_offer(offer, status);
    if (code != KV_OK)
        return code;
    bool goal = is_goal(&learner->goal, offer);
    if (!learner->goal_set && !goal && learner->goal.version == 0)
        return kv_fail(status, KV_TOO_OLD,
                       "no version with that app hash is offered; there are %llu to %llu",
                       (unsigned long long)offer->oldest, (unsigned long long)offer->newest);
    if (!learner->goal_set && !goal)
        return kv_fail(status, offer->newest < learner->goal.version ? KV_TOO_NEW : KV_TOO_OLD,
                       "version %llu is not offered with that app hash, but %llu to %llu",
                       (unsigned long long)learner->goal.version,
                       (unsigned long long)offer->oldest, (unsigned long long)offer->newest);
    if (!learner->goal_set) {
        code = set_goal(learner, peer, offer, status);
        if (code != KV_OK || learner->phase != RECONNECT_RUNNING)
            return code;
    }
    peer->exact = goal;
    if (learner_pushes(learner) || offer->same)
        return KV_OK;
    return learner_use(learner, now_us, peer, offer, status);
}

kv_code reconnect_learner_retarget(reconnect_learner *learner, int64_t now_us,
                                   const reconnect_goal *goal, kv_status *status)
{
    if (learner_pushes(learner) || goal->traversal >= RECONNECT_LEVEL)
        return kv_fail(status, KV_UNSUPPORTED, "traversal %s cannot change its goal",
                       reconnect_traversal_name(learner->goal.traversal));
    if (learner->phase != RECONNECT_RUNNING && learner->phase != RECONNECT_FETCHED)
        return kv_fail(status, KV_BAD_STATE, "a learner that ended cannot change its goal");
    diff_clear(learner, now_us);
    kv_code code = stage_flush(&learner->stage, status);
    if (code != KV_OK)
        return code;
    learner->stage.found = true;
    learner->goal = *goal;
    learner->goal_set = false;
    learner->phase = RECONNECT_RUNNING;
    learner->figures.leaves_done = 0;
    struct wire_renew renew = { goal->version, goal->app_hash_known, goal->app_hash };
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        struct peer *peer = &learner->peers[i];
        if (peer->joined)
            session_leave(learner->session, now_us, peer->session_peer);
        peer->joined = false;
        if (peer->phase != PEER_SERVING)
            continue;
        wire_put_renew(&peer->out, &renew);
        peer->messages_out++;
        learner->figures.messages_out++;
        peer->renewing++;
        peer->asked_us = peer->heard_us = now_us;
    }
    return KV_OK;
}

/* ---- The switch --------------------------------------------------------- */

kv_code reconnect_learner_switch(reconnect_learner *learner, uint64_t *version,
                                 kv_status *status)
{
    *version = learner->goal.version;
    if (learner->phase == RECONNECT_DONE)
        return KV_OK;
    if (learner->phase != RECONNECT_FETCHED)
        return kv_fail(status, KV_BAD_STATE, "nothing is fetched to switch to");
    struct stage_goal *maps = calloc(learner->map_count + 1, sizeof(*maps));
    if (maps == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for the switch");
    for (size_t i = 0; i < learner->map_count; i++) {
        const struct learner_map *map = &learner->maps[i];
        maps[i] = (struct stage_goal){ map->name, map->level, map->page_bits, map->node };
    }
    drop_view(learner);
    kv_status why = KV_STATUS_INIT;
    kv_code code = stage_switch(&learner->stage, learner->state, *version,
                                &learner->goal.app_hash, maps, learner->map_count, &why);
    free(maps);
    if (code == KV_OK) {
        learner->phase = RECONNECT_DONE;
        return KV_OK;
    }
    learner_fail(learner, code, why.message);
    if (code == KV_UNPROVEN && stage_drop(&learner->stage, NULL) != KV_OK) {
        /* it is compared again before it is used */
    }
    return kv_fail(status, code, "%s", why.message);
}

void reconnect_learner_measure(const reconnect_learner *learner, reconnect_figures *out)
{
    *out = learner->figures;
}

static void label(void *context, uint64_t name, char out[64])
{
    const reconnect_learner *learner = context;
    snprintf(out, 64, "?");
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++)
        if (learner->peers[i].joined && session_name(&learner->peers[i]) == name)
            snprintf(out, 64, "%s", learner->peers[i].name);
}

size_t reconnect_learner_print(reconnect_learner *learner, char *text, size_t size)
{
    if (size > 0)
        text[0] = '\0';
    return learner->session == NULL
               ? 0
               : session_print(learner->session, text, size, label, learner);
}
