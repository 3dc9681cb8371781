"""Waiting until a guest has moved, and helping it where it would not come to an end."""

import time
from dataclasses import dataclass, field
from typing import Any

from labkit.box.guests.move import Move
from labkit.box.guests.moving import LONGEST_STOP, WatchedMove
from labkit.errors import BoxError, EndedAfterMove, LabkitError, StayedBehind

ENDS = ("completed", "failed", "cancelled")


@dataclass
class AwaitedMove:
    """One migration that QEMU was asked for."""

    move: Move
    watched: WatchedMove
    asked: float
    """Time when it was asked for; anything said before is of an earlier migration."""
    sent: int = -1
    rounds: int = 0
    since: float = field(default_factory=time.monotonic)
    begun: float = field(default_factory=time.monotonic)
    helped: bool = False

    def end(self) -> dict[str, Any]:
        """Wait until the guest runs at the destination."""
        while (facts := self._facts()).get("status") not in ENDS:
            self._progress(facts)
            self._help(facts)
            time.sleep(0.01)
        if facts["status"] != "completed":
            raise StayedBehind(facts.get("error-desc", f"QEMU says that it {facts['status']}"))
        self._runs()
        return facts

    # QEMU may say that it has ended a moment before it knows how long that took.
    def _facts(self) -> dict[str, Any]:
        facts = self.watched.latest(self.move.origin.name, self.asked)
        incomplete = facts.get("status") == "completed" and not facts.get("total-time")
        return {} if incomplete else facts

    # Nobody hears that a link was cut, so that what does not go on is given up.
    def _progress(self, facts: dict[str, Any]) -> None:
        if facts.get("transferred", 0) != self.sent:
            self.sent, self.since = facts.get("transferred", 0), time.monotonic()
        if time.monotonic() - self.since > self.move.patience:
            raise StayedBehind(
                f"nothing arrived for {self.move.patience:g} s",
                hint="is a link of its hosts cut? labkit box status shows them",
            )

    def _help(self, facts: dict[str, Any]) -> None:
        move, manner = self.move, self.move.how
        late = time.monotonic() - self.begun > manner.deadline
        after_one = manner.post_copy and facts.get("dirty-sync-count", 0) >= 2
        if self.helped or facts.get("status") != "active" or not (late or after_one):
            return
        self.helped = True
        if after_one or manner.escape == "post-copy":
            move.qmp(move.origin, "migrate-start-postcopy")
        elif manner.escape == "stop and copy":
            move.qmp(move.origin, "migrate-set-parameters", downtime_limit=LONGEST_STOP)
        elif manner.escape == "throttle":
            hard = {"cpu_throttle_initial": 60, "cpu_throttle_increment": 20}
            move.qmp(move.origin, "migrate-set-parameters", **hard)
        else:
            raise StayedBehind(
                f"it did not converge within {manner.deadline:g} s: the guest writes faster than "
                "its memory goes over",
                hint='a longer deadline, a faster link, or another escape: "stop and copy", '
                '"post-copy", "throttle"',
            )

    def _runs(self) -> None:
        move, until = self.move, time.monotonic() + self.move.patience
        try:
            while move.qmp(move.to, "query-status")["status"] != "running":
                if time.monotonic() > until:
                    raise BoxError(f"{move.guest} arrived on {move.to.name} and does not run there")
                time.sleep(0.02)
            move.qmp(move.to, "announce-self", initial=10, max=100, rounds=5, step=20)
        except LabkitError as silent:
            if not self.watched.happened(move.to.name, "RESUME", self.asked):
                raise
            raise EndedAfterMove(
                f"{move.guest} resumed on {move.to.name}, then ended as in a power failure",
                said=str(silent), hint="labkit box up starts it there",
            ) from silent  # fmt: skip
