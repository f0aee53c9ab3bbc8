/* settings.h - what both sides check of their settings. */
#ifndef RECONNECT_SETTINGS_H
#define RECONNECT_SETTINGS_H

#include "reconnect/reconnect.h"
#include "reconnect/wire.h"

/* KV_INVALID: a setting out of its range. */
KV_MUST_CHECK kv_code reconnect_settings_check(const reconnect_settings *settings,
                                               kv_status *status);

/* Cut the addresses of reconnect.peers at their commas. KV_INVALID: too many, or one
 * that is none. */
KV_MUST_CHECK kv_code reconnect_settings_peers(const reconnect_settings *settings,
                                               kv_slice addresses[WIRE_PEERS_MAX],
                                               size_t *count, kv_status *status);

#endif /* RECONNECT_SETTINGS_H */
