#!/bin/sh
# Prints the version of this tree, that of the workspace in Cargo.toml; with --time the time of its last change, in
# seconds since 1970: that of the last commit, or in a source archive that of its files. With --check it fails unless
# the kernel module has the same version.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"
case ${1:-} in
--time)
	if [ -e .git ]; then
		git log -1 --format=%ct
	else
		stat -c %Y Cargo.toml
	fi
	;;
--check)
	version=$(scripts/version.sh)
	module=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' kmod/dkms.conf)
	[ "$module" = "$version" ] ||
		fail "kmod/dkms.conf has \"$module\", Cargo.toml \"$version\"; set both to the same version"
	;;
*) sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml ;;
esac
