#!/bin/sh
# Installs programs that `make build` or `make lab` built, with manual pages, completions, systemd units, examples
# and documents. Builds nothing, so that root needs no toolchain.
#
#   scripts/install.sh ONBEAT [ONBEAT-LAB [ONBEAT-FLEET]]
#
# The laboratory and the program of fleets are installed where they exist. Variables:
#   DESTDIR    goes before every path, as packagers expect
#   PREFIX     /usr/local
#   DOCDIR     PREFIX/share/doc/onbeat
#   ZSHDIR     PREFIX/share/zsh/site-functions
#   UNITDIR    PREFIX/lib/systemd/system
#   STRIP=no   leaves debug information in the programs; otherwise it is installed in separate files
#   NOTICES=no omits the changelog and the licenses, for packages that have them elsewhere
#   RUN        a program that runs programs of another architecture, such as qemu-aarch64-static
set -eu
. "$(dirname "$0")/lib.sh"

onbeat=$1 lab=${2:-} fleet=${3:-}
destdir=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}
docdir=${DOCDIR:-$prefix/share/doc/onbeat}
zshdir=${ZSHDIR:-$prefix/share/zsh/site-functions}
unitdir=${UNITDIR:-$prefix/lib/systemd/system}
install=${INSTALL:-install}

work=$(mktemp -d)
remove_at_exit "$work"

# program FILE DIRECTORY: installs a program into PREFIX/DIRECTORY.
program() {
	if [ "${STRIP:-}" = no ]; then
		$install -D -m 755 "$1" "$destdir$prefix/$2/$(basename "$1")"
	else
		"$root/scripts/install-stripped.sh" "$1" "$destdir" "$prefix" "$2"
	fi
}

# data FILE PATH: installs another file.
data() {
	$install -D -m 644 "$1" "$destdir$2"
}

# shellcheck disable=SC2086 # RUN is a command with arguments
run() {
	${RUN:-} "$@"
}

program "$onbeat" bin
run "$onbeat" man "$work/man"
if [ -n "$lab" ] && [ -x "$lab" ]; then
	program "$lab" libexec/onbeat
	run "$lab" man "$work/man"
fi
if [ -n "$fleet" ] && [ -x "$fleet" ]; then
	program "$fleet" libexec/onbeat
	run "$fleet" man "$work/man"
else
	fleet=
fi
for page in "$work"/man/*.1; do
	sed "s,/usr/share/doc/onbeat/,$docdir/,g" "$page" >"$work/page"
	data "$work/page" "$prefix/share/man/man1/$(basename "$page")"
done

for shell in bash fish zsh; do
	run "$onbeat" completions "$shell" >"$work/$shell"
done
data "$work/bash" "$prefix/share/bash-completion/completions/onbeat"
data "$work/fish" "$prefix/share/fish/vendor_completions.d/onbeat.fish"
data "$work/zsh" "$zshdir/_onbeat"

for unit in "$root"/packaging/*.service "$root"/packaging/*.socket; do
	case $unit:$fleet in
	*/onbeat-fleet-*:) continue ;;
	esac
	sed "s,/usr/bin/onbeat,$prefix/bin/onbeat,g" "$unit" >"$work/unit"
	data "$work/unit" "$unitdir/$(basename "$unit")"
done
# Drop-ins of its features, which an administrator links: `onbeat run --check` names those that a file requires.
for drop_in in "$root"/packaging/systemd/*.conf; do
	data "$drop_in" "$prefix/share/onbeat/systemd/$(basename "$drop_in")"
done

# Groups of readers and managers, and the directories of their sockets.
for name in onbeat ${fleet:+onbeat-fleet}; do
	for directory in sysusers.d tmpfiles.d; do
		data "$root/packaging/$directory/$name.conf" "$prefix/lib/$directory/$name.conf"
	done
done

data "$root/packaging/catalog/onbeat.catalog" "$prefix/lib/systemd/catalog/onbeat.catalog"
for file in prometheus/onbeat.rules.yml grafana/onbeat.json grafana/onbeat-irq.json grafana/onbeat-powerlink.json \
	ssh/onbeat-netconf.conf; do
	data "$root/packaging/$file" "$prefix/share/onbeat/$file"
done

data "$root/docs/result.schema.json" "$prefix/share/onbeat/result.schema.json"

notices=
[ "${NOTICES:-}" = no ] || notices="CHANGELOG.md LICENSE-APACHE LICENSE-BSD-2-Clause LICENSE-GPL-2.0 LICENSE-MIT"
# Without the files that only mdBook reads.
# shellcheck disable=SC2086 # one word per file
(cd "$root" && find docs examples README.md SECURITY.md $notices -type f \
	! -name 'book.*' ! -name SUMMARY.md ! -name result.schema.json) >"$work/files"
while IFS= read -r file; do
	data "$root/$file" "$docdir/$file"
done <"$work/files"
ln -sfr "$destdir$prefix/share/onbeat/result.schema.json" "$destdir$docdir/docs/result.schema.json"

# Documents: a file that mdBook includes is inserted; a link to a file that is not installed becomes its text.
grep '\.md$' "$work/files" >"$work/documents"
while IFS= read -r file; do
	awk -v directory="$root/$(dirname "$file")" '
		/^{{#include / {
			file = directory "/" substr($2, 1, length($2) - 2)
			while ((status = (getline line < file)) > 0)
				print line
			if (status < 0)
				exit 1
			close(file)
			next
		}
		{ print }
	' "$root/$file" >"$work/document"
	# Targets without anchors; those with a colon are addresses.
	grep -o ']([^)#]*' "$work/document" | sed 's/^](//' | sort -u >"$work/targets"
	while IFS= read -r target; do
		case $target in
		'' | *:*) continue ;;
		esac
		[ ! -e "$destdir$docdir/$(dirname "$file")/$target" ] || continue
		target=$(printf %s "$target" | sed 's/[].*[\|^$]/\\&/g')
		sed -z -i "s|\[\([^]]*\)\]($target\(#[^)]*\)\{0,1\})|\1|g" "$work/document"
	done <"$work/targets"
	data "$work/document" "$docdir/$file"
done <"$work/documents"
