#!/bin/sh
# Installs a program without its debug information, and that in a separate file, where gdb and
# addr2line find it under any prefix: PREFIX/DIRECTORY/.debug/PROGRAM.debug.
#
#   scripts/install-stripped.sh PROGRAM DESTDIR PREFIX [DIRECTORY]
#
# DIRECTORY is bin if it is not given; DESTDIR may be empty. Without objcopy the program is installed unchanged,
# with a message.
set -eu
. "$(dirname "$0")/lib.sh"

program=$1 destdir=$2 directory=$3/${4:-bin}
name=$(basename "$program")
binary=$destdir$directory/$name
debug=$destdir$directory/.debug/$name.debug

install=${INSTALL:-install}
if ! command -v objcopy >/dev/null 2>&1; then
	echo "install: no objcopy (package binutils): $binary keeps its debug information" >&2
	exec $install -D -m 755 "$program" "$binary"
fi

work=$(mktemp -d)
remove_at_exit "$work"
objcopy --only-keep-debug --compress-debug-sections "$program" "$work/$name.debug"
# The link holds the name of the debug file and a checksum of it.
objcopy --strip-all --add-gnu-debuglink="$work/$name.debug" "$program" "$work/$name"
$install -D -m 755 "$work/$name" "$binary"
$install -D -m 644 "$work/$name.debug" "$debug"
