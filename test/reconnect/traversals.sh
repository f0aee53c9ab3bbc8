#!/usr/bin/env bash
# traversals.sh - statekv reconnect by each --traversal, from `teach` and from `serve --teach`,
# between different engines; an unknown traversal is refused.
. "$(dirname "$0")/lib.sh"

pairs 0 1000 0 >"$tmp/old.tsv"
pairs 300 600 7 >"$tmp/new.tsv"
for ((i = 50; i < 90; i++)); do printf '%016x\n' "$i"; done >"$tmp/gone.tsv"
for engine in rocksdb leveldb; do
    for pairs in old new gone; do
        "$statekv" import --db "$engine:$tmp/$engine" bank "$tmp/$pairs.tsv" >/dev/null
    done
    "$statekv" import --db "$engine:$tmp/learner-$engine" bank "$tmp/old.tsv" >/dev/null
done
right=$("$statekv" export --db "rocksdb:$tmp/rocksdb" bank | sha256sum)

wait_for() { # PATTERN FILE
    for _ in $(seq 300); do grep -q "$1" "$2" && return; sleep 0.1; done
    echo "never said '$1':"; cat "$2"; exit 1
}
"$statekv" teach --db "rocksdb:$tmp/rocksdb" --laddr tcp://127.0.0.1:0 >"$tmp/teach.log" 2>&1 &
teachers+=($!)
"$statekv" serve --db "leveldb:$tmp/leveldb" --laddr tcp://127.0.0.1:0 \
    --teach tcp://127.0.0.1:0 >"$tmp/serve.log" 2>&1 &
teachers+=($!)
wait_for 'at port' "$tmp/teach.log"
wait_for 'teaching at port' "$tmp/serve.log"
teach=127.0.0.1:$(sed -n 's/.* at port \([0-9]*\)$/\1/p' "$tmp/teach.log")
serve=127.0.0.1:$(sed -n 's/.*teaching at port \([0-9]*\).*/\1/p' "$tmp/serve.log")

for traversal in diff pull level-by-level level-by-level-poll push; do
    for pair in "$teach leveldb" "$serve rocksdb"; do
        from=${pair% *} engine=${pair#* }
        cp -r "$tmp/learner-$engine" "$tmp/learner"
        "$statekv" reconnect --db "$engine:$tmp/learner" --from "$from" \
            --traversal "$traversal" --json >"$tmp/report"
        grep -q '"version":3' "$tmp/report" || { cat "$tmp/report"; exit 1; }
        [ "$right" = "$("$statekv" export --db "$engine:$tmp/learner" bank | sha256sum)" ]
        rm -rf "$tmp/learner"
    done
done
if "$statekv" reconnect --db "leveldb:$tmp/learner-leveldb" --from "$teach" \
    --traversal sideways 2>"$tmp/err"; then
    echo "an unknown traversal was taken"; exit 1
fi
grep -q 'level-by-level' "$tmp/err"
echo "every traversal, from teach and from serve --teach"
