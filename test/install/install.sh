#!/usr/bin/env bash
# install.sh - a C program outside the tree builds against the installed library, through
# find_package and through pkg-config, as archive and as shared library, and works.
. "$(dirname "$0")/../tools/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
prefix=$tmp/prefix
flags=${1:+-fsanitize=$1}
export CFLAGS="-std=c17 $flags" LDFLAGS="$flags"

run 0 cmake --install "$build" --prefix "$prefix"
lib=$(dirname "$(find "$prefix" -name libstatekv.a)")
export PKG_CONFIG_PATH=$lib/pkgconfig
header_names=$(cd "$prefix/include/statekv" && find . -name '*.h' | sort | xargs)
has "the headers" "$header_names" ' ./kv/kv.h'
has "the headers" "$header_names" './vmap/state.h ./vmap/vmap.h'
run 0 "$prefix/bin/statekv" --version

# Nothing but the public names is shown.
strangers=$(nm -D --defined-only "$lib/libstatekv.so" | awk '{ print $3 }' |
    grep -vE '^(kv|vmap|state|query|reconnect)_' | head -n 3)
same "names shown by libstatekv.so" "$strangers" ""
strangers=$(nm --defined-only --extern-only "$lib/libstatekv.a" 2>/dev/null |
    awk 'NF == 3 && $2 != "W" && $2 != "V" && $2 != "u" { print $3 }' |
    grep -vE '^(kv|vmap|state|query|reconnect|statekv_private)_|^_[_Z]|^DW\.' | head -n 3)
same "names of libstatekv.a that a program could have" "$strangers" ""
nm -D --defined-only "$lib/libstatekv.so" | grep -q ' kv_open$' || fail "kv_open is not shown"

run 0 cmake -S "$here/outside" -B "$tmp/outside" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
run 0 cmake --build "$tmp/outside"
# shellcheck disable=SC2046,SC2086
{
    run 0 cc $CFLAGS $(pkg-config --cflags statekv) "$here/outside/main.c" \
        -o "$tmp/outside/pkg_shared" $(pkg-config --libs statekv) "-Wl,-rpath,$lib"
    run 0 cc $CFLAGS $(pkg-config --cflags statekv) "$here/outside/main.c" \
        -o "$tmp/outside/pkg_archive" \
        $(pkg-config --static --libs statekv | sed 's/-lstatekv/-l:libstatekv.a/')
}
for program in with_archive with_shared pkg_archive pkg_shared; do
    for driver in memory leveldb rocksdb; do
        run 0 "$tmp/outside/$program" $driver "$tmp/$program.$driver"
        same "$program on $driver" "$out" proven
    done
done
has "with_shared uses it" "$(ldd "$tmp/outside/with_shared")" libstatekv.so
has "pkg_shared uses it" "$(ldd "$tmp/outside/pkg_shared")" libstatekv.so
[[ $(ldd "$tmp/outside/pkg_archive") != *libstatekv* ]] || fail "pkg_archive is not static"
finish
