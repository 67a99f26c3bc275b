#!/bin/sh
# Makes the captures that tests/delay/captures.rs reads, with Wireshark's and other tools, from a text of
# six packets: every variant holds the same ones.
#
#   captures.sh         (text2pcap, editcap, mergecap, gzip, zstd, pzstd)
set -eu
unset CDPATH
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Time stamps to the nanosecond; lengths 60, 61, 63, 64, 98 and 192, so that blocks need padding.
packet() {
	printf 'I 2026-01-02T03:04:05.%sZ\n0000 ' "$1"
	seq -f %g "$3" $(($3 + $2 - 1)) | awk '{ printf "%02x ", $1 % 256 } END { print "" }'
}
{
	packet 000000000 60 0
	packet 000000001 61 10
	packet 123456789 63 20
	packet 500000000 64 30
	packet 999999999 98 40
	packet 999999999 192 50
} >"$work/text"
text2pcap -q -D -t ISO -F nsecpcap "$work/text" nanoseconds.pcap
editcap -F pcap nanoseconds.pcap microseconds.pcap
editcap -F pcapng nanoseconds.pcap nanoseconds.pcapng
editcap -F pcapng -s 62 nanoseconds.pcap cut.pcapng
# Two interfaces, in order of time.
editcap -r -F pcapng nanoseconds.pcap "$work/first.pcapng" 1-3
editcap -r -F pcapng microseconds.pcap "$work/second.pcapng" 4-6
mergecap -I none -w interfaces.pcapng "$work/first.pcapng" "$work/second.pcapng"
gzip -kfn nanoseconds.pcap
# Two members, as `cat` of compressed parts has them.
{
	head -c 200 nanoseconds.pcapng | gzip -n
	tail -c +201 nanoseconds.pcapng | gzip -n
} >members.pcapng.gz
zstd -qf nanoseconds.pcapng
# A skippable frame in front, as pzstd writes.
pzstd -qf nanoseconds.pcap -o frames.pcap.zst
