#!/bin/sh
# Builds the Debian packages onbeat, onbeat-lab and onbeat-dkms, and checks them with lintian where that is
# installed.
#
#   scripts/deb.sh [DIRECTORY]     the packages are written there; out/deb where it is not given
#
# The maintainer of the packages is DEBFULLNAME with DEBEMAIL, as for other tools of Debian, or the author of
# the last commit. The version is that of Cargo.toml, their time that of the last commit.
# Exit status: 0 built; 2: not built, or lintian found an error or a warning.
set -eu
unset CDPATH

fail() {
	echo "deb: $*" >&2
	exit 2
}

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/out/deb}"
out=$(cd "${1:-$root/out/deb}" && pwd)
cd "$root"
version=$(scripts/version.sh)
tree=$out/onbeat-$version

: "${SOURCE_DATE_EPOCH:=$(scripts/version.sh --time)}"
export SOURCE_DATE_EPOCH
if [ -n "${DEBEMAIL:-}" ]; then
	maintainer="${DEBFULLNAME:-The onbeat authors} <$DEBEMAIL>"
elif [ -e .git ]; then
	maintainer=$(git log -1 --format='%an <%ae>')
else
	fail "no maintainer: this is no Git checkout; set DEBFULLNAME and DEBEMAIL"
fi

rm -rf "$tree"
rm -f "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
scripts/export.sh "$tree"
cp -R packaging/debian "$tree/debian"
# An author's name is data, no part of the command of sed.
maintainer=$(printf %s "$maintainer" | tr -d '\000-\037')
escaped=$(printf %s "$maintainer" | sed 's,[\\/&],\\&,g')
sed -i "s/@MAINTAINER@/$escaped/" "$tree/debian/control" "$tree/debian/copyright"
# Revision 0: a package of Debian itself has a higher one.
cat >"$tree/debian/changelog" <<END
onbeat ($version-0onbeat1) unstable; urgency=medium

  * Packages of onbeat $version; changelog.gz has its changes.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END

# debhelper sets HOME to an empty directory, and cargo must find its crates and its toolchain.
CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export CARGO_HOME CARGO_TARGET_DIR
if [ -d "${RUSTUP_HOME:-$HOME/.rustup}" ]; then
	export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
fi
case ${CARGO:-scripts/cargo} in
/*) export CARGO ;;
*) unset CARGO ;;
esac
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-pre-clean) || fail "dpkg-buildpackage failed; see above"
rm -rf "$tree"

if command -v lintian >/dev/null 2>&1; then
	lintian --fail-on error,warning "$out"/*.changes || fail "lintian found errors or warnings; see above"
fi
for package in "$out"/*.deb; do
	echo "deb: $package ($(stat -c %s "$package") octets)"
done
