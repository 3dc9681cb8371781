"""A guest moves to another host while it works: memory in rounds, then a moment of standing still.

Three drivers do it: QEMU by its monitor in a box, libvirt (`virsh migrate`) on hosts of one's own,
and vCenter where the lab has one. What they say is read in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from labkit.errors import StayedBehind
from labkit.event import Say, TimeLine
from labkit.events import _libvirt, _qemu, _seen, _vsphere
from labkit.events._move import AskedMove, note
from labkit.fleet import vcenter
from labkit.lab import Lab
from labkit.setting import Setting
from labkit.settings.egress import Link
from labkit.workload import Sample, Series

MEASURES = {
    "arrived share": "share", "migration time": "s", "switchover time": "s", "rounds": "1",
    "second pass": "s", "first round": "MiB", "downtime by QEMU": "s", "sent over memory": "share",
    "bandwidth": "Mbit/s", "share of line": "share", "cpu utilization": "share",
    "cpu of the helpers": "CPUs", "load before": "1/s", "depth": "share",
    "steady share": "share", "load while copying": "share", "work lost": "1",
    "recovery time": "s", "round 1 bandwidth": "Mbit/s",
    "round 3 bandwidth": "Mbit/s",
}  # fmt: skip


@dataclass(frozen=True)
class LiveMigration(AskedMove):
    """`guest` goes from the host `origin` to the host `to`, and back once the run has ended.

    `rate_mbit` and `rtt_ms` are those of the link between the two: a box makes one of its own. With
    libvirt a round trip is made by settings of both hosts, and put back. A rate alone is looked at,
    and refused where it is another. `escape` says what is done when it
    has not converged after `deadline` seconds. A move that was given up is a finished run, whose
    guest has not arrived.
    """

    measures: ClassVar[Mapping[str, str]] = MEASURES
    name: ClassVar[str] = "live_migration"
    seconds: ClassVar[float] = 10.0
    """About so long for a guest of some hundred MiB, there and back."""

    def happen(self, lab: Lab, say: Say) -> None:
        """Move the guest."""
        driver = _driver(lab).__name__.rpartition("_")[2]
        say(
            moves=self.guest, origin=self.origin, to=self.to, driver=driver,
            channels=self.channels, rate_mbit=self.rate_mbit, rtt_ms=self.rtt_ms,
        )  # fmt: skip
        try:
            _driver(lab).move(lab, self, say)
        except StayedBehind as stays:
            note(say, self.origin, _seen.FAILED, why=str(stays))

    def undo(self, lab: Lab) -> None:
        """Have the guest where it was before."""
        _driver(lab).back(lab, self)

    def settings(self, lab: Lab) -> tuple[Setting, ...]:
        """The two ends of the link, each with half of the round trip."""
        if not self.rtt_ms or _driver(lab) is not _libvirt:
            return ()
        half, ends = self.rtt_ms / 2, (self.origin, self.to)
        return tuple(Link(self.rate_mbit, half, role=end) for end in ends)

    def refusal(self, lab: Lab) -> str:
        """The reason why this lab cannot move the guest so."""
        return str(_driver(lab).refusal(lab, self))

    def impossible(self, lab: str) -> str:
        """The reason why no lab of this kind moves a guest so."""
        return _vsphere.lacking(self) if lab == "ESXi" else ""

    def unseen(self, lab: str) -> Mapping[str, str]:
        """The metrics of a move that vCenter does not tell."""
        hidden = set(MEASURES) - _vsphere.GIVES if lab == "ESXi" else ()
        return dict.fromkeys(sorted(hidden), _vsphere.SILENT)

    @staticmethod
    def succeeded(text: str) -> bool:
        """Whether the guest arrived."""
        return _seen.arrived(text)

    @staticmethod
    def time_line(text: str) -> TimeLine:
        """Its rounds, the time that the guest stood still, and what came after that."""
        return _seen.time_line(text)

    @staticmethod
    def parse(text: str, loads: Mapping[str, Series]) -> list[Sample]:
        """Samples of its duration, its speed, its cost, and its effect on the load."""
        return _seen.samples(text, loads)


def seen_over_time(text: str) -> Mapping[str, Series]:
    """Mbit/s that came in, and CPU of either side in percent of one, by the controller's clock."""
    return _seen.over_time(text)


# Each has `move`, `back` and `refusal`.
def _driver(lab: Lab) -> ModuleType:
    if lab.emulated:
        return _qemu
    return _vsphere if vcenter.ROLE in lab.hosts else _libvirt
