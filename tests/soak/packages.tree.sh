#!/bin/sh
# A Debian tree for the soak "packages", kept between runs: a base system, and in its apt cache every package that
# the soak installs without a network.
#
#   packages.tree.sh SUITE DIRECTORY
set -eu
unset CDPATH

suite=$1 tree=$2
checkout=$(cd "$(dirname "$0")/../.." && pwd)
# For installation without a network: dependencies of onbeat; checkers; build dependencies of DKMS.
packages="systemd libelf1 zlib1g libgcc-s1 man-db mandoc bash-completion fish zsh dkms linux-headers-amd64"
[ "$suite" = bookworm ] || packages=$(echo "$packages" | sed 's/libelf1/libelf1t64/')

# The list of packages names a finished tree.
[ "$(cat "$tree.complete" 2>/dev/null)" != "$packages" ] || exit 0
rm -rf --one-file-system "$tree" "$tree.complete"
"$checkout/scripts/debian-tree.sh" "$suite" "$tree"
# man pages are removed on installation by the configuration of some images; here they are tested.
rm -f "$tree/etc/dpkg/dpkg.cfg.d/docker"
chroot "$tree" sh -eu -c '
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update
	apt-get -q -y upgrade
	apt-get -q -y --no-install-recommends --download-only install '"$packages"' make gcc
' >"$tree.log" 2>&1 || {
	echo "packages: cannot build a tree of $suite; see $tree.log" >&2
	exit 2
}
rm -f "$tree.log"
echo "$packages" >"$tree.complete"
