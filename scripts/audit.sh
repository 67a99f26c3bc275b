#!/bin/sh
# Checks the crates of Cargo.lock for security advisories (RustSec).
#
#   scripts/audit.sh
#
# Exit status: 0 no advisory but those argued in deny.toml; 1 an advisory; 2 the check cannot run.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"

"$cargo" deny --version >/dev/null 2>&1 ||
	fail "cannot check advisories: no cargo-deny; install it with \"cargo install --locked cargo-deny\""
"$cargo" deny --locked fetch db ||
	fail "cannot check advisories: the advisory database cannot be fetched (see above); it needs git and https://github.com"
"$cargo" deny --locked check --hide-inclusion-graph advisories || exit 1
