# Installs the Debian packages that a build needs. tools/check and tools/demo source this file.
# SKEP_MORE_PACKAGES lists additional packages.
# shellcheck shell=bash

readonly PACKAGES=(gcc libc6-dev meson ninja-build pkg-config python3 libcmocka-dev libsodium-dev
    libfyaml-dev libjansson-dev libsqlite3-dev libzmq3-dev libmsgpack-dev libpcre2-dev
    zlib1g-dev libzstd-dev)

missing_packages() {
    local package
    # shellcheck disable=SC2086
    for package in "${PACKAGES[@]}" ${SKEP_MORE_PACKAGES:-}; do
        if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            echo "$package"
        fi
    done
}

install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "not a Debian system: install the equivalents of ${PACKAGES[*]}"
        return
    fi
    local as_root=() missing
    mapfile -t missing < <(missing_packages)
    if [ "${#missing[@]}" -eq 0 ]; then
        return
    fi
    echo "installing ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "${missing[@]}"
}
