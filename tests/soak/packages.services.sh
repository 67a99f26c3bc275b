# shellcheck shell=bash
# The last steps of packages.steps.sh: a container in which systemd boots the tree, with a node as a service.
# Variables and functions are those of that file.
# shellcheck disable=SC2034,SC2154,SC2317

# The container with systemd: the first application, which sends frames of the stream as soon as it runs, and a node
# whose ports have another MTU meanwhile.
set_up_services() {
	start_frames eth0
	expect 0 apt install systemd /packages/lower/onbeat.deb
	stop_frames
	all_arrived || fail "the installation loses frames"
	cat_config | sed -e 's/, vlan = 100//' -e 's/^interface = "eth[12]"/&\nmtu = 1700/' >"$root/etc/onbeat/bridge.toml"
	cat >"$root/usr/local/bin/application" <<-'END'
		#!/bin/bash
		exec 3>/dev/udp/224.0.0.1/5000
		for number in {0..199}; do
			printf 'onbeat-packages-soak%08d' "$number" >&3
			sleep 0.001
		done
	END
	chmod 755 "$root/usr/local/bin/application"
	cat >"$root/etc/systemd/system/application.service" <<-'END'
		[Unit]
		Description=First application
		After=network.target
		[Service]
		Type=oneshot
		RemainAfterExit=yes
		ExecStart=/usr/local/bin/application
		[Install]
		WantedBy=multi-user.target
	END
	expect 0 inside systemctl enable application
	# The frames of the application have the destination of the stream, 01:00:5e:00:00:01.
	ip address add 192.0.2.1/24 dev talker
	ip route add 224.0.0.0/4 dev talker
}

# Boots the tree, and counts the frames of the first application.
booted() {
	power_off
	rm -rf "$work/$suite/container"
	mkdir "$work/$suite/container"
	frames_of=200 start_frames left+right eth0
	boot "$root" "$work/$suite/container" multi-user.target : ''
	stop_frames
	[ "$(frames sent)" = "$(($(frames arrived 0) + $(frames arrived 1)))" ] || fail "the application does not send"
}
is_protected() {
	[ "$(frames arrived 0)" = 200 ]
}

# The node is protected before the first application starts.
boot_services() {
	set_up_services
	booted
	control is_protected
	expect 0 inside systemctl enable onbeat@bridge
	booted
	is_protected || fail "the first application starts before the node"
	lost[boot]=$((200 - $(frames arrived 0)))
	inside systemctl --quiet is-active onbeat@bridge || fail "the service is not active"
}

service() {
	inside systemctl show --value --property "$2" "onbeat@$1"
}

# Whether the service has been started since, by the program that is installed.
restarted() {
	now=$(service bridge MainPID)
	[ "$now" != "$before" ] && inside test "/proc/$now/exe" -ef /usr/bin/onbeat
}

# Frames flow during the upgrade, in which the service is restarted.
upgrade_services() {
	before=$(service bridge MainPID)
	start_frames left+right
	control restarted
	expect 0 apt install /packages/given/onbeat.deb
	has_line 'node bridge is restarted, and runs the new version'
	restarted || fail "the upgrade does not restart the service"
	stop_frames
	all_arrived || fail "the upgrade loses frames"
	lost[upgrade]=$(frames lost)
	control has_line 'still runs the previous version'
}

# stays PATTERN: an upgrade leaves the service running, with a message, and frames continue to flow.
stays() {
	before=$(service bridge MainPID)
	start_frames left+right
	expect 0 apt install --reinstall /packages/given/onbeat.deb
	has_line "node bridge still runs the previous version: $1"
	has_line 'to restart it when its streams may be interrupted: systemctl restart onbeat@bridge.service'
	control restarted
	[ "$(service bridge MainPID)" = "$before" ] || fail "the upgrade stops the service"
	stop_frames
	all_arrived || fail "the upgrade loses frames"
}

# A file that the new program refuses.
upgrade_faulty() {
	cp "$root/etc/onbeat/bridge.toml" "$work/$suite/bridge.toml"
	echo 'nonsense = 1' >>"$root/etc/onbeat/bridge.toml"
	stays '"onbeat run --check /etc/onbeat/bridge.toml" fails: .*nonsense'
	cp "$work/$suite/bridge.toml" "$root/etc/onbeat/bridge.toml"
}

