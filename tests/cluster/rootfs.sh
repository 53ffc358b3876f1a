#!/bin/sh
# rootfs.sh FOLDER UV CONSTRAINTS REQUIREMENT...: a file system with Python and these packages in
# FOLDER/root: Debian's Python 3.11 and what it depends on, unpacked, and packages from PyPI.

here=$(cd "$(dirname "$0")" && pwd)
. "$here/packages.sh"
folder=$1 uv=$2 constraints=$3
shift 3
work=$folder/work
root=$folder/root
log=$folder/build.log
mkdir -p "$work" "$root"

say "downloading Debian's Python"
prepare_apt "$work/apt" >>"$log" 2>&1
apt-get -q -y install --download-only --no-install-recommends \
    python3 busybox-static dash coreutils grep procps sed libstdc++6 libgcc-s1 >>"$log" 2>&1
for name in bin lib lib64 sbin; do
    mkdir -p "$root/usr/$name"
    ln -s "usr/$name" "$root/$name"
done
unpack "$root" "$work"/apt/cache/archives/*.deb
mkdir -p "$root/tmp" "$root/root" "$root/home/hpo" "$root/etc"
chmod 1777 "$root/tmp" "$root/home/hpo"
echo 'root:x:0:0:root:/root:/bin/sh
hpo:x:1000:1000::/home/hpo:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:
hpo:x:1000:' >"$root/etc/group"
ln -sf python3 "$root/usr/bin/python"
rm -rf "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale "$root"/usr/share/info

say "installing $*"
export APT_CONFIG=
"$uv" pip install --quiet --system-certs --python-version 3.11 --only-binary :all: \
    ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} --constraint "$constraints" --no-compile-bytecode \
    --target "$root/usr/local/lib/python3.11/dist-packages" "$@" >>"$log" 2>&1
# Whoever speaks HTTPS wants to know whom to trust, before it says a word.
mkdir -p "$root/etc/ssl/certs"
cp "$root/usr/local/lib/python3.11/dist-packages/certifi/cacert.pem" \
    "$root/etc/ssl/certs/ca-certificates.crt"
# Containers would compile all they import at each start. Packages may have files for a later
# Python, which do not compile.
chroot "$root" /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash \
    /usr/lib/python3.11 /usr/lib/python3 /usr/local/lib/python3.11 >>"$log" 2>&1 ||
    say "not all of Python's files could be compiled"
rm -rf "$work"
say "a file system of $(du -sm "$root" | cut -f 1) MB"
