#!/bin/sh
# Builds a tar file of static programs, for machines without a package of onbeat: they need no library, not even a C
# library. They are linked with glibc, libelf and zlib of this machine.
#
#   scripts/static.sh [DIRECTORY]     writes onbeat-VERSION-MACHINE-linux.tar.xz there; default: out/static
#
# The README in the archive, below, lists the missing features.
# Exit status: 2: it could not be built.
set -eu
. "$(dirname "$0")/lib.sh"

out=$(directory "${1:-$root/out/static}")
cd "$root"
cc=${CC:-cc}
machine=$(uname -m)
target=$machine-unknown-linux-gnu
name=onbeat-$(scripts/version.sh)-$machine-linux
programs=${CARGO_TARGET_DIR:-target}/$target/release
: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"

archive=$($cc -print-file-name=libelf.a)
[ "$archive" != libelf.a ] || fail "no libelf.a; install it (apt-get install libelf-dev zlib1g-dev)"
LIBBPF_SYS_LIBRARY_PATH=$(dirname "$archive")
export LIBBPF_SYS_LIBRARY_PATH
# A target that is given keeps these flags from build scripts.
RUSTFLAGS="-C target-feature=+crt-static" "$cargo" build --locked --profile release --target "$target" \
	--package onbeat --package onbeat-lab --package onbeat-fleet --package onbeat-bpf --features onbeat/parquet,onbeat-bpf/static || exit 2

work=$(mktemp -d "$out/work.XXXXXX")
remove_at_exit "$work"
files=$work/$name
DESTDIR=$work/root PREFIX=/usr/local scripts/install.sh "$programs/onbeat" "$programs/onbeat-lab" \
	"$programs/onbeat-fleet"
mv "$work/root/usr/local" "$files"
find "$files" -name .debug -prune -exec rm -r {} +
scripts/crates.sh --package onbeat --package onbeat-lab --package onbeat-fleet --features onbeat/parquet \
	>"$files/share/doc/onbeat/crates.txt"
for library in libc6-dev libelf-dev zlib1g-dev; do
	cp "/usr/share/doc/$library/copyright" "$files/share/doc/onbeat/LICENSES-$library" ||
		fail "no license of $library, which is linked statically"
done
cat >"$files/README" <<END
Static programs of onbeat $(scripts/version.sh) for Linux on $machine.

  bin/onbeat --version                                          use it from here
  tar -xf $name.tar.xz -C /usr/local --strip-components=1    or install it, with its units, pages and completions

They need no library. Missing, because static programs cannot load libpcap: --filter, --filter-in and
--filter-out of "onbeat delay", and the row "libpcap" of "onbeat bench port".

share/doc/onbeat has documents and licenses, those of glibc, libelf and zlib among them. The source archive of
onbeat links these programs again with other versions of them (scripts/static.sh).
END
scripts/archive.sh "$files" "$out" "$SOURCE_DATE_EPOCH"
