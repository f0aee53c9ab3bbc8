#!/usr/bin/env bash
# follow.sh DRIVER - serve --follow beside the process that writes: it moves on with each
# commit, outlives the writer, and an engine that cannot be followed says what to do.
. "$(dirname "$0")/lib.sh"
db=(--db "$1:$tmp/data")

# start_writer: it takes commands from file descriptor 8; see writer.c.
start_writer() {
    rm -f "$tmp/lines"
    mkfifo "$tmp/lines"
    "$build/test/tools/test_writer" "$1:$tmp/data" <"$tmp/lines" >"$tmp/written" &
    writer=$!
    exec 8>"$tmp/lines"
    written open
}

# written LINE: wait for the writer to say so.
written() {
    for _ in $(seq 200); do
        [ "$(tail -n 1 "$tmp/written")" = "$1" ] && return
        sleep 0.05
    done
    fail "the writer does not say $1"
    exit 1
}

# commit VALUE VERSION
commit() {
    printf 'key %s\n\n' "$1" >&8
    written "$2"
}

start_writer "$1"
commit one 1
refused 3 "with --follow" statekv serve "${db[@]}" --laddr tcp://127.0.0.1:0
if [ "$1" != rocksdb ]; then
    refused 2 "$1 cannot be read while another process writes it" \
        statekv serve "${db[@]}" --follow --laddr tcp://127.0.0.1:0
    exec 8>&-
    run 0 wait $writer
    finish
fi

height() { curl -s "$url/abci_info" | jq -r '.result.response.last_block_height'; }
value() { curl -s "$url/abci_query?path=\"/store/ibc/key\"&data=\"key\"&height=$1" | jq -r .result.response.value | base64 -d; }
reaches() {
    for _ in $(seq 200); do
        [ "$(height)" = "$1" ] && break
        sleep 0.05
    done
    same "the follower's height" "$(height)" "$1"
}
serve "${db[@]}" --follow
reaches 1
for version in 2 3 4 5; do
    commit v$version $version
    reaches $version
    same "version $version" "$(value 0)" v$version
done
same "an older version" "$(value 3)" v3
refused 3 "open already" statekv kv put "${db[@]}" key value # the writer has its lock as before

# Its answers verify; a writer that is killed and comes back is followed on.
app_hash=$(curl -s "$url/header?height=6" | jq -r .result.header.app_hash)
curl -s "$url/abci_query?path=\"/store/ibc/key\"&data=\"key\"&prove=true" >"$tmp/answer"
run 0 statekv verify-proof "$app_hash" ibc key v5 <"$tmp/answer"
kill -KILL $writer
wait $writer 2>/dev/null
exec 8>&-
same "without a writer" "$(value 0)" v5
start_writer "$1"
commit v6 6
reaches 6
same "after another writer" "$(value 0)" v6
stop
exec 8>&-
run 0 wait $writer
run 0 statekv verify "${db[@]}"
finish
