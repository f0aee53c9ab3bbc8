/* peer.c - the learner's peers: greeting, frames in and out, silence, lies. */
#include "reconnect/learner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENT_KEPT_MAX = 1u << 20 };

unsigned peer_number(const reconnect_learner *learner, const struct peer *peer)
{
    return (unsigned)(peer - learner->peers);
}

static void clear_requests(struct peer *peer)
{
    while (peer->first != NULL) {
        struct request *request = peer->first;
        peer->first = request->next;
        free(request);
    }
    peer->last = &peer->first;
}

void peer_clear(struct peer *peer)
{
    wire_frames_clear(&peer->in);
    wire_out_clear(&peer->out);
    wire_out_clear(&peer->frame);
    clear_requests(peer);
    free(peer->maps);
    peer->maps = NULL;
    peer->sent = 0;
}

static void count_out(reconnect_learner *learner, struct peer *peer)
{
    peer->messages_out++;
    learner->figures.messages_out++;
}

void learner_count_out(reconnect_learner *learner)
{
    learner->figures.messages_out++;
}

void peer_say_hello(reconnect_learner *learner, int64_t now_us, struct peer *peer)
{
    static const enum wire_traversal traversals[] = { [RECONNECT_DIFF] = WIRE_DIFF,
                                                      [RECONNECT_PULL] = WIRE_DIFF,
                                                      [RECONNECT_LEVEL] = WIRE_LEVEL_STRICT,
                                                      [RECONNECT_LEVEL_POLL] = WIRE_LEVEL_POLL,
                                                      [RECONNECT_PUSH] = WIRE_PUSH };
    struct wire_hello hello = { .version_min = WIRE_VERSION,
                                .version_max = WIRE_VERSION,
                                .format = WIRE_FORMAT,
                                .chain = kv_text(learner->settings.chain_id),
                                .traversal = traversals[learner->goal.traversal],
                                .version = learner->goal.version,
                                .wanted_known = learner->goal.app_hash_known,
                                .wanted = learner->goal.app_hash,
                                .peers = learner->discover,
                                .own = learner->own_app_hash };
    memcpy(hello.nonce, learner->nonce, sizeof(hello.nonce));
    wire_put_hello(&peer->out, &hello);
    count_out(learner, peer);
    peer->phase = PEER_GREETED;
    peer->heard_us = peer->asked_us = now_us;
}

void peer_say_end(struct peer *peer)
{
    if (peer->phase != PEER_SERVING)
        return;
    wire_frame_end(&peer->out, wire_frame_begin(&peer->out, WIRE_END));
    peer->messages_out++;
    peer->phase = PEER_ENDING;
}

void peers_check(reconnect_learner *learner, const kv_status *why)
{
    if (learner->phase != RECONNECT_RUNNING || learner->wait_for_peers ||
        learner->told_taken < learner->told_count)
        return;
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        enum peer_phase phase = learner->peers[i].phase;
        if (phase > PEER_UNUSED && phase < PEER_ENDING)
            return;
    }
    kv_status none = KV_STATUS_INIT;
    kv_fail(&none, why->code, "no peer is left: %s", why->message);
    learner_fail(learner, none.code, none.message);
}

void peer_drop(reconnect_learner *learner, int64_t now_us, struct peer *peer, bool lied,
               kv_code code, const char *why)
{
    if (peer->phase == PEER_UNUSED || peer->phase >= PEER_ENDING)
        return;
    kv_status status = KV_STATUS_INIT;
    kv_fail(&status, code, "peer %s: %s", peer->name, why);
    peer->lied = lied;
    peer->phase = PEER_ENDING;
    wire_put_error(&peer->out, code, why);
    if (peer->joined) {
        if (lied)
            session_lie(learner->session, now_us, peer->session_peer);
        else
            session_leave(learner->session, now_us, peer->session_peer);
        peer->joined = false;
    }
    peers_check(learner, &status);
    if (learner->phase != RECONNECT_RUNNING || !lied || peer->told == 0)
        return;
    /* Where pages start is not covered by digests: do without what it told. */
    kv_status own = KV_STATUS_INIT;
    if (diff_restart(learner, now_us, true, &own) != KV_OK)
        learner_fail(learner, own.code, own.message);
}

