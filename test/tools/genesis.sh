#!/usr/bin/env bash
# genesis.sh DRIVER - the real chain export into one driver: the roots an independent
# builder gives, also after reopening, in batches, in shuffled order, and out and in again.
. "$(dirname "$0")/lib.sh"
driver=$1
genesis
here=$(dirname "$0")
python3 "$here/oracle.py" pairs "$tmp/genesis.json" >"$tmp/pairs" || exit 1
python3 "$here/oracle.py" roots "$tmp/pairs" >"$tmp/roots" || exit 1
wanted=$(awk '$1 == "app_hash" { print $2 }' "$tmp/roots")
maps=$(awk '$1 != "app_hash" { print $1 }' "$tmp/roots")
dir() { # a place for a state; memory lives within one command only
    [ "$driver" = memory ] && echo memory: || echo "$driver:$tmp/$1"
}

run 0 statekv import --db "$(dir one)" --format json --json - "$tmp/genesis.json"
same "app hash of one commit" "$(jq -r .app_hash <<<"$out")" "$wanted"
same "roots" "$(jq -r '.roots | to_entries[] | .key + " " + .value' <<<"$out")" \
    "$(grep -v '^app_hash' "$tmp/roots")"
run 0 statekv import --db "$(dir batches)" --batch 100 - - --format json --json \
    <"$tmp/genesis.json"
same "app hash by hundreds" "$(jq -r .app_hash <<<"$out")" "$wanted"
same "commits" "$(jq .version <<<"$out")" $((($(wc -l <"$tmp/pairs") + 99) / 100))
if [ "$driver" = memory ]; then
    finish
fi

run 0 statekv root --db "$(dir one)" --json
same "app hash after reopening" "$(jq -r .app_hash <<<"$out")" "$wanted"
run 0 statekv verify --db "$(dir batches)"
for map in $maps; do
    awk -F '\t' -v map="$map" '$1 == map { print $2 "\t" $3 }' "$tmp/pairs" >"$tmp/$map.tsv"
    statekv export --db "$(dir one)" "$map" | cmp - "$tmp/$map.tsv" ||
        fail "export $map differs"
    shuf --random-source="$tmp/genesis.json" "$tmp/$map.tsv" >"$tmp/shuffled.tsv"
    run 0 statekv import --db "$(dir shuffled)" --batch 1000 "$map" "$tmp/shuffled.tsv"
done
run 0 statekv root --db "$(dir shuffled)" --json
same "app hash of a shuffled import" "$(jq -r .app_hash <<<"$out")" "$wanted"

# Deleting what was added leads back.
map=${maps%%$'\n'*}
printf '7a7a7a\t31\n7a7a7b\t32\n' | statekv import --db "$(dir one)" "$map" - >/dev/null
run 0 statekv root --db "$(dir one)" "$map"
[ "$out" != "$(awk -v map="$map" '$1 == map { print $2 }' "$tmp/roots")" ] ||
    fail "two more pairs, the same root"
printf '7a7a7a\n7a7a7b\n' | statekv import --db "$(dir one)" "$map" - >/dev/null
run 0 statekv root --db "$(dir one)" --json
same "app hash after deleting" "$(jq -r .app_hash <<<"$out")" "$wanted"

# Proofs of what is there, and of what is not.
while IFS=$'\t' read -r map key value; do
    run 0 statekv prove --db "$(dir one)" --hex "$map" "$key"
    proof=$out
    same "the proof's app hash" "$(jq -r .app_hash <<<"$proof")" "$wanted"
    run 0 statekv verify-proof --hex "$wanted" "$map" "$key" "$value" <<<"$proof"
    run 1 statekv verify-proof --hex "$wanted" "$map" "$key" <<<"$proof"
    run 1 statekv verify-proof --hex "$wanted" "$map" "$key" "${value}00" <<<"$proof"
    run 0 statekv prove --db "$(dir one)" --hex "$map" "${key}00"
    proof=$out
    run 0 statekv verify-proof --hex "$wanted" "$map" "${key}00" <<<"$proof"
    run 1 statekv verify-proof --hex "$wanted" "$map" "$key" <<<"$proof"
done < <(shuf -n 6 --random-source="$tmp/genesis.json" "$tmp/pairs")
finish
