/* commands.c - the commands in the order of the manual. */
#include "tools/commands.h"

const struct command *const commands[] = {
    &command_kv_put,
    &command_kv_get,
    &command_kv_delete,
    &command_kv_scan,
    &command_kv_stats,
    &command_kv_compact,
    &command_kv_check,
    &command_kv_repair,
    &command_drivers,
    &command_options,
    NULL,
};
