#!/usr/bin/env bash
# migrate.sh FROM TO [PAIRS] - copy a state to another engine: equal, resumable, careful.
. "$(dirname "$0")/lib.sh"
from=$1:$tmp/from
to=$2:$tmp/to
python3 -c 'for i in range('"${3:-20000}"'): print((b"key/%06d" % i).hex(), b"value".hex(), sep="\t")' \
    >"$tmp/pairs.tsv"
run 0 statekv import --db "$from" --batch $((${3:-20000} / 4)) bank "$tmp/pairs.tsv"
run 0 statekv kv put --db "$from" --space other 'a\x00b' ''
before=$(statekv root --db "$from" && statekv kv check --db "$from")

run 0 statekv migrate --from "$from" --to "$to"
has "a summary" "$out" 'both sides equal'
same "the copy's pairs" "$(statekv root --db "$to"; statekv kv check --db "$to")" "$before"
same "the source" "$(statekv root --db "$from"; statekv kv check --db "$from")" "$before"
run 0 statekv verify --db "$to"
refused 2 'holds data' statekv migrate --from "$from" --to "$to"
refused 3 "$tmp/none" statekv migrate --from "$1:$tmp/none" --to "$2:$tmp/x"
refused 2 '--from' statekv migrate --to "$to"
refused 2 'BACKEND:DIR' statekv migrate --from "$from" --to ''
printf '[kv.%s]\nno_such = 1\n' "$2" >"$tmp/tuned.toml"
refused 2 'tuned.toml:2' statekv migrate --config "$tmp/tuned.toml" --from "$from" --to "$to"

# Too little room on the target's disk: refused before anything is written there.
mkdir "$tmp/small"
if mount -t tmpfs -o size=16m tmpfs "$tmp/small" 2>/dev/null; then
    refused 3 'are free' statekv migrate --from "$from" --to "$2:$tmp/small/to"
    has "whose disk" "$err" "$tmp/small/to"
    same "the small disk" "$(ls -A "$tmp/small")" ""
    umount "$tmp/small"
else
    echo "the check of the disk's room is not tried: no small tmpfs here"
fi

# A figure of every space, and progress with a rate where somebody looks on.
rm -rf "$tmp/to"
run 0 statekv migrate --from "$from" --to "$to" --json
same "pairs by the digests" "$(jq -s 'map(.pairs // 0) | add' <<<"$out")" \
    "$(statekv kv check --db "$from" --json | jq -s 'map(.pairs) | add')"
same "digests" "$(jq -r 'select(.space) | .sha256 | length' <<<"$out" | sort -u)" 64
rm -rf "$tmp/to"
command=$(printf '%q ' "$build/tools/statekv" migrate --from "$from" --to "$to")
run 0 script -qec "$command" /dev/null
has "progress" "$out" '/s'

# Killed at some moments: known as unfinished, then finished by the same command.
for delay in 0.02 0.1 0.3; do
    rm -rf "$tmp/to"
    "$build/tools/statekv" migrate --from "$from" --to "$to" >/dev/null 2>&1 &
    victim=$!
    sleep $delay
    kill -9 $victim 2>/dev/null
    wait $victim 2>/dev/null
    if statekv kv get --db "$to" --space statekv.migrate from >/dev/null 2>&1; then
        refused 2 'interrupted copy of' statekv migrate --from "$1:$tmp/from/" --to "$to"
        refused 2 'unfinished copy' statekv migrate --from "$to" --to "$1:$tmp/y"
        run 0 statekv migrate --from "$from" --to "$to" --json
    else
        rm -rf "$tmp/to"
        run 0 statekv migrate --from "$from" --to "$to" --json
    fi
    same "the finished copy" "$(statekv root --db "$to"; statekv kv check --db "$to")" "$before"
done
finish
