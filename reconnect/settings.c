/* settings.c - the options of [reconnect]. */
#include "reconnect/settings.h"

#include <string.h>

static const kv_option_spec specs[] = {
    { "chain_id", KV_OPTION_TEXT, "", 0, 0,
      "Peers that name another chain are refused, up to 128 bytes", NULL },
    { "secret", KV_OPTION_TEXT, "", 0, 0,
      "Shared secret that both sides must know, up to 256 bytes; empty for none", NULL },
    { "laddr", KV_OPTION_TEXT, "tcp://127.0.0.1:26659", 0, 0,
      "Address where the teacher listens", NULL },
    { "frame_size_max", KV_OPTION_SIZE, "64MiB", WIRE_FRAME_SIZE_MIN, WIRE_FRAME_SIZE_MAX,
      "Longest frame accepted and sent, which bounds the largest page and value", NULL },
    { "idle_timeout", KV_OPTION_DURATION, "60s", 100, 86400000,
      "A peer that is silent for so long is dropped", NULL },
    { "view_timeout", KV_OPTION_DURATION, "60m", 1000, 604800000,
      "The teacher ends a link that lasts longer, and lets go of its version", NULL },
    { "learners_max", KV_OPTION_INT, "64", 1, RECONNECT_LEARNERS_MAX,
      "Learners served at the same time", NULL },
    { "rate_max", KV_OPTION_SIZE, "0", 0, (uint64_t)1 << 40,
      "Bytes a second sent to all learners together; 0 for no limit", NULL },
    { "level_cap", KV_OPTION_DURATION, "5s", 0, 60000,
      "Longest wait at one level of level-by-level", NULL },
    { "peers", KV_OPTION_TEXT, "", 0, 0,
      "Teachers that a teacher tells learners of: up to 32 of 1.2.3.4:PORT or [::1]:PORT, "
      "joined by commas",
      NULL },
    { "discover", KV_OPTION_BOOL, "true", 0, 0,
      "A learner asks its teachers for others and connects to those", NULL },
    { "peer_wait", KV_OPTION_DURATION, "0", 0, 604800000,
      "A learner that has no teacher keeps trying for so long, at least five times", NULL },
    { NULL, KV_OPTION_BOOL, NULL, 0, 0, NULL, NULL },
};

const kv_option_table reconnect_option_table = { "reconnect", specs };

void reconnect_settings_read(const kv_options *options, reconnect_settings *out)
{
    *out = (reconnect_settings)RECONNECT_SETTINGS_INIT;
    out->chain_id = kv_options_text(options, "reconnect.chain_id");
    out->secret = kv_options_text(options, "reconnect.secret");
    out->frame_size_max = kv_options_number(options, "reconnect.frame_size_max");
    out->idle_timeout_us = 1000 * kv_options_number(options, "reconnect.idle_timeout");
    out->view_timeout_us = 1000 * kv_options_number(options, "reconnect.view_timeout");
    out->learners_max = kv_options_number(options, "reconnect.learners_max");
    out->rate_max = kv_options_number(options, "reconnect.rate_max");
    out->level_cap_us = 1000 * kv_options_number(options, "reconnect.level_cap");
    out->peers = kv_options_text(options, "reconnect.peers");
    out->discover = kv_options_bool(options, "reconnect.discover");
    out->peer_wait_us = 1000 * kv_options_number(options, "reconnect.peer_wait");
}

kv_code reconnect_settings_peers(const reconnect_settings *settings,
                                 kv_slice addresses[WIRE_PEERS_MAX], size_t *count,
                                 kv_status *status)
{
    *count = 0;
    for (const char *at = settings->peers; *at != '\0';) {
        size_t size = strcspn(at, ",");
        if (*count == WIRE_PEERS_MAX)
            return kv_fail(status, KV_INVALID, "reconnect.peers has over %u addresses",
                           WIRE_PEERS_MAX);
        if (!wire_address_holds(kv_bytes(at, size)))
            return kv_fail(status, KV_INVALID,
                           "reconnect.peers: '%.*s' is not 1.2.3.4:PORT or [::1]:PORT",
                           (int)(size < 100 ? size : 100), at);
        addresses[(*count)++] = kv_bytes(at, size);
        at += size + (at[size] == ',');
    }
    return KV_OK;
}

kv_code reconnect_settings_check(const reconnect_settings *settings, kv_status *status)
{
    if (strlen(settings->chain_id) > WIRE_CHAIN_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "reconnect.chain_id is over %u bytes",
                       WIRE_CHAIN_SIZE_MAX);
    if (strlen(settings->secret) > RECONNECT_SECRET_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "reconnect.secret is over %u bytes",
                       RECONNECT_SECRET_SIZE_MAX);
    if (settings->frame_size_max < WIRE_FRAME_SIZE_MIN ||
        settings->frame_size_max > WIRE_FRAME_SIZE_MAX)
        return kv_fail(status, KV_INVALID, "reconnect.frame_size_max is not %u to %u",
                       WIRE_FRAME_SIZE_MIN, WIRE_FRAME_SIZE_MAX);
    if (settings->learners_max < 1 || settings->learners_max > RECONNECT_LEARNERS_MAX)
        return kv_fail(status, KV_INVALID, "reconnect.learners_max is not 1 to %u",
                       RECONNECT_LEARNERS_MAX);
    kv_slice addresses[WIRE_PEERS_MAX];
    size_t count;
    return reconnect_settings_peers(settings, addresses, &count, status);
}

static const char *const traversal_names[] = {
    [RECONNECT_DIFF] = "diff",
    [RECONNECT_PULL] = "pull",
    [RECONNECT_LEVEL] = "level-by-level",
    [RECONNECT_LEVEL_POLL] = "level-by-level-poll",
    [RECONNECT_PUSH] = "push",
};

enum { TRAVERSALS = sizeof(traversal_names) / sizeof(traversal_names[0]) };

kv_code reconnect_traversal_of(const char *name, reconnect_traversal *out, kv_status *status)
{
    for (unsigned i = 0; i < TRAVERSALS; i++) {
        if (strcmp(traversal_names[i], name) == 0) {
            *out = (reconnect_traversal)i;
            return KV_OK;
        }
    }
    return kv_fail(status, KV_INVALID,
                   "no traversal '%s': diff, pull, level-by-level, level-by-level-poll, push",
                   name);
}

const char *reconnect_traversal_name(reconnect_traversal traversal)
{
    return (unsigned)traversal < TRAVERSALS ? traversal_names[traversal] : "unknown";
}
