#!/bin/sh
# Packs a directory into DIRECTORY.tar.xz, with a checksum beside it, and removes the directory. The same files give
# the same archive: their owners, the umask and the number of CPUs do not matter.
#
#   scripts/archive.sh DIRECTORY SECONDS     SECONDS since 1970 is the time of all files
set -eu
unset CDPATH

cd "$(dirname "$1")"
name=$(basename "$1")
# Blocks of xz with one thread differ from those with several.
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime="@$2" -cf - "$name" |
	xz -T2 -6 >"$name.tar.xz.part"
mv "$name.tar.xz.part" "$name.tar.xz"
rm -rf "$name"
sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256"
