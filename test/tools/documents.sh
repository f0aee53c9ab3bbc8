#!/usr/bin/env bash
# documents.sh - docs/ holds what the program says about itself, and the pages can be shown.
. "$(dirname "$0")/lib.sh"
command -v help2man >/dev/null || { echo "skipped: help2man is not there"; exit 77; }
run 0 "$top/tools/documents" "$build/tools/statekv" "$tmp/docs"
for page in commands.md options.md man; do
    run 0 diff -ru "$top/docs/$page" "$tmp/docs/$page" ||
        echo "$page is old: run tools/documents $build/tools/statekv"
done
if command -v man >/dev/null; then
    for page in "$tmp"/docs/man/*.1; do
        run 0 env MANWIDTH=80 man --warnings -l "$page"
        same "${page##*/}: warnings" "$err" ""
    done
fi
finish
