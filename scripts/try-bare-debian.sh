#!/bin/sh
# Tests the committed tree on a bare Debian: only the base system of SUITE in a separate directory, a clean clone, and
# an empty environment.
#
#   scripts/try-bare-debian.sh SUITE [COMMAND...]
#
#   scripts/try-bare-debian.sh bookworm               set up, then `make build`
#   scripts/try-bare-debian.sh trixie make demo       set up, then `make demo`
#
# The kernel and the network are those of this machine. The directory is removed on exit; KEEP=1 keeps it and prints
# its name. MIRROR and SECURITY_MIRROR are addresses of Debian's archive.
# Exit status: the command's; 2: the trial could not be set up.
set -eu
. "$(dirname "$0")/lib.sh"

usage() {
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
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

# Not /tmp: that is often memory, and a build takes gigabytes.
debian=$(mktemp -d "${TMPDIR:-/var/tmp}/onbeat-$suite.XXXXXX")

[ -n "${KEEP:-}" ] || remove_at_exit "$debian"

echo "try-bare-debian: installing $suite into $debian${KEEP:+, which is kept}"
"$root/scripts/debian-tree.sh" "$suite" "$debian" || fail "no Debian to try in: see above"

git clone --quiet --no-hardlinks "$root" "$debian/root/onbeat"
echo "try-bare-debian: commit $(git -C "$debian/root/onbeat" log -1 --format='%h %s')"

# Mounts and processes are in separate namespaces, and are removed with these in any case: no mount
# remains through which the host's /dev could be removed.
set +e
unshare --mount --pid --fork --kill-child --propagation private sh -eu -s "$debian" "$@" <<'END'
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
