#!/usr/bin/env bash
# config.sh - one config file: swapping db_backend gives the same answers.
. "$(dirname "$0")/lib.sh"
printf '616c696365\t313030\n626f62\t3230\n' >"$tmp/bank.tsv"
answers=
for backend in rocksdb leveldb goleveldb cleveldb; do
    printf 'db_backend = "%s"\ndb_dir = "data-%s"\n[rpc]\nladdr = "tcp://127.0.0.1:1"\n' \
        $backend $backend >"$tmp/config.toml"
    config=(--config "$tmp/config.toml")
    answer=$(statekv import "${config[@]}" bank "$tmp/bank.tsv" &&
        statekv root "${config[@]}" && statekv export "${config[@]}" bank &&
        statekv prove "${config[@]}" bank alice && statekv prove "${config[@]}" bank carol)
    [ -n "$answer" ] || fail "$backend: no answer"
    [ -d "$tmp/data-$backend" ] || fail "$backend: db_dir is not beside the file"
    same "$backend's answers" "$answer" "${answers:=$answer}"
done
finish
