"""Measures links from the switch of a box: round trips, loss, and rates each way.

Run as a program in the switch's namespace: `gauge.py JSON`. It answers in JSON, in seconds, bits
per second and parts of 1. What it asks a machine for is an ICMP echo, which every kernel answers.
Only this standard library is needed: it runs as root.
"""

from __future__ import annotations

import json
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import Any

PROGRAMS = ("ip",)

BRIDGE = "data"
PINGS, SPREAD_PINGS, FEWEST_LOST, MOST_PINGS = 30, 120, 25, 4000
REACHED_SECONDS = 10.0
SO_RCVBUFFORCE, BUFFER = 33, 8 << 20
SIZE, USUAL_MTU = 56, 1500
OFFER = 1.5
"""Times the rate that is asked for: what is offered while a rate is measured."""
RATE_SECONDS, LEAST_FRAMES, MOST_SECONDS = 0.25, 60, 3.0
ICMP_ECHO, HEADERS = 8, 28
# Nine in ten of the sums of two jitters, evenly spread each, lie in this part of their range.
WITHIN_NINETY = 0.684


def echo(number: int, turn: int, size: int) -> bytes:
    """An ICMP echo request with `size` bytes behind its header."""
    body = struct.pack("!HH", number, turn & 0xFFFF) + b"\0" * size
    head = struct.pack("!BBH", ICMP_ECHO, 0, 0)
    return head[:2] + struct.pack("!H", checksum(head + body)) + body


def checksum(content: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    even = content + b"\0" * (len(content) % 2)
    total = sum(struct.unpack(f"!{len(even) // 2}H", even))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)


@contextmanager
def prompt() -> Any:
    """Woken before others, where that is allowed."""
    try:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class Pings:
    """Echo requests to one machine, and who of them was answered when."""

    def __init__(self, address: str) -> None:
        self.address, self.number = address, os.getpid() & 0xFFFF
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        # All answers of a measurement, should this machine be too slow to read them as they come.
        for size in (SO_RCVBUFFORCE, socket.SO_RCVBUF):
            with suppress(PermissionError):
                self.socket.setsockopt(socket.SOL_SOCKET, size, BUFFER)
                break
        self.turn = 0

    @prompt()
    def several(self, count: int, gap: float, patience: float) -> list[float]:
        """The round trips of those that were answered, in seconds; nothing else comes between."""
        departures: dict[int, float] = {}
        times: list[float] = []
        start, end = time.perf_counter(), 0.0
        while len(times) < count:
            moment = time.perf_counter()
            if len(departures) < count and moment >= start + len(departures) * gap:
                self.turn += 1
                packet = echo(self.number, self.turn, SIZE)
                departures[self.turn & 0xFFFF] = time.perf_counter()
                with suppress(OSError):
                    self.socket.sendto(packet, (self.address, 0))
                end = time.perf_counter() + patience
                continue
            due = start + len(departures) * gap if len(departures) < count else end
            if len(departures) == count and moment >= end:
                break
            times += self._answers(departures, max(due - moment, 0))
        return times

    def _answers(self, departures: dict[int, float], patience: float) -> list[float]:
        ready, _, _ = select.select([self.socket], [], [], patience)
        if not ready:
            return []
        came, (packet, _) = time.perf_counter(), self.socket.recvfrom(65535)
        body = packet[(packet[0] & 15) * 4 :]
        kind, _, _, number, turn = struct.unpack("!BBHHH", body[:8])
        matches = kind == 0 and number == self.number and turn in departures
        return [came - departures[turn]] if matches else []


def reached(pings: Pings, patience: float) -> bool:
    """Whether the machine answers at all; the first answer also brings the switches up to date."""
    until = time.monotonic() + REACHED_SECONDS
    while time.monotonic() < until:
        if pings.several(2, 0.01, 0.2 + patience):
            return True
    return False


