#!/usr/bin/env bash
# page.sh - the live page of `statekv load`, opened in headless Chromium: the drawn figures are
# read back from the page.
set -u
statekv=${STATEKV_BUILD:-build/dev}/tools/statekv
command -v chromium >/dev/null || { echo "skipped: chromium is not there"; exit 77; }
tmp=$(mktemp -d)
server= load=
trap 'kill $server $load 2>/dev/null; rm -rf "$tmp"' EXIT
printf '616263\t646566\n' >"$tmp/pairs.tsv"
"$statekv" import --db "rocksdb:$tmp/data" ibc "$tmp/pairs.tsv" >/dev/null || exit 1
"$statekv" serve --db "rocksdb:$tmp/data" --laddr tcp://127.0.0.1:0 >"$tmp/serve" 2>&1 &
server=$!
find_line() { # FILE REGEX: wait for it
    for _ in $(seq 100); do
        grep -m 1 -oE "$2" "$1" 2>/dev/null && return
        sleep 0.1
    done
    echo "no line $2 in $1: $(cat "$1")" >&2
    return 1
}
address=$(find_line "$tmp/serve" '127\.0\.0\.1:[0-9]+') || exit 1
"$statekv" load "http://$address/health" -c 4 -d 60s --listen 127.0.0.1:0 >"$tmp/report" 2>"$tmp/load" &
load=$!
page=$(find_line "$tmp/load" 'http://127\.0\.0\.1:[0-9]+/') || exit 1
sleep 4
timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" \
    --virtual-time-budget=3000 --dump-dom "$page" >"$tmp/dom" 2>/dev/null
status=0
figure() { grep -oE "id=\"$1\">[0-9.]+" "$tmp/dom" | head -n 1 | cut -d'>' -f2; }
for name in rps p50 p99; do
    value=$(figure $name)
    awk -v v="${value:-0}" 'BEGIN { exit !(v > 0) }' || { echo "no figure $name on the page"; status=1; }
done
[ "$(grep -oE 'class="series"[^>]*data-points="[0-9]+"' "$tmp/dom" | wc -l)" -ge 4 ] ||
    { echo "not all series are drawn"; status=1; }
points=$(grep -oE 'data-points="[0-9]+"' "$tmp/dom" | head -n 1 | grep -oE '[0-9]+')
[ "${points:-0}" -ge 2 ] || { echo "only ${points:-0} points are drawn"; status=1; }
grep -q 'Latency Percentile:' "$tmp/dom" || { echo "no report on the page"; status=1; }
kill -TERM $load
wait $load || { echo "load ended with $?: $(tail -n 3 "$tmp/load")"; status=1; }
grep -q 'P99.99' "$tmp/report" || { echo "no report"; status=1; }
[ $status = 0 ] || head -c 1500 "$tmp/dom"
exit $status
