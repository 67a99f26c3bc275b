"""Sends numbered frames of a stream, and counts those that arrive: packages.frames.py OUT WAY...

Sends on interface OUT until SIGTERM; with a number in place of OUT another program sends this many. A WAY is an
interface, or interfaces separated by "+". A frame is lost if it arrives by no WAY, on all of its interfaces. After
SIGTERM waits for the last frames, and prints as JSON the frames that were sent, those lost, and those that arrived by
each WAY.
"""

import json
import select
import signal
import socket
import struct
import sys
import time

GROUP = bytes.fromhex("01005e000001")
SOURCE = bytes.fromhex("020000000001")
VLAN, TEST_TYPE = 100, 0x88B5
MAGIC = b"onbeat-packages-soak"
DIGITS = 8
INTERVAL = 0.0005
LAST_WAIT = 0.5
ALL = 3  # ETH_P_ALL
PACKET_OUTGOING = 4


def opened(interface):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    port.bind((interface, 0))
    port.setblocking(False)
    return port


def main():
    out, *ways = sys.argv[1:]
    ways = [way.split("+") for way in ways]
    arrived = {name: set() for way in ways for name in way}
    listeners = {opened(name): numbers for name, numbers in arrived.items()}
    talker = None if out.isdigit() else opened(out)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(time.monotonic()))
    sent, due = 0, time.monotonic()
    header = GROUP + SOURCE + struct.pack("!HHH", 0x8100, VLAN, TEST_TYPE)
    print("started", flush=True)
    while not ended or time.monotonic() < ended[0] + LAST_WAIT:
        if talker and not ended and time.monotonic() >= due:
            talker.send(header + MAGIC + f"{sent:0{DIGITS}}".encode() + bytes(40))
            sent, due = sent + 1, due + INTERVAL
        wait = max(0, min(INTERVAL, due - time.monotonic())) if talker else LAST_WAIT
        ready, _, _ = select.select(list(listeners), [], [], wait)
        for port in ready:
            frame, (_, _, kind, *_) = port.recvfrom(2048)
            at = frame.find(MAGIC)
            if at > 0 and kind != PACKET_OUTGOING:
                at += len(MAGIC)
                listeners[port].add(int(frame[at : at + DIGITS]))
    if not talker:
        sent = int(out)
    by_way = [set.intersection(*(arrived[name] for name in way)) for way in ways]
    lost = sent - len(set.union(*by_way))
    print(json.dumps({"sent": sent, "lost": lost, "arrived": [len(numbers) for numbers in by_way]}))


main()