/* ---- Joining and leaving ------------------------------------------------ */

static struct peer *find_slot(reconnect_learner *learner, const char *name)
{
    struct peer *unused = NULL, *gone = NULL;
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        struct peer *peer = &learner->peers[i];
        if (peer->phase == PEER_UNUSED) {
            unused = unused == NULL ? peer : unused;
            continue;
        }
        if (strcmp(peer->name, name) == 0)
            return peer;
        if (peer->phase == PEER_GONE && !peer->lied)
            gone = peer;
    }
    return unused != NULL ? unused : gone;
}

kv_code reconnect_learner_join(reconnect_learner *learner, int64_t now_us, const char *name,
                               unsigned *out, kv_status *status)
{
    if (learner_pushes(learner))
        for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++)
            if (learner->peers[i].phase != PEER_UNUSED)
                return kv_fail(status, KV_TOO_BIG, "%s: traversal %s takes one peer", name,
                               reconnect_traversal_name(learner->goal.traversal));
    char cut[RECONNECT_PEER_NAME_SIZE];
    snprintf(cut, sizeof(cut), "%s", name);
    struct peer *peer = find_slot(learner, cut);
    if (peer == NULL)
        return kv_fail(status, KV_TOO_BIG, "%s: there are %u peers already, the most allowed",
                       cut, RECONNECT_PEERS_MAX);
    if (peer->lied)
        return kv_fail(status, KV_UNPROVEN, "%s: it has lied and stays out", cut);
    if (peer->phase != PEER_UNUSED && peer->phase != PEER_GONE)
        return kv_fail(status, KV_BUSY, "%s: connected already", cut);

    bool known = strcmp(peer->name, cut) == 0;
    peer_clear(peer);
    if (!known)
        memset(peer, 0, sizeof(*peer));
    memcpy(peer->name, cut, sizeof(cut));
    peer->last = &peer->first;
    peer->told = 0;
    peer->told_peers = false;
    peer->renewing = 0;
    wire_frames_init(&peer->in, WIRE_GREETING_SIZE_MAX);
    peer_say_hello(learner, now_us, peer);
    kv_code code = ahead_ask(learner, peer, status);
    if (code != KV_OK) {
        peer->phase = PEER_GONE;
        return code;
    }
    if (peer->out.failed)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a peer");
    *out = peer_number(learner, peer);
    return KV_OK;
}

void reconnect_learner_leave(reconnect_learner *learner, int64_t now_us, unsigned number,
                             const char *why)
{
    struct peer *peer = &learner->peers[number];
    if (peer->phase == PEER_UNUSED || peer->phase == PEER_GONE)
        return;
    bool working = peer->phase < PEER_ENDING;
    peer->phase = PEER_GONE;
    if (peer->joined)
        session_leave(learner->session, now_us, peer->session_peer);
    peer->joined = false;
    ahead_forget(learner);
    /* Its requests stay until the session has taken its wants back. */
    kv_status status = KV_STATUS_INIT;
    kv_fail(&status, KV_IO, "peer %s: %s", peer->name, why);
    if (working)
        peers_check(learner, &status);
    if (learner->phase == RECONNECT_RUNNING && learner->goal_set && !learner_pushes(learner)) {
        kv_status own = KV_STATUS_INIT;
        if (diff_pump(learner, now_us, &own) != KV_OK)
            learner_fail(learner, own.code, own.message);
    }
}

/* ---- Frames in ---------------------------------------------------------- */

