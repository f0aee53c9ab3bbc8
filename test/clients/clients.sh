#!/usr/bin/env bash
# clients.sh DRIVER - npm's stock clients and verifier against the query service over a
# real chain's state. Installs the clients into the build folder.
. "$(dirname "$0")/../tools/lib.sh"
driver=$1
here=$(cd "$(dirname "$0")" && pwd)
command -v node >/dev/null && command -v npm >/dev/null ||
    { echo "skipped: node or npm is not there"; exit 77; }
genesis

# One installation for all that run at once.
clients=$build/clients
mkdir -p "$clients"
(
    flock 9
    if ! cmp -s "$here/package-lock.json" "$clients/installed.json"; then
        cp "$here/package.json" "$here/package-lock.json" "$clients"
        (cd "$clients" && npm ci --ignore-scripts --no-audit --no-fund) >"$clients/npm.log" 2>&1 &&
            cp "$here/package-lock.json" "$clients/installed.json"
    fi
) 9>"$clients/lock"
cmp -s "$here/package-lock.json" "$clients/installed.json" ||
    { echo "skipped: npm cannot install the clients: $(tail -n 1 "$clients/npm.log")"; exit 77; }

python3 "$here/../tools/oracle.py" pairs "$tmp/genesis.json" >"$tmp/pairs" || exit 1
db=(--db "$driver:$tmp/data")
run 0 statekv import "${db[@]}" --json - "$tmp/genesis.json"
app_hash=$(jq -r .app_hash <<<"$out")
serve "${db[@]}"
same "status's app hash" \
    "$(curl -s "$url/status" | jq -r .result.sync_info.latest_app_hash)" "$app_hash"
NODE_PATH=$clients/node_modules run 0 node "$here/verify.js" "$url" "$tmp/pairs" "${2:-400}"
echo "$out"
stop
finish
