#!/usr/bin/env bash
# events.sh DRIVER - two versions of the stock WebSocket client hear of every header while the
# process that serves them commits: none twice, none left out, each with the hash committed.
. "$(dirname "$0")/../tools/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
. "$here/install.sh"
count=25

mkfifo "$tmp/input"
"$build/test/abci_query/example_node" "$1:$tmp/data" serve tcp://127.0.0.1:0 <"$tmp/input" >"$tmp/blocks" &
node=$!
exec 8>"$tmp/input"
for _ in $(seq 200); do
    url=$(grep -oE 'tcp://127.0.0.1:[0-9]+' "$tmp/blocks")
    [ -n "$url" ] && break
    sleep 0.05
done
url=http://${url#tcp://}

clients=
for version in 0.32 0.36; do
    node "$here/events.js" "tendermint-rpc-$version" "$url" $count >"$tmp/$version" 2>"$tmp/$version.err" &
    clients="$clients $!"
done
for client in $clients; do
    run 0 wait "$client"
done
exec 8>&-
run 0 wait $node

# The header at height h+1 carries the app hash of block h.
awk 'NF == 2 && $1 ~ /^[0-9]+$/ { print $1 + 1, $2 }' "$tmp/blocks" >"$tmp/headers"
for version in 0.32 0.36; do
    first=$(head -n 1 "$tmp/$version" | cut -d' ' -f1)
    same "$version: headers ($(cat "$tmp/$version.err"))" "$(cat "$tmp/$version")" \
        "$(grep -A$((count - 1)) "^$first " "$tmp/headers")"
    same "$version: how many" "$(wc -l <"$tmp/$version")" $count
done
finish
