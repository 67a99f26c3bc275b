"""Checks the delays of `onbeat delay match --csv` against a matcher of its own.

Usage: matcher.py ARRIVALS DEPARTURES DELAYS.csv LONGEST_US

tshark reads the captures. A packet is known by its IP identification, destination and payload; the
routed hop changes neither. Packets that share these with another arrival are left out, and so are lost ones
that could have departed after the capture's end.
"""

import collections
import csv
import subprocess
import sys

FIELDS = ["frame.time_epoch", "ip.id", "ip.dst", "udp.payload"]


def packets(path):
    """Time in ns and key of each packet."""
    fields = [word for field in FIELDS for word in ("-e", field)]
    command = ["tshark", "-n", "-r", path, "-o", "ip.defragment:FALSE", "-T", "fields", *fields]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tshark:
        for line in tshark.stdout:
            time, *key = line.decode().rstrip("\n").split("\t")
            seconds, nanoseconds = time.split(".")
            if len(nanoseconds) != 9:
                sys.exit(f"tshark gives {time}, nanoseconds are required")
            yield int(seconds) * 10**9 + int(nanoseconds), hash(tuple(key))
    if tshark.returncode != 0:
        sys.exit(f"tshark cannot read {path}")


def main(arrivals, departures, delays, longest_us):
    arrived = list(packets(arrivals))
    number = collections.Counter(key for _, key in arrived)
    departed, end = {}, 0
    for time, key in packets(departures):
        # A duplicate departs later.
        departed.setdefault(key, time)
        end = max(end, time)
    end = min(end, arrived[-1][0])
    expected = {
        time: str(departed[key] - time) if key in departed else ""
        for time, key in arrived
        if number[key] == 1 and (key in departed or time + int(longest_us) * 1000 < end)
    }
    with open(delays, newline="") as file:
        found = {int(row["arrival_ns"]): row["delay_ns"] for row in csv.DictReader(file)}
    wrong = [(time, delay, found.get(time)) for time, delay in expected.items() if found.get(time) != delay]
    if wrong:
        sys.exit(f"{len(wrong)} of {len(expected)} delays differ; arrival, expected, found: {wrong[:3]}")
    print(len(expected))


main(*sys.argv[1:])