static kv_code hear_challenge(reconnect_learner *learner, struct peer *peer, kv_slice body,
                              kv_status *status)
{
    struct wire_challenge challenge;
    kv_code code = wire_get_challenge(body, &challenge, status);
    if (code != KV_OK)
        return code;
    kv_slice secret = kv_text(learner->settings.secret);
    if (secret.size == 0)
        return kv_fail(status, KV_INVALID, "it asks for a secret: set reconnect.secret");
    uint8_t mac[WIRE_MAC_SIZE];
    wire_mac(secret, "teacher", learner->nonce, challenge.nonce, mac);
    if (!wire_mac_equal(mac, challenge.mac))
        return kv_fail(status, KV_INVALID, "its secret is another one");
    wire_mac(secret, "learner", learner->nonce, challenge.nonce, mac);
    wire_put_proof(&peer->out, mac);
    count_out(learner, peer);
    peer->phase = PEER_PROVED;
    return KV_OK;
}

static kv_code hear_offer(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                          kv_slice body, kv_status *status)
{
    struct wire_offer offer;
    if (learner->settings.secret[0] != '\0' && peer->phase == PEER_GREETED)
        return kv_fail(status, KV_INVALID, "it does not know the secret: none was asked for");
    kv_code code = wire_get_offer(body, &offer, status);
    if (code != KV_OK)
        return code;
    /* What was asked of another version before this one is not answered now. */
    if (peer->renewing > 0)
        clear_requests(peer);
    if (peer->renewing > 0 && --peer->renewing > 0) {
        free(offer.maps); /* the goal moved on since */
        return KV_OK;
    }
    peer->phase = PEER_SERVING;
    peer->same = offer.same;
    peer->version = offer.version;
    peer->in.size_max = (size_t)learner->settings.frame_size_max + 1024;
    code = learner_offer(learner, now_us, peer, &offer, status);
    free(offer.maps);
    if (code != KV_OK || learner->phase != RECONNECT_RUNNING || peer->first == NULL)
        return code;
    /* The session must know of these wants before their answers come. */
    ahead_match(learner, peer);
    return diff_pump(learner, now_us, status);
}

static void told_add(reconnect_learner *learner, kv_slice address)
{
    for (size_t i = 0; i < learner->told_count; i++)
        if (kv_compare(kv_text(learner->told[i]), address) == 0)
            return;
    if (learner->told_count == RECONNECT_PEERS_MAX)
        return;
    char *copy = learner->told[learner->told_count++];
    memset(copy, 0, RECONNECT_PEER_NAME_SIZE);
    memcpy(copy, address.data, address.size);
}

static kv_code hear_peers(reconnect_learner *learner, struct peer *peer, kv_slice body,
                          kv_status *status)
{
    kv_slice addresses[WIRE_PEERS_MAX];
    size_t count;
    kv_code code = wire_get_peers(body, addresses, &count, status);
    if (code != KV_OK)
        return code;
    peer->told_peers = true;
    for (size_t i = 0; i < count && i < RECONNECT_TOLD_MAX; i++)
        told_add(learner, addresses[i]);
    return KV_OK;
}

