#!/usr/bin/env bash
# bad_input.sh DRIVER - each fault has its own clear message and changes nothing.
. "$(dirname "$0")/lib.sh"
driver=$1
other=$([ "$driver" = leveldb ] && echo rocksdb || echo leveldb)
db=(--db "$driver:$tmp/data")

run 0 statekv kv put "${db[@]}" key value
refused 3 'holds no state; statekv import' statekv root "${db[@]}"
printf '6b31\t7631\n6b32\t7632\n' >"$tmp/good.tsv"
run 0 statekv import "${db[@]}" bank "$tmp/good.tsv"
before=$(statekv kv scan "${db[@]}"; statekv root "${db[@]}"; statekv versions "${db[@]}")

# unchanged: what was there is there, and nothing else.
unchanged() {
    local after
    after=$(statekv kv scan "${db[@]}"; statekv root "${db[@]}"; statekv versions "${db[@]}")
    same "the store is unchanged" "$after" "$before"
}

# unmoved: the same after a refused import, by version and app hash.
versions=$(statekv versions "${db[@]}")
unmoved() {
    same "the state after a refused import" "$(statekv versions "${db[@]}")" "$versions"
}

# The command line and the config file.
refused 2 'no database named' statekv kv get key
refused 2 'no-such-engine' statekv kv get --db "no-such-engine:$tmp/data" key
refused 2 '--db rocksdb' statekv kv get --db rocksdb key
refused 2 '--no-such' statekv kv get "${db[@]}" --no-such key
refused 2 '--space' statekv kv get key "${db[@]}" --space
refused 2 'unexpected argument two' statekv kv get "${db[@]}" one two
refused 2 'no such command: kv fly' statekv kv fly
refused 2 'no command given' statekv
refused 2 "kv.$driver.no_such" statekv --set "kv.$driver.no_such=1" kv get "${db[@]}" key
refused 2 "$tmp/none.toml" statekv kv get --config "$tmp/none.toml" key
printf 'db_backend = "%s"\ndb_dir = "data"\n[kv.%s]\nno_such_option = 1\n' \
    "$driver" "$driver" >"$tmp/misspelt.toml"
refused 2 'misspelt.toml:4' statekv kv get --config "$tmp/misspelt.toml" key
has "a misspelt option" "$err" no_such_option
printf 'db_backend = "%s"\ndb_dir = "data"\n[vmap]\npage_bits = 99\n' "$driver" \
    >"$tmp/range.toml"
refused 2 'range.toml:4' statekv root --config "$tmp/range.toml"
has "a value out of range" "$err" page_bits
printf 'db_backend = "%s"\ndb_dir = \n' "$driver" >"$tmp/broken.toml"
refused 2 'broken.toml:2' statekv kv get --config "$tmp/broken.toml" key
printf 'db_backend = "no-such-engine"\n' >"$tmp/engine.toml"
refused 2 'no-such-engine' statekv kv get --config "$tmp/engine.toml" key
if [ "$(id -u)" -ne 0 ]; then
    touch "$tmp/secret.toml" && chmod 0 "$tmp/secret.toml"
    refused 2 "$tmp/secret.toml" statekv kv get --config "$tmp/secret.toml" key
fi
unchanged

# The folder.
refused 3 "$tmp/nothing" statekv kv get --db "$driver:$tmp/nothing" key
same "a get makes no folder" "$(ls -d "$tmp/nothing" 2>/dev/null)" ""
refused 2 "$tmp/data" statekv kv put --db "$other:$tmp/data" key other
has "another engine's folder" "$err" "$driver"
touch "$tmp/file"
refused 2 "$tmp/file" statekv kv put --db "$driver:$tmp/file" key value
unchanged

# The same engine's database, made by another program: no marker of ours.
if [ "$driver" != shadow ]; then
    cp -r "$tmp/data" "$tmp/foreign" && rm "$tmp/foreign/STATEKV"
    refused 2 'did not make: name a new folder' statekv kv check --db "$driver:$tmp/foreign"
    refused 2 'did not make: name a new folder' statekv kv put --db "$driver:$tmp/foreign" k v
fi

# Copies that would be lost, or of another database than was meant.
refused 2 'memory keeps nothing' statekv migrate --from "$driver:$tmp/data" --to memory:x
refused 2 'not --db' statekv migrate "${db[@]}" --from "$driver:$tmp/data" --to "$other:$tmp/copy"

# Standard output that cannot be written.
refused_output() { statekv export "${db[@]}" bank >/dev/full; }
refused 3 'standard output: ' refused_output
[[ $err != *directory* ]] || fail "an unrelated reason: $err"

# Spaces.
refused 2 'no space called none; statekv' statekv kv get "${db[@]}" --space none key
refused 2 'no space called none; statekv' statekv kv compact "${db[@]}" --space none
refused 2 '--space: the backslash' statekv kv put "${db[@]}" --space '\q' key value
refused 2 'has no NUL' statekv kv put "${db[@]}" --space 'a\x00b' key value
unchanged

