#!/usr/bin/env bash
# ics23.sh [COUNT [KEYS]] - npm's stock verifier over COUNT proofs of each kind: of the real chain
# export, and of a map of KEYS keys. The verifier is installed into the build folder.
. "$(dirname "$0")/../../tools/lib.sh"
count=${1:-300} keys=${2:-20000}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../clients/install.sh"

proofs=$build/test/vmap/vmap_ics23_proofs
"$proofs" memory "$tmp/made" "$count" "$keys" >"$tmp/made.tsv" || exit 1
run 0 node "$here/verify.js" "$tmp/made.tsv"
echo "a map of $keys keys: $out"
genesis
run 0 statekv import --db "leveldb:$tmp/genesis" - --format json "$tmp/genesis.json"
"$proofs" leveldb "$tmp/genesis" "$count" >"$tmp/real.tsv" || exit 1
run 0 node "$here/verify.js" "$tmp/real.tsv"
echo "the chain export: $out"
finish
