# install.sh - sourced: the clients of package-lock.json in $clients, installed once for all
# tests of a build; exit status 77, skipped, where that cannot be. Wants $build.
command -v node >/dev/null && command -v npm >/dev/null ||
    { echo "skipped: node or npm is not there"; exit 77; }
clients=$build/clients
package=$(dirname "${BASH_SOURCE[0]}")
mkdir -p "$clients"
(
    flock 9
    if ! cmp -s "$package/package-lock.json" "$clients/installed.json"; then
        cp "$package/package.json" "$package/package-lock.json" "$clients"
        (cd "$clients" && npm ci --ignore-scripts --no-audit --no-fund) >"$clients/npm.log" 2>&1 &&
            cp "$package/package-lock.json" "$clients/installed.json"
    fi
) 9>"$clients/lock"
cmp -s "$package/package-lock.json" "$clients/installed.json" ||
    { echo "skipped: npm cannot install the clients: $(tail -n 1 "$clients/npm.log")"; exit 77; }
export NODE_PATH=$clients/node_modules
