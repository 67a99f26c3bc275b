# shellcheck shell=bash
# The steps of the soak static: static.steps.sh WORK ARCHIVE CAPTURE, in separate mount, network and process namespaces.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
root=$1/root output=$1/output
mkdir "$root"
mount -t tmpfs tmpfs "$root"
mkdir "$root"/{proc,sys,dev,run,tmp,etc,onbeat}
tar -xf "$2" -C "$root/onbeat" --strip-components=1
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t bpf bpf "$root/sys/fs/bpf"
: >"$root/dev/null"
mount --bind /dev/null "$root/dev/null"
echo "127.0.0.1 reflector" >"$root/etc/hosts"
ip link set lo up

# onbeat in the directory.
onbeat=(env -i PATH=/usr/sbin:/usr/bin chroot "$root" /onbeat/bin/onbeat)
runs=0
expect_onbeat() {
	local status=$1
	shift
	expect "$status" "${onbeat[@]}" "$@"
	runs=$((runs + 1))
}

expect_onbeat 0 --version
has_line '^onbeat [0-9]'
expect_onbeat 0 run --check /onbeat/share/doc/onbeat/examples/reference.toml
for backend in xdp packet xsk; do
	expect_onbeat 0 lab run link-failure --backend "$backend" --seconds 2 --html /tmp/report.html
	grep '^PASS' "$output" >&2
	[ -s "$root/tmp/report.html" ] || fail "no report: $backend"
	rm "$root/tmp/report.html"
done
# Names: /etc/hosts, without a name server.
"${onbeat[@]}" delay echo >"$1/echo" 2>&1 &
reflector=$!
for _ in $(seq 100); do
	! ss -Hlun 2>/dev/null | grep -q ':862 ' || break
	sleep 0.1
done
expect_onbeat 0 delay ping reflector --for 1s
kill "$reflector"
expect_onbeat 2 delay ping reflector.invalid --for 1s
# A capture, and an expression, which libpcap compiles.
cp "$3" "$root/capture.pcap"
expect_onbeat 2 delay match /capture.pcap /capture.pcap --filter udp
has_line 'libpcap.* this program is linked statically'
echo "$runs" >"$1/runs"
