#!/bin/sh
# Checks manual pages with man-db and with mandoc; pages may be compressed.
#
#   scripts/check-man.sh PAGE...
#
# Exit status: 0 no warning of either; 1 a warning; 2 no page was given.
set -eu

[ $# -gt 0 ] || {
	echo "check-man: no page" >&2
	exit 2
}
status=0
for page in "$@"; do
	warnings=$({
		man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null || echo "man fails"
		# A page has no date: it is the same whenever it is made.
		zcat -f "$page" | mandoc -T lint -W warning | grep -v 'missing date' || true
	} 2>&1)
	[ -z "$warnings" ] || {
		printf 'check-man: %s:\n%s\n' "$page" "$warnings" >&2
		status=1
	}
done
exit $status
