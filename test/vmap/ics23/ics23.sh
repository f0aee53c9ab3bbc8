#!/usr/bin/env bash
# ics23.sh [COUNT [KEYS]] - npm's stock verifier over COUNT proofs of each kind: of the real chain
# export, and of a map of KEYS keys. The verifier is installed into the build folder.
. "$(dirname "$0")/../../tools/lib.sh"
count=${1:-300} keys=${2:-20000}
here=$(cd "$(dirname "$0")" && pwd)
clients_source=$here/../../clients
command -v node >/dev/null && command -v npm >/dev/null ||
    { echo "skipped: node or npm is not there"; exit 77; }

# The same installation as test/clients/clients.sh makes.
clients=$build/clients
mkdir -p "$clients"
(
    flock 9
    if ! cmp -s "$clients_source/package-lock.json" "$clients/installed.json"; then
        cp "$clients_source/package.json" "$clients_source/package-lock.json" "$clients"
        (cd "$clients" && npm ci --ignore-scripts --no-audit --no-fund) >"$clients/npm.log" 2>&1 &&
            cp "$clients_source/package-lock.json" "$clients/installed.json"
    fi
) 9>"$clients/lock"
cmp -s "$clients_source/package-lock.json" "$clients/installed.json" ||
    { echo "skipped: npm cannot install the clients: $(tail -n 1 "$clients/npm.log")"; exit 77; }

proofs=$build/test/vmap/vmap_ics23_proofs
"$proofs" memory "$tmp/made" "$count" "$keys" >"$tmp/made.tsv" || exit 1
NODE_PATH=$clients/node_modules run 0 node "$here/verify.js" "$tmp/made.tsv"
echo "a map of $keys keys: $out"
genesis
run 0 statekv import --db "leveldb:$tmp/genesis" - --format json "$tmp/genesis.json"
"$proofs" leveldb "$tmp/genesis" "$count" >"$tmp/real.tsv" || exit 1
NODE_PATH=$clients/node_modules run 0 node "$here/verify.js" "$tmp/real.tsv"
echo "the chain export: $out"
finish
