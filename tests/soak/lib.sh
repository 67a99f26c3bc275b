# shellcheck shell=bash
# Common parts of the soaks in shell. Each reads it first: . "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # variables are for those soaks

# cd searches the CDPATH of a caller, and prints the directory that it finds.
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
# packages.steps.sh belongs to the soak packages.
soak=$(basename "${0%%.*}")

# Exits as a soak that this machine does not support, or a part of it.
skip() {
	echo "$soak: skipped: $*" >&2
	exit 77
}

fail() {
	echo "$soak: $*" >&2
	exit 1
}

# Skips the soak without root, or without one of these programs: require_root PROGRAM...
require_root() {
	local tool
	PATH=$PATH:/usr/sbin:/sbin
	[ "$(id -u)" = 0 ] || skip "not root"
	for tool; do
		command -v "$tool" >/dev/null || skip "no $tool here"
	done
}

# expect STATUS COMMAND...: runs a command, which must exit with this status. Its output is written to $output, which
# the soak sets.
output=/dev/null
expect() {
	local expected=$1 status=0
	shift
	"$@" >"$output" 2>&1 || status=$?
	[ "$status" = "$expected" ] || {
		cat "$output" >&2
		fail "exit status $status instead of $expected: $*"
	}
}

# The output of the last command must have a line that matches.
has_line() {
	grep -qE -- "$1" "$output" || {
		cat "$output" >&2
		fail "no line matches \"$1\""
	}
}
