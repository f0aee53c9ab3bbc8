# lib.sh - sourced by the scripts that reconnect as processes: a folder of their own, removed
# at the end with the teachers that were started.
set -eu
statekv=${STATEKV_BUILD:?}/tools/statekv
[ -x "$statekv" ] || { echo "no statekv program"; exit 77; }
tmp=$(mktemp -d /tmp/reconnect-XXXXXX)
teachers=()
cleanup() {
    [ ${#teachers[@]} -eq 0 ] || kill "${teachers[@]}" 2>/dev/null || true
    wait || true
    rm -rf "$tmp"
}
trap cleanup EXIT

pairs() { # FIRST LIMIT SALT
    for ((i = $1; i < $2; i++)); do printf '%016x\t%08x%08x\n' "$i" "$i" "$3"; done
}
