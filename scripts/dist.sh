#!/bin/sh
# Builds a source archive with the crates that it needs: it builds without a network.
#
#   scripts/dist.sh [DIRECTORY]     onbeat-VERSION.tar.xz is written there; out/dist where it is not given
#
# The same commit gives the same archive. Exit status: 2: it could not be built.
set -eu
unset CDPATH

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/out/dist}"
out=$(cd "${1:-$root/out/dist}" && pwd)
cd "$root"
case ${CARGO:-scripts/cargo} in
/*) cargo=$CARGO ;;
*) cargo=$root/${CARGO:-scripts/cargo} ;;
esac
name=onbeat-$(scripts/version.sh)
: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"

rm -rf "${out:?}/$name"
scripts/export.sh "$out/$name"
cd "$out/$name"
mkdir -p .cargo
# scripts/crates.sh finds a crate's licenses by its name and version.
"$cargo" vendor --locked --versioned-dirs vendor >"$out/config" 2>"$out/vendor.log" || {
	cat "$out/vendor.log" >&2
	exit 2
}
mv "$out/config" .cargo/config.toml
rm "$out/vendor.log"
"$root/scripts/archive.sh" "$out/$name" "$SOURCE_DATE_EPOCH"
