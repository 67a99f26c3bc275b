#!/bin/bash
# Prints the crates that the programs contain, with their licenses and the texts of these.
#
#   scripts/crates.sh [CARGO-TREE-OPTION...]    such as --package onbeat --features onbeat/parquet
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cd "$root"
work=$(mktemp -d)
remove_at_exit "$work"
mkdir "$work/texts"

# Directories of the crates of this platform, as in the list below: registry or vendor, both NAME-VERSION.
host=$("$cargo" -vV | sed -n 's/^host: //p')
"$cargo" metadata --format-version 1 --locked --filter-platform "$host" |
	grep -o '"manifest_path":"[^"]*"' | sed 's/^"manifest_path":"\(.*\)\/Cargo.toml"$/\1/' >"$work/directories"
# Crates of this workspace are followed by their path.
"$cargo" tree --locked --edges normal --prefix none --format '{p}|{l}|{r}' "$@" |
	grep -v -e '(/' -e '^$' | sed 's/ (\*)//; s/ (proc-macro)//' | sort -u >"$work/crates"

cat <<'TEXT'
These crates are linked statically into the programs of onbeat. Numbers refer to the texts below.

TEXT
while IFS='|' read -r crate license repository; do
	directory=$(grep "/${crate/ v/-}\$" "$work/directories") ||
		fail "no sources of $crate: run \"cargo fetch\" first"
	find "$directory" -maxdepth 3 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) \
		! -name '*.rs' ! -path '*/elfutils/*' ! -path '*/zlib/*' | sort >"$work/licenses"
	texts=
	while IFS= read -r file; do
		name=$(sha256sum <"$file" | cut -c 1-12)
		cp "$file" "$work/texts/$name"
		texts="$texts $name"
	done <"$work/licenses"
	printf '%s: %s\n  %s\n' "$crate" "$license" "$repository"
	[ -z "$texts" ] || printf '  texts:%s\n' "$texts"
done <"$work/crates"
for text in "$work"/texts/*; do
	printf '\n---- text %s\n\n' "$(basename "$text")"
	cat "$text"
done
