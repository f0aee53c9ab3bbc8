# Run at each build: writes OUTPUT, a header with the commit the tree stands at,
# and touches it only when something changed.
#   cmake -DSOURCE=... -DOUTPUT=... -DCOMPILER=... -DFLAGS=... -DTYPE=... -DSANITIZE=... -P
execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git status --porcelain --untracked-files=no WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE changes ERROR_QUIET)
if(NOT commit)
    set(commit unknown)
endif()
if(changes)
    set(modified 1)
else()
    set(modified 0)
endif()
if(SANITIZE)
    set(sanitized 1)
else()
    set(sanitized 0)
endif()
set(text "/* Written by cmake/BuildFacts.cmake. */
#define BENCH_COMMIT \"${commit}\"
#define BENCH_MODIFIED ${modified}
#define BENCH_COMPILER \"${COMPILER}\"
#define BENCH_FLAGS \"${FLAGS}\"
#define BENCH_BUILD_TYPE \"${TYPE}\"
#define BENCH_SANITIZED ${sanitized}
")
set(old "")
if(EXISTS "${OUTPUT}")
    file(READ "${OUTPUT}" old)
endif()
if(NOT text STREQUAL old)
    file(WRITE "${OUTPUT}" "${text}")
endif()