# Keys.
refused 2 'key' statekv kv put "${db[@]}" '' value
refused 2 'key' statekv kv put "${db[@]}" "$(head -c 65536 /dev/zero | tr '\0' k)" value
unchanged

# tsv.
bad_tsv() { # LINES MESSAGE
    printf "$1" >"$tmp/bad.tsv"
    refused 2 "$2" statekv import "${db[@]}" --batch 1 bank "$tmp/bad.tsv"
    unmoved
}
bad_tsv '6b33\t7633\n6b3\t76\n' 'bad.tsv:2: key: odd number of hex digits, 3'
bad_tsv '6b33\t7633\n6b34\t76z4\n' 'bad.tsv:2: value: character 3 is not a hex digit'
bad_tsv '6b33\t7633\n\t7634\n' 'bad.tsv:2: empty key'
bad_tsv '6b33\t7633\n\n' 'bad.tsv:2: empty key'
bad_tsv '6b33\t\n' 'bad.tsv:1: map bank: empty value'
bad_tsv '6b33\t7633\r\n' 'bad.tsv:1: value: character 5'
refused 2 "$tmp/none.tsv" statekv import "${db[@]}" bank "$tmp/none.tsv"
refused 2 'tsv lines need the name of a MAP' statekv import "${db[@]}" - "$tmp/good.tsv"
refused 2 'a/b' statekv import "${db[@]}" a/b "$tmp/good.tsv"
refused 2 '--batch 0' statekv import "${db[@]}" --batch 0 bank "$tmp/good.tsv"
refused 2 '--format xml' statekv import "${db[@]}" --format xml bank "$tmp/good.tsv"
unchanged

# A pipe by a path is read as one; a folder is none.
run 0 statekv import --db "$other:$tmp/piped" bank <(cat "$tmp/good.tsv")
refused 2 'is a folder' statekv import "${db[@]}" bank "$tmp"

# JSON.
bad_json() { # TEXT MESSAGE
    printf '%s' "$1" >"$tmp/bad.json"
    refused 2 "$2" statekv import "${db[@]}" --batch 1 - "$tmp/bad.json"
    unmoved
}
bad_json $'{"bank":{\n"a":1,\n"b":' 'bad.json:3: no JSON'
bad_json '{"bank":{"a":1,"b":"cut' 'bad.json:1: no JSON'
bad_json '' 'bad.json:1: no JSON'
bad_json '[1,2]' 'bad.json:1: no JSON'
bad_json '{"bank":{"a":1}} more' 'or more text follows'
bad_json '{"bank":{"a":01}}' 'bad.json:1: no JSON'
bad_json '{"bank":{"a":1.}}' 'bad.json:1: no JSON'
bad_json '{"bank":{"a":nul}}' 'bad.json:1: no JSON'
bad_json '{"bank":{"a":"\q"}}' 'bad.json:1: no JSON'
bad_json '{"bank":{"a":1 "b":2}}' 'bad.json:1: no JSON'
bad_json '{"bank":{"a":[1,2}}' 'bad.json:1: no JSON'
bad_json $'{"bank":{"a":"\xff"}}' 'bad.json:1: no JSON'
bad_json '{"bank":{"":1}}' 'empty key'
bad_json '{"a/b":{"a":1}}' 'a/b'
bad_json "$(printf '{"bank":'; printf '[%.0s' $(seq 300))" 'bad.json:1: no JSON'
printf '{"bank":{"a":1}}' >"$tmp/good.json"
refused 2 'no member called staking' statekv import "${db[@]}" staking "$tmp/good.json"
unchanged

# Versions and proofs.
refused 2 '9' statekv root "${db[@]}" --version 9
refused 2 '--version x' statekv root "${db[@]}" --version x
refused 2 'none' statekv root "${db[@]}" none
refused 2 'none' statekv export "${db[@]}" none
refused 2 'none' statekv prove "${db[@]}" none key
app_hash=$(statekv root "${db[@]}" --json | jq -r .app_hash)
statekv prove "${db[@]}" bank k1 >"$tmp/proof"
refused 2 'no array called ops' statekv verify-proof "$app_hash" bank k1 v1 <<<'{}'
refused 2 'standard input:1: no JSON' statekv verify-proof "$app_hash" bank k1 v1 <<<'{"ops":['
refused 2 'APPHASH: odd' statekv verify-proof "${app_hash}0" bank k1 v1 <"$tmp/proof"
refused 2 'APPHASH: 31 bytes' statekv verify-proof "${app_hash%??}" bank k1 v1 <"$tmp/proof"
refused 2 'no base64' statekv verify-proof "$app_hash" bank k1 v1 \
    <<<'{"ops":[{"type":"ics23:iavl","key":"*","data":""}]}'
refused 1 '' statekv verify-proof "$app_hash" bank k1 v2 <"$tmp/proof"
refused 1 '' statekv verify-proof "$app_hash" bank k1 <"$tmp/proof"
refused 1 '' statekv verify-proof "$app_hash" bank k2 v2 <"$tmp/proof"
refused 1 '' statekv verify-proof "$app_hash" ban k1 v1 <"$tmp/proof"
unchanged
finish