# Whether systemd started a service once, and does not try again.
failed_once() {
	[ "$(service "$1" ActiveState) $(service "$1" ExecMainStatus) $(service "$1" NRestarts)" = "failed 78 0" ]
}

# Sets the version of the tables, octet 12 of the table of the node (struct frer_node); the former one is in $former.
set_version() {
	local table=/proc/$init/root/sys/fs/bpf/onbeat/bridge/tables/node value
	read -ra value < <(bpftool -j map lookup pinned "$table" key 0 0 0 0 |
		python3 -c 'import json, sys; print(*json.load(sys.stdin)["value"])')
	former=${value[12]}
	value[12]=$1
	bpftool map update pinned "$table" key 0 0 0 0 value "${value[@]}"
}

upgrade_incompatible() {
	set_version 0xee
	original=$former
	stays '.* pinned state of another version or size of this node; remove it with onbeat down'
	# A start is refused once. The data plane of the former program continues.
	start_frames left+right
	expect 1 inside systemctl restart onbeat@bridge
	# Longer than the pause before a restart.
	sleep 1.5
	failed_once bridge || fail "the service is $(service bridge ActiveState), restarts: $(service bridge NRestarts)"
	stop_frames
	all_arrived || fail "a refused start loses frames"
	# A service that is restarted: its interface is missing.
	printf '[[port]]\nname = "absent"\ninterface = "absent"\n' >"$root/etc/onbeat/absent.toml"
	inside systemctl start --no-block onbeat@absent
	is_restarted() { [ "$(service absent NRestarts)" -gt 0 ]; }
	await "onbeat@absent is restarted" is_restarted
	control failed_once absent
	inside systemctl stop onbeat@absent
	rm "$root/etc/onbeat/absent.toml"
	# With the version of the program the service starts, and takes over.
	set_version "$original"
	start_frames left+right
	expect 0 inside systemctl start onbeat@bridge
	stop_frames
	all_arrived || fail "a start loses frames"
	# The remedy.
	set_version 0xee
	expect 1 inside systemctl restart onbeat@bridge
	expect 0 inside onbeat down bridge
	expect 0 inside systemctl start onbeat@bridge
	start_frames left+right
	sleep 0.2
	stop_frames
	all_arrived || fail "the node does not forward after the remedy"
}

# Whether nothing of the nodes is left, but their configurations.
is_clean() {
	! ip -details link | grep -w xdp && ! inside find /sys/fs/bpf/onbeat -mindepth 1 2>/dev/null | grep . &&
		[ "$(inside cat /sys/class/net/eth1/mtu)" = 1600 ] && ! inside test -e /sys/class/net/tsn0 &&
		! inside systemctl --quiet is-active onbeat@bridge && ! inside systemctl --quiet is-active onbeat-metrics.socket
}

# The removal takes nodes down: one of a service, and one whose daemon was killed. Each frame takes both paths before, and
# is received by the host after that.
remove_services() {
	ip link add spare type veth peer name spare-end
	ip link set spare up
	cat >"$root/etc/onbeat/left.toml" <<-'END'
		[[port]]
		name = "spare"
		interface = "spare"
		[[port]]
		name = "host"
		interface = "tsn0"
		create = "veth"
	END
	inside onbeat run /etc/onbeat/left.toml >>"$work/$suite/node.log" 2>&1 &
	wait_for inside onbeat show left >/dev/null 2>&1 || fail "the node left does not start"
	inside sh -c "kill -KILL $(inside onbeat show left --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')"
	inside systemctl start onbeat-metrics.socket
	control is_clean
	start_frames left+right eth0
	expect 0 apt remove onbeat
	sleep 0.2
	stop_frames
	control has_line 'fails|stays in the kernel'
	is_clean || fail "the removal leaves something of a node"
	all_arrived || fail "the removal loses frames"
	for way in 0 1; do
		[ "$(frames arrived "$way")" -gt 0 ] || fail "the node is not removed under traffic"
	done
	lost[remove]=$(frames lost)
	inside test -f /etc/onbeat/bridge.toml || fail "the removal deletes a configuration"
	expect 0 apt purge onbeat
	power_off
}
