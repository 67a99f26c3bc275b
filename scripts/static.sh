#!/bin/sh
# Builds a tar file of static programs, for machines without a package of onbeat: they need no library, not even a C
# library. They are linked with glibc, libelf and zlib of this machine.
#
#   scripts/static.sh [DIRECTORY]     onbeat-VERSION-MACHINE-linux.tar.xz is written there; out/static if not given
#
# Static programs lack what libpcap does, which cannot be loaded into them: --filter, --filter-in and --filter-out of
# `onbeat delay`, and the row "libpcap" of `onbeat bench port`.
# Exit status: 2: it could not be built.
set -eu
unset CDPATH

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/out/static}"
out=$(cd "${1:-$root/out/static}" && pwd)
cd "$root"
cargo=${CARGO:-scripts/cargo}
cc=${CC:-cc}
machine=$(uname -m)
target=$machine-unknown-linux-gnu
name=onbeat-$(scripts/version.sh)-$machine-linux
programs=${CARGO_TARGET_DIR:-target}/$target/release
: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"

fail() {
	echo "static: $*" >&2
	exit 2
}

archive=$($cc -print-file-name=libelf.a)
[ "$archive" != libelf.a ] || fail "no libelf.a; install it (apt-get install libelf-dev zlib1g-dev)"
LIBBPF_SYS_LIBRARY_PATH=$(dirname "$archive")
export LIBBPF_SYS_LIBRARY_PATH
# A target that is given keeps these flags from build scripts.
RUSTFLAGS="-C target-feature=+crt-static" "$cargo" build --locked --profile release --target "$target" \
	--package onbeat --package onbeat-lab --package onbeat-bpf --features onbeat/parquet,onbeat-bpf/static || exit 2

work=$out/$name
rm -rf "$work" "$work.files"
DESTDIR=$work.files PREFIX=/usr/local scripts/install.sh "$programs/onbeat" "$programs/onbeat-lab"
mv "$work.files/usr/local" "$work"
rm -r "$work.files"
find "$work" -name .debug -prune -exec rm -r {} +
scripts/crates.sh --package onbeat --package onbeat-lab --features onbeat/parquet >"$work/share/doc/onbeat/crates.txt"
for library in libc6-dev libelf-dev zlib1g-dev; do
	cp "/usr/share/doc/$library/copyright" "$work/share/doc/onbeat/LICENSES-$library" ||
		fail "no license of $library, which is linked statically"
done
cat >"$work/README" <<END
Static programs of onbeat $(scripts/version.sh) for Linux on $machine.

  bin/onbeat --version                                          use it from here
  tar -xf $name.tar.xz -C /usr/local --strip-components=1    or install it, with its units, pages and completions

They need no library. Missing, because libpcap cannot be loaded into them: --filter, --filter-in and --filter-out
of "onbeat delay", and the row "libpcap" of "onbeat bench port".

share/doc/onbeat has documents and licenses, those of glibc, libelf and zlib among them. The source archive of
onbeat links these programs again with other versions of them (scripts/static.sh).
END
"$root/scripts/archive.sh" "$work" "$SOURCE_DATE_EPOCH"
