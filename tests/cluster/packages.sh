# Sourced by the two build scripts: apt with a state of its own, beside the machine's.
# Nothing is installed: packages are only unpacked into the build's folder.

set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

began=$(date +%s)
say() { printf '  %4d s  %s\n' "$(($(date +%s) - began))" "$*"; }

# Makes apt look at one suite of the mirror that this machine uses already, with sources.
# $1: where apt keeps its state.
prepare_apt() {
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep '/debian/*$' | head -n 1)
    [ -n "$mirror" ] || { echo "apt knows no mirror of Debian: run apt-get update" >&2; return 1; }
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/sources"
    : >"$1/status"
    cat >"$1/sources/debian.sources" <<SOURCES
Types: deb deb-src
URIs: $mirror
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
    cat >"$1/apt.conf" <<CONFIG
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$1/sources";
Dir::State::lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
CONFIG
    export APT_CONFIG="$1/apt.conf"
    apt-get -q update
}

# Unpacks packages as an installation would lay them out, without running their scripts.
# $1: the folder; the rest: .deb files.
unpack() {
    root=$1
    shift
    for package in "$@"; do
        dpkg-deb --fsys-tarfile "$package" | tar -C "$root" --keep-directory-symlink -xf -
    done
}
