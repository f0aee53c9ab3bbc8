#!/usr/bin/env bash
# versions.sh DRIVER - old versions stay readable, with proofs, until they are pruned.
. "$(dirname "$0")/lib.sh"
db=(--db "$1:$tmp/data")
for i in 1 2 3 4 5; do
    printf '6b\t3%d\n6b3%d\t78\n' $i $i | statekv import "${db[@]}" bank - --json \
        >"$tmp/version.$i"
done
run 0 statekv versions "${db[@]}" --json
same "versions" "$(jq -r .version <<<"$out" | tr '\n' ' ')" '1 2 3 4 5 '
for i in 1 2 3 4 5; do
    wanted=$(jq -r .app_hash "$tmp/version.$i")
    run 0 statekv root "${db[@]}" --version $i --json
    same "app hash of version $i" "$(jq -r .app_hash <<<"$out")" "$wanted"
    run 0 statekv export "${db[@]}" bank --version $i
    same "pairs of version $i" "$(wc -l <<<"$out")" $((i + 1))
    same "a value of version $i" "$(head -n 1 <<<"$out")" $'6b\t3'$i
    statekv prove "${db[@]}" bank k --version $i >"$tmp/proof"
    run 0 statekv verify-proof "$wanted" bank k $i <"$tmp/proof"
    run 0 statekv verify "${db[@]}" --version $i
done
run 0 statekv verify "${db[@]}" --all --json
same "versions verified" "$(jq -r .version <<<"$out" | tr '\n' ' ')" '1 2 3 4 5 '
refused 2 'exclude each other' statekv verify "${db[@]}" --all --version 2
run 0 statekv state stats "${db[@]}" --json
same "keys" "$(jq '.["bank.keys"]' <<<"$out")" 6
refused 2 '--keep' statekv prune "${db[@]}"
run 0 statekv prune "${db[@]}" --keep 2
same "what is left" "$out" 'versions 4 to 5'
run 0 statekv state stats "${db[@]}" --json
same "records that nothing needs" "$(jq .history_garbage <<<"$out")" 0
refused 2 '4' statekv root "${db[@]}" --version 3
run 0 statekv root "${db[@]}" --version 4
run 0 statekv verify "${db[@]}"

# All history that goes is gone when prune ends, however many steps that takes.
many=(--db "$1:$tmp/many")
for i in 1 2 3; do
    seq -f '%08.0f' 12000 | sed "s/\$/\t0$i/" | statekv import "${many[@]}" bank - >/dev/null
done
run 0 statekv prune "${many[@]}" --keep 1
run 0 statekv state stats "${many[@]}" --json
same "history of many pairs" "$(jq '[.history_records, .history_garbage]' -c <<<"$out")" '[0,0]'
finish
