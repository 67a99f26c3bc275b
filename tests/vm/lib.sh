# shellcheck shell=bash
# Common parts of the VM runner: paths, errors, and Debian's archive.

unset CDPATH
vm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$vm/../.." && pwd)
# Kernels, packages and builds of them. It is recreated if it is removed, which takes
# long.
cache=$(realpath -m "${ONBEAT_VM_CACHE:-$checkout/out/vm}")
# All files of one kernel are below this, as below /.
# shellcheck disable=SC2034 # by those who source this
kernels=$cache/kernels

# Exits with the status for a failure of the runner, not of its command.
die() {
	echo "vm: $*" >&2
	exit 125
}

# Runs an apt program with sources, lists and cache of our own, so that of the host's
# configuration only proxy settings are used. Packages are checked by the host's archive keys.
debian() {
	local program=$1 keys=/usr/share/keyrings/debian-archive-keyring.gpg
	local mirror=${ONBEAT_DEBIAN_MIRROR:-http://deb.debian.org}
	shift
	[ -e "$keys" ] || die "no $keys: install debian-archive-keyring"
	mkdir -p "$cache"/apt/{lists,archives}/partial
	cat >"$cache/apt/sources.list" <<-END
		deb [arch=amd64 signed-by=$keys] $mirror/debian bookworm main
		deb [arch=amd64 signed-by=$keys] $mirror/debian bookworm-backports main
		deb [arch=amd64 signed-by=$keys] $mirror/debian-security bookworm-security main
	END
	"$program" -qq -o Dir::Etc::SourceList="$cache/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$cache/apt" -o Dir::State::Status=/dev/null \
		-o Dir::Cache="$cache/apt" -o Dir::Cache::Archives="$cache/apt/archives" \
		-o APT::Sandbox::User= -o Acquire::Retries=3 -o APT::Architecture=amd64 "$@"
}

# Fetches the archive's lists where there are none, or a package of theirs is gone, or if $1 is "refresh".
update_lists() {
	if [ "${1:-}" = refresh ] || [ ! -e "$cache/apt/updated" ]; then
		debian apt-get update >&2 || die "apt-get update failed; is there a network?"
		touch "$cache/apt/updated"
	fi
}

# Downloads packages into the current directory. An outdated list is fetched again.
download() {
	debian apt-get download "$@" >&2 && return
	update_lists refresh
	debian apt-get download "$@" >&2 || die "cannot download $*"
}
