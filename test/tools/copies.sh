#!/usr/bin/env bash
# copies.sh - a state of any engine, migrated to any other, verifies there at every kept
# version with the same roots; and a damaged copy is told.
. "$(dirname "$0")/lib.sh"
engines=(rocksdb leveldb shadow)
for engine in "${engines[@]}"; do
    for version in 1 2 3; do
        for map in bank gov; do
            python3 -c 'import sys; v = int(sys.argv[1])
for i in range(150): print((b"key/%04d" % (i * v % 200)).hex(), (b"value %d" % v).hex(), sep="\t")' \
                $version >"$tmp/pairs"
            run 0 statekv import --db "$engine:$tmp/$engine" $map "$tmp/pairs"
        done
    done
    run 0 statekv verify --db "$engine:$tmp/$engine" --all
    [ "$engine" = rocksdb ] && roots=$out
    same "the roots of $engine" "$out" "$roots"
    same "versions of $engine" "$(grep -c '^version' <<<"$out")" 6
done
for from in "${engines[@]}"; do
    for to in "${engines[@]}"; do
        [ "$from" = "$to" ] && continue
        copy=$to:$tmp/$from-$to
        run 0 statekv migrate --from "$from:$tmp/$from" --to "$copy"
        run 0 statekv verify --db "$copy" --all
        same "the roots of $from in $to" "$out" "$roots"
    done
done

# One value of the copy changed: status 1, and the page by its map, level and key.
key=00000001$(printf key/0100 | od -An -tx1 | tr -d " \n")
run 0 statekv kv put --db "$copy" --space state.values --hex "$key" 00
refused 1 "map 'bank': page of level" statekv verify --db "$copy"
has "what was expected" "$err" 'expected '
finish
