"""Sends numbered frames of a stream, and counts those that arrive: packages.frames.py OUT IN...

Sends on interface OUT until SIGTERM, then waits for the last frames and prints, as JSON, how many were sent and
how many of them arrived on each interface IN, each counted once.
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
INTERVAL = 0.0005
LAST_WAIT = 0.5
ALL = 3  # ETH_P_ALL


def opened(interface):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    port.bind((interface, 0))
    port.setblocking(False)
    return port


def main():
    out, *names = sys.argv[1:]
    talker = opened(out)
    listeners = {opened(name): set() for name in names}
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(time.monotonic()))
    sent, due = 0, time.monotonic()
    header = GROUP + SOURCE + struct.pack("!HHH", 0x8100, VLAN, TEST_TYPE)
    print("started", flush=True)
    while not ended or time.monotonic() < ended[0] + LAST_WAIT:
        if not ended and time.monotonic() >= due:
            talker.send(header + MAGIC + struct.pack("!I", sent) + bytes(40))
            sent, due = sent + 1, due + INTERVAL
        ready, _, _ = select.select(list(listeners), [], [], max(0, min(INTERVAL, due - time.monotonic())))
        for port in ready:
            frame = port.recv(2048)
            at = frame.find(MAGIC)
            if at > 0:
                at += len(MAGIC)
                listeners[port].add(struct.unpack("!I", frame[at : at + 4])[0])
    print(json.dumps({"sent": sent, "arrived": [len(numbers) for numbers in listeners.values()]}))


main()
