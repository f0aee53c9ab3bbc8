# lib.sh - sourced by the script tests: a temporary folder, the program, checks.
# A failed check says what was expected and what came, and the script goes on;
# `finish` gives the verdict.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${STATEKV_BUILD:?set STATEKV_BUILD to the build folder}
tmp=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; wait; rm -rf "$tmp"' EXIT
failures=0 checks=0

statekv() { "$build/tools/statekv" "$@"; }

fail() {
    failures=$((failures + 1))
    printf 'FAILED %s:%s: %s\n' "${0##*/}" "$(printf "%s\n" "${BASH_LINENO[@]}" | tail -n 2 | head -n 1)" "$*" >&2
}

# run STATUS COMMAND...: the exit status must be STATUS; sets $out and $err.
run() {
    local wanted=$1 got
    shift
    checks=$((checks + 1))
    "$@" >"$tmp/.out" 2>"$tmp/.err"
    got=$?
    out=$(cat "$tmp/.out") err=$(cat "$tmp/.err")
    if [ "$got" -ne "$wanted" ]; then
        fail "$*: exit status $got, not $wanted; standard error: $err"
        return 1
    fi
}

# same WHAT GOT WANTED
same() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: got '$2', not '$3'"
}

# has WHAT TEXT PART: TEXT contains PART.
has() {
    checks=$((checks + 1))
    [[ $2 == *"$3"* ]] || fail "$1: '$2' does not contain '$3'"
}

# refused STATUS PART COMMAND...: fails with one line on standard error that contains PART.
refused() {
    local wanted=$1 part=$2
    shift 2
    run "$wanted" "$@" || return
    checks=$((checks + 1))
    if [[ $err != *"$part"* ]] || [ "$(wc -l <"$tmp/.err")" -ne 1 ]; then
        fail "$*: standard error '$err' is not one line with '$part'"
    fi
}

# The real chain export, or skip.
genesis() {
    local file
    for file in "$top"/../shared/data "$top"/../../shared/data; do
        if [ -r "$file/genesis.cosmoshub-2.json.gz" ]; then
            zcat "$file/genesis.cosmoshub-2.json.gz" >"$tmp/genesis.json"
            return
        fi
    done
    echo "skipped: ../shared/data/genesis.cosmoshub-2.json.gz is not there"
    exit 77
}

# serve OPTION...: start the query service on a free port; sets $url and $server.
serve() {
    "$build/tools/statekv" serve "$@" --laddr tcp://127.0.0.1:0 >"$tmp/.serve" 2>"$tmp/.serve.err" &
    server=$!
    for _ in $(seq 200); do
        url=$(grep -oE 'tcp://127.0.0.1:[0-9]+' "$tmp/.serve" | head -n 1)
        [ -n "$url" ] && kill -0 "$server" 2>/dev/null && break
        sleep 0.05
    done
    [ -n "$url" ] || { fail "serve: no line: $(cat "$tmp/.serve.err")"; exit 1; }
    url=http://${url#tcp://}
}

# stop: end the service by SIGTERM; it must end cleanly.
stop() {
    kill -TERM "$server"
    run 0 wait "$server"
    same "serve's standard error" "$(cat "$tmp/.serve.err")" ""
}

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ]
    exit
}
