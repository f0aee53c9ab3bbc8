#!/usr/bin/env bash
# events.sh - two versions of the stock WebSocket client hear of each header as a writer commits
# beside the service that follows it.
. "$(dirname "$0")/../tools/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/install.sh"
mkfifo "$tmp/lines"
"$build/test/tools/test_writer" "rocksdb:$tmp/data" <"$tmp/lines" >"$tmp/written" &
exec 8>"$tmp/lines"
says() { # FILE LINE: wait for it
    for _ in $(seq 300); do
        grep -q "^$2" "$1" && return
        sleep 0.05
    done
    fail "$1 does not say $2: $(cat "$1" "$1.err" 2>/dev/null)"
    exit 1
}
commit() {
    printf 'key value%s\n\n' "$1" >&8
    says "$tmp/written" "$1"
}
commit 1
serve --db "rocksdb:$tmp/data" --follow
for version in 0.32 0.36; do
    node "$here/events.js" "tendermint-rpc-$version" "$url" 3 >"$tmp/$version" 2>"$tmp/$version.err" &
    says "$tmp/$version" subscribed
done
for version in 2 3 4; do
    commit $version
    says "$tmp/0.32" $((version + 1))
    says "$tmp/0.36" $((version + 1))
done
for height in 3 4 5; do
    hash=$(curl -s "$url/header?height=$height" | jq -r .result.header.app_hash | tr A-F a-f)
    has "header $height" "$(cat "$tmp/0.32")" "$height $hash"
    has "header $height" "$(cat "$tmp/0.36")" "$height $hash"
done
same "events" "$(grep -c . "$tmp/0.32")" 4 # with its first line: none came twice
stop
exec 8>&-
finish
