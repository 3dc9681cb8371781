"""The way a guest of a box is to move, and what shows of the move meanwhile."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.box.network.link import LinkPlan
from labkit.errors import BadInput, BoxError, LabkitError, Unknown
from labkit.host import Host

PROGRAMS = ("python3",)

Hears = Callable[[Mapping[str, Any]], None]
"""Called with each line that the watchers of both hosts print, with its `host`."""
WATCHER = Path(__file__).with_name("watch_guest.py").read_text("utf-8")
INTERVAL = 0.1
MOST_CHANNELS = 255
AS_FAST_AS_IT_GOES = 10**12
"""Bytes a second; QEMU by itself stays at 1 Gbit/s."""
USUAL_DOWNTIME = 300
"""Milliseconds."""
LONGEST_STOP = 2_000_000
"""Milliseconds; more than QEMU takes as a limit."""
ESCAPES = ("give up", "stop and copy", "post-copy", "throttle")
WATCH_SECONDS = 3600.0


@dataclass(frozen=True)
class Moving:
    """Knobs of one migration; `channels` above 1 are QEMU's multifd.

    When it has not converged after `deadline` seconds, `escape` says what is done: give up, stop
    the guest and copy the rest, post-copy, or throttle the guest.
    """

    channels: int = 1
    throttle: bool = False
    """Whether the guest is slowed down from the start when it writes too fast (auto-converge)."""
    post_copy: bool = False
    """Whether the guest goes on at the destination after the first round."""
    disks: bool = False
    """Whether the content of its disks moves too, as where no storage is shared."""
    rate: str = ""
    """Of a link of its own between the two hosts, as "500 Mbit/s"."""
    delay: str = ""
    """Of that link, one way, as "2.5 ms"."""
    deadline: float = 60.0
    escape: str = "give up"

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= MOST_CHANNELS:
            legal = f"1 to {MOST_CHANNELS}"
            raise BadInput(f"a migration has {legal} channels, not {self.channels!r}")
        if not 0 < self.deadline <= WATCH_SECONDS:
            raise BadInput(f"a migration has 0 to {WATCH_SECONDS:g} s, not {self.deadline!r}")
        if self.escape not in ESCAPES:
            raise Unknown("way out of a migration that does not converge", self.escape, ESCAPES)
        if self.channels > 1 and self.may_post_copy:
            raise BadInput(
                "post-copy and several channels do not go together in QEMU 7.2",
                hint="use channels=1, or another escape",
            )

    @property
    def may_post_copy(self) -> bool:
        """Whether it goes on at the destination before its memory has come, at once or later."""
        return self.post_copy or self.escape == "post-copy"

    def link(self, role: str) -> LinkPlan | None:
        """The link of its own that it asks for, if any."""
        return LinkPlan(role, self.rate, self.delay) if self.rate or self.delay else None

    @property
    def able(self) -> dict[str, Any]:
        """QEMU's abilities that both sides switch on before it begins, by name."""
        states = {
            "multifd": self.channels > 1,
            "postcopy-ram": self.may_post_copy,
            "auto-converge": self.throttle or self.escape == "throttle",
            "pause-before-switchover": self.disks,
            "events": True,
        }
        capabilities = [{"capability": name, "state": state} for name, state in states.items()]
        return {"capabilities": capabilities}

    @property
    def limits(self) -> dict[str, int]:
        """The parameters that both sides set."""
        share = 20 if self.throttle else 1
        return {
            "max-bandwidth": AS_FAST_AS_IT_GOES,
            "multifd-channels": self.channels,
            "downtime-limit": USUAL_DOWNTIME,
            "cpu-throttle-initial": share,
            "cpu-throttle-increment": 10 if self.throttle else 1,
        }


AS_IT_COMES = Moving()


@dataclass
class WatchedMove:
    """The lines that the watchers of both hosts have printed so far, in order of arrival."""

    hears: Hears
    lines: list[dict[str, Any]] = field(default_factory=list)

    def latest(self, host: str, since: float) -> dict[str, Any]:
        """QEMU's last report of the migration on a host, after that time; {} if there is none."""
        for line in reversed(self.lines):
            if line["host"] == host and "said" in line:
                return dict(line["said"]) if line["t"] > since else {}
        return {}

    def happened(self, host: str, event: str, since: float) -> bool:
        """Whether QEMU on a host has reported such an event since then."""
        return any(
            line["host"] == host and line.get("event") == event and line["t"] > since
            for line in list(self.lines)
        )

    @contextmanager
    def on(self, host: Host, guest: str, *disks: str) -> Iterator[None]:
        """Watch the guest on one more host; mirrors of these disks end when it stands still."""
        pids = host.check("guest", f"@{guest}", "pids").split()
        socket = f"/run/labkit/guests/{guest}/run/watched"
        mirrors = (f"mirror={disk}" for disk in disks)
        words = ["python3", "-c", WATCHER, socket, str(INTERVAL), *pids, *mirrors]
        has_begun, has_ended = threading.Event(), threading.Event()

        def read() -> None:
            with suppress(LabkitError), host.stream(*words, seconds=WATCH_SECONDS) as streaming:
                for line in streaming:
                    if has_ended.is_set():
                        return
                    has_begun.set()
                    self._hear(host.name, line.stream, line.text)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            if not has_begun.wait(20):
                raise BoxError(f"{guest} on {host.name} cannot be watched: its monitor is silent")
            yield
        finally:
            has_ended.set()
            reader.join(5)

    def _hear(self, host: str, stream: str, text: str) -> None:
        try:
            facts = json.loads(text)
        except ValueError:
            facts = {"t": time.time(), "complaint": f"{stream}: {text}"}
        line = {"host": host, **facts}
        self.lines.append(line)
        self.hears(line)
