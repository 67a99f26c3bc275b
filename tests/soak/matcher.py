"""Checks the delays of `onbeat delay match --csv`, and its result, against a matcher and statistics of its own.

Usage: matcher.py ARRIVALS DEPARTURES DELAYS.csv LONGEST_US RESULT.json

tshark reads the captures. A packet is known by its IP identification, destination and payload; the
routed hop changes neither. Packets that share these with another arrival are left out, and so are lost ones
that could have departed after the capture's end.

scipy and numpy compute the statistics: percentiles are exact to the width of a bucket, and intervals contain the inner
half of the estimates of a block bootstrap. An interval is at most four times as wide as that of the bootstrap.
"""

import collections
import csv
import json
import subprocess
import sys

import numpy as np
from scipy import stats

# The width of a bucket of percentiles.
BUCKET = 1 / 8192
RESAMPLES = 200

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


def bootstrap(delays, quantile, random):
    """Estimates of a percentile from resampled blocks of consecutive packets."""
    length = int(len(delays) ** 0.5)
    starts = len(delays) // length
    blocks = delays[: starts * length].reshape(starts, length)
    chosen = random.integers(0, starts, (RESAMPLES, starts))
    return [np.quantile(blocks[rows], quantile, method="inverted_cdf") for rows in chosen]


def statistics(path, delays, lost):
    """Checks the mean, the deviation and each percentile of a result; returns the number of values."""
    with open(path) as file:
        figures = json.load(file)["figures"]
    checked = 0

    def same(name, value, expected, error):
        nonlocal checked
        checked += 1
        if abs(value - expected) > error:
            sys.exit(f"{name}: {value}, expected {expected}")

    same("delays", figures["delays"]["value"], len(delays), 0)
    same("mean", figures["mean delay"]["value"], delays.mean(), 1e-6 * delays.mean())
    deviation = stats.tstd(delays)
    same("standard deviation", figures["standard deviation"]["value"], deviation, 1e-6 * deviation)
    random = np.random.default_rng(1)
    columns = [column["name"] for column in figures["percentiles"]["columns"]]
    for row in figures["percentiles"]["rows"]:
        found = dict(zip(columns, row))
        if found["lower bound"] is None or found["upper bound"] is None:
            continue
        quantile = float(found[""][1:]) / 100
        expected = np.quantile(delays, quantile, method="inverted_cdf")
        same(found[""], found["delay"], expected, BUCKET * expected + 1)
        low, inner_low = stats.scoreatpercentile(bootstrap(delays, quantile, random), [2.5, 25])
        # The upper end is of all packets that were sent: lost ones are later than all others.
        of_sent = quantile * (1 + lost / len(delays))
        if of_sent >= 1:
            sys.exit(f"{found['']}: has an upper end, with {lost} lost packets")
        inner_high, high = stats.scoreatpercentile(bootstrap(delays, of_sent, random), [75, 97.5])
        lower, upper, bucket = found["lower bound"], found["upper bound"], BUCKET * expected + 1
        if lower > inner_low + bucket or upper < inner_high - bucket:
            sys.exit(f"{found['']}: [{lower}, {upper}] against a bootstrap of [{inner_low}, {inner_high}]")
        if quantile <= 0.99 and upper - lower > 4 * (high - low) + 4 * bucket:
            sys.exit(f"{found['']}: [{lower}, {upper}] is wider than a bootstrap of [{low}, {high}]")
    return checked


def main(arrivals, departures, delays, longest_us, result):
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
        rows = list(csv.DictReader(file))
    found = {int(row["arrival_ns"]): row["delay_ns"] for row in rows}
    wrong = [(time, delay, found.get(time)) for time, delay in expected.items() if found.get(time) != delay]
    if wrong:
        sys.exit(f"{len(wrong)} of {len(expected)} delays differ; arrival, expected, found: {wrong[:3]}")
    own = [int(row["delay_ns"]) for row in rows if row["verdict"] in ("certain", "ordered")]
    lost = sum(row["verdict"] == "lost" for row in rows)
    print(len(expected), statistics(result, np.array(own), lost))


main(*sys.argv[1:])
