#!/bin/sh
# Builds a source archive with the crates that it needs: it builds without a network.
#
#   scripts/dist.sh [DIRECTORY]     onbeat-VERSION.tar.xz is written there; out/dist where it is not given
#
# The same commit gives the same archive. Exit status: 2: it could not be built.
set -eu

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
cd "$out"
# Blocks of xz with one thread differ from those with several.
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
	-cf - "$name" | xz -T2 -6 >"$name.tar.xz.part"
mv "$name.tar.xz.part" "$name.tar.xz"
rm -rf "${out:?}/$name"
sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256"
