#!/bin/sh
# Installs a program without its debug information, and that in a file of its own, where gdb and
# addr2line look for it under any prefix: PREFIX/DIRECTORY/.debug/PROGRAM.debug.
#
#   scripts/install-stripped.sh PROGRAM DESTDIR PREFIX [DIRECTORY]
#
# DIRECTORY is bin where it is not given; DESTDIR may be empty. Without objcopy the program is installed as it is, with a message.
set -eu

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
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
objcopy --only-keep-debug --compress-debug-sections "$program" "$work/$name.debug"
# The link holds the name of the debug file and a checksum of it.
objcopy --strip-all --add-gnu-debuglink="$work/$name.debug" "$program" "$work/$name"
$install -D -m 755 "$work/$name" "$binary"
$install -D -m 644 "$work/$name.debug" "$debug"
