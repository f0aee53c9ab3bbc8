#!/usr/bin/env bash
# serve.sh DRIVER - the query service as a relayer meets it: the request that started this
# project, byte for byte, its proof, bad requests, and a database in use.
. "$(dirname "$0")/lib.sh"
db=(--db "$1:$tmp/data")
key=636C69656E74732F30372D74656E6465726D696E742D39322F636C69656E745374617465
printf '%s\t0a0462617a\n' $key | statekv import "${db[@]}" ibc - --json >"$tmp/imported"
app_hash=$(jq -r .app_hash "$tmp/imported")
serve "${db[@]}"

post() {
    curl -sS -H 'Content-Type: application/json' -d "$1" "$url"
}

id=2229fc7c-534a-462d-9c90-fefad1726e24
request='{"jsonrpc":"2.0","id":"'$id'","method":"abci_query","params":{"path":"store/ibc/key","data":"'$key'","prove":false}}'
same "the request's size" "${#request}" 213
key64=$(printf 'clients/07-tendermint-92/clientState' | base64)
wanted='{"jsonrpc":"2.0","id":"'$id'","result":{"response":{"code":0,"log":"","info":"","index":"0","key":"'$key64'","value":"CgRiYXo=","proofOps":null,"height":"1","codespace":""}}}'
same "the answer" "$(post "$request")" "$wanted"

# With a proof, checked by the program against status's app hash.
post "${request/false/true}" >"$tmp/answer"
status=$(curl -sS "$url/status")
same "status's app hash" "$(jq -r .result.sync_info.latest_app_hash <<<"$status")" "$app_hash"
same "status's height" "$(jq -r .result.sync_info.latest_block_height <<<"$status")" 2
run 0 statekv verify-proof --hex "$app_hash" ibc $key 0a0462617a <"$tmp/answer"
run 1 statekv verify-proof --hex "$app_hash" ibc $key 0a0462617b <"$tmp/answer"
curl -sS "$url/abci_query?path=\"/store/ibc/key\"&data=\"nobody\"&prove=true" >"$tmp/answer"
run 0 statekv verify-proof "$app_hash" ibc nobody <"$tmp/answer"
run 1 statekv verify-proof "$app_hash" ibc nobod <"$tmp/answer"
has "app/version" "$(post '{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"/app/version"}}')" '"code":0'
has "health" "$(curl -sS "$url/health")" '"result":{}'

# Bad requests: each its own message, and the next good one is answered as before.
has "no JSON" "$(post '{"jsonrpc":')" '"code":-32700'
has "odd data" "$(post "${request/$key/abc}")" 'odd length'
has "no hex" "$(post "${request/$key/xy}")" 'invalid byte'
has "no such store" "$(post "${request/ibc/none}")" 'no such store: none'
has "no key" "$(post "${request/$key/}")" 'query cannot be zero length'
has "no such method" "$(post "${request/abci_query/fly}")" '"code":-32601'
same "the answer after all that" "$(post "$request")" "$wanted"

# The log: one line an event, as text and as JSON; the engine's and the state's figures.
stop_logged() { kill -TERM "$server"; run 0 wait "$server"; }
stop
serve "${db[@]}" --log-level debug --log-format json --metrics tcp://127.0.0.1:0 --set query.threads=1
metrics=http://$(grep -oE '127.0.0.1:[0-9]+' "$tmp/.serve" | tail -n 1)/metrics
post "$request" >/dev/null
post "$request" >/dev/null
curl -sS "$metrics" >"$tmp/figures"
for figure in 'statekv_query_cache_hits 1' 'statekv_query_cache_misses 1' 'statekv_state_version 1' \
    'statekv_state_keys 1' 'statekv_figures_failed 0'; do
    has "figures" "$(cat "$tmp/figures")" "
$figure"
done
has "the engine's figures" "$(cat "$tmp/figures")" "
statekv_engine_size_disk_bytes "
same "figures of one name" "$(grep -c '^statekv' "$tmp/figures")" \
    "$(grep '^statekv' "$tmp/figures" | cut -d' ' -f1 | sort -u | wc -l)"
stop_logged
run 0 jq -e . "$tmp/.serve.err"
same "events" "$(jq -r .event "$tmp/.serve.err" | sort | uniq -c | awk '{ print $1 $2 }' | xargs)" \
    "2call 1closed 2listening"
same "a call" "$(jq -c 'select(.event == "call") | [.level, .method, .code]' "$tmp/.serve.err" | head -n 1)" \
    '["debug","abci_query","OK"]'
serve "${db[@]}" --log-level info
stop_logged
same "lines of text" "$(grep -cE '^[0-9T:.-]+Z info (listening address=tcp://127.0.0.1:[0-9]+|closed)$' "$tmp/.serve.err")" 2
refused 2 "query.log_level" timeout 10 "$build/tools/statekv" serve "${db[@]}" --log-level loud
serve "${db[@]}"

# One process has the database.
refused 3 "$tmp/data" statekv kv put "${db[@]}" key value
has "a database in use" "$err" open
stop
refused 2 99999 timeout 10 "$build/tools/statekv" serve "${db[@]}" --laddr tcp://127.0.0.1:99999
run 0 statekv verify "${db[@]}"
finish
