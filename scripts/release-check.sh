#!/bin/sh
# Checks what must hold before a version is released. Each step runs, also after one failed; its output is in
# out/release-check/STEP.log.
#
#   scripts/release-check.sh [STEP...]     all steps without arguments
#
# Steps: see the functions step_NAME below. Soaks that cannot run here count as failed.
# Exit status: 0 all passed; 1 a step failed; 2 a step is unknown.
set -eu
unset CDPATH

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export CARGO="${CARGO:-scripts/cargo}"
logs=$root/out/release-check
steps="clean version placeholders lint test man links deb sizes dist static units packages"
# Octets; the unit of a package's size.
most_of_onbeat=4500000

fail() {
	echo "$*" >&2
	return 1
}

# No change and no file that is not in the commit.
step_clean() {
	changed=$(git status --porcelain) || return
	[ -z "$changed" ] || fail "not committed:
$changed"
}

# The top release of CHANGELOG.md has this version and a date, and nothing is above it.
step_version() {
	scripts/version.sh --check || return
	version=$(scripts/version.sh)
	top=$(sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
	[ "$top" = "$version" ] ||
		fail "CHANGELOG.md: its top release is \"$top\", not $version of Cargo.toml" || return
	date=$(sed -n "s/^## \[$version\] - \(.*\)\$/\1/p" CHANGELOG.md)
	[ "$(date -u -d "$date" +%Y-%m-%d 2>/dev/null)" = "$date" ] ||
		fail "CHANGELOG.md: release $version has no date YYYY-MM-DD: \"$date\"" || return
	above=$(sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/{/^## /d;/^$/d;p}' CHANGELOG.md | head -n 3)
	[ -z "$above" ] || fail "CHANGELOG.md: entries are in [Unreleased]:
$above"
}

# No unfinished text and no address that leads nowhere.
step_placeholders() {
	found=$(git grep -nwE 'TODO|FIXME|XXX|TBD|example\.invalid' -- . ':!scripts/release-check.sh') || return 0
	fail "$found"
}

step_lint() {
	make lint
}

step_test() {
	CI=1 make test
}

step_man() {
	make man && scripts/check-man.sh out/man/*.1
}

step_links() {
	soak links
}

# lintian runs in scripts/deb.sh, where it is installed.
step_deb() {
	command -v lintian || fail "no lintian (apt-get install lintian)" || return
	make deb
}

step_sizes() {
	package=$(find out/deb -name "onbeat_$(scripts/version.sh)-*.deb" | head -n 1)
	[ -n "$package" ] || fail "no package onbeat in out/deb; run step deb" || return
	size=$(stat -c %s "$package")
	echo "$package: $size octets of at most $most_of_onbeat"
	[ "$size" -le "$most_of_onbeat" ] || fail "larger than $most_of_onbeat octets"
}

step_dist() {
	soak dist
}

step_static() {
	soak static
}

step_units() {
	soak units
}

# The packages of step deb; without it the soak builds some.
step_packages() {
	case $passed in
	*" deb "*) PACKAGES=$root/out/deb soak packages ;;
	*) soak packages ;;
	esac
}

# A soak, which must pass.
soak() {
	rows=$logs/soak
	make soak SOAK="$1" >"$rows" || {
		cat "$rows"
		return 1
	}
	cat "$rows"
	grep -q "^$1 .* passed " "$rows" || fail "the soak $1 did not run"
}

[ $# -gt 0 ] || {
	# shellcheck disable=SC2086 # one word per step
	set -- $steps
}
for step in "$@"; do
	case " $steps " in
	*" $step "*) ;;
	*)
		echo "release-check: no step \"$step\"; steps: $steps" >&2
		exit 2
		;;
	esac
done

mkdir -p "$logs"
failed='' passed=' '
printf '%-14s %-8s %7s\n' step result time
for step in "$@"; do
	start=$(date +%s)
	result=passed
	"step_$step" >"$logs/$step.log" 2>&1 || result=FAILED
	printf '%-14s %-8s %5d s\n' "$step" "$result" $(($(date +%s) - start))
	case $result in
	passed) passed="$passed$step " ;;
	*)
		failed="$failed $step"
		tail -n 5 "$logs/$step.log" | sed 's/^/    /'
		;;
	esac
done
[ -z "$failed" ] || {
	echo "release-check: failed:$failed; output: out/release-check/STEP.log" >&2
	exit 1
}
