/* teacher.c - a link from HELLO to END: who may ask, which view, what comes next. */
#include "reconnect/teacher.h"

#include "reconnect/push.h"
#include "reconnect/settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

kv_code reconnect_teacher_new(state *from, const reconnect_settings *settings,
                              reconnect_teacher **out, kv_status *status)
{
    *out = NULL;
    kv_code code = reconnect_settings_check(settings, status);
    if (code != KV_OK)
        return code;
    reconnect_teacher *teacher = calloc(1, sizeof(*teacher));
    if (teacher == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a teacher");
    teacher->state = from;
    teacher->settings = *settings;
    teacher->allowance = (double)settings->rate_max;
    *out = teacher;
    return KV_OK;
}

void reconnect_teacher_free(reconnect_teacher *teacher)
{
    if (teacher == NULL)
        return;
    assert(teacher->figures.links_now == 0);
    free(teacher);
}

void reconnect_teacher_measure(const reconnect_teacher *teacher, reconnect_teacher_figures *out)
{
    *out = teacher->figures;
}

kv_code reconnect_link_new(reconnect_teacher *teacher, int64_t now_us, const char *name,
                           reconnect_link **out, kv_status *status)
{
    *out = NULL;
    if (teacher->figures.links_now >= teacher->settings.learners_max)
        return kv_fail(status, KV_BUSY,
                       "%s: %llu learners are served already, the most allowed", name,
                       (unsigned long long)teacher->settings.learners_max);
    reconnect_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for a link");
    link->teacher = teacher;
    snprintf(link->name, sizeof(link->name), "%s", name);
    link->begun_us = link->heard_us = now_us;
    wire_frames_init(&link->in, WIRE_GREETING_SIZE_MAX);
    teacher->figures.links++;
    teacher->figures.links_now++;
    *out = link;
    return KV_OK;
}

/* Let go of the view and all that reads from it. */
static void drop_view(reconnect_link *link)
{
    push_free(link->push);
    link->push = NULL;
    serve_clear(link);
    for (size_t i = 0; i < link->map_count; i++) {
        if (link->walks[i] != NULL)
            walk_close(link->walks[i]);
        free(link->walks[i]);
    }
    free(link->walks);
    link->walks = NULL;
    link->map_count = 0;
    state_view_close(link->view);
    link->view = NULL;
}

static void queue_leave(reconnect_link *link)
{
    reconnect_link **at = &link->teacher->queue;
    if (!link->queued)
        return;
    while (*at != NULL && *at != link)
        at = &(*at)->queue_next;
    if (*at == link)
        *at = link->queue_next;
    link->queued = false;
}

void reconnect_link_free(reconnect_link *link)
{
    if (link == NULL)
        return;
    drop_view(link);
    queue_leave(link);
    link->teacher->figures.links_now--;
    wire_frames_clear(&link->in);
    wire_out_clear(&link->out);
    free(link);
}

kv_code link_walk(reconnect_link *link, unsigned map, struct walk **out, kv_status *status)
{
    *out = link->walks[map];
    if (*out != NULL)
        return KV_OK;
    size_t count;
    const vmap_named_root *maps = state_view_maps(link->view, &count);
    struct walk *walk = malloc(sizeof(*walk));
    if (walk == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory to walk map %s", maps[map].name);
    kv_code code = walk_open(walk, link->view, maps[map].name, status);
    if (code != KV_OK) {
        free(walk);
        return code;
    }
    *out = link->walks[map] = walk;
    return KV_OK;
}

/* ---- Greeting ----------------------------------------------------------- */

/* Open the view asked for, or the newest one where that is not kept: it may
 * hold most of the same pages, and the learner decides. */
static kv_code open_view(reconnect_link *link, kv_status *status)
{
    state *from = link->teacher->state;
    kv_code code = state_view_open(from, link->goal.version, &link->view, NULL);
    if (code == KV_TOO_OLD || code == KV_TOO_NEW)
        code = state_view_open(from, 0, &link->view, status);
    else if (code != KV_OK)
        code = state_view_open(from, link->goal.version, &link->view, status);
    if (code != KV_OK)
        return code;
    state_view_maps(link->view, &link->map_count);
    link->walks = calloc(link->map_count + 1, sizeof(struct walk *));
    if (link->walks == NULL) {
        link->map_count = 0;
        return kv_fail(status, KV_NO_MEMORY, "no memory for a view");
    }
    return KV_OK;
}

static kv_code put_offer(reconnect_link *link, kv_status *status)
{
    kv_code code = open_view(link, status);
    if (code != KV_OK)
        return code;

    struct wire_offer offer = { .version_used = WIRE_VERSION,
                                .oldest = state_version_oldest(link->teacher->state),
                                .newest = state_version(link->teacher->state),
                                .version = state_view_version(link->view),
                                .app_hash = state_view_app_hash(link->view),
                                .map_count = link->map_count };
    offer.same = memcmp(offer.app_hash.bytes, link->learner_own.bytes, VMAP_DIGEST_SIZE) == 0;
    offer.maps = calloc(offer.map_count + 1, sizeof(*offer.maps));
    if (offer.maps == NULL)
        return kv_fail(status, KV_NO_MEMORY, "no memory for an offer");
    size_t count;
    const vmap_named_root *maps = state_view_maps(link->view, &count);
    for (size_t i = 0; i < offer.map_count && code == KV_OK; i++) {
        struct wire_map *map = &offer.maps[i];
        map->name = kv_text(maps[i].name);
        code = state_view_top(link->view, maps[i].name, &map->level, &map->node,
                              &map->page_bits, status);
        map->node.digest = maps[i].root;
    }
    if (code == KV_OK)
        wire_put_offer(&link->out, &offer);
    free(offer.maps);
    return code;
}

/* The learner is let in: tell it of others, then what there is. */
static kv_code begin_serving(reconnect_link *link, kv_status *status)
{
    const reconnect_settings *settings = &link->teacher->settings;
    kv_slice addresses[WIRE_PEERS_MAX];
    size_t count = 0;
    kv_code code = reconnect_settings_peers(settings, addresses, &count, status);
    if (code != KV_OK)
        return code;
    if (link->tell_peers && count > 0)
        wire_put_peers(&link->out, addresses, count);
    link->phase = LINK_SERVING;
    link->in.size_max = (size_t)settings->frame_size_max;
    return put_offer(link, status);
}

static kv_code hear_hello(reconnect_link *link, kv_slice body, kv_status *status)
{
    struct wire_hello hello;
    const reconnect_settings *settings = &link->teacher->settings;
    kv_code code = wire_get_hello(body, &hello, status);
    if (code != KV_OK)
        return code;
    if (hello.version_min > WIRE_VERSION || hello.version_max < WIRE_VERSION)
        return kv_fail(status, KV_UNSUPPORTED, "protocol %u is spoken here, you speak %u to %u",
                       WIRE_VERSION, hello.version_min, hello.version_max);
    if (hello.format != WIRE_FORMAT)
        return kv_fail(status, KV_UNSUPPORTED, "state format %u is kept here, yours is %u",
                       WIRE_FORMAT, hello.format);
    if (kv_compare(hello.chain, kv_text(settings->chain_id)) != 0)
        return kv_fail(status, KV_INVALID, "chain id is '%s' here, yours is another",
                       settings->chain_id);

    memcpy(link->learner_nonce, hello.nonce, WIRE_NONCE_SIZE);
    memcpy(&link->salt, hello.nonce, sizeof(link->salt));
    link->goal = (struct wire_renew){ hello.version, hello.wanted_known, hello.wanted };
    link->learner_own = hello.own;
    link->traversal = hello.traversal;
    link->tell_peers = hello.peers;
    if (settings->secret[0] == '\0')
        return begin_serving(link, status);

    struct wire_challenge challenge;
    if (getrandom(link->teacher_nonce, WIRE_NONCE_SIZE, 0) != WIRE_NONCE_SIZE)
        return kv_fail(status, KV_INTERNAL, "no random numbers for a challenge");
    memcpy(challenge.nonce, link->teacher_nonce, WIRE_NONCE_SIZE);
    wire_mac(kv_text(settings->secret), "teacher", link->learner_nonce, link->teacher_nonce,
             challenge.mac);
    wire_put_challenge(&link->out, &challenge);
    link->phase = LINK_PROOF;
    return KV_OK;
}

static kv_code hear_proof(reconnect_link *link, kv_slice body, kv_status *status)
{
    uint8_t given[WIRE_MAC_SIZE], right[WIRE_MAC_SIZE];
    kv_code code = wire_get_proof(body, given, status);
    if (code != KV_OK)
        return code;
    wire_mac(kv_text(link->teacher->settings.secret), "learner", link->learner_nonce,
             link->teacher_nonce, right);
    if (!wire_mac_equal(given, right))
        return kv_fail(status, KV_INVALID, "secret is another one here");
    return begin_serving(link, status);
}

static kv_code hear_renew(reconnect_link *link, kv_slice body, kv_status *status)
{
    kv_code code = wire_get_renew(body, &link->goal, status);
    if (code != KV_OK)
        return code;
    drop_view(link);
    return put_offer(link, status);
}

/* ---- Frames in ---------------------------------------------------------- */

static kv_code hear(reconnect_link *link, unsigned type, kv_slice body, kv_status *status)
{
    bool serving = link->phase == LINK_SERVING, parting = link->phase == LINK_PARTING;
    bool pushing = link->phase == LINK_PUSHING || parting;
    link->teacher->figures.messages_in++;
    if (type == WIRE_HELLO && link->phase == LINK_HELLO)
        return hear_hello(link, body, status);
    if (type == WIRE_PROOF && link->phase == LINK_PROOF)
        return hear_proof(link, body, status);
    if (type == WIRE_RENEW && serving)
        return hear_renew(link, body, status);
    if (type == WIRE_WANT && serving && link->traversal == WIRE_DIFF)
        return serve_add(link, body, status);
    if (type == WIRE_AHEAD && serving && link->traversal == WIRE_DIFF)
        return serve_add_ahead(link, body, status);
    if (type == WIRE_AHEAD && link->phase == LINK_PROOF)
        return KV_OK; /* whoever has to prove first asks again */
    if (type == WIRE_BEGIN && serving && link->traversal != WIRE_DIFF) {
        link->phase = LINK_PUSHING;
        return push_begin(link, body, status);
    }
    if (type == WIRE_ANSWER && pushing)
        return push_answer(link, body, status);
    if (type == WIRE_END && (serving || pushing)) {
        link->phase = LINK_ENDING;
        drop_view(link);
        if (parting)
            return KV_OK; /* ours is sent */
        wire_frame_end(&link->out, wire_frame_begin(&link->out, WIRE_END));
        return KV_OK;
    }
    if (type == WIRE_ERROR) {
        link->phase = LINK_OVER;
        return wire_get_error(body, link->name, status);
    }
    return kv_fail(status, KV_UNPROVEN, "%s frame out of place", wire_type_name(type));
}

/* End the link over a fault: the learner is told, the view let go. */
static kv_code end_badly(reconnect_link *link, kv_code code, kv_status *status)
{
    kv_status why = KV_STATUS_INIT;
    if (status == NULL)
        status = &why;
    kv_fail(status, code, "%s", kv_code_text(code));
    link->status = *status;
    link->teacher->figures.links_failed++;
    drop_view(link);
    if (link->phase != LINK_OVER) {
        /* A frame that is half sent is ended by the hanging up. */
        if (link->sent == 0) {
            wire_out_clear(&link->out);
            wire_put_error(&link->out, code, status->message);
        }
        link->phase = LINK_ENDING;
    }
    return code;
}

kv_code reconnect_link_input(reconnect_link *link, int64_t now_us, kv_slice bytes,
                             kv_status *status)
{
    if (link->phase >= LINK_ENDING)
        return KV_OK; /* nothing it could say matters now */
    link->heard_us = now_us;
    link->teacher->figures.bytes_in += bytes.size;
    kv_status own = KV_STATUS_INIT;
    if (status == NULL)
        status = &own;
    kv_code code = wire_frames_add(&link->in, bytes);
    while (code == KV_OK && link->phase < LINK_ENDING) {
        unsigned type;
        kv_slice body;
        code = wire_frames_next(&link->in, &type, &body, status);
        if (code == KV_OK)
            code = hear(link, type, body, status);
    }
    if (code == KV_NOT_FOUND || code == KV_OK)
        return KV_OK;
    return end_badly(link, code, status);
}

bool reconnect_link_hungry(const reconnect_link *link)
{
    return link->phase < LINK_ENDING && link->waiting_size < LINK_WAITING_SIZE_MAX;
}

/* ---- Frames out --------------------------------------------------------- */

/* Whether rate_max allows sending now; fills up one second's worth at most. */
static bool allowed(reconnect_teacher *teacher, int64_t now_us)
{
    double rate = (double)teacher->settings.rate_max;
    if (rate <= 0)
        return true;
    if (teacher->allowance_us != 0)
        teacher->allowance += rate * (double)(now_us - teacher->allowance_us) / 1e6;
    if (teacher->allowance > rate)
        teacher->allowance = rate;
    teacher->allowance_us = now_us;
    return teacher->allowance > 0;
}

/*
 * Whether `link` may make a frame. Under rate_max links take turns, a frame each, in
 * the order in which they were refused: whoever happens to ask just when there is
 * something to give would else get it all.
 */
static bool its_turn(reconnect_link *link, int64_t now_us)
{
    reconnect_teacher *teacher = link->teacher;
    if (teacher->settings.rate_max == 0)
        return true;
    if (link->phase != LINK_PUSHING && (link->phase != LINK_SERVING || link->first == NULL)) {
        queue_leave(link);
        return true; /* it has nothing to send */
    }
    if (allowed(teacher, now_us) && (teacher->queue == NULL || teacher->queue == link)) {
        queue_leave(link);
        return true;
    }
    if (!link->queued) {
        reconnect_link **last = &teacher->queue;
        while (*last != NULL)
            last = &(*last)->queue_next;
        *last = link;
        link->queue_next = NULL;
        link->queued = true;
    }
    return false;
}

static kv_code check_time(const reconnect_link *link, int64_t now_us, kv_status *status)
{
    const reconnect_settings *settings = &link->teacher->settings;
    if (now_us - link->heard_us > (int64_t)settings->idle_timeout_us)
        return kv_fail(status, KV_TIMEOUT, "nothing heard for %llu s",
                       (unsigned long long)(settings->idle_timeout_us / 1000000));
    if (now_us - link->begun_us > (int64_t)settings->view_timeout_us)
        return kv_fail(status, KV_TIMEOUT, "served for %llu s, the longest allowed",
                       (unsigned long long)(settings->view_timeout_us / 1000000));
    return KV_OK;
}

kv_slice reconnect_link_output(reconnect_link *link, int64_t now_us)
{
    kv_status status = KV_STATUS_INIT;
    kv_code code = KV_OK;
    if (link->phase < LINK_ENDING)
        code = check_time(link, now_us, &status);
    if (code == KV_OK && link->out.size == 0 && its_turn(link, now_us)) {
        if (link->phase == LINK_SERVING)
            code = serve_next(link, &status);
        else if (link->phase == LINK_PUSHING)
            code = push_next(link, now_us, &status);
        if (code == KV_NOT_FOUND)
            code = KV_OK;
    }
    if (code == KV_OK && link->out.failed)
        code = KV_NO_MEMORY;
    if (code != KV_OK && end_badly(link, code, &status) == KV_OK)
        return kv_bytes(NULL, 0);
    return kv_bytes(link->out.size == 0 ? NULL : link->out.data + link->sent,
                    link->out.size - link->sent);
}

void reconnect_link_sent(reconnect_link *link, size_t size)
{
    link->sent += size;
    link->teacher->figures.bytes_out += size;
    link->teacher->allowance -= (double)size;
    if (link->sent < link->out.size)
        return;
    link->teacher->figures.messages_out++;
    link->sent = link->out.size = 0;
    if (link->out.capacity > 2 * (size_t)LINK_FRAME_SIZE)
        wire_out_clear(&link->out);
    if (link->phase == LINK_ENDING)
        link->phase = LINK_OVER;
}

int64_t reconnect_link_wake_us(const reconnect_link *link)
{
    if (link->phase >= LINK_ENDING)
        return INT64_MAX;
    const reconnect_settings *settings = &link->teacher->settings;
    int64_t wake = link->heard_us + (int64_t)settings->idle_timeout_us;
    int64_t end = link->begun_us + (int64_t)settings->view_timeout_us;
    wake = wake < end ? wake : end;
    if (link->phase == LINK_PUSHING && push_wake_us(link) < wake)
        wake = push_wake_us(link);
    const reconnect_teacher *teacher = link->teacher;
    if (teacher->allowance > 0 && link->queued && teacher->queue == link)
        return teacher->allowance_us;
    if (settings->rate_max > 0 && teacher->allowance <= 0) {
        double wait_us = (1 - teacher->allowance) * 1e6 / (double)settings->rate_max;
        int64_t allowed_us = teacher->allowance_us + (int64_t)wait_us + 1;
        wake = wake < allowed_us ? wake : allowed_us;
    }
    return wake;
}

bool reconnect_link_over(const reconnect_link *link, kv_status *status)
{
    if (status != NULL && link->status.code != KV_OK)
        *status = link->status;
    return link->phase == LINK_OVER || (link->phase == LINK_ENDING && link->out.size == 0);
}
