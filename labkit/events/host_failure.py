"""A host loses its power: all its processes and its link, as a cluster and its clients see it."""

from dataclasses import dataclass
from typing import ClassVar

from labkit.errors import HostError
from labkit.event import Say
from labkit.events import _guarded, _power, _vsphere
from labkit.events._outage import Outage, awaited
from labkit.fleet import vcenter
from labkit.lab import Lab
from labkit.workloads import _cluster
from labkit.workloads._guarded import PAIR

PROGRAMS = ("ip",)
NO_SERVER = "vSphere HA is seen by its events: labkit asks no management server that it guards"
VM = "guest"
"""The role of the virtual machine that a cluster of one's own starts elsewhere."""


@dataclass(frozen=True)
class HostFailure(Outage):
    """`host` is gone from one moment to the next; `standby` is to serve in its place."""

    name: ClassVar[str] = "host_failure"
    seconds: ClassVar[float] = 10.0
    """About how long it takes to detect, fence and start."""
    host: str = "server"
    standby: str = "server2"
    deadline: float = 120.0

    def happen(self, lab: Lab, say: Say) -> None:
        """Take its power, and wait until the other one serves."""
        if _guarded.there(lab):
            _guarded.fail_over(lab, say)
            return
        if not lab.emulated:
            self._happen_there(lab, say)
            return
        at = _cluster.off(lab.host(self.host))
        say(host=self.host, event="down", at=at)
        times = awaited(lab.host(self.standby), at, self.deadline)
        for event, when in sorted(times.items(), key=lambda pair: pair[1]):
            say(host=self.standby, event=event, at=when)

    # The cluster is its owner's: what it does is seen from its other host, by pings.
    def _happen_there(self, lab: Lab, say: Say) -> None:
        by = lab.host(self.standby)
        if not _power.answers(by, lab.host(VM).address, self.deadline):
            raise HostError(f"{VM} does not answer {self.standby} while all is well")
        begun = _vsphere.now(lab) if vcenter.ROLE in lab.hosts else None
        at = _power.off(lab, self.host)
        say(host=self.host, event="down", at=at, by="controller")
        for event, role, wanted in (("silent", self.host, False), ("lost", VM, False),
                                    ("answers", VM, True)):  # fmt: skip
            when = _power.answers(by, lab.host(role).address, self.deadline, wanted)
            if not when:
                raise HostError(
                    f"{role} was not seen: {event} after {self.deadline:g} s",
                    hint="has its cluster a resource for it, and a way to fence?",
                )
            say(host=role, event=event, at=when, by="controller")
        if begun:
            _vsphere.tell(lab, begun, at, say)

    def undo(self, lab: Lab) -> None:
        """Have its link as before, or its power; its software ended with that."""
        if _guarded.there(lab):
            _guarded.mend(lab)
            return
        if not lab.emulated:
            _power.on(lab, self.host, self.deadline)
            return
        host = lab.host(self.host)
        host.check("ip", "link", "set", host.interface, "up")

    def refusal(self, lab: Lab) -> str:
        """Hosts of one's own keep their power, unless the lab file names them."""
        roles = PAIR if _guarded.there(lab) else (self.host,)
        whys = (_power.refusal(lab, role) for role in roles)
        return "" if lab.emulated else next(filter(None, whys), "")

    def cuts_power(self, lab: Lab) -> tuple[str, ...]:
        """Either host that may run the machine of a cluster; in a box no host loses what it has."""
        return PAIR if _guarded.there(lab) else () if lab.emulated else (self.host,)

    def impossible(self, lab: str) -> str:
        """A box has a cluster, and an owner of KVM hosts may have one."""
        return NO_SERVER if lab == "ESXi" else ""
