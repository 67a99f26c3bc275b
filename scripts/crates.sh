#!/bin/sh
# Prints the crates that the programs contain, with their licenses and the texts of these.
#
#   scripts/crates.sh [CARGO-TREE-OPTION...]    such as --package onbeat --features onbeat/parquet
set -eu
unset CDPATH

root=$(cd "$(dirname "$0")/.." && pwd)
cargo=${CARGO:-$root/scripts/cargo}
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
mkdir "$work/texts"

# Directories of all crates: registry or vendor, both NAME-VERSION.
"$cargo" metadata --format-version 1 --locked |
	grep -o '"manifest_path":"[^"]*"' | sed 's/^"manifest_path":"\(.*\)\/Cargo.toml"$/\1/' >"$work/directories"
# Crates of this workspace are followed by their path.
"$cargo" tree --locked --edges normal --prefix none --format '{p}|{l}|{r}' "$@" |
	grep -v -e '(/' -e '^$' | sed 's/ (\*)//; s/ (proc-macro)//' | sort -u >"$work/crates"

cat <<'END'
These crates are linked statically into the programs of onbeat. Numbers refer to the texts below.

END
while IFS='|' read -r crate license repository; do
	directory=$(grep "/$(echo "$crate" | sed 's/ v/-/')\$" "$work/directories") || {
		echo "crates: no sources of $crate: run \"cargo fetch\" first" >&2
		exit 2
	}
	texts=
	for file in $(find "$directory" -maxdepth 3 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' \
		-o -iname 'notice*' \) ! -name '*.rs' ! -path '*/elfutils/*' ! -path '*/zlib/*' | sort); do
		name=$(sha256sum <"$file" | cut -c 1-12)
		cp "$file" "$work/texts/$name"
		texts="$texts $name"
	done
	printf '%s: %s\n  %s\n' "$crate" "$license" "$repository"
	[ -z "$texts" ] || printf '  texts:%s\n' "$texts"
done <"$work/crates"
for text in "$work"/texts/*; do
	printf '\n---- text %s\n\n' "$(basename "$text")"
	cat "$text"
done
