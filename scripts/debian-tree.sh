#!/bin/sh
# Installs the base system of a Debian suite into a directory, to enter by chroot.
#
#   scripts/debian-tree.sh SUITE DIRECTORY
#
# MIRROR and SECURITY_MIRROR say where Debian comes from. Exit status: 2: it could not be installed.
set -eu

suite=$1 tree=$2
mirror=${MIRROR:-http://deb.debian.org/debian}
security=${SECURITY_MIRROR:-http://deb.debian.org/debian-security}

mkdir -p "$tree"
# apt fetches as a user of its own, who must get in.
chmod 755 "$tree"
# In a mount namespace of its own: it mounts /proc and /sys there while it works.
unshare --mount --propagation private \
	debootstrap --variant=minbase "$suite" "$tree" "$mirror" >"$tree.log" 2>&1 || {
	echo "debian-tree: debootstrap $suite failed: see $tree.log" >&2
	exit 2
}
rm -f "$tree.log"
cat >"$tree/etc/apt/sources.list" <<END
deb $mirror $suite main
deb $mirror $suite-updates main
deb $security $suite-security main
END

# How this machine reaches the world: its names, its proxy, the certificates it trusts beside
# Debian's (these do nothing until the package ca-certificates takes them up).
cp /etc/resolv.conf "$tree/etc/resolv.conf"
apt-config dump | grep -E '^Acquire::(https?::|Check-)' >"$tree/etc/apt/apt.conf.d/00host" || true
mkdir -p "$tree/usr/local/share/ca-certificates"
find /usr/local/share/ca-certificates -name '*.crt' \
	-exec cp {} "$tree/usr/local/share/ca-certificates/" \;
