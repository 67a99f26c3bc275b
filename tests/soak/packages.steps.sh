# shellcheck shell=bash
# The steps of a trial in one suite: packages.steps.sh SUITE TREE WORK VERSION, in separate mount, network and process
# namespaces. WORK has packages in given/ and lower/. The first steps run without systemd, by chroot.
# Expressions in single quotes are for shells inside the tree; steps are called by their names in a list.
# shellcheck disable=SC2016,SC2317
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/packages.services.sh"
suite=$1 tree=$2 work=$3 version=$4
soak="packages: $suite"
root=$work/$suite/root
PATH=$PATH:/usr/sbin:/sbin

# Runs a command in the tree, as root; with as_user as a user without privileges.
inside() {
	if [ -n "$init" ]; then
		in_container env HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive TERM=dumb "$@"
		return
	fi
	chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive TERM=dumb "$@"
}
as_user() {
	chroot --userspec=newcomer:newcomer "$root" env -i HOME=/home/newcomer PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"
}

output=$work/$suite/output
# control COMMAND...: must fail; otherwise the step would not detect a fault.
control() {
	if ("$@") >"$output.control" 2>&1; then
		cat "$output.control" >&2
		fail "the control passed: $*"
	fi
}
apt() {
	inside apt-get -q -y --no-install-recommends "$@"
}

set_up() {
	mount -t proc proc /proc
	mkdir -p "$work/$suite/upper" "$root"
	# Packages of earlier runs are not in the tree; files of a run are in a separate file system.
	mount -t tmpfs -o size=3g tmpfs "$work/$suite/upper"
	mkdir "$work/$suite/upper/files" "$work/$suite/upper/work"
	mount -t overlay overlay -o "lowerdir=$tree,upperdir=$work/$suite/upper/files,workdir=$work/$suite/upper/work" "$root"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount -t bpf bpf "$root/sys/fs/bpf"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/run"
	mkdir -p "$root/packages"
	cp -r "$work/given" "$work/lower" "$root/packages"
	inside useradd --create-home newcomer
	ip link set lo up
	# Paths have room for the R-TAG.
	ip link add talker type veth peer name eth0
	ip link add left mtu 1600 type veth peer name eth1 mtu 1600
	ip link add right mtu 1600 type veth peer name eth2 mtu 1600
	for interface in talker eth0 left eth1 right eth2; do
		ip link set "$interface" up
	done
}

# All files, except those of apt, dpkg, logs and caches.
files() {
	(cd "$root" && find . -xdev \( -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log \
		-o -path ./packages -o -path ./tmp -o -path ./etc/ld.so.cache \) -prune -o -print
	cd "$root/run" && find . -xdev -printf 'run %p\n') | sort
}

installed() {
	inside dpkg-query -W -f '${Package}\n' | sort
}

install() {
	control inside sh -c 'command -v onbeat'
	start_frames eth0
	for compiler in cc gcc clang cargo rustc; do
		control inside sh -c "command -v $compiler"
	done
	expect 0 apt install /packages/lower/onbeat.deb
	stop_frames
	all_arrived || fail "the installation loses frames"
	lost[install]=$(frames lost)
	for compiler in cc gcc clang cargo rustc; do
		control inside sh -c "command -v $compiler"
	done
	# Nothing is enabled.
	[ -z "$(find "$root/etc/systemd" -name 'onbeat*' 2>/dev/null)" ] || fail "the package enables a unit"
	inside test -f /usr/lib/systemd/system/onbeat@.service || fail "no unit"
	inside test -d /etc/onbeat || fail "no /etc/onbeat"
}

laboratory_missing() {
	expect 2 inside onbeat lab list
	has_line 'onbeat-lab'
	expect 0 apt install /packages/lower/onbeat-lab.deb
	expect 0 inside onbeat lab list
	has_line '^link-failure'
	expect 2 inside onbeat fleet status
	has_line 'package onbeat-fleet'
	expect 0 apt install /packages/lower/onbeat-fleet.deb
	expect 2 inside onbeat fleet status --fleet /nowhere
	has_line '/nowhere/fleet.json'
	inside getent passwd onbeat-fleet >/dev/null || fail "no user onbeat-fleet"
	inside test -f /usr/lib/systemd/system/onbeat-fleet-agent@.service || fail "no unit of agents"
}

