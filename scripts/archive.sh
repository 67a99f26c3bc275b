#!/bin/bash
# Packs a directory into TO/NAME.tar.xz, with a checksum beside it. The same files give the same archive: their
# owners, the umask and the number of CPUs do not matter.
#
#   scripts/archive.sh DIRECTORY TO SECONDS     SECONDS since 1970 is the time of all files
set -euo pipefail
. "$(dirname "$0")/lib.sh"

name=$(basename "$1")
archive=$(directory "$2")/$name.tar.xz
remove_at_exit "$archive.part"
# Blocks of xz with one thread differ from those with several.
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime="@$3" \
	-cf - -C "$(dirname "$1")" "$name" | xz -T2 -6 >"$archive.part"
mv "$archive.part" "$archive"
cd "$(dirname "$archive")"
sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256"
