#!/usr/bin/env bash
# documents.sh - docs/ holds what the program says about itself, names only options
# that there are, and the pages can be shown.
. "$(dirname "$0")/lib.sh"
command -v help2man >/dev/null || { echo "skipped: help2man is not there"; exit 77; }
run 0 "$top/tools/documents" "$build/tools/statekv" "$tmp/docs"
for page in commands.md options.md man; do
    run 0 diff -ru "$top/docs/$page" "$tmp/docs/$page" ||
        echo "$page is old: run tools/documents $build/tools/statekv"
done
# Nothing that a command says of its own is lost on the way.
while read -r line; do
    grep -qF -- "$line" "$top/docs/commands.md" || fail "commands.md lacks: $line"
done < <(for name in migrate export "kv stats" verify; do
    # shellcheck disable=SC2086 # two words where there are two
    COLUMNS=80 statekv $name --help | sed '/^ Options of every command:$/,/^$/d' |
        grep -vE -- '^$|--help |--usage |^Mandatory or|^for any corr'
done)
# Every option that a page or a help text names can be set.
"$build/tools/statekv" options | grep -oE '^[a-z]+\.[a-z._]+' >"$tmp/options"
named=$(cat "$top"/README.md "$top"/docs/*.md "$top"/docs/*/*.md "$tmp"/docs/man/*.1 |
    grep -oE '\b(kv\.(rocksdb|leveldb|memory|shadow)|vmap|query|reconnect|bitswap)\.[a-z_]+' |
    grep -vE '\.(c|h|md|json|html|svg|sh)$' | sort -u)
[ "$(wc -w <<<"$named")" -gt 10 ] || fail "pages name only $(wc -w <<<"$named") options"
for name in $named; do
    grep -qxF "$name" "$tmp/options" || fail "a page names the option $name, which there is not"
done
if command -v man >/dev/null; then
    for page in "$tmp"/docs/man/*.1; do
        run 0 env MANWIDTH=80 man --warnings -l "$page"
        same "${page##*/}: warnings" "$err" ""
    done
fi
finish
