#!/bin/sh
# Builds programs that need no shared library, and an archive of them to unpack into /usr/local on any Linux of
# this architecture: out/static/onbeat-VERSION-ARCHITECTURE.tar.gz.
#
#   scripts/static.sh [DIRECTORY]
#
# The C library is glibc, linked statically. It looks up host names through shared libraries of its own version
# (NSS): where these are missing, `onbeat delay ping` takes addresses, and no names.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/out/static}"
out=$(cd "${1:-$root/out/static}" && pwd)
cd "$root"
cargo=${CARGO:-scripts/cargo}
machine=$(uname -m)
target=$machine-unknown-linux-gnu
name=onbeat-$(scripts/version.sh)-$machine
: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
# A directory with the archives alone: the linker would take a shared library beside them.
mkdir "$work/lib"
for library in elf z; do
	archive=$(cc -print-file-name=lib$library.a)
	[ -e "$archive" ] || {
		echo "static: no lib$library.a: install libelf-dev and zlib1g-dev" >&2
		exit 2
	}
	ln -s "$archive" "$work/lib"
done
export LIBBPF_SYS_LIBRARY_PATH="$work/lib"
export RUSTFLAGS="-C target-feature=+crt-static"
"$cargo" build --profile dist --locked --target "$target" --package onbeat --package onbeat-lab \
	--features onbeat/parquet

built=${CARGO_TARGET_DIR:-target}/$target/dist
for program in onbeat onbeat-lab; do
	if readelf -d "$built/$program" | grep NEEDED; then
		echo "static: $program needs shared libraries" >&2
		exit 2
	fi
done
DESTDIR="$work" PREFIX=/usr/local scripts/install.sh "$built/onbeat" "$built/onbeat-lab"
find "$work/usr/local" -name .debug -prune -exec rm -r {} +
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w --mtime="@$SOURCE_DATE_EPOCH" \
	-C "$work/usr/local" -cf - . | gzip -9n >"$out/$name.tar.gz"
sha256sum "$out/$name.tar.gz"
