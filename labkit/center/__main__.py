"""The command line of what is packed: `make`, `serve`, `ask`, `list` and `reboot`.

`ask` is an administrator who logs in and lists, again and again, on both hosts; and pings machines.
Each line says what was asked, who answered (or who was asked), when it was asked and answered, and
the answer: `0` is none. It goes on until its input ends, and then says all of it.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from labkit.center import server
from labkit.center.server import CHANGE, MADE, OK, WEB

PROGRAMS = ("ping",)

PATIENCE = 2.0
"""Seconds after which an answer is none."""
INTERVAL = 0.1
CHANGES = 1.0
"""Seconds between two changes of the inventory."""


class Asking:
    """The questions of one thread to one host, and the lines that all of them write."""

    def __init__(self, host: str, lines: list[str], number: int, full: threading.Event) -> None:
        self.host, self.lines, self.wanted, self.full = host, lines, number, full
        self.changed = time.monotonic()

    def go_on(self, over: threading.Event) -> None:
        """Ask until it is over."""
        while not over.wait(INTERVAL):
            if self.ask("login")[0] != OK:
                continue
            code, reply = self.ask("list")
            if code == OK and int(reply["vms"]) >= self.wanted:
                self.full.set()
                self._change()

    def _change(self) -> None:
        if time.monotonic() - self.changed >= CHANGES:
            self.changed = time.monotonic()
            name = f"{CHANGE}{time.time_ns()}"
            if self.ask(f"change?name={name}")[0] == MADE:
                self.lines.append(f"changed {name}")

    def ask(self, page: str) -> tuple[int, Any]:
        """Ask once; without an answer the code is 0."""
        start, code, reply = time.time(), 0, {}
        wire = http.client.HTTPConnection(self.host, WEB, timeout=PATIENCE)
        with suppress(OSError, http.client.HTTPException, ValueError), closing(wire):
            wire.request("GET", f"/{page}")
            answer = wire.getresponse()
            reply = json.loads(answer.read())
            code = answer.status
        word, by, vms = page.partition("?")[0], reply.get("host", self.host), reply.get("vms", 0)
        self.lines.append(f"{word} {by} {start:.4f} {time.time():.4f} {code} {vms}")
        return code, reply


def ask(hosts: Sequence[str], number: int, machines: Sequence[str]) -> None:
    """Ask each host for `number` machines, and ping some others, until our input ends."""
    lines: list[str] = []
    over, full = threading.Event(), threading.Event()
    askers = [Asking(host, lines, number, full) for host in hosts]
    threads = [threading.Thread(target=asker.go_on, args=(over,)) for asker in askers]
    pings = [subprocess.Popen(["ping", "-n", "-D", "-i", str(INTERVAL), at], text=True,
                              stdout=subprocess.PIPE) for at in machines]  # fmt: skip
    for thread in threads:
        thread.start()
    full.wait()
    print("ready", flush=True)
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    print("\n".join(lines))
    for at, ping in zip(machines, pings):  # noqa: B905
        ping.send_signal(2)
        print(f"machine {at}", ping.communicate()[0], sep="\n")


def main(verb: str, words: Sequence[str]) -> None:
    """Do as the first word says."""
    if verb == "ask":
        number, hosts, machines = words
        ask(hosts.split(","), int(number), machines.split(","))
    elif verb in ("list", "reboot"):
        lines: list[str] = []
        code, reply = Asking(words[0], lines, 0, threading.Event()).ask(verb)
        print(code, *reply.get("changes", []), sep="\n")
    elif verb == "make":
        server.make(server.CenterPlace(*words[:5]), int(words[5]), int(words[6]))
    else:
        server.serve(server.CenterPlace(*words[:5]), words[5])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
