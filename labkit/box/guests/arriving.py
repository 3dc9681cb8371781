"""Waiting until a guest has moved, and helping it where it would not come to an end."""

import time
from dataclasses import dataclass, field
from typing import Any

from labkit.box.guests.move import Move
from labkit.box.guests.moving import LONGEST_STOP, WatchedMove
from labkit.errors import BoxError, EndedAfterMove, LabkitError, StayedBehind

ENDED = ("completed", "failed", "cancelled")


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
        while (said := self._said()).get("status") not in ENDED:
            self._progress(said)
            self._help(said)
            time.sleep(0.01)
        if said["status"] != "completed":
            raise StayedBehind(said.get("error-desc", f"QEMU says that it {said['status']}"))
        self._runs()
        return said

    # QEMU may say that it has ended a moment before it knows how long that took.
    def _said(self) -> dict[str, Any]:
        said = self.watched.latest(self.move.origin.name, self.asked)
        ended = said.get("status") == "completed" and not said.get("total-time")
        return {} if ended else said

    # Nobody hears that a link was cut, so that what does not go on is given up.
    def _progress(self, said: dict[str, Any]) -> None:
        if said.get("transferred", 0) != self.sent:
            self.sent, self.since = said.get("transferred", 0), time.monotonic()
        if time.monotonic() - self.since > self.move.patience:
            raise StayedBehind(
                f"nothing arrived for {self.move.patience:g} s",
                hint="is a link of its hosts cut? labkit box status shows them",
            )

    def _help(self, said: dict[str, Any]) -> None:
        move, how = self.move, self.move.how
        late = time.monotonic() - self.begun > how.deadline
        after_one = how.post_copy and said.get("dirty-sync-count", 0) >= 2
        if self.helped or said.get("status") != "active" or not (late or after_one):
            return
        self.helped = True
        if after_one or how.escape == "post-copy":
            move.qmp(move.origin, "migrate-start-postcopy")
        elif how.escape == "stop and copy":
            move.qmp(move.origin, "migrate-set-parameters", downtime_limit=LONGEST_STOP)
        elif how.escape == "throttle":
            hard = {"cpu_throttle_initial": 60, "cpu_throttle_increment": 20}
            move.qmp(move.origin, "migrate-set-parameters", **hard)
        else:
            raise StayedBehind(
                f"it did not converge within {how.deadline:g} s: the guest writes faster than "
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
