#!/bin/sh
# Tries the committed tree on a bare Debian: nothing but the base system of SUITE in a directory of
# its own, a clean clone, an emptied environment.
#
#   scripts/try-bare-debian.sh SUITE [COMMAND...]
#
#   scripts/try-bare-debian.sh bookworm               set up, then `make build`
#   scripts/try-bare-debian.sh trixie make demo       set up, then `make demo`
#
# The kernel and the network are this machine's. The directory is removed at the end, or kept and
# named with KEEP=1. MIRROR and SECURITY_MIRROR say where Debian comes from.
# Exit status: the command's; 2: the trial could not be set up.
set -eu
unset CDPATH

usage() {
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

fail() {
	echo "try-bare-debian: $*" >&2
	exit 2
}

[ $# -ge 1 ] || usage
suite=$1
shift
[ $# -ge 1 ] || set -- make build
case $suite in
-*) usage ;;
esac

[ "$(id -u)" = 0 ] || fail "not root: a Debian is installed into a directory and entered by chroot"
for tool in debootstrap git unshare; do
	command -v "$tool" >/dev/null || fail "no $tool: apt-get install debootstrap git util-linux"
done

here=$(cd "$(dirname "$0")/.." && pwd)
# Not /tmp: that is often memory, and a build takes gigabytes.
root=$(mktemp -d "${TMPDIR:-/var/tmp}/onbeat-$suite.XXXXXX")

# shellcheck disable=SC2317 # called by the trap
finish() {
	if [ -n "${KEEP:-}" ]; then
		echo "try-bare-debian: kept $root"
	else
		# Mounts are never visible here (see below); if one were, this would stop at it.
		rm -rf --one-file-system "$root"
	fi
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

echo "try-bare-debian: installing $suite into $root"
"$here/scripts/debian-tree.sh" "$suite" "$root" || fail "no Debian to try in: see above"

git clone --quiet --no-hardlinks "$here" "$root/root/onbeat"
echo "try-bare-debian: commit $(git -C "$root/root/onbeat" log -1 --format='%h %s')"

# Mounts and processes live in namespaces of their own and end with them, whatever happens: no
# mount is left behind, and nothing removes the host's /dev through a stale one.
set +e
unshare --mount --pid --fork --kill-child --propagation private sh -eu -s "$root" "$@" <<'END'
root=$1
shift
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t bpf bpf "$root/sys/fs/bpf"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
exec env -i \
	HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
	${no_proxy:+no_proxy="$no_proxy"} \
	chroot "$root" sh -c 'cd /root/onbeat && scripts/setup.sh && exec "$@"' sh "$@" </dev/null
END
status=$?
set -e
echo "try-bare-debian: $suite: $*: exit status $status"
exit $status
