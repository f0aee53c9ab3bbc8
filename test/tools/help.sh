#!/usr/bin/env bash
# help.sh - every command teaches itself, and wrong usage is one line with status 2.
. "$(dirname "$0")/lib.sh"
run 0 statekv --help
help=$out
run 0 statekv --version
has "the version" "$out" "statekv 0."
names=$(sed -n '/^Commands:$/,/^$/p' <<<"$help" | sed -n 's/^  \([a-z-]*\( [a-z-]\+\)\?\)  .*/\1/p')
[ "$(wc -l <<<"$names")" -ge 20 ] || fail "the list of commands is short: $names"
while read -r name; do
    # shellcheck disable=SC2086 # two words where there are two
    run 0 statekv $name --help
    has "$name --help" "$out" "Usage: statekv $name"
    has "$name --help" "$out" '--config=FILE'
    same "$name --help is quiet elsewhere" "$err" ""
    # shellcheck disable=SC2086
    refused 2 '--no-such-option' statekv $name --no-such-option
done <<<"$names"
run 0 statekv kv --help
has "the kv commands" "$out" 'kv scan'
run 0 statekv options rocksdb
has "rocksdb's options" "$out" kv.rocksdb.
run 0 statekv options --json
run 0 jq -es 'map(select(.table == "vmap" and .name == "page_bits")) | length == 1' <<<"$out"
refused 2 'no driver or table called oracle' statekv options oracle
run 0 statekv drivers --json
drivers=$out
for driver in memory leveldb rocksdb; do
    run 0 jq -es --arg d $driver 'any(.name == $d)' <<<"$drivers"
done
finish
