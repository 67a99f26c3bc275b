#!/bin/sh
# Copies the sources of this tree, as they are, into an empty or new directory: in a Git checkout the tracked
# files, elsewhere everything but what builds leave.
#
#   scripts/export.sh DIRECTORY
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
to=$(cd "$1" && pwd)
cd "$root"
if [ -e .git ]; then
	git ls-files | while IFS= read -r file; do
		# A tracked file may be deleted.
		[ ! -e "$file" ] || printf '%s\n' "$file"
	done | tar -cf - -T - | tar -xf - -C "$to"
else
	tar -cf - --exclude=./out --exclude=./target . | tar -xf - -C "$to"
fi
