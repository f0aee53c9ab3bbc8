/* commands.h - every command; commands.c puts them in order. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "tools/command.h"

extern const struct command command_kv_put;
extern const struct command command_kv_get;
extern const struct command command_kv_delete;
extern const struct command command_kv_scan;
extern const struct command command_kv_stats;
extern const struct command command_kv_compact;
extern const struct command command_kv_check;
extern const struct command command_kv_repair;
extern const struct command command_drivers;
extern const struct command command_options;
extern const struct command command_import;
extern const struct command command_export;
extern const struct command command_root;
extern const struct command command_prove;
extern const struct command command_verify_proof;
extern const struct command command_verify;
extern const struct command command_prune;
extern const struct command command_versions;
extern const struct command command_state_stats;
extern const struct command command_migrate;
extern const struct command command_teach;
extern const struct command command_reconnect;
extern const struct command command_serve;
extern const struct command command_load;
extern const struct command command_replay;

#endif /* TOOLS_COMMANDS_H */
