#!/bin/sh
# Build and run the embedding examples against the build's shared library, on every
# driver, and compare what they print. 77: what they need is not here.
set -eu
sanitize=${1:-}
build=$STATEKV_BUILD
source=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -e "$build/libstatekv.so" ] || { echo "no libstatekv.so in $build"; exit 77; }

printf 'user/alice 70\nuser/bob 30\n' > "$work/expected"
printf 'user/alice 140\nuser/bob 60\n' > "$work/again"

# check NAME COMMAND: on each driver twice, so that the second run finds the first's data
check() {
    for driver in memory leveldb rocksdb shadow; do
        "$2" "$driver:$work/$1-$driver" > "$work/printed"
        cmp "$work/printed" "$work/expected"
        "$2" "$driver:$work/$1-$driver" > "$work/printed"
        if [ $driver = memory ]; then
            cmp "$work/printed" "$work/expected"
        else
            cmp "$work/printed" "$work/again"
        fi
    done
    if "$2" "leveldb:$work/$1-rocksdb" 2> "$work/printed"; then
        echo "$1: opened another engine's folder"
        exit 1
    fi
    grep -q "holds rocksdb" "$work/printed"
    echo "$1: as expected on memory, leveldb, rocksdb and shadow"
}

flags=
[ -z "$sanitize" ] || flags="-fsanitize=$sanitize"
# shellcheck disable=SC2086
cc -std=c17 -Wall -Wextra -Werror $flags -I"$source" "$source/examples/c/balances.c" \
    -o "$work/balances-c" -L"$build" -lstatekv -Wl,-rpath,"$build"
check c "$work/balances-c"

link="-L$build -lstatekv -Wl,-rpath,$build"
missing=

go=/usr/bin/go # Debian's; a newer one elsewhere would want to fetch a toolchain
[ -x "$go" ] || go=$(command -v go) || missing="$missing go"
if [ -x "$go" ]; then
    cp -r "$source/examples/go" "$work/go"
    cd "$work/go"
    export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GOCACHE="$work/cache" GOPATH="$work/path"
    export CGO_ENABLED=1 CGO_CFLAGS="-I$source $flags" CGO_LDFLAGS="$link $flags"
    "$go" vet ./...
    "$go" build ${sanitize:+-asan} -o "$work/balances-go" .
    check go "$work/balances-go"
fi

rustc=$(command -v rustc) || missing="$missing rustc"
if [ -n "$rustc" ]; then
    cd "$source/examples/rust"
    rust() { "$rustc" --edition 2021 -D warnings --out-dir "$work" "$@"; }
    rust --crate-type rlib statekv.rs
    # shellcheck disable=SC2086
    rust --extern statekv="$work/libstatekv.rlib" -L "$build" -l statekv \
        -C link-arg=-Wl,-rpath,"$build" ${flags:+-C link-arg=$flags} balances.rs
    printf '#!/bin/sh\nLD_PRELOAD="%s" exec "%s" "$@"\n' \
        "${sanitize:+$(cc -print-file-name=libasan.so)}" "$work/balances" >"$work/balances-rust"
    chmod +x "$work/balances-rust"
    check rust "$work/balances-rust"
fi

[ -z "$missing" ] || { echo "not run, for want of$missing"; exit 77; }
