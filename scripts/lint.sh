#!/bin/sh
# Checks the sources: formatting, mistakes, licences. A check whose tool is not here is named and
# left out, because formatters and linters are not part of every Rust toolchain.
#
#   scripts/lint.sh           check
#   scripts/lint.sh --fix     format the sources instead
set -eu
cd "$(dirname "$0")/.."

cargo=${CARGO:-scripts/cargo}
# vmlinux.h is bpftool's, and in its format.
bpf=$(find abi crates -name target -prune -o \
	\( -path '*/bpf/*.[ch]' -o -path 'abi/*.h' \) ! -name 'vmlinux*.h' -print)

if [ "${1:-}" = --fix ]; then
	$cargo fmt --all
	# shellcheck disable=SC2086 # one word per file
	exec clang-format -i $bpf
fi

check() {
	echo "lint: $*"
	"$@"
}

skip() {
	echo "lint: SKIPPED: $*" >&2
}

if $cargo fmt --version >/dev/null 2>&1; then
	check $cargo fmt --all --check
else
	skip "formatting of Rust: this toolchain has no rustfmt"
fi

if $cargo clippy --version >/dev/null 2>&1; then
	check $cargo clippy --workspace --all-targets --locked -- -D warnings
else
	skip "mistakes in Rust: this toolchain has no clippy"
fi

if ! command -v clang-format >/dev/null 2>&1; then
	skip "formatting of BPF C: no clang-format"
else
	# shellcheck disable=SC2086 # one word per file
	check clang-format --dry-run --Werror $bpf
fi

if $cargo deny --version >/dev/null 2>&1; then
	check $cargo deny --offline --workspace check licenses bans sources
else
	skip "licences of dependencies: no cargo-deny (cargo install cargo-deny)"
fi