static kv_code hear(reconnect_learner *learner, int64_t now_us, struct peer *peer,
                    unsigned type, kv_slice body, kv_status *status)
{
    bool pushes = learner_pushes(learner);
    peer->messages_in++;
    learner->figures.messages_in++;
    if (type == WIRE_CHALLENGE && peer->phase == PEER_GREETED)
        return hear_challenge(learner, peer, body, status);
    if (type == WIRE_OFFER && (peer->phase == PEER_GREETED || peer->phase == PEER_PROVED ||
                               (peer->phase == PEER_SERVING && peer->renewing > 0)))
        return hear_offer(learner, now_us, peer, body, status);
    bool let_in = learner->settings.secret[0] == '\0' ? peer->phase == PEER_GREETED
                                                      : peer->phase == PEER_PROVED;
    if (type == WIRE_PEERS && let_in && learner->discover && !peer->told_peers)
        return hear_peers(learner, peer, body, status);
    if (type == WIRE_GOT && peer->phase == PEER_SERVING && !pushes)
        return diff_got(learner, now_us, peer, body, status);
    if (type >= WIRE_PAGE && type <= WIRE_KEEP && peer->phase == PEER_SERVING && pushes)
        return pushed_lesson(learner, peer, type, body, status);
    if (type == WIRE_END && peer->phase == PEER_SERVING && pushes)
        return pushed_lesson(learner, peer, type, body, status);
    if (type == WIRE_ERROR) {
        kv_code code = wire_get_error(body, "it", status);
        return code == KV_UNPROVEN ? KV_UNPROVEN : KV_IO;
    }
    return kv_fail(status, KV_UNPROVEN, "%s frame out of place", wire_type_name(type));
}

/* Faults that are ours, whatever the peer sent. */
static bool is_own(kv_code code, unsigned type)
{
    return type != WIRE_ERROR &&
           (code == KV_NO_MEMORY || code == KV_IO || code == KV_NO_SPACE ||
            code == KV_READ_ONLY || code == KV_CORRUPT || code == KV_INTERNAL ||
            code == KV_BAD_STATE);
}

/* A list said wrongly where a page starts: do without its teller, and begin
 * anew with what is proven. */
static kv_code mend(reconnect_learner *learner, int64_t now_us, kv_status *status)
{
    learner->misled = false;
    if (learner->misled_by == LEARNER_NO_PEER)
        return diff_restart(learner, now_us, true, status);
    struct peer *liar = &learner->peers[learner->misled_by];
    if (liar->phase >= PEER_ENDING)
        return diff_restart(learner, now_us, true, status);
    peer_drop(learner, now_us, liar, true, KV_UNPROVEN,
              "a page is not where the list above it said");
    return KV_OK;
}

bool reconnect_learner_input(reconnect_learner *learner, int64_t now_us, unsigned number,
                             kv_slice bytes, kv_status *status)
{
    struct peer *peer = &learner->peers[number];
    kv_status why = KV_STATUS_INIT;
    unsigned type = WIRE_END;
    if (peer->phase == PEER_UNUSED || peer->phase >= PEER_ENDING ||
        learner->phase != RECONNECT_RUNNING)
        return peer->phase != PEER_GONE;
    peer->heard_us = now_us;
    peer->bytes_in += bytes.size;
    learner->figures.bytes_in += bytes.size;
    kv_code code = wire_frames_add(&peer->in, bytes);
    while (code == KV_OK && learner->phase == RECONNECT_RUNNING && peer->phase < PEER_ENDING) {
        kv_slice body;
        code = wire_frames_next(&peer->in, &type, &body, &why);
        if (code == KV_OK)
            code = hear(learner, now_us, peer, type, body, &why);
    }
    if (code == KV_NOT_FOUND)
        code = KV_OK;
    if (code == KV_OK && learner->misled && learner->phase == RECONNECT_RUNNING) {
        type = WIRE_END;
        code = mend(learner, now_us, &why);
    }
    if (code == KV_OK && learner->phase == RECONNECT_RUNNING && learner->goal_set &&
        !learner_pushes(learner)) {
        type = WIRE_END;
        code = diff_pump(learner, now_us, &why);
    }
    if (code == KV_OK)
        return peer->phase < PEER_ENDING;

    if (is_own(code, type))
        learner_fail(learner, code, why.message);
    else
        peer_drop(learner, now_us, peer, code == KV_UNPROVEN || code == KV_TOO_BIG, code,
                  why.message);
    if (status != NULL)
        kv_fail(status, code, "peer %s: %s", peer->name, why.message);
    return peer->phase < PEER_ENDING;
}

/* ---- Frames out --------------------------------------------------------- */

