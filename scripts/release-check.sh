#!/bin/sh
# Checks the requirements of a release. Each step runs, also after one failed; its output is in
# out/release-check/STEP.log.
#
#   scripts/release-check.sh [STEP...]     all steps without arguments
#
# Steps: see the functions step_NAME below. Soaks that cannot run here count as failed.
# Exit status: 0 all passed; 1 a step failed; 2 a step is unknown.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"
export CARGO="$cargo"
logs=$root/out/release-check
steps="clean version placeholders lint audit test arm64 doc man links html deb sizes dist static units packages"
# Octets; the unit of a package's size.
most_of_onbeat=4500000

# Prints an error of a step. It returns 1, and the step with it.
fault() {
	echo "$*" >&2
	return 1
}

# No change and no file that is not in the commit.
step_clean() {
	changed=$(git status --porcelain) || return
	[ -z "$changed" ] || fault "not committed:
$changed"
}

# The top release of CHANGELOG.md has this version and a date, and nothing is above it.
step_version() {
	scripts/version.sh --check || return
	version=$(scripts/version.sh)
	top=$(sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
	[ "$top" = "$version" ] ||
		fault "CHANGELOG.md: its top release is \"$top\", not $version of Cargo.toml" || return
	date=$(sed -n "s/^## \[$version\] - \(.*\)\$/\1/p" CHANGELOG.md)
	[ "$(date -u -d "$date" +%Y-%m-%d 2>/dev/null)" = "$date" ] ||
		fault "CHANGELOG.md: release $version has no date YYYY-MM-DD: \"$date\"" || return
	above=$(sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/{/^## /d;/^$/d;p}' CHANGELOG.md | head -n 3)
	[ -z "$above" ] || fault "CHANGELOG.md: entries are in [Unreleased]:
$above"
}

# No unfinished text and no address that leads nowhere.
step_placeholders() {
	status=0
	found=$(git grep -nwE 'TODO|FIXME|XXX|TBD|example\.invalid' -- . ':!scripts/release-check.sh') || status=$?
	case $status in
	0) fault "$found" ;;
	1) ;;
	*) fault "git grep failed: exit status $status; see above" ;;
	esac
}

step_lint() {
	LINT_ALL=1 make lint
}

step_audit() {
	make audit
}

step_test() {
	CI=1 make test
}

step_arm64() {
	make test-arm64
}

step_doc() {
	make doc
}

step_man() {
	make man && scripts/check-man.sh out/man/*.1
}

step_links() {
	soak links
}

step_html() {
	soak html
}

# lintian runs in scripts/deb.sh, where it is installed.
step_deb() {
	command -v lintian || fault "no lintian (apt-get install lintian)" || return
	make deb
}

step_sizes() {
	package=$(find out/deb -name "onbeat_$(scripts/version.sh)-*.deb" | head -n 1)
	[ -n "$package" ] || fault "no package onbeat in out/deb; run step deb" || return
	size=$(stat -c %s "$package")
	echo "$package: $size octets of at most $most_of_onbeat"
	[ "$size" -le "$most_of_onbeat" ] || fault "larger than $most_of_onbeat octets"
}

step_dist() {
	soak dist
}

step_static() {
	soak static
}

# In a virtual machine if root may not raise limits here.
step_units() {
	if prlimit --rtprio=99:99 true; then
		soak units
		return
	fi
	make setup-vm && "$cargo" build --locked --package onbeat || return
	tests/vm/run -k stock-6.12 -t 3000 -m 4096 -- env "ONBEAT=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/onbeat" \
		tests/soak/units
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
	grep -q "^$1 .* passed " "$rows" || fault "the soak $1 did not run"
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
