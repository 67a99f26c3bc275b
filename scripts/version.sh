#!/bin/sh
# Prints the version of this tree, that of the workspace in Cargo.toml; with --time the time of its last change, in
# seconds since 1970: that of the last commit, or in a source archive that of its files.
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
--time)
	if [ -e .git ]; then
		git log -1 --format=%ct
	else
		stat -c %Y Cargo.toml
	fi
	;;
*) sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml ;;
esac
