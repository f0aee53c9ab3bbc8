# Run at install time: names in libstatekv.a that are not public get a prefix that no program
# uses, since an archive has no list of exports: a program's own `tree_put`, or its own code
# of ics23.proto, would clash. Set before: archive, nm, objcopy.
execute_process(COMMAND "${nm}" --defined-only --extern-only --format=posix "${archive}"
    OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[A-Za-z][A-Za-z0-9_]* [A-Z] " names "${names}")
list(TRANSFORM names REPLACE "\n?([A-Za-z0-9_]+) .*" "\\1")
list(FILTER names EXCLUDE REGEX "^(kv|vmap|state|query|reconnect|statekv_private)_")
list(REMOVE_DUPLICATES names)
list(TRANSFORM names REPLACE "(.+)" "\\1 statekv_private_\\1")
list(JOIN names "\n" names)
file(WRITE "${archive}.names" "${names}\n")
execute_process(COMMAND "${objcopy}" "--redefine-syms=${archive}.names" "${archive}"
    COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${archive}.names")