kv_slice reconnect_learner_output(reconnect_learner *learner, int64_t now_us, unsigned number)
{
    struct peer *peer = &learner->peers[number];
    if (peer->phase == PEER_UNUSED || peer->phase == PEER_GONE)
        return kv_bytes(NULL, 0);
    if (peer->out.size == 0 && peer->phase == PEER_SERVING && learner->goal_set &&
        learner->phase == RECONNECT_RUNNING && !learner_pushes(learner)) {
        kv_status why = KV_STATUS_INIT;
        if (diff_pump(learner, now_us, &why) != KV_OK)
            learner_fail(learner, why.code, why.message);
    }
    if (peer->out.failed) {
        learner_fail(learner, KV_NO_MEMORY, "no memory for what to send");
        return kv_bytes(NULL, 0);
    }
    return kv_bytes(peer->out.size == 0 ? NULL : peer->out.data + peer->sent,
                    peer->out.size - peer->sent);
}

void reconnect_learner_sent(reconnect_learner *learner, unsigned number, size_t size)
{
    struct peer *peer = &learner->peers[number];
    peer->sent += size;
    peer->bytes_out += size;
    learner->figures.bytes_out += size;
    if (peer->sent == peer->out.size || peer->sent > SENT_KEPT_MAX) {
        wire_out_drop(&peer->out, peer->sent);
        peer->sent = 0;
    }
}

bool reconnect_learner_peer_live(const reconnect_learner *learner, unsigned number)
{
    enum peer_phase phase = learner->peers[number].phase;
    return phase > PEER_UNUSED && phase < PEER_ENDING;
}

void reconnect_learner_tick(reconnect_learner *learner, int64_t now_us)
{
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        struct peer *peer = &learner->peers[i];
        if (learner->phase != RECONNECT_RUNNING || !reconnect_learner_peer_live(learner, i))
            continue;
        bool waiting = peer->phase < PEER_SERVING || peer->first != NULL ||
                       learner_pushes(learner) || peer->renewing > 0;
        if (waiting && now_us - peer->heard_us > (int64_t)learner->settings.idle_timeout_us)
            peer_drop(learner, now_us, peer, false, KV_TIMEOUT, "silent for too long");
    }
    if (learner->phase != RECONNECT_RUNNING || !learner->goal_set || learner_pushes(learner))
        return;
    kv_status why = KV_STATUS_INIT;
    if (diff_pump(learner, now_us, &why) != KV_OK)
        learner_fail(learner, why.code, why.message);
}

int64_t reconnect_learner_wake_us(const reconnect_learner *learner)
{
    int64_t wake = learner->session == NULL ? INT64_MAX : session_wake_us(learner->session);
    for (unsigned i = 0; i < RECONNECT_PEERS_MAX; i++) {
        if (!reconnect_learner_peer_live(learner, i))
            continue;
        int64_t silent =
            learner->peers[i].heard_us + (int64_t)learner->settings.idle_timeout_us + 1;
        wake = wake < silent ? wake : silent;
    }
    return wake;
}

bool reconnect_learner_measure_peer(const reconnect_learner *learner, unsigned number,
                                    reconnect_peer_figures *out)
{
    if (number >= RECONNECT_PEERS_MAX || learner->peers[number].phase == PEER_UNUSED)
        return false;
    const struct peer *peer = &learner->peers[number];
    *out = (reconnect_peer_figures){ .live = peer->phase < PEER_ENDING,
                                     .lied = peer->lied,
                                     .bytes_in = peer->bytes_in,
                                     .bytes_out = peer->bytes_out,
                                     .messages_in = peer->messages_in,
                                     .messages_out = peer->messages_out,
                                     .blocks = peer->blocks,
                                     .duplicate_blocks = peer->duplicate_blocks,
                                     .duplicate_bytes = peer->duplicate_bytes,
                                     .version = peer->version };
    memcpy(out->name, peer->name, sizeof(out->name));
    return true;
}
