#!/bin/sh
# Builds a source archive with the crates that it needs: it builds without a network.
#
#   scripts/dist.sh [DIRECTORY]     writes onbeat-VERSION.tar.xz there; default: out/dist
#
# The same commit gives the same archive. Exit status: 2: it could not be built.
set -eu
. "$(dirname "$0")/lib.sh"

out=$(directory "${1:-$root/out/dist}")
cd "$root"
name=onbeat-$(scripts/version.sh)
: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"

work=$(mktemp -d "$out/work.XXXXXX")
remove_at_exit "$work"
scripts/export.sh "$work/$name"
cd "$work/$name"
mkdir -p .cargo
# scripts/crates.sh finds a crate's licenses by its name and version.
"$cargo" vendor --locked --versioned-dirs vendor >"$work/config" 2>"$work/log" || {
	cat "$work/log" >&2
	exit 2
}
mv "$work/config" .cargo/config.toml
"$root/scripts/archive.sh" "$work/$name" "$out" "$SOURCE_DATE_EPOCH"
