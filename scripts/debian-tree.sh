#!/bin/sh
# Installs the base system of a Debian suite into a new or empty directory, for chroot.
#
#   scripts/debian-tree.sh SUITE DIRECTORY
#
# MIRROR and SECURITY_MIRROR are addresses of Debian's archive. Exit status: 2: it could not be installed, and the
# directory is removed.
set -eu
. "$(dirname "$0")/lib.sh"

suite=$1 tree=$2
mirror=${MIRROR:-http://deb.debian.org/debian}
security=${SECURITY_MIRROR:-http://deb.debian.org/debian-security}

[ -z "$(ls -A "$tree" 2>/dev/null)" ] || fail "$tree is not empty"
remove_at_exit "$tree"
mkdir -p "$tree"
# The user of apt's downloads reads it.
chmod 755 "$tree"
# In a separate mount namespace: debootstrap mounts /proc and /sys.
unshare --mount --propagation private \
	debootstrap --variant=minbase "$suite" "$tree" "$mirror" >"$tree.log" 2>&1 ||
	fail "debootstrap $suite failed: see $tree.log"
rm -f "$tree.log"
cat >"$tree/etc/apt/sources.list" <<END
deb $mirror $suite main
deb $mirror $suite-updates main
deb $security $suite-security main
END

# The network settings of this machine: name servers, proxy, and certificates beside those of Debian (used once the
# package ca-certificates is installed).
cp /etc/resolv.conf "$tree/etc/resolv.conf"
apt-config dump | grep -E '^Acquire::(https?::|Check-)' >"$tree/etc/apt/apt.conf.d/00host" || true
mkdir -p "$tree/usr/local/share/ca-certificates"
find /usr/local/share/ca-certificates -name '*.crt' \
	-exec cp {} "$tree/usr/local/share/ca-certificates/" \;
trap - EXIT
