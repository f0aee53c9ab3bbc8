# packages.sh - sourced: install_packages build|test, from tools/packages.txt.
# Says nothing about what is there already; one line about what cannot be had.

# The names to install, of the file's first part or (test) of both.
missing_packages() {
    local group=$1 word package command
    while read -r word _; do
        case $word in
        '##') [ "$group" = test ] || break ;;
        '' | '#'*) ;;
        *)
            package=${word%%:*} command=${word#*:}
            [ "$command" != "$word" ] && command -v "$command" >/dev/null && continue
            [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
                echo "$package"
            ;;
        esac
    done <"$top/tools/packages.txt"
}

install_packages() {
    local missing as_root=() log
    command -v dpkg-query >/dev/null ||
        { echo "$0: needs Debian 12 or one of its kin: dpkg is missing" >&2; return 1; }
    mapfile -t missing < <(missing_packages "$1")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
            { echo "$0: run as root or with sudo; missing: ${missing[*]}" >&2; return 1; }
        as_root=(sudo -n)
    fi
    echo "installing ${#missing[@]} packages: ${missing[*]}"
    log=$(mktemp)
    if "${as_root[@]}" apt-get update -qq >"$log" 2>&1 &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    echo "$0: cannot install ${missing[*]}: $(grep -m1 '^E:' "$log"); see $log" >&2
    return 1
}
