#!/bin/sh
# Builds the Debian packages onbeat, onbeat-lab, onbeat-fleet and onbeat-dkms, and checks them with lintian if that is installed.
#
#   scripts/deb.sh [DIRECTORY]     writes them there, in place of those of an earlier build; default: out/deb
#
# Packages built on Debian 12 install on Debian 12 and 13; packages built on 13 install on 13 only.
# Their maintainer is DEBFULLNAME with DEBEMAIL, as for other tools of Debian, or the author of the last commit.
# Their version is that of Cargo.toml, and their time that of the last commit.
# Exit status: 0 built; 2: not built, or lintian found an error or a warning.
set -eu
. "$(dirname "$0")/lib.sh"

out=$(directory "${1:-$root/out/deb}")
cd "$root"
version=$(scripts/version.sh)
# Always the same path, which debug information contains, and never in the directory of the caller.
build=$root/out/deb.build
tree=$build/onbeat-$version

: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"
export SOURCE_DATE_EPOCH
if [ -n "${DEBEMAIL:-}" ]; then
	maintainer="${DEBFULLNAME:-The onbeat authors} <$DEBEMAIL>"
elif [ -e .git ]; then
	maintainer=$(git log -1 --format='%an <%ae>')
else
	fail "no maintainer: this is no Git checkout; set DEBFULLNAME and DEBEMAIL"
fi

remove_at_exit "$build"
rm -rf "$build"
scripts/export.sh "$tree"
cp -R packaging/debian "$tree/debian"
# An author's name is data, no part of the command of sed.
maintainer=$(printf %s "$maintainer" | tr -d '\000-\037')
escaped=$(printf %s "$maintainer" | sed 's,[\\/&],\\&,g')
sed -i "s/@MAINTAINER@/$escaped/" "$tree/debian/control" "$tree/debian/copyright"
# Revision 0: a package of Debian itself has a higher one.
cat >"$tree/debian/changelog" <<TEXT
onbeat ($version-0onbeat1) unstable; urgency=medium

  * Packages of onbeat $version; changelog.gz has its changes.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
TEXT

# debhelper sets HOME to an empty directory, and cargo must find its crates and its toolchain.
CARGO=$cargo
CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO CARGO_HOME CARGO_TARGET_DIR
if [ -d "${RUSTUP_HOME:-$HOME/.rustup}" ]; then
	export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
fi
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-pre-clean) || fail "dpkg-buildpackage failed; see above"

# Other packages in that directory stay.
for name in onbeat onbeat-lab onbeat-fleet onbeat-dkms onbeat-dbgsym onbeat-lab-dbgsym onbeat-fleet-dbgsym; do
	rm -f "$out/$name"_*.deb
done
rm -f "$out"/onbeat_*.changes "$out"/onbeat_*.buildinfo
rm -rf "$tree"
mv "$build"/* "$out"

if command -v lintian >/dev/null 2>&1; then
	lintian --fail-on error,warning "$out"/onbeat_*.changes || fail "lintian found errors or warnings; see above"
fi
for package in "$out"/onbeat_*.deb "$out"/onbeat-*_*.deb; do
	echo "deb: $package ($(stat -c %s "$package") octets)"
done
