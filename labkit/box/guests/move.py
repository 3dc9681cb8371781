"""One guest on its way between two hosts of a box: what it needs of them."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.box.cgroup import ENVIRONMENT
from labkit.box.folder import Folder
from labkit.box.guests.moving import Hears, Moving
from labkit.box.layout import Layout
from labkit.errors import BoxError
from labkit.host import Host
from labkit.lab import Lab

PROGRAMS = ("nsenter",)


@dataclass(frozen=True)
class Move:
    """One guest that is on its way: where it is, where it goes, and how."""

    folder: Folder
    lab: Lab
    now: Layout
    then: Layout
    guest: str
    how: Moving
    hears: Hears
    patience: float

    @property
    def origin(self) -> Host:
        """The host where it runs."""
        return self.lab.host(self.now.on(self.guest))

    @property
    def to(self) -> Host:
        """The host where it is to run."""
        return self.lab.host(self.then.on(self.guest))

    def pid(self, role: str) -> int:
        """The process that holds the namespaces of a host, or of the switch."""
        return int(json.loads(self.folder.pids.read_text())[role])

    def switch(self, lines: str, *words: str) -> None:
        """Run ip in the network of the switch."""
        in_network(self.pid("switch"), lines, *words)

    def qmp(self, host: Host, command: str, **arguments: Any) -> Any:
        """Ask the monitor of its QEMU on a host; words of Python stand for those of QMP."""
        words = [json.dumps({key.replace("_", "-"): value for key, value in arguments.items()})]
        answer = host.check(
            "guest", f"@{self.guest}", "qmp", command, *(words if arguments else [])
        )
        return json.loads(answer)


def in_network(pid: int, lines: str, *words: str) -> str:
    """Run ip in the network of a process."""
    batch = [*words] if not lines else [*words, "-batch", "-"]
    return run(["nsenter", "-t", str(pid), "-n", "ip", *batch], lines)


def run(words: Sequence[str], text: str = "") -> str:
    """Run a command on this machine; it must succeed."""
    result = subprocess.run(
        list(words), input=text, capture_output=True, text=True, env=ENVIRONMENT
    )
    if result.returncode:
        raise BoxError(
            f"`{' '.join(words)}` ended with code {result.returncode}", said=result.stderr
        )
    return result.stdout
