#!/usr/bin/env bash
# stock.sh DRIVER - two versions of npm's stock clients, and Python's, Node's and curl's HTTP,
# against `statekv serve`.
set -u
here=$(cd "$(dirname "$0")" && pwd)
driver=$1
build=${STATEKV_BUILD:-build/dev}
statekv=$build/tools/statekv
. "$here/install.sh"

tmp=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$tmp"' EXIT
{
    printf '616263\t646566\n'
    for i in $(seq 300); do printf '6b%04x\t76%04x\n' "$i" "$i"; done
} >"$tmp/pairs.tsv"
printf '01\t02\n' >"$tmp/other.tsv"
"$statekv" --db "$driver:$tmp/data" import ibc "$tmp/pairs.tsv" >/dev/null || exit 1
"$statekv" --db "$driver:$tmp/data" import bank "$tmp/other.tsv" >/dev/null || exit 1
"$statekv" --db "$driver:$tmp/data" serve --laddr tcp://127.0.0.1:0 >"$tmp/log" 2>&1 &
server=$!
url=
for _ in $(seq 150); do
    url=$(grep -m 1 -oE 'tcp://127\.0\.0\.1:[0-9]+' "$tmp/log") && break
    sleep 0.1
done
[ -n "$url" ] || { echo "serve did not start: $(cat "$tmp/log")"; exit 1; }
url=http://${url#tcp://}

status=0
app_hash=$(curl -s "$url/status" | jq -r .result.sync_info.latest_app_hash | tr A-F a-f)
node "$here/stock.js" "$url" ibc "$app_hash" 616263 646566 \
    61 6162 61626364 6b0001ff 7a ff || status=1
python3 "$here/plain.py" "$url" || status=1
node "$here/plain.js" "$url" || status=1

# curl: reused connections, a large chunked body, 100-continue, HTTP/1.0, HEAD, HTTP/2 offered.
say() { echo "curl: $*"; status=1; }
body='{"jsonrpc":"2.0","id":1,"method":"health"}'
want='{"jsonrpc":"2.0","id":1,"result":{}}'
[ "$(curl -s "$url/" -d "$body" --next -s "$url/" -d "$body")" = "$want$want" ] || say "two on one connection"
[ "$(curl -s -0 "$url/" -d "$body")" = "$want" ] || say "HTTP/1.0"
[ "$(curl -s --http2 "$url/" -d "$body")" = "$want" ] || say "an offer of HTTP/2"
[ "$(curl -s -H 'Transfer-Encoding: chunked' "$url/" -d "$body")" = "$want" ] || say "chunked"
[ "$(curl -s -H 'Expect: 100-continue' "$url/" -d "$body")" = "$want" ] || say "100-continue"
[ "$(curl -s -I -o /dev/null -w '%{http_code}' "$url/status")" = 200 ] || say "HEAD"
[ "$(curl -s --compressed "$url/abci_query?path=%22/store/ibc/subspace%22&data=0x6b" |
    jq -r '.result.response.value | length')" -gt 3000 ] || say "gzip"
[ "$(curl -s "$url/abci_query?path=%22/store/ibc/key%22&data=%22abc%22" |
    jq -r .result.response.value)" = ZGVm ] || say "a quoted key"
head -c 1100000 /dev/zero | tr '\0' x >"$tmp/large"
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/" --data-binary "@$tmp/large")" = 400 ] ||
    say "a body over the limit"

# autocannon and wrk: loads whose answers are checked.
query='{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"store/ibc/key","data":"616263"}}'
curl -s "$url/" -d "$query" >"$tmp/answer"
node "$clients/node_modules/autocannon/autocannon.js" -c 20 -d 2 -m POST -j \
    -H content-type=application/json -b "$query" --expectBody "$(cat "$tmp/answer")" "$url/" \
    >"$tmp/autocannon.json" 2>/dev/null
jq -e '.errors == 0 and .mismatches == 0 and .non2xx == 0 and ."2xx" > 100' "$tmp/autocannon.json" \
    >/dev/null || { say "autocannon: $(jq -c '{errors,mismatches,non2xx}' "$tmp/autocannon.json")"; }
if command -v wrk >/dev/null; then
    WANT=$(cat "$tmp/answer") QUERY=$query wrk -t1 -c20 -d2s -s "$here/check.lua" "$url/" \
        >"$tmp/wrk" 2>&1
    grep -q 'wrong answers: 0, right answers: [1-9]' "$tmp/wrk" || say "wrk: $(cat "$tmp/wrk")"
fi

kill -TERM "$server"
wait "$server" || { echo "serve ended with $?"; status=1; }
server=
[ "$(wc -l <"$tmp/log")" = 1 ] || { echo "serve said more than its line: $(cat "$tmp/log")"; status=1; }
exit $status