def measured(link: dict[str, Any]) -> dict[str, float]:
    """The measured figures of one link beside the wanted ones."""
    pings, patience = Pings(link["address"]), 0.3 + 2.2 * (link["delay"] + link["jitter"])
    if not reached(pings, patience):
        return {}
    figures: dict[str, float] = {}
    times = pings.several(SPREAD_PINGS if link["jitter"] else PINGS, 0.004, patience)
    if link["delay"] and times:
        figures["delay"] = statistics.median(times) / 2
    if link["jitter"] and len(times) > 20:
        cuts = statistics.quantiles(times, n=20)
        figures["jitter"] = (cuts[-1] - cuts[0]) / 4 / WITHIN_NINETY
    if link["loss"]:
        count = int(min(MOST_PINGS, max(400, FEWEST_LOST / link["loss"])))
        answers = len(pings.several(count, 0.0004, patience))
        figures |= {"loss": 1 - (answers / count) ** 0.5, "pings": count}
    if link["rate"]:
        figures |= {"rate": min(rates := [rate(link, way, pings) for way in ("toward", "from")]),
                    "rate_high": max(rates)}  # fmt: skip
    return figures


def rate(link: dict[str, Any], way: str, pings: Pings) -> float:
    """Bits per second that leave the queue of one direction while more than that is offered."""
    into, out = link[way]["into"], link[way]["out"]
    frame = framed(link, echo(pings.number, 0, USUAL_MTU - HEADERS))
    gap = 8 * len(frame) / (OFFER * link["rate"])
    last = min(max(RATE_SECONDS, LEAST_FRAMES * 8 * len(frame) / link["rate"]), MOST_SECONDS)
    bits = offered(into, out, frame, gap, last, link["delay"])
    time.sleep(2 * link["delay"] + 0.06)
    return bits


def offered(into: str, out: str, frame: bytes, gap: float, last: float, delay: float) -> float:
    """Bits per second that leave `out` while a frame goes `into` the other side at each gap."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind((into, 0))
    # What may go at once, and what waits beyond the delay, is over after the first part.
    start = time.perf_counter()
    steady, frames = start + last / 2 + delay, 0
    first: tuple[float, int] = (0.0, 0)
    while (moment := time.perf_counter()) < steady + last:
        if not first[0] and moment >= steady:
            first = (moment, sent_by(out))
        if moment >= start + frames * gap:
            with suppress(OSError):
                sender.send(frame)
            frames += 1
        elif start + frames * gap - moment > 0.0002:
            time.sleep(0.0001)
    seconds, count = time.perf_counter() - first[0], sent_by(out) - first[1]
    sender.close()
    return 8 * count / seconds


def framed(link: dict[str, Any], packet: bytes) -> bytes:
    """The packet with its IP and Ethernet headers, as if from the switch."""
    source = socket.inet_aton(link["probe"])
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(packet), 1, 0, 64, 1, 0)
    head += source + socket.inet_aton(link["address"])
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    target = bytes.fromhex(link["mac"].replace(":", ""))
    sender = bytes.fromhex(link["switch"].replace(":", ""))
    return target + sender + struct.pack("!H", 0x0800) + head + packet


# /sys may show the devices of another namespace.
def sent_by(device: str) -> int:
    """Bytes that have left a device."""
    with open("/proc/thread-self/net/dev", encoding="ascii") as lines:
        for line in lines:
            name, _, counts = line.partition(":")
            if name.strip() == device:
                return int(counts.split()[8])
    raise LookupError(f"no device {device}")


@contextmanager
def standing_at(address: str) -> Any:
    """The switch has an address of its own meanwhile."""
    words = ["ip", "addr", "{}", f"{address}/24", "dev", BRIDGE]
    subprocess.run([word.format("replace") for word in words], check=True)
    try:
        yield
    finally:
        subprocess.run([word.format("del") for word in words])


def main(text: str) -> None:
    """Measure each link by itself, one after the other."""
    links = json.loads(text)
    with standing_at(next(iter(links.values()))["probe"]):
        print(json.dumps({role: measured(link) for role, link in links.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
