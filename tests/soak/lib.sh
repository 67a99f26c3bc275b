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

# Output of the container with systemd.
console=/dev/null
fail() {
	cat "$console" >&2
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

# await WHAT COMMAND...: waits until the command succeeds, at most 300 s: in an emulated machine systemd starts slowly.
await() {
	local what=$1 end=$((SECONDS + 300))
	shift
	while ! "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "not within 300 s: $what"
		sleep 0.05
	done
}

# The first process of the container with systemd, and its control group.
init='' group=''

# boot ROOT DIRECTORY TARGET PREPARE ASSIGNMENTS [OPTION...]: boots systemd as process 1 of a container, up to a target.
# ROOT is the root directory, DIRECTORY an empty one for the container's own files. PREPARE: commands for its namespaces
# before, in /bin/sh. ASSIGNMENTS: environment of systemd. OPTIONs of unshare: further namespaces.
boot() {
	local root=$1 directory=$2 target=$3 prepare=$4 assignments=$5 container
	shift 5
	console=$directory/console
	mkdir "$directory/cgroup"
	cat >"$directory/boot" <<-'EOF'
		set -e
		root=$1
		mount --make-rprivate /
		# Those for commands by chroot.
		for directory in proc sys run dev; do
			! mountpoint -q "$root/$directory" || umount -R "$root/$directory"
		done
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys"
		mount -t bpf bpf "$root/sys/fs/bpf"
		mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
		mount -t tmpfs tmpfs "$root/run"
		mount -t tmpfs tmpfs "$root/tmp"
		mount -t tmpfs tmpfs "$root/dev"
		# Device nodes that PrivateDevices uses.
		mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages"
		mount -t devpts devpts "$root/dev/pts"
		ln -s pts/ptmx "$root/dev/ptmx"
		for device in null zero full random urandom tty cpu_dma_latency; do
			[ -e "/dev/$device" ] || continue
			: >"$root/dev/$device"
			mount --bind "/dev/$device" "$root/dev/$device"
		done
		eval "$3"
		cd "$root"
		# shellcheck disable=SC2086 # one word per assignment
		exec env -i container=onbeat PATH=/usr/sbin:/usr/bin:/sbin:/bin $4 chroot . \
			/lib/systemd/systemd --unit="$2" --log-level=warning --log-target=console --show-status=no
	EOF
	# Below the group of this shell: systemd creates its groups below its own.
	mount -t cgroup2 cgroup2 "$directory/cgroup"
	group=$directory/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/onbeat-soak-$$
	mkdir "$group"
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		exec unshare --pid --mount --ipc --uts --cgroup --fork --kill-child "$@" \
			sh "$directory/boot" "$root" "$target" "$prepare" "$assignments"
	) >"$console" 2>&1 </dev/null &
	container=$!
	# Without a message when it is killed.
	disown
	await "systemd reaches $target" has_booted "$container" "$target"
}

has_booted() {
	init=$(cat "/proc/$1/task/$1/children" 2>/dev/null) && init=${init%% *} && [ -n "$init" ] &&
		in_container systemctl is-active --quiet "$2" 2>/dev/null
}

# Runs a command in the container.
in_container() {
	nsenter --target "$init" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# Kills the container with all that it has mounted. Its directory stays.
power_off() {
	[ -n "$group" ] || return 0
	echo 1 >"$group/cgroup.kill"
	while grep -q 'populated 1' "$group/cgroup.events"; do sleep 0.01; done
	find "$group" -depth -type d -exec rmdir {} +
	umount "${console%/*}/cgroup"
	group='' init=''
}
