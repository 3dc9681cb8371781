"""Watches a guest of QEMU by its monitor while it moves; run as a program on its host.

`watch_guest.py SOCKET EVERY PID... [mirror=DISK...]` prints a line of JSON for each event that QEMU
reports. Two more come each EVERY seconds: its state of the migration, and the CPU seconds of its
threads by name. The latter has the bytes on the links of its host, too. Times are this host's, in
seconds since 1970. While the guest stands still it ends the mirrors of the disks named, and has
QEMU go on: to ask from elsewhere would take longer. It needs the standard library alone, and ends
with its standard output.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

LONG_LOOK = 0.005
"""Seconds; usually it takes a tenth of that."""
RAM = (
    "transferred", "remaining", "total", "dirty-sync-count", "dirty-pages-rate", "normal",
    "duplicate", "postcopy-requests",
)  # fmt: skip
TOP = (
    "status", "total-time", "downtime", "setup-time", "expected-downtime", "error-desc",
    "cpu-throttle-percentage",
)  # fmt: skip


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """The part of QEMU's answer to `query-migrate` that is kept."""
    ram = answer.get("ram", {})
    part = {key: answer[key] for key in TOP if key in answer}
    return part | {key: ram[key] for key in RAM if key in ram}


def threads(pids: list[str]) -> dict[str, float]:
    """CPU time by the name of the thread; that of threads that have ended is in `all`."""
    times: dict[str, float] = {}
    for pid in pids:
        for task in Path("/proc", pid, "task").glob("*"):
            with suppress(OSError, ValueError):
                nanoseconds = int((task / "schedstat").read_text().split()[0])
                name = (task / "comm").read_text().strip()
                times[name] = times.get(name, 0.0) + nanoseconds / 1e9
        with suppress(OSError, IndexError):
            fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
            times["all"] = times.get("all", 0.0) + (int(fields[11]) + int(fields[12])) / 100
    return {name: round(seconds, 3) for name, seconds in times.items()}


def lines_of() -> dict[str, list[int]]:
    """Bytes that have come and gone on each link of this host."""
    counts_of = {}
    for link in Path("/sys/class/net").glob("*"):
        with suppress(OSError, ValueError):
            files = [link / "statistics" / f"{way}_bytes" for way in ("rx", "tx")]
            counts_of[link.name] = [int(file.read_text()) for file in files]
    return {
        name: counts for name, counts in counts_of.items() if name.startswith(("crossing", "data"))
    }


def counted() -> tuple[float, dict[str, list[int]]]:
    """The bytes, and when; where somebody else had the CPU meanwhile, look again."""
    for _ in range(5):
        before, counts, after = time.time(), lines_of(), time.time()
        if after - before < LONG_LOOK:
            break
    return (before + after) / 2, counts


class Monitor:
    """QEMU's monitor, which may be too busy to answer for a while, as where memory comes in."""

    def __init__(self, place: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(place)
        self.rest, self.owed = b"", 0

    def ask(self, command: str, **arguments: str) -> None:
        """Ask, without waiting for the answer."""
        words = {"execute": command} | ({"arguments": arguments} if arguments else {})
        self.socket.settimeout(60)
        self.socket.sendall(json.dumps(words).encode() + b"\n")
        self.owed += 1

    def lines(self, until: float) -> Iterator[dict[str, Any]]:
        """Yield what it says until then; the rest of a line waits for the next call."""
        while (seconds := until - time.monotonic()) > 0:
            self.socket.settimeout(seconds)
            try:
                part = self.socket.recv(1 << 16)
            except TimeoutError:
                return
            if not part:
                raise EOFError
            *lines, self.rest = (self.rest + part).split(b"\n")
            for line in map(json.loads, filter(None, lines)):
                self.owed -= "return" in line or "error" in line
                yield line


def say(line: dict[str, Any]) -> None:
    """One line for the process that started us."""
    print(json.dumps({"t": round(time.time(), 4)} | line, separators=(",", ":")), flush=True)


class Mirrors:
    """Copies of disks: each ends when it is whole and the guest stands still, then QEMU goes on."""

    def __init__(self, disks: set[str]) -> None:
        self.left, self.whole, self.still = disks, set[str](), False

    def heard(self, monitor: Monitor, event: str, about: dict[str, Any]) -> None:
        """End what may end now."""
        device = about.get("device", "")
        if event == "MIGRATION":
            self.still = about["status"] == "pre-switchover"
        elif event == "BLOCK_JOB_READY" and device in self.left:
            self.whole.add(device)
        elif event == "BLOCK_JOB_COMPLETED" and device in self.left:
            self.left.discard(device)
            if not self.left:
                monitor.ask("migrate-continue", state="pre-switchover")
        while self.still and self.whole:
            monitor.ask("block-job-cancel", device=self.whole.pop())


def heard(monitor: Monitor, line: dict[str, Any], mirrors: Mirrors) -> None:
    """Report an event or an answer, and go on from it where that is ours to do."""
    if "event" in line:
        stamp, about = line["timestamp"], line.get("data", {})
        at = stamp["seconds"] + stamp["microseconds"] / 1e6
        if line["event"] != "JOB_STATUS_CHANGE":
            say({"event": line["event"], "at": at} | about)
        mirrors.heard(monitor, line["event"], about)
    elif "error" in line:
        say({"complaint": line["error"]["desc"]})
    elif "status" in (line.get("return") or {}):
        say({"said": told(line["return"])})


def main(place: str, interval: str, *words: str) -> None:
    """Watch until the guest, or the one who reads this, is gone."""
    mirrors = Mirrors({word.partition("=")[2] for word in words if word.startswith("mirror=")})
    pids = [word for word in words if word.isdecimal()]
    monitor = Monitor(place)
    monitor.ask("qmp_capabilities")
    say({"watching": place, "cpus": os.cpu_count() or 1})
    while True:
        for line in monitor.lines(time.monotonic() + float(interval)):
            heard(monitor, line, mirrors)
        at, net = counted()
        say({"t": round(at, 4), "net": net, "cpu": threads(pids)})
        if not monitor.owed:
            monitor.ask("query-migrate")


if __name__ == "__main__":
    with suppress(BrokenPipeError, EOFError, ConnectionResetError):
        main(*sys.argv[1:])