# The program: its version, its examples, and its report of this host to root and to other users.
program() {
	expect 0 as_user onbeat --version
	has_line "^onbeat $version( \\([0-9a-f]{12}\\))?\$"
	control has_line '^onbeat 0\.0\.1'
	for user in inside as_user; do
		status=0
		$user onbeat doctor --json >"$output" 2>&1 || status=$?
		[ "$status" -le 1 ] || fail "onbeat doctor ($user): exit status $status: $(cat "$output")"
		python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["findings"]) > 5' "$output"
	done
	expect 1 inside onbeat doctor nowhere0
	has_line nowhere0
	expect 0 as_user onbeat run --check /usr/share/doc/onbeat/examples/reference.toml
	sed 's/^name = .*/nonsense = 1/' "$root/usr/share/doc/onbeat/examples/reference.toml" >"$root/tmp/bad.toml"
	control as_user onbeat run --check /tmp/bad.toml
}

manual() {
	expect 0 apt install man-db mandoc
	cp "$here/../../scripts/check-man.sh" "$root/tmp"
	mapfile -t pages < <(inside dpkg -L onbeat onbeat-lab onbeat-fleet | grep '^/usr/share/man/.*\.gz$')
	[ ${#pages[@]} -gt 12 ] || fail "only ${#pages[@]} manual pages"
	expect 0 inside sh /tmp/check-man.sh "${pages[@]}"
	printf '.TH X 1\n.SH NAME\nx \\- y\n.xyzzy\n' >"$root/tmp/faulty.1"
	control inside sh /tmp/check-man.sh /tmp/faulty.1
	# Each command that help lists has a page.
	for command in $(inside onbeat --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p' | grep -vx help); do
		expect 0 inside man --where "onbeat-$command"
	done
	control inside man --where onbeat-xyzzy
}

# The completions of bash for the last word of a command line.
completions_of() {
	inside bash --norc -c '
		. /usr/share/bash-completion/bash_completion
		_load_comp onbeat 2>/dev/null || _comp_load onbeat 2>/dev/null || __load_completion onbeat || true
		COMP_WORDS=(onbeat "$@") COMP_CWORD=$# COMP_TYPE=9
		COMP_LINE="onbeat $*" COMP_POINT=${#COMP_LINE}
		function=$(complete -p onbeat | sed "s/.*-F \([^ ]*\) .*/\1/")
		last=$((COMP_CWORD - 1))
		"$function" onbeat "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[last]}" 2>/dev/null
		printf "%s\n" "${COMPREPLY[@]}"
	' bash "$@"
}
completes() {
	local wanted=$1
	shift
	completions_of "$@" >"$output" 2>&1 || true
	grep -qxF -- "$wanted" "$output" || {
		cat "$output" >&2
		fail "\"$wanted\" is not completed after: onbeat $*"
	}
}

completions() {
	expect 0 apt install bash-completion fish zsh
	completes doctor doc
	completes eth1 doctor e
	completes --interface delay mirror --inter
	completes link-failure lab run link-f
	control completes link-failure lab run bridge
	control completes bridge show br
	expect 0 inside fish -c 'complete -C "onbeat doctor eth1"'
	has_line '^eth1'
	expect 0 inside zsh -f -c 'autoload -U compinit && compinit -u -D && whence -w _onbeat && print $_comps[onbeat]'
	has_line '_onbeat'
}

laboratory() {
	expect 0 inside onbeat lab run link-failure --backend packet --seconds 1 -q
	control inside onbeat lab run no-such-scenario -q
}

cat_config() {
	cat <<-END
		[node]
		name = "bridge"
		[[port]]
		name = "device"
		interface = "eth0"
		[[port]]
		name = "path1"
		interface = "eth1"
		[[port]]
		name = "path2"
		interface = "eth2"
		[[stream]]
		name = "axis-1"
		generate = true
		member = [{ port = "device", identify = { type = "null", destination = "01:00:5e:00:00:01", vlan = 100 } }]
		egress = [{ port = "path1", tag = "r-tag" }, { port = "path2", tag = "r-tag" }]
	END
}

# Waits for a command to succeed, for 10 s.
wait_for() {
	for _ in $(seq 100); do
		! "$@" || return 0
		sleep 0.1
	done
	return 1
}

# Stops the daemon of the node, which has this process id.
stop_daemon() {
	inside sh -c "kill -TERM $1"
	wait_for [ ! -d "/proc/$1" ] || fail "the daemon does not exit"
}

start_node() {
	inside onbeat run /etc/onbeat/bridge.toml >>"$work/$suite/node.log" 2>&1 &
	wait_for inside onbeat show bridge >/dev/null 2>&1 || {
		cat "$work/$suite/node.log" >&2
		fail "the node does not start"
	}
}
node_pid() {
	inside onbeat show bridge --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])'
}

# start_frames WAY...: frames flow until stop_frames, and arrive by each WAY (packages.frames.py). With `frames_of=NUMBER`
# another program sends them.
start_frames() {
	# Without the output of the last ones: the first output shows that these have started.
	: >"$work/$suite/frames"
	python3 "$here/packages.frames.py" "${frames_of:-talker}" "$@" >"$work/$suite/frames" &
	counting=$!
	wait_for [ -s "$work/$suite/frames" ] || fail "no frames are sent"
}
stop_frames() {
	kill "$counting"
	wait "$counting"
	tail -n 1 "$work/$suite/frames" >&2
}
# Prints how many frames were sent, lost, or arrived by the first WAY: frames sent, frames lost, frames arrived 0.
frames() {
	tail -n 1 "$work/$suite/frames" | python3 -c '
import json, sys
value = json.load(sys.stdin)[sys.argv[1]]
print(value[int(sys.argv[2])] if len(sys.argv) > 2 else value)' "$@"
}
all_arrived() {
	[ "$(frames sent)" -gt 100 ] && [ "$(frames lost)" = 0 ]
}

node() {
	cat_config >"$root/etc/onbeat/bridge.toml"
	start_frames left+right
	sleep 0.2
	stop_frames
	control all_arrived
	start_node
	completes bridge show br
	completes axis-1 reset a
	completes axis-1 show bridge --stream ''
	control completes eth1 show ''
	start_frames left+right
	sleep 0.2
	stop_frames
	all_arrived || fail "the node loses frames"
}

# A drop-in by the commands that a check prints, without systemctl, and one of the administrator.
drop_in() {
	{ echo '[guard]' && echo 'interfaces = ["eth1"]' && cat_config; } >"$root/etc/onbeat/guard.toml"
	expect 0 inside onbeat run --check /etc/onbeat/guard.toml
	command=$(sed -n 's/.*install it: //p' "$output")
	expect 0 inside sh -c "${command% && systemctl *}"
	rm "$root/etc/onbeat/guard.toml"
	drop_ins=$root/etc/systemd/system/onbeat@guard.service.d
	inside test -e "${drop_ins#"$root"}/guard.conf" || fail "not installed: $command"
	mkdir "$root/etc/systemd/system/onbeat@own.service.d"
	for unit in guard own; do
		echo '[Service]' >"$root/etc/systemd/system/onbeat@$unit.service.d/own.conf"
	done
	mkdir "$root/etc/systemd/system/onbeat@xsk.service.d"
	ln -s /usr/share/onbeat/systemd/xsk.conf "$root/etc/systemd/system/onbeat@xsk.service.d"
}

# Frames flow during the upgrade, and while the new version takes over.
upgrade() {
	before=$(node_pid)
	start_frames left+right
	expect 0 apt install /packages/given/onbeat.deb /packages/given/onbeat-lab.deb /packages/given/onbeat-fleet.deb
	# It is not a service.
	has_line 'node bridge still runs the previous version; to restart it: stop its "onbeat run"'
	[ "$(node_pid)" = "$before" ] || fail "the upgrade restarts the node"
	stop_frames
	all_arrived || fail "the upgrade loses frames"
	expect 0 inside dpkg-query -W -f '${Version}\n' onbeat
	has_line "^$version-"
	start_frames left+right
	stop_daemon "$before"
	start_node
	[ "$(node_pid)" != "$before" ] || fail "the node did not restart"
	stop_frames
	all_arrived || fail "taking over loses frames"
	inside test -f /etc/onbeat/bridge.toml || fail "the upgrade removes a configuration"
}

remove() {
	before=$(node_pid)
	stop_daemon "$before"
	start_frames left+right
	expect 0 apt remove onbeat-lab onbeat-fleet onbeat
	has_line 'the data plane of node bridge stays in the kernel'
	stop_frames
	all_arrived || fail "the removal loses frames"
	control inside sh -c 'command -v onbeat'
	inside test -f /etc/onbeat/bridge.toml || fail "the removal deletes a configuration"
	# As in the message: install again, and take the node down.
	expect 0 apt install /packages/given/onbeat.deb
	expect 0 inside onbeat down bridge
	start_frames left+right
	sleep 0.2
	stop_frames
	control all_arrived
	expect 0 apt remove onbeat
	control has_line 'stays in the kernel'
}

# The module: installed without headers, built when they are installed, upgraded, removed.
module() {
	rm -rf "$root/lib/modules"
	expect 0 apt install /packages/lower/onbeat-dkms.deb
	control inside sh -c 'ls /lib/modules/*/updates/dkms/onbeat.ko*'
	expect 0 apt install linux-headers-amd64
	kernel=$(basename "$(find "$root/lib/modules" -mindepth 1 -maxdepth 1 | head -n 1)")
	expect 0 inside sh -c 'ls /lib/modules/*/updates/dkms/onbeat.ko*'
	expect 0 apt install /packages/given/onbeat-dkms.deb
	expect 0 inside modinfo -F version -k "$kernel" onbeat
	has_line "^$version\$"
	expect 0 inside dkms status
	# A kernel of trixie has a "+" in its name.
	has_line "^onbeat/$version, ${kernel//+/\\+}, [^:]*: installed"
	expect 0 apt purge onbeat-dkms
	control inside sh -c 'ls /lib/modules/*/updates/dkms/onbeat.ko* /usr/src/onbeat-*'
}

purge() {
	expect 0 apt purge onbeat onbeat-lab onbeat-fleet
	inside test -f /etc/onbeat/bridge.toml || fail "the purge deletes a configuration of the administrator"
	control inside test -e /sys/fs/bpf/onbeat
	rm "$root/etc/onbeat/bridge.toml"
	rmdir "$root/etc/onbeat"
	[ ! -L "$drop_ins/guard.conf" ] || fail "the purge leaves a link to a drop-in"
	for unit in guard own; do
		rm "$root/etc/systemd/system/onbeat@$unit.service.d/own.conf" || fail "the purge deletes a drop-in of the administrator"
		rmdir "$root/etc/systemd/system/onbeat@$unit.service.d"
	done
	# The dependencies are purged as well.
	mapfile -t others < <(installed | comm -13 "$work/$suite/packages" -)
	[ ${#others[@]} = 0 ] || expect 0 apt purge "${others[@]}"
	control left_behind
	touch "$root/etc/onbeat-forgotten"
	left_behind || fail "a remaining file is not detected"
}

# Whether files exist that did not exist before the first package, and that have names of onbeat.
left_behind() {
	files | comm -13 "$work/$suite/before" - | grep -i onbeat
}

trap power_off EXIT
trap 'exit 130' INT TERM HUP
declare -A lost
set_up
installed >"$work/$suite/packages"
files >"$work/$suite/before"
for step in install laboratory_missing program manual completions laboratory node drop_in upgrade remove module purge \
	boot_services upgrade_services upgrade_faulty upgrade_incompatible remove_services; do
	start=$(date +%s%N)
	$step
	printf 'packages: %-9s %-20s %5d ms\n' "$suite" "$step" $((($(date +%s%N) - start) / 1000000)) >&2
done
printf 'packages: %-9s frames lost: install %d, boot protected %d, upgrade %d, remove %d\n' \
	"$suite" "${lost[install]}" "${lost[boot]}" "${lost[upgrade]}" "${lost[remove]}" >&2
