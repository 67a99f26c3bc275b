#!/bin/sh
# Copies the sources of this tree, as they are, into an empty or new directory: in a Git checkout the tracked
# files, elsewhere everything but what builds leave. A copy of a commit without changes names it, in the file that
# `git archive` writes: programs built from the copy print it by --version.
#
#   scripts/export.sh DIRECTORY
set -eu
unset CDPATH

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
to=$(cd "$1" && pwd)
cd "$root"
if [ -e .git ]; then
	git ls-files | while IFS= read -r file; do
		# A tracked file may be deleted.
		[ ! -e "$file" ] || printf '%s\n' "$file"
	done | tar -cf - -T - | tar -xf - -C "$to"
	if [ -z "$(git status --porcelain --untracked-files=no)" ]; then
		git rev-parse HEAD >"$to/app/terminal/build/commit.txt"
	fi
else
	tar -cf - --exclude=./out --exclude=./target . | tar -xf - -C "$to"
fi
