#!/bin/sh
# Checks the sources: formatting, lints, licenses. A check whose tool is missing is skipped with a message, because
# formatters and linters are not part of every Rust toolchain.
#
#   scripts/lint.sh           check
#   scripts/lint.sh --fix     format the sources instead
#
# With LINT_ALL=1 a skipped check counts as failed. Exit status: 0 no fault, 1 a fault.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"

# vmlinux.h is bpftool's, and in its format.
bpf=$(find abi base frer port powerlink delay irq app -name target -prune -o \
	\( -path '*/bpf/*.[ch]' -o -path 'abi/*.h' \) ! -name 'vmlinux*.h' -print)

if [ "${1:-}" = --fix ]; then
	"$cargo" fmt --all
	# shellcheck disable=SC2086 # one word per file
	exec clang-format -i $bpf
fi

status=0

# Runs a check; the others run even if it fails.
check() {
	echo "lint: $*"
	"$@" || {
		echo "lint: FAILED: $*" >&2
		status=1
	}
}

skip() {
	echo "lint: SKIPPED: $*" >&2
	[ -z "${LINT_ALL:-}" ] || status=1
}

if "$cargo" fmt --version >/dev/null 2>&1; then
	check "$cargo" fmt --all --check
else
	skip "formatting of Rust: this toolchain has no rustfmt"
fi

# Findings of clippy and clang-format depend on their release. The tree has none with these releases;
# findings of other releases are printed and are no failure.
clippy_releases="1.95 1.96"
clang_format_release=14

if "$cargo" clippy --version >/dev/null 2>&1; then
	release=$("$cargo" clippy --version | cut -d ' ' -f 2 | cut -d . -f 2-3)
	case " $clippy_releases " in
	*" $release "*) check "$cargo" clippy --workspace --all-targets --locked --features onbeat/parquet -- -D warnings ;;
	*)
		check "$cargo" clippy --workspace --all-targets --locked --features onbeat/parquet
		skip "warnings of clippy $release do not count, those of $clippy_releases do"
		;;
	esac
else
	skip "mistakes in Rust: this toolchain has no clippy"
fi

case $(clang-format --version 2>/dev/null) in
*" version $clang_format_release."*)
	# shellcheck disable=SC2086 # one word per file
	check clang-format --dry-run --Werror $bpf
	;;
"") skip "formatting of BPF C: no clang-format" ;;
*) skip "formatting of BPF C: clang-format is not of release $clang_format_release" ;;
esac

check scripts/version.sh --check

# Words that documents, messages and names avoid.
check scripts/words

# Sentences that readers of these documents parse once.
documents=$(text_files | grep "\.md$" | grep -v "^docs/measurements\.md$")
# shellcheck disable=SC2086 # one word per file
check scripts/words --sentences $documents

files=$(text_files)
# shellcheck disable=SC2086 # one word per file
scripts=$(grep -lE '^(#!/bin/(ba)?sh|# shellcheck shell)' $files)
# shellcheck disable=SC2086 # one word per file
python=$(grep -lE '^#!.*python|^import [a-z]+$' $files)

# cd searches the CDPATH of a caller, and prints the directory that it finds: a script unsets it first. After a trap
# that does not exit, sh continues: one for EXIT and for signals removes the files of a script that runs on.
shell_habits() {
	# shellcheck disable=SC2086,SC2317 # one word per file; check calls it
	awk '
		FNR == 1 { unset = 0 }
		/^unset CDPATH$/ || /^\. .*\/lib\.sh"$/ { unset = 1 }
		/(^|[^[:alnum:]_-])cd / && !/^[[:space:]]*#/ && !/cd \/( |$)/ && !unset {
			print FILENAME ":" FNR ": cd before \"unset CDPATH\""
			status = 1
		}
		/^[[:space:]]*trap .* EXIT [A-Z]/ {
			print FILENAME ":" FNR ": one trap for EXIT and signals; add: trap \047exit 130\047 INT TERM HUP"
			status = 1
		}
		END { exit status }
	' $scripts
}
check shell_habits

if command -v shellcheck >/dev/null 2>&1; then
	# shellcheck disable=SC2086 # one word per file
	check shellcheck -x -P SCRIPTDIR $scripts
else
	skip "mistakes in shell scripts: no shellcheck"
fi

if command -v pyflakes3 >/dev/null 2>&1; then
	# shellcheck disable=SC2086 # one word per file
	check pyflakes3 $python
else
	skip "mistakes in Python programs: no pyflakes3"
fi

if "$cargo" deny --version >/dev/null 2>&1; then
	check "$cargo" deny --locked check --hide-inclusion-graph licenses bans sources
else
	skip "licenses of dependencies: no cargo-deny (cargo install cargo-deny)"
fi

exit $status
