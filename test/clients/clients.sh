#!/usr/bin/env bash
# clients.sh DRIVER - npm's stock clients and verifier against the query service over a
# real chain's state.
. "$(dirname "$0")/../tools/lib.sh"
driver=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/install.sh"
genesis

python3 "$here/../tools/oracle.py" pairs "$tmp/genesis.json" >"$tmp/pairs" || exit 1
db=(--db "$driver:$tmp/data")
run 0 statekv import "${db[@]}" --json - "$tmp/genesis.json"
app_hash=$(jq -r .app_hash <<<"$out")
serve "${db[@]}"
same "status's app hash" \
    "$(curl -s "$url/status" | jq -r .result.sync_info.latest_app_hash)" "$app_hash"
run 0 node "$here/verify.js" "$url" "$tmp/pairs" "${2:-400}"
echo "$out"
stop
finish
