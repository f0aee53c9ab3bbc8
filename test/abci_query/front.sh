#!/usr/bin/env bash
# front.sh - TLS of our own, and nginx in front by the recipe of docs/rpc.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)
statekv=${STATEKV_BUILD:-build/dev}/tools/statekv
command -v openssl >/dev/null || { echo "skipped: openssl is not there"; exit 77; }
tmp=$(mktemp -d)
server= proxy=
trap 'kill $server $proxy 2>/dev/null; wait 2>/dev/null; rm -rf "$tmp"' EXIT
status=0
say() { echo "FAILED $*"; status=1; }
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$tmp/key.pem" -out "$tmp/cert.pem" \
    2>/dev/null || exit 1
for i in $(seq 400); do printf '6b%04x\t76%04x\n' "$i" "$i"; done >"$tmp/pairs.tsv"
"$statekv" import --db "rocksdb:$tmp/data" ibc "$tmp/pairs.tsv" >/dev/null || exit 1
start() { # OPTION...: serve; sets $port
    "$statekv" serve --db "rocksdb:$tmp/data" --laddr tcp://127.0.0.1:0 "$@" >"$tmp/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        port=$(grep -m 1 -oE '127\.0\.0\.1:[0-9]+' "$tmp/log" | cut -d: -f2)
        [ -n "$port" ] && return
        sleep 0.1
    done
    echo "serve did not start: $(cat "$tmp/log")"
    exit 1
}
stop() {
    kill -TERM $server
    wait $server || say "serve ended with $?"
    server=
}
body='{"jsonrpc":"2.0","id":1,"method":"health"}'
want='{"jsonrpc":"2.0","id":1,"result":{}}'
subspace='abci_query?path=%22/store/ibc/subspace%22&data=0x6b'

# TLS of our own
start --set "query.tls_cert=$tmp/cert.pem" --set "query.tls_key=$tmp/key.pem"
get() { curl -s --cacert "$tmp/cert.pem" "$@"; }
[ "$(get "https://localhost:$port/" -d "$body" --next -s --cacert "$tmp/cert.pem" \
    "https://localhost:$port/" -d "$body")" = "$want$want" ] || say "TLS: two on one connection"
[ "$(get --tls-max 1.2 "https://localhost:$port/" -d "$body")" = "$want" ] || say "TLS 1.2"
get --tls-max 1.1 "https://localhost:$port/" -d "$body" >/dev/null && say "TLS 1.1 was served"
[ "$(get "https://localhost:$port/$subspace" | jq -r '.result.response.value | length')" -gt 5000 ] ||
    say "TLS: a large answer"
[ -z "$(curl -s -m 2 "http://127.0.0.1:$port/" -d "$body")" ] || say "plain HTTP on the TLS port"
[ "$(get "https://localhost:$port/" -d "$body")" = "$want" ] || say "TLS after plain HTTP"
stop
for wrong in "query.tls_cert=$tmp/none.pem" "query.tls_cert=$tmp/key.pem"; do
    "$statekv" serve --db "rocksdb:$tmp/data" --laddr tcp://127.0.0.1:0 --set "$wrong" \
        --set "query.tls_key=$tmp/key.pem" 2>"$tmp/err" && say "$wrong was taken"
    grep -q "${wrong#*=}" "$tmp/err" || say "$wrong: $(cat "$tmp/err")"
done
"$statekv" serve --db "rocksdb:$tmp/data" --set "query.tls_cert=$tmp/cert.pem" 2>/dev/null &&
    say "a certificate without its key was taken"

# nginx, with the configuration from the manual
nginx=$(command -v nginx || command -v /usr/sbin/nginx) || { echo "nginx is not there"; exit $status; }
start
front=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
{
    echo "daemon off; pid $tmp/nginx.pid; error_log $tmp/nginx.log; events {}"
    echo "http { access_log off; client_body_temp_path $tmp; proxy_temp_path $tmp;"
    echo "fastcgi_temp_path $tmp; uwsgi_temp_path $tmp; scgi_temp_path $tmp;"
    sed -n '/^    upstream statekv/,/^    }$/p' "$here/../../docs/rpc.md" |
        sed "s/127.0.0.1:26657/127.0.0.1:$port/; s/listen 443/listen 127.0.0.1:$front/; \
             s|ssl_certificate cert.pem|ssl_certificate $tmp/cert.pem|; \
             s|ssl_certificate_key key.pem|ssl_certificate_key $tmp/key.pem|"
    echo "}"
} >"$tmp/nginx.conf"
"$nginx" -c "$tmp/nginx.conf" 2>"$tmp/nginx.err" &
proxy=$!
for _ in $(seq 50); do
    [ "$(get "https://localhost:$front/" -d "$body")" = "$want" ] && break
    sleep 0.1
done
[ "$(get "https://localhost:$front/" -d "$body")" = "$want" ] || say "nginx: $(cat "$tmp/nginx.err" "$tmp/nginx.log")"
[ "$(get "https://localhost:$front/$subspace" | jq -r '.result.response.value | length')" -gt 5000 ] ||
    say "nginx: a large answer"
code=$(get --http1.1 -o "$tmp/socket" -w '%{http_code}' -m 2 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
    -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' "https://localhost:$front/websocket")
[ "$code" = 101 ] || say "nginx: the WebSocket answered $code"
kill $proxy
wait $proxy
proxy=
stop
exit $status
