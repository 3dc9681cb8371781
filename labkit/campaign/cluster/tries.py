"""One try at a point, as the store knows it: claimed once, alive while it beats, ended once.

The process that claims a try runs it. What became of it is said once and for good. If its beat
stands still, those who wait for the try end it as died. Whatever its own process says after that
comes too late. So a point is measured once, however often a task that names it begins.

points/0007-lat_ping-<key>/
    claim-1.json   who runs it, from when on
    beat-1.json    that it is alive, and how far it is
    stop-1.json    that it shall stop, and how often this was asked
    end-1.json     what became of it
    files/...      the notebook, its page, the answer and the log
    results/...    its runs, as they are kept on a disk
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from labkit.campaign.attempts import BEGUN, DIED, Attempt
from labkit.campaign.cluster.store import CampaignStore
from labkit.errors import ClusterError
from labkit.machine import records

BEAT_SECONDS, SILENCE_SECONDS = 5.0, 60.0
LOOK_SECONDS = 1.0
CLAIM, BEAT, STOP, END = "claim", "beat", "stop", "end"


@dataclass(frozen=True)
class Tried:
    """A try at a point; its `number` counts from 1, and each has records of its own."""

    store: CampaignStore
    point: str
    number: int

    @property
    def folder(self) -> str:
        """The folder of all records of its point."""
        return f"points/{self.point}"

    def claim(self, claimed: Attempt) -> bool:
        """Have it from now on, if nobody has it yet."""
        return self._create(CLAIM, claimed)

    def claimed(self) -> Attempt | None:
        """The attempt that has claimed it."""
        return self._attempt(CLAIM)

    def beat(self, count: int, said: str, seconds_left: float | None) -> None:
        """Be alive."""
        self._put(BEAT, {"count": count, "said": said, "seconds_left": seconds_left})

    def pulse(self) -> Mapping[str, Any]:
        """The last beat; empty before the first."""
        return self._fields(BEAT) or {}

    def ask_stop(self, times: int, why: str) -> None:
        """Ask the process that runs it to stop."""
        self._put(STOP, {"times": times, "why": why})

    def stop_asked(self) -> tuple[int, str]:
        """The number of requests to stop it, and the reason."""
        found = self._fields(STOP) or {}
        return int(found.get("times", 0)), str(found.get("why", ""))

    def end(self, attempt: Attempt) -> Attempt:
        """End it so, unless it has ended before; what it then came to counts."""
        if self._create(END, attempt):
            return attempt
        ended = self.ended()
        assert ended, "a name that is taken is never given back"
        return ended

    def ended(self) -> Attempt | None:
        """The outcome; None while it is at work, or if it was never begun."""
        return self._attempt(END)

    def outcome(self, silence: float = SILENCE_SECONDS, look: float = LOOK_SECONDS) -> Attempt:
        """Wait until somebody else's try has ended; one that falls silent has died."""
        seen: Mapping[str, Any] = {}
        since = time.monotonic()
        while (found := self.ended()) is None:
            if (now := self.pulse()) != seen:
                seen, since = now, time.monotonic()
            if (claimed := self.claimed()) is None:
                raise ClusterError(f"{self.point}: nobody has claimed try {self.number}")
            if why := _dead(claimed, time.monotonic() - since, silence):
                return self.end(claimed.ended(DIED, why))
            time.sleep(look)
        return found

    def _name(self, kind: str) -> str:
        return f"{self.folder}/{kind}-{self.number}.json"

    def _create(self, kind: str, attempt: Attempt) -> bool:
        return self.store.create(self._name(kind), records.pretty(asdict(attempt)))

    def _put(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.store.put(self._name(kind), json.dumps(fields).encode())

    def _fields(self, kind: str) -> dict[str, Any] | None:
        name = self._name(kind)
        whole = self.store.read(name)
        return None if whole is None else records.parse_json(whole, name)

    def _attempt(self, kind: str) -> Attempt | None:
        fields = self._fields(kind)
        return None if fields is None else Attempt(**fields)


# A process of this machine is seen to have ended; those of others are heard no more.
def _dead(claimed: Attempt, silent: float, silence: float) -> str:
    if claimed.state == BEGUN and not claimed.alive:
        return f"its process {claimed.pid} on {claimed.controller} was killed"
    if silent > silence:
        return f"{claimed.controller} has not been heard of for {silent:.0f} s"
    return ""
