#!/usr/bin/env bash
# program.sh - statekv teach and reconnect as processes: three teachers on different engines
# and at different versions, a learner on another engine, then nothing left to do.
. "$(dirname "$0")/lib.sh"

pairs 0 2000 0 >"$tmp/old.tsv"
pairs 500 1500 7 >"$tmp/new.tsv"
for ((i = 100; i < 200; i++)); do printf '%016x\n' "$i"; done >"$tmp/gone.tsv"
for engine in rocksdb leveldb; do
    "$statekv" import --db "$engine:$tmp/$engine" bank "$tmp/old.tsv" >/dev/null
done
"$statekv" import --db "leveldb:$tmp/learner" bank "$tmp/old.tsv" >/dev/null
for engine in rocksdb leveldb; do
    "$statekv" import --db "$engine:$tmp/$engine" bank "$tmp/new.tsv" >/dev/null
    "$statekv" import --db "$engine:$tmp/$engine" bank "$tmp/gone.tsv" >/dev/null
done
cp -r "$tmp/rocksdb" "$tmp/later"
"$statekv" import --db "rocksdb:$tmp/later" other "$tmp/gone.tsv" >/dev/null
goal=$("$statekv" root --db "rocksdb:$tmp/rocksdb" --json | sed 's/.*"app_hash":"\([0-9a-fA-F]*\)".*/\1/')

from=
for place in rocksdb:rocksdb leveldb:leveldb rocksdb:later; do
    log="$tmp/${place#*:}.log"
    "$statekv" teach --db "${place%%:*}:$tmp/${place#*:}" --laddr tcp://127.0.0.1:0 >"$log" 2>&1 &
    teachers+=($!)
    for _ in $(seq 300); do grep -q 'at port' "$log" && break; sleep 0.1; done
    from+=${from:+,}127.0.0.1:$(sed -n 's/.* at port \([0-9]*\)$/\1/p' "$log")
done

# A hash that they have not: refused, unchanged.
before=$("$statekv" root --db "leveldb:$tmp/learner")
if "$statekv" reconnect --db "leveldb:$tmp/learner" --from "$from" \
    --app-hash "$(printf '00%.0s' $(seq 32))" 2>"$tmp/err"; then
    echo "a wrong app hash was reached"; exit 1
fi
[ "$before" = "$("$statekv" root --db "leveldb:$tmp/learner")" ]

"$statekv" reconnect --db "leveldb:$tmp/learner" --from "$from" --version 3 --app-hash "$goal" \
    --json >"$tmp/report"
grep -q '"version":3' "$tmp/report"
kill "${teachers[0]}"
wait "${teachers[0]}" || true
[ "$("$statekv" export --db "leveldb:$tmp/learner" bank | sha256sum)" = \
  "$("$statekv" export --db "rocksdb:$tmp/rocksdb" bank | sha256sum)" ]
"$statekv" verify --db "leveldb:$tmp/learner" >/dev/null
echo "reconnected from $from"
