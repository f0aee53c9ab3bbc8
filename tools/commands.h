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

#endif /* TOOLS_COMMANDS_H */
