# statekv_flags: how all of our own code is compiled. Never exported.
add_library(statekv_flags INTERFACE)
target_compile_options(statekv_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    -Wcast-qual -Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>
    $<$<BOOL:${STATEKV_WERROR}>:-Werror>
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wduplicated-cond>
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wlogical-op>
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wjump-misses-init>
    $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wcomma>
    $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wunreachable-code>)
