#!/bin/bash
# Copies the sources of this tree, with uncommitted changes, into an empty or new directory: in a Git checkout the
# tracked files, elsewhere all files except build results. A copy of a commit without changes names it, in the file
# that `git archive` writes: programs built from the copy print it by --version.
#
#   scripts/export.sh DIRECTORY
set -euo pipefail
. "$(dirname "$0")/lib.sh"

to=$(directory "$1")
cd "$root"
if [ -e .git ]; then
	git ls-files -z | while IFS= read -r -d '' file; do
		# A tracked file may be deleted.
		[ ! -e "$file" ] && [ ! -L "$file" ] || printf '%s\0' "$file"
	done | tar -cf - --null -T - | tar -xf - -C "$to"
	if [ -z "$(git status --porcelain --untracked-files=no)" ]; then
		git rev-parse HEAD >"$to/app/terminal/build/commit.txt"
	fi
else
	tar -cf - --exclude=./out --exclude=./target . | tar -xf - -C "$to"
fi
