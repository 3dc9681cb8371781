"""Network I/O Control of vSphere: how a distributed switch divides its uplinks by kind of traffic.

vCenter keeps it, and is asked by its API from this machine: a table `[hosts.vcenter]` has
`control = "local"`, and vCenter's name as its address. There too the journal is kept.
"""

import importlib
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.errors import BadInput, HostError, Impossible, Unknown
from labkit.fleet.vcenter import PORT, ROLE, USER, connected, kept_password, named
from labkit.host import Host
from labkit.setting import Details, Way
from labkit.settings._values import NAMING, name
from labkit.settings._ways import OnHost, one_of, whole
from labkit.transports.local import Local

KINDS = (
    "management", "faultTolerance", "vmotion", "virtualMachine", "iSCSI", "nfs", "hbr", "vsan",
    "vdp", "backupNfc", "nvmetcp", "provisioning",
)  # fmt: skip
"""Kinds of traffic that vCenter keeps apart, by its own names."""
POOL = re.compile(r"(\w+): (\d+) shares, (\d+) to (\d+|any) Mbit/s", re.ASCII)
NO_LIMIT = -1
"""Limit of vCenter that is none."""
PAUSE, DEADLINE = 0.1, 60.0


@dataclass(frozen=True)
class SwitchTraffic:
    """One kind of traffic of a switch: shares 1 to 100, rates in Mbit/s, 0 for no limit."""

    kind: str
    shares: int = 50
    reservation_mbit: int = 0
    limit_mbit: int = 0

    def __post_init__(self) -> None:
        one_of("kind of traffic", self.kind, KINDS)
        whole("shares", self.shares, 1, 100)
        whole("the reservation", self.reservation_mbit, 0, 400_000, "Mbit/s")
        whole("the limit", self.limit_mbit, 0, 400_000, "Mbit/s")
        if 0 < self.limit_mbit < self.reservation_mbit:
            raise BadInput(f"{self.kind} may not have less than is reserved for it")

    def __str__(self) -> str:
        limit = self.limit_mbit or "any"
        return f"{self.kind}: {self.shares} shares, {self.reservation_mbit} to {limit} Mbit/s"


class SwitchShares(OnHost):
    """Shares, reservations and limits of kinds of traffic of the distributed switch `switch`."""

    switch: str = field(metadata=NAMING | name("distributed switch"))
    traffic: tuple[SwitchTraffic, ...]
    role: str = field(default=ROLE, kw_only=True)  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.traffic or len(set(self.kinds_of_it)) < len(self.traffic):
            raise BadInput("SwitchShares needs some kinds of traffic, each once")

    @property
    def kinds_of_it(self) -> list[str]:
        """The kinds of traffic that it is about."""
        return sorted(share.kind for share in self.traffic)

    @property
    def wanted(self) -> str:
        """Each kind of traffic, in the order of the alphabet."""
        return "; ".join(sorted(map(str, self.traffic)))

    def on_linux(self, host: Host) -> Way:
        """By a program of labkit on this machine, which any process can run later."""
        if not isinstance(host.transport, Local):
            raise Impossible(f"{host.name} is reached by SSH, and vCenter by its API",
                             hint='control = "local", and vCenter as its address')  # fmt: skip
        ask = (sys.executable, "-m", "labkit.settings.switch", host.address, self.switch)
        return Way(
            (*ask, "show", *self.kinds_of_it), lambda value: ((*ask, "set", value),), str.strip,
            more=Details(persists=True, seconds=5),
        )  # fmt: skip


def shown(switch: Any, kinds: Sequence[str]) -> str:
    """The division of a switch of vCenter among these kinds of traffic."""
    has = {
        resource.key: resource.allocationInfo
        for resource in switch.config.infrastructureTrafficResourceConfig
    }
    if lacking := [kind for kind in kinds if kind not in has]:
        raise Unknown(f"kind of traffic of {switch.name}", lacking[0], has)
    texts = [
        SwitchTraffic(kind, has[kind].shares.shares, has[kind].reservation or 0,
                      max(0, has[kind].limit or 0))
        for kind in sorted(kinds)
    ]  # fmt: skip
    return "; ".join(map(str, texts))


def spec(value: str) -> list[Any]:
    """The same as vCenter's API has it."""
    dvs = importlib.import_module("pyVmomi").vim.DistributedVirtualSwitch
    of, shares = dvs.HostInfrastructureTrafficResource, importlib.import_module("pyVmomi").vim
    return [
        of(
            key=kind,
            allocationInfo=of.ResourceAllocation(
                limit=NO_LIMIT if limit == "any" else int(limit), reservation=int(reservation),
                shares=shares.SharesInfo(level="custom", shares=int(part)),
            ),
        )
        for kind, part, reservation, limit in POOL.findall(value)
    ]  # fmt: skip


def make(switch: Any, value: str) -> None:
    """Have it so, and wait until vCenter says that it is."""
    vim = importlib.import_module("pyVmomi").vim
    specification = vim.DistributedVirtualSwitch.ConfigSpec(
        configVersion=switch.config.configVersion, infrastructureTrafficResourceConfig=spec(value)
    )
    task, until = switch.ReconfigureDvs_Task(specification), time.monotonic() + DEADLINE
    while str(task.info.state) in ("queued", "running"):
        if time.monotonic() > until:
            raise HostError(f"vCenter has not changed {switch.name} after {DEADLINE:g} s")
        time.sleep(PAUSE)
    if str(task.info.state) != "success":
        raise HostError(f"vCenter did not change {switch.name}", said=str(task.info.error))


def main(address: str, switch: str, verb: str, *words: str) -> None:
    """Show or set, as the journal has it."""
    vim = importlib.import_module("pyVmomi").vim
    with connected(address, USER, kept_password(address), port=PORT) as session:
        switches = named(session, vim.DistributedVirtualSwitch, switch)
        make(switches, *words) if verb == "set" else print(shown(switches, words))


if __name__ == "__main__":
    main(*sys.argv[1:])
