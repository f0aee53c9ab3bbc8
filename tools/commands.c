/* commands.c - the commands in the order of the manual. */
#include "tools/commands.h"

const struct command *const commands[] = {
    /* a store */
    &command_kv_put, &command_kv_get, &command_kv_delete, &command_kv_scan, &command_kv_stats,
    &command_kv_compact, &command_kv_check, &command_kv_repair, &command_drivers,
    &command_options, &command_migrate,
    /* a state */
    &command_import, &command_export, &command_root, &command_prove, &command_verify_proof,
    &command_verify, &command_prune, &command_versions, &command_state_stats,
    /* a node */
    &command_serve, &command_teach, &command_reconnect, &command_load, &command_replay, NULL
};
