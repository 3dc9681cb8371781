"""A management server reboots on the host that it runs on, by a command."""

from dataclasses import dataclass
from typing import ClassVar

from labkit.event import Say
from labkit.events import _guarded
from labkit.events._outage import Outage, awaited
from labkit.lab import Lab
from labkit.workloads import _cluster

PROGRAMS = ("python3",)


@dataclass(frozen=True)
class ServerReboot(Outage):
    """The server of `host` ends, and starts again there; its cluster has nothing to do.

    A machine that a cluster of one's own guards reboots as a whole.
    """

    name: ClassVar[str] = "server_reboot"
    seconds: ClassVar[float] = 5.0
    """About how long a start takes."""
    host: str = "server"
    deadline: float = 120.0

    def happen(self, lab: Lab, say: Say) -> None:
        """Tell it, and wait until it is as before."""
        if _guarded.there(lab):
            _guarded.reboot(lab, say)
            return
        host = lab.host(self.host)
        at = float(host.check("date", "+%s.%N"))
        host.check(*_cluster.program(), "reboot", host.address)
        say(host=self.host, event="down", at=at)
        for event, when in awaited(host, at, self.deadline).items():
            say(host=self.host, event=event, at=when)

    def undo(self, lab: Lab) -> None:
        """It is as before."""
