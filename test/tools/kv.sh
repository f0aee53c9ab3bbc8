#!/usr/bin/env bash
# kv.sh DRIVER - the kv commands on one durable driver.
. "$(dirname "$0")/lib.sh"
driver=$1
db=(--db "$driver:$tmp/data")

run 0 statekv kv put "${db[@]}" alice 100
run 0 statekv kv put "${db[@]}" bob ''
run 0 statekv kv put "${db[@]}" --hex 00ff5c09 0a00
run 0 statekv kv get "${db[@]}" alice
same "a value" "$out" 100
run 0 statekv kv get "${db[@]}" bob
same "an empty value" "$out" ""
run 1 statekv kv get "${db[@]}" carol
same "an absent key says nothing" "$out$err" ""

# Text escapes go both ways.
run 0 statekv kv get "${db[@]}" '\x00\xff\\\x09'
same "escaped value" "$out" '\x0a\x00'
run 0 statekv kv get "${db[@]}" --hex 00FF5C09
same "hex value" "$out" 0a00
run 0 statekv kv put "${db[@]}" 'ä' 'ö\\'
run 0 statekv kv get "${db[@]}" '\xc3\xa4'
same "bytes of UTF-8" "$out" '\xc3\xb6\\'
refused 2 'KEY: the backslash at character 2' statekv kv get "${db[@]}" 'a\q'
refused 2 'KEY: odd number of hex digits, 3' statekv kv get "${db[@]}" --hex abc
refused 2 'KEY: character 2 is not a hex digit' statekv kv get "${db[@]}" --hex 0g

# A value from standard input, and raw out again.
head -c 70000 /dev/urandom >"$tmp/value"
run 0 statekv kv put "${db[@]}" big <"$tmp/value"
statekv kv get "${db[@]}" --raw big >"$tmp/back"
same "a raw value" "$(sha256sum <"$tmp/back")" "$(sha256sum <"$tmp/value")"
run 0 statekv kv delete "${db[@]}" big
run 0 statekv kv delete "${db[@]}" big
run 1 statekv kv get "${db[@]}" big

# Ranges.
for key in a a1 a2 b; do
    run 0 statekv kv put "${db[@]}" --space s $key "$key-value"
done
run 0 statekv kv scan "${db[@]}" --space s
same "all" "$out" $'a\ta-value\na1\ta1-value\na2\ta2-value\nb\tb-value'
run 0 statekv kv scan "${db[@]}" --space s --prefix a --keys --reverse
same "a prefix backwards" "$out" $'a2\na1\na'
run 0 statekv kv scan "${db[@]}" --space s --first a1 --limit b --keys
same "a range" "$out" $'a1\na2'
run 0 statekv kv scan "${db[@]}" --space s --keys -n 1
same "a count" "$out" a
run 0 statekv kv scan "${db[@]}" --space s --prefix a2 --json
same "as JSON" "$out" '{"key":"a2","value":"a2-value"}'
run 0 statekv kv scan "${db[@]}" --hex --prefix 00ff --keys
same "a hex prefix" "$out" 00ff5c09
refused 2 '--prefix goes without' statekv kv scan "${db[@]}" --prefix a --first b
refused 2 'no space called none' statekv kv scan "${db[@]}" --space none

# A space's name is any bytes, printed as it is typed.
run 0 statekv kv put "${db[@]}" --space '\x0a\xff\\' k v
run 0 statekv kv check "${db[@]}"
has "a space's name" "$out" '\x0a\xff\\ '
run 0 statekv kv check "${db[@]}" --json
same "a space's name as JSON" "$(jq -r .space <<<"$out" | head -n 1)" '\x0a\xff\\'
run 0 statekv kv get "${db[@]}" --space '\x0a\xff\\' k
same "a value there" "$out" v

# Looking after it.
run 0 statekv kv stats "${db[@]}" --json
run 0 jq -e '.spaces >= 2 and .live_iterators == 0 and has("keys_estimate") and
    has("size_disk_bytes")' <<<"$out"
run 0 statekv kv check "${db[@]}" --json
same "pairs checked" "$(jq -s 'map(select(.space == "s")) | .[0].pairs' <<<"$out")" 4
run 0 statekv kv compact "${db[@]}"
run 0 statekv kv compact "${db[@]}" --space s --json
run 0 jq -e '.size_after_bytes >= 0' <<<"$out"
run 0 statekv kv get "${db[@]}" --space s a2
same "after compaction" "$out" a2-value

# Damage: checking says in which file, and salvaging is for the engines that can.
case $driver in
shadow) file=$(find "$tmp/data/records" -type f | sort | head -n 1) ;;
*) file=$(ls "$tmp"/data/*.sst "$tmp"/data/*.ldb 2>/dev/null | head -n 1) ;;
esac
printf '\xff\xff\xff\xff' | dd of="$file" bs=1 seek=4 conv=notrunc status=none
run 1 statekv kv check "${db[@]}"
has "the damaged file" "$err" "$(basename "$file")"
case $driver in
rocksdb) refused 2 'no repair' statekv kv repair "${db[@]}" ;;
shadow)
    run 0 statekv kv repair "${db[@]}" --json
    same "what was repaired" "$(jq -r .repaired <<<"$out")" "$tmp/data"
    run 0 statekv kv check "${db[@]}"
    ;;
leveldb)
    statekv kv put --db "$driver:$tmp/lost" key value
    rm "$tmp/lost/CURRENT"
    run 1 statekv kv check --db "$driver:$tmp/lost"
    run 0 statekv kv repair --db "$driver:$tmp/lost" --json
    same "what was repaired" "$(jq -r .repaired <<<"$out")" "$tmp/lost"
    run 0 statekv kv check --db "$driver:$tmp/lost"
    run 0 statekv kv get --db "$driver:$tmp/lost" key
    same "what was salvaged" "$out" value
    ;;
esac
finish
